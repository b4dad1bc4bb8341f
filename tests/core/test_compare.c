/* test_compare.c -- two tensors are compared pair by pair, whatever their layout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/compare.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const tt_compare_options usual = { .rtol = 1e-5, .atol = 1e-8, .wants_ulps = true };

static tt_compare compare_types(tt_dtype a_type, const void *a, tt_dtype b_type, const void *b, int64_t n,
                                tt_compare_options options)
{
    tt_tensor x, y;
    tt_compare out;
    assert_int_equal(tt_tensor_describe(&x, a, a_type, 1, &n, NULL, NULL), TT_OK);
    assert_int_equal(tt_tensor_describe(&y, b, b_type, 1, &n, NULL, NULL), TT_OK);
    assert_int_equal(tt_compare_compute(&x, &y, &options, &out, NULL), TT_OK);
    int64_t counted = 0;
    for (int i = 0; i < 66; i++)
        counted += out.ulp_hist[i];
    assert_int_equal(counted, options.wants_ulps && a_type == b_type ? n : 0);
    assert_true(out.equal == (out.differing == 0) && out.equal == (out.argmax < 0));
    return out;
}

#define COMPARE(dtype, a, b) compare_types(dtype, a, dtype, b, (int64_t)(sizeof(a) / sizeof *(a)), usual)

static void equal_tensors_are_equal(void **state)
{
    (void)state;
    static const float a[] = { 1, -2, 0, INFINITY, -INFINITY },
                       b[] = { 1, -2, -0.0f, INFINITY, -INFINITY };
    tt_compare c = COMPARE(TT_F32, a, b);
    assert_true(c.equal && c.allclose && c.max_abs == 0 && c.max_rel == 0 && c.ulp_max == 0);
    assert_int_equal(c.argmax, -1);
    assert_int_equal(c.ulp_hist[0], 5);
    c = compare_types(TT_F32, NULL, TT_F32, NULL, 0, usual);
    assert_true(c.equal && c.allclose && c.count == 0);
}

static void the_first_of_the_largest_differences_is_named(void **state)
{
    (void)state;
    static float a[7000], b[7000];
    for (int i = 0; i < 7000; i++)
        a[i] = b[i] = (float)i;
    b[6001] = a[6001] + 2;
    b[4097] = a[4097] - 2;
    b[5] = 5.5f;
    tt_compare c = COMPARE(TT_F32, a, b);
    assert_int_equal(c.argmax, 4097);
    assert_int_equal(c.differing, 3);
    assert_true(c.max_abs == 2 && c.max_rel == (double)(0.5f / 5.5f));
    assert_false(c.equal || c.allclose);
}

static void zeros_in_b_have_no_relative_difference(void **state)
{
    (void)state;
    static const double a[] = { 1, 3, 0 }, b[] = { 0, 2, 0 };
    assert_true(COMPARE(TT_F64, a, b).max_rel == 0.5);
    assert_true(compare_types(TT_F64, a, TT_F64, b, 1, usual).max_rel == (double)INFINITY);
    static const float f[] = { 1, 3, 0 }, g[] = { 0, 2, 0 };
    assert_true(COMPARE(TT_F32, f, g).max_rel == 0.5);
    assert_true(compare_types(TT_F32, f, TT_F32, g, 1, usual).max_rel == (double)INFINITY);
    static const int64_t i[] = { 1, 3, 0 }, j[] = { 0, 2, 0 };
    assert_true(COMPARE(TT_I64, i, j).max_rel == 0.5);
}

static void nan_differs_from_everything_unless_told_otherwise(void **state)
{
    (void)state;
    static const float a[] = { NAN, 1, NAN, 2 }, b[] = { NAN, NAN, 3, 2.5f };
    tt_compare c = COMPARE(TT_F32, a, b);
    assert_int_equal(c.differing, 4);
    assert_int_equal(c.argmax, 0);
    assert_int_equal(c.ulp_hist[65], 3);
    assert_true(isnan(c.max_abs) && isnan(c.max_rel));
    tt_compare_options options = usual;
    options.equal_nan = true;
    c = compare_types(TT_F32, a, TT_F32, b, 4, options);
    assert_int_equal(c.differing, 3);
    assert_int_equal(c.ulp_hist[65], 2);
    c = compare_types(TT_F32, a, TT_F32, b, 1, options);
    assert_true(c.equal && c.allclose);
    c = compare_types(TT_F32, a, TT_F32, b, 1, usual);
    assert_true(!c.equal && !c.allclose && isnan(c.max_abs) && isnan(c.max_rel));
    assert_int_equal(c.argmax, 0);
}

static void a_nan_that_meets_a_number_is_the_largest_difference(void **state)
{
    (void)state;
    static const float a[] = { 1, 2, NAN, 4 }, b[] = { 1, 2.5f, 3, INFINITY };
    tt_compare c = compare_types(TT_F32, a, TT_F32, b, 4, usual);
    assert_true(isnan(c.max_abs) && isnan(c.max_rel) && !c.allclose);
    assert_int_equal(c.argmax, 2);
    assert_int_equal(c.differing, 3);
    c = compare_types(TT_F32, b, TT_F32, a, 2, usual);
    assert_true(c.max_abs == 0.5 && c.argmax == 1);
}

static void an_infinity_is_infinitely_far_from_all_others(void **state)
{
    (void)state;
    static const float a[] = { 1, INFINITY, 1, INFINITY }, b[] = { 1, INFINITY, -INFINITY, 5 };
    tt_compare_options loose = { .rtol = 1, .atol = 1e30 };
    tt_compare c = compare_types(TT_F32, a, TT_F32, b, 4, loose);
    assert_true(c.max_abs == (double)INFINITY && c.max_rel == (double)INFINITY && !c.allclose);
    assert_int_equal(c.argmax, 2);
    assert_int_equal(c.differing, 2);
}

static void ulps_are_steps_of_nextafter(void **state)
{
    (void)state;
    static const float starts[] = { 0, 1, -1, 1e-45f, 0x1p-126f, -3e38f, 65504 };
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        float up = starts[s];
        double up64 = (double)starts[s];
        for (uint64_t step = 1; step < 300; step++) {
            up = nextafterf(up, INFINITY);
            up64 = nextafter(up64, (double)INFINITY);
            double start64 = (double)starts[s];
            assert_int_equal(compare_types(TT_F32, &up, TT_F32, &starts[s], 1, usual).ulp_max, step);
            assert_int_equal(compare_types(TT_F64, &start64, TT_F64, &up64, 1, usual).ulp_max, step);
        }
    }
    float a = -1e-45f, b = 3e-45f, most = FLT_MAX, inf = INFINITY;
    assert_int_equal(compare_types(TT_F32, &a, TT_F32, &b, 1, usual).ulp_max, 3);
    assert_int_equal(compare_types(TT_F32, &most, TT_F32, &inf, 1, usual).ulp_max, 1);
    inf = -inf;
    assert_int_equal(compare_types(TT_F32, &most, TT_F32, &inf, 1, usual).ulp_max, 0xff000000u - 1);
}

/* Sorted by value, neighbours are one apart: the way to count that needs no bits. */
static void narrow_types_count_in_their_own_numbers(void **state)
{
    (void)state;
    static const tt_dtype types[] = { TT_F16,     TT_BF16,        TT_F8_E4M3FN,
                                      TT_F8_E5M2, TT_F8_E4M3FNUZ, TT_F8_E5M2FNUZ };
    static float value[65536];
    static uint16_t order[65536];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        bool is_wide = tt_dtype_size(types[t]) == 2;
        uint32_t all = is_wide ? 65536 : 256, count = 0;
        for (uint32_t bits = 0; bits < all; bits++) {
            uint16_t wide = (uint16_t)bits;
            uint8_t narrow = (uint8_t)bits;
            tt_kernels_get()->convert_f32(types[t], is_wide ? (void *)&wide : (void *)&narrow,
                                          &value[bits], 1);
        }
        for (uint32_t bits = all / 2; bits-- > 1;) /* the negative numbers, downwards ... */
            if (!isnan(value[all / 2 + bits]))
                order[count++] = (uint16_t)(all / 2 + bits);
        for (uint32_t bits = 0; bits < all / 2; bits++) /* ... then 0 and the positive ones */
            if (!isnan(value[bits]))
                order[count++] = (uint16_t)bits;
        for (uint32_t i = 1; i < count; i++)
            assert_true(value[order[i - 1]] < value[order[i]]);
        for (int round = 0; round < 2000; round++) {
            uint32_t i = (uint32_t)rand() % count, j = (uint32_t)rand() % count,
                     far = i > j ? i - j : j - i;
            uint8_t narrow[] = { (uint8_t)order[i], (uint8_t)order[j] };
            const void *a = is_wide ? (void *)&order[i] : (void *)&narrow[0];
            const void *b = is_wide ? (void *)&order[j] : (void *)&narrow[1];
            tt_compare c = compare_types(types[t], a, types[t], b, 1, usual);
            assert_int_equal(c.ulp_max, far);
            assert_int_equal(c.ulp_hist[far == 0 ? 0 : 1 + (int)floor(log2((double)far))], 1);
        }
    }
    static const uint16_t nan[] = { 0x7e00, 0x3c00 }, one[] = { 0x7e00, 0x3c01 };
    tt_compare c = COMPARE(TT_F16, nan, one);
    assert_true(c.differing == 2 && c.ulp_max == 1 && c.ulp_hist[65] == 1 && c.ulp_hist[1] == 1);
    static const uint8_t nan8[] = { 0x7f, 0xff }, more[] = { 0x7e, 0x01 };
    c = COMPARE(TT_F8_E4M3FN, nan8, more);
    assert_true(c.differing == 2 && c.ulp_max == 0 && c.ulp_hist[65] == 2);
    static const uint8_t fnuz[] = { 0x80, 0 }, zero[] = { 0, 0 };
    c = COMPARE(TT_F8_E4M3FNUZ, fnuz, zero);
    assert_true(c.differing == 1 && c.ulp_hist[65] == 1 && c.argmax == 0);
}

static void integers_are_compared_exactly(void **state)
{
    (void)state;
    static const int64_t big[] = { (int64_t)1 << 60, INT64_MIN, 7 },
                         off[] = { ((int64_t)1 << 60) + 1, INT64_MAX, 7 };
    tt_compare c = compare_types(TT_I64, big, TT_I64, off, 1, usual);
    assert_true(c.differing == 1 && c.max_abs == 1 && c.ulp_max == 1 && c.allclose);
    c = COMPARE(TT_I64, big, off);
    assert_true(c.differing == 2 && c.max_abs == 0x1p64 && c.ulp_max == UINT64_MAX && c.argmax == 1);
    assert_true(c.ulp_hist[64] == 1 && c.ulp_hist[1] == 1 && c.ulp_hist[0] == 1);
    static const uint64_t high[] = { UINT64_MAX, (uint64_t)1 << 63 };
    static const int64_t low[] = { -1, INT64_MIN };
    c = compare_types(TT_U64, high, TT_I64, low, 2, usual);
    assert_true(c.differing == 2 && c.max_abs == 0x1p64 && c.ulp_max == 0);
    static const uint64_t same[] = { 5, 9007199254740993 };
    static const int64_t as[] = { 5, 9007199254740993 };
    assert_true(compare_types(TT_U64, same, TT_I64, as, 2, usual).equal);
    static const int8_t i8[] = { -128, 3, 4 }, j8[] = { 127, 3, 4 };
    c = COMPARE(TT_I8, i8, j8);
    assert_true(c.max_abs == 255 && c.ulp_max == 255 && c.max_rel == 255.0 / 127);
    assert_true(compare_types(TT_I8, i8, TT_I8, j8, 3, (tt_compare_options){ 0 }).ulp_max == 255);
    static int32_t many[5000], others[5000];
    many[4500] = 1;
    assert_int_equal(COMPARE(TT_I32, many, others).argmax, 4500);
    assert_int_equal(compare_types(TT_I32, many, TT_I32, others, 5000, (tt_compare_options){ 0 }).argmax,
                     4500);
    static const uint8_t yes[] = { 1, 0, 255 }, truly[] = { 2, 0, 1 };
    assert_true(COMPARE(TT_BOOL, yes, truly).equal);
    assert_false(COMPARE(TT_U8, yes, truly).equal);
}

static void complex_numbers_differ_by_a_distance(void **state)
{
    (void)state;
    static const float a[] = { 1, 2, 0, 0, INFINITY, 1 }, b[] = { 4, 6, 0, -0.0f, INFINITY, 1 };
    tt_compare c = compare_types(TT_C64, a, TT_C64, b, 3, usual);
    assert_true(c.max_abs == 5 && c.max_rel == 5 / sqrt(52) && c.differing == 1 && c.argmax == 0);
    static const double x[] = { 3, NAN, 1, INFINITY }, y[] = { NAN, 3, 2, INFINITY };
    c = compare_types(TT_C128, x, TT_C128, y, 2, usual);
    assert_true(c.differing == 2 && isnan(c.max_abs) && c.argmax == 0 && c.ulp_hist[65] == 1);
    tt_compare_options options = { .equal_nan = true };
    c = compare_types(TT_C128, x, TT_C128, y, 2, options);
    assert_true(c.differing == 1 && c.max_abs == (double)INFINITY && c.argmax == 1);
    static const double real[] = { 3 }, mixed[] = { 3, 4 };
    assert_true(compare_types(TT_F64, real, TT_C128, mixed, 1, usual).max_abs == 4);
    float up[] = { 1, nextafterf(2, 3) }, down[] = { nextafterf(nextafterf(1, 2), 2), 2 };
    assert_int_equal(compare_types(TT_C64, up, TT_C64, down, 1, usual).ulp_max, 2);
}

static void differences_too_large_for_f32_are_still_numbers(void **state)
{
    (void)state;
    static const float a[] = { 3e38f, 1e30f }, b[] = { -3e38f, 1e-30f };
    tt_compare c = COMPARE(TT_F32, a, b);
    assert_true(c.max_abs == (double)a[0] - (double)b[0]);
    assert_true(c.max_rel == (double)a[1] / (double)b[1]);
    c = compare_types(TT_F32, a + 1, TT_F32, b + 1, 1, usual); /* only the quotient overflows */
    assert_true(c.max_abs == (double)a[1] && c.max_rel == (double)a[1] / (double)b[1]);
}

static void equal_infinities_are_close_beside_other_pairs(void **state)
{
    (void)state;
    static const float a[] = { INFINITY, 1, -INFINITY }, b[] = { INFINITY, 1.5f, -INFINITY };
    static const double c[] = { INFINITY, 1, -INFINITY }, d[] = { INFINITY, 1.5, -INFINITY };
    tt_compare_options options = { .rtol = 0, .atol = 0.5 };
    assert_true(compare_types(TT_F32, a, TT_F32, b, 3, options).allclose);
    assert_true(compare_types(TT_F64, c, TT_F64, d, 3, options).allclose);
}

static void each_power_of_two_begins_a_place_of_the_ulp_histogram(void **state)
{
    (void)state;
    for (int power = 1; power < 31; power++) {
        uint32_t zeros[16] = { 0 }, ends[16]; /* as the bits of floats */
        for (uint32_t i = 0; i < 16; i++)
            ends[i] = ((uint32_t)1 << power) - (i + 1) % 2;
        tt_compare c = compare_types(TT_F32, ends, TT_F32, zeros, 16, usual);
        assert_int_equal(c.ulp_hist[power], 8);
        assert_int_equal(c.ulp_hist[power + 1], 8);
    }
}

static void mixed_types_are_compared_by_value(void **state)
{
    (void)state;
    static const float f[] = { 1, 0.5f, 3 };
    static const double d[] = { 1, 0.5, 3.25 };
    static const int32_t i[] = { 1, 0, 3 };
    static const uint16_t h[] = { 0x3c00, 0x3800, 0x4200 };
    tt_compare c = compare_types(TT_F32, f, TT_F64, d, 3, usual);
    assert_true(c.differing == 1 && c.max_abs == 0.25 && c.argmax == 2 && c.ulp_max == 0);
    assert_int_equal(compare_types(TT_I32, i, TT_F32, f, 3, usual).argmax, 1);
    assert_true(compare_types(TT_F16, h, TT_F32, f, 3, usual).equal);
}

static void what_cannot_be_compared_is_refused(void **state)
{
    (void)state;
    static const float data[6] = { 0 };
    tt_tensor a, b, c;
    tt_error err;
    tt_compare out = { .count = 77 };
    assert_int_equal(tt_tensor_describe(&a, data, TT_F32, 2, (int64_t[]){ 2, 3 }, NULL, NULL), TT_OK);
    assert_int_equal(tt_tensor_describe(&b, data, TT_F32, 2, (int64_t[]){ 3, 2 }, NULL, NULL), TT_OK);
    assert_int_equal(tt_tensor_describe(&c, data, TT_F32, 1, (int64_t[]){ 6 }, NULL, NULL), TT_OK);
    assert_int_equal(tt_compare_compute(&a, &b, &usual, &out, &err), TT_EMISMATCH);
    assert_string_equal(err.text, "shapes differ: size 2 against 3 in dimension 0");
    assert_int_equal(tt_compare_compute(&a, &c, &usual, &out, NULL), TT_EMISMATCH);
    assert_int_equal(tt_compare_compute(&a, &a, &(tt_compare_options){ .rtol = -1 }, &out, NULL),
                     TT_EINVAL);
    assert_int_equal(tt_compare_compute(&a, &a, &(tt_compare_options){ .atol = (double)NAN }, &out, NULL),
                     TT_EINVAL);
    assert_int_equal(out.count, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_tensors_are_equal),
        cmocka_unit_test(the_first_of_the_largest_differences_is_named),
        cmocka_unit_test(zeros_in_b_have_no_relative_difference),
        cmocka_unit_test(nan_differs_from_everything_unless_told_otherwise),
        cmocka_unit_test(a_nan_that_meets_a_number_is_the_largest_difference),
        cmocka_unit_test(an_infinity_is_infinitely_far_from_all_others),
        cmocka_unit_test(ulps_are_steps_of_nextafter),
        cmocka_unit_test(narrow_types_count_in_their_own_numbers),
        cmocka_unit_test(integers_are_compared_exactly),
        cmocka_unit_test(complex_numbers_differ_by_a_distance),
        cmocka_unit_test(differences_too_large_for_f32_are_still_numbers),
        cmocka_unit_test(equal_infinities_are_close_beside_other_pairs),
        cmocka_unit_test(each_power_of_two_begins_a_place_of_the_ulp_histogram),
        cmocka_unit_test(mixed_types_are_compared_by_value),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
