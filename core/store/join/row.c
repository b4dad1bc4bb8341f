/* row.c -- the row of a site of a joined run, made when it is first asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/parts.h"

#include "store/pack.h"

#include <stdlib.h>
#include <string.h>

static tt_status put_point(tt_row_maker *made, const tt_whole *w)
{
    const tt_point *p = &w->point;
    uint32_t products =
        p->products & (uint32_t)(TT_PRODUCT_SCALAR | TT_PRODUCT_STATS | TT_PRODUCT_DIGEST |
                                 TT_PRODUCT_PLACED | (w->hist != NULL ? TT_PRODUCT_HIST : 0));
    size_t bytes = sizeof(tt_record) + sizeof p->stats + sizeof p->shape + sizeof p->digest +
                   sizeof p->placed + (w->hist != NULL ? tt_hist_pack_bound(w->hist) : 0);
    tt_status st = tt_grow(&made->record, &made->cap, bytes, 1);
    if (st == TT_OK)
        st = tt_points_reserve(&made->points, made->points.n + 1, products);
    if (st < 0)
        return st;
    tt_record head = { .phase = p->phase,
                       .is_skipped = p->is_skipped,
                       .ndim = (int8_t)p->ndim,
                       .call = p->call,
                       .step = p->step,
                       .time = p->time,
                       .scalar = p->scalar,
                       .thread = p->thread,
                       .products = products };
    char *to = made->record + sizeof head;
    if (products & TT_PRODUCT_STATS) {
        memcpy(to, &p->stats, sizeof p->stats);
        to += sizeof p->stats;
    }
    for (int32_t d = 0; d < p->ndim; d++, to += sizeof *p->shape)
        memcpy(to, &p->shape[d], sizeof *p->shape);
    if (products & TT_PRODUCT_DIGEST) {
        memcpy(to, &p->digest, sizeof p->digest);
        to += sizeof p->digest;
    }
    if (products & TT_PRODUCT_PLACED) {
        memcpy(to, &p->placed, sizeof p->placed);
        to += sizeof p->placed;
    }
    if (products & TT_PRODUCT_HIST)
        head.text_len = (uint32_t)tt_hist_pack(w->hist, to);
    memcpy(made->record, &head, sizeof head);
    return tt_points_add(&made->points, (const tt_record *)(const void *)made->record);
}

/* Packs what was made into a chunk of the row. */
static tt_status end_chunk(tt_row_maker *made)
{
    tt_join *joined = made->joined;
    tt_tap *tap = made->tap;
    const int32_t site = made->site;
    tt_points *points = &made->points;
    tt_index_site *row;
    tt_status st = points->n > 0 ? tt_index_row(&tap->index, site, &row) : TT_OK;
    if (st < 0 || points->n == 0)
        return st;
    tt_index_chunk chunk = {
        .at = (int64_t)joined->bytes.len, .first = row->points, .n = points->n, .first_step = INT64_MAX
    };
    chunk.last_step = INT64_MIN;
    for (uint32_t i = 0; i < points->n; i++) {
        int64_t step = (int64_t)points->cells[TT_COLUMN_STEP][i];
        chunk.first_step = step < chunk.first_step ? step : chunk.first_step;
        chunk.last_step = step > chunk.last_step ? step : chunk.last_step;
    }
    int64_t bad = tt_points_nonfinite(points);
    if (row->nonfinite < 0 && bad >= 0)
        row->nonfinite = row->points + bad;
    tt_chunk_pack(&joined->bytes, (uint32_t)site, row->points, points);
    chunk.len = (uint32_t)(joined->bytes.len - (size_t)chunk.at);
    st = joined->bytes.st == TT_OK ? tt_index_add(&tap->index, site, &chunk) : joined->bytes.st;
    tap->index.row[site].scanned = tap->index.row[site].points;
    tt_points_clear(points);
    return st;
}

static void note(tt_joined_site *site, tt_outcome how, const tt_whole *w, int64_t step)
{
    site->points += how == TT_JOINED;
    site->incomplete += how == TT_INCOMPLETE;
    site->partial += how == TT_ADDENDS;
    site->unknown += how == TT_UNPLACED;
    site->unplaced += how == TT_JOINED && w->is_unplaced;
    site->unequal += w->is_unequal;
    if (w->is_unequal && site->first_unequal < 0)
        site->first_unequal = step;
    if (how == TT_JOINED)
        site->parts = (int32_t)w->parts;
    if (how == TT_INCOMPLETE) {
        site->found = (int32_t)w->found;
        site->parts = (int32_t)w->parts;
    }
}

tt_status tt_row_add(tt_row_maker *made, tt_outcome how, const tt_whole *w, int64_t step)
{
    enum { CHUNK = 4096 };
    note(&made->joined->site[made->site], how, w, step);
    tt_status st = how == TT_JOINED ? put_point(made, w) : TT_OK;
    return st == TT_OK && made->points.n >= CHUNK ? end_chunk(made) : st;
}

/* Collects what the ranks hold of one step and call. */
static size_t hold(const tt_gathering *g, const tt_part_point *from, size_t count, tt_holding *all)
{
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && from[i].part == from[i - 1].part)
            continue; /* a second point of one call: a gradient that was read twice */
        tt_holding *h = &all[held++];
        const tt_part *part = &g->parts[from[i].part];
        h->from = &from[i];
        h->is_repeated = g->repeats;
        tt_points_get(&part->points, from[i].i, &h->point);
        tt_holding_place(g, part->file, from->step, h);
    }
    return held;
}

/* How many entries, from this one on, are of one step and call. */
static size_t count_alike(const tt_gathering *g, size_t from)
{
    size_t to = from + 1;
    while (to < g->count && g->entries[to].step == g->entries[from].step &&
           g->entries[to].call == g->entries[from].call)
        to++;
    return to - from;
}

/* Room for one step and call. */
typedef struct desk {
    tt_holding *all;          /* owned */
    const tt_holding **parts; /* owned */
} desk;

/* Do ranks have the same at every step, along the axes of which nothing is known, and with g->repeats along those
 * of the batch? */
static bool is_always_alike(const tt_gathering *g, const desk *d)
{
    bool is_alike = true;
    for (size_t from = 0, n; is_alike && from < g->count; from += n) {
        tt_whole w;
        n = count_alike(g, from);
        size_t held = hold(g, &g->entries[from], n, d->all);
        is_alike = tt_join_point(g, d->all, held, d->parts, tt_join_room(g), &w) != TT_UNPLACED &&
                   !(g->repeats && w.is_unequal);
        tt_hist_free(w.hist);
    }
    return is_alike;
}

/* Did a rank that lacks these entries leave steps out, because its file had grown? */
static bool is_thinned(const tt_gathering *g, const tt_part_point *from, size_t count)
{
    size_t i = 0;
    for (size_t k = 0; k < g->part_count; k++) {
        while (i < count && from[i].part < (int32_t)k)
            i++;
        if ((i == count || from[i].part > (int32_t)k) &&
            tt_run_stride(g->run, g->parts[k].file, TT_THINNED_TENSORS, from->step) > 1)
            return true;
    }
    return false;
}

/* Joins the entries of one step and call, and adds the point.  n: norms, if the site has them; else NULL. */
static tt_status join_entries(const tt_gathering *g, const tt_part_point *from, size_t count,
                              const desk *d, const tt_norms *n, tt_row_maker *made)
{
    size_t held = hold(g, from, count, d->all);
    tt_whole w;
    tt_outcome how = tt_join_point(g, d->all, held, d->parts, tt_join_room(g), &w);
    if (how == TT_JOINED && n != NULL && w.is_unequal) { /* each rank has the norm of its own parts */
        how = tt_norms_find(n, from->step, &w.point.scalar) ? TT_JOINED : TT_UNPLACED;
        w.is_unequal = w.is_unplaced = false;
        w.parts = (int64_t)held;
    }
    bool is_left_out = how == TT_INCOMPLETE && is_thinned(g, from, count); /* then nothing is missing */
    tt_status st = is_left_out ? TT_OK : tt_row_add(made, how, &w, from->step);
    tt_hist_free(w.hist);
    return st;
}

/* Joins step by step and call by call. */
static tt_status join_points(tt_gathering *g, tt_row_maker *made)
{
    tt_norms n = { 0 };
    bool has_norm = tt_norms_are(tt_run_site_name(g->run, g->site));
    tt_status st = tt_gathering_read(g);
    if (st == TT_OK && has_norm && g->ranks > 1)
        st = tt_norms_read(made->joined, made->tap, &n);
    desk d = { calloc(g->part_count + 1, sizeof *d.all), calloc(tt_join_room(g), sizeof *d.parts) };
    g->bins = calloc(TT_JOIN_BINS, sizeof *g->bins);
    if (d.all == NULL || d.parts == NULL || g->bins == NULL)
        st = TT_ENOMEM;
    g->trusts = true;
    if (st == TT_OK && g->repeats)
        g->repeats = is_always_alike(g, &d);
    if (st == TT_OK && g->has_unknown && !g->repeats)
        g->trusts = is_always_alike(g, &d);
    for (size_t from = 0, count; st == TT_OK && from < g->count; from += count) {
        count = count_alike(g, from);
        st = join_entries(g, &g->entries[from], count, &d, has_norm ? &n : NULL, made);
    }
    free(d.all);
    free((void *)d.parts);
    free(n.all);
    return st;
}

/* ---- the rows of sites ------------------------------------------------------------ */

static tt_status make_row(tt_join *joined, tt_tap *tap, tt_gathering *g, const tt_series *series)
{
    tt_row_maker made = { .joined = joined, .tap = tap, .site = g->site };
    tt_status st = series->is_alike ? tt_series_put(series, &made) : join_points(g, &made);
    if (st == TT_OK)
        st = end_chunk(&made);
    free(made.record);
    tt_points_free(&made.points);
    return st;
}

enum { TOGETHER = 8 }; /* sites that are made at once; a MB each for a thousand ranks */

static void make_rows(tt_join *join, tt_tap *tap, const int32_t *sites, size_t count)
{
    tt_gathering g[TOGETHER];
    tt_series series[TOGETHER];
    tt_status st[TOGETHER];
    for (size_t i = 0; i < count; i++) {
        tt_joined_site *site = &join->site[sites[i]];
        join->is_made[sites[i]] = true; /* also if there is no memory: then it has no points */
        g[i] = (tt_gathering){ .run = join->parts, .site = sites[i] };
        series[i] = (tt_series){ .g = &g[i] };
        st[i] = tt_gathering_choose(&g[i]);
        site->ranks = g[i].ranks;
        site->rank = g[i].file_count > 0 ? join->parts->taps[g[i].files[0]]->rank : -1;
        g[i].repeats = st[i] == TT_OK && tt_join_may_repeat(&g[i]);
    }
    tt_series_sum(series, count);
    for (size_t i = 0; i < count; i++) {
        if (st[i] == TT_OK)
            (void)make_row(join, tap, &g[i], &series[i]);
        tt_series_free(&series[i]);
        tt_gathering_free(&g[i]);
    }
}

void tt_join_make(tt_join *join, tt_tap *tap, int32_t site)
{
    if (site >= 0 && site < join->count && !join->is_made[site])
        make_rows(join, tap, &site, 1);
}

/* Points of a site in the first file that has some. */
static int64_t count_points(const tt_run *parts, int32_t site)
{
    int64_t points = 0;
    for (int32_t f = 0; points == 0 && f < parts->count; f++) {
        const tt_index_site *row = tt_run_row(parts, f, site);
        points = row != NULL ? row->stored : 0;
    }
    return points;
}

void tt_join_make_all(tt_join *join, tt_tap *tap)
{
    enum { POINTS = 1 << 16 }; /* that are made at once: 300 bytes each */
    int32_t sites[TOGETHER];
    size_t count = 0;
    int64_t points = 0;
    for (int32_t site = 0; site < join->count; site++) {
        if (join->is_made[site] || tt_norms_are(tt_run_site_name(join->parts, site)))
            continue; /* norms need the rows of gradients */
        sites[count++] = site;
        points += count_points(join->parts, site);
        if (count < TOGETHER && points < POINTS)
            continue;
        make_rows(join, tap, sites, count);
        count = 0;
        points = 0;
    }
    make_rows(join, tap, sites, count);
    for (int32_t site = 0; site < join->count; site++)
        tt_join_make(join, tap, site);
}
