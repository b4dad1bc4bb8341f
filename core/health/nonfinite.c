/* nonfinite.c -- the first NaN or Inf of a run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"
#include "report/origin.h"

#include <math.h>
#include <stdlib.h>

TT_RULE(nonfinite, "nonfinite", ERROR, /* looks at */ "any site",
        "A value is NaN or Inf; the finding names where the first one was born.",
        /* what to do */
        "'tensortap nan RUN' shows what it was computed from; look for a division, a log or a "
        "root there, and lower the learning rate if an update wrote it",
        /* hides */
        "divergence,loss-spike,loss-stuck,gradient-exploding,gradient-vanishing,gradient-missing,growth,"
        "saturation,dead-units,update-ratio,weights-unchanged,half-overflow,unlike-baseline")

/* What the finding is about. */
typedef struct first {
    const tt_history *where;
    const tt_course *course; /* NULL: there is none */
    int64_t step, nan, inf;
    tt_birth birth;
    bool is_eval, is_number;
    long long sites, ranks; /* that it reached */
} first;

/* As `tensortap nan` finds it. */
static first read_first(const tt_case *c, const tt_nonfinite *origin)
{
    first f = { .where = c->histories };
    if (origin->site < 0 || origin->point.is_skipped || origin->file >= c->history_count)
        return f;
    const tt_point *p = &origin->point;
    bool has_stats = (p->products & TT_PRODUCT_STATS) != 0;
    f = (first){ .where = &c->histories[origin->file],
                 .step = p->step,
                 .nan = has_stats ? p->stats.nan : isnan(p->scalar),
                 .inf = has_stats ? p->stats.posinf + p->stats.neginf : isinf(p->scalar),
                 .birth = origin->birth,
                 .is_eval = p->phase == TT_PHASE_EVAL,
                 .is_number = !has_stats,
                 .sites = origin->reached,
                 .ranks = origin->files };
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
        f.sites += course->has_bad;
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
        f.step = bad->step;
        f.nan = bad->nan;
        f.inf = bad->inf;
        f.is_eval = bad->is_eval;
        f.is_number = origin->is_number;
        f.birth = tt_order_birth(&origin->when, has_updates);
        f.sites += origin->badness == TT_BAD_MASKED;
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
    const first f = c->origin != NULL ? read_first(c, c->origin) : find_first(c);
    if (f.course == NULL)
        return;
    const char *what = f.nan > 0 && f.inf > 0 ? "NaN and Inf" : f.nan > 0 ? "NaN" : "Inf";
    c->history = f.where;
    tt_case_add(c, f.course);
    tt_case_number(c, "nan", (double)f.nan);
    tt_case_number(c, "inf", (double)f.inf);
    tt_case_number(c, "sites", (double)f.sites);
    tt_case_steps(c, f.step, f.step);
    tt_case_say(c, TT_SEVERITY_ERROR, "%s: the first %s%s at step %lld%s; %s%s%s", f.course->name, what,
                f.course->dtype == TT_F16 && f.inf > 0 ? " (float16 ends at 65504)" : "",
                (long long)f.step, f.is_eval ? ", in evaluation" : "",
                f.is_number ? "a number that was logged" : tt_birth_phrase(f.birth),
                f.sites > 1 ? tt_case_join(c, "; it reached %lld sites", f.sites) : "",
                f.ranks > 1
                    ? tt_case_join(c, "%s %lld ranks", f.sites > 1 ? " of" : "; it reached", f.ranks)
                    : "");
}
