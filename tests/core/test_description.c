/* test_description.c -- what one line about a tensor says.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "alloc_fail.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tt_style plain = { 0 };

/* Describes data and writes its line, with a histogram where has_hist. */
static void line_of(const void *data, tt_dtype dtype, int32_t ndim, const int64_t *shape, bool has_hist,
                    const tt_style *style, tt_buf *out)
{
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, dtype, ndim, shape, NULL, NULL), TT_OK);
    tt_stats stats;
    tt_stats_compute(&t, &stats);
    tt_hist *hist = NULL;
    if (has_hist) {
        assert_int_equal(tt_hist_create(&hist), TT_OK);
        tt_hist_add(hist, &t);
    }
    const tt_facts facts = {
        .dtype = tt_dtype_name(dtype), .shape = shape, .ndim = ndim, .stats = &stats, .hist = hist
    };
    tt_buf_clear(out);
    assert_int_equal(tt_facts_line(&facts, style, out), TT_OK);
    tt_hist_free(hist);
}

static void check(const void *data, tt_dtype dtype, int64_t count, const char *want)
{
    tt_buf out = { 0 };
    line_of(data, dtype, 1, (int64_t[]){ count }, false, &plain, &out);
    assert_string_equal(out.data, want);
    tt_buf_free(&out);
}

static void floats_show_range_and_mean_and_spread(void **state)
{
    (void)state;
    check((const float[]){ -1, 0.5f, 2, 4.25f }, TT_F32, 4, "float32[4]  -1 … 4.25  mean 1.438 ± 2.24");
    check((const double[]){ 1e-9, 3e-9 }, TT_F64, 2, "float64[2]  1e-09 … 3e-09  mean 2e-09 ± 1.414e-09");
}

static void integers_are_printed_as_integers(void **state)
{
    (void)state;
    check((const int64_t[]){ INT64_MIN, 0, INT64_MAX }, TT_I64, 3,
          "int64[3]  -9223372036854775808 … 9223372036854775807  mean -0.3333 ± 9.223e+18");
    check((const uint64_t[]){ 1, UINT64_MAX }, TT_U64, 2,
          "uint64[2]  1 … 18446744073709551615  mean 9.223e+18 ± 1.304e+19");
    check((const uint8_t[]){ 7, 7, 7 }, TT_U8, 3, "uint8[3]  constant 7");
}

static void nan_and_inf_are_counted_at_the_end(void **state)
{
    (void)state;
    check((const float[]){ NAN, 1, INFINITY, 3, NAN, -INFINITY }, TT_F32, 6,
          "float32[6]  1 … 3  mean 2 ± 1.414  2 NaN  1 Inf  1 -Inf");
    check((const float[]){ NAN, NAN }, TT_F32, 2, "float32[2]  all NaN");
    check((const float[]){ 5, NAN, 5 }, TT_F32, 3, "float32[3]  constant 5  1 NaN");
    check((const float[]){ 0, NAN, 0 }, TT_F32, 3, "float32[3]  constant 0  1 NaN");
    float many[200] = { 1, 2 };
    for (int i = 2; i < 26; i++)
        many[i] = NAN;
    check(many, TT_F32, 200, "float32[200]  0 … 2  mean 0.01705 ± 0.1682  87% zero  24 NaN (12%)");
}

static void zeros_and_constants_are_named(void **state)
{
    (void)state;
    check((const float[]){ 0, -0.0f, 0 }, TT_F32, 3, "float32[3]  all zero");
    check((const double[]){ 0.1, 0.1 }, TT_F64, 2, "float64[2]  constant 0.1");
    check((const float[]){ 0, 0, 0, 1 }, TT_F32, 4, "float32[4]  0 … 1  mean 0.25 ± 0.5  75% zero");
}

static void bools_show_how_much_is_true(void **state)
{
    (void)state;
    bool bits[1000] = { 0 };
    check(bits, TT_BOOL, 1000, "bool[1000]  all false");
    bits[3] = true;
    check(bits, TT_BOOL, 1000, "bool[1000]  <1% true");
    memset(bits, true, 370);
    check(bits, TT_BOOL, 1000, "bool[1000]  37% true");
    memset(bits, true, 999);
    check(bits, TT_BOOL, 1000, "bool[1000]  >99% true");
    bits[999] = true;
    check(bits, TT_BOOL, 1000, "bool[1000]  all true");
}

static void complex_numbers_show_their_size_and_their_mean(void **state)
{
    (void)state;
    check((const float[]){ 3, 4, 0, -1 }, TT_C64, 2, "complex64[2]  |z| 1 … 5  mean 1.5+1.5j");
    check((const float[]){ 1, 0, 0, -1 }, TT_C64, 2, "complex64[2]  |z| 1 … 1  mean 0.5-0.5j");
    check((const float[]){ 0, 0, 0, 0 }, TT_C64, 2, "complex64[2]  all zero");
}

static void check_scalar(const void *data, tt_dtype dtype, const char *want)
{
    tt_buf out = { 0 };
    line_of(data, dtype, 0, NULL, true, &plain, &out);
    assert_string_equal(out.data, want);
    tt_buf_free(&out);
}

static void a_single_value_is_shown_itself(void **state)
{
    (void)state;
    check_scalar(&(float){ 0.1f }, TT_F32, "float32  0.1");
    check_scalar(&(double){ 1.0 / 3 }, TT_F64, "float64  0.3333333333333333");
    check_scalar(&(uint16_t){ 0x3E80 }, TT_BF16, "bfloat16  0.25");
    check_scalar(&(int64_t){ INT64_MIN }, TT_I64, "int64  -9223372036854775808");
    check_scalar(&(bool){ true }, TT_BOOL, "bool  true");
    check_scalar((const float[]){ 1.5f, -2 }, TT_C64, "complex64  1.5-2j");
    check_scalar(&(float){ NAN }, TT_F32, "float32  NaN");
    check_scalar(&(float){ -INFINITY }, TT_F32, "float32  -Inf");
    check((const float[]){ 2.5f }, TT_F32, 1, "float32[1]  2.5");
}

static void check_facts(const tt_facts *facts, const tt_style *style, const char *want)
{
    tt_buf out = { 0 };
    assert_int_equal(tt_facts_line(facts, style, &out), TT_OK);
    assert_string_equal(out.data, want);
    tt_buf_free(&out);
}

static void what_is_not_known_is_not_said(void **state)
{
    (void)state;
    const int64_t shape[] = { 3, 0, 5 };
    check_facts(&(tt_facts){ 0 }, &plain, "tensor");
    check_facts(&(tt_facts){ .dtype = "float32", .shape = shape, .ndim = 3 }, &plain,
                "float32[3, 0, 5]  empty");
    check_facts(&(tt_facts){ .dtype = "float32", .shape = shape, .ndim = 1, .note = "meta" }, &plain,
                "float32[3]  meta");
    check_facts(
        &(tt_facts){
            .dtype = "qint8", .shape = shape, .ndim = 1, .device = "cuda:0", .note = "quantised\x1b[2J" },
        &plain, "qint8[3] cuda:0  quantised\\x1b[2J");
}

static void a_histogram_is_drawn_between_min_and_max(void **state)
{
    (void)state;
    float tent[10000]; /* as many in each cell as 1 3 5 7 8 7 5 3 1 */
    for (int i = 0; i < 10000; i++) {
        double u = (i + 0.5) / 10000;
        tent[i] = (float)(u < 0.5 ? sqrt(2 * u) - 1 : 1 - sqrt(2 * (1 - u)));
    }
    tt_buf out = { 0 };
    line_of(tent, TT_F32, 1, (int64_t[]){ 10000 }, true, &plain, &out);
    assert_non_null(strstr(out.data, "  -0.99 … 0.99  "));
    assert_string_equal(strstr(out.data, " ± "), " ± 0.4083  ▃▄▆▇█▇▆▄▃");
    line_of(tent, TT_F32, 1, (int64_t[]){ 10000 }, true, &(tt_style){ .is_ascii = true }, &out);
    assert_string_equal(strstr(out.data, " +- "), " +- 0.4083  :-+*#*+-:");
    const uint8_t labels[] = { 0, 0, 0, 0, 0, 0, 1, 1, 1, 3 };
    line_of(labels, TT_U8, 1, (int64_t[]){ 10 }, true, &plain, &out);
    assert_string_equal(out.data, "uint8[10]  0 … 3  mean 0.6 ± 0.9661  █▅▁▃");
    const float same[] = { 2, 2, 2 };
    line_of(same, TT_F32, 1, (int64_t[]){ 3 }, true, &plain, &out);
    assert_string_equal(out.data, "float32[3]  constant 2");
    tt_buf_free(&out);
}

static void a_narrow_line_gives_up_the_alarm_last(void **state)
{
    (void)state;
    const float data[] = { NAN, 1, 2, 0, 0, 0, 3 };
    static const struct {
        int32_t columns;
        const char *want;
    } cases[] = {
        { 43, "float32[7]  0 … 3  mean 1 ± 1.265  1 NaN" },
        { 40, "float32[7]  0 … 3  mean 1 ± 1.265  1 NaN" },
        { 39, "float32[7]  0 … 3  1 NaN" },
        { 24, "float32[7]  0 … 3  1 NaN" },
        { 23, "float32[7]  1 NaN" },
        { 15, "float32[7]  1 …" },
    };
    tt_buf out = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        line_of(data, TT_F32, 1, (int64_t[]){ 7 }, true, &(tt_style){ .columns = cases[i].columns },
                &out);
        assert_string_equal(out.data, cases[i].want);
    }
    tt_buf_free(&out);
}

static void alarms_are_red_and_bold(void **state)
{
    (void)state;
    tt_buf out = { 0 };
    line_of((const float[]){ NAN, 1, 2 }, TT_F32, 1, (int64_t[]){ 3 }, false,
            &(tt_style){ .is_colored = true }, &out);
    assert_string_equal(out.data, "\x1b[36mfloat32\x1b[0m[3]  1\x1b[2m … \x1b[0m2\x1b[2m  mean \x1b[0m1.5"
                                  "\x1b[2m ± \x1b[0m0.7071  \x1b[1;31m1 NaN\x1b[0m");
    tt_buf_free(&out);
}

static void an_allocation_that_fails_leaves_the_output_as_it_was(void **state)
{
    (void)state;
    const float data[] = { NAN, 1, 2, 3, 4 };
    const int64_t shape[] = { 5 };
    tt_tensor t;
    tt_stats stats;
    tt_hist *hist = NULL;
    assert_int_equal(tt_tensor_describe(&t, data, TT_F32, 1, shape, NULL, NULL), TT_OK);
    tt_stats_compute(&t, &stats);
    assert_int_equal(tt_hist_create(&hist), TT_OK);
    tt_hist_add(hist, &t);
    const tt_facts facts = {
        .dtype = "float32", .shape = shape, .ndim = 1, .stats = &stats, .hist = hist
    };
    for (long nth = 1;; nth++) {
        tt_buf out = { 0 };
        alloc_fail_at(nth);
        tt_status st = tt_facts_line(&facts, &(tt_style){ .is_colored = true, .columns = 50 }, &out);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        if (was_hit)
            assert_int_equal(out.len, 0);
        tt_buf_free(&out);
        if (!was_hit) {
            assert_true(nth > 2);
            break;
        }
    }
    tt_hist_free(hist);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_show_range_and_mean_and_spread),
        cmocka_unit_test(integers_are_printed_as_integers),
        cmocka_unit_test(nan_and_inf_are_counted_at_the_end),
        cmocka_unit_test(zeros_and_constants_are_named),
        cmocka_unit_test(bools_show_how_much_is_true),
        cmocka_unit_test(complex_numbers_show_their_size_and_their_mean),
        cmocka_unit_test(a_single_value_is_shown_itself),
        cmocka_unit_test(what_is_not_known_is_not_said),
        cmocka_unit_test(a_histogram_is_drawn_between_min_and_max),
        cmocka_unit_test(a_narrow_line_gives_up_the_alarm_last),
        cmocka_unit_test(alarms_are_red_and_bold),
        cmocka_unit_test(an_allocation_that_fails_leaves_the_output_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
