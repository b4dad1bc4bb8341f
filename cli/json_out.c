/* json_out.c -- answers as JSON.
 *
 * Exists beside the core's writer because programs over tensortap.h have none, and
 * an answer is streamed: it may be longer than memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void put_text(const char *text)
{
    tt_buf quoted = { 0 };
    if (tt_json_quote(text, &quoted) == TT_OK)
        (void)fwrite(quoted.data, 1, quoted.len, stdout);
    else
        fputs("null", stdout); /* out of memory */
    tt_buf_free(&quoted);
}

static void begin(tt_json_out *json, const char *name)
{
    if (json->has_items)
        putchar(',');
    if (json->depth == 1 && json->has_items)
        putchar('\n'); /* one member of the answer a line: for people and for grep */
    json->has_items = true;
    if (name != NULL) {
        put_text(name);
        putchar(':');
    }
}

void tt_json_open(tt_json_out *json, const char *name, char bracket)
{
    begin(json, name);
    putchar(bracket);
    json->has_items = false;
    json->depth++;
}

void tt_json_close(tt_json_out *json, char bracket)
{
    putchar(bracket);
    json->has_items = true;
    if (--json->depth == 0)
        putchar('\n');
}

void tt_json_words(tt_json_out *json, const char *name, const char *text)
{
    begin(json, name);
    if (text != NULL)
        put_text(text);
    else
        fputs("null", stdout);
}

void tt_json_number(tt_json_out *json, const char *name, double x)
{
    char text[TT_NUMBER_TEXT];
    begin(json, name);
    (void)tt_number_f64(x, text);
    fputs(isnan(x) ? "\"NaN\"" : isinf(x) ? (x > 0 ? "\"Infinity\"" : "\"-Infinity\"") : text, stdout);
}

void tt_json_whole(tt_json_out *json, const char *name, int64_t x)
{
    begin(json, name);
    printf("%" PRId64, x);
}

void tt_json_flag(tt_json_out *json, const char *name, bool x)
{
    begin(json, name);
    fputs(x ? "true" : "false", stdout);
}

void tt_json_point(tt_json_out *json, const tt_point *p)
{
    static const char *const phases[] = { "none", "train", "eval" };
    tt_json_whole(json, "step", p->step);
    tt_json_whole(json, "call", (int64_t)p->call);
    tt_json_whole(json, "time", p->time);
    tt_json_words(json, "phase", p->phase < TT_PHASE_COUNT_ ? phases[p->phase] : "none");
    if (p->is_skipped)
        tt_json_flag(json, "skipped", true);
    if ((p->products & TT_PRODUCT_SCALAR) != 0)
        tt_json_number(json, "value", p->scalar);
    if ((p->products & TT_PRODUCT_STATS) != 0) {
        const tt_stats *s = &p->stats;
        bool is_known = s->dtype >= 0 && s->dtype < TT_DTYPE_COUNT_;
        tt_json_words(json, "dtype", is_known ? tt_dtype_name((tt_dtype)s->dtype) : NULL);
        tt_json_whole(json, "count", s->count);
        tt_json_whole(json, "nan", s->nan);
        tt_json_whole(json, "posinf", s->posinf);
        tt_json_whole(json, "neginf", s->neginf);
        tt_json_whole(json, "zeros", s->zeros);
        const struct {
            const char *name;
            double x;
        } numbers[] = { { "min", s->min }, { "max", s->max },        { "absmax", s->absmax },
                        { "sum", s->sum }, { "mean", s->mean },      { "std", tt_stats_std(s) },
                        { "l1", s->l1 },   { "l2", tt_stats_l2(s) }, { "rms", tt_stats_rms(s) } };
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            tt_json_number(json, numbers[i].name, numbers[i].x);
    }
    if (p->ndim >= 0) {
        tt_json_open(json, "shape", '[');
        for (int32_t d = 0; d < p->ndim; d++)
            tt_json_whole(json, NULL, p->shape[d]);
        tt_json_close(json, ']');
    }
}
