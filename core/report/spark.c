/* spark.c -- numbers as a few characters: a histogram, and a field over the steps of a run.
 *
 * The bins of a histogram are logarithmic, so that they fit every tensor; a picture of a
 * distribution that people can read is linear.  Counts are drawn from zero up; over the steps
 * the lowest value of the run is the lowest block.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/glyph.h"

#include "store/run.h"

#include <math.h>
#include <stdlib.h>

enum { LEVELS = 8 };

static void put_level(tt_buf *out, size_t level, const tt_style *style)
{
    static const char *const blocks[LEVELS] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const ascii[LEVELS] = { "_", ".", ":", "-", "=", "+", "*", "#" };
    (void)tt_buf_text(out, style->is_ascii ? ascii[level] : blocks[level]);
}

/* Adds a count that is spread evenly over low to high, in cells. */
static void add_span(double *cells, size_t n, double low, double high, double count)
{
    double last = (double)n - 1;
    double first_cell = fmin(fmax(floor(low), 0), last), last_cell = fmin(fmax(floor(high), 0), last);
    if (first_cell == last_cell) {
        cells[(size_t)first_cell] += count;
        return;
    }
    for (size_t i = (size_t)first_cell; i <= (size_t)last_cell; i++) {
        double from = fmax(low, (double)i), to = fmin(high, (double)i + 1);
        if (to > from)
            cells[i] += count * ((to - from) / (high - low));
    }
}

size_t tt_spark_cells(const tt_hist_bin *bins, size_t count, double min, double max, bool is_whole,
                      double cells[TT_SPARK_CELLS])
{
    if (count == 0 || !(min < max) || !isfinite(min) || !isfinite(max))
        return 0;
    size_t n = TT_SPARK_CELLS;
    if (is_whole && max - min + 1 < (double)n)
        n = (size_t)(max - min + 1);
    double margin = is_whole ? 0.5 : 0; /* a whole number fills the room around it */
    min -= margin;
    max += margin;
    /* Keeps max - min finite for the largest numbers, and exact for the smallest. */
    double scale = fmax(fabs(min), fabs(max)) > 1 ? 0.25 : 4;
    double span = max * scale - min * scale;
    for (size_t i = 0; i < n; i++)
        cells[i] = 0;
    for (size_t i = 0; i < count; i++) {
        double low = bins[i].low, high = bins[i].high;
        if (is_whole && low < high) {
            low = low >= 0 ? ceil(low) - margin : floor(low) + margin;
            high = high > 0 ? ceil(high) - margin : floor(high) + margin;
        } else {
            low -= margin;
            high += margin;
        }
        low = fmin(fmax(low, min), max);
        high = fmin(fmax(high, min), max);
        double from = (low * scale - min * scale) / span * (double)n;
        double to = (high * scale - min * scale) / span * (double)n;
        add_span(cells, n, from, to, (double)bins[i].count);
    }
    return n;
}

tt_status tt_spark_append(const double *cells, size_t count, const tt_style *style, tt_buf *out)
{
    size_t from = out->len;
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, cells[i]);
    for (size_t i = 0; i < count; i++) /* an empty cell is 0; one with a few elements at least 1 */
        put_level(out, cells[i] > 0 ? 1 + (size_t)(cells[i] / most * (LEVELS - 2) + 0.5) : 0, style);
    if (out->st < 0)
        tt_buf_cut(out, from);
    return out->st;
}

static void draw(const double *values, size_t n, size_t cells, const tt_style *style, tt_buf *out)
{
    double mean[64], low = INFINITY, high = -INFINITY;
    if (cells > sizeof mean / sizeof *mean)
        cells = sizeof mean / sizeof *mean;
    if (cells > n)
        cells = n;
    for (size_t c = 0; c < cells; c++) {
        size_t from = n * c / cells, to = n * (c + 1) / cells;
        double sum = 0;
        for (size_t i = from; i < to; i++)
            sum += values[i] / (double)(to - from);
        mean[c] = sum;
        if (isfinite(sum)) {
            low = fmin(low, sum);
            high = fmax(high, sum);
        }
    }
    double span = high / 2 - low / 2; /* halves: their difference is finite */
    for (size_t c = 0; c < cells; c++) {
        if (!isfinite(mean[c])) {
            (void)tt_buf_text(out, "!");
            continue;
        }
        /* Rounding alone draws no mountains: a flat course stays in the middle. */
        bool is_flat = span <= 1e-7 * fmax(fabs(high), fabs(low));
        double part = is_flat ? 0.5 : (mean[c] / 2 - low / 2) / span;
        size_t level = (size_t)(fmin(fmax(part, 0), 1) * (LEVELS - 1) + (is_flat ? 0 : 0.5));
        put_level(out, level, style);
    }
}

tt_status tt_trend_append(tt_run *run, int32_t file, int32_t site, tt_field field, tt_phases phases,
                          size_t cells, const tt_style *style, tt_buf *out, size_t *left_out,
                          tt_error *err)
{
    size_t n = tt_run_points(run, file, site), from = out->len;
    if (left_out != NULL)
        *left_out = 0;
    if (n == 0 || cells == 0)
        return TT_OK;
    double *values = n < SIZE_MAX / sizeof *values ? malloc(n * sizeof *values) : NULL;
    tt_status st = values != NULL ? TT_OK : tt_fail_plain(err, TT_ENOMEM);
    size_t have = 0, others = 0;
    if (st == TT_OK) /* statistics leave NaN and Inf out; here they are what one looks for */
        st = tt_run_course(run, file, site, field, phases, values, n, &have, &others, err);
    if (st == TT_OK && have > 0)
        draw(values, have, cells, style, out);
    if (st == TT_OK && out->st < 0)
        st = tt_fail_plain(err, TT_ENOMEM);
    if (st < 0)
        tt_buf_cut(out, from);
    else if (left_out != NULL)
        *left_out = others;
    free(values);
    return st;
}
