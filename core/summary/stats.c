/* stats.c -- the statistics of a whole tensor from those of its blocks.
 *
 * Exists to say once how blocks are merged.  Elements are read as they lie in
 * memory, not in index order: the answer does not depend on the order but for
 * its last bits, and a transposed tensor costs no more than a plain one.
 * Dimensions of stride 0 are read once and multiplied.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/stats.h"

#include "base/float_mode.h"
#include "summary/convert.h"
#include "summary/magnitude.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/* What the blocks so far add up to; mean is a running one for Chan's formula. */
typedef struct totals {
    tt_block all;
    int64_t last_nonfinite; /* in the last block */
    int128 isum, origin;    /* origin: of the means of 64-bit integers */
    tt_exact ends;          /* of 64-bit integers */
    bool is_spread;         /* the last block's 64-bit integers were far apart */
    double sum_real, sum_imag;
} totals;

static void merge_block(tt_block *into, const tt_block *from)
{
    into->nan += from->nan;
    into->posinf += from->posinf;
    into->neginf += from->neginf;
    if (from->count == 0)
        return;
    if (into->count == 0) {
        int64_t nan = into->nan, posinf = into->posinf, neginf = into->neginf;
        *into = *from;
        into->nan = nan, into->posinf = posinf, into->neginf = neginf;
        return;
    }
    tt_moments_merge((double)into->count, (double)from->count, &into->mean, &into->m2, from->mean,
                     from->m2);
    into->count += from->count;
    into->zeros += from->zeros;
    into->min = from->min < into->min ? from->min : into->min;
    into->max = from->max > into->max ? from->max : into->max;
    into->sum += from->sum;
    into->l1 += from->l1;
    into->sumsq += from->sumsq;
}

/* NaN and Inf come in swarms: after a block that held some, expect more. */
static bool is_doubtful(const totals *sums)
{
    return sums->last_nonfinite > 0;
}

static void add_block(totals *into, const tt_block *block)
{
    into->last_nonfinite = block->nan + block->posinf + block->neginf;
    merge_block(&into->all, block);
}

static void add_f32(tt_dtype dtype, const void *run, size_t n, totals *into)
{
    float tile[TT_TILE];
    tt_block block;
    tt_kernels_get()->stats_f32(tt_tile_f32(dtype, run, tile, n), n, is_doubtful(into), &block);
    add_block(into, &block);
}

static void add_half(tt_dtype dtype, const void *run, size_t n, totals *into)
{
    tt_block block;
    const uint16_t *x = run;
    if (!is_doubtful(into) && tt_kernels_get()->stats_half(dtype, x, n, &block)) {
        add_block(into, &block);
        return;
    }
    size_t first = n < TT_TILE ? n : TT_TILE;
    add_f32(dtype, x, first, into);
    if (first < n)
        add_f32(dtype, x + first, n - first, into);
}

static void add_f64(tt_dtype dtype, const void *run, size_t n, totals *into)
{
    double tile[TT_TILE];
    tt_block block;
    tt_kernels_get()->stats_f64(tt_tile_f64(dtype, run, tile, n), n, is_doubtful(into), &block);
    add_block(into, &block);
    if (dtype != TT_F64) /* 32 bits at most: the block's sum is exact */
        into->isum += (int64_t)block.sum;
}

/* 64-bit integers.  Means are merged as distances from the first block's, which
 * are right where f64 is too coarse for the integers themselves. */
static void add_wide(tt_dtype dtype, const void *run, size_t n, totals *into)
{
    tt_block block;
    bool is_unsigned = dtype == TT_U64, is_first = into->all.count == 0;
    if (is_first) {
        into->ends.low = is_unsigned ? (int64_t)UINT64_MAX : INT64_MAX;
        into->ends.high = is_unsigned ? 0 : INT64_MIN;
    }
    into->is_spread =
        !tt_kernels_get()->stats_i64(is_unsigned, run, n, into->is_spread, &block, &into->ends);
    int128 sum = (int128)(((uint128)(uint64_t)into->ends.sum_hi << 64) | into->ends.sum_lo);
    if (is_first)
        into->origin = sum / (int128)n;
    block.mean = (double)(sum - into->origin * (int128)n) / (double)n;
    into->isum += sum;
    add_block(into, &block);
}

/* |z| goes through the f64 lanes; the parts of finite numbers are added up
 * beside it. */
static void add_complex(tt_dtype dtype, const void *run, size_t n, totals *into)
{
    double size[TT_TILE], real = 0, imag = 0;
    tt_number tile[TT_TILE];
    const tt_number *z = tt_tile_complex(dtype, run, tile, n);
    for (size_t i = 0; i < n; i++) {
        size[i] = isnan(z[i].re) || isnan(z[i].im) ? (double)NAN : tt_magnitude(z[i].re, z[i].im);
        if (size[i] < (double)INFINITY) {
            real += z[i].re;
            imag += z[i].im;
        }
    }
    tt_block block;
    tt_kernels_get()->stats_f64(size, n, is_doubtful(into), &block);
    add_block(into, &block);
    into->sum_real += real;
    into->sum_imag += imag;
}

static void add_run(tt_dtype dtype, const void *run, size_t n, totals *into)
{
    switch (tt_lane_of(dtype)) {
    case TT_LANE_F32:
        (dtype == TT_F16 || dtype == TT_BF16 ? add_half : add_f32)(dtype, run, n, into);
        break;
    case TT_LANE_F64:
        add_f64(dtype, run, n, into);
        break;
    case TT_LANE_INTEGER:
        add_wide(dtype, run, n, into);
        break;
    case TT_LANE_COMPLEX:
        add_complex(dtype, run, n, into);
        break;
    }
}

static void set_integers(tt_stats *s, const totals *sums, tt_dtype dtype)
{
    bool is_wide = dtype == TT_I64 || dtype == TT_U64;
    s->imin = is_wide ? sums->ends.low : (int64_t)sums->all.min;
    s->imax = is_wide ? sums->ends.high : (int64_t)sums->all.max;
    s->isum_lo = (uint64_t)sums->isum;
    s->isum_hi = (int64_t)(sums->isum >> 64);
    s->min = dtype == TT_U64 ? (double)(uint64_t)s->imin : (double)s->imin;
    s->max = dtype == TT_U64 ? (double)(uint64_t)s->imax : (double)s->imax;
    s->sum = (double)sums->isum;
}

/* repeat: how often each element read stands for one of the tensor. */
static void finish(tt_stats *s, totals *sums, tt_dtype dtype, int64_t repeat)
{
    const tt_block *all = &sums->all;
    double times = (double)repeat;
    memset(s, 0, sizeof *s);
    s->dtype = (int32_t)dtype;
    s->count = (all->count + all->nan + all->posinf + all->neginf) * repeat;
    s->nan = all->nan * repeat;
    s->posinf = all->posinf * repeat;
    s->neginf = all->neginf * repeat;
    s->zeros = all->zeros * repeat;
    s->min = s->max = s->absmax = s->mean = (double)NAN;
    if (all->count == 0)
        return;
    sums->isum *= repeat;
    s->min = all->min;
    s->max = all->max;
    s->sum = all->sum * times;
    tt_kind kind = tt_dtype_kind(dtype);
    if (kind == TT_KIND_COMPLEX) {
        s->sum = sums->sum_real * times;
        s->sum_imag = sums->sum_imag * times;
    } else if (kind != TT_KIND_FLOAT) {
        set_integers(s, sums, dtype);
    }
    s->absmax = fmax(fabs(s->min), fabs(s->max));
    double finite = (double)(all->count * repeat);
    s->mean = isfinite(s->sum) || kind == TT_KIND_COMPLEX ? s->sum / finite : all->mean;
    s->m2 = all->m2 * times;
    s->l1 = all->l1 * times;
    s->sumsq = all->sumsq * times;
}

/* Takes the dimensions of stride 0 away; returns how often the rest repeats. */
static int64_t drop_repeats(const tt_tensor *t, tt_tensor *once)
{
    int64_t repeat = 1;
    once->data = t->data;
    once->dtype = t->dtype;
    once->is_swapped = t->is_swapped;
    once->ndim = 0;
    for (int32_t d = 0; d < t->ndim; d++) {
        if (t->stride[d] == 0) {
            repeat *= t->shape[d];
            continue;
        }
        once->shape[once->ndim] = t->shape[d];
        once->stride[once->ndim] = t->stride[d];
        once->ndim++;
    }
    once->count = t->count / (repeat > 0 ? repeat : 1);
    return repeat > 0 ? repeat : 1;
}

static bool has_repeats(const tt_tensor *t)
{
    for (int32_t d = 0; d < t->ndim; d++)
        if (t->stride[d] == 0 && t->shape[d] > 1)
            return true;
    return false;
}

void tt_stats_compute(const tt_tensor *t, tt_stats *out)
{
    uint64_t mode = tt_float_mode_begin();
    tt_tensor once;
    int64_t repeat = 1;
    if (t->count > 0 && has_repeats(t)) {
        repeat = drop_repeats(t, &once);
        t = &once;
    }
    totals sums = { 0 };
    _Alignas(32) char buffer[TT_TILE_BYTES];
    const void *run;
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_MEMORY);
    size_t max = t->dtype == TT_F16 || t->dtype == TT_BF16 ? 2 * TT_TILE : TT_TILE;
    for (size_t n; (n = tt_walk_next(&walk, buffer, max, &run)) > 0;)
        add_run(t->dtype, run, n, &sums);
    finish(out, &sums, t->dtype, repeat);
    tt_float_mode_end(mode);
}

int64_t tt_stats_finite(const tt_stats *s)
{
    return tt_finite_of(s);
}

static tt_block block_of(const tt_stats *s)
{
    return (tt_block){ .count = tt_stats_finite(s),
                       .nan = s->nan,
                       .posinf = s->posinf,
                       .neginf = s->neginf,
                       .zeros = s->zeros,
                       .min = s->min,
                       .max = s->max,
                       .mean = s->mean,
                       .m2 = s->m2,
                       .sum = s->sum,
                       .l1 = s->l1,
                       .sumsq = s->sumsq };
}

void tt_stats_merge(tt_stats *into, const tt_stats *from)
{
    tt_block all = block_of(into), more = block_of(from);
    merge_block(&all, &more);
    into->count += from->count;
    into->nan = all.nan, into->posinf = all.posinf, into->neginf = all.neginf, into->zeros = all.zeros;
    into->min = all.min, into->max = all.max, into->absmax = fmax(into->absmax, from->absmax);
    into->sum = all.sum, into->mean = all.mean, into->m2 = all.m2;
    into->l1 = all.l1, into->sumsq = all.sumsq;
}

/* ---- what follows from the sums ------------------------------------------ */

#define X(name, expression)                        \
    double tt_stats_##name(const tt_stats *s)      \
    {                                              \
        uint64_t mode = tt_float_mode_begin();     \
        double x = tt_float_mode_keep(expression); \
        tt_float_mode_end(mode);                   \
        return x;                                  \
    }
TT_STATS_DERIVED_MAP(X)
#undef X

void tt_stats_propagate(tt_stats *s)
{
    int64_t infinite = s->posinf + s->neginf;
    s->is_propagated = 1;
    if (s->nan > 0) {
        s->min = s->max = s->absmax = s->sum = s->mean = s->sum_imag = (double)NAN;
        s->m2 = s->l1 = s->sumsq = (double)NAN;
    } else if (infinite > 0) {
        if (s->neginf > 0)
            s->min = (double)-INFINITY;
        if (s->posinf > 0)
            s->max = (double)INFINITY;
        if (infinite == s->count && s->neginf == 0)
            s->min = (double)INFINITY;
        if (infinite == s->count && s->posinf == 0)
            s->max = (double)-INFINITY;
        s->absmax = s->l1 = s->sumsq = (double)INFINITY;
        s->sum = s->neginf == 0 ? (double)INFINITY : s->posinf == 0 ? (double)-INFINITY : (double)NAN;
        s->mean = s->sum;
        s->m2 = (double)NAN;
        if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX)
            s->sum = s->mean = s->sum_imag = (double)NAN; /* which part was infinite is not kept */
    }
}
