/* test_buf.c -- buffers grow, stay ended, and survive a failed allocation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void an_empty_buffer_needs_no_making_and_no_freeing(void **state)
{
    (void)state;
    tt_buf buf = { 0 };
    tt_buf_free(&buf);
    tt_buf_free(NULL);
    tt_buf_clear(&buf);
    tt_buf_cut(&buf, 0);
    assert_null(buf.data);
    assert_int_equal(tt_buf_reserve(&buf, 100), TT_OK);
    assert_true(buf.len == 0 && buf.cap > 100);
    assert_string_equal(buf.data, ""); /* ended, though nothing is in it */
    tt_buf_free(&buf);
    assert_int_equal(tt_buf_append(&buf, NULL, 0), TT_OK);
    assert_string_equal(buf.data, "");
    tt_buf_free(&buf);
    assert_null(buf.data);
}

static void what_was_appended_is_there_and_ended_by_nul(void **state)
{
    (void)state;
    tt_buf buf = { 0 };
    char want[5000];
    for (size_t i = 0; i < sizeof want; i++) {
        want[i] = (char)('a' + i % 26);
        assert_int_equal(tt_buf_append(&buf, &want[i], 1), TT_OK);
        assert_true(buf.len == i + 1 && buf.cap > buf.len && buf.data[buf.len] == '\0');
    }
    assert_memory_equal(buf.data, want, sizeof want);
    tt_buf_free(&buf);
}

static void bytes_may_hold_nul(void **state)
{
    (void)state;
    tt_buf buf = { 0 };
    assert_int_equal(tt_buf_append(&buf, "a\0b", 3), TT_OK);
    assert_int_equal(tt_buf_text(&buf, "cd"), TT_OK);
    assert_int_equal(buf.len, 5);
    assert_memory_equal(buf.data, "a\0bcd", 6);
    tt_buf_free(&buf);
}

static void printf_appends_any_length(void **state)
{
    (void)state;
    tt_buf buf = { 0 };
    assert_int_equal(tt_buf_printf(&buf, "%d-%s", 7, "x"), TT_OK);
    assert_string_equal(buf.data, "7-x");
    assert_int_equal(tt_buf_printf(&buf, "%*d", 300, 5), TT_OK);
    assert_int_equal(buf.len, 303);
    assert_int_equal(buf.data[302], '5');
    assert_int_equal(tt_buf_printf(&buf, "%s", ""), TT_OK);
    assert_int_equal(buf.len, 303);
    tt_buf_free(&buf);
}

static void cut_and_clear_keep_the_memory(void **state)
{
    (void)state;
    tt_buf buf = { 0 };
    assert_int_equal(tt_buf_text(&buf, "abcdef"), TT_OK);
    size_t cap = buf.cap;
    tt_buf_cut(&buf, 3);
    assert_string_equal(buf.data, "abc");
    tt_buf_clear(&buf);
    assert_string_equal(buf.data, "");
    assert_int_equal(buf.cap, cap);
    tt_buf_free(&buf);
}

static void a_size_that_cannot_be_is_out_of_memory(void **state)
{
    (void)state;
    tt_buf buf = { 0 };
    assert_int_equal(tt_buf_reserve(&buf, SIZE_MAX), TT_ENOMEM);
    assert_int_equal(tt_buf_reserve(&buf, SIZE_MAX / 2), TT_ENOMEM);
    assert_null(buf.data);
    tt_arena arena = { 0 };
    assert_null(tt_arena_alloc(&arena, SIZE_MAX));
    assert_null(tt_arena_text(&arena, "", SIZE_MAX));
    tt_arena_free(&arena);
}

static tt_status grow(tt_buf *buf)
{
    tt_status st = TT_OK;
    for (int i = 0; st == TT_OK && i < 2000; i++) {
        size_t before = buf->len;
        st = i % 2 == 0 ? tt_buf_printf(buf, "%d and ", i) : tt_buf_text(buf, "some more text");
        if (st < 0) { /* as it was */
            assert_int_equal(buf->len, before);
            assert_true(buf->data == NULL || buf->data[before] == '\0');
        }
    }
    return st;
}

static void a_failed_allocation_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        tt_buf buf = { 0 };
        alloc_fail_at(nth);
        tt_status st = grow(&buf);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        tt_buf_free(&buf);
        if (!was_hit) {
            assert_true(nth > 5);
            break;
        }
    }
}

static void arena_memory_is_aligned_and_does_not_overlap(void **state)
{
    (void)state;
    tt_arena arena = { 0 };
    unsigned char *got[300];
    size_t size[300];
    for (size_t i = 0; i < 300; i++) {
        size[i] = i * 37 % 400 + (i % 50 == 0 ? 20000 : 0);
        got[i] = tt_arena_alloc(&arena, size[i]);
        assert_non_null(got[i]);
        assert_int_equal((uintptr_t)got[i] % 16, 0);
        memset(got[i], (int)(i & 0xFF), size[i]);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t k = 0; k < size[i]; k++)
            assert_int_equal(got[i][k], i & 0xFF);
    tt_arena_free(&arena);
    assert_string_equal(tt_arena_text(&arena, "abcdef", 3), "abc");
    tt_arena_free(&arena);
    tt_arena_free(&arena);
    tt_arena_free(NULL);
}

static void an_arena_that_gets_no_memory_keeps_what_it_has(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        tt_arena arena = { 0 };
        alloc_fail_at(nth);
        const char *first = tt_arena_text(&arena, "first", 5);
        const char *large = tt_arena_alloc(&arena, 50000);
        const char *last = tt_arena_text(&arena, "last", 4);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(was_hit, first == NULL || large == NULL || last == NULL);
        if (first != NULL)
            assert_string_equal(first, "first");
        tt_arena_free(&arena);
        if (!was_hit) {
            assert_true(nth > 2);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_needs_no_making_and_no_freeing),
        cmocka_unit_test(what_was_appended_is_there_and_ended_by_nul),
        cmocka_unit_test(bytes_may_hold_nul),
        cmocka_unit_test(printf_appends_any_length),
        cmocka_unit_test(cut_and_clear_keep_the_memory),
        cmocka_unit_test(a_size_that_cannot_be_is_out_of_memory),
        cmocka_unit_test(a_failed_allocation_leaves_the_buffer_as_it_was),
        cmocka_unit_test(arena_memory_is_aligned_and_does_not_overlap),
        cmocka_unit_test(an_arena_that_gets_no_memory_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
