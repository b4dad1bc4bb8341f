/* glyph.c -- text as a terminal shows it: safe, measured, cut.
 *
 * Exists because names come from users' programs: one with an escape sequence
 * in it must not repaint the terminal, and one in Chinese must not push the
 * columns apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/glyph.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const codes[] = {
    [TT_MOOD_PLAIN] = "\x1b[0m",    [TT_MOOD_FAINT] = "\x1b[2m",  [TT_MOOD_TYPE] = "\x1b[36m",
    [TT_MOOD_SPARK] = "\x1b[32m",   [TT_MOOD_PLACE] = "\x1b[35m", [TT_MOOD_REMARK] = "\x1b[33m",
    [TT_MOOD_ALARM] = "\x1b[1;31m",
};
_Static_assert(sizeof codes / sizeof *codes == TT_MOOD_COUNT_, "give every mood a colour");

const char *tt_mood_code(tt_mood mood)
{
    return codes[mood];
}

tt_status tt_glyph_ink(tt_buf *out, tt_mood mood, const tt_style *style)
{
    return style->is_colored ? tt_buf_text(out, codes[mood]) : out->st;
}

/* ---- widths ------------------------------------------------------------------
 * wcwidth follows the locale of the host program, which may be "C" while its terminal shows
 * UTF-8.  The wide ranges are those of Unicode 14 (East_Asian_Width W and F, joined over
 * unassigned numbers); of the combining marks only those of scripts likely in names: a miss
 * costs one column. */

typedef struct range {
    uint32_t first, last;
} range;

/* No column of their own. */
static const range zero_ranges[] = {
    { 0x300, 0x36F },     { 0x483, 0x489 },   { 0x591, 0x5BD },   { 0x610, 0x61A },   { 0x64B, 0x65F },
    { 0x670, 0x670 },     { 0x6D6, 0x6DC },   { 0x93C, 0x93C },   { 0x941, 0x948 },   { 0x94D, 0x94D },
    { 0xE31, 0xE31 },     { 0xE34, 0xE3A },   { 0xE47, 0xE4E },   { 0x1160, 0x11FF }, { 0x1AB0, 0x1AFF },
    { 0x1DC0, 0x1DFF },   { 0x200B, 0x200F }, { 0x202A, 0x202E }, { 0x2060, 0x206F }, { 0x20D0, 0x20F0 },
    { 0x302A, 0x302D },   { 0x3099, 0x309A }, { 0xFE00, 0xFE0F }, { 0xFE20, 0xFE2F }, { 0xFEFF, 0xFEFF },
    { 0xE0001, 0xE01EF },
};

static const range wide_ranges[] = {
    { 0x1100, 0x115F },   { 0x231A, 0x231B },   { 0x2329, 0x232A },   { 0x23E9, 0x23EC },
    { 0x23F0, 0x23F0 },   { 0x23F3, 0x23F3 },   { 0x25FD, 0x25FE },   { 0x2614, 0x2615 },
    { 0x2648, 0x2653 },   { 0x267F, 0x267F },   { 0x2693, 0x2693 },   { 0x26A1, 0x26A1 },
    { 0x26AA, 0x26AB },   { 0x26BD, 0x26BE },   { 0x26C4, 0x26C5 },   { 0x26CE, 0x26CE },
    { 0x26D4, 0x26D4 },   { 0x26EA, 0x26EA },   { 0x26F2, 0x26F3 },   { 0x26F5, 0x26F5 },
    { 0x26FA, 0x26FA },   { 0x26FD, 0x26FD },   { 0x2705, 0x2705 },   { 0x270A, 0x270B },
    { 0x2728, 0x2728 },   { 0x274C, 0x274C },   { 0x274E, 0x274E },   { 0x2753, 0x2755 },
    { 0x2757, 0x2757 },   { 0x2795, 0x2797 },   { 0x27B0, 0x27B0 },   { 0x27BF, 0x27BF },
    { 0x2B1B, 0x2B1C },   { 0x2B50, 0x2B50 },   { 0x2B55, 0x2B55 },   { 0x2E80, 0x3029 },
    { 0x302E, 0x303E },   { 0x3041, 0x3096 },   { 0x309B, 0x3247 },   { 0x3250, 0x4DBF },
    { 0x4E00, 0xA4C6 },   { 0xA960, 0xA97C },   { 0xAC00, 0xD7A3 },   { 0xF900, 0xFAD9 },
    { 0xFE10, 0xFE19 },   { 0xFE30, 0xFE6B },   { 0xFF01, 0xFF60 },   { 0xFFE0, 0xFFE6 },
    { 0x16FE0, 0x16FE3 }, { 0x16FF0, 0x1B2FB }, { 0x1F004, 0x1F004 }, { 0x1F0CF, 0x1F0CF },
    { 0x1F18E, 0x1F18E }, { 0x1F191, 0x1F19A }, { 0x1F200, 0x1F320 }, { 0x1F32D, 0x1F335 },
    { 0x1F337, 0x1F37C }, { 0x1F37E, 0x1F393 }, { 0x1F3A0, 0x1F3CA }, { 0x1F3CF, 0x1F3D3 },
    { 0x1F3E0, 0x1F3F0 }, { 0x1F3F4, 0x1F3F4 }, { 0x1F3F8, 0x1F43E }, { 0x1F440, 0x1F440 },
    { 0x1F442, 0x1F4FC }, { 0x1F4FF, 0x1F53D }, { 0x1F54B, 0x1F54E }, { 0x1F550, 0x1F567 },
    { 0x1F57A, 0x1F57A }, { 0x1F595, 0x1F596 }, { 0x1F5A4, 0x1F5A4 }, { 0x1F5FB, 0x1F64F },
    { 0x1F680, 0x1F6C5 }, { 0x1F6CC, 0x1F6CC }, { 0x1F6D0, 0x1F6D2 }, { 0x1F6D5, 0x1F6DF },
    { 0x1F6EB, 0x1F6EC }, { 0x1F6F4, 0x1F6FC }, { 0x1F7E0, 0x1F7F0 }, { 0x1F90C, 0x1F93A },
    { 0x1F93C, 0x1F945 }, { 0x1F947, 0x1F9FF }, { 0x1FA70, 0x1FAF6 }, { 0x20000, 0x3134A },
};

static bool is_in(const range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count; /* the first range that ends at code or later */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code;
}

size_t tt_glyph_width(uint32_t code)
{
    if (code < 0x300)
        return 1;
    if (is_in(zero_ranges, sizeof zero_ranges / sizeof *zero_ranges, code))
        return 0;
    return is_in(wide_ranges, sizeof wide_ranges / sizeof *wide_ranges, code) ? 2 : 1;
}

/* ---- characters --------------------------------------------------------------- */

/* One character of a text, as it is written. */
typedef struct glyph {
    char bytes[16];
    size_t len;
    size_t columns;
} glyph;

static size_t ink_length(const char *text)
{
    for (size_t i = 0; *text == '\x1b' && i < TT_MOOD_COUNT_; i++)
        if (strncmp(text, codes[i], strlen(codes[i])) == 0)
            return strlen(codes[i]);
    return 0;
}

static void escape(glyph *out, uint32_t c)
{
    int n = c == '\n'     ? snprintf(out->bytes, sizeof out->bytes, "\\n")
            : c == '\t'   ? snprintf(out->bytes, sizeof out->bytes, "\\t")
            : c == '\r'   ? snprintf(out->bytes, sizeof out->bytes, "\\r")
            : c < 0x100   ? snprintf(out->bytes, sizeof out->bytes, "\\x%02" PRIx32, c)
            : c < 0x10000 ? snprintf(out->bytes, sizeof out->bytes, "\\u%04" PRIx32, c)
                          : snprintf(out->bytes, sizeof out->bytes, "\\U%08" PRIx32, c);
    out->len = out->columns = (size_t)n;
}

/* The glyph at the beginning of a NUL-ended text of len > 0 bytes; returns how
 * many bytes of the text it is made of. */
static size_t read_glyph(const char *text, size_t len, tt_trust trust, const tt_style *style, glyph *out)
{
    size_t ink = trust == TT_TRUST_INK ? ink_length(text) : 0;
    if (ink > 0) { /* ours; where there is no colour it vanishes */
        out->len = style->is_colored ? ink : 0;
        memcpy(out->bytes, text, out->len);
        out->columns = 0;
        return ink;
    }
    uint32_t c;
    size_t n = tt_utf8_read(text, len, &c);
    if (c == TT_UTF8_INVALID) {
        escape(out, (unsigned char)*text); /* one byte at a time: nothing is lost */
        return 1;
    }
    if (tt_utf8_is_treacherous(c) || (style->is_ascii && c >= 0x80)) {
        escape(out, c);
        return n;
    }
    memcpy(out->bytes, text, n);
    out->len = n;
    out->columns = tt_glyph_width(c);
    return n;
}

/* Bytes at the beginning that are written as they are, from ' ' to '~': most of any text. */
static size_t plain_run(const char *text, size_t len)
{
    size_t run = 0;
    while (run < len && text[run] >= 0x20 && text[run] < 0x7F)
        run++;
    return run;
}

tt_status tt_glyph_bytes(tt_buf *out, const char *text, size_t len, tt_trust trust, const tt_style *style)
{
    size_t from = out->len;
    glyph g;
    for (size_t at = 0; at < len;) {
        size_t run = plain_run(text + at, len - at);
        (void)tt_buf_append(out, text + at, run);
        at += run;
        if (at < len) {
            at += read_glyph(text + at, len - at, trust, style, &g);
            (void)tt_buf_append(out, g.bytes, g.len);
        }
    }
    if (out->st < 0)
        tt_buf_cut(out, from);
    return out->st;
}

tt_status tt_glyph_append(tt_buf *out, const char *text, tt_trust trust, const tt_style *style)
{
    return tt_glyph_bytes(out, text, strlen(text), trust, style);
}

size_t tt_glyph_columns(const char *text, tt_trust trust, const tt_style *style)
{
    size_t len = strlen(text), columns = 0;
    glyph g;
    for (size_t at = 0; at < len; columns += g.columns)
        at += read_glyph(text + at, len - at, trust, style, &g);
    return columns;
}

tt_status tt_glyph_spaces(tt_buf *out, size_t n)
{
    return tt_buf_printf(out, "%*s", (int)n, "");
}

tt_status tt_text_append(const char *text, const tt_style *style, tt_buf *out)
{
    size_t from = out->len;
    (void)tt_glyph_append(out, text, TT_TRUST_NONE, style);
    return tt_glyph_cut(out, from, style);
}

tt_status tt_glyph_cut(tt_buf *out, size_t from, const tt_style *style)
{
    if (style->columns <= 0 || out->len == from)
        return out->st;
    const char *mark = style->is_ascii ? ".." : "\u2026";
    size_t room = (size_t)style->columns, columns = 0, keep = from;
    size_t mark_columns = style->is_ascii ? 2 : 1;
    glyph g;
    for (size_t at = from; at < out->len && columns <= room;) {
        at += read_glyph(out->data + at, out->len - at, TT_TRUST_INK, style, &g);
        columns += g.columns;
        if (columns + mark_columns <= room)
            keep = at;
    }
    if (columns <= room)
        return out->st;
    tt_buf_cut(out, keep);
    (void)tt_buf_text(out, mark_columns <= room ? mark : ".");
    return tt_glyph_ink(out, TT_MOOD_PLAIN, style);
}
