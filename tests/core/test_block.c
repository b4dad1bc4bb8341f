/* test_block.c -- which headers are believed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { AT = 640 };

/* Is a header believed that was sealed for AT with this length, and stands at `at`? */
static bool is_believed(int64_t length, int64_t at)
{
    tt_block_head head = { .kind = TT_BLOCK_BATCH, .id = 7, .length = length }, back;
    unsigned char bytes[TT_BLOCK_HEADER];
    tt_block_seal(&head, AT, "", bytes);
    return tt_block_parse(bytes, at, &back) && back.length == length && back.id == 7;
}

static void a_header_is_believed_at_its_place_only(void **state)
{
    (void)state;
    assert_true(is_believed(TT_BLOCK_HEADER, AT));
    assert_false(is_believed(TT_BLOCK_HEADER, AT + TT_BLOCK_ALIGN));
}

static void a_block_is_no_shorter_than_its_header_and_ends_where_another_may_begin(void **state)
{
    (void)state;
    assert_false(is_believed(TT_BLOCK_HEADER - TT_BLOCK_ALIGN, AT));
    assert_false(is_believed(TT_BLOCK_HEADER + 1, AT));
}

static void a_block_ends_where_a_file_can_end(void **state)
{
    (void)state;
    const int64_t most = INT64_MAX / TT_BLOCK_ALIGN * TT_BLOCK_ALIGN;
    assert_true(is_believed(most - AT, AT));
    assert_false(is_believed(most, AT));
    assert_false(is_believed(INT64_MIN + TT_BLOCK_ALIGN, AT)); /* more than 2^63 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_believed_at_its_place_only),
        cmocka_unit_test(a_block_is_no_shorter_than_its_header_and_ends_where_another_may_begin),
        cmocka_unit_test(a_block_ends_where_a_file_can_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
