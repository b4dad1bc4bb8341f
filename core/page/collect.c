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
    int64_t low = tt_run_totals(run).first_step, high = tt_run_totals(run).last_step;
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
        return tt_fail_plain(err, st);
    free(axis->steps);
    *axis = (tt_page_axis){ joined, have, have, false };
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

/* Has the axis every step from first to last? */
static bool has_all(const tt_page_axis *axis, int64_t first, int64_t last)
{
    size_t cursor = axis->count > 0 ? axis->count - 1 : 0, at;
    if (axis->count == 0 || first < axis->steps[0])
        return false;
    at = place_of(axis, first, &cursor);
    uint64_t span = (uint64_t)last - (uint64_t)first;
    return axis->steps[at] == first && span < axis->count - at && axis->steps[at + span] == last;
}

/* Adds a step behind the last.  One between others would move all bins: it is only noted. */
static tt_status add_step(tt_page_axis *axis, int64_t step)
{
    if (axis->count > 0 && step <= axis->steps[axis->count - 1]) {
        axis->is_late |= !has_all(axis, step, step);
        return TT_OK;
    }
    tt_status st = tt_grow(&axis->steps, &axis->cap, axis->count + 1, sizeof *axis->steps);
    if (st == TT_OK)
        axis->steps[axis->count++] = step;
    return st;
}

tt_status tt_page_axis_follow(tt_page_axis *axis, tt_run *run, int32_t file, int32_t site,
                              const tt_page_progress *progress)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    tt_status st = TT_OK;
    for (uint32_t k = row != NULL ? tt_index_from(row, progress->points) : 0;
         row != NULL && k < row->count; k++) {
        const tt_index_chunk *entry = &row->chunks[k];
        const uint64_t *steps;
        if (has_all(axis, entry->first_step, entry->last_step))
            continue; /* most sites have the same steps */
        st = tt_run_columns(run, run->taps[file], row, entry, &(tt_column){ TT_COLUMN_STEP }, 1, &steps);
        for (uint32_t i = 0; st == TT_OK && i < entry->n; i++)
            if (entry->first + i >= progress->points)
                st = add_step(axis, (int64_t)steps[i]);
        if (st < 0 && st != TT_EFORMAT)
            return st;
    }
    return TT_OK;
}

/* ---- bins -------------------------------------------------------------------- */

void tt_page_bins_init(tt_page_bins *bins, const tt_page_axis *axis, bool has_tensors, size_t most,
                       bool may_grow)
{
    size_t width = (axis->count + most - 1) / most;
    *bins =
        (tt_page_bins){ .has_tensors = has_tensors, .width = width > 0 ? width : 1, .lowest = SIZE_MAX };
    bins->bins = (axis->count + bins->width - 1) / bins->width;
    bins->room = may_grow ? most : bins->bins;
}

void tt_page_bins_free(tt_page_bins *bins)
{
    for (size_t c = 0; c < TT_PAGE_COLUMN_COUNT_; c++)
        free(bins->cells[c]);
    free(bins->bad);
    free(bins->times);
    free(bins->series);
    *bins = (tt_page_bins){ 0 };
}

void tt_page_bins_fit(tt_page_bins *bins, const tt_page_axis *axis)
{
    while ((axis->count + bins->width - 1) / bins->width > bins->room)
        tt_page_bins_halve(bins);
    bins->bins = (axis->count + bins->width - 1) / bins->width;
}

void tt_page_bins_mark(tt_page_bins *bins, uint64_t generation)
{
    size_t before = bins->marked;
    bins->marks[generation % TT_PAGE_MARKS].lowest = bins->lowest;
    bins->marks[generation % TT_PAGE_MARKS].count = before;
    bins->marked = bins->count;
    bins->lowest = SIZE_MAX;
}

static float join(joining how, float a, float b, float weight)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return how == MEAN ? a + (b - a) * weight : (how == LEAST) == (b < a) ? b : a;
}

/* Empties bins of a series. */
static void clear(tt_page_bins *bins, size_t series, size_t from, size_t to)
{
    size_t first = series * bins->room;
    for (size_t c = 0; c < TT_PAGE_COLUMN_COUNT_; c++)
        for (size_t i = from; bins->cells[c] != NULL && i < to; i++)
            bins->cells[c][first + i] = NAN;
    if (to > from)
        memset(bins->bad + first + from, 0, to - from);
}

void tt_page_bins_halve(tt_page_bins *bins)
{
    size_t half = (bins->bins + 1) / 2;
    for (size_t s = 0; s < bins->count; s++)
        for (size_t i = 0; i < half; i++) {
            size_t from = s * bins->room + 2 * i, to = s * bins->room + i;
            bool has_two = 2 * i + 1 < bins->bins;
            for (size_t c = 0; c < TT_PAGE_COLUMN_COUNT_; c++) {
                float *cells = bins->cells[c];
                if (cells != NULL)
                    cells[to] =
                        has_two ? join(columns[c].how, cells[from], cells[from + 1], 0.5f) : cells[from];
            }
            bins->bad[to] = (uint8_t)(bins->bad[from] | (has_two ? bins->bad[from + 1] : 0));
        }
    for (size_t s = 0; s < bins->count; s++) {
        clear(bins, s, half, bins->bins);
        bins->series[s].bin /= 2;
    }
    for (size_t i = 0; i < half && bins->times != NULL; i++) {
        int64_t second = 2 * i + 1 < bins->bins ? bins->times[2 * i + 1] : INT64_MAX;
        bins->times[i] = bins->times[2 * i] < second ? bins->times[2 * i] : second;
    }
    for (size_t i = half; i < bins->bins && bins->times != NULL; i++)
        bins->times[i] = INT64_MAX;
    bins->bins = half;
    bins->width *= 2;
}

/* Makes room for the times of all bins. */
static tt_status keep_times(tt_page_bins *bins)
{
    size_t before = bins->times_cap;
    tt_status st = tt_grow(&bins->times, &bins->times_cap, bins->room + 1, sizeof *bins->times);
    for (size_t i = before; st == TT_OK && i < bins->times_cap; i++)
        bins->times[i] = INT64_MAX;
    bins->started = before == 0 ? INT64_MAX : bins->started;
    return st;
}

static void note_time(tt_page_bins *bins, size_t bin, int64_t time)
{
    bins->times[bin] = time < bins->times[bin] ? time : bins->times[bin];
    bins->started = time < bins->started ? time : bins->started;
}

/* Adds an empty series. */
static tt_status open_series(tt_page_bins *bins, int32_t file, int32_t site, bool is_eval)
{
    size_t end = (bins->count + 1) * bins->room;
    tt_status st = tt_grow(&bins->series, &bins->cap, bins->count + 1, sizeof *bins->series);
    for (tt_page_column c = 0; st == TT_OK && c < TT_PAGE_COLUMN_COUNT_; c++)
        if (tt_page_column_is_of(c, bins->has_tensors))
            st = tt_grow(&bins->cells[c], &bins->cells_cap[c], end + 1, sizeof(float));
    if (st == TT_OK)
        st = tt_grow(&bins->bad, &bins->bad_cap, end + 1, 1);
    if (st == TT_OK && !bins->has_tensors)
        st = keep_times(bins);
    if (st < 0)
        return st;
    clear(bins, bins->count, 0, bins->room);
    bins->series[bins->count++] =
        (tt_page_series){ .site = site, .file = file, .is_eval = is_eval, .bin = SIZE_MAX };
    return TT_OK;
}

static void put(tt_page_bins *bins, size_t at, tt_page_column column, double x, float weight)
{
    float *cell = &bins->cells[column][at];
    *cell = join(columns[column].how, *cell, (float)x, weight);
}

static void add_number(tt_page_bins *bins, size_t at, double x, float weight)
{
    if (!isfinite(x)) {
        bins->bad[at] |= isnan(x) ? TT_PAGE_NAN : TT_PAGE_INF;
        bins->alarms++;
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
    bins->alarms += (s->nan | s->posinf | s->neginf) != 0;
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

/* The bin of a point in its series, which is opened with its first point. */
static tt_status find_bin(tt_page_bins *bins, tt_page_progress *progress, int32_t file, int32_t site,
                          bool is_eval, size_t at_step, size_t *at, float *weight)
{
    if (progress->series[is_eval] == 0) {
        tt_status st = open_series(bins, file, site, is_eval);
        if (st < 0)
            return st;
        progress->series[is_eval] = (int32_t)bins->count;
    }
    size_t number = (size_t)progress->series[is_eval] - 1, bin = at_step / bins->width;
    tt_page_series *series = &bins->series[number];
    series->points = bin == series->bin ? series->points + 1 : 1;
    series->bin = bin;
    bins->lowest = at_step < bins->lowest ? at_step : bins->lowest;
    *at = number * bins->room + bin;
    *weight = 1 / series->points;
    return TT_OK;
}

static tt_status add_chunk(tt_page_bins *bins, const tt_page_axis *axis, tt_run *run, int32_t file,
                           int32_t site, const tt_index_chunk *entry, tt_page_progress *progress,
                           size_t *cursor)
{
    enum { PRODUCTS, STEP, PHASE, NUMBER, STATS, TIME = STATS + TT_STATS_ALL, READ };
    static const tt_column read[READ] = { TT_COLUMN_PRODUCTS, TT_COLUMN_STEP, TT_COLUMN_PHASE,
                                          TT_COLUMN_SCALAR,
                                          TT_STATS_COLUMN_MAP(TT_STATS_COLUMN)
                                              TT_STATS_MORE_MAP(TT_STATS_COLUMN) TT_COLUMN_TIME };
    const uint64_t *cells[READ];
    tt_status st = tt_run_columns(run, run->taps[file], tt_run_row(run, file, site), entry, read,
                                  bins->has_tensors ? TIME : READ, cells);
    for (uint32_t i = 0; st == TT_OK && i < entry->n; i++) {
        bool has_stats = (cells[PRODUCTS][i] & TT_PRODUCT_STATS) != 0;
        bool has_number = (cells[PRODUCTS][i] & TT_PRODUCT_SCALAR) != 0;
        bool is_eval = tt_phases_hold(TT_PHASES_EVAL, cells[PHASE][i]);
        if (entry->first + i < progress->points || (!has_stats && (!has_number || bins->has_tensors)))
            continue;
        size_t at;
        float weight;
        st = find_bin(bins, progress, file, site, is_eval,
                      place_of(axis, (int64_t)cells[STEP][i], cursor), &at, &weight);
        if (st < 0)
            break;
        if (!bins->has_tensors)
            note_time(bins, at % bins->room, (int64_t)cells[TIME][i]);
        tt_stats stats;
        tt_stats_of_cells(cells + STATS, i, TT_STATS_ALL, &stats);
        if (bins->has_tensors)
            add_tensor(bins, at, &stats, weight);
        else if (has_number)
            add_number(bins, at, tt_f64_of(cells[NUMBER][i]), weight);
        else
            add_number(bins, at,
                       stats.nan > 0      ? (double)NAN
                       : stats.posinf > 0 ? (double)INFINITY
                       : stats.neginf > 0 ? -(double)INFINITY
                                          : stats.mean,
                       weight);
    }
    return st;
}

tt_status tt_page_bins_add(tt_page_bins *bins, const tt_page_axis *axis, tt_run *run, int32_t file,
                           int32_t site, tt_page_progress *progress, int64_t *lost)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    size_t cursor = axis->count > 0 && progress->points > 0 ? axis->count - 1 : 0;
    if (axis->count == 0 || row == NULL)
        return TT_OK;
    for (uint32_t k = tt_index_from(row, progress->points); k < row->count; k++) {
        tt_status st = add_chunk(bins, axis, run, file, site, &row->chunks[k], progress, &cursor);
        if (st == TT_EFORMAT)
            *lost += row->chunks[k].n;
        else if (st < 0)
            return st;
        progress->points = row->chunks[k].first + row->chunks[k].n;
    }
    return TT_OK;
}
