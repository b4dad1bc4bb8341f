/* description.c -- one line about a tensor.
 *
 * Exists so that `tt.show`, the command line and the logs describe a tensor in
 * the same words.  What matters most when something is wrong, NaN and Inf, is
 * given up last when the line has to be short.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"
#include "report/glyph.h"
#include "report/spark.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a line that may be left out. */
enum { RANGE = 1, MEAN = 2, ZEROS = 4, SPARK = 8, EVERYTHING = 15 };

typedef struct description {
    tt_facts facts;
    double cells[TT_SPARK_CELLS]; /* of the histogram */
    size_t cell_count;            /* 0: no sparkline */
} description;

/* Where the line goes. */
typedef struct pen {
    tt_buf *out;
    const tt_style *style;
} pen;

static void put(pen *p, const char *text)
{
    (void)tt_buf_text(p->out, text);
}

static void put_ink(pen *p, tt_ink ink)
{
    (void)tt_glyph_ink(p->out, ink, p->style);
}

static void put_inked(pen *p, tt_ink ink, const char *text)
{
    put_ink(p, ink);
    put(p, text);
    put_ink(p, TT_INK_PLAIN);
}

/* Text of somebody else. */
static void put_foreign(pen *p, tt_ink ink, const char *text)
{
    put_ink(p, ink);
    (void)tt_glyph_append(p->out, text, TT_TRUST_NONE, p->style);
    put_ink(p, TT_INK_PLAIN);
}

static void put_i64(pen *p, int64_t x)
{
    (void)tt_buf_printf(p->out, "%" PRId64, x);
}

static void put_short(pen *p, double x)
{
    char text[TT_NUMBER_TEXT];
    (void)tt_number_short(x + 0.0, text); /* -0 is no news here */
    put(p, text);
}

static void put_complex(pen *p, double real, double imag)
{
    put_short(p, real);
    put(p, signbit(imag) != 0 && imag != 0 ? "" : "+");
    put_short(p, imag);
    put(p, "j");
}

/* "37%", never 0% or 100% of what is not none or all. */
static void put_percent(pen *p, int64_t part, int64_t whole)
{
    double percent = 100 * ((double)part / (double)whole);
    if (percent < 1)
        put(p, "<1%");
    else if (percent > 99 && part < whole)
        put(p, ">99%");
    else
        (void)tt_buf_printf(p->out, "%d%%", (int)(percent + 0.5));
}

/* The smallest or largest value, as its type writes it. */
static void put_bound(pen *p, const tt_stats *s, bool is_max)
{
    switch (tt_dtype_kind((tt_dtype)s->dtype)) {
    case TT_KIND_INT:
    case TT_KIND_UINT:
    case TT_KIND_BOOL:
        if (s->dtype == TT_U64)
            (void)tt_buf_printf(p->out, "%" PRIu64, (uint64_t)(is_max ? s->imax : s->imin));
        else
            put_i64(p, is_max ? s->imax : s->imin);
        return;
    case TT_KIND_FLOAT:
    case TT_KIND_COMPLEX:
        put_short(p, is_max ? s->max : s->min);
        return;
    }
}

static void put_head(pen *p, const tt_facts *facts)
{
    put_foreign(p, TT_INK_TYPE, facts->dtype != NULL ? facts->dtype : "tensor");
    if (facts->shape != NULL && facts->ndim > 0) {
        for (int32_t d = 0; d < facts->ndim; d++) {
            put(p, d == 0 ? "[" : ", ");
            put_i64(p, facts->shape[d]);
        }
        put(p, "]");
    }
    if (facts->device != NULL) {
        put(p, " ");
        put_foreign(p, TT_INK_PLACE, facts->device);
    }
}

/* The value of a tensor that has only one: all its digits. */
static void put_value(pen *p, const tt_stats *s)
{
    char text[TT_NUMBER_TEXT];
    if (tt_stats_finite(s) == 0)
        return; /* the alarm says it */
    put(p, "  ");
    if (s->dtype == TT_BOOL) {
        put(p, s->zeros == 1 ? "false" : "true");
    } else if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX) {
        put_complex(p, s->mean, tt_stats_mean_imag(s));
    } else if (s->dtype == TT_F64 || s->dtype == TT_F32) {
        (void)(s->dtype == TT_F64 ? tt_number_f64(s->min, text) : tt_number_f32((float)s->min, text));
        put(p, text);
    } else {
        put_bound(p, s, false);
    }
}

static void put_truth(pen *p, const tt_stats *s)
{
    put(p, "  ");
    if (s->zeros == s->count || s->zeros == 0) {
        put_inked(p, TT_INK_REMARK, s->zeros == 0 ? "all true" : "all false");
    } else {
        put_percent(p, s->count - s->zeros, s->count);
        put(p, " true");
    }
}

static void put_range(pen *p, const tt_stats *s)
{
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX)
        put_inked(p, TT_INK_FAINT, "  |z| ");
    else
        put(p, "  ");
    put_bound(p, s, false);
    put_inked(p, TT_INK_FAINT, p->style->is_ascii ? " .. " : " … ");
    put_bound(p, s, true);
}

static void put_mean(pen *p, const tt_stats *s)
{
    put_inked(p, TT_INK_FAINT, "  mean ");
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX) {
        put_complex(p, s->mean, tt_stats_mean_imag(s));
        return; /* the spread of |z| would not be one around this mean */
    }
    put_short(p, s->mean);
    double std = tt_stats_std(s);
    if (!isnan(std)) {
        put_inked(p, TT_INK_FAINT, p->style->is_ascii ? " +- " : " ± ");
        put_short(p, std);
    }
}

static void put_spark(pen *p, const description *line)
{
    put(p, "  ");
    put_ink(p, TT_INK_SPARK);
    (void)tt_spark_append(line->cells, line->cell_count, p->style, p->out);
    put_ink(p, TT_INK_PLAIN);
}

static void put_values(pen *p, const description *line, unsigned parts)
{
    const tt_stats *s = line->facts.stats;
    int64_t finite = tt_stats_finite(s);
    tt_kind kind = tt_dtype_kind((tt_dtype)s->dtype);
    if (finite == 0)
        return;
    if (kind == TT_KIND_BOOL) {
        put_truth(p, s);
    } else if (s->zeros == s->count) {
        put(p, "  ");
        put_inked(p, TT_INK_REMARK, "all zero");
    } else if (s->min == s->max && (kind != TT_KIND_COMPLEX || s->max == 0)) {
        put(p, "  ");
        put_inked(p, TT_INK_REMARK, "constant ");
        put_bound(p, s, false);
    } else {
        if (parts & RANGE)
            put_range(p, s);
        if (parts & MEAN)
            put_mean(p, s);
        if ((parts & ZEROS) && kind == TT_KIND_FLOAT && s->zeros >= s->count - s->zeros) {
            put_ink(p, TT_INK_FAINT);
            put(p, "  ");
            put_percent(p, s->zeros, s->count);
            put(p, " zero");
            put_ink(p, TT_INK_PLAIN);
        }
        if ((parts & SPARK) && line->cell_count > 0)
            put_spark(p, line);
    }
}

static void put_alarm(pen *p, int64_t part, int64_t whole, const char *name)
{
    if (part == 0)
        return;
    put(p, "  ");
    put_ink(p, TT_INK_ALARM);
    if (part == whole && whole > 1) {
        put(p, "all ");
    } else if (whole > 1) {
        put_i64(p, part);
        put(p, " ");
    }
    put(p, name);
    if (part < whole && part >= whole / 100 && whole >= 100) {
        put(p, " (");
        put_percent(p, part, whole);
        put(p, ")");
    }
    put_ink(p, TT_INK_PLAIN);
}

static bool is_empty(const tt_facts *facts)
{
    for (int32_t d = 0; facts->shape != NULL && d < facts->ndim; d++)
        if (facts->shape[d] == 0)
            return true;
    return facts->stats != NULL && facts->stats->count == 0;
}

static void put_line(pen *p, const description *line, unsigned parts)
{
    const tt_facts *facts = &line->facts;
    const tt_stats *s = facts->stats;
    put_head(p, facts);
    if (is_empty(facts)) {
        put(p, "  ");
        put_inked(p, TT_INK_REMARK, "empty");
    } else if (s != NULL) {
        if (s->count == 1)
            put_value(p, s);
        else
            put_values(p, line, parts);
        put_alarm(p, s->nan, s->count, "NaN");
        put_alarm(p, s->posinf, s->count, "Inf");
        put_alarm(p, s->neginf, s->count, "-Inf");
    }
    if (facts->note != NULL) {
        put(p, "  ");
        put_foreign(p, TT_INK_FAINT, facts->note);
    }
}

/* Draws the histogram into cells; 0: there is nothing to draw. */
static tt_status draw_hist(const tt_facts *facts, description *line)
{
    const tt_stats *s = facts->stats;
    tt_kind kind = s != NULL ? tt_dtype_kind((tt_dtype)s->dtype) : TT_KIND_BOOL;
    size_t count = facts->hist != NULL && kind != TT_KIND_BOOL ? tt_hist_bins(facts->hist, NULL, 0) : 0;
    if (count == 0)
        return TT_OK;
    tt_hist_bin *bins = malloc(count * sizeof *bins); /* owned */
    if (bins == NULL)
        return TT_ENOMEM;
    (void)tt_hist_bins(facts->hist, bins, count);
    bool is_whole = kind == TT_KIND_INT || kind == TT_KIND_UINT;
    line->cell_count = tt_spark_cells(bins, count, s->min, s->max, is_whole, line->cells);
    free(bins);
    return TT_OK;
}

tt_status tt_facts_line(const tt_facts *facts, const tt_style *style, tt_buf *out)
{
    static const unsigned plans[] = { EVERYTHING, RANGE | MEAN | ZEROS, RANGE | MEAN, RANGE, 0 };
    description line = { .facts = *facts };
    pen p = { .out = out, .style = style };
    size_t from = out->len;
    tt_status st = draw_hist(facts, &line);
    if (st < 0)
        return st;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        tt_buf_cut(out, from);
        put_line(&p, &line, plans[i]);
        if (out->st < 0 || style->columns <= 0 ||
            tt_glyph_columns(out->data + from, TT_TRUST_INK, style) <= (size_t)style->columns)
            break;
    }
    if (tt_glyph_cut(out, from, style) < 0)
        tt_buf_cut(out, from); /* nothing is written on failure */
    return out->st;
}
