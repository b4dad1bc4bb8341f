/* weights_unchanged.c -- weights that an optimizer holds and does not change.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(weights_unchanged, "weights-unchanged", WARNING,
        /* looks at */ "parameter/* and tensortap/state/*",
        "An optimizer holds weights that do not change.",
        /* what to do */
        "set requires_grad=True if it is to learn, or leave it out of the optimizer; look for a "
        "learning rate that is too small for its type",
        /* hides */ "loss-stuck")

enum { ENOUGH = 8 }; /* steps */

/* Those that are frozen, or those that should learn. */
static void find_some(tt_case *c, bool is_frozen)
{
    int64_t since = INT64_MAX;
    TT_EACH(c, course, PARAMETER) {
        const tt_course *state = tt_history_of(c->history, course, TT_COURSE_STATE);
        if (state == NULL || course->same_run < ENOUGH)
            continue;
        int bits = (int)state->latest;
        bool is_this =
            (bits & TT_STATE_IS_OPTIMIZED) != 0 && ((bits & TT_STATE_REQUIRES_GRAD) == 0) == is_frozen;
        /* An expert of a mixture may be idle for a while; whose gradient always arrives is not. */
        const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
        bool is_due =
            gradient != NULL && gradient->points + 2 >= course->points && gradient->zero_run == 0;
        is_due = is_due && tt_course_is_weight(course); /* a bias before a batch norm has almost none */
        if (!is_this || (!is_frozen && !is_due))
            continue;
        int64_t from = course->last_step - course->same_run;
        since = from < since ? from : since;
        tt_case_add(c, course);
    }
    long long found = (long long)c->suspect_count;
    tt_case_number(c, "parameters", (double)found);
    tt_case_steps(c, since, c->found.last_step);
    if (is_frozen)
        tt_case_say(c, TT_SEVERITY_WARNING, "%s: requires_grad=False, although an optimizer holds %s",
                    tt_case_place(c), found == 1 ? "it" : "them");
    else
        tt_case_say(c, TT_SEVERITY_WARNING, "%s: unchanged since step %lld, although gradients arrive",
                    tt_case_place(c), (long long)since);
}

static void find(tt_case *c)
{
    find_some(c, true);
    find_some(c, false);
}
