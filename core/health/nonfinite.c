/* nonfinite.c -- the first NaN or Inf of a run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"
#include "report/order.h"

TT_RULE(nonfinite, "nonfinite", ERROR, /* looks at */ "any site",
        "A value is NaN or Inf; the finding names where the first one was born.",
        /* what to do */
        "'tensortap nan RUN' shows what it was computed from; look for a division, a log or a "
        "root there, and lower the learning rate if an update wrote it",
        /* hides */
        "divergence,loss-spike,loss-stuck,gradient-exploding,gradient-vanishing,gradient-missing,growth,"
        "saturation,dead-units,update-ratio,weights-unchanged,half-overflow,unlike-baseline")

/* Where a course stands within a step: tt_order_place, without a run. */
static int32_t place_of(const tt_case *c, const tt_course *course)
{
    if (course->kind != TT_COURSE_GRADIENT)
        return course->site;
    const tt_course *parameter = tt_history_of(c->history, course, TT_COURSE_PARAMETER);
    return INT32_MAX - 1 - (parameter != NULL ? parameter->site : course->site);
}

static tt_moment moment_of(const tt_case *c, const tt_course *course)
{
    return (tt_moment){ .step = course->bad.step,
                        .time = course->bad.time,
                        .kind = tt_order_kind(course->name),
                        .place = place_of(c, course),
                        .is_eval = course->bad.is_eval };
}

static bool is_before(const tt_case *c, const tt_course *a, const tt_course *b)
{
    const tt_moment x = moment_of(c, a), y = moment_of(c, b);
    return tt_order_is_before(&x, &y);
}

/* Returns the first course of a file that was not finite; NULL: none. */
static const tt_course *find_first(const tt_case *c, long long *reached)
{
    const tt_course *first = NULL, *loss = NULL;
    TT_EACH_COURSE(c, course) {
        if (!course->has_bad || !tt_site_is_shown(course->name, NULL))
            continue;
        ++*reached;
        if (first == NULL || is_before(c, course, first))
            first = course;
        if (course->kind == TT_COURSE_LOSS && (loss == NULL || is_before(c, course, loss)))
            loss = course;
    }
    /* The program logs a number at any time, and most often the number is the loss. */
    bool is_logged = first != NULL && first->kind == TT_COURSE_OTHER && first->dtype < 0;
    return is_logged && loss != NULL && loss->bad.step == first->bad.step ? loss : first;
}

/* One finding for all ranks: what is not finite on one reaches the others with its gradients. */
static void find(tt_case *c)
{
    const tt_course *first = NULL;
    const tt_history *where = NULL;
    tt_moment moment = { 0 };
    long long reached = 0, ranks = 0;
    c->has_data = true;
    if (!tt_case_is_first(c))
        return;
    for (int32_t i = 0; i < c->history_count; i++) {
        long long sites = 0;
        c->history = &c->histories[i];
        const tt_course *one = find_first(c, &sites);
        const tt_moment then = one != NULL ? moment_of(c, one) : moment;
        ranks += one != NULL;
        reached = sites > reached ? sites : reached;
        if (one != NULL && (first == NULL || tt_order_is_before(&then, &moment))) {
            first = one;
            moment = then;
            where = c->history;
        }
    }
    c->history = where != NULL ? where : c->histories;
    if (first == NULL)
        return;
    tt_birth birth = tt_order_birth(&moment, tt_case_next(c, TT_COURSE_GRADIENT, NULL) != NULL);
    bool is_logged = birth == TT_BIRTH_FORWARD && first->dtype < 0;
    tt_case_add(c, first);
    tt_case_number(c, "nan", (double)first->bad.nan);
    tt_case_number(c, "inf", (double)first->bad.inf);
    tt_case_number(c, "sites", (double)reached);
    bool has_both = first->bad.nan > 0 && first->bad.inf > 0;
    tt_case_steps(c, first->bad.step, first->bad.step);
    tt_case_say(c, TT_SEVERITY_ERROR, "%s: the first %s%s at step %lld%s; %s%s%s", first->name,
                has_both             ? "NaN and Inf"
                : first->bad.nan > 0 ? "NaN"
                                     : "Inf",
                first->dtype == TT_F16 && first->bad.inf > 0 ? " (float16 ends at 65504)" : "",
                (long long)first->bad.step, first->bad.is_eval ? ", in evaluation" : "",
                is_logged ? "a number that was logged" : tt_birth_phrase(birth),
                reached > 1 ? tt_case_join(c, "; it reached %lld sites", reached) : "",
                ranks > 1 ? tt_case_join(c, "%s %lld ranks", reached > 1 ? " of" : "; it reached", ranks)
                          : "");
}
