/* test_placed.c -- the digests of all parts of a tensor add up to that of the whole.
 *
 * The known answers come from Python's integers, by the definition in docs/FORMAT.md.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/placed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tt_digest placed(tt_dtype dtype, const void *data, int32_t ndim, const int64_t *shape,
                        const int64_t *stride, const tt_placement *p)
{
    tt_tensor t;
    tt_digest out;
    assert_int_equal(tt_tensor_describe(&t, data, dtype, ndim, shape, stride, NULL), TT_OK);
    assert_true(tt_placed_compute(&t, p, &out));
    return out;
}

static void expect(tt_digest got, uint64_t low, uint64_t high)
{
    assert_int_equal(got.low, low);
    assert_int_equal(got.high, high);
}

static void a_digest_is_what_the_format_says(void **state)
{
    (void)state;
    static const float floats[] = { 0, 1, 2, 3, 4, 5 };
    static const uint16_t halves[] = { 1, 2, 3 };
    static const double complex_[] = { 1, -1, 0.5, 2 };
    expect(placed(TT_F32, floats, 2, (int64_t[]){ 2, 3 }, NULL, NULL), 0xc18f106ea2667458,
           0xe9aa552d04bd7fa4);
    expect(placed(TT_BF16, halves, 1, (int64_t[]){ 3 }, NULL, NULL), 0x01505e45e1ef7b2d,
           0x7300dafccb15b4c0);
    expect(placed(TT_C128, complex_, 1, (int64_t[]){ 2 }, NULL, NULL), 0xc973831f648af5d6,
           0x36501044dce13035);
    expect(placed(TT_F32, NULL, 1, (int64_t[]){ 0 }, NULL, NULL), 0, 0);
}

enum { ROWS = 67, COLS = 61 };
static float whole[ROWS][COLS];

/* Rows and columns of the whole, copied into a tensor of its own. */
static tt_digest part(const int64_t rows[][2], int32_t row_count, const int64_t cols[][2],
                      int32_t col_count)
{
    static float own[ROWS * COLS];
    tt_box boxes[TT_PLACEMENT_BOXES];
    tt_placement p = { .ndim = 2, .shape = { ROWS, COLS }, .boxes = boxes };
    int64_t shape[2] = { 0, 0 };
    size_t n = 0;
    for (int32_t i = 0; i < row_count; i++) {
        for (int32_t j = 0; j < col_count; j++)
            boxes[p.box_count++] = (tt_box){ { rows[i][0], cols[j][0] }, { rows[i][1], cols[j][1] } };
        shape[0] += rows[i][1];
        for (int64_t r = rows[i][0]; r < rows[i][0] + rows[i][1]; r++)
            for (int32_t j = 0; j < col_count; j++)
                for (int64_t c = cols[j][0]; c < cols[j][0] + cols[j][1]; c++)
                    own[n++] = whole[r][c];
    }
    for (int32_t j = 0; j < col_count; j++)
        shape[1] += cols[j][1];
    return placed(TT_F32, own, 2, shape, NULL, &p);
}

static void parts_add_up_however_the_tensor_is_cut(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS * COLS; i++)
        whole[i / COLS][i % COLS] = (float)rand();
    tt_digest want = placed(TT_F32, whole, 2, (int64_t[]){ ROWS, COLS }, NULL, NULL), sum;
    const int64_t all_cols[][2] = { { 0, COLS } }, left[][2] = { { 0, 7 }, { 20, 11 } },
                  right[][2] = { { 7, 13 }, { 31, COLS - 31 } };
    const int64_t all_rows[][2] = { { 0, ROWS } }, even[][2] = { { 0, 5 }, { 30, 30 } },
                  odd[][2] = { { 5, 25 }, { 60, ROWS - 60 } }, none[][2] = { { ROWS, 0 } };

    sum = part(even, 2, all_cols, 1);
    tt_placed_add(&sum, &(tt_digest[]){ part(odd, 2, all_cols, 1) }[0]);
    tt_placed_add(&sum, &(tt_digest[]){ part(none, 1, all_cols, 1) }[0]);
    expect(sum, want.low, want.high);

    sum = part(all_rows, 1, left, 2);
    tt_placed_add(&sum, &(tt_digest[]){ part(all_rows, 1, right, 2) }[0]);
    expect(sum, want.low, want.high);

    sum = part(even, 2, left, 2);
    tt_placed_add(&sum, &(tt_digest[]){ part(even, 2, right, 2) }[0]);
    tt_placed_add(&sum, &(tt_digest[]){ part(odd, 2, left, 2) }[0]);
    tt_placed_add(&sum, &(tt_digest[]){ part(odd, 2, right, 2) }[0]);
    expect(sum, want.low, want.high);
}

static void swapped_elements_and_single_bits_change_it(void **state)
{
    (void)state;
    uint32_t x[64], bits;
    for (size_t i = 0; i < 64; i++)
        x[i] = (uint32_t)rand();
    const int64_t shape[] = { 64 };
    tt_digest want = placed(TT_U32, x, 1, shape, NULL, NULL);
    for (size_t i = 0; i < 64; i++)
        for (int b = 0; b < 32; b++) {
            x[i] ^= 1u << b;
            tt_digest got = placed(TT_U32, x, 1, shape, NULL, NULL);
            assert_true(got.low != want.low || got.high != want.high);
            x[i] ^= 1u << b;
        }
    bits = x[3];
    x[3] = x[40];
    x[40] = bits;
    tt_digest swapped = placed(TT_U32, x, 1, shape, NULL, NULL);
    assert_true(swapped.low != want.low || swapped.high != want.high);
}

static void a_transposed_copy_has_the_digest_of_the_view(void **state)
{
    (void)state;
    static float turned[COLS][ROWS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            turned[c][r] = whole[r][c] = (float)rand();
    const int64_t shape[] = { COLS, ROWS }, stride[] = { sizeof(float), COLS * sizeof(float) };
    tt_digest copy = placed(TT_F32, turned, 2, shape, NULL, NULL);
    expect(placed(TT_F32, whole, 2, shape, stride, NULL), copy.low, copy.high);
}

static void a_placement_of_another_tensor_gives_none(void **state)
{
    (void)state;
    tt_tensor t;
    tt_digest out;
    const tt_box box = { { 0, 0 }, { 2, 3 } },
                 overlapping[] = { { { 0, 0 }, { 2, 3 } }, { { 0, 1 }, { 2, 3 } } };
    assert_int_equal(tt_tensor_describe(&t, whole, TT_F32, 2, (int64_t[]){ 4, 3 }, NULL, NULL), TT_OK);
    const tt_placement wrong[] = {
        { .ndim = 2, .shape = { 8, 3 }, .boxes = &box, .box_count = 1 },        /* other sizes */
        { .ndim = 3, .shape = { 8, 3, 1 }, .boxes = &box, .box_count = 1 },     /* other dimensions */
        { .ndim = 2, .shape = { 8, 3 } },                                       /* not known */
        { .ndim = 2, .shape = { 8, 3 }, .boxes = overlapping, .box_count = 2 }, /* no grid */
        { .ndim = -1 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(tt_placed_compute(&t, &wrong[i], &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_what_the_format_says),
        cmocka_unit_test(parts_add_up_however_the_tensor_is_cut),
        cmocka_unit_test(swapped_elements_and_single_bits_change_it),
        cmocka_unit_test(a_transposed_copy_has_the_digest_of_the_view),
        cmocka_unit_test(a_placement_of_another_tensor_gives_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
