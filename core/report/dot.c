/* dot.c -- writes DOT: our own text as it is, untrusted text escaped.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/dot.h"

#include "base/utf8.h"
#include "report/glyph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tt_dot_put(tt_dot *dot, const char *text)
{
    (void)tt_buf_text(dot->out, text);
}

void tt_dot_printf(tt_dot *dot, const char *format, ...)
{
    char text[256]; /* numbers and colours; untrusted text never comes this way */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tt_dot_put(dot, text);
}

/* Puts one line of the text into `visible`, with control characters shown. */
static void make_visible(tt_dot *dot, const char *text, size_t len)
{
    tt_buf_clear(&dot->visible);
    if (tt_glyph_bytes(&dot->visible, text, len, TT_TRUST_NONE, &(tt_style){ 0 }) < 0)
        dot->out->st = dot->visible.st;
}

static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\\':
        return "\\\\"; /* in labels too: "\N" would be the node's number */
    case ' ':
        return "&#160;";
    }
    return NULL;
}

void tt_dot_html(tt_dot *dot, const char *text, size_t len, size_t columns)
{
    make_visible(dot, text, len);
    size_t shown = 0, total = 0, end = dot->visible.len;
    uint32_t code;
    const char *from = dot->visible.data;
    for (size_t i = 0; i < end; total++)
        i += tt_utf8_read(from + i, end - i, &code);
    for (size_t i = 0; i < end; shown++) {
        if (columns > 0 && total > columns && shown == columns - 1) {
            tt_dot_put(dot, "…");
            return;
        }
        size_t n = tt_utf8_read(from + i, end - i, &code);
        const char *safe = entity(from[i]);
        (void)(safe != NULL ? tt_buf_text(dot->out, safe) : tt_buf_append(dot->out, from + i, n));
        i += n;
    }
}

static void put_quoted(tt_dot *dot, const char *text, size_t len, bool is_tip)
{
    make_visible(dot, text, len);
    for (size_t i = 0; i < dot->visible.len; i++) {
        char c = dot->visible.data[i];
        const char *safe = c == ' ' ? NULL : c == '\\' && is_tip ? "\\\\\\\\" : entity(c);
        (void)(safe != NULL ? tt_buf_text(dot->out, safe) : tt_buf_append(dot->out, &c, 1));
    }
}

void tt_dot_quoted(tt_dot *dot, const char *text, size_t len)
{
    put_quoted(dot, text, len, false);
}

void tt_dot_tip(tt_dot *dot, const char *text, size_t len)
{
    put_quoted(dot, text, len, true);
}
