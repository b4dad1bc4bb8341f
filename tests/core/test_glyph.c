/* test_glyph.c -- foreign text is made safe, measured and cut by columns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/glyph.h"

#include "base/utf8.h"

#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tt_style plain = { 0 }, ascii = { .is_ascii = true }, colored = { .is_colored = true };

static void check(const char *text, tt_trust trust, const tt_style *style, const char *want,
                  size_t columns)
{
    tt_buf out = { 0 };
    assert_int_equal(tt_glyph_append(&out, text, trust, style), TT_OK);
    assert_string_equal(out.len > 0 ? out.data : "", want);
    assert_int_equal(tt_glyph_columns(text, trust, style), columns);
    tt_buf_free(&out);
}

static void ordinary_text_passes_unchanged(void **state)
{
    (void)state;
    check("", TT_TRUST_NONE, &plain, "", 0);
    check("layers.0/attn \\ \"x\"", TT_TRUST_NONE, &plain, "layers.0/attn \\ \"x\"", 19);
    check("é 中文 😀", TT_TRUST_NONE, &plain, "é 中文 😀", 9);
    check("e\u0301", TT_TRUST_NONE, &plain, "e\u0301", 1); /* a combining accent */
}

static void what_a_terminal_would_obey_is_escaped(void **state)
{
    (void)state;
    check("a\nb\tc\r", TT_TRUST_NONE, &plain, "a\\nb\\tc\\r", 9);
    check("\x1b[2J", TT_TRUST_NONE, &plain, "\\x1b[2J", 7);
    check("\x1b[31m", TT_TRUST_NONE, &colored, "\\x1b[31m", 8);
    check("\x7f\xC2\x9b", TT_TRUST_NONE, &plain, "\\x7f\\x9b", 8); /* C1: also an escape */
    check("a\u202eb", TT_TRUST_NONE, &plain, "a\\u202eb", 8);
    check("\xF3\xA0\x81\x81", TT_TRUST_NONE, &plain, "\\U000e0041", 10); /* an invisible tag */
    check("a\xFF\xC3", TT_TRUST_NONE, &plain, "a\\xff\\xc3", 9);
    check("\xE4\xB8z", TT_TRUST_NONE, &plain, "\\xe4\\xb8z", 9);
}

static void ascii_style_escapes_all_the_rest(void **state)
{
    (void)state;
    check("é中😀", TT_TRUST_NONE, &ascii, "\\xe9\\u4e2d\\U0001f600", 20);
}

static void only_our_own_inks_are_obeyed(void **state)
{
    (void)state;
    check("\x1b[1;31mNaN\x1b[0m", TT_TRUST_INK, &colored, "\x1b[1;31mNaN\x1b[0m", 3);
    check("\x1b[1;31mNaN\x1b[0m", TT_TRUST_INK, &plain, "NaN", 3);
    check("\x1b[8mhidden\x1b[0K", TT_TRUST_INK, &colored, "\\x1b[8mhidden\\x1b[0K", 20);
}

static void check_cut(const char *line, tt_style style, int32_t columns, const char *want)
{
    style.columns = columns;
    tt_buf out = { 0 };
    assert_int_equal(tt_buf_text(&out, "before\n"), TT_OK);
    assert_int_equal(tt_buf_text(&out, line), TT_OK);
    assert_int_equal(tt_glyph_cut(&out, 7, &style), TT_OK);
    assert_string_equal(out.data + 7, want);
    assert_int_equal(out.len, 7 + strlen(want));
    tt_buf_free(&out);
}

static void a_line_is_cut_only_when_it_is_too_long(void **state)
{
    (void)state;
    check_cut("abcdef", plain, 0, "abcdef");
    check_cut("abcdef", plain, 6, "abcdef");
    check_cut("abcdef", plain, 5, "abcd…");
    check_cut("abcdef", ascii, 5, "abc..");
    check_cut("abcdef", plain, 1, "…");
    check_cut("abcdef", ascii, 1, ".");
}

static void a_wide_character_is_never_cut_in_half(void **state)
{
    (void)state;
    check_cut("中文字", plain, 6, "中文字");
    check_cut("中文字", plain, 5, "中文…");
    check_cut("中文字", plain, 4, "中…");
}

static void escape_sequences_take_no_columns_and_are_closed_after_a_cut(void **state)
{
    (void)state;
    check_cut("\x1b[36mabc\x1b[0m", colored, 3, "\x1b[36mabc\x1b[0m");
    check_cut("\x1b[36mabcd\x1b[0m", colored, 3, "\x1b[36mab…\x1b[0m");
}

static void widths_are_those_of_unicode(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        int width;
    } cases[] = { { 'a', 1 },     { 0xE9, 1 },    { 0x2581, 1 }, { 0x301, 0 },
                  { 0x1100, 2 },  { 0x115F, 2 },  { 0x1160, 0 }, { 0x3042, 2 },
                  { 0x4E00, 2 },  { 0xAC00, 2 },  { 0xFF21, 2 }, { 0xFF71, 1 },
                  { 0x1F600, 2 }, { 0x20000, 2 }, { 0x200D, 0 }, { 0x10FFFF, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tt_glyph_width(cases[i].code), cases[i].width);
}

/* Returns the length. */
static size_t write_utf8(uint32_t code, char out[TT_UTF8_BYTES])
{
    size_t need = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (need == 1) {
        out[0] = (char)code;
        return 1;
    }
    for (size_t i = need - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80u | (code & 0x3Fu));
    out[0] = (char)((0xF00u >> need & 0xF0u) | code);
    return need;
}

static void every_character_written_reads_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char bytes[TT_UTF8_BYTES];
        size_t n = write_utf8(code, bytes);
        uint32_t back;
        bool is_surrogate = code >= 0xD800 && code < 0xE000;
        assert_int_equal(tt_utf8_read(bytes, n, &back), is_surrogate ? 1 : n);
        assert_int_equal(back, is_surrogate ? TT_UTF8_INVALID : code);
        if (n > 1 && !is_surrogate) {
            assert_int_equal(tt_utf8_read(bytes, n - 1, &back), n - 1); /* cut off */
            assert_int_equal(back, TT_UTF8_INVALID);
        }
    }
}

static void a_failed_append_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    char text[3000]; /* its escapes make the buffer grow more than once */
    memset(text, '\x01', sizeof text);
    text[sizeof text - 1] = '\0';
    for (long nth = 1;; nth++) {
        tt_buf out = { 0 };
        assert_int_equal(tt_buf_text(&out, "kept"), TT_OK);
        alloc_fail_at(nth);
        tt_status st = tt_glyph_append(&out, text, TT_TRUST_NONE, &plain);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        if (was_hit)
            assert_string_equal(out.data, "kept");
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
        cmocka_unit_test(ordinary_text_passes_unchanged),
        cmocka_unit_test(what_a_terminal_would_obey_is_escaped),
        cmocka_unit_test(ascii_style_escapes_all_the_rest),
        cmocka_unit_test(only_our_own_inks_are_obeyed),
        cmocka_unit_test(a_line_is_cut_only_when_it_is_too_long),
        cmocka_unit_test(a_wide_character_is_never_cut_in_half),
        cmocka_unit_test(escape_sequences_take_no_columns_and_are_closed_after_a_cut),
        cmocka_unit_test(widths_are_those_of_unicode),
        cmocka_unit_test(every_character_written_reads_back),
        cmocka_unit_test(a_failed_append_leaves_the_buffer_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
