/* dot.c -- writes untrusted text into DOT, escaped.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/dot.h"

#include "base/utf8.h"
#include "report/glyph.h"

static const char *entity(char c, tt_dot_where where)
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
    case '\\': /* in labels too: "\N" would be the node's number */
        return where == TT_DOT_TOOLTIP ? "\\\\\\\\" : "\\\\";
    case ' ':
        return where == TT_DOT_LABEL ? "&#160;" : NULL;
    }
    return NULL;
}

void tt_dot_text(tt_buf *out, tt_dot_where where, const char *text, size_t len, size_t columns)
{
    tt_buf visible = { 0 };
    size_t total = 0, n;
    uint32_t code;
    if (tt_glyph_bytes(&visible, text, len, TT_TRUST_NONE, &(tt_style){ 0 }) < 0)
        out->st = visible.st;
    for (size_t i = 0; i < visible.len; total++)
        i += tt_utf8_read(visible.data + i, visible.len - i, &code);
    bool is_cut = columns > 0 && total > columns;
    for (size_t i = 0, shown = 0; i < visible.len && !(is_cut && shown == columns - 1); i += n, shown++) {
        const char *at = visible.data + i, *safe = entity(*at, where);
        n = tt_utf8_read(at, visible.len - i, &code);
        (void)(safe != NULL ? tt_buf_text(out, safe) : tt_buf_append(out, at, n));
    }
    if (is_cut)
        (void)tt_buf_text(out, "…");
    tt_buf_free(&visible);
}
