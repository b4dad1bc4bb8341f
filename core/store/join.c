/* join.c -- a run of many ranks as a run of one.
 *
 * For each step and call of a site, the ranks' points are put into classes by their placements: ranks of one
 * class hold the same part, and one of them stands for it; the classes together hold the whole tensor.  Counts,
 * sums, squares, extremes and histograms of the parts are combined in the order of the mesh, so that the result
 * does not depend on who wrote first.  Numbers that are a part are never given for the whole: where a part is
 * missing, or the counts do not add up to the global shape, there is no point.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join.h"

#include "store/pack.h"
#include "store/placement.h"
#include "summary/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading the parts ------------------------------------------------------ */

/* The points of one rank. */
typedef struct part {
    int32_t file;
    tt_points points;
} part;

/* One of them. */
typedef struct entry {
    int64_t step;
    uint32_t call, i; /* i: in its part */
    int32_t part;
} entry;

enum { BINS = 4096 }; /* of a histogram; one with more is not joined */

typedef struct gathering {
    tt_run *run; /* of the parts */
    int32_t site;
    part *parts; /* owned */
    size_t part_count, part_cap;
    entry *entries; /* owned */
    size_t count, cap;
    int32_t ranks;     /* that have points of the site, those that are not read included */
    uint64_t *seen;    /* owned; a hash table of what was read: class and chain */
    size_t seen_cap;   /* a power of two */
    tt_hist_bin *bins; /* owned; BINS of them, or NULL: no memory */
    bool trusts;       /* along axes of which nothing is known, all ranks have had the same so far */
} gathering;

/* Is it a ratio that each rank computes of its own part?  That of the whole is about their mean. */
static bool is_of_part(const char *name)
{
    static const char update[] = "tensortap/update/", silent[] = "tensortap/silent/";
    return strncmp(name, update, strlen(update)) == 0 || strncmp(name, silent, strlen(silent)) == 0;
}

/* Does an earlier file hold the same points, and ought to?  Then this one need not be read. */
static bool is_repeated(gathering *g, int32_t file, const tt_index_site *row)
{
    bool is_known;
    int64_t first = row->chunks[0].first_step, last = row->chunks[row->count - 1].last_step;
    const tt_placement *p = tt_run_placement(g->run, file, g->site, last);
    uint64_t chain = tt_index_chain(row), class = 1; /* of what nobody placed */
    if (chain == 0 || g->seen == NULL || tt_run_placement(g->run, file, g->site, first) != p ||
        is_of_part(tt_run_site_name(g->run, g->site)))
        return false;
    if (p != NULL)
        class = tt_placement_class(p, tt_run_known_mesh(g->run, file, p->mesh), &is_known);
    uint64_t key = (class * UINT64_C(0x9e3779b97f4a7c15)) ^ chain;
    size_t at = (size_t)(key >> 20) & (g->seen_cap - 1);
    for (; class != 0 && g->seen[at] != 0; at = (at + 1) & (g->seen_cap - 1))
        if (g->seen[at] == key)
            return true;
    g->seen[at] = class != 0 ? key : g->seen[at];
    return false;
}

static tt_status read_part(gathering *g, int32_t file)
{
    const tt_index_site *row = tt_run_row(g->run, file, g->site);
    if (row == NULL || row->stored == 0)
        return TT_OK;
    g->ranks++;
    if (is_repeated(g, file, row))
        return TT_OK;
    tt_status st = tt_grow(&g->parts, &g->part_cap, g->part_count + 1, sizeof *g->parts);
    if (st < 0)
        return st;
    part *to = &g->parts[g->part_count];
    *to = (part){ .file = file };
    g->part_count++;
    for (uint32_t k = 0; st == TT_OK && k < row->count; k++) {
        tt_chunk chunk;
        st = tt_run_chunk(g->run, g->run->taps[file], row, &row->chunks[k], &chunk);
        if (st == TT_OK)
            st = tt_chunk_unpack(&chunk, TT_PRODUCT_SAMPLE, &to->points);
        st = st == TT_EFORMAT ? TT_OK : st; /* damaged: its points are missing parts */
    }
    if (st == TT_OK)
        st = tt_grow(&g->entries, &g->cap, g->count + to->points.n, sizeof *g->entries);
    for (uint32_t i = 0; st == TT_OK && i < to->points.n; i++)
        g->entries[g->count++] = (entry){ .step = (int64_t)to->points.cells[TT_COLUMN_STEP][i],
                                          .call = (uint32_t)to->points.cells[TT_COLUMN_CALL][i],
                                          .i = i,
                                          .part = (int32_t)g->part_count - 1 };
    return st;
}

static int by_step(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    if (x->part != y->part) /* files come by rank */
        return x->part < y->part ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

static void free_gathering(gathering *g)
{
    for (size_t i = 0; i < g->part_count; i++)
        tt_points_free(&g->parts[i].points);
    free(g->parts);
    free(g->entries);
    free(g->bins);
    free(g->seen);
}

/* ---- one step and call -------------------------------------------------------- */

/* What one rank holds. */
typedef struct holding {
    tt_point point;
    const tt_placement *placement; /* NULL: none */
    const tt_mesh *mesh;
    uint64_t grid;  /* of the mesh */
    int64_t number; /* of its class, in the order of the mesh */
    const entry *from;
} holding;

typedef enum outcome { JOINED, INCOMPLETE, PARTIAL, UNKNOWN } outcome;

typedef struct whole {
    tt_point point;
    tt_hist *hist; /* owned; NULL: none */
    int64_t parts, found;
    bool is_unplaced, is_unequal;
} whole;

static bool is_spread(const holding *h, int32_t d, tt_spread spread)
{
    return h->placement->on[d].spread == spread;
}

/* Do two ranks speak of the same grid of ranks, and of the same layout on it? */
static bool is_alike(const holding *a, const holding *b)
{
    if (a->mesh->ndim != b->mesh->ndim || a->placement->ndim != b->placement->ndim)
        return false;
    for (int32_t d = 0; d < a->mesh->ndim; d++)
        if (a->placement->on[d].spread != b->placement->on[d].spread)
            return false;
    return a->grid == b->grid;
}

/* Finds the class of a rank and the number of classes; false: its placement does not tell.  Along an axis of
 * which nothing is known ranks are replicas if they have the same (*is_guess): that is seen. */
static bool find_class(holding *h, int64_t *classes, bool *is_guess)
{
    h->number = 0;
    *classes = 1;
    if (h->placement == NULL || h->mesh == NULL || h->placement->mesh_ndim != h->mesh->ndim)
        return false;
    for (int32_t d = 0; d < h->mesh->ndim; d++) {
        *is_guess |= is_spread(h, d, TT_SPREAD_UNKNOWN);
        if (is_spread(h, d, TT_SPREAD_SHARD) || is_spread(h, d, TT_SPREAD_BATCH)) {
            h->number = h->number * h->mesh->size[d] + h->mesh->coordinate[d];
            *classes *= h->mesh->size[d];
        }
    }
    return true;
}

static bool has_partial(const holding *h)
{
    for (int32_t d = 0; h->placement != NULL && d < h->placement->mesh_ndim; d++)
        if (is_spread(h, d, TT_SPREAD_PARTIAL))
            return true;
    return false;
}

/* Elements of the whole; -1: not known.  Each part of a batch is a tensor of this shape. */
static int64_t count_whole(const holding *h)
{
    int64_t count = 1;
    bool has_shard = false;
    for (int32_t d = 0; d < h->mesh->ndim; d++) {
        has_shard |= is_spread(h, d, TT_SPREAD_SHARD);
        if (is_spread(h, d, TT_SPREAD_BATCH))
            count *= h->mesh->size[d];
    }
    if (!has_shard || h->placement->ndim < 0)
        return -1;
    for (int32_t d = 0; d < h->placement->ndim; d++)
        if (__builtin_mul_overflow(count, h->placement->shape[d], &count))
            return INT64_MAX; /* no parts add up to that */
    return count;
}

static bool is_equal(const tt_point *a, const tt_point *b)
{
    uint32_t both = a->products & b->products;
    if (both & TT_PRODUCT_DIGEST)
        return a->digest.low == b->digest.low && a->digest.high == b->digest.high;
    if (both & TT_PRODUCT_SCALAR && !(both & TT_PRODUCT_STATS))
        return a->scalar == b->scalar || (isnan(a->scalar) && isnan(b->scalar));
    return a->stats.count == b->stats.count && a->stats.sumsq == b->stats.sumsq &&
           a->stats.sum == b->stats.sum && a->stats.min == b->stats.min && a->stats.max == b->stats.max &&
           a->stats.nan == b->stats.nan;
}

static bool are_equal(const holding *all, size_t count)
{
    size_t i = 1;
    while (i < count && is_equal(&all[0].point, &all[i].point))
        i++;
    return i >= count;
}

/* The histogram of a point is added to one; false: it has none that can be read. */
static bool add_hist(const gathering *g, const holding *h, tt_hist *into)
{
    tt_hist_bin *bins = g->bins;
    size_t len, count = 0;
    const char *bytes =
        tt_points_bytes(&g->parts[h->from->part].points, TT_COLUMN_HIST, h->from->i, &len);
    if (bytes == NULL || bins == NULL || tt_hist_unpack(bytes, len, bins, BINS, &count) < 0 ||
        count > BINS)
        return false;
    static const double outside[] = { NAN, INFINITY, -INFINITY };
    const int64_t outsiders[] = { h->point.stats.nan, h->point.stats.posinf, h->point.stats.neginf };
    for (int i = 0; i < 3; i++)
        tt_hist_add_value(into, outside[i], outsiders[i]);
    for (size_t i = 0; i < count; i++)
        if (bins[i].count > h->point.stats.count)
            return false;              /* not of this tensor */
    for (size_t i = 0; i < count; i++) /* the edge nearest to zero is in the bin */
        tt_hist_add_value(into, bins[i].high > 0 ? bins[i].low : bins[i].high, bins[i].count);
    return true;
}

/* The exact sums of integers, which tt_stats_merge leaves alone. */
static void merge_integers(tt_stats *into, const tt_stats *from)
{
    uint64_t low = into->isum_lo + from->isum_lo;
    into->isum_hi = (int64_t)((uint64_t)into->isum_hi + (uint64_t)from->isum_hi + (low < from->isum_lo));
    into->isum_lo = low;
    into->imin =
        from->count > 0 && (into->count == 0 || from->imin < into->imin) ? from->imin : into->imin;
    into->imax =
        from->count > 0 && (into->count == 0 || from->imax > into->imax) ? from->imax : into->imax;
}

/* The shape of the whole: that of its placement, or that of a batch whose parts differ in their first size
 * alone; else it is not known. */
static void find_shape(const holding *const *parts, int64_t count, tt_point *out)
{
    const holding *first = parts[0];
    bool has_shard = false, has_batch = false;
    for (int32_t d = 0; first->mesh != NULL && d < first->mesh->ndim; d++) {
        has_shard |= is_spread(first, d, TT_SPREAD_SHARD);
        has_batch |= is_spread(first, d, TT_SPREAD_BATCH);
    }
    if (has_shard && first->placement->ndim >= 0) {
        int64_t row = 1; /* elements of one sample */
        out->ndim = first->placement->ndim;
        memcpy(out->shape, first->placement->shape, (size_t)out->ndim * sizeof *out->shape);
        for (int32_t d = 1; d < out->ndim; d++)
            row *= out->shape[d]; /* no overflow: the parts add up to the product of all */
        if (has_batch && out->ndim > 0 && row > 0)
            out->shape[0] = out->stats.count / row;
        return;
    }
    for (int64_t k = 1; k < count && out->ndim > 0; k++) {
        const tt_point *p = &parts[k]->point;
        bool is_like = p->ndim == out->ndim && memcmp(p->shape + 1, out->shape + 1,
                                                      (size_t)(p->ndim - 1) * sizeof *p->shape) == 0;
        is_like = is_like && !__builtin_add_overflow(out->shape[0], p->shape[0], &out->shape[0]);
        out->ndim = is_like ? out->ndim : -1;
    }
}

/* The mean of numbers, such as the losses of the parts of a batch, is a number. */
static void average(const holding *const *parts, int64_t count, tt_stats *out)
{
    const int32_t dtype = out->dtype;
    double sum = 0;
    for (int64_t k = 0; k < count; k++) {
        const tt_stats *s = &parts[k]->point.stats;
        sum += s->nan > 0                  ? (double)NAN
               : s->posinf + s->neginf > 0 ? (s->posinf > 0 ? (double)INFINITY : (double)-INFINITY)
                                           : s->mean;
    }
    double mean = sum / (double)count;
    *out = (tt_stats){ .count = 1, .dtype = dtype };
    if (isnan(mean))
        out->nan = 1;
    else if (isinf(mean))
        *(mean > 0 ? &out->posinf : &out->neginf) = 1;
    else
        *out = (tt_stats){ .count = 1,
                           .dtype = dtype,
                           .zeros = mean == 0,
                           .min = mean,
                           .max = mean,
                           .absmax = fabs(mean),
                           .sum = mean,
                           .mean = mean,
                           .l1 = fabs(mean),
                           .sumsq = mean * mean };
}

/* Combines the parts, which are in the order of the mesh. */
static void combine(const gathering *g, const holding *const *parts, int64_t count, whole *out)
{
    out->point = parts[0]->point;
    double sum = 0;
    bool has_hist = (out->point.products & TT_PRODUCT_HIST) != 0 && tt_hist_create(&out->hist) == TT_OK;
    if (count == 1) {
        if (has_hist && !add_hist(g, parts[0], out->hist))
            out->point.products &= ~(uint32_t)TT_PRODUCT_HIST;
        return;
    }
    if (out->point.products & TT_PRODUCT_STATS && out->point.ndim == 0) {
        average(parts, count, &out->point.stats);
        has_hist = false;
    } else if (out->point.products & TT_PRODUCT_STATS) {
        for (int64_t k = 1; k < count; k++) {
            merge_integers(&out->point.stats, &parts[k]->point.stats);
            tt_stats_merge(&out->point.stats, &parts[k]->point.stats);
            out->point.stats.sum_imag += parts[k]->point.stats.sum_imag;
        }
    }
    for (int64_t k = 0; k < count; k++) {
        sum += parts[k]->point.scalar;
        out->point.products &= parts[k]->point.products;
        has_hist = has_hist && add_hist(g, parts[k], out->hist);
    }
    out->point.scalar = sum / (double)count;
    out->point.products &= ~(uint32_t)(TT_PRODUCT_DIGEST | (has_hist ? 0 : TT_PRODUCT_HIST));
    find_shape(parts, count, &out->point);
}

/* Classes that a step and call may have. */
static size_t room_for(const gathering *g)
{
    return (size_t)g->run->count * TT_MESH_DIMS + 64;
}

/* Could a tensor have these counts?  A file may say anything, and sums of it must not overflow. */
static bool is_possible(const tt_stats *s)
{
    const int64_t most = INT64_C(1) << 40;
    return s->count <= most && s->nan <= s->count && s->posinf <= s->count && s->neginf <= s->count &&
           s->zeros <= s->count;
}

/* Joins what ranks hold of one step and call. */
static outcome join(const gathering *g, holding *all, size_t count, const holding **parts, size_t room,
                    whole *out)
{
    int64_t classes = 1, others, elements = 0; /* classes: those of the lowest rank's grid */
    bool is_placed = false, is_guess = false;
    *out = (whole){ .parts = 1, .found = 1 };
    for (size_t i = 0; i < count; i++) {
        is_placed |= all[i].placement != NULL;
        if (has_partial(&all[i]))
            return PARTIAL;
    }
    if (!is_placed) { /* a number that the program logged, or a run of an older version */
        bool is_share = is_of_part(tt_run_site_name(g->run, g->site));
        out->is_unplaced = g->ranks > 1 && !is_share;
        out->is_unequal = !is_share && !are_equal(all, count);
        for (size_t i = 0; i < count; i++)
            parts[i] = &all[i];
        combine(g, parts, is_share ? (int64_t)count : 1, out);
        return JOINED;
    }
    for (size_t i = 0; i < count; i++)
        if (!find_class(&all[i], i == 0 ? &classes : &others, &is_guess) || (is_guess && !g->trusts))
            return UNKNOWN;
    out->parts = classes;
    out->found = 0;
    if ((size_t)classes > room)
        return INCOMPLETE;
    memset(parts, 0, (size_t)classes * sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        if (!is_alike(&all[0], &all[i])) /* another group of ranks: a replica of the whole */
            continue;
        const holding **at = &parts[all[i].number];
        if (*at != NULL) {
            out->is_unequal |= !is_equal(&(*at)->point, &all[i].point);
            continue;
        }
        *at = &all[i];
        out->found++;
        if (!is_possible(&all[i].point.stats))
            return INCOMPLETE;
        elements += all[i].point.stats.count;
    }
    if (is_guess && out->is_unequal)
        return UNKNOWN;
    int64_t expected = count_whole(&all[0]);
    bool has_stats = (all[0].point.products & TT_PRODUCT_STATS) != 0;
    if (out->found < classes || (has_stats && expected >= 0 && elements != expected))
        return INCOMPLETE;
    combine(g, parts, classes, out);
    return JOINED;
}

/* ---- the norm of all gradients --------------------------------------------------- */

static bool is_norm(const char *name)
{
    static const char norm[] = "gradient_norm", clipped[] = "gradient_norm (clipped)";
    return strcmp(name, norm) == 0 || strcmp(name, clipped) == 0;
}

/* Sums of squares by step, over the gradients of all parameters. */
typedef struct norm_step {
    int64_t step;
    double sumsq;
    int32_t sites;
} norm_step;

typedef struct norms {
    norm_step *all; /* owned; ascending */
    size_t count, cap;
    int32_t sites; /* of gradients */
} norms;

static norm_step *find_step(norms *n, int64_t step)
{
    size_t low = 0, high = n->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->all[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->count && n->all[low].step == step ? &n->all[low] : NULL;
}

/* Adds the joined gradients of one parameter.  The first one sets the steps. */
static tt_status add_norm(norms *n, const tt_join *joined, const tt_index_site *row)
{
    tt_status st = TT_OK;
    tt_points points = { 0 };
    for (uint32_t k = 0; st == TT_OK && k < row->count; k++) {
        tt_chunk chunk;
        st = tt_chunk_parse(&chunk, joined->bytes.data + row->chunks[k].at, row->chunks[k].len);
        if (st == TT_OK)
            st = tt_chunk_unpack(&chunk, TT_PRODUCT_HIST, &points);
    }
    for (uint32_t i = 0; st == TT_OK && i < points.n; i++) {
        tt_point p;
        tt_points_get(&points, i, &p);
        norm_step *at = find_step(n, p.step);
        if (at == NULL && n->sites == 0) {
            st = tt_grow(&n->all, &n->cap, n->count + 1, sizeof *n->all);
            if (st == TT_OK)
                *(at = &n->all[n->count++]) = (norm_step){ .step = p.step };
        }
        if (at == NULL || p.is_skipped)
            continue;
        at->sites++;
        at->sumsq += (p.stats.nan | p.stats.posinf | p.stats.neginf) != 0 ? (double)NAN : p.stats.sumsq;
    }
    n->sites++;
    tt_points_free(&points);
    return st;
}

static tt_status read_norms(tt_join *joined, tt_tap *tap, norms *n)
{
    static const char kind[] = "gradient/";
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < joined->count; site++) {
        const char *name = tt_run_site_name(joined->parts, site);
        if (strncmp(name, kind, strlen(kind)) != 0)
            continue;
        tt_join_make(joined, tap, site);
        if (site < tap->index.count && tap->index.row[site].stored > 0)
            st = add_norm(n, joined, &tap->index.row[site]);
        else if (joined->site[site].ranks > 0)
            n->sites++; /* it could not be joined: no step is whole */
    }
    return st;
}

/* ---- the row of a site ------------------------------------------------------------ */

typedef struct row_maker {
    tt_points points;
    char *record; /* owned; a record and its tail */
    size_t cap;
} row_maker;

static tt_status put_point(row_maker *made, const whole *w)
{
    const tt_point *p = &w->point;
    uint32_t products =
        p->products & (uint32_t)(TT_PRODUCT_SCALAR | TT_PRODUCT_STATS | TT_PRODUCT_DIGEST |
                                 (w->hist != NULL ? TT_PRODUCT_HIST : 0));
    size_t bytes = sizeof(tt_record) + sizeof p->stats + sizeof p->shape + sizeof p->digest +
                   (w->hist != NULL ? tt_hist_pack_bound(w->hist) : 0);
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
    if (products & TT_PRODUCT_HIST)
        head.text_len = (uint32_t)tt_hist_pack(w->hist, to);
    memcpy(made->record, &head, sizeof head);
    return tt_points_add(&made->points, (const tt_record *)(const void *)made->record);
}

/* Packs what was made into a chunk of the row. */
static tt_status end_chunk(tt_join *joined, tt_tap *tap, int32_t site, row_maker *made)
{
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

static void note(tt_joined_site *site, outcome how, const whole *w, int64_t step)
{
    site->points += how == JOINED;
    site->incomplete += how == INCOMPLETE;
    site->partial += how == PARTIAL;
    site->unknown += how == UNKNOWN;
    site->unplaced += how == JOINED && w->is_unplaced;
    site->unequal += w->is_unequal;
    if (w->is_unequal && site->first_unequal < 0)
        site->first_unequal = step;
    if (how == JOINED)
        site->parts = (int32_t)w->parts;
    if (how == INCOMPLETE) {
        site->found = (int32_t)w->found;
        site->parts = (int32_t)w->parts;
    }
}

/* Collects what the ranks hold of one step and call. */
static size_t hold(const gathering *g, const entry *from, size_t count, holding *all)
{
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && from[i].part == from[i - 1].part)
            continue; /* a second point of one call: a gradient that was read twice */
        holding *h = &all[held++];
        *h = (holding){ .from = &from[i] };
        int32_t file = g->parts[from[i].part].file;
        tt_points_get(&g->parts[from[i].part].points, from[i].i, &h->point);
        h->placement = tt_run_placement(g->run, file, g->site, from->step);
        const tt_known_mesh *known =
            h->placement != NULL ? tt_run_known_mesh(g->run, file, h->placement->mesh) : NULL;
        h->mesh = known != NULL ? &known->mesh : NULL;
        h->grid = known != NULL ? known->grid : 0;
    }
    return held;
}

/* How many entries, from this one on, are of one step and call. */
static size_t count_alike(const gathering *g, size_t from)
{
    size_t to = from + 1;
    while (to < g->count && g->entries[to].step == g->entries[from].step &&
           g->entries[to].call == g->entries[from].call)
        to++;
    return to - from;
}

/* Do ranks have the same at every step, along the axes of which nothing is known? */
static bool is_always_alike(const gathering *g, holding *all, const holding **parts)
{
    bool is_alike = true;
    for (size_t from = 0, n; is_alike && from < g->count; from += n) {
        whole w;
        n = count_alike(g, from);
        size_t held = hold(g, &g->entries[from], n, all);
        is_alike = join(g, all, held, parts, room_for(g), &w) != UNKNOWN;
        tt_hist_free(w.hist);
    }
    return is_alike;
}

/* Joins the entries of one step and call, and adds the point. */
static tt_status join_entries(tt_join *joined, const gathering *g, const entry *from, size_t count,
                              holding *all, const holding **parts, norms *n, row_maker *made)
{
    tt_joined_site *site = &joined->site[g->site];
    size_t held = hold(g, from, count, all);
    whole w;
    outcome how = join(g, all, held, parts, room_for(g), &w);
    if (how == JOINED && n != NULL && w.is_unequal) { /* each rank has the norm of its own parts */
        const norm_step *at = find_step(n, from->step);
        how = at != NULL && at->sites == n->sites ? JOINED : UNKNOWN;
        if (how == JOINED)
            w.point.scalar = sqrt(at->sumsq);
        w.is_unequal = w.is_unplaced = false;
        w.parts = (int64_t)held;
    }
    note(site, how, &w, from->step);
    tt_status st = how == JOINED ? put_point(made, &w) : TT_OK;
    tt_hist_free(w.hist);
    return st;
}

static tt_status make_row(tt_join *joined, tt_tap *tap, int32_t site)
{
    enum { CHUNK = 4096 };
    gathering g = { .run = joined->parts, .site = site, .bins = calloc(BINS, sizeof *g.bins) };
    row_maker made = { 0 };
    norms n = { 0 };
    tt_status st = TT_OK;
    for (g.seen_cap = 16; g.seen_cap < 2 * (size_t)g.run->count;)
        g.seen_cap *= 2;
    g.seen = calloc(g.seen_cap, sizeof *g.seen);
    for (int32_t f = 0; st == TT_OK && f < g.run->count; f++)
        st = read_part(&g, f);
    joined->site[site].ranks = g.ranks;
    joined->site[site].rank = g.part_count > 0 ? g.run->taps[g.parts[0].file]->rank : -1;
    bool has_norm = is_norm(tt_run_site_name(g.run, site));
    if (st == TT_OK && has_norm && g.ranks > 1)
        st = read_norms(joined, tap, &n);
    qsort(g.entries, g.count, sizeof *g.entries, by_step);
    holding *all = calloc(g.part_count + 1, sizeof *all);
    const holding **parts = calloc(room_for(&g), sizeof *parts);
    if (all == NULL || parts == NULL)
        st = TT_ENOMEM;
    g.trusts = true;
    if (st == TT_OK)
        g.trusts = is_always_alike(&g, all, parts);
    for (size_t from = 0, count; st == TT_OK && from < g.count; from += count) {
        count = count_alike(&g, from);
        st = join_entries(joined, &g, &g.entries[from], count, all, parts, has_norm ? &n : NULL, &made);
        if (st == TT_OK && made.points.n >= CHUNK)
            st = end_chunk(joined, tap, site, &made);
    }
    if (st == TT_OK)
        st = end_chunk(joined, tap, site, &made);
    free(all);
    free((void *)parts);
    free(made.record);
    free(n.all);
    tt_points_free(&made.points);
    free_gathering(&g);
    return st;
}

void tt_join_make(tt_join *join, tt_tap *tap, int32_t site)
{
    if (site < 0 || site >= join->count || join->is_made[site])
        return;
    join->is_made[site] = true; /* also if there is no memory: then it has no points */
    (void)make_row(join, tap, site);
}

void tt_join_free(tt_join *join)
{
    if (join == NULL)
        return;
    free(join->site);
    free(join->is_made);
    tt_buf_free(&join->bytes);
    free(join);
}

/* ---- the run -------------------------------------------------------------------------- */

static bool has_placements(const tt_run *run)
{
    for (int32_t f = 0; f < run->count; f++)
        if (run->taps[f]->placement_count > 0)
            return true;
    return false;
}

/* What the files say of themselves: that of the lowest rank, and the notes and modules of all. */
static tt_status copy_texts(const tt_run *parts, tt_tap *tap)
{
    const tt_tap *first = parts->taps[0];
    tt_status st = TT_OK;
    size_t pairs = (size_t)first->info_count * 2;
    tap->info = calloc(pairs + 1, sizeof *tap->info);
    if (tap->info == NULL)
        return TT_ENOMEM;
    memcpy((void *)tap->info, (const void *)first->info, pairs * sizeof *tap->info);
    tap->info_count = first->info_count;
    st = tt_grow(&tap->settings, &tap->setting_cap, (size_t)first->setting_count, sizeof *tap->settings);
    if (st == TT_OK && first->setting_count > 0) {
        memcpy(tap->settings, first->settings, (size_t)first->setting_count * sizeof *tap->settings);
        tap->setting_count = first->setting_count;
    }
    for (int32_t f = 0; st == TT_OK && f < parts->count; f++) {
        const tt_tap *from = parts->taps[f];
        for (int32_t i = 0; st == TT_OK && i < from->note_count; i++) {
            bool is_known = false;
            for (int32_t k = 0; k < tap->note_count && !is_known; k++)
                is_known = strcmp(tap->notes[k].text, from->notes[i].text) == 0;
            if (is_known)
                continue;
            st = tt_grow(&tap->notes, &tap->note_cap, (size_t)tap->note_count + 1, sizeof *tap->notes);
            if (st == TT_OK)
                tap->notes[tap->note_count++] = from->notes[i];
        }
        for (int32_t i = 0; st == TT_OK && i < from->module_count; i++) {
            bool is_known = false;
            for (int32_t k = 0; k < tap->module_count && !is_known; k++)
                is_known = strcmp(tap->modules[k].path, from->modules[i].path) == 0;
            if (is_known)
                continue;
            st = tt_grow(&tap->modules, &tap->module_cap, (size_t)tap->module_count + 1,
                         sizeof *tap->modules);
            if (st == TT_OK)
                tap->modules[tap->module_count++] = from->modules[i];
        }
    }
    return st;
}

/* Bytes, steps and losses are those of all files. */
static void copy_totals(const tt_run *parts, tt_tap *tap)
{
    tap->index.steps = TT_SPAN_NONE;
    tap->scan.is_closed = true;
    for (int32_t f = 0; f < parts->count; f++) {
        const tt_tap *from = parts->taps[f];
        if (from->index.steps.last >= from->index.steps.first)
            tt_span_add(&tap->index.steps, from->index.steps.first, from->index.steps.last);
        tap->scan.size += from->scan.size;
        tap->scan.damaged += from->scan.damaged;
        tap->scan.is_closed &= from->scan.is_closed;
        tap->index.lost_events += from->index.lost_events;
    }
}

static tt_status make_tap(tt_run *parts, tt_run *run)
{
    tt_tap *tap = calloc(1, sizeof *tap);
    tt_join *join = calloc(1, sizeof *join);
    run->taps = calloc(1, sizeof *run->taps);
    if (tap == NULL || join == NULL || run->taps == NULL) {
        free(tap);
        free(join);
        return TT_ENOMEM;
    }
    run->taps[0] = tap;
    run->count = 1;
    run->cap = 1;
    tap->fd = -1;
    tap->join = join;
    join->parts = parts;
    join->count = tt_run_site_count(parts);
    join->site = calloc((size_t)join->count + 1, sizeof *join->site);
    join->is_made = calloc((size_t)join->count + 1, sizeof *join->is_made);
    tap->path = strdup(parts->taps[0]->path);
    tap->rank = parts->taps[0]->rank;
    tt_status st = tt_sites_create(&tap->sites);
    tap->index.sites = tap->sites;
    if (st == TT_OK && (join->site == NULL || join->is_made == NULL || tap->path == NULL))
        st = TT_ENOMEM;
    if (st == TT_OK)
        st = tt_grow(&tap->local, &tap->local_cap, (size_t)join->count + 1, sizeof *tap->local);
    for (int32_t site = 0; st == TT_OK && site < join->count; site++) {
        const char *name = tt_run_site_name(parts, site);
        int32_t number;
        tap->local[site] = site;
        join->site[site].first_unequal = join->site[site].rank = -1;
        st = tt_sites_intern(run->sites, name, strlen(name), NULL, &number);
    }
    for (size_t site = (size_t)join->count; st == TT_OK && site < tap->local_cap; site++)
        tap->local[site] = -1;
    tt_index_site *last; /* all rows now: whoever has one must not lose it */
    if (st == TT_OK && join->count > 0)
        st = tt_index_row(&tap->index, join->count - 1, &last);
    if (st == TT_OK)
        st = copy_texts(parts, tap);
    copy_totals(parts, tap);
    return st;
}

tt_status tt_run_join(tt_run *parts, tt_run **out, tt_error *err)
{
    if (parts->count < 2 || !has_placements(parts))
        return tt_fail(err, TT_EMISMATCH, "%.180s: it has no placements of tensors over ranks",
                       parts->path);
    tt_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    run->points_at = -1;
    run->is_folder = parts->is_folder;
    run->path = strdup(parts->path);
    tt_status st = run->path != NULL ? tt_sites_create(&run->sites) : TT_ENOMEM;
    if (st == TT_OK)
        st = make_tap(parts, run);
    if (st < 0) {
        tt_run_close(run);
        return tt_fail_plain(err, st);
    }
    *out = run;
    return TT_OK;
}

static tt_join *join_of(const tt_run *run)
{
    return run->count == 1 ? run->taps[0]->join : NULL;
}

tt_run *tt_run_parts(tt_run *run)
{
    tt_join *join = join_of(run);
    return join != NULL ? join->parts : run;
}

void tt_run_join_all(tt_run *joined)
{
    tt_join *join = join_of(joined);
    if (join == NULL)
        return;
    for (int32_t site = 0; site < join->count; site++)
        tt_join_make(join, joined->taps[0], site);
    for (int32_t f = 0; f < join->parts->count; f++) {
        tt_tap *tap = join->parts->taps[f];
        tt_index_forget(&tap->index);
        tt_sites_clear(tap->sites);
        tap->placement_count = tap->placements_sorted = 0;
        free(tap->placements);
        tap->placements = NULL;
        tap->placement_cap = 0;
    }
}

const tt_joined_site *tt_run_joined(const tt_run *run, int32_t site)
{
    tt_join *join = join_of(run);
    if (join == NULL || site < 0 || site >= join->count)
        return NULL;
    tt_join_make(join, run->taps[0], site);
    return &join->site[site];
}
