/* series.c -- joins whole series of sites at once, where all ranks recorded alike.
 *
 * Exists because of a thousand files most have the same steps and a placement that never changes: file by file their
 * columns are added to the sums of all steps, so that a file is read once and nothing is sorted.  Several sites are
 * joined together, because their points lie side by side in each file.  Everything else (missing parts, replicas that
 * differ, histograms, numbers) is for row.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/parts.h"

#include "base/float_mode.h"
#include "store/sweep.h"

#include <stdlib.h>
#include <string.h>

/* ---- the first part --------------------------------------------------------------- */

/* Puts the files in the order of their classes; false: they do not hold each part once. */
static bool order_parts(tt_series *s)
{
    const tt_gathering *g = s->g;
    int64_t classes = 0, found = 0;
    if (g->has_unknown || g->repeats || g->file_count < 2)
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

static bool has_same_shape(const tt_point *a, const tt_point *b)
{
    return a->ndim == b->ndim &&
           (a->ndim <= 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

/* Reads the first part, to which the others are added; false: it is not like that. */
static bool begin(tt_series *s)
{
    bool is_damaged = false;
    if (!order_parts(s) || tt_part_read(s->g, s->files[0], &s->sum, &is_damaged) < 0 || is_damaged ||
        !is_plain(&s->sum) || !is_ascending(&s->sum))
        return false;
    s->totals = calloc(s->sum.n, sizeof *s->totals);
    for (uint32_t i = 0; s->totals != NULL && i < s->sum.n; i++) {
        tt_point p;
        tt_points_get(&s->sum, i, &p);
        if (i == 0)
            s->parts[0].point = p;
        if (!has_same_shape(&s->parts[0].point, &p) || !tt_join_is_possible(&p.stats))
            return false;
        s->totals[i] = tt_join_number(&p.stats);
    }
    s->is_number = s->parts[0].point.ndim == 0;
    s->next = 1;
    return s->totals != NULL;
}

/* ---- the other parts ---------------------------------------------------------------- */

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

/* Adds a chunk of the next part, before which it has so many points; false: they are not like the first part's. */
static bool add_chunk(tt_series *s, uint32_t before, const tt_chunk *chunk)
{
    const uint64_t *cells[TT_JOIN_COLUMNS];
    const uint32_t n = chunk->entry.n;
    tt_point shaped, *known = &s->parts[s->next].point;
    if (before > s->sum.n || n > s->sum.n - before || !read_shape(chunk, &shaped) ||
        tt_run_cells(s->g->run, chunk, tt_join_columns, TT_JOIN_COLUMNS, cells) < 0)
        return false;
    if (s->seen == 0)
        *known = shaped;
    s->seen += n;
    return has_same_shape(known, &shaped) && (shaped.ndim == 0) == s->is_number &&
           tt_join_add_cells(&s->sum, s->is_number ? s->totals : NULL, before, cells, n);
}

static bool is_next(const tt_series *s, int32_t file)
{
    return s->is_alike && s->next < s->classes && s->files[s->next] == file;
}

/* Adds those parts that are in a file and whose turn it is.  Returns how many. */
static size_t add_file(tt_series *all, size_t count, tt_sweep *sweep, int32_t file)
{
    tt_run *run = all->g->run;
    const tt_swept *one;
    size_t parts = 0;
    tt_chunk chunk;
    tt_status st;
    tt_sweep_begin(sweep);
    for (size_t i = 0; i < count; i++)
        if (is_next(&all[i], file)) {
            all[i].seen = 0;
            all[i].is_alike = tt_sweep_want(sweep, tt_run_row(run, file, all[i].g->site), i) == TT_OK;
        }
    while (tt_sweep_next(sweep, run->taps[file], &one, &chunk, &st)) {
        tt_series *s = &all[one->whose];
        s->is_alike = s->is_alike && st == TT_OK && add_chunk(s, one->before, &chunk);
    }
    for (size_t i = 0; i < count; i++)
        if (is_next(&all[i], file)) {
            all[i].is_alike = all[i].seen == all[i].sum.n;
            all[i].next++;
            parts++;
        }
    return parts;
}

/* Have the parts as many elements as the whole? */
static bool is_whole(const tt_series *s)
{
    int64_t expected = s->is_number ? -1 : tt_holding_count_whole(&s->parts[0]);
    for (uint32_t i = 0; expected >= 0 && i < s->sum.n; i++)
        if (s->sum.cells[TT_COLUMN_COUNT][i] != (uint64_t)expected)
            return false;
    return true;
}

void tt_series_sum(tt_series *all, size_t count)
{
    tt_sweep sweep = { 0 };
    uint64_t mode = tt_float_mode_begin();
    for (size_t i = 0; i < count; i++)
        all[i].is_alike = begin(&all[i]);
    for (size_t added = 1; added > 0;) { /* once, unless the order of the mesh is not that of the files */
        added = 0;
        for (int32_t file = 0; count > 0 && file < all->g->run->count; file++)
            added += add_file(all, count, &sweep, file);
    }
    for (size_t i = 0; i < count; i++)
        all[i].is_alike = all[i].is_alike && all[i].next == all[i].classes && is_whole(&all[i]);
    tt_float_mode_end(mode);
    tt_sweep_free(&sweep);
}

tt_status tt_series_put(const tt_series *s, tt_row_maker *made)
{
    tt_status st = TT_OK;
    tt_whole w = { .parts = s->classes, .found = s->classes };
    tt_point shaped = s->parts[0].point;
    tt_point whole;
    tt_points_get(&s->sum, 0, &whole);
    shaped.stats = whole.stats;
    tt_join_find_shape(s->in_order, s->classes, &shaped);
    for (uint32_t i = 0; st == TT_OK && i < s->sum.n; i++) {
        tt_points_get(&s->sum, i, &w.point);
        w.point.products = TT_PRODUCT_STATS;
        if (s->is_number)
            w.point.stats = tt_join_of_number(s->totals[i] / (double)s->classes, w.point.stats.dtype);
        w.point.ndim = shaped.ndim;
        memcpy(w.point.shape, shaped.shape,
               (size_t)(shaped.ndim > 0 ? shaped.ndim : 0) * sizeof *shaped.shape);
        st = tt_row_add(made, TT_JOINED, &w, w.point.step);
    }
    return st;
}

void tt_series_free(tt_series *s)
{
    free(s->parts);
    free(s->files);
    free((void *)s->in_order);
    free(s->totals);
    tt_points_free(&s->sum);
}
