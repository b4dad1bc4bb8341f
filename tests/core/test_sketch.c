/* test_sketch.c -- a sketch is the documented sum, whatever the layout, and can be added and joined.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/sketch.h"

#include "summary/kernels.h"

#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 5 * 2048 };

static double number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(int32_t)*seed / 0x1p30;
}

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)number(&seed);
}

static tt_tensor tensor_of(tt_dtype dtype, const void *data, int64_t rows, int64_t width)
{
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, dtype, 2, (int64_t[]){ rows, width }, NULL, NULL),
                     TT_OK);
    return t;
}

/* Straight from the definition in sketch.h. */
static double complex sum_of(const float *x, size_t n, size_t lane)
{
    double theta = atan2(tt_sketch_sin[lane], tt_sketch_cos[lane]);
    double complex sum = 0;
    for (size_t i = lane; i < n; i += 8) {
        double complex quarter = i / 8 % 2 == 0 ? 1 : I;
        sum +=
            (double)x[i] * (double)tt_sketch_signs[i % 64] * quarter * cexp(I * theta * (double)(i / 64));
    }
    return sum;
}

static void expect_near(double got, double want, double size)
{
    assert_true(fabs(got - want) <= 4e-7 * size);
}

static void a_sketch_is_the_documented_sum(void **state)
{
    (void)state;
    static const int64_t widths[] = { 1, 7, 63, 64, 65, 100, 128, 768, 2048, 2049, 4096, 5000 };
    static float x[2 * MOST];
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        int64_t n = widths[w];
        float got[2 * TT_SKETCH_FLOATS];
        fill(x, (size_t)(2 * n), 7);
        tt_tensor t = tensor_of(TT_F32, x, 2, n);
        assert_int_equal(tt_sketch_tokens(&t), 2);
        tt_sketch_compute(&t, got);
        for (size_t row = 0; row < 2; row++) {
            const float *one = got + row * TT_SKETCH_FLOATS, *from = x + row * (size_t)n;
            double square = 0;
            for (int64_t i = 0; i < n; i++)
                square += (double)from[i] * (double)from[i];
            expect_near((double)one[0], sqrt(square), sqrt(square));
            for (size_t j = 0; j < 8; j++) {
                double complex want = sum_of(from, (size_t)n, j);
                expect_near((double)one[1 + 2 * j], creal(want), sqrt(square));
                expect_near((double)one[2 + 2 * j], cimag(want), sqrt(square));
            }
        }
    }
}

static void strides_and_instruction_sets_do_not_show(void **state)
{
    (void)state;
    enum { ROWS = 6, WIDTH = 200 };
    static float x[ROWS * WIDTH], turned[ROWS * WIDTH];
    float want[ROWS * TT_SKETCH_FLOATS], got[ROWS * TT_SKETCH_FLOATS];
    fill(x, ROWS * WIDTH, 3);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < WIDTH; k++)
            turned[k * ROWS + i] = x[i * WIDTH + k];
    tt_tensor t = tensor_of(TT_F32, x, ROWS, WIDTH);
    tt_sketch_compute(&t, want);
    const int64_t shape[] = { 2, 3, WIDTH }, stride[] = { 3 * 4, 4, ROWS * 4 };
    assert_int_equal(tt_tensor_describe(&t, turned, TT_F32, 3, shape, stride, NULL), TT_OK);
    const char *best = tt_kernels_get()->isa;
    assert_int_equal(tt_sketch_tokens(&t), ROWS);
    tt_sketch_compute(&t, got);
    assert_memory_equal(got, want, sizeof want);
    if (tt_kernels_use("base") != NULL) {
        tt_sketch_compute(&t, got);
        assert_memory_equal(got, want, sizeof want);
    }
    assert_non_null(tt_kernels_use(best));
}

static void sketches_of_sums_and_of_joined_rows_follow_from_their_parts(void **state)
{
    (void)state;
    enum { A = 192, B = 64 };
    static float x[A + B], y[A + B];
    float both[TT_SKETCH_FLOATS], a[TT_SKETCH_FLOATS], b[TT_SKETCH_FLOATS];
    fill(x, A + B, 11);
    tt_tensor t = tensor_of(TT_F32, x, 1, A + B);
    tt_sketch_compute(&t, both);
    t = tensor_of(TT_F32, x, 1, A);
    tt_sketch_compute(&t, a);
    t = tensor_of(TT_F32, x + A, 1, B);
    tt_sketch_compute(&t, b);
    for (size_t j = 0; j < 8; j++) {
        double complex turn = cpow(tt_sketch_cos[j] + I * tt_sketch_sin[j], A / 64);
        double complex whole = (double)a[1 + 2 * j] + I * (double)a[2 + 2 * j] +
                               turn * ((double)b[1 + 2 * j] + I * (double)b[2 + 2 * j]);
        expect_near((double)both[1 + 2 * j], creal(whole), (double)both[0]);
        expect_near((double)both[2 + 2 * j], cimag(whole), (double)both[0]);
    }
    fill(y, A, 12);
    t = tensor_of(TT_F32, y, 1, A);
    tt_sketch_compute(&t, b);
    for (size_t i = 0; i < A; i++)
        y[i] += x[i];
    tt_sketch_compute(&t, both);
    for (size_t i = 1; i < TT_SKETCH_FLOATS; i++)
        expect_near((double)both[i], (double)a[i] + (double)b[i], 2 * (double)both[0]);
}

static void half_types_and_doubles_agree_with_floats(void **state)
{
    (void)state;
    enum { WIDTH = 130 };
    uint16_t halves[WIDTH];
    float x[WIDTH];
    double wide[WIDTH];
    float want[TT_SKETCH_FLOATS], got[TT_SKETCH_FLOATS];
    fill(x, WIDTH, 5);
    for (size_t i = 0; i < WIDTH; i++) { /* bfloat16 is the upper half of a float */
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        halves[i] = (uint16_t)(bits >> 16);
        bits &= 0xffff0000u;
        memcpy(&x[i], &bits, sizeof bits);
        wide[i] = (double)x[i];
    }
    tt_tensor t = tensor_of(TT_F32, x, 1, WIDTH);
    tt_sketch_compute(&t, want);
    t = tensor_of(TT_BF16, halves, 1, WIDTH);
    tt_sketch_compute(&t, got);
    assert_memory_equal(got, want, sizeof want);
    t = tensor_of(TT_F64, wide, 1, WIDTH);
    tt_sketch_compute(&t, got);
    for (size_t i = 0; i < TT_SKETCH_FLOATS; i++)
        expect_near((double)got[i], (double)want[i], (double)want[0]);
}

static void squares_beyond_f32_are_summed_up_again(void **state)
{
    (void)state;
    enum { WIDTH = 70 };
    static const float scales[] = { 0x1p100f, 0x1p-120f };
    float x[2 * WIDTH], y[2 * WIDTH], plain[2 * TT_SKETCH_FLOATS], got[2 * TT_SKETCH_FLOATS];
    fill(x, 2 * WIDTH, 9);
    tt_tensor t = tensor_of(TT_F32, x, 2, WIDTH);
    tt_sketch_compute(&t, plain);
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < WIDTH; i++) { /* the second token stays as it is */
            y[i] = x[i] * scales[k];
            y[WIDTH + i] = x[WIDTH + i];
        }
        t = tensor_of(TT_F32, y, 2, WIDTH);
        tt_sketch_compute(&t, got);
        for (size_t i = 0; i < TT_SKETCH_FLOATS; i++)
            expect_near((double)got[i], (double)plain[i] * (double)scales[k],
                        (double)plain[0] * (double)scales[k]);
        assert_memory_equal(got + TT_SKETCH_FLOATS, plain + TT_SKETCH_FLOATS, TT_SKETCH_BYTES);
    }
}

static void a_token_that_is_not_finite_has_no_sketch(void **state)
{
    (void)state;
    float x[2 * 64], got[2 * TT_SKETCH_FLOATS];
    fill(x, 2 * 64, 1);
    x[5] = (float)INFINITY;
    tt_tensor t = tensor_of(TT_F32, x, 2, 64);
    tt_sketch_compute(&t, got);
    assert_true(isnan(got[0]) || isinf(got[0]));
    assert_true(got[TT_SKETCH_FLOATS] > 0 && got[TT_SKETCH_FLOATS] < 1000);
}

static void only_floats_of_two_dimensions_have_tokens(void **state)
{
    (void)state;
    static const float x[4] = { 0 };
    tt_tensor t = tensor_of(TT_I32, x, 2, 2);
    assert_int_equal(tt_sketch_tokens(&t), 0);
    t = tensor_of(TT_F32, x, 2, 0);
    assert_int_equal(tt_sketch_tokens(&t), 0);
    t = tensor_of(TT_F32, x, 0, 2);
    assert_int_equal(tt_sketch_tokens(&t), 0);
    assert_int_equal(tt_tensor_describe(&t, x, TT_F32, 1, (int64_t[]){ 4 }, NULL, NULL), TT_OK);
    assert_int_equal(tt_sketch_tokens(&t), 0);
}

/* ---- rows and columns ---------------------------------------------------- */

static void rows_and_columns_are_found_again_where_they_are(void **state)
{
    (void)state;
    enum { ROWS = 5, COLUMNS = 2100 };
    static float x[ROWS * COLUMNS], turned[COLUMNS * ROWS];
    static uint64_t rows[COLUMNS], columns[COLUMNS], other_rows[COLUMNS], other_columns[COLUMNS];
    fill(x, ROWS * COLUMNS, 2);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < COLUMNS; k++)
            turned[k * ROWS + i] = x[i * COLUMNS + k];
    tt_tensor t = tensor_of(TT_F32, x, ROWS, COLUMNS);
    assert_int_equal(tt_axes_compute(&t, rows, columns), TT_OK);
    t = tensor_of(TT_F32, turned, COLUMNS, ROWS);
    assert_int_equal(tt_axes_compute(&t, other_rows, other_columns), TT_OK);
    assert_memory_equal(rows, other_columns, ROWS * sizeof *rows);
    assert_memory_equal(columns, other_rows, COLUMNS * sizeof *columns);
    assert_true(rows[0] != rows[1] && columns[0] != columns[1]);
    t = tensor_of(TT_F32, x + COLUMNS, 3, COLUMNS); /* a part */
    assert_int_equal(tt_axes_compute(&t, other_rows, other_columns), TT_OK);
    assert_memory_equal(rows + 1, other_rows, 3 * sizeof *rows);
}

static void rounding_to_bfloat16_does_not_show_and_constant_rows_are_even(void **state)
{
    (void)state;
    enum { N = 96 };
    float x[2 * N];
    uint16_t halves[2 * N];
    uint64_t rows[2], columns[N], other_rows[2], other_columns[N];
    fill(x, N, 4);
    for (size_t i = N; i < 2 * N; i++)
        x[i] = 1;
    for (size_t i = 0; i < 2 * N; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        halves[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    tt_tensor t = tensor_of(TT_F32, x, 2, N);
    assert_int_equal(tt_axes_compute(&t, rows, columns), TT_OK);
    assert_true(rows[0] % 2 == 1 && rows[1] % 2 == 0);
    t = tensor_of(TT_BF16, halves, 2, N);
    assert_int_equal(tt_axes_compute(&t, other_rows, other_columns), TT_OK);
    assert_memory_equal(rows, other_rows, sizeof rows);
    assert_memory_equal(columns, other_columns, sizeof columns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sketch_is_the_documented_sum),
        cmocka_unit_test(strides_and_instruction_sets_do_not_show),
        cmocka_unit_test(sketches_of_sums_and_of_joined_rows_follow_from_their_parts),
        cmocka_unit_test(half_types_and_doubles_agree_with_floats),
        cmocka_unit_test(squares_beyond_f32_are_summed_up_again),
        cmocka_unit_test(a_token_that_is_not_finite_has_no_sketch),
        cmocka_unit_test(only_floats_of_two_dimensions_have_tokens),
        cmocka_unit_test(rows_and_columns_are_found_again_where_they_are),
        cmocka_unit_test(rounding_to_bfloat16_does_not_show_and_constant_rows_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
