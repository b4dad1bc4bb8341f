/* series.c -- one field of one site over all steps, as two arrays; the steps of a run.
 *
 * Exists because this is what charts ask for, 100 000 points at a time.  Only the
 * columns that are needed are unpacked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
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
    return tt_chunk_read(tap->fd, tap->scan.size, (int32_t)(row - tap->index.row), entry, &run->scratch,
                         out);
}

/* Moves the entries of a product to the points that have it. */
static void spread(uint64_t *cells, uint32_t entries, const uint64_t *products, uint32_t product,
                   uint32_t n)
{
    for (uint32_t i = n; i > entries; i--)
        cells[i - 1] = (products[i - 1] & product) != 0 ? cells[--entries] : 0;
}

tt_status tt_run_cells(tt_run *run, const tt_chunk *chunk, const tt_column *columns, size_t count,
                       const uint64_t **cells)
{
    uint32_t n = chunk->entry.n, entries = n, product = 0;
    tt_status st = tt_grow(&run->cells, &run->cells_cap, (count + 1) * n, sizeof *run->cells);
    if (st < 0)
        return st;
    memset(run->cells, 0, n * sizeof *run->cells); /* shared by columns that are not in the chunk */
    for (size_t k = 0; st == TT_OK && k < count; k++) {
        uint64_t *of = run->cells + (k + 1) * n;
        cells[k] = run->cells;
        if (columns[k] == TT_COLUMN_COUNT_ || chunk->columns[columns[k]].at == NULL)
            continue;
        if (product != tt_column_kinds[columns[k]].product) { /* else as of the column before */
            product = tt_column_kinds[columns[k]].product;
            entries = tt_chunk_entries(cells[0], n, product);
        }
        if (entries == 0)
            continue;
        st = tt_chunk_column(chunk, columns[k], of, entries);
        spread(of, entries, cells[0], product, n);
        cells[k] = of;
    }
    return st;
}

tt_status tt_run_columns(tt_run *run, const tt_tap *tap, const tt_index_site *row,
                         const tt_index_chunk *entry, const tt_column *columns, size_t count,
                         const uint64_t **cells)
{
    tt_chunk chunk;
    tt_status st = tt_run_chunk(run, tap, row, entry, &chunk);
    return st == TT_OK ? tt_run_cells(run, &chunk, columns, count, cells) : st;
}

/* Values of the entries of one chunk; cells holds room for TT_STATS_DERIVED columns.  marks: a
 * number that is not finite, and a derived field of a tensor that held NaN or Inf, is
 * infinite; so NaN is left for what is undefined. */
static tt_status read_values(const tt_chunk *chunk, tt_field field, bool marks, uint64_t *cells,
                             uint32_t n, double *out)
{
    static const tt_column needed[] = { TT_STATS_COLUMN_MAP(TT_STATS_COLUMN) };
    const uint64_t *of[TT_STATS_DERIVED];
    tt_column column = (tt_column)fields[field].column;
    tt_status st = TT_OK;
    if (column < TT_COLUMN_COUNT_) {
        st = tt_chunk_column(chunk, column, cells, n);
        bool is_int = tt_column_kinds[column].type == TT_COLUMN_INT;
        for (uint32_t i = 0; st == TT_OK && i < n; i++) {
            out[i] = is_int ? (double)(int64_t)cells[i] : tt_f64_of(cells[i]);
            if (marks && field == TT_FIELD_SCALAR && !isfinite(out[i]))
                out[i] = (double)INFINITY;
        }
        return st;
    }
    for (size_t c = 0; st == TT_OK && c < TT_STATS_DERIVED; c++) {
        st = tt_chunk_column(chunk, needed[c], cells + c * n, n);
        of[c] = cells + c * n;
    }
    for (uint32_t i = 0; st == TT_OK && i < n; i++) {
        tt_stats s;
        tt_stats_of_cells(of, i, TT_STATS_DERIVED, &s);
        bool is_marked = marks && (s.nan | s.posinf | s.neginf) != 0;
        out[i] = is_marked ? (double)INFINITY : derived[field](&s);
    }
    return st;
}

/* Leaves the entries of these phases, of a chunk whose products are in run->cells; the
 * number of those is written to *entries. */
static tt_status keep_phases(tt_run *run, const tt_chunk *chunk, uint32_t product, uint32_t phases,
                             int64_t *steps, double *values, uint32_t *entries)
{
    uint32_t n = chunk->entry.n, entry = 0, kept = 0;
    tt_status st = tt_chunk_column(chunk, TT_COLUMN_PHASE, run->cells + n, n);
    for (uint32_t i = 0; st == TT_OK && i < n; i++) {
        if (product != 0 && (run->cells[i] & product) == 0)
            continue;
        if (tt_phases_hold(phases, run->cells[n + i])) {
            steps[kept] = steps[entry];
            values[kept++] = values[entry];
        }
        entry++;
    }
    *entries = kept;
    return st;
}

static tt_status read_series(tt_run *run, int32_t file, int32_t site, tt_field field, bool marks,
                             uint32_t phases, int64_t *steps, double *values, size_t cap, size_t *count,
                             size_t *left_out, tt_error *err)
{
    if (file < 0 || file >= run->count || (unsigned)field >= TT_FIELD_COUNT_)
        return tt_fail(err, TT_EINVAL, "no such file or field");
    const tt_tap *tap = run->taps[file];
    const tt_index_site *row = tt_run_row(run, file, site);
    uint32_t product = fields[field].product;
    size_t have = 0, read = 0;
    for (uint32_t k = 0; row != NULL && k < row->count; k++) {
        tt_chunk chunk;
        tt_status st = tt_run_chunk(run, tap, row, &row->chunks[k], &chunk);
        uint32_t n = row->chunks[k].n;
        if (st == TT_OK)
            st = tt_grow(&run->cells, &run->cells_cap, (size_t)n * (TT_STATS_DERIVED + 1),
                         sizeof *run->cells);
        if (st == TT_OK)
            st = tt_chunk_column(&chunk, TT_COLUMN_PRODUCTS, run->cells, n);
        uint32_t entries = st == TT_OK ? tt_chunk_entries(run->cells, n, product) : 0;
        if (st == TT_OK && entries > cap - have)
            return tt_fail(err, TT_EINVAL, "room for %zu points is not enough", cap);
        if (st == TT_OK && entries > 0)
            st = read_values(&chunk, field, marks, run->cells + n, entries, values + have);
        if (st == TT_OK && entries == n && steps != NULL) {
            st = tt_chunk_column(&chunk, TT_COLUMN_STEP, (uint64_t *)(void *)(steps + have), n);
        } else if (st == TT_OK && entries > 0 && steps != NULL) {
            st = tt_chunk_column(&chunk, TT_COLUMN_STEP, run->cells + n, n);
            for (uint32_t i = 0, at = 0; st == TT_OK && i < n; i++)
                if ((run->cells[i] & product) != 0)
                    steps[have + at++] = (int64_t)run->cells[n + i];
        }
        read += entries;
        if (st == TT_OK && entries > 0 && phases != TT_PHASES_ALL)
            st = keep_phases(run, &chunk, product, phases, steps + have, values + have, &entries);
        if (st < 0)
            return tt_tap_fail(tap, st, err, "points %lld and on of %.60s",
                               (long long)row->chunks[k].first, tt_run_site_name(run, site));
        have += entries;
    }
    *count = have;
    *left_out = read - have;
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
