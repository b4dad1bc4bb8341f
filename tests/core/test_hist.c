/* test_hist.c -- every element is counted in the bin whose edges hold it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#include "alloc_fail.h"
#include "summary/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BINS = 20000 };
static tt_hist_bin bins[MAX_BINS];

static tt_hist *hist_of(tt_dtype dtype, const void *data, int64_t n)
{
    tt_tensor t;
    tt_hist *hist = NULL;
    assert_int_equal(tt_tensor_describe(&t, data, dtype, 1, &n, NULL, NULL), TT_OK);
    assert_int_equal(tt_hist_create(&hist), TT_OK);
    tt_hist_add(hist, &t);
    return hist;
}

/* Counts by comparing with the edges, and looks at the edges themselves. */
static void check_bins(const tt_hist *hist, const double *x, size_t n)
{
    size_t count = tt_hist_bins(hist, bins, MAX_BINS);
    int64_t binned = 0, nan = 0, posinf = 0, neginf = 0, zeros = 0;
    for (size_t i = 0; i < n; i++) {
        nan += isnan(x[i]);
        posinf += x[i] == (double)INFINITY;
        neginf += x[i] == -(double)INFINITY;
        zeros += x[i] == 0;
    }
    for (size_t b = 0; b < count; b++) {
        double low = bins[b].low, high = bins[b].high;
        int64_t inside = 0;
        for (size_t i = 0; i < n; i++)
            inside += low == high ? x[i] == 0
                      : low >= 0  ? x[i] > 0 && low <= x[i] && x[i] < high
                                  : x[i] < 0 && low < x[i] && x[i] <= high;
        assert_int_equal(bins[b].count, inside);
        assert_true(inside > 0);
        assert_true(b == 0 || bins[b - 1].high <= low);
        double near = low >= 0 ? low : -high, far = low >= 0 ? high : -low;
        assert_true(near < 0x1p-1022 || far <= near * 1.25);
        binned += inside;
    }
    assert_int_equal(binned + nan + posinf + neginf, n);
    assert_int_equal(tt_hist_count(hist), n);
    assert_int_equal(tt_hist_nan(hist), nan);
    assert_int_equal(tt_hist_posinf(hist), posinf);
    assert_int_equal(tt_hist_neginf(hist), neginf);
    assert_int_equal(tt_hist_zeros(hist), zeros);
}

static void a_value_counts_as_often_as_it_is_said_to_be_there(void **state)
{
    (void)state;
    static const double values[] = {
        1.5, 1.5, 1.5, -0.0, 0.0, (double)NAN, (double)INFINITY, -(double)INFINITY, 5e-324, -3e200
    };
    tt_hist *hist = NULL;
    assert_int_equal(tt_hist_create(&hist), TT_OK);
    tt_hist_add_value(hist, 1.5, 3);
    tt_hist_add_value(hist, -0.0, 2);
    for (size_t i = 5; i < sizeof values / sizeof *values; i++)
        tt_hist_add_value(hist, values[i], 1);
    check_bins(hist, values, sizeof values / sizeof *values);
    tt_hist_free(hist);
}

static void every_element_is_in_its_bin_for_every_type(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 7, 1023, 1024, 2047, 2049, 5000 };
    static _Alignas(16) unsigned char data[5000 * 16];
    static double x[5000];
    srand(5);
    for (int dtype = 0; dtype < TT_DTYPE_COUNT_; dtype++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t n = sizes[s];
            for (size_t i = 0; i < sizeof data; i++) /* random bits: every kind of number */
                data[i] = rand() % 8 == 0 ? (rand() % 2 ? 0 : 0xff) : (unsigned char)rand();
            if (dtype == TT_C64)
                for (size_t i = 0; i < n; i++)
                    x[i] = hypot((double)((float *)(void *)data)[2 * i],
                                 (double)((float *)(void *)data)[2 * i + 1]);
            else if (dtype == TT_C128)
                for (size_t i = 0; i < n; i++)
                    x[i] = hypot(((double *)(void *)data)[2 * i], ((double *)(void *)data)[2 * i + 1]);
            else
                tt_kernels_get()->convert_f64((tt_dtype)dtype, data, x, n);
            if (dtype == TT_F64)
                memcpy(x, data, n * sizeof *x);
            tt_hist *hist = hist_of((tt_dtype)dtype, data, (int64_t)n);
            check_bins(hist, x, n);
            tt_hist_free(hist);
        }
}

static void zeros_denormals_and_the_rest_are_told_apart(void **state)
{
    (void)state;
    static float x[3000];
    static double wide[3000];
    static const float some[] = { 0.0f,           -0.0f,           1e-45f,   -1e-45f,   1e-40f,
                                  1.1754942e-38f, 1.17549435e-38f, INFINITY, -INFINITY, NAN,
                                  3.4e38f,        -3.4e38f,        1.0f,     -1.25f,    0.99999994f };
    for (size_t i = 0; i < 3000; i++)
        wide[i] = (double)(x[i] = some[i % 15]);
    for (int64_t n = 15; n <= 3000; n *= 200) {
        tt_hist *hist = hist_of(TT_F32, x, n);
        check_bins(hist, wide, (size_t)n);
        assert_int_equal(tt_hist_zeros(hist), n / 15 * 2);
        tt_hist_free(hist);
    }
}

static void a_strided_view_counts_its_own_elements(void **state)
{
    (void)state;
    static float x[4000];
    static double wide[1000];
    for (int i = 0; i < 4000; i++)
        x[i] = (float)(i - 1700) / 3;
    for (int i = 0; i < 1000; i++)
        wide[i] = (double)x[3999 - 4 * i];
    tt_tensor t;
    tt_hist *hist;
    assert_int_equal(
        tt_tensor_describe(&t, x + 3999, TT_F32, 1, (int64_t[]){ 1000 }, (int64_t[]){ -16 }, NULL), 0);
    assert_int_equal(tt_hist_create(&hist), TT_OK);
    tt_hist_add(hist, &t);
    check_bins(hist, wide, 1000);
    tt_hist_free(hist);
}

static void merged_histograms_count_both(void **state)
{
    (void)state;
    static double x[3000];
    for (int i = 0; i < 3000; i++)
        x[i] = i % 10 == 0   ? (double)NAN
               : i % 11 == 0 ? 0
                             : ldexp(rand() / (double)RAND_MAX - 0.5, rand() % 400 - 200);
    tt_hist *first = hist_of(TT_F64, x, 1200);
    tt_hist *second = hist_of(TT_F64, x + 1200, 1800);
    tt_hist_merge(first, second);
    check_bins(first, x, 3000);
    tt_hist_free(first);
    tt_hist_free(second);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void a_quantile_is_within_a_quarter_of_itself(void **state)
{
    (void)state;
    static double x[2001];
    srand(9);
    for (int round = 0; round < 30; round++) {
        size_t n = round % 3 == 0 ? 1 : round % 3 == 1 ? 2001 : 100;
        for (size_t i = 0; i < n; i++)
            x[i] = ldexp(rand() / (double)RAND_MAX - 0.3, rand() % (1 + round));
        if (round == 7)
            x[3] = x[4] = 1.7e308; /* the highest bin has no finite end */
        tt_hist *hist = hist_of(TT_F64, x, (int64_t)n);
        qsort(x, n, sizeof *x, by_value);
        for (int q = 0; q <= 40; q++) {
            double at = q / 40.0 * (double)(n - 1);
            size_t rank = (size_t)at;
            double got = tt_hist_quantile(hist, q / 40.0);
            double part = at - (double)rank, next = x[rank + 1 < n ? rank + 1 : rank];
            double exact = x[rank] * (1 - part) + next * part;
            double slack = fabs(x[rank]) * (1 - part) / 4 + fabs(next) * part / 4;
            assert_true(fabs(got - exact) <= slack);
        }
        assert_true(isnan(tt_hist_quantile(hist, -0.1)) && isnan(tt_hist_quantile(hist, 1.1)) &&
                    isnan(tt_hist_quantile(hist, (double)NAN)));
        tt_hist_free(hist);
    }
}

static void only_finite_values_have_quantiles(void **state)
{
    (void)state;
    static const float x[] = { NAN, -INFINITY, INFINITY, 0, NAN };
    tt_hist *hist = hist_of(TT_F32, x, 5);
    assert_true(tt_hist_quantile(hist, 0) == 0 && tt_hist_quantile(hist, 1) == 0);
    tt_hist_free(hist);
    hist = hist_of(TT_F32, x, 3);
    assert_true(isnan(tt_hist_quantile(hist, 0.5)));
    tt_hist_free(hist);
}

static void instruction_sets_agree(void **state)
{
    (void)state;
    if (tt_kernels_use("base") == NULL || tt_kernels_use("avx2") == NULL)
        skip();
    static uint32_t bits[9001];
    static tt_hist_bin more[MAX_BINS];
    for (size_t i = 0; i < 9001; i++)
        bits[i] = (uint32_t)rand() << 16 ^ (uint32_t)rand();
    for (tt_dtype dtype = TT_F32; dtype <= TT_F16; dtype++) {
        (void)tt_kernels_use("base");
        tt_hist *a = hist_of(dtype, bits, 9001);
        (void)tt_kernels_use("avx2");
        tt_hist *b = hist_of(dtype, bits, 9001);
        size_t count = tt_hist_bins(a, bins, MAX_BINS);
        assert_int_equal(tt_hist_bins(b, more, MAX_BINS), count);
        assert_memory_equal(bins, more, count * sizeof *bins);
        assert_int_equal(tt_hist_nan(a), tt_hist_nan(b));
        tt_hist_free(a);
        tt_hist_free(b);
    }
}

static void out_of_memory_is_reported(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        tt_hist *hist = NULL;
        alloc_fail_at(nth);
        tt_status st = tt_hist_create(&hist);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        assert_true(was_hit == (hist == NULL));
        tt_hist_free(hist);
        if (!was_hit)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_counts_as_often_as_it_is_said_to_be_there),
        cmocka_unit_test(every_element_is_in_its_bin_for_every_type),
        cmocka_unit_test(zeros_denormals_and_the_rest_are_told_apart),
        cmocka_unit_test(a_strided_view_counts_its_own_elements),
        cmocka_unit_test(merged_histograms_count_both),
        cmocka_unit_test(a_quantile_is_within_a_quarter_of_itself),
        cmocka_unit_test(only_finite_values_have_quantiles),
        cmocka_unit_test(instruction_sets_agree),
        cmocka_unit_test(out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
