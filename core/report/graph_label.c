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
 * People read a table column by column, so all floats of a node have the same number of digits
 * after the point, which the largest of them determines.  The background of a number shows its
 * sign and size, and is pale enough for black print.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/dot.h"
#include "report/glyph.h"
#include "report/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------- */

enum {
    DIGITS = 4,        /* of the largest number */
    MOST_DECIMALS = 6, /* if more were needed, each number is as short as it can be */
    LEVELS = 8,        /* of colour */
};

static const double powers[] = { 1, 10, 100, 1e3, 1e4, 1e5, 1e6 };

static tt_dtype part_type(tt_dtype dtype)
{
    return dtype == TT_C64 ? TT_F32 : dtype == TT_C128 ? TT_F64 : dtype;
}

double tt_graph_part(tt_dtype dtype, const void *element, size_t part)
{
    tt_dtype type = part_type(dtype);
    return tt_element_f64(type, (const char *)element + part * tt_dtype_size(type));
}

int64_t tt_graph_integer(tt_dtype dtype, const void *element)
{
    int64_t wide;
    if (tt_dtype_size(dtype) < sizeof wide)
        return (int64_t)tt_element_f64(dtype, element);
    memcpy(&wide, element, sizeof wide);
    return wide;
}

/* How the numbers of one table are written. */
typedef struct cell_format {
    tt_dtype dtype;
    tt_kind kind;
    int32_t decimals; /* after the point; -1: each number as short as it can be */
    double absmax;    /* of the whole tensor, for the colours */
} cell_format;

/* Returns the largest absolute value of a sample; is_whole: there are only whole numbers. */
static double find_largest(const tt_sample *sample, tt_dtype dtype, bool *is_whole)
{
    tt_dtype type = part_type(dtype); /* a complex number is two floats */
    size_t size = tt_dtype_size(type), parts = tt_dtype_size(dtype) / size;
    double largest = 0;
    *is_whole = true;
    for (size_t i = 0; i < tt_sample_count(sample); i++) {
        const tt_sample_slice *slice = tt_sample_at(sample, i);
        const char *at = slice->values;
        for (size_t k = (size_t)(slice->rows * slice->cols) * parts; k > 0; k--, at += size) {
            double x = tt_element_f64(type, at);
            if (!isfinite(x))
                continue;
            largest = fmax(largest, fabs(x));
            *is_whole = *is_whole && x == trunc(x);
        }
    }
    return largest;
}

static cell_format choose_format(const tt_graph_node *node)
{
    tt_dtype dtype = (tt_dtype)node->stats->dtype;
    cell_format format = { dtype, tt_dtype_kind(dtype), .absmax = node->stats->absmax };
    bool is_whole = true;
    if (format.kind != TT_KIND_FLOAT && format.kind != TT_KIND_COMPLEX)
        return format;
    double largest = find_largest(node->sample, dtype, &is_whole);
    if (is_whole && largest < 1e9)
        return format; /* no decimals */
    int32_t whole_digits = largest > 0 ? (int32_t)floor(log10(largest)) + 1 : 1;
    format.decimals = DIGITS - whole_digits;
    if (whole_digits > DIGITS + 1 || format.decimals > MOST_DECIMALS)
        format.decimals = -1;
    else if (format.decimals < 1)
        format.decimals = 1; /* 1.5 is not 2, even among large numbers */
    return format;
}

/* Uses integers, so that the decimal point does not depend on the locale. */
static void write_fixed(char out[TT_NUMBER_TEXT], double x, int32_t decimals)
{
    double scaled = rint(fabs(x) * powers[decimals]);
    if (scaled == 0 && x != 0) { /* must not look like zero, nor be wider */
        (void)snprintf(out, TT_NUMBER_TEXT, "%.0e", x);
        return;
    }
    uint64_t digits = (uint64_t)scaled, unit = (uint64_t)powers[decimals];
    int n = snprintf(out, TT_NUMBER_TEXT, "%s%" PRIu64, x < 0 ? "-" : "", digits / unit);
    if (decimals > 0)
        out[n++] = '.';
    for (unit /= 10; unit > 0; unit /= 10)
        out[n++] = (char)('0' + digits / unit % 10);
    out[n] = '\0';
}

static void write_real(char out[TT_NUMBER_TEXT], double x, int32_t decimals)
{
    if (!isfinite(x))
        strcpy(out, isnan(x) ? "NaN" : x < 0 ? "-Inf" : "Inf");
    else if (decimals < 0 || fabs(x) >= 1e9)
        (void)tt_number_short(x, out);
    else
        write_fixed(out, x, decimals);
}

/* Pale orange above zero, pale blue below; the nearer to zero, the paler. */
static void put_color(tt_buf *out, double share)
{
    int level = (int)lrint(fmin(fabs(share), 1) * LEVELS);
    int strong = 26 * level / LEVELS, weak = 96 * level / LEVELS;
    if (level > 0 && share > 0)
        tt_buf_printf(out, " bgcolor=\"#%02x%02x%02x\"", 255 - strong / 8, 255 - weak * 9 / 16,
                      255 - weak * 5 / 4);
    else if (level > 0)
        tt_buf_printf(out, " bgcolor=\"#%02x%02x%02x\"", 255 - weak, 255 - weak / 2, 255 - strong / 3);
}

static void put_cell(tt_buf *out, const cell_format *format, const void *element)
{
    char real[TT_NUMBER_TEXT], imag[TT_NUMBER_TEXT] = "";
    const char *text = real;
    bool is_complex = format->kind == TT_KIND_COMPLEX;
    double x = tt_graph_part(format->dtype, element, 0), y = 0;
    if (is_complex) {
        y = tt_graph_part(format->dtype, element, 1);
        write_real(imag, y, format->decimals);
    }
    if (is_complex || format->kind == TT_KIND_FLOAT)
        write_real(real, x, format->decimals);
    else
        text = tt_facts_integer(format->dtype, tt_graph_integer(format->dtype, element), real);
    bool is_nan = isnan(x) || isnan(y), is_finite = isfinite(x) && isfinite(y);
    tt_buf_printf(out, "<td align=\"right\"");
    if (!is_finite)
        tt_buf_printf(out, " bgcolor=\"%s\"><font color=\"white\"><b>", is_nan ? "#c62828" : "#6a1b9a");
    else if (format->absmax > 0)
        put_color(out, (is_complex ? hypot(x, y) : x) / format->absmax);
    tt_buf_printf(out, "%s%s%s%s%s%s", is_finite ? ">" : "", text,
                  is_complex && imag[0] != '-' ? "+" : "", imag, is_complex ? "j" : "",
                  is_finite ? "</td>" : "</b></font></td>");
}

/* ---- the header ---------------------------------------------------------- */

enum {
    NAME_COLUMNS = 40,
    CODE_COLUMNS = 52, /* of a line of code ... */
    CODE_LINES = 3,    /* ... and lines; the tooltip has the rest */
    VECTOR_COLUMNS = 16,
    SLICES_WIDE = 3, /* slices side by side */
    WIDE_SLICE = 5,  /* slices of so many columns: one less */
};

static void put_head(tt_buf *out, const tt_graph_node *node)
{
    const char *name = node->name != NULL && node->name[0] != '\0' ? node->name : "?";
    tt_buf_printf(out,
                  "<tr><td bgcolor=\"%s\" align=\"left\"><table border=\"0\" cellborder=\"0\" "
                  "cellspacing=\"0\" cellpadding=\"3\"><tr><td align=\"left\"><font point-size=\"14\" "
                  "color=\"#102a43\"><b>",
                  node->is_source ? "#eceff1" : "#dfe8f5");
    tt_dot_text(out, TT_DOT_LABEL, name, strlen(name), NAME_COLUMNS);
    tt_buf_printf(out, "</b></font>&#160;&#160;<font color=\"#334e68\">");
    tt_dot_text(out, TT_DOT_LABEL, node->dtype, strlen(node->dtype), NAME_COLUMNS);
    tt_buf_printf(out, "&#160;&#160;%s",
                  node->ndim < 0    ? "shape&#160;not&#160;known"
                  : node->ndim == 0 ? "scalar"
                                    : "");
    for (int32_t d = 0; d < node->ndim; d++)
        tt_buf_printf(out, "%s%" PRId64, d > 0 ? " × " : "", node->shape[d]);
    if (node->device != NULL) {
        tt_buf_printf(out, "&#160;&#160;");
        tt_dot_text(out, TT_DOT_LABEL, node->device, strlen(node->device), NAME_COLUMNS);
    }
    tt_buf_printf(out,
                  "</font></td><td align=\"right\"><font color=\"#52606d\">&#160;&#160;line&#160;%" PRId32
                  "</font></td></tr></table></td></tr>",
                  node->line);
}

/* Returns where to break a line of code that is too long: after a space or a comma if there is
 * one in its second half. */
static size_t break_at(const char *code, size_t len)
{
    if (len <= CODE_COLUMNS)
        return len;
    for (size_t i = CODE_COLUMNS; i > CODE_COLUMNS / 2; i--)
        if (code[i - 1] == ' ' || code[i - 1] == ',')
            return i;
    size_t at = CODE_COLUMNS;
    while (at > 1 && ((unsigned char)code[at] & 0xC0) == 0x80)
        at--; /* not inside a character */
    return at;
}

static void put_code(tt_buf *out, const char *code)
{
    if (code == NULL || code[0] == '\0')
        return;
    tt_buf_printf(out, "<tr><td align=\"left\" balign=\"left\"><font face=\"monospace\" "
                       "point-size=\"10\" color=\"#243b53\">");
    for (size_t lines = 0; *code != '\0' && lines <= CODE_LINES; lines++) {
        size_t len = break_at(code, strcspn(code, "\n"));
        tt_buf_printf(out, "%s%s", lines > 0 ? "<br/>" : "",
                      lines == CODE_LINES ? "…"
                      : len == 0          ? "&#160;"
                                          : "");
        if (lines < CODE_LINES)
            tt_dot_text(out, TT_DOT_LABEL, code, len, 0);
        code += len + (code[len] == '\n');
    }
    tt_buf_printf(out, "</font></td></tr>");
}

/* ---- statistics ---------------------------------------------------------- */

static void put_alarm(tt_buf *out, int64_t count, const char *what, const char *color)
{
    if (count > 0)
        tt_buf_printf(out, "&#160;&#160;&#160;&#160;<font color=\"%s\"><b>%" PRId64 "&#160;%s</b></font>",
                      color, count, what);
}

static void put_values(tt_buf *out, const tt_stats *s)
{
    char low[TT_NUMBER_TEXT], high[TT_NUMBER_TEXT], mean[TT_NUMBER_TEXT], other[TT_NUMBER_TEXT];
    bool is_complex = tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX;
    const char *of = is_complex ? "|z|&#160;" : "";
    tt_buf_printf(out, "min&#160;%s%s&#160;&#160;max&#160;%s%s&#160;&#160;mean&#160;%s", of,
                  tt_facts_bound(s, false, low), of, tt_facts_bound(s, true, high),
                  tt_facts_short(s->mean, mean));
    double imag = tt_stats_mean_imag(s);
    if (is_complex)
        tt_buf_printf(out, "%s%sj", imag < 0 ? "" : "+", tt_facts_short(imag, other));
    if (!isnan(tt_stats_std(s)))
        tt_buf_printf(out, "&#160;&#160;std&#160;%s", tt_facts_short(tt_stats_std(s), other));
}

static void put_stats(tt_buf *out, const tt_graph_node *node)
{
    const tt_stats *s = node->stats;
    tt_buf_printf(out, "<tr><td align=\"left\"><font point-size=\"10\" color=\"#334e68\">");
    if (s == NULL) {
        bool has_note = node->note != NULL && node->note[0] != '\0';
        tt_buf_printf(out, "<i>values not read%s", has_note ? ":&#160;" : "");
        if (has_note)
            tt_dot_text(out, TT_DOT_LABEL, node->note, strlen(node->note), NAME_COLUMNS);
        tt_buf_printf(out, "</i>");
    } else if (tt_stats_finite(s) > 0) {
        put_values(out, s);
    } else {
        tt_buf_printf(out, s->count == 0 ? "<i>empty</i>" : "no finite value");
    }
    if (s != NULL) {
        put_alarm(out, s->nan, "NaN", "#c62828");
        put_alarm(out, s->posinf + s->neginf, "Inf", "#6a1b9a");
    }
    /* Space at the right: a browser's letters are a bit wider than Graphviz expects. */
    tt_buf_printf(out, "&#160;&#160;</font></td></tr>");
}

/* ---- the tables ---------------------------------------------------------- */

static void put_index(tt_buf *out, int64_t index)
{
    tt_buf_printf(out, "<td align=\"right\"><font color=\"#829ab1\">%" PRId64 "</font></td>", index);
}

/* Columns [first, last) of one slice, with their numbers. */
static void put_columns(tt_buf *out, const cell_format *format, const tt_sample_slice *slice,
                        bool has_row_numbers, int64_t first, int64_t last)
{
    tt_buf_printf(out, "<tr>%s", has_row_numbers ? "<td></td>" : "");
    for (int64_t c = first; c < last; c++)
        put_index(out, slice->col[c]);
    tt_buf_printf(out, "</tr>");
    for (int64_t r = 0; r < slice->rows; r++) {
        tt_buf_printf(out, "<tr>");
        if (has_row_numbers)
            put_index(out, slice->row[r]);
        for (int64_t c = first; c < last; c++)
            put_cell(out, format,
                     (const char *)slice->values +
                         (size_t)(r * slice->cols + c) * tt_dtype_size(format->dtype));
        tt_buf_printf(out, "</tr>");
    }
}

static void put_slice(tt_buf *out, const cell_format *format, const tt_sample_slice *slice, int32_t ndim)
{
    tt_buf_printf(out,
                  "<td align=\"left\"%s><table border=\"0\" cellborder=\"0\" cellspacing=\"1\" "
                  "cellpadding=\"%d\">",
                  ndim != 0 ? " valign=\"top\"" : "", ndim != 0 ? 2 : 4);
    if (slice->label[0] != '\0')
        tt_buf_printf(out, "<tr><td colspan=\"%" PRId64 "\" align=\"left\"><b>%s</b></td></tr>",
                      slice->cols + 1, slice->label);
    int64_t wide = slice->rows == 1 && ndim == 1 ? VECTOR_COLUMNS : slice->cols;
    for (int64_t first = 0; ndim != 0 && first < slice->cols; first += wide)
        put_columns(out, format, slice, ndim > 1, first,
                    first + wide < slice->cols ? first + wide : slice->cols);
    if (ndim == 0) { /* one number, without indices */
        tt_buf_printf(out, "<tr>");
        put_cell(out, format, slice->values);
        tt_buf_printf(out, "</tr>");
    }
    tt_buf_printf(out, "</table></td>");
}

static void put_tables(tt_buf *out, const tt_graph_node *node)
{
    size_t count = node->sample != NULL && node->stats != NULL ? tt_sample_count(node->sample) : 0;
    const tt_sample_slice *first = count > 0 ? tt_sample_at(node->sample, 0) : NULL;
    if (first == NULL || first->rows == 0 || first->cols == 0)
        return;
    cell_format format = choose_format(node);
    size_t wide = first->cols < WIDE_SLICE ? SLICES_WIDE : SLICES_WIDE - 1;
    tt_buf_printf(out, "<tr><td align=\"left\"><font point-size=\"10\"><table border=\"0\" "
                       "cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\">");
    for (size_t i = 0; i < count; i++) {
        if (i % wide == 0)
            tt_buf_printf(out, i == 0 ? "<tr>" : "</tr><tr>");
        put_slice(out, &format, tt_sample_at(node->sample, i), node->ndim);
    }
    tt_buf_printf(out, "</tr></table></font></td></tr>");
    if (tt_sample_is_partial(node->sample))
        tt_buf_printf(out, "<tr><td align=\"left\"><font point-size=\"9\" color=\"#8d5524\"><i>"
                           "sampled: not every element is shown</i></font></td></tr>");
}

void tt_graph_label(tt_buf *out, const tt_graph_node *node)
{
    tt_buf_printf(out,
                  "<table border=\"1\" color=\"%s\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\" "
                  "bgcolor=\"white\"%s>",
                  node->is_source ? "#90a4ae" : "#486581", node->is_source ? " style=\"dashed\"" : "");
    put_head(out, node);
    put_code(out, node->code);
    put_stats(out, node);
    put_tables(out, node);
    tt_buf_printf(out, "</table>");
}
