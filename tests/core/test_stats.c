/* test_stats.c -- statistics against long double arithmetic, and between
 * instruction sets.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/convert.h"
#include "summary/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 3 * 4096 + 7 };

static const size_t sizes[] = { 1,   2,    3,    7,    8,    9,    15,   16,   17,  31,
                                32,  33,   63,   64,   65,   127,  128,  129,  255, 256,
                                257, 2047, 2048, 2049, 4095, 4096, 4097, 5000, MOST };

static uint64_t seed = 88172645463325252u;

static uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static double random_unit(void) /* -1 .. 1 */
{
    return (double)(int64_t)random_bits() * 0x1p-63;
}

static tt_tensor vector_of(const void *data, tt_dtype dtype, size_t n)
{
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, dtype, 1, (int64_t[]){ (int64_t)n }, NULL, NULL), 0);
    return t;
}

typedef struct reference {
    long double sum, l1, sumsq, mean, m2, min, max;
    int64_t finite, nan, posinf, neginf, zeros;
} reference;

/* Two passes in long double. */
static reference compute_slowly(const double *x, size_t n)
{
    reference r = { .min = INFINITY, .max = -INFINITY };
    for (size_t i = 0; i < n; i++) {
        long double v = x[i];
        if (isnan(v)) {
            r.nan++;
            continue;
        }
        if (isinf(v)) {
            v > 0 ? r.posinf++ : r.neginf++;
            continue;
        }
        r.finite++;
        r.zeros += v == 0;
        r.sum += v;
        r.l1 += fabsl(v);
        r.sumsq += v * v;
        r.min = v < r.min ? v : r.min;
        r.max = v > r.max ? v : r.max;
    }
    r.mean = r.finite > 0 ? r.sum / (long double)r.finite : 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            r.m2 += (x[i] - r.mean) * (x[i] - r.mean);
    return r;
}

static void check_close(double got, long double want, long double slack)
{
    if (!(fabsl(got - want) <= slack))
        fail_msg("got %.17g, want %.17Lg, off by %.3Lg, allowed %.3Lg", got, want, fabsl(got - want),
                 slack);
}

static void check_against_reference(const tt_stats *s, const double *x, size_t n)
{
    reference r = compute_slowly(x, n);
    assert_int_equal(s->count, n);
    assert_int_equal(s->nan, r.nan);
    assert_int_equal(s->posinf, r.posinf);
    assert_int_equal(s->neginf, r.neginf);
    assert_int_equal(s->zeros, r.zeros);
    if (r.finite == 0) {
        assert_true(isnan(s->min) && isnan(s->max) && isnan(s->absmax) && isnan(s->mean));
        return;
    }
    assert_true(s->min == (double)r.min && s->max == (double)r.max);
    assert_true(s->absmax == (double)fmaxl(fabsl(r.min), fabsl(r.max)));
    check_close(s->sum, r.sum, 1e-6L * r.l1);
    check_close(s->mean, r.mean, 1e-6L * r.l1 / (long double)r.finite);
    check_close(s->l1, r.l1, 1e-6L * r.l1);
    check_close(tt_stats_l2(s), sqrtl(r.sumsq), 1e-6L * sqrtl(r.sumsq));
    check_close(tt_stats_rms(s), sqrtl(r.sumsq / (long double)r.finite), 1e-6L * sqrtl(r.sumsq));
    if (r.finite > 1)
        check_close(tt_stats_var(s), r.m2 / (long double)(r.finite - 1),
                    1e-6L * r.m2 / (long double)(r.finite - 1) +
                        r.mean * r.mean * 0x1p-100L); /* the rounding of r.mean itself */
    else
        assert_true(isnan(tt_stats_var(s)));
}

/* Shapes of data that have broken such code before. */
static const char *const patterns[] = { "normal", "constant", "far",  "outlier", "two", "huge",   "tiny",
                                        "mixed",  "zeros",    "relu", "nan",     "inf", "all nan" };
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static double make_value(size_t pattern, size_t i)
{
    double u = random_unit() + random_unit() + random_unit();
    switch (pattern) {
    case 0:
        return u;
    case 1:
        return 0.1;
    case 2:
        return 1e6 + u;
    case 3:
        return i % 2048 == 0 ? 1e6 : u * 1e-3;
    case 4:
        return i % 2048 < 40 ? 0.3 : 0.1;
    case 5:
        return u * 1e38;
    case 6:
        return u * 1e-38;
    case 7:
        return u * exp2((double)(random_bits() % 120) - 60);
    case 8:
        return i % 2 == 0 ? 0.0 : -0.0;
    case 9:
        return u > 0 ? u : 0;
    case 10:
        return random_bits() % 100 == 0 ? (double)NAN : u;
    case 11:
        return random_bits() % 50 == 0 ? (random_bits() % 2 ? (double)INFINITY : (double)-INFINITY) : u;
    default:
        return (double)NAN;
    }
}

static void f32_agrees_with_long_double(void **state)
{
    (void)state;
    static float x[MOST];
    static double wide[MOST];
    for (size_t pattern = 0; pattern < PATTERNS; pattern++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            for (size_t i = 0; i < n; i++)
                wide[i] = x[i] = (float)make_value(pattern, i);
            tt_tensor t = vector_of(x, TT_F32, n);
            tt_stats s;
            tt_stats_compute(&t, &s);
            check_against_reference(&s, wide, n);
        }
    }
}

static void f64_agrees_with_long_double(void **state)
{
    (void)state;
    static double x[MOST];
    for (size_t pattern = 0; pattern < PATTERNS; pattern++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            for (size_t i = 0; i < n; i++)
                x[i] = make_value(pattern, i);
            tt_tensor t = vector_of(x, TT_F64, n);
            tt_stats s;
            tt_stats_compute(&t, &s);
            check_against_reference(&s, x, n);
        }
    }
}

static void narrow_types_agree_with_long_double(void **state)
{
    (void)state;
    static const tt_dtype types[] = { TT_F16,     TT_BF16,        TT_F8_E4M3FN,
                                      TT_F8_E5M2, TT_F8_E4M3FNUZ, TT_F8_E5M2FNUZ };
    static uint16_t x[MOST];
    static double wide[MOST];
    const tt_kernels *base = tt_kernels_get();
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            for (int with_nonfinite = 0; with_nonfinite < 2; with_nonfinite++) {
                size_t n = sizes[k];
                for (size_t i = 0; i < n; i++) {
                    uint16_t bits = (uint16_t)random_bits();
                    if (!with_nonfinite) /* exponents in the middle, both signs */
                        bits = types[type] == TT_F16    ? (bits & 0x83ff) | 0x3800
                               : types[type] == TT_BF16 ? (bits & 0x807f) | 0x3f00
                                                        : bits & 0x8f8f;
                    x[i] = bits;
                }
                base->convert_f64(types[type], x, wide, n);
                tt_tensor t = vector_of(x, types[type], n);
                tt_stats s;
                tt_stats_compute(&t, &s);
                check_against_reference(&s, wide, n);
            }
        }
    }
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = { "base", "avx2", "neon" };
    static double x[MOST];
    for (int dtype = 0; dtype < TT_DTYPE_COUNT_; dtype++) {
        size_t room = sizeof x / tt_dtype_size((tt_dtype)dtype);
        for (size_t pattern = 0; pattern < PATTERNS; pattern++) {
            if (dtype == TT_F32)
                for (size_t i = 0; i < MOST; i++)
                    ((float *)(void *)x)[i] = (float)make_value(pattern, i);
            else if (dtype == TT_F64)
                for (size_t i = 0; i < MOST; i++)
                    x[i] = make_value(pattern, i);
            else
                for (size_t i = 0; i < MOST; i++) {
                    uint64_t bits = random_bits() >> pattern * 4;
                    memcpy(&x[i], &bits, sizeof bits);
                }
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                if (sizes[k] > room)
                    continue;
                tt_tensor t = vector_of(x, (tt_dtype)dtype, sizes[k]);
                tt_stats first, other;
                tt_stats_compute(&t, &first);
                for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                    if (tt_kernels_use(names[i]) == NULL)
                        continue;
                    tt_stats_compute(&t, &other);
                    if (memcmp(&first, &other, sizeof first) != 0)
                        fail_msg("%s, %s, %s, %zu elements", names[i], tt_dtype_name((tt_dtype)dtype),
                                 patterns[pattern], sizes[k]);
                }
            }
        }
    }
}

static void integers_are_exact(void **state)
{
    (void)state;
    __extension__ typedef __int128 int128;
    static int64_t x[MOST];
    for (int shift = 0; shift < 64; shift += 3) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            int128 sum = 0, usum = 0;
            int64_t low = INT64_MAX, high = INT64_MIN;
            uint64_t ulow = UINT64_MAX, uhigh = 0;
            int64_t zeros = 0;
            for (size_t i = 0; i < n; i++) {
                x[i] = (int64_t)random_bits() >> shift;
                uint64_t u = (uint64_t)x[i];
                sum += x[i], usum += u;
                low = x[i] < low ? x[i] : low, high = x[i] > high ? x[i] : high;
                ulow = u < ulow ? u : ulow, uhigh = u > uhigh ? u : uhigh;
                zeros += x[i] == 0;
            }
            tt_tensor t = vector_of(x, TT_I64, n);
            tt_stats s;
            tt_stats_compute(&t, &s);
            assert_true(s.imin == low && s.imax == high && s.zeros == zeros);
            assert_true(s.isum_lo == (uint64_t)sum && s.isum_hi == (int64_t)(sum >> 64));
            t.dtype = TT_U64;
            tt_stats_compute(&t, &s);
            assert_true((uint64_t)s.imin == ulow && (uint64_t)s.imax == uhigh);
            assert_true(s.isum_lo == (uint64_t)usum && s.isum_hi == (int64_t)(usum >> 64));
        }
    }
}

static void an_expanded_view_costs_nothing_and_counts_all(void **state)
{
    (void)state;
    float x[3] = { 1, 2, 6 };
    tt_tensor t;
    int64_t shape[] = { (int64_t)1 << 33, 3 }, stride[] = { 0, 4 };
    assert_int_equal(tt_tensor_describe(&t, x, TT_F32, 2, shape, stride, NULL), 0);
    tt_stats s;
    tt_stats_compute(&t, &s);
    assert_int_equal(s.count, 3 * ((int64_t)1 << 33));
    assert_true(s.mean == 3 && s.sum == 9 * 0x1p33 && s.l1 == s.sum);
    check_close(tt_stats_var(&s), 14.0L / 3, 1e-9L);
}

static void f64_sums_that_overflow_keep_the_mean(void **state)
{
    (void)state;
    static double x[3000];
    for (size_t i = 0; i < 3000; i++)
        x[i] = i % 2 ? 1.5e308 : 1.7e308;
    tt_tensor t = vector_of(x, TT_F64, 3000);
    tt_stats s;
    tt_stats_compute(&t, &s);
    check_close(s.mean, 1.6e308L, 1e302L);
    assert_true(isinf(s.sum) && s.sum > 0 && s.min == 1.5e308 && s.max == 1.7e308);
    for (size_t i = 0; i < 3000; i++)
        x[i] = i < 1500 ? -1.7e308 : 1.7e308;
    tt_stats_compute(&t, &s);
    check_close(s.mean, 0, 1e302L);
}

static void complex_numbers_are_measured_by_their_size(void **state)
{
    (void)state;
    float x[] = { 3, 4, 0, 0, -6, 8, NAN, 1, INFINITY, 0 };
    tt_tensor t = vector_of(x, TT_C64, 5);
    tt_stats s;
    tt_stats_compute(&t, &s);
    assert_true(s.count == 5 && s.nan == 1 && s.posinf == 1 && s.zeros == 1);
    assert_true(s.min == 0 && s.max == 10 && s.l1 == 15 && s.sumsq == 125);
    assert_true(s.sum == -3 && s.sum_imag == 12 && s.mean == -1 && tt_stats_mean_imag(&s) == 4);
}

static void propagate_gives_what_torch_gives(void **state)
{
    (void)state;
    float x[] = { 1, NAN, INFINITY };
    tt_tensor t = vector_of(x, TT_F32, 3);
    tt_stats s;
    tt_stats_compute(&t, &s);
    tt_stats_propagate(&s);
    assert_true(isnan(s.min) && isnan(s.max) && isnan(s.mean) && isnan(tt_stats_std(&s)));
    x[1] = 2;
    tt_stats_compute(&t, &s);
    tt_stats_propagate(&s);
    assert_true(s.min == 1 && isinf(s.max) && isinf(s.mean) && isnan(tt_stats_std(&s)));
}

static void an_empty_tensor_has_no_values(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < TT_DTYPE_COUNT_; dtype++) {
        tt_tensor t = vector_of(NULL, (tt_dtype)dtype, 0);
        tt_stats s;
        tt_stats_compute(&t, &s);
        assert_true(s.count == 0 && s.sum == 0 && s.l1 == 0 && isnan(s.min) && isnan(s.mean));
        assert_true(isnan(tt_stats_var(&s)) && tt_stats_l2(&s) == 0 && isnan(tt_stats_rms(&s)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_agrees_with_long_double),
        cmocka_unit_test(f64_agrees_with_long_double),
        cmocka_unit_test(narrow_types_agree_with_long_double),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(an_expanded_view_costs_nothing_and_counts_all),
        cmocka_unit_test(f64_sums_that_overflow_keep_the_mean),
        cmocka_unit_test(complex_numbers_are_measured_by_their_size),
        cmocka_unit_test(propagate_gives_what_torch_gives),
        cmocka_unit_test(an_empty_tensor_has_no_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
