/* dot.c -- the DOT language: escapes, attributes, nodes and arrows.
 *
 * Exists so that every chart escapes the program's names in the same way, and has the same font.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/dot.h"

#include "base/utf8.h"
#include "report/glyph.h"

#include <string.h>
#include <strings.h>

static const char font[] = "Helvetica,Arial,DejaVu Sans,sans-serif";

/* ---- untrusted text ---------------------------------------------------------- */

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

void tt_dot_quote(tt_buf *out, tt_dot_where where, const char *text)
{
    (void)tt_buf_text(out, "\"");
    for (const char *at = text;;) {
        size_t len = strcspn(at, "\n");
        tt_dot_text(out, where, at, len, 0);
        at += len;
        if (*at++ == '\0')
            break;
        (void)tt_buf_text(out, "\\n");
    }
    (void)tt_buf_text(out, "\"");
}

static bool is_keyword(const char *text)
{
    static const char *const words[] = { "node", "edge", "graph", "digraph", "subgraph", "strict" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* A word or a number, which need no quotes. */
static bool is_plain(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char digits[] = "0123456789";
    size_t word = strspn(text, letters);
    if (word > 0) {
        for (const char *at = text + word; *at != '\0'; at++)
            if (strchr(letters, *at) == NULL && strchr(digits, *at) == NULL)
                return false;
        return !is_keyword(text);
    }
    text += *text == '-';
    size_t whole = strspn(text, digits);
    text += whole;
    if (*text == '.') {
        size_t parts = strspn(++text, digits);
        return whole + parts > 0 && text[parts] == '\0';
    }
    return whole > 0 && *text == '\0';
}

static void put_id(tt_buf *out, const char *text)
{
    if (is_plain(text))
        (void)tt_buf_text(out, text);
    else
        tt_dot_quote(out, TT_DOT_ATTRIBUTE, text);
}

/* ---- statements -------------------------------------------------------------- */

tt_dot tt_dot_default(tt_buf *out, const char *what)
{
    (void)tt_buf_printf(out, "  %s", what);
    return (tt_dot){ .out = out };
}

tt_dot tt_dot_statement(tt_buf *out, const char *name, const char *to)
{
    (void)tt_buf_text(out, "  ");
    put_id(out, name);
    if (to != NULL) {
        (void)tt_buf_text(out, " -> ");
        put_id(out, to);
    }
    return (tt_dot){ .out = out };
}

void tt_dot_key(tt_dot *dot, const char *key)
{
    (void)tt_buf_printf(dot->out, "%s%s=", dot->is_open ? ", " : " [", key);
    dot->is_open = true;
}

void tt_dot_attribute(tt_dot *dot, const char *key, const char *text)
{
    tt_dot_key(dot, key);
    put_id(dot->out, text);
}

void tt_dot_end(const tt_dot *dot)
{
    (void)tt_buf_text(dot->out, dot->is_open ? "]\n" : "\n");
}

void tt_dot_open(tt_buf *out)
{
    static const char *const all[] = { "graph", "node", "edge" };
    (void)tt_buf_text(out, "digraph {\n");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tt_dot dot = tt_dot_default(out, all[i]);
        tt_dot_attribute(&dot, "fontname", font);
        tt_dot_end(&dot);
    }
}

void tt_dot_close(tt_buf *out)
{
    (void)tt_buf_text(out, "}\n");
}
