/* test_index.c -- sections of a block that nobody of ours has written are refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/index.h"

#include "store/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* What reading a body of one section says, of these numbers as varints. */
static tt_status read_section(tt_section kind, const uint64_t *numbers, size_t n)
{
    tt_index index = { .steps = TT_SPAN_NONE };
    tt_buf section = { 0 }, body = { 0 };
    tt_sites *sites;
    assert_int_equal(tt_sites_create(&sites), TT_OK);
    index.sites = sites;
    for (size_t i = 0; i < n; i++)
        tt_buf_varint(&section, numbers[i]);
    tt_section_put(&body, kind, &section);
    assert_int_equal(body.st, TT_OK);
    tt_status st = tt_index_read(&index, body.data, body.len, 0, TT_BLOCK_HEADER);
    tt_buf_free(&section);
    tt_buf_free(&body);
    tt_index_free(&index);
    tt_sites_free(sites);
    return st;
}
#define READ(kind, ...) \
    read_section(kind, (const uint64_t[]){ __VA_ARGS__ }, sizeof(uint64_t[]){ __VA_ARGS__ } / 8)

static void places_lie_in_the_file(void **state)
{
    (void)state;
    /* sessions, notes, then each as the distance from the one before */
    assert_int_equal(READ(TT_SECTION_PLACES, 1, 1, 64, 128), TT_OK);
    assert_int_equal(READ(TT_SECTION_PLACES, 1, 0, UINT64_C(1) << 63), TT_EFORMAT);
    assert_int_equal(READ(TT_SECTION_PLACES, 2, 0, 64, UINT64_C(1) << 63), TT_EFORMAT);
    assert_int_equal(READ(TT_SECTION_PLACES, 2, 0, 64), TT_EFORMAT);
}

static void holes_end_behind_their_start(void **state)
{
    (void)state;
    assert_int_equal(READ(TT_SECTION_HOLES, 64, 128), TT_OK);
    assert_int_equal(READ(TT_SECTION_HOLES, 128, 64), TT_EFORMAT);
    assert_int_equal(READ(TT_SECTION_HOLES, 64, UINT64_MAX), TT_EFORMAT);
    assert_int_equal(READ(TT_SECTION_HOLES, 64), TT_EFORMAT);
}

static void a_name_is_told_once_and_with_all_its_bytes(void **state)
{
    (void)state;
    assert_int_equal(READ(TT_SECTION_SITES, 0, 1, 'a', 1, 'b'), TT_OK);
    assert_int_equal(READ(TT_SECTION_SITES, 0, 1, 'a', 1, 'a'), TT_EFORMAT);
    assert_int_equal(READ(TT_SECTION_SITES, 0, 1, 0), TT_EFORMAT);
    assert_int_equal(READ(TT_SECTION_SITES, 0, 2, 'a'), TT_EFORMAT);
}

static void a_chain_is_of_a_site_that_is_there(void **state)
{
    (void)state;
    assert_int_equal(READ(TT_SECTION_CHAIN, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8), TT_EFORMAT);
    assert_int_equal(READ(TT_SECTION_CHAIN, 0, 5, 1), TT_EFORMAT);
}

static void a_chain_that_does_not_fit_its_points_is_not_believed(void **state)
{
    (void)state;
    tt_index_site row = { .points = 5, .stored = 5, .chain = 9, .chained = 5 };
    assert_true(tt_index_chain(&row) != 0);
    row.chained = 4; /* points came after it was written down */
    assert_true(tt_index_chain(&row) == 0);
    row.chained = 5;
    row.stored = 4; /* one is damaged */
    assert_true(tt_index_chain(&row) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_lie_in_the_file),
        cmocka_unit_test(holes_end_behind_their_start),
        cmocka_unit_test(a_name_is_told_once_and_with_all_its_bytes),
        cmocka_unit_test(a_chain_is_of_a_site_that_is_there),
        cmocka_unit_test(a_chain_that_does_not_fit_its_points_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
