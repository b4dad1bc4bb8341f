/* point.c -- what the ranks hold of one step and call, put together.
 *
 * Ranks of one class hold the same part, and one of them stands for it; the classes together hold the whole tensor.
 * Numbers that are a part are never given for the whole: where a part is missing, or the counts do not add up to the
 * global shape, there is no point.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/parts.h"

#include "store/pack.h"
#include "summary/placed.h"
#include "summary/stats.h"

#include <math.h>
#include <string.h>

void tt_holding_place(const tt_gathering *g, int32_t file, int64_t step, tt_holding *h)
{
    h->placement = tt_run_placement(g->run, file, g->site, step);
    const tt_known_mesh *known =
        h->placement != NULL ? tt_run_known_mesh(g->run, file, h->placement->mesh) : NULL;
    h->mesh = known != NULL ? &known->mesh : NULL;
    h->grid = known != NULL ? known->grid : 0;
}

static bool is_spread(const tt_holding *h, int32_t d, tt_spread spread)
{
    return h->placement->on[d].spread == spread && !(spread == TT_SPREAD_BATCH && h->is_repeated);
}

bool tt_holding_is_alike(const tt_holding *a, const tt_holding *b)
{
    if (a->mesh->ndim != b->mesh->ndim || a->placement->ndim != b->placement->ndim)
        return false;
    for (int32_t d = 0; d < a->mesh->ndim; d++)
        if (a->placement->on[d].spread != b->placement->on[d].spread)
            return false;
    return a->grid == b->grid;
}

static bool is_single(const tt_mesh *mesh)
{
    int32_t d = 0;
    while (d < mesh->ndim && mesh->size[d] == 1)
        d++;
    return d == mesh->ndim;
}

bool tt_holding_find_class(tt_holding *h, int64_t *classes, bool *is_guess)
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

bool tt_holding_is_addend(const tt_holding *h)
{
    for (int32_t d = 0; h->placement != NULL && d < h->placement->mesh_ndim; d++)
        if (is_spread(h, d, TT_SPREAD_PARTIAL))
            return true;
    return false;
}

int64_t tt_holding_count_whole(const tt_holding *h)
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
    if (both & TT_PRODUCT_PLACED && (a->placed.low != b->placed.low || a->placed.high != b->placed.high))
        return false;
    if (both & TT_PRODUCT_DIGEST)
        return a->digest.low == b->digest.low && a->digest.high == b->digest.high;
    if (both & TT_PRODUCT_SCALAR && !(both & TT_PRODUCT_STATS))
        return a->scalar == b->scalar || (isnan(a->scalar) && isnan(b->scalar));
    return a->stats.count == b->stats.count && a->stats.sumsq == b->stats.sumsq &&
           a->stats.sum == b->stats.sum && a->stats.min == b->stats.min && a->stats.max == b->stats.max &&
           a->stats.nan == b->stats.nan;
}

bool tt_join_may_repeat(const tt_gathering *g)
{
    tt_holding h = { 0 };
    tt_point a, b;
    bool has_batch = false;
    if (g->file_count < 2 || tt_run_point(g->run, g->files[0], g->site, 0, &a, NULL) < 0)
        return false;
    tt_holding_place(g, g->files[0], a.step, &h);
    for (int32_t d = 0; h.mesh != NULL && d < h.placement->mesh_ndim; d++)
        has_batch |= is_spread(&h, d, TT_SPREAD_BATCH);
    return has_batch && tt_run_point(g->run, g->files[1], g->site, 0, &b, NULL) == TT_OK &&
           is_equal(&a, &b) && a.stats.min < a.stats.max;
}

static bool are_equal(const tt_holding *all, size_t count)
{
    size_t i = 1;
    while (i < count && is_equal(&all[0].point, &all[i].point))
        i++;
    return i >= count;
}

/* The histogram of a point is added to one; false: it has none that can be read. */
static bool add_hist(const tt_gathering *g, const tt_holding *h, tt_hist *into)
{
    tt_hist_bin *bins = g->bins;
    size_t len, count = 0;
    const char *bytes =
        tt_points_bytes(&g->parts[h->from->part].points, TT_COLUMN_HIST, h->from->i, &len);
    if (bytes == NULL || bins == NULL || tt_hist_unpack(bytes, len, bins, TT_JOIN_BINS, &count) < 0 ||
        count > TT_JOIN_BINS)
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

void tt_join_merge_integers(tt_stats *into, const tt_stats *from)
{
    uint64_t low = into->isum_lo + from->isum_lo;
    into->isum_hi = (int64_t)((uint64_t)into->isum_hi + (uint64_t)from->isum_hi + (low < from->isum_lo));
    into->isum_lo = low;
    into->imin =
        from->count > 0 && (into->count == 0 || from->imin < into->imin) ? from->imin : into->imin;
    into->imax =
        from->count > 0 && (into->count == 0 || from->imax > into->imax) ? from->imax : into->imax;
}

void tt_join_merge(tt_stats *into, const tt_stats *from)
{
    tt_join_merge_integers(into, from);
    tt_stats_merge(into, from);
    into->sum_imag += from->sum_imag;
}

void tt_join_find_shape(const tt_holding *const *parts, int64_t count, tt_point *out)
{
    const tt_holding *first = parts[0];
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
    if (has_shard)
        out->ndim = -1; /* parts of any dimension */
    for (int64_t k = 1; k < count && out->ndim > 0; k++) {
        const tt_point *p = &parts[k]->point;
        bool is_like = p->ndim == out->ndim && memcmp(p->shape + 1, out->shape + 1,
                                                      (size_t)(p->ndim - 1) * sizeof *p->shape) == 0;
        is_like = is_like && !__builtin_add_overflow(out->shape[0], p->shape[0], &out->shape[0]);
        out->ndim = is_like ? out->ndim : -1;
    }
}

double tt_join_number(const tt_stats *s)
{
    return s->nan > 0                  ? (double)NAN
           : s->posinf + s->neginf > 0 ? (s->posinf > 0 ? (double)INFINITY : (double)-INFINITY)
                                       : s->mean;
}

tt_stats tt_join_of_number(double x, int32_t dtype)
{
    if (!isfinite(x))
        return (tt_stats){ .count = 1,
                           .dtype = dtype,
                           .nan = isnan(x) != 0,
                           .posinf = isinf(x) && x > 0,
                           .neginf = isinf(x) && x < 0 };
    return (tt_stats){ .count = 1,
                       .dtype = dtype,
                       .zeros = x == 0,
                       .min = x,
                       .max = x,
                       .absmax = fabs(x),
                       .sum = x,
                       .mean = x,
                       .l1 = fabs(x),
                       .sumsq = x * x };
}

/* The mean of numbers, such as the losses of the parts of a batch, is a number. */
static void average(const tt_holding *const *parts, int64_t count, tt_stats *out)
{
    double sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += tt_join_number(&parts[k]->point.stats);
    *out = tt_join_of_number(sum / (double)count, out->dtype);
}

/* Combines the parts, which are in the order of the mesh. */
static void combine(const tt_gathering *g, const tt_holding *const *parts, int64_t count, tt_whole *out)
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
        for (int64_t k = 1; k < count; k++)
            tt_join_merge(&out->point.stats, &parts[k]->point.stats);
    }
    for (int64_t k = 0; k < count; k++) {
        if (k > 0)
            tt_placed_add(&out->point.placed, &parts[k]->point.placed);
        sum += parts[k]->point.scalar;
        out->point.products &= parts[k]->point.products;
        has_hist = has_hist && add_hist(g, parts[k], out->hist);
    }
    out->point.scalar = sum / (double)count;
    out->point.products &= ~(uint32_t)(TT_PRODUCT_DIGEST | (has_hist ? 0 : TT_PRODUCT_HIST));
    tt_join_find_shape(parts, count, &out->point);
}

size_t tt_join_room(const tt_gathering *g)
{
    return (size_t)g->run->count * TT_MESH_DIMS + 64;
}

/* Do other groups of ranks hold the same as the first?  Else they are no replicas of it: stages of a pipeline whose
 * modules have one name, or rows of a batch that nobody has split in a way that is known. */
static bool is_replicated(const tt_holding *all, size_t count, const tt_holding **parts, int64_t classes)
{
    for (size_t i = 1; i < count; i++) {
        if (tt_holding_is_alike(&all[0], &all[i]))
            continue;
        bool has_twin = all[i].number < classes && parts[all[i].number] != NULL;
        if (!has_twin || !is_equal(&parts[all[i].number]->point, &all[i].point))
            return false;
    }
    return true;
}

bool tt_join_is_possible(const tt_stats *s)
{
    return tt_join_can_count(s->count, s->nan, s->posinf, s->neginf, s->zeros);
}

tt_outcome tt_join_point(const tt_gathering *g, tt_holding *all, size_t count, const tt_holding **parts,
                         size_t room, tt_whole *out)
{
    int64_t classes = 1, others, elements = 0; /* classes: those of the lowest rank's grid */
    bool is_placed = false, is_guess = false;
    *out = (tt_whole){ .parts = 1, .found = 1 };
    for (size_t i = 0; i < count; i++) {
        is_placed |= all[i].placement != NULL;
        if (tt_holding_is_addend(&all[i]))
            return tt_join_addends(g, all, count, parts, room, out);
    }
    if (!is_placed) { /* a number that the program logged, or a run of an older version */
        bool is_share = tt_join_is_ratio(tt_run_site_name(g->run, g->site));
        out->is_unplaced = g->ranks > 1 && !is_share;
        out->is_unequal = !is_share && !are_equal(all, count);
        for (size_t i = 0; i < count; i++)
            parts[i] = &all[i];
        combine(g, parts, is_share ? (int64_t)count : 1, out);
        return TT_JOINED;
    }
    for (size_t i = 0; i < count; i++)
        if (!tt_holding_find_class(&all[i], i == 0 ? &classes : &others, &is_guess) ||
            (is_guess && !g->trusts))
            return TT_UNPLACED;
    out->parts = classes;
    out->found = 0;
    if ((size_t)classes > room)
        return TT_INCOMPLETE;
    memset(parts, 0, (size_t)classes * sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        if (!tt_holding_is_alike(&all[0], &all[i])) {
            if (is_single(all[i].mesh)) /* a stage of a pipeline: it has other layers */
                return TT_UNPLACED;
            continue; /* another group of ranks */
        }
        const tt_holding **at = &parts[all[i].number];
        if (*at != NULL) {
            out->is_unequal |= !is_equal(&(*at)->point, &all[i].point);
            continue;
        }
        *at = &all[i];
        out->found++;
        if (!tt_join_is_possible(&all[i].point.stats))
            return TT_INCOMPLETE;
        elements += all[i].point.stats.count;
    }
    if ((is_guess && out->is_unequal) || !is_replicated(all, count, parts, classes))
        return TT_UNPLACED;
    int64_t expected = tt_holding_count_whole(&all[0]);
    bool has_stats = (all[0].point.products & TT_PRODUCT_STATS) != 0;
    if (out->found < classes || (has_stats && expected >= 0 && elements != expected))
        return TT_INCOMPLETE;
    combine(g, parts, classes, out);
    return TT_JOINED;
}
