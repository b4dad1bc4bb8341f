/* test_sample.c -- a sample is the right few elements, with their indices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "alloc_fail.h"
#include "tensortap_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const tt_sample_options usual = { .max_vector = 32, .max_matrix = 8, .max_slices = 6 };

enum { MANY = 100000 };
static int32_t counting[MANY]; /* counting[i] is i: a value is its own flat index */

static int count_up(void **state)
{
    (void)state;
    for (int32_t i = 0; i < MANY; i++)
        counting[i] = i;
    return 0;
}

static tt_sample *sample_of(int32_t ndim, const int64_t *shape, const tt_sample_options *options)
{
    tt_tensor t;
    tt_sample *s = NULL;
    assert_int_equal(tt_tensor_describe(&t, counting, TT_I32, ndim, shape, NULL, NULL), TT_OK);
    assert_int_equal(tt_sample_create(&t, options, &s, NULL), TT_OK);
    return s;
}

static void check_indices(const int64_t *got, int64_t n, const int64_t *want, int64_t want_n)
{
    assert_int_equal(n, want_n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(got[i], want[i]);
}

#define INDICES(...) \
    (const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)

/* Every value of slice i must be first + row * width + column. */
static void check_values(const tt_sample *s, size_t i, int64_t first, int64_t width)
{
    const tt_sample_slice *slice = tt_sample_at(s, i);
    const int32_t *values = slice->values;
    for (int64_t r = 0; r < slice->rows; r++)
        for (int64_t c = 0; c < slice->cols; c++)
            assert_int_equal(*values++, first + slice->row[r] * width + slice->col[c]);
}

static void a_scalar_is_one_by_one(void **state)
{
    (void)state;
    tt_tensor t;
    tt_sample *s;
    assert_int_equal(tt_tensor_describe(&t, counting + 7, TT_I32, 0, NULL, NULL, NULL), TT_OK);
    assert_int_equal(tt_sample_create(&t, &usual, &s, NULL), TT_OK);
    assert_int_equal(tt_sample_count(s), 1);
    const tt_sample_slice *slice = tt_sample_at(s, 0);
    assert_string_equal(slice->label, "");
    check_indices(slice->row, slice->rows, INDICES(0));
    check_indices(slice->col, slice->cols, INDICES(0));
    assert_int_equal(*(const int32_t *)slice->values, 7);
    assert_false(tt_sample_is_partial(s));
    tt_sample_free(s);
}

static void a_vector_is_one_row_with_first_and_last_column(void **state)
{
    (void)state;
    tt_sample_options few = usual;
    few.max_vector = 5;
    tt_sample *s = sample_of(1, (int64_t[]){ 12 }, &few);
    const tt_sample_slice *slice = tt_sample_at(s, 0);
    check_indices(slice->row, slice->rows, INDICES(0));
    check_indices(slice->col, slice->cols, INDICES(0, 2, 5, 8, 11)); /* floor(k * 11 / 4) */
    check_values(s, 0, 0, 12);
    assert_true(tt_sample_is_partial(s));
    tt_sample_free(s);

    s = sample_of(1, (int64_t[]){ 32 }, &usual);
    assert_int_equal(tt_sample_at(s, 0)->cols, 32);
    assert_false(tt_sample_is_partial(s));
    tt_sample_free(s);
}

static void a_limit_of_one_shows_the_first(void **state)
{
    (void)state;
    tt_sample *s = sample_of(2, (int64_t[]){ 5, 5 }, &(tt_sample_options){ 1, 1, 1 });
    check_indices(tt_sample_at(s, 0)->row, tt_sample_at(s, 0)->rows, INDICES(0));
    check_indices(tt_sample_at(s, 0)->col, tt_sample_at(s, 0)->cols, INDICES(0));
    tt_sample_free(s);
}

static void a_matrix_is_limited_in_rows_and_columns(void **state)
{
    (void)state;
    tt_sample *s = sample_of(2, (int64_t[]){ 100, 9 }, &usual);
    const tt_sample_slice *slice = tt_sample_at(s, 0);
    assert_int_equal(tt_sample_count(s), 1);
    assert_string_equal(slice->label, "");
    check_indices(slice->row, slice->rows, INDICES(0, 14, 28, 42, 56, 70, 84, 99)); /* k * 99 / 7 */
    check_indices(slice->col, slice->cols, INDICES(0, 1, 2, 3, 4, 5, 6, 8));
    check_values(s, 0, 0, 9);
    assert_true(tt_sample_is_partial(s));
    tt_sample_free(s);
}

static void three_dimensions_give_a_slice_for_each_index(void **state)
{
    (void)state;
    tt_sample *s = sample_of(3, (int64_t[]){ 3, 8, 5 }, &usual);
    assert_int_equal(tt_sample_count(s), 3);
    assert_null(tt_sample_at(s, 3));
    for (size_t i = 0; i < 3; i++) {
        char label[8];
        snprintf(label, sizeof label, "[%zu]", i);
        assert_string_equal(tt_sample_at(s, i)->label, label);
        assert_int_equal(tt_sample_at(s, i)->rows, 8);
        check_values(s, i, (int64_t)i * 40, 5);
    }
    assert_false(tt_sample_is_partial(s));
    tt_sample_free(s);
}

static void more_than_four_slices_are_small(void **state)
{
    (void)state;
    tt_sample *s = sample_of(3, (int64_t[]){ 5, 8, 3 }, &usual);
    assert_int_equal(tt_sample_count(s), 5);
    check_indices(tt_sample_at(s, 4)->row, tt_sample_at(s, 4)->rows, INDICES(0, 2, 4, 7));
    assert_int_equal(tt_sample_at(s, 4)->cols, 3);
    check_values(s, 4, 4 * 24, 3);
    tt_sample_free(s);

    tt_sample_options tiny = { .max_vector = 8, .max_matrix = 2, .max_slices = 6 };
    s = sample_of(3, (int64_t[]){ 5, 8, 3 }, &tiny);
    assert_int_equal(tt_sample_at(s, 0)->rows, 2);
    tt_sample_free(s);
}

static void four_dimensions_are_sampled_over_the_flat_pair(void **state)
{
    (void)state;
    tt_sample *s = sample_of(4, (int64_t[]){ 3, 4, 2, 2 }, &usual);
    static const char *const labels[] = { "[0,0]", "[0,2]", "[1,0]", "[1,2]", "[2,0]", "[2,3]" };
    static const int64_t flat[] = { 0, 2, 4, 6, 8, 11 }; /* k * 11 / 5 */
    assert_int_equal(tt_sample_count(s), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(tt_sample_at(s, i)->label, labels[i]);
        check_values(s, i, flat[i] * 4, 2);
    }
    assert_true(tt_sample_is_partial(s));
    tt_sample_free(s);
}

static void further_dimensions_stay_at_their_middle(void **state)
{
    (void)state;
    tt_sample *s = sample_of(6, (int64_t[]){ 5, 3, 1, 12, 2, 2 }, &usual);
    static const char *const labels[] = { "[2,1,0,0]", "[2,1,0,2]", "[2,1,0,4]",
                                          "[2,1,0,6]", "[2,1,0,8]", "[2,1,0,11]" };
    static const int64_t flat[] = { 0, 2, 4, 6, 8, 11 };
    assert_int_equal(tt_sample_count(s), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(tt_sample_at(s, i)->label, labels[i]);
        check_values(s, i, (2 * 3 + 1) * 48 + flat[i] * 4, 2);
    }
    tt_sample_free(s);

    s = sample_of(5, (int64_t[]){ 1, 1, 1, 1, 1 }, &usual);
    assert_string_equal(tt_sample_at(s, 0)->label, "[0,0,0]");
    assert_true(tt_sample_is_partial(s)); /* by definition: an index was picked */
    tt_sample_free(s);
}

static void empty_tensors_give_empty_tables(void **state)
{
    (void)state;
    static const struct {
        int32_t ndim;
        int64_t shape[6];
        size_t count;
        int64_t rows, cols;
    } cases[] = {
        { 1, { 0 }, 1, 1, 0 },
        { 2, { 0, 3 }, 1, 0, 3 },
        { 2, { 3, 0 }, 1, 3, 0 },
        { 3, { 2, 0, 3 }, 2, 0, 3 },
        { 3, { 0, 2, 3 }, 0, 0, 0 },
        { 4, { 2, 0, 3, 3 }, 0, 0, 0 },
        { 4, { 1, 2, 3, 0 }, 2, 3, 0 },
        { 5, { 0, 2, 2, 3, 3 }, 0, 0, 0 },
        { 6, { 2, 2, 1, 1, 0, 3 }, 1, 0, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_tensor t;
        tt_sample *s;
        int64_t wild[6] = { INT64_MAX, INT64_MIN, INT64_MAX, INT64_MAX, INT64_MIN, 1 };
        assert_int_equal(tt_tensor_describe(&t, NULL, TT_F32, cases[i].ndim, cases[i].shape, wild, NULL),
                         TT_OK);
        assert_int_equal(tt_sample_create(&t, &usual, &s, NULL), TT_OK);
        assert_int_equal(tt_sample_count(s), cases[i].count);
        for (size_t j = 0; j < cases[i].count; j++) {
            assert_int_equal(tt_sample_at(s, j)->rows, cases[i].rows);
            assert_int_equal(tt_sample_at(s, j)->cols, cases[i].cols);
        }
        tt_sample_free(s);
    }
}

static void strides_are_followed_backwards_too(void **state)
{
    (void)state;
    tt_tensor t; /* 10 x 4 of a 4 x 20 matrix: transposed, every second, from the end */
    tt_sample *s;
    int64_t stride[] = { -8, 80 };
    assert_int_equal(tt_tensor_describe(&t, counting + 19, TT_I32, 2, (int64_t[]){ 10, 4 }, stride, NULL),
                     TT_OK);
    assert_int_equal(tt_sample_create(&t, &usual, &s, NULL), TT_OK);
    const tt_sample_slice *slice = tt_sample_at(s, 0);
    const int32_t *values = slice->values;
    for (int64_t r = 0; r < slice->rows; r++)
        for (int64_t c = 0; c < slice->cols; c++)
            assert_int_equal(*values++, 19 - 2 * slice->row[r] + 20 * slice->col[c]);
    tt_sample_free(s);
}

static void swapped_unaligned_elements_come_out_native(void **state)
{
    (void)state;
    unsigned char bytes[1 + 16] = {
        0, 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0, 0x40, 0x40, 0, 0, 0xc0, 0x80, 0, 0
    };
    tt_tensor t; /* big-endian 1 - 2i, 3 - 4i */
    tt_sample *s;
    assert_int_equal(tt_tensor_describe(&t, bytes + 1, TT_C64, 1, (int64_t[]){ 2 }, NULL, NULL), TT_OK);
    t.is_swapped = true;
    assert_int_equal(tt_sample_create(&t, &usual, &s, NULL), TT_OK);
    assert_memory_equal(tt_sample_at(s, 0)->values, ((const float[]){ 1, -2, 3, -4 }), 16);
    tt_sample_free(s);
}

static void every_type_is_copied_as_it_is(void **state)
{
    (void)state;
    unsigned char bytes[3 * 16];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    for (int dtype = 0; dtype < TT_DTYPE_COUNT_; dtype++) {
        tt_tensor t;
        tt_sample *s;
        assert_int_equal(tt_tensor_describe(&t, bytes, (tt_dtype)dtype, 1, (int64_t[]){ 3 }, NULL, NULL),
                         TT_OK);
        assert_int_equal(tt_sample_create(&t, &usual, &s, NULL), TT_OK);
        assert_memory_equal(tt_sample_at(s, 0)->values, bytes, 3 * tt_dtype_size((tt_dtype)dtype));
        assert_true((uintptr_t)tt_sample_at(s, 0)->values % 16 == 0);
        tt_sample_free(s);
    }
}

static void the_largest_tensors_cost_no_more(void **state)
{
    (void)state;
    tt_tensor t;
    tt_sample *s;
    const int64_t huge = INT64_MAX;
    static const int8_t one = 1;
    assert_int_equal(tt_tensor_describe(&t, &one, TT_I8, 1, &huge, (int64_t[]){ 0 }, NULL), TT_OK);
    assert_int_equal(tt_sample_create(&t, &(tt_sample_options){ 3, 8, 6 }, &s, NULL), TT_OK);
    check_indices(tt_sample_at(s, 0)->col, 3, INDICES(0, INT64_MAX / 2, INT64_MAX - 1));
    tt_sample_free(s);
    tt_error err;
    tt_sample *untouched = NULL;
    assert_int_equal(tt_sample_create(&t, &(tt_sample_options){ huge, 8, 6 }, &untouched, &err),
                     TT_ENOMEM);
    assert_null(untouched);
}

static void a_shared_sample_lasts_until_its_last_owner_frees_it(void **state)
{
    (void)state;
    tt_tensor t;
    tt_sample *one;
    const float data[] = { 1, 2 };
    assert_int_equal(tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ 2 }, NULL, NULL), TT_OK);
    assert_int_equal(tt_sample_create(&t, &usual, &one, NULL), TT_OK);
    tt_sample *other = tt_sample_share(one);
    tt_sample_free(one);
    assert_memory_equal(tt_sample_at(other, 0)->values, data, sizeof data); /* ASan would tell */
    tt_sample_free(other);
    assert_null(tt_sample_share(NULL));
}

static void options_below_one_are_named(void **state)
{
    (void)state;
    static const tt_sample_options wrong[] = { { 0, 8, 6 }, { 32, -1, 6 }, { 32, 8, INT64_MIN } };
    static const char *const names[] = { "max_vector", "max_matrix", "max_slices" };
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, counting, TT_I32, 1, (int64_t[]){ 3 }, NULL, NULL), TT_OK);
    for (size_t i = 0; i < 3; i++) {
        tt_sample *s = NULL;
        tt_error err;
        assert_int_equal(tt_sample_create(&t, &wrong[i], &s, &err), TT_EINVAL);
        assert_non_null(strstr(err.text, names[i]));
        assert_null(s);
    }
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, counting, TT_I32, 3, (int64_t[]){ 9, 9, 9 }, NULL, NULL),
                     TT_OK);
    for (long nth = 1;; nth++) {
        tt_sample *s = NULL;
        alloc_fail_at(nth);
        tt_status st = tt_sample_create(&t, &usual, &s, NULL);
        if (!alloc_fail_stop()) {
            assert_int_equal(st, TT_OK);
            assert_int_equal(nth, 2); /* one piece of memory */
            tt_sample_free(s);
            break;
        }
        assert_int_equal(st, TT_ENOMEM);
        assert_null(s);
    }
    tt_sample_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scalar_is_one_by_one),
        cmocka_unit_test(a_vector_is_one_row_with_first_and_last_column),
        cmocka_unit_test(a_limit_of_one_shows_the_first),
        cmocka_unit_test(a_matrix_is_limited_in_rows_and_columns),
        cmocka_unit_test(three_dimensions_give_a_slice_for_each_index),
        cmocka_unit_test(more_than_four_slices_are_small),
        cmocka_unit_test(four_dimensions_are_sampled_over_the_flat_pair),
        cmocka_unit_test(further_dimensions_stay_at_their_middle),
        cmocka_unit_test(empty_tensors_give_empty_tables),
        cmocka_unit_test(strides_are_followed_backwards_too),
        cmocka_unit_test(swapped_unaligned_elements_come_out_native),
        cmocka_unit_test(every_type_is_copied_as_it_is),
        cmocka_unit_test(the_largest_tensors_cost_no_more),
        cmocka_unit_test(a_shared_sample_lasts_until_its_last_owner_frees_it),
        cmocka_unit_test(options_below_one_are_named),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, count_up, NULL);
}
