/* spark.c -- a histogram as a few characters.
 *
 * Exists because the bins are logarithmic, so that they fit every tensor, and
 * a picture of a distribution that people can read is linear.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/spark.h"

#include <assert.h>
#include <math.h>

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
    enum { LEVELS = 8 };
    static const char *const blocks[LEVELS] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const ascii[LEVELS] = { "_", ".", ":", "-", "=", "+", "*", "#" };
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, cells[i]);
    size_t from = out->len;
    for (size_t i = 0; i < count; i++) {
        size_t level = 0; /* empty; from a few elements on at least 1 */
        if (cells[i] > 0)
            level = 1 + (size_t)(cells[i] / most * (LEVELS - 2) + 0.5);
        assert(level < LEVELS);
        tt_status st = tt_buf_text(out, style->is_ascii ? ascii[level] : blocks[level]);
        if (st < 0) {
            tt_buf_cut(out, from);
            return st;
        }
    }
    return TT_OK;
}
