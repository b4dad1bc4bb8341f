/* anomaly.c -- what is odd about a site of a run.
 *
 * Exists so that a person sees trouble without reading a tree of a thousand lines.
 * Looks at the first and the latest point only: a run is not scanned for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"

#include <math.h>
#include <string.h>

static const double EXPLODES = 1000; /* times its first root mean square, and above 1 */

static const char *const texts[] = {
#define X(name, text) [TT_ANOMALY_##name] = text,
    TT_ANOMALY_MAP(X)
#undef X
};
_Static_assert(sizeof texts / sizeof *texts == TT_ANOMALY_COUNT_, "name every anomaly");

const char *tt_anomaly_text(tt_anomaly anomaly)
{
    return (unsigned)anomaly < TT_ANOMALY_COUNT_ ? texts[anomaly] : "";
}

bool tt_site_is_shown(const char *name, const char *glob)
{
    static const char ours[] = "tensortap/";
    if (glob != NULL && strncmp(glob, ours, strlen(ours)) == 0)
        return tt_glob_match(glob, name);
    return strncmp(name, ours, strlen(ours)) != 0 && (glob == NULL || tt_glob_match(glob, name));
}

/* The sums of the first point with statistics; false: there is none. */
static tt_status read_first(tt_run *run, int32_t file, int32_t site, bool *found, double *sum,
                            double *sumsq)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    *found = false;
    if (row == NULL || row->count == 0)
        return TT_OK;
    tt_chunk chunk;
    tt_status st = tt_run_chunk(run, run->taps[file], row, &row->chunks[0], &chunk);
    if (st == TT_OK)
        st = tt_run_grow_cells(run, (size_t)chunk.n * 2);
    if (st == TT_OK)
        st = tt_chunk_column(&chunk, TT_COLUMN_PRODUCTS, run->cells, chunk.n);
    uint32_t n = st == TT_OK ? tt_chunk_entries(run->cells, chunk.n, TT_PRODUCT_STATS) : 0;
    if (n == 0)
        return st;
    st = tt_chunk_column(&chunk, TT_COLUMN_SUM, run->cells, n);
    memcpy(sum, run->cells, sizeof *sum);
    if (st == TT_OK)
        st = tt_chunk_column(&chunk, TT_COLUMN_SUMSQ, run->cells, n);
    memcpy(sumsq, run->cells, sizeof *sumsq);
    *found = st == TT_OK;
    return st;
}

tt_status tt_run_anomalies(tt_run *run, int32_t file, int32_t site, uint32_t *out, tt_point *latest,
                           tt_error *err)
{
    uint32_t found = 0;
    int64_t index;
    tt_point point = { .ndim = -1, .scalar = NAN };
    size_t points = tt_run_points(run, file, site);
    tt_status st = tt_run_first_nonfinite(run, file, site, &index, err);
    if (st == TT_OK && points > 0)
        st = tt_run_point(run, file, site, -1, &point, err);
    if (st < 0)
        return st;
    if (index >= 0)
        found |= 1u << TT_ANOMALY_NONFINITE;
    const tt_stats *s = &point.stats;
    const char *name = tt_run_site_name(run, site);
    bool is_parameter = strncmp(name, "parameter/", strlen("parameter/")) == 0;
    if ((point.products & TT_PRODUCT_STATS) != 0 && points > 1) {
        bool has_first;
        double sum = 0, sumsq = 0;
        st = read_first(run, file, site, &has_first, &sum, &sumsq);
        if (st < 0)
            return tt_fail(err, st, "%.200s: %s", name, tt_status_text(st));
        int64_t n = tt_stats_finite(s);
        if (n > 0 && s->zeros == s->count)
            found |= 1u << TT_ANOMALY_ALL_ZERO;
        else if (has_first && is_parameter && s->sum == sum && s->sumsq == sumsq)
            found |= 1u << TT_ANOMALY_UNCHANGED;
        if (has_first && n > 0 && sumsq > 0 && s->sumsq > (double)n &&
            s->sumsq > EXPLODES * EXPLODES * sumsq)
            found |= 1u << TT_ANOMALY_EXPLODING;
    }
    *out = found;
    *latest = point;
    return TT_OK;
}
