/* test_compare_kernel.c -- blocks, lanes and layouts do not show in a comparison.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/compare.h"

#include "tensor/walk.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tt_compare compare(const float *a, const float *b, int64_t n, tt_compare_options options)
{
    tt_tensor x, y;
    tt_compare out;
    assert_int_equal(tt_tensor_describe(&x, a, TT_F32, 1, &n, NULL, NULL), TT_OK);
    assert_int_equal(tt_tensor_describe(&y, b, TT_F32, 1, &n, NULL, NULL), TT_OK);
    assert_int_equal(tt_compare_compute(&x, &y, &options, &out, NULL), TT_OK);
    return out;
}

/* Floats between two numbers: C's own nextafterf would take days. */
static int64_t ulps_between(float a, float b)
{
    int32_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    int64_t x = bits[0] & INT32_MAX, y = bits[1] & INT32_MAX;
    int64_t gap = (signbit(a) ? -x : x) - (signbit(b) ? -y : y);
    return gap < 0 ? -gap : gap;
}

static void expect_ulps(tt_compare *e, int64_t ulps)
{
    int bin = 0;
    while (bin < 64 && ulps >> bin != 0)
        bin++;
    e->ulp_hist[bin]++;
    e->ulp_max = (uint64_t)ulps > e->ulp_max ? (uint64_t)ulps : e->ulp_max;
}

/* The definitions of tensortap.h, one pair at a time, in the slowest way. */
static tt_compare expect_floats(const float *a, const float *b, int64_t n, tt_compare_options o)
{
    tt_compare e = { .count = n, .argmax = -1, .allclose = true };
    int64_t first_nan = -1;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i])) {
            bool is_equal = o.equal_nan && isnan(a[i]) && isnan(b[i]);
            e.ulp_hist[is_equal ? 0 : TT_ULP_NAN]++;
            if (is_equal)
                continue;
            e.differing++;
            e.allclose = false;
            first_nan = first_nan < 0 ? i : first_nan;
            continue;
        }
        expect_ulps(&e, ulps_between(a[i], b[i]));
        if (a[i] != b[i]) {
            volatile float gap = fabsf(a[i] - b[i]), share = (float)o.rtol * fabsf(b[i]);
            volatile float allowed = (float)o.atol + share, rel = gap / fabsf(b[i]);
            double far = isinf(gap) ? fabs((double)a[i] - (double)b[i]) : (double)gap;
            double ratio = isinf(a[i]) || isinf(b[i]) ? (double)INFINITY
                           : isinf(gap) || isinf(rel) ? far / fabs((double)b[i])
                                                      : (double)rel;
            e.differing++;
            e.allclose = e.allclose && !isinf(gap) && gap <= allowed;
            e.argmax = far > e.max_abs ? i : e.argmax;
            e.max_abs = far > e.max_abs ? far : e.max_abs;
            e.max_rel = b[i] != 0 && ratio > e.max_rel ? ratio : e.max_rel;
        }
    }
    if (e.max_abs > 0 && e.max_rel == 0)
        e.max_rel = (double)INFINITY;
    if (first_nan >= 0) {
        e.max_abs = e.max_rel = (double)NAN;
        e.argmax = first_nan;
    }
    return e;
}

static float any_float(int wildness)
{
    static const float odd[] = { 0, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f, 3e38f, -3e38f, 1e-38f };
    if (wildness > 0 && rand() % wildness == 0)
        return odd[rand() % 9];
    return ldexpf((float)rand() / (float)RAND_MAX - 0.5f, rand() % 9);
}

static void same_answer(const tt_compare *a, const tt_compare *b)
{
    assert_int_equal(a->differing, b->differing);
    assert_int_equal(a->argmax, b->argmax);
    assert_memory_equal(&a->max_abs, &b->max_abs, sizeof a->max_abs);
    assert_memory_equal(&a->max_rel, &b->max_rel, sizeof a->max_rel);
    assert_int_equal(a->allclose, b->allclose);
}

static void floats_of_every_length_follow_the_definitions(void **state)
{
    (void)state;
    enum { MOST = 3 * TT_TILE };
    static float a[MOST], b[MOST];
    srand(11);
    for (int round = 0; round < 600; round++) {
        int64_t n = round < 70 ? round : rand() % MOST;
        int wildness = round % 3 == 0 ? 0 : round % 3 == 1 ? 20 : 3000;
        int change = round % 4 == 0 ? 1 : round % 4 == 1 ? 40 : 3000;
        for (int64_t i = 0; i < n; i++) {
            b[i] = any_float(wildness);
            a[i] = rand() % change == 0 ? b[i] * (1 + 1e-5f * any_float(0)) + any_float(wildness) * 1e-7f
                                        : b[i];
        }
        tt_compare_options o = { .rtol = round % 5 * 1e-4,
                                 .atol = round % 7 * 1e-5,
                                 .equal_nan = round % 2 != 0,
                                 .wants_ulps = true };
        tt_compare want = expect_floats(a, b, n, o), got = compare(a, b, n, o);
        same_answer(&got, &want);
        assert_int_equal(got.ulp_max, want.ulp_max);
        assert_memory_equal(got.ulp_hist, want.ulp_hist, sizeof got.ulp_hist);
    }
}

static void instruction_sets_and_layouts_agree(void **state)
{
    (void)state;
    static const char *const sets[] = { "base", "avx2", "neon" };
    enum { ROWS = 37, COLS = 131 };
    static _Alignas(16) unsigned char a[ROWS * COLS * 16], b[ROWS * COLS * 16], turned[ROWS * COLS * 16];
    srand(13);
    for (int round = 0; round < 8 * TT_DTYPE_COUNT_; round++) {
        tt_dtype dtype = (tt_dtype)(round % TT_DTYPE_COUNT_);
        int64_t item = (int64_t)tt_dtype_size(dtype), shape[] = { ROWS, COLS };
        for (size_t i = 0; i < sizeof a; i++) {
            b[i] = (unsigned char)(rand() % 100);
            a[i] = rand() % (round < 60 ? 2 : 500) == 0 ? (unsigned char)rand() : b[i];
        }
        for (int64_t i = 0; i < ROWS * COLS; i++)
            memcpy(turned + (i % COLS * ROWS + i / COLS) * item, b + i * item, (size_t)item);
        tt_tensor x, y, z;
        assert_int_equal(tt_tensor_describe(&x, a, dtype, 2, shape, NULL, NULL), TT_OK);
        assert_int_equal(tt_tensor_describe(&y, b, dtype, 2, shape, NULL, NULL), TT_OK);
        assert_int_equal(
            tt_tensor_describe(&z, turned, dtype, 2, shape, (int64_t[]){ item, ROWS * item }, NULL),
            TT_OK);
        tt_compare_options options = { 0.01, 0.01, round % 2 == 0, round % 3 == 0 };
        tt_compare first, next;
        assert_int_equal(tt_compare_compute(&x, &y, &options, &first, NULL), TT_OK);
        for (size_t s = 0; s < 3; s++) {
            if (tt_kernels_use(sets[s]) == NULL)
                continue;
            assert_int_equal(tt_compare_compute(&x, &z, &options, &next, NULL), TT_OK);
            same_answer(&first, &next);
            assert_int_equal(first.ulp_max, next.ulp_max);
            assert_memory_equal(first.ulp_hist, next.ulp_hist, sizeof first.ulp_hist);
        }
        options.wants_ulps = !options.wants_ulps; /* integers then go another way */
        assert_int_equal(tt_compare_compute(&x, &y, &options, &next, NULL), TT_OK);
        same_answer(&first, &next);
        assert_int_equal(first.ulp_max, next.ulp_max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_of_every_length_follow_the_definitions),
        cmocka_unit_test(instruction_sets_and_layouts_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
