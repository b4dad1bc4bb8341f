/* graph_cell.c -- the numbers in a chart's tables: short, aligned, tinted.
 *
 * Exists because a table is read down its columns: all floats of a node have the
 * same number of digits behind the point, chosen from the largest of them.  The
 * tint says sign and size at a glance and stays pale enough for black print.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_pen.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    DIGITS = 4,        /* of the largest number */
    MOST_DECIMALS = 6, /* more: short texts instead */
    LEVELS = 8,        /* of tint */
};

static const double powers[] = { 1, 10, 100, 1e3, 1e4, 1e5, 1e6 };

static double real_part(tt_dtype dtype, const void *element)
{
    tt_dtype half = dtype == TT_C64 ? TT_F32 : dtype == TT_C128 ? TT_F64 : dtype;
    return tt_element_f64(half, element);
}

static double imag_part(tt_dtype dtype, const void *element)
{
    tt_dtype half = dtype == TT_C64 ? TT_F32 : TT_F64;
    return tt_element_f64(half, (const char *)element + tt_dtype_size(half));
}

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
            span_add(&s, real_part(dtype, at));
            if (is_complex)
                span_add(&s, imag_part(dtype, at));
        }
    }
    return s;
}

tt_graph_format tt_graph_format_choose(const tt_graph_node *node)
{
    tt_dtype dtype = (tt_dtype)node->stats->dtype;
    tt_graph_format format = { .dtype = dtype, .absmax = node->stats->absmax };
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

static void write_exact(char out[TT_NUMBER_TEXT], tt_dtype dtype, const void *element)
{
    int64_t wide;
    if (dtype == TT_BOOL) {
        bool is_true = *(const unsigned char *)element != 0;
        memcpy(out, is_true ? "True" : "False", is_true ? 5 : 6);
        return;
    }
    if (tt_dtype_size(dtype) < sizeof wide)
        wide = (int64_t)tt_element_f64(dtype, element);
    else
        memcpy(&wide, element, sizeof wide);
    if (dtype == TT_U64)
        (void)snprintf(out, TT_NUMBER_TEXT, "%" PRIu64, (uint64_t)wide);
    else
        (void)snprintf(out, TT_NUMBER_TEXT, "%" PRId64, wide);
}

/* Pale orange above zero, pale blue below; the paler the nearer to zero. */
static void put_tint(tt_graph_pen *pen, double part)
{
    int level = (int)lrint(fmin(fabs(part), 1) * LEVELS);
    if (level == 0)
        return;
    int strong = 26 * level / LEVELS, weak = 96 * level / LEVELS;
    if (part > 0)
        tt_graph_printf(pen, " bgcolor=\"#%02x%02x%02x\"", 255 - strong / 8, 255 - weak * 9 / 16,
                        255 - weak * 5 / 4);
    else
        tt_graph_printf(pen, " bgcolor=\"#%02x%02x%02x\"", 255 - weak, 255 - weak / 2, 255 - strong / 3);
}

void tt_graph_cell(tt_graph_pen *pen, const tt_graph_format *format, const void *element)
{
    char text[TT_NUMBER_TEXT], imag_text[TT_NUMBER_TEXT];
    tt_dtype dtype = format->dtype;
    tt_kind kind = tt_dtype_kind(dtype);
    double x = real_part(dtype, element), y = 0;
    if (kind == TT_KIND_COMPLEX) {
        y = imag_part(dtype, element);
        write_real(imag_text, y, format->decimals);
    }
    if (kind == TT_KIND_COMPLEX || kind == TT_KIND_FLOAT)
        write_real(text, x, format->decimals);
    else
        write_exact(text, dtype, element);
    tt_graph_put(pen, "<td align=\"right\"");
    bool is_nan = isnan(x) || isnan(y), is_inf = isinf(x) || isinf(y);
    if (is_nan || is_inf)
        tt_graph_put(pen, is_nan ? " bgcolor=\"#c62828\"><font color=\"white\"><b>"
                                 : " bgcolor=\"#6a1b9a\"><font color=\"white\"><b>");
    else if (format->absmax > 0) {
        put_tint(pen, (kind == TT_KIND_COMPLEX ? hypot(x, y) : x) / format->absmax);
        tt_graph_put(pen, ">");
    } else {
        tt_graph_put(pen, ">");
    }
    tt_graph_put(pen, text);
    if (kind == TT_KIND_COMPLEX) {
        tt_graph_put(pen, imag_text[0] == '-' ? "" : "+");
        tt_graph_put(pen, imag_text);
        tt_graph_put(pen, "j");
    }
    tt_graph_put(pen, is_nan || is_inf ? "</b></font></td>" : "</td>");
}
