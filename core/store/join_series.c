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
    tt_points first;  /* the points of the first part */
    tt_points points; /* of the part that is being read */
    tt_stats *sums;   /* owned; of each point */
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

static bool is_same_column(const series *s, tt_column c)
{
    return memcmp(s->first.cells[c], s->points.cells[c], s->first.n * sizeof *s->first.cells[c]) == 0;
}

/* Are the points of a part statistics of tensors of one shape? */
static bool is_plain(const tt_points *p)
{
    size_t len, other;
    const char *shape = p->n > 0 ? tt_points_bytes(p, TT_COLUMN_SHAPE, 0, &len) : NULL;
    if (p->n == 0 || (p->products & (uint32_t)(TT_PRODUCT_HIST | TT_PRODUCT_SCALAR)) != 0)
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        const char *bytes = tt_points_bytes(p, TT_COLUMN_SHAPE, i, &other);
        if ((p->cells[TT_COLUMN_PRODUCTS][i] & TT_PRODUCT_STATS) == 0 ||
            (bytes == NULL) != (shape == NULL) ||
            (bytes != NULL && (other != len || memcmp(bytes, shape, len) != 0)))
            return false;
    }
    return true;
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

/* Adds the points of a part; false: they are not like the first one's. */
static bool add_part(series *s, int64_t number)
{
    tt_points *p = number == 0 ? &s->first : &s->points;
    if (!is_plain(p) || (number == 0 && !is_ascending(p)))
        return false;
    if (number == 0)
        s->sums = calloc(p->n, sizeof *s->sums);
    else if (p->n != s->first.n || !is_same_column(s, TT_COLUMN_STEP) ||
             !is_same_column(s, TT_COLUMN_CALL) || !is_same_column(s, TT_COLUMN_PHASE))
        return false;
    tt_points_get(p, 0, &s->parts[number].point);
    if (s->sums == NULL || s->parts[number].point.ndim == 0) /* a number: their mean */
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        tt_stats one = { 0 };
#define X(name, field, type, read) one.field = read(p->cells[TT_COLUMN_##name][i]);
        TT_STATS_COLUMN_MAP(X)
        TT_STATS_MORE_MAP(X) TT_STATS_REST_MAP(X)
#undef X
            if (!tt_join_is_possible(&one)) return false;
        if (number == 0)
            s->sums[i] = one;
        else
            tt_join_merge(&s->sums[i], &one);
    }
    return true;
}

/* Have the parts as many elements as the whole? */
static bool is_whole(const series *s)
{
    int64_t expected = tt_holding_count_whole(&s->parts[0]);
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
        w.point.stats = s->sums[i];
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
    bool is_alike = order_parts(&s), is_damaged = false;
    for (int64_t k = 0; st == TT_OK && is_alike && k < s.classes; k++) {
        tt_points_clear(&s.points);
        st = tt_part_read(g, s.files[k], k == 0 ? &s.first : &s.points, &is_damaged);
        is_alike = st == TT_OK && !is_damaged && add_part(&s, k);
    }
    *is_done = st == TT_OK && is_alike && is_whole(&s);
    if (*is_done)
        st = add_rows(&s, made);
    free(s.parts);
    free(s.files);
    free((void *)s.in_order);
    free(s.sums);
    tt_points_free(&s.first);
    tt_points_free(&s.points);
    return st;
}
