/* trend.c -- the course of a number over the steps, as a few characters.
 *
 * Exists apart from spark.c because there counts are drawn, from zero up; here the
 * lowest value of the run is the lowest block.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "store/run.h"

#include <math.h>
#include <stdlib.h>

static tt_status draw(const double *values, size_t n, size_t cells, const tt_style *style, tt_buf *out)
{
    enum { LEVELS = 8 };
    static const char *const blocks[LEVELS] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const ascii[LEVELS] = { "_", ".", ":", "-", "=", "+", "*", "#" };
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
    tt_status st = TT_OK;
    double span = high / 2 - low / 2; /* halves: their difference is finite */
    for (size_t c = 0; st == TT_OK && c < cells; c++) {
        if (!isfinite(mean[c])) {
            st = tt_buf_text(out, "!");
            continue;
        }
        /* Rounding alone draws no mountains: a flat course stays in the middle. */
        bool is_flat = span <= 1e-7 * fmax(fabs(high), fabs(low));
        double part = is_flat ? 0.5 : (mean[c] / 2 - low / 2) / span;
        size_t level = (size_t)(fmin(fmax(part, 0), 1) * (LEVELS - 1) + (is_flat ? 0 : 0.5));
        st = tt_buf_text(out, style->is_ascii ? ascii[level] : blocks[level]);
    }
    return st;
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
    tt_status st = values != NULL ? TT_OK : tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    size_t have = 0, others = 0;
    if (st == TT_OK) /* statistics leave NaN and Inf out; here they are what one looks for */
        st = tt_run_course(run, file, site, field, phases, values, n, &have, &others, err);
    if (st == TT_OK && have > 0 && draw(values, have, cells, style, out) < 0)
        st = tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    if (st < 0)
        tt_buf_cut(out, from);
    else if (left_out != NULL)
        *left_out = others;
    free(values);
    return st;
}
