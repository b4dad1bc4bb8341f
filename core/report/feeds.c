/* feeds.c -- what the first non-finite value of a run was computed from.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/instant.h"
#include "report/order.h"
#include "store/run.h"

#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 48 }; /* sites around the origin among which its inputs are looked for */

const char *tt_feed_text(tt_feed_kind kind)
{
    static const char *const texts[] = { "before", "parameter", "previous" };
    return texts[kind];
}

const char *tt_feed_phrase(tt_feed_kind kind)
{
    static const char *const phrases[] = { "fed by", "parameter", "last time" };
    return phrases[kind];
}

static tt_rank_in_step kind_of(const tt_run *run, int32_t site)
{
    return tt_order_kind(tt_run_site_name(run, site));
}

static bool has_stats(const tt_point *p)
{
    return (p->products & TT_PRODUCT_STATS) != 0;
}

typedef struct feeds {
    tt_run *run;
    const tt_nonfinite *of;
    tt_rank_in_step kind; /* of the origin */
    int64_t begin;        /* of its micro-batch */
    tt_feed *out;
    size_t cap, count;
} feeds;

static void add_feed(feeds *f, tt_feed_kind kind, int32_t site, int64_t index)
{
    tt_point p;
    if (f->count < f->cap && site >= 0 && index >= 0 &&
        tt_run_point(f->run, f->of->file, site, index, &p, NULL) == TT_OK) /* else it is damaged */
        f->out[f->count++] = (tt_feed){
            .kind = kind, .site = site, .name = tt_run_site_name(f->run, site), .index = index, .point = p
        };
}

/* Is the point finite, or a mask, which feeds as well? */
static tt_status check_fit(const feeds *f, int32_t site, int64_t index, bool *is_fit)
{
    tt_point p;
    tt_status st = tt_run_point(f->run, f->of->file, site, index, &p, NULL);
    const tt_stats *s = &p.stats;
    *is_fit = st == TT_OK &&
              ((s->nan | s->posinf | s->neginf) == 0 || !has_stats(&p) ||
               tt_value_is_masked(tt_run_site_name(f->run, site), NULL, s->nan, s->posinf, s->neginf));
    return st == TT_EFORMAT ? TT_OK : st;
}

/* May a point of this kind have fed the origin?  A loss never feeds a forward pass. */
static bool is_source(const feeds *f, tt_rank_in_step kind, int32_t site)
{
    switch (f->kind) {
    case TT_ORDER_FORWARD:
    case TT_ORDER_LOSS:
        return kind == TT_ORDER_FORWARD;
    case TT_ORDER_BACKWARD:
        return kind == TT_ORDER_BACKWARD || kind == TT_ORDER_LOSS;
    case TT_ORDER_GRADIENT: /* of those that were read together nobody knows */
        return kind == TT_ORDER_GRADIENT && f->of->together == 0 && !tt_order_is_unknown(f->run, site);
    case TT_ORDER_PARAMETER:
    case TT_ORDER_NORM:
        return false;
    }
    return false;
}

/* A point that may have fed the origin. */
typedef struct source {
    tt_moment when;
    int64_t index;
    int32_t site; /* -1: none */
} source;

/* Finds the latest point of a site before the origin, of its micro-batch and phase. */
static tt_status find_source(const feeds *f, const tt_moment *origin, int32_t site, tt_instants *points,
                             source *out)
{
    const tt_nonfinite *of = f->of;
    bool is_eval = of->point.phase == TT_PHASE_EVAL, is_fit = false;
    points->count = 0;
    tt_status st = tt_instants_read(f->run, of->file, site, of->point.step, points);
    out->site = -1;
    for (size_t i = points->count; st == TT_OK && !is_fit && i-- > 0;) {
        const tt_instant *p = &points->items[i];
        out->when = (tt_moment){ .time = p->time,
                                 .kind = kind_of(f->run, site),
                                 .place = tt_order_place(f->run, site) };
        out->index = p->index;
        if (p->has_stats && p->is_eval == is_eval && p->time >= f->begin &&
            tt_order_is_before(&out->when, origin))
            st = check_fit(f, site, p->index, &is_fit);
        out->site = is_fit ? site : -1;
    }
    return st;
}

/* Adds the two latest points before the origin that may have fed it. */
static tt_status add_before(feeds *f)
{
    const tt_nonfinite *of = f->of;
    const tt_moment origin = { .time = of->point.time,
                               .kind = f->kind,
                               .place = tt_order_place(f->run, of->site) };
    source latest[2] = { { .site = -1 }, { .site = -1 } }, one;
    int32_t from = of->site - NEIGHBOURS, to = of->site + NEIGHBOURS;
    tt_instants points = { 0 };
    tt_status st = TT_OK;
    for (int32_t site = from < 0 ? 0 : from;
         st == TT_OK && site < tt_run_site_count(f->run) && site <= to; site++) {
        if (site == of->site || !is_source(f, kind_of(f->run, site), site) ||
            !tt_site_is_shown(tt_run_site_name(f->run, site), NULL))
            continue;
        st = find_source(f, &origin, site, &points, &one);
        if (st < 0 || one.site < 0)
            continue;
        if (latest[0].site < 0 || tt_order_is_before(&latest[0].when, &one.when)) {
            latest[1] = latest[0];
            latest[0] = one;
        } else if (latest[1].site < 0 || tt_order_is_before(&latest[1].when, &one.when)) {
            latest[1] = one;
        }
    }
    free(points.items);
    for (int i = 0; i < 2; i++)
        add_feed(f, TT_FEED_BEFORE, latest[i].site, latest[i].index);
    return st;
}

/* Adds parameter/<module>.<name> of the module that returned the value; for the gradient of a
 * parameter, that parameter. */
static tt_status add_parameters(feeds *f, tt_error *err)
{
    static const char *const kinds[] = { "activation/", "activation_gradient/", "gradient/" };
    const char *name = tt_run_site_name(f->run, f->of->site), *module = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (tt_name_begins(name, kinds[i]))
            module = name + strlen(kinds[i]);
    size_t len = module != NULL ? strcspn(module, "[") : 0; /* [: one of several outputs */
    for (int32_t site = 0; module != NULL && site < tt_run_site_count(f->run); site++) {
        const char *other = tt_run_site_name(f->run, site);
        if (!tt_name_begins(other, "parameter/") ||
            strncmp(other + strlen("parameter/"), module, len) != 0)
            continue;
        const char *rest = other + strlen("parameter/") + len;
        int64_t index = -1;
        bool is_gradient = f->kind == TT_ORDER_GRADIENT, is_fit = false;
        if (is_gradient ? *rest != '\0' : *rest != '.' || strchr(rest + 1, '.') != NULL)
            continue; /* of another module */
        tt_status st = tt_run_seek(f->run, f->of->file, site, f->of->point.step, -1, 0, &index, err);
        if (st == TT_OK && index >= 0)
            st = check_fit(f, site, index, &is_fit);
        if (st < 0)
            return st;
        add_feed(f, TT_FEED_PARAMETER, site, is_fit ? index : -1);
    }
    return TT_OK;
}

/* Adds the gradient that an optimizer used, one step ago, to compute the parameter. */
static tt_status add_gradient(feeds *f, tt_error *err)
{
    const tt_nonfinite *of = f->of;
    const char *name = tt_run_site_name(f->run, of->site);
    int32_t site = tt_order_find(f->run, "gradient/", name + strlen("parameter/"), "");
    int64_t index = -1;
    tt_point before;
    tt_status st = tt_run_point(f->run, of->file, of->site, of->index - 1, &before, err);
    if (st == TT_OK && site >= 0)
        st = tt_run_seek(f->run, of->file, site, before.step, -1, 0, &index, err);
    if (st == TT_OK)
        add_feed(f, TT_FEED_BEFORE, site, index);
    return st;
}

/* Adds the point of the same site and phase before the origin. */
static tt_status add_previous(feeds *f, tt_error *err)
{
    const tt_nonfinite *of = f->of;
    uint32_t phases = of->point.phase == TT_PHASE_EVAL ? TT_PHASES_EVAL : TT_PHASES_TRAIN;
    int64_t index = -1;
    tt_status st = tt_run_latest(f->run, of->file, of->site, phases, of->index, &index, err);
    if (st == TT_OK)
        add_feed(f, TT_FEED_PREVIOUS, of->site, index);
    return st;
}

tt_status tt_run_feeds(tt_run *run, const tt_nonfinite *of, tt_feed *out, size_t cap, size_t *count,
                       tt_error *err)
{
    feeds f = { .run = run, .of = of, .begin = INT64_MIN, .out = out, .cap = cap };
    tt_status st = TT_OK;
    if (of->site >= 0) {
        tt_rounds rounds = { 0 };
        f.kind = kind_of(run, of->site);
        bool is_of_round = f.kind != TT_ORDER_GRADIENT && of->point.phase != TT_PHASE_EVAL;
        if (is_of_round)
            st = tt_rounds_read(run, of->file, of->point.step, &rounds);
        if (is_of_round && st == TT_OK)
            (void)tt_rounds_find(&rounds, of->point.time, &f.begin);
        tt_rounds_free(&rounds);
        if (st == TT_OK && of->birth != TT_BIRTH_UPDATE)
            st = add_before(&f);
        else if (st == TT_OK && of->index > 0)
            st = add_gradient(&f, err);
        if (st == TT_OK)
            st = add_parameters(&f, err);
        if (st == TT_OK)
            st = add_previous(&f, err);
    }
    if (st == TT_OK)
        *count = f.count;
    return st < 0 ? tt_fail_plain(err, st) : st;
}
