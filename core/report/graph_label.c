/* graph_label.c -- one node of a chart as an HTML-like table.
 *
 *     ┌───────────────────────────────────┐
 *     │ y  float32  8 × 8         line 12 │
 *     │ y = x @ w                         │
 *     │ min -9.1  max 8.7  mean .. std .. │
 *     │     0   1   2 ...                 │
 *     │  0  ..  ..  ..                    │
 *     └───────────────────────────────────┘
 *
 * A table is read down its columns: all floats of a node have the same number
 * of digits behind the point, chosen from the largest of them.  The tint of a
 * number shows its sign and size and stays pale enough for black print.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------- */

enum {
    DIGITS = 4,        /* of the largest number */
    MOST_DECIMALS = 6, /* more: short texts instead */
    LEVELS = 8,        /* of tint */
};

static const double powers[] = { 1, 10, 100, 1e3, 1e4, 1e5, 1e6 };

double tt_graph_real(tt_dtype dtype, const void *element)
{
    tt_dtype half = dtype == TT_C64 ? TT_F32 : dtype == TT_C128 ? TT_F64 : dtype;
    return tt_element_f64(half, element);
}

double tt_graph_imag(tt_dtype dtype, const void *element)
{
    tt_dtype half = dtype == TT_C64 ? TT_F32 : TT_F64;
    return tt_element_f64(half, (const char *)element + tt_dtype_size(half));
}

/* How the numbers of one table are written. */
typedef struct cell_format {
    tt_dtype dtype;
    int32_t decimals; /* behind the point; -1: each number as short as it can be */
    double absmax;    /* of the whole tensor, for the tints */
} cell_format;

/* What the digits are chosen from. */
typedef struct span {
    double largest;
    bool is_whole;
} span;

static void span_add(span *s, double x)
{
    if (!isfinite(x))
        return;
    s->largest = fmax(s->largest, fabs(x));
    s->is_whole = s->is_whole && x == trunc(x);
}

static span span_of(const tt_graph_node *node, tt_dtype dtype)
{
    span s = { 0, true };
    bool is_complex = tt_dtype_kind(dtype) == TT_KIND_COMPLEX;
    for (size_t i = 0; i < tt_sample_count(node->sample); i++) {
        const tt_sample_slice *slice = tt_sample_at(node->sample, i);
        const char *at = slice->values;
        for (int64_t k = 0; k < slice->rows * slice->cols; k++, at += tt_dtype_size(dtype)) {
            span_add(&s, tt_graph_real(dtype, at));
            if (is_complex)
                span_add(&s, tt_graph_imag(dtype, at));
        }
    }
    return s;
}

static cell_format choose_format(const tt_graph_node *node)
{
    tt_dtype dtype = (tt_dtype)node->stats->dtype;
    cell_format format = { .dtype = dtype, .absmax = node->stats->absmax };
    tt_kind kind = tt_dtype_kind(dtype);
    if (kind != TT_KIND_FLOAT && kind != TT_KIND_COMPLEX)
        return format;
    span s = span_of(node, dtype);
    if (s.is_whole && s.largest < 1e9)
        return format; /* no decimals */
    int32_t whole_digits = s.largest > 0 ? (int32_t)floor(log10(s.largest)) + 1 : 1;
    format.decimals = DIGITS - whole_digits;
    if (whole_digits > DIGITS + 1 || format.decimals > MOST_DECIMALS)
        format.decimals = -1;
    else if (format.decimals < 1)
        format.decimals = 1; /* 1.5 is not 2, whatever the others are */
    return format;
}

/* By integers, so that the point is one whatever the locale. */
static size_t write_fixed(char out[TT_NUMBER_TEXT], double x, int32_t decimals)
{
    double scaled = rint(fabs(x) * powers[decimals]);
    if (scaled == 0 && x != 0) /* not zero, whatever the others are, and no wider */
        return (size_t)snprintf(out, TT_NUMBER_TEXT, "%.0e", x);
    uint64_t digits = (uint64_t)scaled, unit = (uint64_t)powers[decimals];
    int n = snprintf(out, TT_NUMBER_TEXT, "%s%" PRIu64, x < 0 ? "-" : "", digits / unit);
    if (decimals == 0)
        return (size_t)n;
    out[n++] = '.';
    for (unit /= 10; unit > 0; unit /= 10)
        out[n++] = (char)('0' + digits / unit % 10);
    out[n] = '\0';
    return (size_t)n;
}

static void write_real(char out[TT_NUMBER_TEXT], double x, int32_t decimals)
{
    if (isnan(x))
        memcpy(out, "NaN", 4);
    else if (isinf(x))
        memcpy(out, x < 0 ? "-Inf" : "Inf", x < 0 ? 5 : 4);
    else if (decimals < 0 || fabs(x) >= 1e9)
        (void)tt_number_short(x, out);
    else
        (void)write_fixed(out, x, decimals);
}

int64_t tt_graph_integer(tt_dtype dtype, const void *element)
{
    int64_t wide;
    if (tt_dtype_size(dtype) < sizeof wide)
        return (int64_t)tt_element_f64(dtype, element);
    memcpy(&wide, element, sizeof wide);
    return wide;
}

static void write_exact(char out[TT_NUMBER_TEXT], tt_dtype dtype, const void *element)
{
    int64_t x = tt_graph_integer(dtype, element);
    if (dtype == TT_BOOL)
        (void)snprintf(out, TT_NUMBER_TEXT, "%s", x != 0 ? "True" : "False");
    else if (dtype == TT_U64)
        (void)snprintf(out, TT_NUMBER_TEXT, "%" PRIu64, (uint64_t)x);
    else
        (void)snprintf(out, TT_NUMBER_TEXT, "%" PRId64, x);
}

/* Pale orange above zero, pale blue below; the paler the nearer to zero. */
static void put_tint(tt_dot *dot, double part)
{
    int level = (int)lrint(fmin(fabs(part), 1) * LEVELS);
    if (level == 0)
        return;
    int strong = 26 * level / LEVELS, weak = 96 * level / LEVELS;
    if (part > 0)
        tt_dot_printf(dot, " bgcolor=\"#%02x%02x%02x\"", 255 - strong / 8, 255 - weak * 9 / 16,
                      255 - weak * 5 / 4);
    else
        tt_dot_printf(dot, " bgcolor=\"#%02x%02x%02x\"", 255 - weak, 255 - weak / 2, 255 - strong / 3);
}

static void put_cell(tt_dot *dot, const cell_format *format, const void *element)
{
    char text[TT_NUMBER_TEXT], imag_text[TT_NUMBER_TEXT];
    tt_dtype dtype = format->dtype;
    tt_kind kind = tt_dtype_kind(dtype);
    double x = tt_graph_real(dtype, element), y = 0;
    if (kind == TT_KIND_COMPLEX) {
        y = tt_graph_imag(dtype, element);
        write_real(imag_text, y, format->decimals);
    }
    if (kind == TT_KIND_COMPLEX || kind == TT_KIND_FLOAT)
        write_real(text, x, format->decimals);
    else
        write_exact(text, dtype, element);
    tt_dot_put(dot, "<td align=\"right\"");
    bool is_nan = isnan(x) || isnan(y), is_inf = isinf(x) || isinf(y);
    if (is_nan || is_inf)
        tt_dot_put(dot, is_nan ? " bgcolor=\"#c62828\"><font color=\"white\"><b>"
                               : " bgcolor=\"#6a1b9a\"><font color=\"white\"><b>");
    else if (format->absmax > 0) {
        put_tint(dot, (kind == TT_KIND_COMPLEX ? hypot(x, y) : x) / format->absmax);
        tt_dot_put(dot, ">");
    } else {
        tt_dot_put(dot, ">");
    }
    tt_dot_put(dot, text);
    if (kind == TT_KIND_COMPLEX) {
        tt_dot_put(dot, imag_text[0] == '-' ? "" : "+");
        tt_dot_put(dot, imag_text);
        tt_dot_put(dot, "j");
    }
    tt_dot_put(dot, is_nan || is_inf ? "</b></font></td>" : "</td>");
}

/* ---- the table ------------------------------------------------------------ */

enum {
    NAME_COLUMNS = 40,
    CODE_COLUMNS = 52, /* of a line of code ... */
    CODE_LINES = 3,    /* ... and lines, before the rest is left to the tooltip */
    BAND = 16,         /* columns of a vector side by side */
    SLICES_WIDE = 3,   /* slices side by side */
    WIDE_SLICE = 5,    /* columns from which on only two are */
};

static void put_short(tt_dot *dot, double x)
{
    char text[TT_NUMBER_TEXT];
    (void)tt_number_short(x + 0.0, text); /* -0 is no news here */
    tt_dot_put(dot, text);
}

static void put_bound(tt_dot *dot, const tt_stats *s, int64_t exact, double x)
{
    switch (tt_dtype_kind((tt_dtype)s->dtype)) {
    case TT_KIND_INT:
    case TT_KIND_UINT:
        if (s->dtype == TT_U64)
            tt_dot_printf(dot, "%" PRIu64, (uint64_t)exact);
        else
            tt_dot_printf(dot, "%" PRId64, exact);
        return;
    case TT_KIND_BOOL:
        tt_dot_put(dot, exact != 0 ? "True" : "False");
        return;
    case TT_KIND_FLOAT:
    case TT_KIND_COMPLEX:
        put_short(dot, x);
        return;
    }
}

static void put_sizes(tt_dot *dot, const int64_t *shape, int32_t ndim)
{
    if (ndim <= 0)
        tt_dot_put(dot, ndim == 0 ? "scalar" : "shape&#160;not&#160;known");
    for (int32_t d = 0; d < ndim; d++)
        tt_dot_printf(dot, "%s%" PRId64, d > 0 ? " × " : "", shape[d]);
}

/* ---- the header ---------------------------------------------------------- */

static void put_head(tt_dot *dot, const tt_graph_node *node)
{
    const char *tint = node->is_source ? "#eceff1" : "#dfe8f5";
    tt_dot_printf(dot,
                  "<tr><td bgcolor=\"%s\" align=\"left\"><table border=\"0\" "
                  "cellborder=\"0\" "
                  "cellspacing=\"0\" cellpadding=\"3\"><tr><td "
                  "align=\"left\"><font point-size=\"14\" "
                  "color=\"#102a43\"><b>",
                  tint);
    const char *name = node->name != NULL && node->name[0] != '\0' ? node->name : "?";
    tt_dot_html(dot, name, strlen(name), NAME_COLUMNS);
    tt_dot_put(dot, "</b></font>&#160;&#160;<font color=\"#334e68\">");
    tt_dot_html(dot, node->dtype, strlen(node->dtype), NAME_COLUMNS);
    tt_dot_put(dot, "&#160;&#160;");
    put_sizes(dot, node->shape, node->ndim);
    if (node->device != NULL) {
        tt_dot_put(dot, "&#160;&#160;");
        tt_dot_html(dot, node->device, strlen(node->device), NAME_COLUMNS);
    }
    tt_dot_printf(dot,
                  "</font></td><td align=\"right\"><font "
                  "color=\"#52606d\">&#160;&#160;line&#160;%" PRId32
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

static void put_code(tt_dot *dot, const char *code)
{
    if (code == NULL || code[0] == '\0')
        return;
    tt_dot_put(dot, "<tr><td align=\"left\" balign=\"left\"><font face=\"monospace\" "
                    "point-size=\"10\" color=\"#243b53\">");
    size_t shown = 0;
    for (const char *at = code; *at != '\0'; shown++) {
        if (shown == CODE_LINES) {
            tt_dot_put(dot, "<br/>…");
            break;
        }
        if (shown > 0)
            tt_dot_put(dot, "<br/>");
        size_t len = strcspn(at, "\n"), part = break_at(at, len);
        tt_dot_html(dot, at, part, 0);
        if (part == 0)
            tt_dot_put(dot, "&#160;");
        at += part;
        if (*at == '\n')
            at++;
    }
    tt_dot_put(dot, "</font></td></tr>");
}

/* ---- statistics ---------------------------------------------------------- */

static void put_alarm(tt_dot *dot, int64_t count, const char *what, const char *color)
{
    if (count > 0)
        tt_dot_printf(dot, "&#160;&#160;&#160;&#160;<font color=\"%s\"><b>%" PRId64 "&#160;%s</b></font>",
                      color, count, what);
}

static void put_mean(tt_dot *dot, const tt_stats *s)
{
    tt_dot_put(dot, "&#160;&#160;mean&#160;");
    put_short(dot, s->mean);
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX) {
        double imag = tt_stats_mean_imag(s);
        tt_dot_put(dot, imag < 0 ? "" : "+");
        put_short(dot, imag);
        tt_dot_put(dot, "j");
    }
    if (!isnan(tt_stats_std(s))) {
        tt_dot_put(dot, "&#160;&#160;std&#160;");
        put_short(dot, tt_stats_std(s));
    }
}

static void put_stats(tt_dot *dot, const tt_graph_node *node)
{
    const tt_stats *s = node->stats;
    tt_dot_put(dot, "<tr><td align=\"left\"><font point-size=\"10\" color=\"#334e68\">");
    if (s == NULL) {
        tt_dot_put(dot, "<i>values not read");
        if (node->note != NULL && node->note[0] != '\0') {
            tt_dot_put(dot, ":&#160;");
            tt_dot_html(dot, node->note, strlen(node->note), NAME_COLUMNS);
        }
        tt_dot_put(dot, "</i>");
    } else if (s->count == 0) {
        tt_dot_put(dot, "<i>empty</i>");
    } else if (tt_stats_finite(s) > 0) {
        bool is_complex = tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX;
        tt_dot_put(dot, is_complex ? "min&#160;|z|&#160;" : "min&#160;");
        put_bound(dot, s, s->imin, s->min);
        tt_dot_put(dot, is_complex ? "&#160;&#160;max&#160;|z|&#160;" : "&#160;&#160;max&#160;");
        put_bound(dot, s, s->imax, s->max);
        put_mean(dot, s);
    } else {
        tt_dot_put(dot, "no finite value");
    }
    if (s != NULL) {
        put_alarm(dot, s->nan, "NaN", "#c62828");
        put_alarm(dot, s->posinf + s->neginf, "Inf", "#6a1b9a");
    }
    /* Room to the right: a browser's letters are a bit wider than Graphviz
   * thinks. */
    tt_dot_put(dot, "&#160;&#160;</font></td></tr>");
}

/* ---- the tables ---------------------------------------------------------- */

static void put_index(tt_dot *dot, int64_t index)
{
    tt_dot_printf(dot, "<td align=\"right\"><font color=\"#829ab1\">%" PRId64 "</font></td>", index);
}

/* Columns [first, last) of one slice. */
static void put_band(tt_dot *dot, const cell_format *format, const tt_sample_slice *slice, bool has_rows,
                     int64_t first, int64_t last)
{
    tt_dot_put(dot, "<tr>");
    if (has_rows)
        tt_dot_put(dot, "<td></td>");
    for (int64_t c = first; c < last; c++)
        put_index(dot, slice->col[c]);
    tt_dot_put(dot, "</tr>");
    for (int64_t r = 0; r < slice->rows; r++) {
        tt_dot_put(dot, "<tr>");
        if (has_rows)
            put_index(dot, slice->row[r]);
        const char *line =
            (const char *)slice->values + (size_t)(r * slice->cols) * tt_dtype_size(format->dtype);
        for (int64_t c = first; c < last; c++)
            put_cell(dot, format, line + (size_t)c * tt_dtype_size(format->dtype));
        tt_dot_put(dot, "</tr>");
    }
}

static void put_slice(tt_dot *dot, const cell_format *format, const tt_sample_slice *slice, int32_t ndim)
{
    tt_dot_put(dot, "<td align=\"left\" valign=\"top\"><table border=\"0\" cellborder=\"0\" "
                    "cellspacing=\"1\" cellpadding=\"2\">");
    if (slice->label[0] != '\0') {
        int64_t columns = slice->cols + 1;
        tt_dot_printf(dot, "<tr><td colspan=\"%" PRId64 "\" align=\"left\"><b>", columns);
        tt_dot_put(dot, slice->label);
        tt_dot_put(dot, "</b></td></tr>");
    }
    int64_t band = slice->rows == 1 && ndim == 1 ? BAND : slice->cols;
    for (int64_t first = 0; first < slice->cols; first += band)
        put_band(dot, format, slice, ndim > 1, first,
                 first + band < slice->cols ? first + band : slice->cols);
    tt_dot_put(dot, "</table></td>");
}

static void put_scalar(tt_dot *dot, const cell_format *format, const tt_sample_slice *slice)
{
    tt_dot_put(dot, "<td align=\"left\"><table border=\"0\" cellborder=\"0\" "
                    "cellspacing=\"1\" "
                    "cellpadding=\"4\"><tr>");
    put_cell(dot, format, slice->values);
    tt_dot_put(dot, "</tr></table></td>");
}

static void put_tables(tt_dot *dot, const tt_graph_node *node)
{
    size_t count = node->sample != NULL && node->stats != NULL ? tt_sample_count(node->sample) : 0;
    const tt_sample_slice *first = count > 0 ? tt_sample_at(node->sample, 0) : NULL;
    if (first == NULL || first->rows == 0 || first->cols == 0)
        return;
    cell_format format = choose_format(node);
    size_t wide = first->cols < WIDE_SLICE ? SLICES_WIDE : SLICES_WIDE - 1;
    tt_dot_put(dot, "<tr><td align=\"left\"><font point-size=\"10\"><table border=\"0\" "
                    "cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\">");
    for (size_t i = 0; i < count; i++) {
        if (i % wide == 0)
            tt_dot_put(dot, i == 0 ? "<tr>" : "</tr><tr>");
        if (node->ndim == 0)
            put_scalar(dot, &format, first);
        else
            put_slice(dot, &format, tt_sample_at(node->sample, i), node->ndim);
    }
    tt_dot_put(dot, "</tr></table></font></td></tr>");
    if (tt_sample_is_partial(node->sample))
        tt_dot_put(dot, "<tr><td align=\"left\"><font point-size=\"9\" color=\"#8d5524\"><i>"
                        "sampled: not every element is shown</i></font></td></tr>");
}

void tt_graph_label(tt_dot *dot, const tt_graph_node *node)
{
    tt_dot_printf(dot,
                  "<table border=\"1\" color=\"%s\" cellborder=\"0\" "
                  "cellspacing=\"0\" cellpadding=\"3\" "
                  "bgcolor=\"white\"%s>",
                  node->is_source ? "#90a4ae" : "#486581", node->is_source ? " style=\"dashed\"" : "");
    put_head(dot, node);
    put_code(dot, node->code);
    put_stats(dot, node);
    put_tables(dot, node);
    tt_dot_put(dot, "</table>");
}
