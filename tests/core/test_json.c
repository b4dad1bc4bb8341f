/* test_json.c -- what the JSON writer writes, to the byte.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "alloc_fail.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tt_status write_sample(tt_buf *out)
{
    tt_json json = { .out = out };
    tt_json_open(&json, NULL, '{');
    tt_json_text(&json, "name", "fc.weight");
    tt_json_open(&json, "shape", '[');
    tt_json_i64(&json, NULL, 8);
    tt_json_i64(&json, NULL, -64);
    tt_json_close(&json);
    tt_json_open(&json, "stats", '{');
    tt_json_f64(&json, "mean", 0.1);
    tt_json_f32(&json, "max", 0.1f);
    tt_json_close(&json);
    tt_json_text(&json, "none", NULL);
    tt_json_open(&json, "empty", '[');
    tt_json_close(&json);
    tt_json_open(&json, "flags", '[');
    tt_json_bool(&json, NULL, true);
    tt_json_bool(&json, NULL, false);
    tt_json_text(&json, NULL, NULL);
    tt_json_close(&json);
    tt_json_close(&json);
    return tt_json_finish(&json);
}

static const char sample[] =
    "{\"name\": \"fc.weight\", \"shape\": [8, -64], \"stats\": {\"mean\": 0.1, \"max\": 0.1}, "
    "\"none\": null, \"empty\": [], \"flags\": [true, false, null]}";

static void objects_and_arrays_nest_with_commas_in_place(void **state)
{
    (void)state;
    tt_buf out = { 0 };
    assert_int_equal(write_sample(&out), TT_OK);
    assert_string_equal(out.data, sample);
    tt_buf_free(&out);
}

static void check_string(const char *text, const char *want)
{
    tt_buf out = { 0 };
    tt_json json = { .out = &out };
    tt_json_text(&json, NULL, text);
    assert_int_equal(tt_json_finish(&json), TT_OK);
    assert_string_equal(out.data, want);
    tt_buf_free(&out);
}

static void strings_are_escaped(void **state)
{
    (void)state;
    check_string("", "\"\"");
    check_string("a\"b\\c", "\"a\\\"b\\\\c\"");
    check_string("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
    check_string("\x1f ", "\"\\u001f \"");
    check_string("\x1b[31m\x7f", "\"\\u001b[31m\\u007f\"");
    check_string("é中😀", "\"é中😀\"");
    check_string("\xC2\x85\xC2\x9B", "\"\\u0085\\u009b\""); /* obeyed by terminals, as ESC [ is */
    check_string("a\u202eb\u2066", "\"a\\u202eb\\u2066\""); /* change the order of others */
    check_string("\U000E0041", "\"\\udb40\\udc41\"");
}

static void bytes_that_are_not_utf8_become_the_replacement_character(void **state)
{
    (void)state;
    check_string("a\xFFz", "\"a\xEF\xBF\xBDz\"");
    check_string("\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                 /* overlong NUL */
    check_string("\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""); /* surrogate */
    check_string("\xE4\xB8", "\"\xEF\xBF\xBD\"");                             /* cut off */
    check_string("\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_string("\xE4\xB8\"", "\"\xEF\xBF\xBD\\\"\"");
}

static void nan_and_the_infinities_are_strings(void **state)
{
    (void)state;
    tt_buf out = { 0 };
    tt_json json = { .out = &out };
    tt_json_open(&json, NULL, '[');
    tt_json_f64(&json, NULL, NAN);
    tt_json_f64(&json, NULL, INFINITY);
    tt_json_f64(&json, NULL, -INFINITY);
    tt_json_f32(&json, NULL, NAN);
    tt_json_f32(&json, NULL, -INFINITY);
    tt_json_close(&json);
    assert_int_equal(tt_json_finish(&json), TT_OK);
    assert_string_equal(out.data, "[\"NaN\", \"Infinity\", \"-Infinity\", \"NaN\", \"-Infinity\"]");
    tt_buf_free(&out);
}

static void integers_are_exact_to_the_ends_of_their_range(void **state)
{
    (void)state;
    tt_buf out = { 0 };
    tt_json json = { .out = &out };
    tt_json_open(&json, NULL, '[');
    tt_json_i64(&json, NULL, INT64_MIN);
    tt_json_i64(&json, NULL, INT64_MAX);
    tt_json_u64(&json, NULL, UINT64_MAX);
    tt_json_close(&json);
    assert_int_equal(tt_json_finish(&json), TT_OK);
    assert_string_equal(out.data, "[-9223372036854775808, 9223372036854775807, 18446744073709551615]");
    tt_buf_free(&out);
}

static tt_status nest(tt_buf *out, int depth)
{
    tt_json json = { .out = out };
    for (int i = 0; i < depth; i++)
        tt_json_open(&json, NULL, '[');
    for (int i = 0; i < depth; i++)
        tt_json_close(&json);
    return tt_json_finish(&json);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    tt_buf out = { 0 };
    assert_int_equal(nest(&out, TT_JSON_DEPTH), TT_OK);
    assert_int_equal(out.len, 2 * TT_JSON_DEPTH);
    assert_int_equal(nest(&out, TT_JSON_DEPTH + 1), TT_EINVAL);
    tt_buf_free(&out);
}

static void an_allocation_that_fails_is_reported_at_the_end(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        tt_buf out = { 0 };
        while (out.len == 0 || out.len + 10 < out.cap) /* so that it grows in the middle */
            assert_int_equal(tt_buf_text(&out, " "), TT_OK);
        size_t before = out.len;
        alloc_fail_at(nth);
        tt_status st = write_sample(&out);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        if (!was_hit)
            assert_string_equal(out.data + before, sample);
        tt_buf_free(&out);
        if (!was_hit) {
            assert_true(nth > 1);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_and_arrays_nest_with_commas_in_place),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(bytes_that_are_not_utf8_become_the_replacement_character),
        cmocka_unit_test(nan_and_the_infinities_are_strings),
        cmocka_unit_test(integers_are_exact_to_the_ends_of_their_range),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(an_allocation_that_fails_is_reported_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
