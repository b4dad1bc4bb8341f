/* test_spark.c -- logarithmic bins become cells of one width.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/glyph.h"

#include "alloc_fail.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double total(const double *cells, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += cells[i];
    return sum;
}

static void no_two_values_give_no_cells(void **state)
{
    (void)state;
    double cells[TT_SPARK_CELLS];
    const tt_hist_bin one = { 4, 5, 10 };
    assert_int_equal(tt_spark_cells(&one, 1, 4.5, 4.5, false, cells), 0);
    assert_int_equal(tt_spark_cells(&one, 0, 4, 5, false, cells), 0);
    assert_int_equal(tt_spark_cells(&one, 1, (double)NAN, (double)NAN, false, cells), 0);
}

static void no_count_is_lost(void **state)
{
    (void)state;
    const tt_hist_bin bins[] = { { -3.5, -3, 5 }, { -1.25, -1, 7 },    { -0.5, -0.4375, 2 },
                                 { 0, 0, 11 },    { 0.25, 0.3125, 1 }, { 1, 1.25, 20 },
                                 { 2, 2.5, 3 } };
    double cells[TT_SPARK_CELLS];
    size_t n = tt_spark_cells(bins, 7, -3.25, 2.0, false, cells);
    assert_int_equal(n, TT_SPARK_CELLS);
    assert_true(fabs(total(cells, n) - 49) < 1e-12);
    assert_true(cells[0] == 5);     /* -3.25 to -2.67: what is left of the first bin */
    assert_true(cells[n - 1] == 3); /* the bin that begins at max has no width left */
    assert_true(cells[5] == 11);    /* -0.33 to 0.25 holds the zeros alone */
}

static void a_bin_is_shared_out_by_length(void **state)
{
    (void)state;
    const tt_hist_bin bins[] = { { 0, 0, 4 }, { 0.5, 1, 0 }, { 1, 2, 90 }, { 2, 4, 1 } };
    double cells[TT_SPARK_CELLS];
    size_t n = tt_spark_cells(bins, 4, 0, 9, false, cells); /* cells of width 1 */
    assert_int_equal(n, 9);
    assert_true(cells[0] == 4 && cells[1] == 90 && cells[2] == 0.5 && cells[3] == 0.5 && cells[4] == 0);
    n = tt_spark_cells(bins + 2, 1, 1, 2, false, cells);
    for (size_t i = 0; i < n; i++)
        assert_true(fabs(cells[i] - 10) < 1e-12);
}

static void few_whole_numbers_have_a_cell_each(void **state)
{
    (void)state;
    const tt_hist_bin bins[] = {
        { -2.5, -2, 6 }, { -1.25, -1, 5 }, { 0, 0, 4 }, { 1, 1.25, 3 }, { 3, 3.5, 2 }
    };
    double cells[TT_SPARK_CELLS];
    assert_int_equal(tt_spark_cells(bins, 5, -2, 3, true, cells), 6);
    const double want[] = { 6, 5, 4, 3, 0, 2 };
    for (size_t i = 0; i < 6; i++)
        assert_true(fabs(cells[i] - want[i]) < 1e-12);
}

static void the_widest_and_the_smallest_ranges_work(void **state)
{
    (void)state;
    const tt_hist_bin wide[] = { { -INFINITY, -1.5e308, 1 }, { 0, 0, 2 }, { 1.5e308, INFINITY, 3 } };
    double cells[TT_SPARK_CELLS];
    assert_int_equal(tt_spark_cells(wide, 3, -DBL_MAX, DBL_MAX, false, cells), 9);
    assert_true(cells[0] == 1 && cells[4] == 2 && cells[8] == 3);
    const tt_hist_bin tiny[] = { { 0, 0, 2 }, { 5e-324, 1e-323, 1 } };
    assert_int_equal(tt_spark_cells(tiny, 2, 0, 5e-324, false, cells), 9);
    assert_true(cells[0] == 2 && cells[8] == 1);
}

static void the_fullest_cell_is_full_and_no_cell_that_holds_something_looks_empty(void **state)
{
    (void)state;
    const double cells[] = { 1, 0, 1e9, 5e8, 0, 1e-3 };
    tt_buf out = { 0 };
    assert_int_equal(tt_spark_append(cells, 6, &(tt_style){ 0 }, &out), TT_OK);
    assert_string_equal(out.data, "▂▁█▅▁▂");
    tt_buf_free(&out);
    assert_int_equal(tt_spark_append(cells, 6, &(tt_style){ .is_ascii = true }, &out), TT_OK);
    assert_string_equal(out.data, "._#=_.");
    tt_buf_free(&out);
    alloc_fail_at(1);
    assert_int_equal(tt_spark_append(cells, 6, &(tt_style){ 0 }, &out), TT_ENOMEM);
    assert_true(alloc_fail_stop());
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_values_give_no_cells),
        cmocka_unit_test(no_count_is_lost),
        cmocka_unit_test(a_bin_is_shared_out_by_length),
        cmocka_unit_test(few_whole_numbers_have_a_cell_each),
        cmocka_unit_test(the_widest_and_the_smallest_ranges_work),
        cmocka_unit_test(the_fullest_cell_is_full_and_no_cell_that_holds_something_looks_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
