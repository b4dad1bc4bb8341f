/* join_series.c -- joins the whole series of a site at once, where all ranks recorded alike.
 *
 * Exists because of a thousand files most have the same steps and a placement that never changes: part by part their
 * columns are added to the sums of all steps, so that a file is read once and nothing is sorted.  Everything else
 * (missing parts, replicas that differ, histograms, numbers) is for join_row.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join_parts.h"

#include <stdlib.h>
#include <string.h>

typedef struct series {
    const tt_gathering *g;
    tt_holding *parts;           /* owned; by class, with the shape of their points */
    int32_t *files;              /* owned; that holds each */
    const tt_holding **in_order; /* owned; the parts */
    int64_t classes;
    tt_points first; /* the points of the first part */
    tt_stats *sums;  /* owned; of each point */
    bool is_number;  /* tensors of no dimension: losses */
    double *totals;  /* owned; of each point: the sum of such numbers */
} series;

/* Puts the files in the order of their classes; false: they do not hold each part once. */
static bool order_parts(series *s)
{
    const tt_gathering *g = s->g;
    int64_t classes = 0, found = 0;
    if (g->has_unknown || g->file_count < 2)
        return false;
    for (size_t k = 0; k < g->file_count; k++) {
        tt_holding h = { 0 };
        bool is_guess = false;
        const tt_index_site *row = tt_run_row(g->run, g->files[k], g->site);
        tt_holding_place(g, g->files[k], row->chunks[row->count - 1].last_step, &h);
        if (!tt_holding_find_class(&h, &classes, &is_guess) || is_guess || tt_holding_is_addend(&h) ||
            classes != (int64_t)g->file_count)
            return false;
        if (k == 0) {
            s->classes = classes;
            s->parts = calloc((size_t)classes, sizeof *s->parts);
            s->files = calloc((size_t)classes, sizeof *s->files);
            s->in_order = calloc((size_t)classes, sizeof *s->in_order);
            if (s->parts == NULL || s->files == NULL || s->in_order == NULL)
                return false;
        }
        if (h.number < 0 || h.number >= s->classes || s->in_order[h.number] != NULL)
            return false;
        s->parts[h.number] = h;
        s->in_order[h.number] = &s->parts[h.number];
        s->files[h.number] = g->files[k];
        found++;
    }
    for (int64_t k = 1; k < s->classes; k++)
        if (!tt_holding_is_alike(&s->parts[0], &s->parts[k]))
            return false;
    return found == s->classes;
}

/* Are the points of the first part statistics, and nothing that is joined point by point? */
static bool is_plain(const tt_points *p)
{
    bool has_stats =
        p->n > 0 &&
        (p->products & (uint32_t)(TT_PRODUCT_HIST | TT_PRODUCT_SCALAR | TT_PRODUCT_PLACED)) == 0;
    for (uint32_t i = 0; has_stats && i < p->n; i++)
        has_stats = (p->cells[TT_COLUMN_PRODUCTS][i] & TT_PRODUCT_STATS) != 0;
    return has_stats;
}

/* Does every step and call come once, and in order? */
static bool is_ascending(const tt_points *p)
{
    const uint64_t *steps = p->cells[TT_COLUMN_STEP], *calls = p->cells[TT_COLUMN_CALL];
    for (uint32_t i = 1; i < p->n; i++) {
        int64_t before = (int64_t)steps[i - 1], now = (int64_t)steps[i];
        if (now < before || (now == before && calls[i] <= calls[i - 1]))
            return false;
    }
    return true;
}

/* The columns that are read of the other parts. */
enum { PRODUCTS, STEP, CALL, PHASE, STATS, COLUMNS = STATS + TT_STATS_ALL + 8 };
static const tt_column columns[COLUMNS] = { TT_COLUMN_PRODUCTS, TT_COLUMN_STEP, TT_COLUMN_CALL,
                                            TT_COLUMN_PHASE,
                                            TT_STATS_COLUMN_MAP(TT_STATS_COLUMN)
                                                TT_STATS_MORE_MAP(TT_STATS_COLUMN)
                                                    TT_STATS_REST_MAP(TT_STATS_COLUMN) };

/* Adds the statistics of point i of all, which is point k of these cells; false: they cannot be. */
static bool add_point(series *s, bool is_first, uint32_t i, const uint64_t *const *cells, uint32_t k)
{
    tt_stats one = { 0 };
    const uint64_t *const *cell = cells + STATS;
#define X(name, field, type, read) one.field = read((*cell++)[k]);
    TT_STATS_COLUMN_MAP(X)
    TT_STATS_MORE_MAP(X)
    TT_STATS_REST_MAP(X)
#undef X
    if (!tt_join_is_possible(&one))
        return false;
    if (s->is_number)
        s->totals[i] += tt_join_number(&one);
    if (is_first)
        s->sums[i] = one;
    else if (!s->is_number)
        tt_join_merge(&s->sums[i], &one);
    return true;
}

/* Reads the shape of a chunk's points, if all have the same. */
static bool read_shape(const tt_chunk *chunk, tt_point *out)
{
    out->ndim = -1;
    if (chunk->columns[TT_COLUMN_SHAPE].at == NULL)
        return true;
    tt_cursor cursor =
        tt_cursor_over(chunk->columns[TT_COLUMN_SHAPE].at, chunk->columns[TT_COLUMN_SHAPE].len);
    uint64_t len = tt_cursor_varint(&cursor), ndim = len > 0 ? tt_cursor_varint(&cursor) : UINT64_MAX;
    if (chunk->columns[TT_COLUMN_SHAPE].packing != TT_PACK_SAME || (len > 0 && ndim > TT_MAX_DIM))
        return false;
    out->ndim = len > 0 ? (int32_t)ndim : -1;
    for (int32_t d = 0; d < out->ndim; d++)
        out->shape[d] = (int64_t)(tt_cursor_varint(&cursor) & INT64_MAX);
    return !cursor.is_bad;
}

static bool has_same_shape(const tt_point *a, const tt_point *b)
{
    return a->ndim == b->ndim &&
           (a->ndim <= 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

/* Adds a chunk of a part, whose points are those from number `at` on of all; false: they are not like the first
 * part's. */
static bool add_chunk(series *s, int64_t number, uint32_t at, const tt_chunk *chunk)
{
    const uint64_t *cells[COLUMNS];
    const uint32_t n = chunk->entry.n;
    tt_point shaped, *known = &s->parts[number].point;
    if (n > s->first.n - at || !read_shape(chunk, &shaped) ||
        tt_run_cells(s->g->run, chunk, columns, COLUMNS, cells) < 0)
        return false;
    if (at == 0)
        *known = shaped;
    if (at == 0 && number == 0)
        s->is_number = shaped.ndim == 0;
    if (!has_same_shape(known, &shaped) || (shaped.ndim == 0) != s->is_number ||
        memcmp(cells[STEP], s->first.cells[TT_COLUMN_STEP] + at, n * sizeof **cells) != 0 ||
        memcmp(cells[CALL], s->first.cells[TT_COLUMN_CALL] + at, n * sizeof **cells) != 0 ||
        memcmp(cells[PHASE], s->first.cells[TT_COLUMN_PHASE] + at, n * sizeof **cells) != 0)
        return false;
    const uint64_t other = TT_PRODUCT_HIST | TT_PRODUCT_SCALAR | TT_PRODUCT_PLACED;
    for (uint32_t k = 0; k < n; k++)
        if ((cells[PRODUCTS][k] & (TT_PRODUCT_STATS | other)) != TT_PRODUCT_STATS ||
            !add_point(s, number == 0, at + k, cells, k))
            return false;
    return true;
}

/* Adds the points of a part; false: they are damaged, or not like the first one's. */
static bool add_part(series *s, int64_t number)
{
    const tt_gathering *g = s->g;
    const tt_index_site *row = tt_run_row(g->run, s->files[number], g->site);
    uint32_t at = 0;
    for (uint32_t k = 0; k < row->count; at += row->chunks[k++].n) {
        tt_chunk chunk;
        if (tt_run_chunk(g->run, g->run->taps[s->files[number]], row, &row->chunks[k], &chunk) < 0 ||
            !add_chunk(s, number, at, &chunk))
            return false;
    }
    return at == s->first.n;
}

/* Have the parts as many elements as the whole? */
static bool is_whole(const series *s)
{
    int64_t expected = s->is_number ? -1 : tt_holding_count_whole(&s->parts[0]);
    for (uint32_t i = 0; expected >= 0 && i < s->first.n; i++)
        if (s->sums[i].count != expected)
            return false;
    return true;
}

static tt_status add_rows(const series *s, tt_row_maker *made)
{
    tt_status st = TT_OK;
    tt_whole w = { .parts = s->classes, .found = s->classes };
    tt_point shaped = s->parts[0].point;
    shaped.stats = s->sums[0];
    tt_join_find_shape(s->in_order, s->classes, &shaped);
    for (uint32_t i = 0; st == TT_OK && i < s->first.n; i++) {
        tt_points_get(&s->first, i, &w.point);
        w.point.products = TT_PRODUCT_STATS;
        w.point.stats = s->is_number
                            ? tt_join_of_number(s->totals[i] / (double)s->classes, s->sums[i].dtype)
                            : s->sums[i];
        w.point.ndim = shaped.ndim;
        memcpy(w.point.shape, shaped.shape,
               (size_t)(shaped.ndim > 0 ? shaped.ndim : 0) * sizeof *shaped.shape);
        st = tt_row_add(made, TT_JOINED, &w, w.point.step);
    }
    return st;
}

tt_status tt_join_series(const tt_gathering *g, tt_row_maker *made, bool *is_done)
{
    series s = { .g = g };
    tt_status st = TT_OK;
    bool is_damaged = false, is_alike = order_parts(&s);
    if (is_alike) {
        st = tt_part_read(g, s.files[0], &s.first, &is_damaged);
        is_alike = st == TT_OK && !is_damaged && is_plain(&s.first) && is_ascending(&s.first);
    }
    if (is_alike) {
        s.sums = calloc(s.first.n, sizeof *s.sums);
        s.totals = calloc(s.first.n, sizeof *s.totals);
        is_alike = s.sums != NULL && s.totals != NULL;
    }
    for (int64_t k = 0; is_alike && k < s.classes; k++)
        is_alike = add_part(&s, k);
    *is_done = is_alike && is_whole(&s);
    if (*is_done)
        st = add_rows(&s, made);
    free(s.parts);
    free(s.files);
    free((void *)s.in_order);
    free(s.sums);
    free(s.totals);
    tt_points_free(&s.first);
    return st;
}
