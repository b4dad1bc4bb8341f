/* json.c -- answers as JSON, for --json, on standard output.
 *
 * An answer may be longer than memory, so it is printed while it is written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/json.h"

#include <stdio.h>

static void print(tt_buf *part)
{
    if (part->len > 0)
        (void)fwrite(part->data, 1, part->len, stdout); /* main looks for failures */
    tt_buf_clear(part);
}

static tt_buf text;
static tt_json answer;

tt_json *tt_json_begin(void)
{
    answer = (tt_json){ .out = &text, .is_compact = true, .drain = print };
    tt_json_open(&answer, NULL, '{');
    return &answer;
}

tt_json *tt_json_begin_schema(const char *list)
{
    tt_json *json = tt_json_begin();
    tt_json_i64(json, "schema", TT_JSON_SCHEMA);
    if (list != NULL)
        tt_json_open(json, list, '[');
    return json;
}

tt_status tt_json_end(tt_status st)
{
    while (answer.depth > 0 && text.st == TT_OK) /* also after a failure: the rest parses */
        tt_json_close(&answer);
    tt_status written = tt_json_finish(&answer);
    print(&text);
    tt_buf_free(&text);
    putchar('\n');
    return st < 0 ? st : written;
}

tt_numbers tt_json_numbers(const tt_point *p)
{
    const tt_stats *s = &p->stats;
    return (tt_numbers){ .counts = { s->count, s->nan, s->posinf, s->neginf, s->zeros },
                         .numbers = { s->min, s->max, s->absmax, s->sum, s->mean, tt_stats_std(s), s->l1,
                                      tt_stats_l2(s), tt_stats_rms(s) } };
}

const char *tt_json_dtype(const tt_point *p)
{
    bool is_known = p->stats.dtype >= 0 && p->stats.dtype < TT_DTYPE_COUNT_;
    return is_known ? tt_dtype_name((tt_dtype)p->stats.dtype) : NULL;
}

void tt_json_point(tt_json *json, const char *name, const tt_point *p)
{
    static const char *const phases[] = { "none", "train", "eval" };
    static const char *const counts[] = { "count", "nan", "posinf", "neginf", "zeros" };
    static const char *const numbers[] = {
        "min", "max", "absmax", "sum", "mean", "std", "l1", "l2", "rms"
    };
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
        tt_numbers n = tt_json_numbers(p);
        tt_json_text(json, "dtype", tt_json_dtype(p));
        for (size_t i = 0; i < TT_COUNTS; i++)
            tt_json_i64(json, counts[i], n.counts[i]);
        for (size_t i = 0; i < TT_NUMBERS; i++)
            tt_json_f64(json, numbers[i], n.numbers[i]);
    }
    if (p->ndim >= 0)
        tt_json_ints(json, "shape", p->shape, p->ndim);
    if (name != NULL)
        tt_json_close(json);
}

void tt_json_answers(tt_json *json, const tt_answers *answers)
{
    tt_json_open(json, "answers", '[');
    for (size_t i = 0; i < answers->count; i++) {
        tt_json_open(json, NULL, '{');
        tt_answer_json(json, &answers->items[i], SIZE_MAX);
        tt_json_close(json);
    }
    tt_json_close(json);
}
