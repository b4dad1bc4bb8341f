/* value.c -- what a run has under a key.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_runs_value_free(tt_runs_value *value)
{
    free(value->name);
    free(value->text);
    *value = (tt_runs_value){ 0 };
}

tt_status tt_runs_value_set(tt_runs_value *out, const char *name, const char *text)
{
    char *end = NULL;
    tt_runs_value made = { .name = strdup(name), .text = strdup(text) };
    if (made.name == NULL || made.text == NULL) {
        tt_runs_value_free(&made);
        return TT_ENOMEM;
    }
    made.number = strtod(text, &end);
    made.is_number = end != text && *end == '\0' && strpbrk(text, "xX") == NULL;
    tt_runs_value_free(out);
    *out = made;
    return TT_OK;
}

static tt_status set_setting(tt_runs_value *out, const char *name, const char *text)
{
    tt_status st = tt_runs_value_set(out, name, text);
    out->is_setting = st == TT_OK;
    return st;
}

/* Finds the last point of a site in the first file that has it; -1: there is none. */
static tt_status find_last(tt_run *run, int32_t site, tt_point *out)
{
    int64_t index = -1;
    tt_status st = TT_OK;
    for (int32_t f = 0; st == TT_OK && index < 0 && f < tt_run_file_count(run); f++)
        if (tt_run_points(run, f, site) > 0) {
            st = tt_run_latest(run, f, site, TT_PHASES_ALL, INT64_MAX, &index, NULL);
            if (st == TT_OK && index >= 0)
                st = tt_run_point(run, f, site, index, out, NULL);
        }
    return st < 0 ? st : index < 0 ? TT_EMISMATCH : TT_OK;
}

/* The number of a point; TT_EMISMATCH: it is a tensor's. */
static tt_status number_of(const tt_point *p, double *out)
{
    const tt_stats *s = &p->stats;
    if ((p->products & TT_PRODUCT_SCALAR) != 0)
        *out = p->scalar;
    else if ((p->products & TT_PRODUCT_STATS) != 0 && s->count == 1)
        *out = s->nan > 0      ? (double)NAN
               : s->posinf > 0 ? (double)INFINITY
               : s->neginf > 0 ? -(double)INFINITY
                               : s->mean;
    else
        return TT_EMISMATCH;
    return TT_OK;
}

tt_status tt_runs_value_read(tt_run *run, int32_t site, tt_runs_value *out)
{
    tt_point last;
    double x = 0;
    char text[TT_NUMBER_TEXT];
    tt_status st = find_last(run, site, &last);
    if (st == TT_OK)
        st = number_of(&last, &x);
    if (st < 0)
        return st == TT_ENOMEM ? st : TT_EMISMATCH; /* what is damaged is not there */
    (void)tt_number_short(x, text);
    st = tt_runs_value_set(out, tt_run_site_name(run, site), text);
    if (st == TT_OK) {
        out->number = x;
        out->is_number = true;
    }
    return st;
}

tt_status tt_runs_value_each(tt_run *run, const tt_settings *settings,
                             tt_status (*call)(void *self, const char *name, int32_t site,
                                               const char *setting),
                             void *self)
{
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++) {
        const char *name = tt_run_site_name(run, site);
        if (tt_site_is_shown(name, NULL) && tt_run_has_points(run, site))
            st = call(self, name, site, NULL);
    }
    for (size_t i = 0; st == TT_OK && i < settings->count; i++)
        st = call(self, settings->items[i].key, -1, settings->items[i].value);
    return st;
}

/* ---- the usual ones ---------------------------------------------------------- */

/* The first of these keys that is set; NULL: none. */
static const tt_setting *find_setting(const tt_settings *settings, const char *const keys[])
{
    for (; *keys != NULL; keys++)
        for (size_t i = 0; i < settings->count; i++)
            if (tt_glob_match(*keys, settings->items[i].key))
                return &settings->items[i];
    return NULL;
}

/* Finds the loss: what the program calls so, else what backward() was called on, else what is named after one. */
static tt_status find_loss(tt_run *run, tt_runs_value *out)
{
    static const char *const names[] = { "loss,train_loss,train/loss", "loss/*",
                                         "*train*loss*,*loss*train*", "*loss*" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int32_t site = 0; site < tt_run_site_count(run); site++) {
            const char *name = tt_run_site_name(run, site);
            if (!tt_site_is_shown(name, NULL) || !tt_glob_match(names[i], name))
                continue;
            tt_status st = tt_runs_value_read(run, site, out);
            if (st != TT_EMISMATCH)
                return st;
        }
    return TT_OK;
}

tt_status tt_runs_value_usual(tt_run *run, const tt_settings *settings, tt_runs_usual which,
                              tt_runs_value *out)
{
    static const char *const keys[TT_RUNS_USUAL_COUNT_][4] = {
        [TT_RUNS_LR] = { "optimizer/lr", "optimizer/group0/lr", "optimizer*/lr" },
        [TT_RUNS_BATCH] = { "batch/size", "batch*/size", "data/batch_size" },
    };
    if (which == TT_RUNS_LOSS)
        return find_loss(run, out);
    const tt_setting *found = find_setting(settings, keys[which]);
    return found != NULL ? set_setting(out, found->key, found->value) : TT_OK;
}

/* ---- by a key ----------------------------------------------------------------- */

typedef struct search {
    tt_run *run;
    const char *key;
    const char *ends[2]; /* names that end like the key, the first two */
    size_t end_count;
    tt_runs_value *out;
} search;

static tt_status look_at(void *self, const char *name, int32_t site, const char *setting)
{
    search *s = self;
    size_t len = strlen(name), key = strlen(s->key);
    bool is_end = len > key && name[len - key - 1] == '/' && strcmp(name + len - key, s->key) == 0;
    if (strcmp(name, s->key) == 0 && s->out->name == NULL) {
        tt_status st = setting != NULL ? set_setting(s->out, name, setting)
                                       : tt_runs_value_read(s->run, site, s->out);
        return st == TT_EMISMATCH ? TT_OK : st;
    }
    if (!is_end)
        return TT_OK;
    if (s->end_count < 2)
        s->ends[s->end_count] = name;
    s->end_count++;
    return TT_OK;
}

tt_status tt_runs_value_find(tt_run *run, const tt_settings *settings, const char *key,
                             tt_runs_value *out, tt_error *err)
{
    search exact = { .run = run, .key = key, .out = out };
    tt_status st = tt_runs_value_each(run, settings, look_at, &exact);
    if (st < 0 || out->name != NULL || exact.end_count == 0)
        return st;
    if (exact.end_count > 1)
        return tt_fail(
            err, TT_EINVAL,
            "'%.80s' is the end of several names, such as '%.100s' and '%.100s'; give one in full", key,
            exact.ends[0], exact.ends[1]);
    search whole = { .run = run, .key = exact.ends[0], .out = out };
    return tt_runs_value_each(run, settings, look_at, &whole);
}
