/* stats_kernel.c -- the statistics of one block of elements.
 *
 * Exists because this loop decides what watching a tensor costs.  Ten vector
 * operations for each load: less than the time in which memory delivers the
 * next one.  NaN and Inf need no operation of their own in the usual case: they
 * spoil the sum of magnitudes, and the block is then done again with masks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/ahead_kernel.h"
#include "summary/kernels.h"
#include "summary/lanes_kernel.h"
#include "tensor/walk.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- f64 lanes: f64, and integers of at most 32 bits ----------------------- */

#define T double
#define LANES 4
#define V(f) f64v_##f
#define C(f) i64v_##f
#define NAME(f) f64_##f
#define vec f64v
#define counters i64v
#define counter int64_t
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
#undef WORST_RATIO
#undef LEAST_SQUARE

/* ---- f32 lanes: f32, f16, bf16 -------------------------------------------- */

#define T float
#define LANES 8
#define V(f) f32v_##f
#define C(f) i32v_##f
#define NAME(f) f32_##f
#define vec f32v
#define counters i32v
#define counter int32_t
#define WORST_RATIO 4.0
#define LEAST_SQUARE 0x1p-100 /* below, squares of f32 lose digits to underflow */
#include "summary/stats_block_kernel.h"

#define SPLIT(x, raw, a, b) u16v_split_bf16(raw, &a, &b)
#define DTYPE TT_BF16
#define HALF(f) bf16_##f
#include "summary/stats_half_kernel.h"

#define SPLIT(x, raw, a, b) f32v_load_f16(x, &a, &b)
#define DTYPE TT_F16
#define HALF(f) f16_##f
#include "summary/stats_half_kernel.h"

/* ---- from lanes to a block ------------------------------------------------ */

/* Values near the end of f64: the sums are taken of x * 2^-600.  What then does
 * not fit is Inf, as in torch; counts, min and max are already right. */
static void careful_f64(const double *x, size_t n, tt_block *out)
{
    double small[TT_TILE];
    for (size_t i = 0; i < n; i++)
        small[i] = x[i] * 0x1p-600;
    f64_sums s;
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

void TT_KERNEL(stats_f64)(const double *x, size_t n, bool is_doubtful, tt_block *out)
{
    assert(n > 0 && n <= TT_TILE);
    f64_sums s;
    if (!is_doubtful) {
        s.pivot = n < f64_FIRST ? x[0] : f64_choose_pivot(x);
        f64_add_finite(&s, x, n);
        if (f64_finish(&s, n, out))
            return;
    }
    s.pivot = f64_choose_finite_pivot(x, n);
    f64_add_masked(&s, x, n);
    if (!f64_finish(&s, n, out))
        careful_f64(x, n, out);
}

/* f64 holds every sum of f32 values that occurs here. */
static void careful_f32(const float *x, size_t n, bool is_doubtful, tt_block *out)
{
    double wide[TT_TILE];
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)x[i];
    TT_KERNEL(stats_f64)(wide, n, is_doubtful, out);
}

/* By how much to multiply, exactly, where squares would underflow: that loses digits,
 * and costs the processor several times the usual time.  1: not at all.  Judged by the first
 * elements, gradients that vanish are as small as these all over; their mean tells most
 * blocks apart at once. */
static __attribute__((noinline)) float tiny_f32_scale(const float *x)
{
    float most = 0;
    for (size_t i = 0; i < f32_FIRST; i++) {
        float size = x[i] < 0 ? -x[i] : x[i];
        most = size > most ? size : most;
    }
    if (most == 0 || most >= 0x1p-56f)
        return 1;
    return most < 0x1p-100f ? 0x1p126f : 0x1p70f;
}

/* The block of x from the sums of x * scale.  False: that did not help. */
static __attribute__((noinline)) bool tiny_f32(const float *x, size_t n, float scale, tt_block *out)
{
    float large[TT_TILE];
    for (size_t i = 0; i < n; i++)
        large[i] = x[i] * scale;
    f32_sums s;
    s.pivot = f32_choose_pivot(large);
    f32_add_finite(&s, large, n);
    tt_block scaled;
    if (!f32_finish(&s, n, &scaled))
        return false;
    double back = 1 / (double)scale;
    scaled.min *= back;
    scaled.max *= back;
    scaled.mean *= back;
    scaled.sum *= back;
    scaled.l1 *= back;
    scaled.m2 *= back * back;
    scaled.sumsq *= back * back;
    *out = scaled;
    return true;
}

void TT_KERNEL(stats_f32)(const float *x, size_t n, bool is_doubtful, tt_block *out)
{
    assert(n > 0 && n <= TT_TILE);
    f32_sums s;
    float mean = n < f32_FIRST ? x[0] : f32_choose_pivot(x);
    bool is_tiny = n >= f32_FIRST && mean > -0x1p-56f && mean < 0x1p-56f;
    float scale = is_tiny ? tiny_f32_scale(x) : 1;
    if (scale != 1) {
        if (!tiny_f32(x, n, scale, out))
            careful_f32(x, n, is_doubtful, out);
        return;
    }
    if (!is_doubtful) {
        s.pivot = mean;
        f32_add_finite(&s, x, n);
        if (f32_finish(&s, n, out))
            return;
        if (out->l1 < (double)INFINITY) { /* all finite: only the sums are poor */
            careful_f32(x, n, false, out);
            return;
        }
    }
    s.pivot = f32_choose_finite_pivot(x, n);
    f32_add_masked(&s, x, n);
    if (!f32_finish(&s, n, out))
        careful_f32(x, n, true, out);
}

bool TT_KERNEL(stats_half)(tt_dtype dtype, const uint16_t *x, size_t n, tt_block *out)
{
    assert(n <= 2 * TT_TILE && (dtype == TT_BF16 || dtype == TT_F16));
    if (n < f32_FIRST)
        return false;
    f32_sums s;
    if (dtype == TT_BF16) {
        s.pivot = bf16_choose_pivot(x);
        bf16_add(&s, x, n);
    } else {
        s.pivot = f16_choose_pivot(x);
        f16_add(&s, x, n);
    }
    return f32_finish(&s, n, out);
}
