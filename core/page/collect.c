/* collect.c -- reads every point of a run once and puts it into bins over the steps.
 *
 * Exists because a page cannot hold ten million points, and a chart cannot draw them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/collect.h"

#include "store/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum joining { MEAN, LEAST, MOST } joining;

static const struct {
    const char *name;
    joining how;
} columns[] = {
#define X(name_, text, how_) [TT_PAGE_##name_] = { text, how_ },
    TT_PAGE_COLUMN_MAP(X)
#undef X
};

bool tt_page_column_is_of(tt_page_column column, bool has_tensors)
{
    return (column >= TT_PAGE_MIN) == has_tensors;
}

const char *tt_page_column_name(tt_page_column column)
{
    return columns[column].name;
}

/* ---- the axis ---------------------------------------------------------------- */

void tt_page_axis_free(tt_page_axis *axis)
{
    free(axis->steps);
    *axis = (tt_page_axis){ 0 };
}

/* Every step from the first to the last of a run, or a few thousand of them: for runs whose steps
 * are too far apart, or too damaged, to be listed. */
static tt_status list_range(tt_run *run, int64_t **out, size_t *count)
{
    enum { MOST_LISTED = 4096 };
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file file;
        if (tt_run_file_get(run, f, &file) < 0 || file.last_step < file.first_step)
            continue;
        low = file.first_step < low ? file.first_step : low;
        high = file.last_step > high ? file.last_step : high;
    }
    uint64_t span = high >= low ? (uint64_t)high - (uint64_t)low : 0;
    size_t n = high < low ? 0 : span < MOST_LISTED ? (size_t)span + 1 : MOST_LISTED;
    int64_t *steps = malloc((n + 1) * sizeof *steps);
    if (steps == NULL)
        return TT_ENOMEM;
    for (size_t i = 0; i < n; i++)
        steps[i] = span < MOST_LISTED ? low + (int64_t)i
                                      : (int64_t)((uint64_t)low + span / (MOST_LISTED - 1) * i);
    *out = steps;
    *count = n;
    return TT_OK;
}

tt_status tt_page_axis_add(tt_page_axis *axis, tt_run *run, tt_error *err)
{
    size_t count = 0, have = 0;
    int64_t *steps = NULL, *joined = NULL; /* owned */
    tt_status st = tt_run_steps(run, NULL, 0, &count, err);
    if (st == TT_OK) {
        steps = malloc((count + 1) * sizeof *steps);
        st = steps != NULL ? tt_run_steps(run, steps, count, &count, err) : TT_ENOMEM;
    } else if (st == TT_EINVAL || st == TT_EFORMAT) {
        st = list_range(run, &steps, &count);
    }
    if (st == TT_OK)
        joined = malloc((count + axis->count + 1) * sizeof *joined);
    if (st == TT_OK && joined == NULL)
        st = TT_ENOMEM;
    for (size_t a = 0, b = 0; st == TT_OK && (a < axis->count || b < count);) {
        bool is_a = b == count || (a < axis->count && axis->steps[a] <= steps[b]);
        int64_t next = is_a ? axis->steps[a] : steps[b];
        b += !is_a || (b < count && steps[b] == next);
        a += is_a;
        joined[have++] = next;
    }
    free(steps);
    if (st < 0)
        return tt_fail(err, st, "%s", tt_status_text(st));
    free(axis->steps);
    *axis = (tt_page_axis){ joined, have };
    return TT_OK;
}

/* The number of the step on the axis: the last that is not above it.  Steps mostly ascend, so
 * the search begins where the last one ended. */
static size_t place_of(const tt_page_axis *axis, int64_t step, size_t *cursor)
{
    size_t at = *cursor < axis->count ? *cursor : 0;
    if (axis->steps[at] > step)
        at = 0;
    if (at + 1 < axis->count && axis->steps[at + 1] <= step) {
        size_t low = at + 1, high = axis->count;
        if (low + 1 < high && axis->steps[low + 1] > step)
            high = low + 1;
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            *(axis->steps[middle] <= step ? &low : &high) = middle;
        }
        at = low;
    }
    return *cursor = at;
}

/* ---- bins -------------------------------------------------------------------- */

void tt_page_bins_init(tt_page_bins *bins, const tt_page_axis *axis, bool has_tensors, size_t most)
{
    size_t width = (axis->count + most - 1) / most;
    *bins = (tt_page_bins){ .has_tensors = has_tensors, .width = width > 0 ? width : 1 };
    bins->bins = (axis->count + bins->width - 1) / bins->width;
}

void tt_page_bins_free(tt_page_bins *bins)
{
    for (size_t c = 0; c < TT_PAGE_COLUMN_COUNT_; c++)
        free(bins->cells[c]);
    free(bins->bad);
    free(bins->series);
    *bins = (tt_page_bins){ 0 };
}

static float join(joining how, float a, float b, float weight)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return how == MEAN ? a + (b - a) * weight : (how == LEAST) == (b < a) ? b : a;
}

void tt_page_bins_halve(tt_page_bins *bins)
{
    size_t half = (bins->bins + 1) / 2;
    for (size_t s = 0; s < bins->count; s++)
        for (size_t i = 0; i < half; i++) {
            size_t from = s * bins->bins + 2 * i, to = s * half + i;
            bool has_two = 2 * i + 1 < bins->bins;
            for (size_t c = 0; c < TT_PAGE_COLUMN_COUNT_; c++) {
                float *cells = bins->cells[c];
                if (cells != NULL)
                    cells[to] =
                        has_two ? join(columns[c].how, cells[from], cells[from + 1], 0.5f) : cells[from];
            }
            bins->bad[to] = (uint8_t)(bins->bad[from] | (has_two ? bins->bad[from + 1] : 0));
        }
    bins->bins = half;
    bins->width *= 2;
    for (size_t s = 0; s < bins->count; s++)
        bins->series[s].first = s * half;
}

/* Adds an empty series. */
static tt_status open_series(tt_page_bins *bins, int32_t file, int32_t site, bool is_eval)
{
    size_t first = bins->count * bins->bins, end = first + bins->bins;
    tt_status st = tt_grow(&bins->series, &bins->cap, bins->count + 1, sizeof *bins->series);
    for (tt_page_column c = 0; st == TT_OK && c < TT_PAGE_COLUMN_COUNT_; c++) {
        if (!tt_page_column_is_of(c, bins->has_tensors))
            continue;
        st = tt_grow(&bins->cells[c], &bins->cells_cap[c], end + 1, sizeof(float));
        for (size_t i = first; st == TT_OK && i < end; i++)
            bins->cells[c][i] = NAN;
    }
    if (st == TT_OK)
        st = tt_grow(&bins->bad, &bins->bad_cap, end + 1, 1);
    if (st < 0)
        return st;
    memset(bins->bad + first, 0, bins->bins);
    bins->series[bins->count++] =
        (tt_page_series){ .site = site, .file = file, .is_eval = is_eval, .first = first };
    return TT_OK;
}

/* One series while it is filled. */
typedef struct filling {
    size_t series; /* SIZE_MAX: none yet */
    size_t bin;    /* of the points that were added last ... */
    float points;  /* ... and their number, for the mean */
} filling;

static void put(tt_page_bins *bins, size_t at, tt_page_column column, double x, float weight)
{
    float *cell = &bins->cells[column][at];
    *cell = join(columns[column].how, *cell, (float)x, weight);
}

static void add_number(tt_page_bins *bins, size_t at, double x, float weight)
{
    if (!isfinite(x)) {
        bins->bad[at] |= isnan(x) ? TT_PAGE_NAN : TT_PAGE_INF;
        return;
    }
    put(bins, at, TT_PAGE_VALUE, x, weight);
    put(bins, at, TT_PAGE_LOW, x, weight);
    put(bins, at, TT_PAGE_HIGH, x, weight);
}

static void add_tensor(tt_page_bins *bins, size_t at, const tt_stats *s, float weight)
{
    bins->bad[at] |=
        (uint8_t)((s->nan > 0 ? TT_PAGE_NAN : 0) | ((s->posinf | s->neginf) != 0 ? TT_PAGE_INF : 0));
    double rms = tt_stats_rms(s);
    put(bins, at, TT_PAGE_MIN, s->min, weight);
    put(bins, at, TT_PAGE_MAX, s->max, weight);
    put(bins, at, TT_PAGE_MEAN, s->mean, weight);
    put(bins, at, TT_PAGE_STD, tt_stats_std(s), weight);
    put(bins, at, TT_PAGE_RMS, rms, weight);
    put(bins, at, TT_PAGE_RMS_LOW, rms, weight);
    put(bins, at, TT_PAGE_ZEROS, s->count > 0 ? (double)s->zeros / (double)s->count : (double)NAN,
        weight);
}

/* The columns of a chunk that the page needs, besides products, step and phase. */
static const tt_column wanted[] = { TT_COLUMN_COUNT,  TT_COLUMN_NAN,   TT_COLUMN_POSINF,
                                    TT_COLUMN_NEGINF, TT_COLUMN_ZEROS, TT_COLUMN_MIN,
                                    TT_COLUMN_MAX,    TT_COLUMN_MEAN,  TT_COLUMN_M2,
                                    TT_COLUMN_SUMSQ,  TT_COLUMN_DTYPE, TT_COLUMN_PROPAGATED };
enum { WANTED = sizeof wanted / sizeof *wanted, OF_POINTS = 3 };

static void read_stats(const uint64_t *cells, uint32_t n, uint32_t i, tt_stats *out)
{
    *out = (tt_stats){
        .count = tt_count_of(cells[i]),
        .nan = tt_count_of(cells[n + i]),
        .posinf = tt_count_of(cells[2 * n + i]),
        .neginf = tt_count_of(cells[3 * n + i]),
        .zeros = tt_count_of(cells[4 * n + i]),
        .min = tt_f64_of(cells[5 * n + i]),
        .max = tt_f64_of(cells[6 * n + i]),
        .mean = tt_f64_of(cells[7 * n + i]),
        .m2 = tt_f64_of(cells[8 * n + i]),
        .sumsq = tt_f64_of(cells[9 * n + i]),
        .dtype = (int32_t)cells[10 * n + i],
        .is_propagated = (int32_t)cells[11 * n + i],
    };
}

/* Unpacks the columns of a chunk into run->cells: those of all points, then those of the points
 * with statistics, then the numbers. */
static tt_status unpack(tt_run *run, const tt_chunk *chunk, uint32_t *with_stats, uint32_t *with_number)
{
    uint32_t n = chunk->n;
    tt_status st = tt_run_grow_cells(run, (size_t)n * (OF_POINTS + WANTED + 1));
    static const tt_column of_points[OF_POINTS] = { TT_COLUMN_PRODUCTS, TT_COLUMN_STEP, TT_COLUMN_PHASE };
    for (size_t c = 0; st == TT_OK && c < OF_POINTS; c++)
        st = tt_chunk_column(chunk, of_points[c], run->cells + c * n, n);
    if (st < 0)
        return st;
    uint64_t *at = run->cells + (size_t)OF_POINTS * n;
    *with_stats = tt_chunk_entries(run->cells, n, TT_PRODUCT_STATS);
    *with_number = tt_chunk_entries(run->cells, n, TT_PRODUCT_SCALAR);
    for (size_t c = 0; st == TT_OK && *with_stats > 0 && c < WANTED; c++)
        st = tt_chunk_column(chunk, wanted[c], at + c * *with_stats, *with_stats);
    if (st == TT_OK && *with_number > 0)
        st = tt_chunk_column(chunk, TT_COLUMN_SCALAR, at + (size_t)WANTED * n, *with_number);
    return st;
}

static tt_status add_chunk(tt_page_bins *bins, const tt_page_axis *axis, tt_run *run,
                           const tt_chunk *chunk, int32_t file, int32_t site, size_t *cursor,
                           filling fill[2])
{
    uint32_t n = chunk->n, with_stats = 0, with_number = 0, stat = 0, number = 0;
    tt_status st = unpack(run, chunk, &with_stats, &with_number);
    const uint64_t *cells = run->cells, *of_stats = cells + (size_t)OF_POINTS * n;
    for (uint32_t i = 0; st == TT_OK && i < n; i++) {
        bool has_stats = (cells[i] & TT_PRODUCT_STATS) != 0;
        bool has_number = (cells[i] & TT_PRODUCT_SCALAR) != 0;
        bool is_eval = tt_phases_hold(TT_PHASES_EVAL, cells[2 * (size_t)n + i]);
        uint32_t s = stat, k = number;
        stat += has_stats;
        number += has_number;
        if (!has_stats && (!has_number || bins->has_tensors))
            continue;
        filling *to = &fill[is_eval];
        if (to->series == SIZE_MAX) {
            to->series = bins->count;
            st = open_series(bins, file, site, is_eval);
            if (st < 0)
                break;
        }
        tt_page_series *series = &bins->series[to->series];
        size_t at = series->first + place_of(axis, (int64_t)cells[n + i], cursor) / bins->width;
        to->points = at == to->bin ? to->points + 1 : 1;
        to->bin = at;
        series->points++;
        tt_stats stats = { 0 };
        if (has_stats)
            read_stats(of_stats, with_stats, s, &stats);
        if (bins->has_tensors)
            add_tensor(bins, at, &stats, 1 / to->points);
        else if (has_number)
            add_number(bins, at, tt_f64_of(of_stats[(size_t)WANTED * n + k]), 1 / to->points);
        else
            add_number(bins, at,
                       stats.nan > 0      ? (double)NAN
                       : stats.posinf > 0 ? (double)INFINITY
                       : stats.neginf > 0 ? -(double)INFINITY
                                          : stats.mean,
                       1 / to->points);
    }
    return st;
}

tt_status tt_page_bins_add(tt_page_bins *bins, const tt_page_axis *axis, tt_run *run, int32_t file,
                           int32_t site, int64_t *lost)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    filling fill[2] = { { .series = SIZE_MAX, .bin = SIZE_MAX },
                        { .series = SIZE_MAX, .bin = SIZE_MAX } };
    size_t cursor = 0;
    for (uint32_t k = 0; axis->count > 0 && row != NULL && k < row->count; k++) {
        tt_chunk chunk;
        tt_status st = tt_run_chunk(run, run->taps[file], row, &row->chunks[k], &chunk);
        if (st == TT_OK)
            st = add_chunk(bins, axis, run, &chunk, file, site, &cursor, fill);
        if (st == TT_EFORMAT)
            *lost += row->chunks[k].n;
        else if (st < 0)
            return st;
    }
    return TT_OK;
}
