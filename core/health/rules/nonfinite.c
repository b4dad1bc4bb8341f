/* nonfinite.c -- the first NaN or Inf of a run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"
#include "report/origin.h"

#include <stdlib.h>

TT_RULE(nonfinite, "nonfinite", ERROR, CERTAIN, /* looks at */ "any site",
        "A value is NaN or Inf; the finding names where the first one was born.",
        /* what to do */
        "'tensortap nan RUN' shows what it was computed from; look for a division, a log or a "
        "root there, and lower the learning rate if an update wrote it",
        /* hides */
        "divergence,loss-spike,loss-stuck,gradient-exploding,gradient-vanishing,gradient-missing,growth,"
        "saturation,dead-units,update-ratio,weights-unchanged,half-overflow,unlike-baseline")

/* What the finding is about. */
typedef struct first {
    tt_origin origin;
    const tt_history *where;
    const tt_course *course; /* NULL: there is none */
} first;

/* As `tensortap nan` finds it. */
static first read_first(const tt_case *c, const tt_nonfinite *origin)
{
    const tt_evidence *e = c->evidence;
    first f = { .where = e->histories };
    if (origin->site < 0 || origin->point.is_skipped || origin->file >= e->rank_count)
        return f;
    f.origin = tt_origin_of(origin, NULL);
    f.where = tt_case_is_joined(c) ? c->history : &e->histories[origin->file];
    for (const tt_course *at = NULL; f.course == NULL && (at = tt_history_next(f.where, at)) != NULL;)
        f.course = at->site == origin->site ? at : NULL;
    return f;
}

static tt_candidate candidate_of(const tt_case *c, const tt_course *course, const tt_sighting *p)
{
    tt_rank_in_step kind = tt_order_kind(course->name);
    const tt_course *of = tt_history_of(
        c->history, course, kind == TT_ORDER_BACKWARD ? TT_COURSE_ACTIVATION : TT_COURSE_PARAMETER);
    bool is_of_all = kind == TT_ORDER_GRADIENT || kind == TT_ORDER_NORM;
    return (tt_candidate){
        .when = { .step = p->step,
                  .time = p->time,
                  .round = is_of_all ? TT_ROUND_ALL : p->round,
                  .kind = kind,
                  .place = tt_order_place_of(kind, course->site, of != NULL ? of->site : -1),
                  .is_eval = p->is_eval },
        .site = course->site,
        .badness = p->is_masked ? TT_BAD_MASKED : TT_BAD_FOR_CERTAIN,
        .is_number = course->dtype < 0,
        .is_new = course->is_masked_later && !p->is_mask && course->kind == TT_COURSE_ACTIVATION,
    };
}

/* The same while a run is written: its points are seen as they come. */
static first find_first(tt_case *c)
{
    first f = { .where = c->history };
    size_t count = 0;
    tt_candidate *all = calloc(2 * (size_t)c->history->count + 1, sizeof *all); /* owned */
    if (all == NULL) {
        c->st = TT_ENOMEM;
        return f;
    }
    TT_EACH_COURSE(c, course) {
        const char *allow = c->history->allow;
        if (!tt_site_is_shown(course->name, NULL) ||
            (allow != NULL && tt_glob_match(allow, course->name)))
            continue;
        f.origin.sites += course->has_bad;
        if (course->has_bad)
            all[count++] = candidate_of(c, course, &course->bad);
        if (course->has_masked)
            all[count++] = candidate_of(c, course, &course->masked);
    }
    const tt_candidate *origin = tt_origin_choose(all, count);
    TT_EACH_COURSE(c, course) {
        if (origin == NULL || course->site != origin->site)
            continue;
        const tt_sighting *bad = origin->badness == TT_BAD_MASKED ? &course->masked : &course->bad;
        bool has_updates = tt_case_next(c, TT_COURSE_GRADIENT, NULL) != NULL;
        f.course = course;
        f.origin.step = bad->step;
        f.origin.nan = bad->nan;
        f.origin.inf = bad->inf;
        f.origin.is_eval = bad->is_eval;
        f.origin.is_number = origin->is_number;
        f.origin.is_half = course->dtype == TT_F16;
        f.origin.birth = tt_order_birth(&origin->when, has_updates);
        f.origin.is_initial = f.origin.birth == TT_BIRTH_UPDATE && course->first_step == bad->step;
        f.origin.sites += origin->badness == TT_BAD_MASKED;
    }
    free(all);
    return f;
}

/* One finding for all ranks: what is not finite on one reaches the others with its gradients. */
static void find(tt_case *c)
{
    c->has_data = true;
    if (!tt_case_is_first(c))
        return;
    const tt_nonfinite *origin = c->evidence->origin;
    first f = origin != NULL ? read_first(c, origin) : find_first(c);
    if (f.course == NULL)
        return;
    tt_buf sentence = { 0 };
    f.origin.name = f.course->name;
    c->history = f.where;
    if (origin != NULL && c->evidence->rank_count > 1)
        tt_case_ranks(c, &c->evidence->origin_rank, 1);
    c->found.kind = TT_ANSWER_ORIGIN;
    tt_case_add(c, f.course);
    tt_case_number(c, "nan", (double)f.origin.nan);
    tt_case_number(c, "inf", (double)f.origin.inf);
    tt_case_number(c, "sites", (double)f.origin.sites);
    tt_case_steps(c, f.origin.step, f.origin.step);
    c->st = tt_origin_say(&f.origin, &sentence);
    if (c->st == TT_OK)
        tt_case_say(c, TT_SEVERITY_ERROR, "%s", sentence.data);
    tt_buf_free(&sentence);
}
