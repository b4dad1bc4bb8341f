/* graph_label.c -- one node of a chart as an HTML-like table.
 *
 *     ┌───────────────────────────────────┐
 *     │ y  float32  8 × 8         line 12 │
 *     │ y = x @ w                         │
 *     │ min -9.1  max 8.7  mean .. std .. │
 *     │     0   1   2 ...                 │
 *     │  0  ..  ..  ..                    │
 *     └───────────────────────────────────┘
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_pen.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    NAME_COLUMNS = 40,
    CODE_COLUMNS = 52, /* of a line of code ... */
    CODE_LINES = 3,    /* ... and lines, before the rest is left to the tooltip */
    BAND = 16,         /* columns of a vector side by side */
    SLICES_WIDE = 3,   /* slices side by side */
    WIDE_SLICE = 5,    /* columns from which on only two are */
};

static void put_short(tt_graph_pen *pen, double x)
{
    char text[TT_NUMBER_TEXT];
    (void)tt_number_short(x + 0.0, text); /* -0 is no news here */
    tt_graph_put(pen, text);
}

static void put_bound(tt_graph_pen *pen, const tt_stats *s, int64_t exact, double x)
{
    switch (tt_dtype_kind((tt_dtype)s->dtype)) {
    case TT_KIND_INT:
    case TT_KIND_UINT:
        if (s->dtype == TT_U64)
            tt_graph_printf(pen, "%" PRIu64, (uint64_t)exact);
        else
            tt_graph_printf(pen, "%" PRId64, exact);
        return;
    case TT_KIND_BOOL:
        tt_graph_put(pen, exact != 0 ? "True" : "False");
        return;
    case TT_KIND_FLOAT:
    case TT_KIND_COMPLEX:
        put_short(pen, x);
        return;
    }
}

/* ---- the header ---------------------------------------------------------- */

static void put_head(tt_graph_pen *pen, const tt_graph_node *node)
{
    const char *tint = node->is_source ? "#eceff1" : "#dfe8f5";
    tt_graph_printf(pen,
                    "<tr><td bgcolor=\"%s\" align=\"left\"><table border=\"0\" cellborder=\"0\" "
                    "cellspacing=\"0\" cellpadding=\"3\"><tr><td align=\"left\"><font point-size=\"14\" "
                    "color=\"#102a43\"><b>",
                    tint);
    const char *name = node->name != NULL && node->name[0] != '\0' ? node->name : "?";
    tt_graph_foreign(pen, name, strlen(name), NAME_COLUMNS);
    tt_graph_put(pen, "</b></font>&#160;&#160;<font color=\"#334e68\">");
    tt_graph_foreign(pen, node->dtype, strlen(node->dtype), NAME_COLUMNS);
    tt_graph_put(pen, "&#160;&#160;");
    tt_graph_sizes(pen, node->shape, node->ndim);
    if (node->device != NULL) {
        tt_graph_put(pen, "&#160;&#160;");
        tt_graph_foreign(pen, node->device, strlen(node->device), NAME_COLUMNS);
    }
    tt_graph_printf(
        pen,
        "</font></td><td align=\"right\"><font color=\"#52606d\">&#160;&#160;line&#160;%" PRId32
        "</font></td></tr></table></td></tr>",
        node->line);
}

/* Where to break a line of code that is too long: after a space or a comma if
 * there is one in its second half. */
static size_t break_at(const char *code, size_t len)
{
    if (len <= CODE_COLUMNS)
        return len;
    for (size_t i = CODE_COLUMNS; i > CODE_COLUMNS / 2; i--)
        if (code[i - 1] == ' ' || code[i - 1] == ',')
            return i;
    size_t at = CODE_COLUMNS;
    while (at > 1 && ((unsigned char)code[at] & 0xC0) == 0x80)
        at--; /* not inside of a character */
    return at;
}

static void put_code(tt_graph_pen *pen, const char *code)
{
    if (code == NULL || code[0] == '\0')
        return;
    tt_graph_put(pen, "<tr><td align=\"left\" balign=\"left\"><font face=\"monospace\" "
                      "point-size=\"10\" color=\"#243b53\">");
    size_t shown = 0;
    for (const char *at = code; *at != '\0'; shown++) {
        if (shown == CODE_LINES) {
            tt_graph_put(pen, "<br/>…");
            break;
        }
        if (shown > 0)
            tt_graph_put(pen, "<br/>");
        size_t len = strcspn(at, "\n"), part = break_at(at, len);
        tt_graph_foreign(pen, at, part, 0);
        if (part == 0)
            tt_graph_put(pen, "&#160;");
        at += part;
        if (*at == '\n')
            at++;
    }
    tt_graph_put(pen, "</font></td></tr>");
}

/* ---- statistics ---------------------------------------------------------- */

static void put_alarm(tt_graph_pen *pen, int64_t count, const char *what, const char *color)
{
    if (count > 0)
        tt_graph_printf(pen,
                        "&#160;&#160;&#160;&#160;<font color=\"%s\"><b>%" PRId64 "&#160;%s</b></font>",
                        color, count, what);
}

static void put_mean(tt_graph_pen *pen, const tt_stats *s)
{
    tt_graph_put(pen, "&#160;&#160;mean&#160;");
    put_short(pen, s->mean);
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX) {
        double imag = tt_stats_mean_imag(s);
        tt_graph_put(pen, imag < 0 ? "" : "+");
        put_short(pen, imag);
        tt_graph_put(pen, "j");
    }
    if (!isnan(tt_stats_std(s))) {
        tt_graph_put(pen, "&#160;&#160;std&#160;");
        put_short(pen, tt_stats_std(s));
    }
}

static void put_stats(tt_graph_pen *pen, const tt_graph_node *node)
{
    const tt_stats *s = node->stats;
    tt_graph_put(pen, "<tr><td align=\"left\"><font point-size=\"10\" color=\"#334e68\">");
    if (s == NULL) {
        tt_graph_put(pen, "<i>values not read");
        if (node->note != NULL && node->note[0] != '\0') {
            tt_graph_put(pen, ":&#160;");
            tt_graph_foreign(pen, node->note, strlen(node->note), NAME_COLUMNS);
        }
        tt_graph_put(pen, "</i>");
    } else if (s->count == 0) {
        tt_graph_put(pen, "<i>empty</i>");
    } else if (tt_stats_finite(s) > 0) {
        bool is_complex = tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX;
        tt_graph_put(pen, is_complex ? "min&#160;|z|&#160;" : "min&#160;");
        put_bound(pen, s, s->imin, s->min);
        tt_graph_put(pen, is_complex ? "&#160;&#160;max&#160;|z|&#160;" : "&#160;&#160;max&#160;");
        put_bound(pen, s, s->imax, s->max);
        put_mean(pen, s);
    } else {
        tt_graph_put(pen, "no finite value");
    }
    if (s != NULL) {
        put_alarm(pen, s->nan, "NaN", "#c62828");
        put_alarm(pen, s->posinf + s->neginf, "Inf", "#6a1b9a");
    }
    /* Room to the right: a browser's letters are a bit wider than Graphviz thinks. */
    tt_graph_put(pen, "&#160;&#160;</font></td></tr>");
}

/* ---- the tables ---------------------------------------------------------- */

static void put_index(tt_graph_pen *pen, int64_t index)
{
    tt_graph_printf(pen, "<td align=\"right\"><font color=\"#829ab1\">%" PRId64 "</font></td>", index);
}

/* Columns [first, last) of one slice. */
static void put_band(tt_graph_pen *pen, const tt_graph_format *format, const tt_sample_slice *slice,
                     bool has_rows, int64_t first, int64_t last)
{
    tt_graph_put(pen, "<tr>");
    if (has_rows)
        tt_graph_put(pen, "<td></td>");
    for (int64_t c = first; c < last; c++)
        put_index(pen, slice->col[c]);
    tt_graph_put(pen, "</tr>");
    for (int64_t r = 0; r < slice->rows; r++) {
        tt_graph_put(pen, "<tr>");
        if (has_rows)
            put_index(pen, slice->row[r]);
        const char *line =
            (const char *)slice->values + (size_t)(r * slice->cols) * tt_dtype_size(format->dtype);
        for (int64_t c = first; c < last; c++)
            tt_graph_cell(pen, format, line + (size_t)c * tt_dtype_size(format->dtype));
        tt_graph_put(pen, "</tr>");
    }
}

static void put_slice(tt_graph_pen *pen, const tt_graph_format *format, const tt_sample_slice *slice,
                      int32_t ndim)
{
    tt_graph_put(pen, "<td align=\"left\" valign=\"top\"><table border=\"0\" cellborder=\"0\" "
                      "cellspacing=\"1\" cellpadding=\"2\">");
    if (slice->label[0] != '\0') {
        int64_t columns = slice->cols + 1;
        tt_graph_printf(pen, "<tr><td colspan=\"%" PRId64 "\" align=\"left\"><b>", columns);
        tt_graph_put(pen, slice->label);
        tt_graph_put(pen, "</b></td></tr>");
    }
    int64_t band = slice->rows == 1 && ndim == 1 ? BAND : slice->cols;
    for (int64_t first = 0; first < slice->cols; first += band)
        put_band(pen, format, slice, ndim > 1, first,
                 first + band < slice->cols ? first + band : slice->cols);
    tt_graph_put(pen, "</table></td>");
}

static void put_scalar(tt_graph_pen *pen, const tt_graph_format *format, const tt_sample_slice *slice)
{
    tt_graph_put(pen, "<td align=\"left\"><table border=\"0\" cellborder=\"0\" cellspacing=\"1\" "
                      "cellpadding=\"4\"><tr>");
    tt_graph_cell(pen, format, slice->values);
    tt_graph_put(pen, "</tr></table></td>");
}

static void put_tables(tt_graph_pen *pen, const tt_graph_node *node)
{
    size_t count = node->sample != NULL && node->stats != NULL ? tt_sample_count(node->sample) : 0;
    const tt_sample_slice *first = count > 0 ? tt_sample_at(node->sample, 0) : NULL;
    if (first == NULL || first->rows == 0 || first->cols == 0)
        return;
    tt_graph_format format = tt_graph_format_choose(node);
    size_t wide = first->cols < WIDE_SLICE ? SLICES_WIDE : SLICES_WIDE - 1;
    tt_graph_put(pen, "<tr><td align=\"left\"><font point-size=\"10\"><table border=\"0\" "
                      "cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\">");
    for (size_t i = 0; i < count; i++) {
        if (i % wide == 0)
            tt_graph_put(pen, i == 0 ? "<tr>" : "</tr><tr>");
        if (node->ndim == 0)
            put_scalar(pen, &format, first);
        else
            put_slice(pen, &format, tt_sample_at(node->sample, i), node->ndim);
    }
    tt_graph_put(pen, "</tr></table></font></td></tr>");
    if (tt_sample_is_partial(node->sample))
        tt_graph_put(pen, "<tr><td align=\"left\"><font point-size=\"9\" color=\"#8d5524\"><i>"
                          "sampled: not every element is shown</i></font></td></tr>");
}

void tt_graph_label(tt_graph_pen *pen, const tt_graph_node *node)
{
    tt_graph_printf(
        pen,
        "<table border=\"1\" color=\"%s\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\" "
        "bgcolor=\"white\"%s>",
        node->is_source ? "#90a4ae" : "#486581", node->is_source ? " style=\"dashed\"" : "");
    put_head(pen, node);
    put_code(pen, node->code);
    put_stats(pen, node);
    put_tables(pen, node);
    tt_graph_put(pen, "</table>");
}
