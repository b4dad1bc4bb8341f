/* stats_kernel.c -- the statistics of one block of f32 or f64 elements.
 *
 * Exists because this loop decides what watching a tensor costs.  Ten vector
 * operations for each load: less than the time in which memory delivers the
 * next one.  NaN and Inf need no operation of their own in the usual case: they
 * spoil the sum of magnitudes, and the block is then done again with masks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"
#include "summary/lanes_kernel.h"
#include "tensor/walk.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { PREFETCH_BYTES = 2048 };

static void careful_f32(const float *x, size_t n, tt_block *out);
static void careful_f64(const double *x, size_t n, tt_block *out);

#define T double
#define LANES 4
#define V(f) f64v_##f
#define C(f) i64v_##f
#define NAME(f) f64_##f
#define vec f64v
#define counters i64v
#define counter int64_t
#define CAREFUL careful_f64
/* With 53 bits the pivot cannot cost more than it may: a pivot that is the mean
 * of k of the n elements makes squares at most 1 + n/k times m2. */
#define WORST_RATIO 1e8
#define LEAST_SQUARE 0.0
#include "summary/stats_block_kernel.h"
#undef T
#undef LANES
#undef V
#undef C
#undef NAME
#undef vec
#undef counters
#undef counter
#undef CAREFUL
#undef WORST_RATIO
#undef LEAST_SQUARE

#define T float
#define LANES 8
#define V(f) f32v_##f
#define C(f) i32v_##f
#define NAME(f) f32_##f
#define vec f32v
#define counters i32v
#define counter int32_t
#define CAREFUL careful_f32
#define WORST_RATIO 4.0
#define LEAST_SQUARE 0x1p-100 /* below, squares of f32 lose digits to underflow */
#include "summary/stats_block_kernel.h"

/* f64 holds every sum of f32 values that occurs here. */
static void careful_f32(const float *x, size_t n, tt_block *out)
{
    double wide[TT_TILE];
    assert(n <= TT_TILE);
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)x[i];
    f64_block(wide, n, out);
}

/* Values near the end of f64: the sums are taken of x * 2^-600.  What then does
 * not fit is Inf, as in torch; counts, min and max are already right. */
static void careful_f64(const double *x, size_t n, tt_block *out)
{
    double small[TT_TILE];
    assert(n <= TT_TILE);
    for (size_t i = 0; i < n; i++)
        small[i] = x[i] * 0x1p-600;
    f64_sums s;
    memset(&s, 0, sizeof s);
    s.pivot = f64_choose_finite_pivot(small, n);
    f64_add_masked(&s, small, n);
    tt_block scaled;
    (void)f64_finish(&s, n, &scaled);
    out->mean = scaled.mean * 0x1p600;
    out->sum = scaled.sum * 0x1p600;
    out->l1 = scaled.l1 * 0x1p600;
    out->m2 = scaled.m2 * 0x1p600 * 0x1p600;
    out->sumsq = scaled.sumsq * 0x1p600 * 0x1p600;
}

void TT_KERNEL(stats_f32)(const float *x, size_t n, tt_block *out)
{
    assert(n > 0 && n <= TT_TILE);
    f32_block(x, n, out);
}

void TT_KERNEL(stats_f64)(const double *x, size_t n, tt_block *out)
{
    assert(n > 0 && n <= TT_TILE);
    f64_block(x, n, out);
}
