/* glyph.c -- text as a terminal shows it: safe, measured, cut.
 *
 * Exists because names come from users' programs: one with an escape sequence
 * in it must not repaint the terminal, and one in Chinese must not push the
 * columns apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/glyph.h"

#include "base/utf8.h"
#include "report/glyph_width.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const inks[] = {
#define X(name, code) [TT_INK_##name] = code,
    TT_INK_MAP(X)
#undef X
};
_Static_assert(sizeof inks / sizeof *inks == TT_INK_COUNT_, "give every ink a code");

tt_status tt_glyph_ink(tt_buf *out, tt_ink ink, const tt_style *style)
{
    return style->is_colored ? tt_buf_text(out, inks[ink]) : TT_OK;
}

/* One character of a text, as it is written. */
typedef struct glyph {
    char bytes[16];
    size_t len;
    size_t columns;
} glyph;

static size_t ink_length(const char *text)
{
    for (size_t i = 0; *text == '\x1b' && i < TT_INK_COUNT_; i++)
        if (strncmp(text, inks[i], strlen(inks[i])) == 0)
            return strlen(inks[i]);
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
 * many bytes of the text it stands for. */
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
    out->columns = (size_t)tt_glyph_width(c);
    return n;
}

/* Bytes at the beginning that are written as they are, from ' ' to '~': most of
 * any text.  Eight at a time: the sums have a high bit where one is outside. */
static size_t plain_run(const char *text, size_t len)
{
    const uint64_t ones = UINT64_MAX / 0xFF;
    size_t run = 0;
    for (uint64_t word; run + sizeof word <= len; run += sizeof word) {
        memcpy(&word, text + run, sizeof word);
        if (((word | (word - 0x20 * ones) | (word + ones)) & 0x80 * ones) != 0)
            break;
    }
    while (run < len && text[run] >= 0x20 && text[run] < 0x7F)
        run++;
    return run;
}

tt_status tt_glyph_append(tt_buf *out, const char *text, tt_trust trust, const tt_style *style)
{
    size_t len = strlen(text), from = out->len;
    glyph g;
    for (size_t at = 0; at < len;) {
        size_t run = plain_run(text + at, len - at);
        tt_status st = run > 0 ? tt_buf_append(out, text + at, run) : TT_OK;
        at += run;
        if (st == TT_OK && at < len) {
            at += read_glyph(text + at, len - at, trust, style, &g);
            st = tt_buf_append(out, g.bytes, g.len);
        }
        if (st < 0) {
            tt_buf_cut(out, from);
            return st;
        }
    }
    return TT_OK;
}

size_t tt_glyph_columns(const char *text, tt_trust trust, const tt_style *style)
{
    size_t len = strlen(text), columns = 0;
    glyph g;
    for (size_t at = 0; at < len; columns += g.columns)
        at += read_glyph(text + at, len - at, trust, style, &g);
    return columns;
}

tt_status tt_glyph_cut(tt_buf *out, size_t from, const tt_style *style)
{
    if (style->columns <= 0 || out->len == from)
        return TT_OK;
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
        return TT_OK;
    tt_buf_cut(out, keep);
    tt_status st = tt_buf_text(out, mark_columns <= room ? mark : ".");
    if (st == TT_OK)
        st = tt_glyph_ink(out, TT_INK_PLAIN, style);
    return st;
}
