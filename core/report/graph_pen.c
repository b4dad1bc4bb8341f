/* graph_pen.c -- text of a chart: ours as it is, everybody else's made harmless.
 *
 * Exists because names and code may hold anything, and DOT's two kinds of label
 * each have their own way to be broken.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_pen.h"

#include "base/utf8.h"
#include "report/glyph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tt_graph_put(tt_graph_pen *pen, const char *text)
{
    if (pen->st == TT_OK)
        pen->st = tt_buf_text(pen->out, text);
}

void tt_graph_printf(tt_graph_pen *pen, const char *format, ...)
{
    char text[256]; /* numbers and colours; foreign text never comes this way */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tt_graph_put(pen, text);
}

/* Makes one line of the text in `visible`, with control characters shown. */
static bool make_visible(tt_graph_pen *pen, const char *text, size_t len)
{
    static const tt_style plain = { 0 };
    tt_buf_clear(&pen->raw);
    tt_buf_clear(&pen->visible);
    if (pen->st == TT_OK && len > 0)
        pen->st = tt_buf_append(&pen->raw, text, len);
    if (pen->st == TT_OK && len > 0)
        pen->st = tt_glyph_append(&pen->visible, pen->raw.data, TT_TRUST_NONE, &plain);
    return pen->st == TT_OK;
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

void tt_graph_foreign(tt_graph_pen *pen, const char *text, size_t len, size_t columns)
{
    if (!make_visible(pen, text, len))
        return;
    size_t shown = 0, total = 0;
    uint32_t code;
    const char *from = pen->visible.data;
    size_t end = pen->visible.len;
    for (size_t i = 0; i < end; total++)
        i += tt_utf8_read(from + i, end - i, &code);
    for (size_t i = 0; i < end && pen->st == TT_OK; shown++) {
        if (columns > 0 && total > columns && shown == columns - 1) {
            tt_graph_put(pen, "…");
            return;
        }
        size_t n = tt_utf8_read(from + i, end - i, &code);
        const char *safe = entity(from[i]);
        pen->st = safe != NULL ? tt_buf_text(pen->out, safe) : tt_buf_append(pen->out, from + i, n);
        i += n;
    }
}

static void put_quoted(tt_graph_pen *pen, const char *text, size_t len, bool is_tip)
{
    if (!make_visible(pen, text, len))
        return;
    for (size_t i = 0; i < pen->visible.len && pen->st == TT_OK; i++) {
        char c = pen->visible.data[i];
        const char *safe = c == ' ' ? NULL : c == '\\' && is_tip ? "\\\\\\\\" : entity(c);
        pen->st = safe != NULL ? tt_buf_text(pen->out, safe) : tt_buf_append(pen->out, &c, 1);
    }
}

void tt_graph_quoted(tt_graph_pen *pen, const char *text, size_t len)
{
    put_quoted(pen, text, len, false);
}

void tt_graph_tip(tt_graph_pen *pen, const char *text, size_t len)
{
    put_quoted(pen, text, len, true);
}

void tt_graph_sizes(tt_graph_pen *pen, const int64_t *shape, int32_t ndim)
{
    if (ndim <= 0)
        tt_graph_put(pen, ndim == 0 ? "scalar" : "shape&#160;not&#160;known");
    for (int32_t d = 0; d < ndim; d++)
        tt_graph_printf(pen, "%s%" PRId64, d > 0 ? " × " : "", shape[d]);
}
