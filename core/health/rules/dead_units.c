/* dead_units.c -- units behind a ReLU that never let anything through.
 *
 * The gradient of a bias is one number for each unit, and 0 for a unit that was silent in the whole batch,
 * wherever the ReLU is: a module, or a function that nobody sees.  The recorder notes which units had no
 * gradient for a while.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(dead_units, "dead-units", WARNING, LIKELY, /* looks at */ "tensortap/silent/*",
        "Half of a layer's units or more have not had a gradient for a while.",
        /* what to do */
        "lower the learning rate, look at the bias and its initialisation, or use a LeakyReLU or "
        "GELU",
        /* hides */ "gradient-missing,gradient-vanishing,loss-stuck,weights-unchanged")

static const double MANY = 0.5; /* of the units */
static const double MOST = 0.9; /* of what a dead share of units explains, because shares are smoothed */
enum { FEWEST = 8 };            /* units */

/* Does the weight of these units say the same?  The gradient of a bias is 0 also where the bias cancels, as
 * in f(a) - f(b); then that of the weight is not. */
static bool is_confirmed(const tt_case *c, const tt_course *gradient, double dead)
{
    if (!tt_course_is_bias(gradient))
        return true;
    const tt_course *weight = tt_case_beside(c, gradient);
    const tt_course *silent = weight != NULL ? tt_history_of(c->history, weight, TT_COURSE_SILENT) : NULL;
    if (silent != NULL && silent->latest >= MANY)
        return false; /* the weight of a norm has one number for each unit, too, and says it */
    return weight != NULL && weight->values > 0 && weight->zeros >= MOST * dead;
}

static void find(tt_case *c)
{
    const tt_course *last = NULL;
    TT_EACH(c, course, SILENT) {
        const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
        if (gradient == NULL || gradient->elements < FEWEST || course->latest < MANY ||
            !is_confirmed(c, gradient, course->latest))
            continue;
        if (course->latest == 1) { /* nor does anything arrive in the layers before it */
            last = course;
            continue;
        }
        double units = (double)gradient->elements, dead = course->latest * units;
        tt_case_add(c, gradient);
        tt_case_number(c, "units", units);
        tt_case_number(c, "dead", dead);
        tt_case_steps(c, course->first_step, course->last_step);
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "%s: %.0f of %.0f units have had no gradient for a while: they are dead",
                    course->tail, dead, units);
    }
    if (last == NULL)
        return;
    /* Does anything arrive behind it?  If not, the gradient is lost elsewhere. */
    bool is_alive = false;
    TT_EACH_COURSE(c, course) {
        is_alive |= course->kind == TT_COURSE_GRADIENT && course->points > 0 && course->zero_run == 0 &&
                    course->ndim == 1;
    }
    const tt_course *gradient = tt_history_of(c->history, last, TT_COURSE_GRADIENT);
    const tt_course *bias = tt_history_of(c->history, last, TT_COURSE_PARAMETER);
    if (!is_alive || gradient == NULL || bias == NULL)
        return;
    tt_case_add(c, gradient);
    tt_case_number(c, "units", (double)gradient->elements);
    tt_case_number(c, "dead", (double)gradient->elements);
    tt_case_steps(c, last->first_step, last->last_step);
    tt_case_say(
        c, TT_SEVERITY_ERROR,
        "%s: no gradient has reached any of its %lld units for a while: they, or all units behind "
        "them, are dead",
        last->tail, (long long)gradient->elements);
}
