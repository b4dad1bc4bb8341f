/* test_fold.c -- which blocks are found to be the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Kinds as letters, numbers as digits; a space: no number. */
static void check(const char *kinds, const char *numbers, size_t longest, size_t length, size_t times)
{
    tt_fold_item items[32];
    size_t count = strlen(kinds), found;
    for (size_t i = 0; i < count; i++)
        items[i] = (tt_fold_item){ (uint64_t)kinds[i], numbers[i] == ' ' ? 0 : (uint64_t)numbers[i] };
    assert_int_equal(tt_fold_find(items, count, 0, longest, &found), length);
    assert_int_equal(found, times);
}

static void equal_neighbours_are_one_block_each(void **state)
{
    (void)state;
    check("aaab", "0123", 8, 1, 3);
    check("abab", "0000", 8, 0, 1);
    check("a", "0", 8, 0, 1);
}

static void longer_blocks_that_save_more_win(void **state)
{
    (void)state;
    check("ababab", "001122", 8, 2, 3);
    check("aabaab", "012345", 8, 3, 2);
    check("xabxabxab", " 00 11 22", 8, 3, 3); /* a line without a number before each layer */
}

static void lines_of_a_loop_are_no_blocks(void **state)
{
    (void)state;
    check("aaaa", "    ", 8, 0, 1);
    check("aaaa", "1111", 8, 0, 1);
}

static void blocks_are_not_longer_than_asked(void **state)
{
    (void)state;
    check("ababab", "001122", 1, 0, 1);
    check("aaaa", "0123", 0, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_neighbours_are_one_block_each),
        cmocka_unit_test(longer_blocks_that_save_more_win),
        cmocka_unit_test(lines_of_a_loop_are_no_blocks),
        cmocka_unit_test(blocks_are_not_longer_than_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
