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

/* ---- 16-bit floats ----------------------------------------------------------
 * Half the bytes for each element leave half the time, so this loop saves where it can: min,
 * max and zeros are found sixteen at a time in the bits, which order like the numbers within
 * one sign.  dtype is a constant, TT_BF16 or TT_F16. */

enum { HALF_STEP = 16, HALF_INNER = 16 * HALF_STEP };
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The sixteen elements at x, which are also in raw, as two vectors. */
static ALWAYS_INLINE void split_half(tt_dtype dtype, const uint16_t *x, u16v raw, f32v *a, f32v *b)
{
    if (dtype == TT_BF16)
        u16v_split_bf16(raw, a, b);
    else
        f32v_load_f16(x, a, b);
}

/* The mean of the first 32 elements. */
static ALWAYS_INLINE float choose_half_pivot(tt_dtype dtype, const uint16_t *x)
{
    f32v a, b, c, d;
    split_half(dtype, x, u16v_load(x), &a, &b);
    split_half(dtype, x + HALF_STEP, u16v_load(x + HALF_STEP), &c, &d);
    return f32_mean(f32v_add(f32v_add(a, b), f32v_add(c, d)));
}

/* Among numbers of one sign the larger bits are further from zero. */
static void set_half_extremes(tt_dtype dtype, f32_sums *s, u16v most, u16v furthest, u16v nearest)
{
    uint16_t bits[3][HALF_STEP];
    u16v_store(bits[0], most);
    u16v_store(bits[1], furthest);
    u16v_store(bits[2], nearest);
    for (size_t i = 1; i < HALF_STEP; i++) {
        if ((int16_t)bits[0][i] > (int16_t)bits[0][0])
            bits[0][0] = bits[0][i];
        if (bits[1][i] > bits[1][0])
            bits[1][0] = bits[1][i];
        if (bits[2][i] < bits[2][0])
            bits[2][0] = bits[2][i];
    }
    bool has_negative = bits[1][0] >= 0x8000, has_positive = bits[2][0] < 0x8000;
    uint16_t ends[2] = { has_negative ? bits[1][0] : bits[2][0], has_positive ? bits[0][0] : bits[2][0] };
    float value[2];
    TT_KERNEL(convert_f32)(dtype, ends, value, 2);
    f32v_store(s->low, f32v_set(value[0]));
    f32v_store(s->high, f32v_set(value[1]));
}

static ALWAYS_INLINE void add_half(tt_dtype dtype, f32_sums *s, const uint16_t *x, size_t n)
{
    f32v pivot = f32v_set(s->pivot), nothing = f32v_set(0);
    f32_totals outer = { nothing, nothing, nothing };
    u16v most = u16v_load(x), furthest = most, nearest = most, zeros = u16v_set(0);
    size_t whole = n - n % HALF_STEP;
    for (size_t at = 0; at < whole;) {
        size_t stop = whole - at < HALF_INNER ? whole : at + HALF_INNER;
        f32_totals inner = { nothing, nothing, nothing };
        tt_ahead_page(x + at);
        for (; at < stop; at += HALF_STEP) {
            tt_ahead_line(x + at);
            u16v raw = u16v_load(x + at);
            most = u16v_max_signed(raw, most);
            furthest = u16v_max(raw, furthest);
            nearest = u16v_min(raw, nearest);
            zeros = u16v_count_zeros(zeros, raw);
            f32v a, b;
            split_half(dtype, x + at, raw, &a, &b);
            f32_add_pair(&inner, f32v_sub(a, pivot), f32v_sub(b, pivot),
                         f32v_add(f32v_abs(a), f32v_abs(b)));
        }
        f32_add_totals(&outer, &inner);
    }
    f32_store_totals(s, &outer);
    set_half_extremes(dtype, s, most, furthest, nearest);
    uint16_t count[HALF_STEP];
    u16v_store(count, zeros);
    for (size_t i = 0; i < 8; i++) {
        s->zeros[i] = count[i] + count[i + 8];
        s->finite[i] = (int32_t)(whole / 8);
        s->posinf[i] = s->neginf[i] = 0;
    }
    float rest[HALF_STEP];
    TT_KERNEL(convert_f32)(dtype, x + whole, rest, n - whole);
    f32_add_tail(s, rest, n - whole, false);
}

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
    s.pivot = dtype == TT_BF16 ? choose_half_pivot(TT_BF16, x) : choose_half_pivot(TT_F16, x);
    if (dtype == TT_BF16)
        add_half(TT_BF16, &s, x, n);
    else
        add_half(TT_F16, &s, x, n);
    return f32_finish(&s, n, out);
}
