/* description.c -- one line about a tensor.
 *
 * Exists so that `tt.show`, the command line and the logs describe a tensor in
 * the same words.  What matters most when something is wrong, NaN and Inf, is
 * dropped last when the line has to be short.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"
#include "report/answer.h"
#include "report/glyph.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a line that may be left out. */
enum { RANGE = 1, MEAN = 2, ZEROS = 4, SPARK = 8, EVERYTHING = 15 };

/* A line that is being written. */
typedef struct line {
    tt_buf *out;
    const tt_style *style;
    const tt_facts *facts;
    double cells[TT_SPARK_CELLS]; /* of the histogram */
    size_t cell_count;            /* 0: no sparkline */
} line;

/* Appends text of ours in the colour of a mood. */
static void put(const line *p, tt_mood mood, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put(const line *p, tt_mood mood, const char *format, ...)
{
    char text[128]; /* words and numbers */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (mood != TT_MOOD_PLAIN)
        (void)tt_glyph_ink(p->out, mood, p->style);
    (void)tt_buf_text(p->out, text);
    if (mood != TT_MOOD_PLAIN)
        (void)tt_glyph_ink(p->out, TT_MOOD_PLAIN, p->style);
}

static void put_untrusted(const line *p, tt_mood mood, const char *text)
{
    (void)tt_glyph_ink(p->out, mood, p->style);
    (void)tt_glyph_append(p->out, text, TT_TRUST_NONE, p->style);
    (void)tt_glyph_ink(p->out, TT_MOOD_PLAIN, p->style);
}

const char *tt_facts_short(double x, char out[TT_NUMBER_TEXT])
{
    (void)tt_number_short(x + 0.0, out);
    return out;
}

const char *tt_facts_integer(tt_dtype dtype, int64_t x, char out[TT_NUMBER_TEXT])
{
    if (dtype == TT_BOOL)
        return x != 0 ? "True" : "False";
    if (dtype == TT_U64)
        (void)snprintf(out, TT_NUMBER_TEXT, "%" PRIu64, (uint64_t)x);
    else
        (void)snprintf(out, TT_NUMBER_TEXT, "%" PRId64, x);
    return out;
}

const char *tt_facts_bound(const tt_stats *s, bool is_max, char out[TT_NUMBER_TEXT])
{
    tt_kind kind = tt_dtype_kind((tt_dtype)s->dtype);
    if (kind == TT_KIND_FLOAT || kind == TT_KIND_COMPLEX)
        return tt_facts_short(is_max ? s->max : s->min, out);
    return tt_facts_integer((tt_dtype)s->dtype, is_max ? s->imax : s->imin, out);
}

static void put_complex(const line *p, double real, double imag)
{
    char a[TT_NUMBER_TEXT], b[TT_NUMBER_TEXT];
    put(p, TT_MOOD_PLAIN, "%s%s%sj", tt_facts_short(real, a), signbit(imag) != 0 && imag != 0 ? "" : "+",
        tt_facts_short(imag, b));
}

static const char *percent_text(int64_t part, int64_t whole, char out[TT_NUMBER_TEXT])
{
    double percent = 100 * ((double)part / (double)whole);
    if (percent < 1)
        (void)snprintf(out, TT_NUMBER_TEXT, "<1%%");
    else if (percent > 99 && part < whole)
        (void)snprintf(out, TT_NUMBER_TEXT, ">99%%");
    else
        (void)snprintf(out, TT_NUMBER_TEXT, "%d%%", (int)(percent + 0.5));
    return out;
}

static void put_head(const line *p)
{
    const tt_facts *facts = p->facts;
    put_untrusted(p, TT_MOOD_TYPE, facts->dtype != NULL ? facts->dtype : "tensor");
    for (int32_t d = 0; facts->shape != NULL && d < facts->ndim; d++)
        put(p, TT_MOOD_PLAIN, "%s%" PRId64 "%s", d == 0 ? "[" : ", ", facts->shape[d],
            d + 1 == facts->ndim ? "]" : "");
    if (facts->device != NULL) {
        put(p, TT_MOOD_PLAIN, " ");
        put_untrusted(p, TT_MOOD_PLACE, facts->device);
    }
}

/* The value of a tensor that has only one: all its digits. */
static void put_value(const line *p, const tt_stats *s)
{
    char text[TT_NUMBER_TEXT];
    if (tt_stats_finite(s) == 0)
        return; /* the alarm says it */
    put(p, TT_MOOD_PLAIN, "  ");
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX) {
        put_complex(p, s->mean, tt_stats_mean_imag(s));
        return;
    }
    if (s->dtype == TT_F64)
        (void)tt_number_f64(s->min, text);
    else if (s->dtype == TT_F32)
        (void)tt_number_f32((float)s->min, text);
    put(p, TT_MOOD_PLAIN, "%s",
        s->dtype == TT_BOOL                        ? (s->zeros == 1 ? "false" : "true")
        : s->dtype == TT_F64 || s->dtype == TT_F32 ? text
                                                   : tt_facts_bound(s, false, text));
}

static void put_mean(const line *p, const tt_stats *s)
{
    char text[TT_NUMBER_TEXT];
    put(p, TT_MOOD_FAINT, "  mean ");
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX) {
        put_complex(p, s->mean, tt_stats_mean_imag(s));
        return; /* the spread of |z| would not be one around this mean */
    }
    put(p, TT_MOOD_PLAIN, "%s", tt_facts_short(s->mean, text));
    double std = tt_stats_std(s);
    if (!isnan(std)) {
        put(p, TT_MOOD_FAINT, p->style->is_ascii ? " +- " : " ± ");
        put(p, TT_MOOD_PLAIN, "%s", tt_facts_short(std, text));
    }
}

static void put_values(const line *p, unsigned parts)
{
    char text[TT_NUMBER_TEXT];
    const tt_stats *s = p->facts->stats;
    tt_kind kind = tt_dtype_kind((tt_dtype)s->dtype);
    if (tt_stats_finite(s) == 0)
        return;
    if (kind == TT_KIND_BOOL && s->zeros != s->count && s->zeros != 0) {
        put(p, TT_MOOD_PLAIN, "  %s true", percent_text(s->count - s->zeros, s->count, text));
    } else if (kind == TT_KIND_BOOL || s->zeros == s->count) {
        put(p, TT_MOOD_PLAIN, "  ");
        put(p, TT_MOOD_REMARK,
            kind != TT_KIND_BOOL ? "all zero"
            : s->zeros == 0      ? "all true"
                                 : "all false");
    } else if (s->min == s->max && (kind != TT_KIND_COMPLEX || s->max == 0)) {
        put(p, TT_MOOD_PLAIN, "  ");
        put(p, TT_MOOD_REMARK, "constant ");
        put(p, TT_MOOD_PLAIN, "%s", tt_facts_bound(s, false, text));
    } else {
        if (parts & RANGE) {
            put(p, kind == TT_KIND_COMPLEX ? TT_MOOD_FAINT : TT_MOOD_PLAIN,
                kind == TT_KIND_COMPLEX ? "  |z| " : "  ");
            put(p, TT_MOOD_PLAIN, "%s", tt_facts_bound(s, false, text));
            put(p, TT_MOOD_FAINT, p->style->is_ascii ? " .. " : " … ");
            put(p, TT_MOOD_PLAIN, "%s", tt_facts_bound(s, true, text));
        }
        if (parts & MEAN)
            put_mean(p, s);
        if ((parts & ZEROS) && kind == TT_KIND_FLOAT && s->zeros >= s->count - s->zeros)
            put(p, TT_MOOD_FAINT, "  %s zero", percent_text(s->zeros, s->count, text));
        if ((parts & SPARK) && p->cell_count > 0) {
            put(p, TT_MOOD_PLAIN, "  ");
            (void)tt_glyph_ink(p->out, TT_MOOD_SPARK, p->style);
            (void)tt_spark_append(p->cells, p->cell_count, p->style, p->out);
            (void)tt_glyph_ink(p->out, TT_MOOD_PLAIN, p->style);
        }
    }
}

static void put_alarm(const line *p, int64_t part, int64_t whole, const char *name)
{
    char count[TT_NUMBER_TEXT] = "", percent[TT_NUMBER_TEXT], share[TT_NUMBER_TEXT + 4] = "";
    if (part == 0)
        return;
    if (part == whole && whole > 1)
        (void)snprintf(count, sizeof count, "all ");
    else if (whole > 1)
        (void)snprintf(count, sizeof count, "%" PRId64 " ", part);
    if (part < whole && part >= whole / 100 && whole >= 100)
        (void)snprintf(share, sizeof share, " (%s)", percent_text(part, whole, percent));
    put(p, TT_MOOD_PLAIN, "  ");
    put(p, TT_MOOD_ALARM, "%s%s%s", count, name, share);
}

static bool is_empty(const tt_facts *facts)
{
    for (int32_t d = 0; facts->shape != NULL && d < facts->ndim; d++)
        if (facts->shape[d] == 0)
            return true;
    return facts->stats != NULL && facts->stats->count == 0;
}

static void put_line(const line *p, unsigned parts)
{
    const tt_facts *facts = p->facts;
    const tt_stats *s = facts->stats;
    put_head(p);
    if (is_empty(facts)) {
        put(p, TT_MOOD_PLAIN, "  ");
        put(p, TT_MOOD_REMARK, "empty");
    } else if (s != NULL) {
        if (s->count == 1)
            put_value(p, s);
        else
            put_values(p, parts);
        put_alarm(p, s->nan, s->count, "NaN");
        put_alarm(p, s->posinf, s->count, "Inf");
        put_alarm(p, s->neginf, s->count, "-Inf");
    }
    if (facts->note != NULL) {
        put(p, TT_MOOD_PLAIN, "  ");
        put_untrusted(p, TT_MOOD_FAINT, facts->note);
    }
}

/* Draws the histogram into cells, if there is anything to draw. */
static tt_status draw_hist(line *p)
{
    const tt_stats *s = p->facts->stats;
    tt_kind kind = s != NULL ? tt_dtype_kind((tt_dtype)s->dtype) : TT_KIND_BOOL;
    const tt_hist *hist = kind != TT_KIND_BOOL ? p->facts->hist : NULL;
    size_t count = hist != NULL ? tt_hist_bins(hist, NULL, 0) : 0;
    tt_hist_bin *bins = malloc((count + 1) * sizeof *bins); /* owned */
    if (bins == NULL)
        return TT_ENOMEM;
    if (count > 0)
        p->cell_count = tt_spark_cells(bins, tt_hist_bins(hist, bins, count), s->min, s->max,
                                       kind == TT_KIND_INT || kind == TT_KIND_UINT, p->cells);
    free(bins);
    return TT_OK;
}

tt_status tt_facts_line(const tt_facts *facts, const tt_style *style, tt_buf *out)
{
    static const unsigned plans[] = { EVERYTHING, RANGE | MEAN | ZEROS, RANGE | MEAN, RANGE, 0 };
    line p = { .out = out, .style = style, .facts = facts };
    size_t from = out->len;
    tt_status st = draw_hist(&p);
    if (st < 0)
        return st;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        tt_buf_cut(out, from);
        put_line(&p, plans[i]);
        if (out->st < 0 || style->columns <= 0 ||
            tt_glyph_columns(out->data + from, TT_TRUST_INK, style) <= (size_t)style->columns)
            break;
    }
    if (tt_glyph_cut(out, from, style) < 0)
        tt_buf_cut(out, from); /* nothing is written on failure */
    return out->st;
}

tt_status tt_point_line(const tt_point *p, tt_buf *out)
{
    if ((p->products & TT_PRODUCT_STATS) == 0) {
        char number[TT_NUMBER_TEXT];
        (void)tt_number_short(p->scalar, number);
        return tt_buf_text(out, number);
    }
    const tt_facts facts = { .dtype = tt_dtype_name((tt_dtype)p->stats.dtype),
                             .shape = p->ndim >= 0 ? p->shape : NULL,
                             .ndim = p->ndim,
                             .stats = &p->stats };
    return tt_facts_line(&facts, &(tt_style){ 0 }, out);
}
