/* test_table.c -- tables line up, fit, and obey nothing that a cell says.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Two columns and two rows of the given cells. */
static tt_status render(const tt_style *style, int32_t least, const char *const cells[4], tt_buf *out)
{
    const tt_table_column columns[] = { { "NAME", .least = least }, { "N", .is_right = true } };
    tt_table *table = tt_table_create(style, columns, 2);
    for (int i = 0; i < 4; i++)
        tt_table_cell(table, i == 3 ? TT_MOOD_ALARM : TT_MOOD_PLAIN, cells[i]);
    tt_status st = tt_table_render(table, out);
    tt_table_free(table);
    return st;
}

static void assert_render(const tt_style *style, int32_t least, const char *const cells[4],
                          const char *expected)
{
    tt_buf out = { 0 };
    assert_int_equal(render(style, least, cells, &out), TT_OK);
    assert_string_equal(out.data, expected);
    tt_buf_free(&out);
}

static void columns_line_up(void **state)
{
    (void)state;
    assert_render(&(tt_style){ 0 }, 0, (const char *const[]){ "a", "1", "bcdefg", "100" },
                  "NAME      N\na         1\nbcdefg  100\n");
}

static void wide_characters_count_twice(void **state)
{
    (void)state;
    assert_render(&(tt_style){ 0 }, 0, (const char *const[]){ "漢字", "1", "abcde", "2" },
                  "NAME   N\n漢字   1\nabcde  2\n");
}

static void a_column_that_may_gives_room(void **state)
{
    (void)state;
    assert_render(&(tt_style){ .columns = 10 }, 4, (const char *const[]){ "abcdefghijkl", "1", "b", "2" },
                  "NAME     N\nabcdef…  1\nb        2\n");
    assert_render(&(tt_style){ .columns = 10 }, -4,
                  (const char *const[]){ "abcdefghijkl", "1", "b", "2" },
                  "NAME     N\nab…ijkl  1\nb        2\n");
}

static void a_name_behind_a_mark_keeps_its_ends(void **state)
{
    (void)state;
    const tt_table_column columns[] = { { "", .least = -6 }, { .title = "" } };
    tt_table *table = tt_table_create(&(tt_style){ .columns = 12 }, columns, 2);
    tt_buf out = { 0 };
    tt_table_branch(table, "! ", TT_MOOD_PLAIN, "layers.0.mlp");
    tt_table_cell(table, TT_MOOD_PLAIN, "one");
    tt_table_branch(table, "! ", TT_MOOD_PLAIN, "日本語日本語");
    tt_table_cell(table, TT_MOOD_PLAIN, "two");
    assert_int_equal(tt_table_render(table, &out), TT_OK);
    assert_string_equal(out.data, "\n! l…mlp  one\n! …本語  two\n");
    tt_buf_free(&out);
    tt_table_free(table);
}

/* NAME, A (goes second), B (goes first), C; one row. */
static void assert_spared(int32_t room, const char *const cells[4], const char *expected)
{
    static const tt_table_column columns[] = { { "NAME", .least = 4 },
                                               { "A", .is_right = true, .optional = 2 },
                                               { "B", .is_right = true, .optional = 1 },
                                               { "C", .is_right = true } };
    tt_table *table = tt_table_create(&(tt_style){ .columns = room }, columns, 4);
    tt_buf out = { 0 };
    for (int c = 0; c < 4; c++)
        tt_table_cell(table, TT_MOOD_PLAIN, cells[c]);
    assert_int_equal(tt_table_render(table, &out), TT_OK);
    assert_string_equal(out.data, expected);
    tt_buf_free(&out);
    tt_table_free(table);
}

static void what_may_be_spared_goes_before_anything_is_cut(void **state)
{
    (void)state;
    static const char *const cells[] = { "abcdefgh", "111", "222", "333" };
    assert_spared(23, cells, "NAME        A    B    C\nabcdefgh  111  222  333\n");
    assert_spared(22, cells, "NAME        A    C\nabcdefgh  111  333\n");
    assert_spared(17, cells, "NAME        C\nabcdefgh  333\n");
    assert_spared(12, cells, "NAME       C\nabcdef…  333\n");
}

static void a_column_that_says_nothing_is_not_shown(void **state)
{
    (void)state;
    assert_spared(0, (const char *const[]){ "a", "1", "", "3" }, "NAME  A  C\na     1  3\n");
    assert_spared(0, (const char *const[]){ "a", "1", "2", "" }, "NAME  A  B\na     1  2\n");
}

static void escape_sequences_of_a_cell_are_shown(void **state)
{
    (void)state;
    assert_render(&(tt_style){ .is_colored = true }, 0, (const char *const[]){ "\x1b[2J", "1", "b", "2" },
                  "\x1b[2mNAME\x1b[0m     \x1b[2mN\x1b[0m\n\\x1b[2J  1\nb        \x1b[1;31m2\x1b[0m\n");
}

static void ascii_stays_ascii(void **state)
{
    (void)state;
    assert_render(&(tt_style){ .is_ascii = true, .columns = 10 }, 4,
                  (const char *const[]){ "é", "1", "abcdefghijk", "2" },
                  "NAME     N\n\\xe9     1\nabcde..  2\n");
}

static tt_status write_narrow(const void *cells, tt_buf *out)
{
    return render(&(tt_style){ .columns = 9 }, 4, cells, out);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const char *const cells[] = { "abcdefghi", "1", "b", "2" };
    alloc_fail_each(write_narrow, cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up),
        cmocka_unit_test(wide_characters_count_twice),
        cmocka_unit_test(a_column_that_may_gives_room),
        cmocka_unit_test(a_name_behind_a_mark_keeps_its_ends),
        cmocka_unit_test(what_may_be_spared_goes_before_anything_is_cut),
        cmocka_unit_test(a_column_that_says_nothing_is_not_shown),
        cmocka_unit_test(escape_sequences_of_a_cell_are_shown),
        cmocka_unit_test(ascii_stays_ascii),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
