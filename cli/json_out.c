/* json_out.c -- answers as JSON, for --json, on standard output.
 *
 * An answer may be longer than memory, so it is printed while it is written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"

#include <stdio.h>

static void print(tt_buf *text)
{
    if (text->len > 0)
        (void)fwrite(text->data, 1, text->len, stdout); /* main looks for failures */
    tt_buf_free(text);
}

tt_json *tt_json_begin(tt_json_out *out, char bracket)
{
    *out = (tt_json_out){ .json = { .out = &out->text, .is_compact = true, .drain = print } };
    tt_json_open(&out->json, NULL, bracket);
    return &out->json;
}

tt_status tt_json_print(tt_json_out *out, tt_status st)
{
    while (out->json.depth > 0 && out->text.st == TT_OK) /* also after a failure: the rest parses */
        tt_json_close(&out->json);
    tt_status written = tt_json_finish(&out->json);
    print(&out->text);
    putchar('\n');
    return st < 0 ? st : written;
}

void tt_json_point(tt_json *json, const char *name, const tt_point *p)
{
    static const char *const phases[] = { "none", "train", "eval" };
    if (name != NULL)
        tt_json_open(json, name, '{');
    tt_json_i64(json, "step", p->step);
    tt_json_i64(json, "call", (int64_t)p->call);
    tt_json_i64(json, "time", p->time);
    tt_json_text(json, "phase", p->phase < TT_PHASE_COUNT_ ? phases[p->phase] : "none");
    if (p->is_skipped)
        tt_json_bool(json, "skipped", true);
    if ((p->products & TT_PRODUCT_SCALAR) != 0)
        tt_json_f64(json, "value", p->scalar);
    if ((p->products & TT_PRODUCT_STATS) != 0) {
        const tt_stats *s = &p->stats;
        bool is_known = s->dtype >= 0 && s->dtype < TT_DTYPE_COUNT_;
        tt_json_text(json, "dtype", is_known ? tt_dtype_name((tt_dtype)s->dtype) : NULL);
        tt_json_i64(json, "count", s->count);
        tt_json_i64(json, "nan", s->nan);
        tt_json_i64(json, "posinf", s->posinf);
        tt_json_i64(json, "neginf", s->neginf);
        tt_json_i64(json, "zeros", s->zeros);
        tt_json_f64(json, "min", s->min);
        tt_json_f64(json, "max", s->max);
        tt_json_f64(json, "absmax", s->absmax);
        tt_json_f64(json, "sum", s->sum);
        tt_json_f64(json, "mean", s->mean);
        tt_json_f64(json, "std", tt_stats_std(s));
        tt_json_f64(json, "l1", s->l1);
        tt_json_f64(json, "l2", tt_stats_l2(s));
        tt_json_f64(json, "rms", tt_stats_rms(s));
    }
    if (p->ndim >= 0) {
        tt_json_open(json, "shape", '[');
        for (int32_t d = 0; d < p->ndim; d++)
            tt_json_i64(json, NULL, p->shape[d]);
        tt_json_close(json);
    }
    if (name != NULL)
        tt_json_close(json);
}
