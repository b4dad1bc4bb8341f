/* series.c -- one field of one site over all steps, as two arrays; the steps of a run.
 *
 * Exists because this is what charts ask for, 100 000 points at a time.  Only the
 * columns that are needed are unpacked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "store/join/join.h"
#include "store/run.h"

#include <math.h>
#include <stdlib.h>

/* Fields that no column is: they follow from several. */
enum {
    TT_COLUMN_VAR = TT_COLUMN_COUNT_,
    TT_COLUMN_STD = TT_COLUMN_COUNT_,
    TT_COLUMN_L2 = TT_COLUMN_COUNT_,
    TT_COLUMN_RMS = TT_COLUMN_COUNT_
};

static const struct {
    const char *text;
    uint32_t product;
    int column; /* TT_COLUMN_COUNT_: none */
} fields[] = {
#define X(name, text_, product_) \
    [TT_FIELD_##name] = { text_, TT_PRODUCT_##product_, (int)TT_COLUMN_##name },
    TT_FIELD_MAP(X)
#undef X
};
_Static_assert(sizeof fields / sizeof *fields == TT_FIELD_COUNT_, "name every field");

static double (*const derived[TT_FIELD_COUNT_])(const tt_stats *) = {
    [TT_FIELD_VAR] = tt_stats_var,
    [TT_FIELD_STD] = tt_stats_std,
    [TT_FIELD_L2] = tt_stats_l2,
    [TT_FIELD_RMS] = tt_stats_rms,
};

const char *tt_field_name(tt_field field)
{
    return (unsigned)field < TT_FIELD_COUNT_ ? fields[field].text : NULL;
}

bool tt_field_find(const char *name, tt_field *out)
{
    for (size_t i = 0; i < TT_FIELD_COUNT_; i++)
        if (strcmp(fields[i].text, name) == 0) {
            *out = (tt_field)i;
            return true;
        }
    return false;
}

tt_status tt_run_chunk(tt_run *run, const tt_tap *tap, const tt_index_site *row,
                       const tt_index_chunk *entry, tt_chunk *out)
{
    if (tap->join != NULL)
        return tt_chunk_parse(out, tap->join->bytes.data + entry->at, entry->len);
    tt_status st = tt_chunk_read(tap->fd, tap->scan.size, (int32_t)(row - tap->index.row), entry,
                                 &run->scratch, out);
    return tt_run_miss(run, tap, st, entry->at, entry->len);
}

tt_status tt_run_cells(tt_run *run, const tt_chunk *chunk, const tt_column *columns, size_t count,
                       const uint64_t **cells)
{
    uint32_t n = chunk->entry.n;
    tt_status st = tt_grow(&run->cells, &run->cells_cap, (count + 1) * n, sizeof *run->cells);
    if (st < 0)
        return st;
    uint64_t *of[TT_COLUMN_COUNT_] = { NULL };
    memset(run->cells, 0, n * sizeof *run->cells); /* shared by columns that are not in the chunk */
    for (size_t k = 0; st == TT_OK && k < count; k++) {
        uint64_t *to = run->cells + (k + 1) * n;
        bool is_there = columns[k] != TT_COLUMN_COUNT_ && chunk->columns[columns[k]].at != NULL;
        if (is_there && k == 0) /* what the others depend on */
            st = tt_chunk_column(chunk, columns[k], NULL, to, &run->points.scratch);
        else if (is_there)
            to = of[columns[k]] = of[columns[k]] != NULL ? of[columns[k]] : to;
        cells[k] = is_there ? to : run->cells;
    }
    return st == TT_OK ? tt_chunk_numbers(chunk, cells[0], of, &run->points.scratch) : st;
}

tt_status tt_run_columns(tt_run *run, const tt_tap *tap, const tt_index_site *row,
                         const tt_index_chunk *entry, const tt_column *columns, size_t count,
                         const uint64_t **cells)
{
    tt_chunk chunk;
    tt_status st = tt_run_chunk(run, tap, row, entry, &chunk);
    return st == TT_OK ? tt_run_cells(run, &chunk, columns, count, cells) : st;
}

/* The value of point i.  marks: a number that is not finite, and a derived field of a tensor that
 * held NaN or Inf, is infinite; so NaN is left for what is undefined. */
static double value_of(tt_field field, bool marks, const uint64_t *const *cells, size_t i)
{
    tt_column column = (tt_column)fields[field].column;
    if (column < TT_COLUMN_COUNT_) {
        bool is_int = tt_column_kinds[column].type == TT_COLUMN_INT;
        double x = is_int ? (double)(int64_t)cells[0][i] : tt_f64_of(cells[0][i]);
        return marks && field == TT_FIELD_SCALAR && !isfinite(x) ? (double)INFINITY : x;
    }
    tt_stats s;
    tt_stats_of_cells(cells, i, TT_STATS_DERIVED, &s);
    bool is_marked = marks && (s.nan | s.posinf | s.neginf) != 0;
    return is_marked ? (double)INFINITY : derived[field](&s);
}

static tt_status read_series(tt_run *run, int32_t file, int32_t site, tt_field field, bool marks,
                             uint32_t phases, int64_t *steps, double *values, size_t cap, size_t *count,
                             size_t *left_out, tt_error *err)
{
    enum { PRODUCTS, PHASE, STEP, FIELD, READ = FIELD + TT_STATS_DERIVED };
    tt_column columns[READ] = { TT_COLUMN_PRODUCTS, TT_COLUMN_PHASE, TT_COLUMN_STEP,
                                TT_STATS_COLUMN_MAP(TT_STATS_COLUMN) };
    const uint64_t *cells[READ];
    if (file < 0 || file >= run->count || (unsigned)field >= TT_FIELD_COUNT_)
        return tt_fail(err, TT_EINVAL, "no such file or field");
    bool is_derived = fields[field].column == TT_COLUMN_COUNT_;
    if (!is_derived)
        columns[FIELD] = (tt_column)fields[field].column;
    const tt_tap *tap = run->taps[file];
    const tt_index_site *row = tt_run_row(run, file, site);
    uint32_t product = fields[field].product;
    size_t have = 0, others = 0;
    for (uint32_t k = 0; row != NULL && k < row->count; k++) {
        const tt_index_chunk *entry = &row->chunks[k];
        tt_status st =
            tt_run_columns(run, tap, row, entry, columns, is_derived ? READ : FIELD + 1, cells);
        if (st < 0)
            return tt_tap_fail(tap, st, err, "points %lld and on of %.60s", (long long)entry->first,
                               tt_run_site_name(run, site));
        for (uint32_t i = 0; i < entry->n; i++) {
            if (product != 0 && (cells[PRODUCTS][i] & product) == 0)
                continue;
            if (!tt_phases_hold(phases, cells[PHASE][i])) {
                others++;
                continue;
            }
            if (have == cap)
                return tt_fail(err, TT_EINVAL, "room for %zu points is not enough", cap);
            if (steps != NULL)
                steps[have] = (int64_t)cells[STEP][i];
            values[have++] = value_of(field, marks, cells + FIELD, i);
        }
    }
    *count = have;
    *left_out = others;
    return TT_OK;
}

tt_status tt_run_series(tt_run *run, int32_t file, int32_t site, tt_field field, int64_t *steps,
                        double *values, size_t cap, size_t *count, tt_error *err)
{
    size_t none;
    return read_series(run, file, site, field, false, TT_PHASES_ALL, steps, values, cap, count, &none,
                       err);
}

tt_status tt_run_course(tt_run *run, int32_t file, int32_t site, tt_field field, uint32_t phases,
                        double *values, size_t cap, size_t *count, size_t *left_out, tt_error *err)
{
    int64_t *steps = cap < SIZE_MAX / sizeof *steps ? malloc((cap + 1) * sizeof *steps) : NULL;
    size_t points = 0, kept = 0;
    tt_status st = steps != NULL ? TT_OK : tt_fail_plain(err, TT_ENOMEM);
    if (st == TT_OK)
        st =
            read_series(run, file, site, field, true, phases, steps, values, cap, &points, left_out, err);
    for (size_t i = 0; st == TT_OK && i < points;) {
        size_t end = i, defined = 0;
        double mean = 0;
        for (; end < points && steps[end] == steps[i]; end++)
            if (!isnan(values[end]))
                mean += (values[end] - mean) / (double)++defined;
        if (defined > 0)
            values[kept++] = isnan(mean) ? (double)INFINITY : mean; /* Inf and another Inf */
        i = end;
    }
    free(steps);
    if (st == TT_OK)
        *count = kept;
    return st;
}

/* ---- the steps of a run: the union over all sites and files ------------------ */

enum { SPAN_MAX = 1 << 29 }; /* 64 MB of bits; steps are counted, not dates */

static tt_status mark_chunk(tt_run *run, const tt_tap *tap, const tt_index_site *row,
                            const tt_index_chunk *entry, int64_t low, uint64_t span, uint64_t *bits)
{
    const uint64_t *steps;
    tt_status st = tt_run_columns(run, tap, row, entry, &(tt_column){ TT_COLUMN_STEP }, 1, &steps);
    for (uint32_t i = 0; st == TT_OK && i < entry->n; i++) {
        uint64_t at = steps[i] - (uint64_t)low;
        if (at <= span)
            bits[at / 64] |= UINT64_C(1) << at % 64;
    }
    return st;
}

/* True if all steps of a chunk are marked already: most sites have the same. */
static bool is_marked(const tt_index_chunk *entry, int64_t low, uint64_t span, const uint64_t *bits)
{
    uint64_t from = (uint64_t)entry->first_step - (uint64_t)low,
             to = (uint64_t)entry->last_step - (uint64_t)low;
    if (from > span || to > span || to < from || (to - from) / 64 > entry->n)
        return false; /* of so few points in so many steps: unpacking takes less time */
    for (uint64_t at = from; at <= to; at++) {
        if (at % 64 == 0 && to - at >= 63 && bits[at / 64] == UINT64_MAX)
            at += 63;
        else if ((bits[at / 64] >> at % 64 & 1) == 0)
            return false;
    }
    return true;
}

tt_status tt_run_steps(tt_run *run, int64_t *steps, size_t cap, size_t *count, tt_error *err)
{
    int64_t low = tt_run_totals(run).first_step, high = tt_run_totals(run).last_step;
    if (high < low) {
        *count = 0;
        return TT_OK;
    }
    uint64_t span = (uint64_t)high - (uint64_t)low;
    if (span > SPAN_MAX)
        return tt_fail(err, TT_EINVAL, "steps from %lld to %lld are too far apart to list",
                       (long long)low, (long long)high);
    uint64_t *bits = calloc(span / 64 + 1, sizeof *bits);
    tt_status st = bits != NULL ? TT_OK : TT_ENOMEM;
    const tt_tap *tap = NULL;
    for (int32_t f = 0; st == TT_OK && f < run->count; f++) {
        tap = run->taps[f];
        for (int32_t s = 0; st == TT_OK && s < tap->index.count; s++) {
            const tt_index_site *row = &tap->index.row[s];
            for (uint32_t k = 0; st == TT_OK && k < row->count; k++)
                if (!is_marked(&row->chunks[k], low, span, bits))
                    st = mark_chunk(run, tap, row, &row->chunks[k], low, span, bits);
        }
    }
    size_t have = 0;
    for (uint64_t word = 0; st == TT_OK && word <= span / 64; word++)
        for (uint64_t rest = bits[word]; rest != 0; rest &= rest - 1, have++)
            if (have < cap)
                steps[have] = low + (int64_t)(word * 64 + (uint64_t)__builtin_ctzll(rest));
    free(bits);
    if (st < 0)
        return tap != NULL ? tt_tap_fail(tap, st, err, "the steps") : tt_fail_plain(err, st);
    *count = have;
    return TT_OK;
}
