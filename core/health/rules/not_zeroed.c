/* not_zeroed.c -- gradients that nobody sets to zero, so that each step has all those before in it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(not_zeroed, "not-zeroed", ERROR, CERTAIN, /* looks at */ "gradient/*",
        "Gradients are never set to zero: each step has those of all steps before in it.",
        /* what to do */
        "call optimizer.zero_grad() before backward(), once a step, on the optimizer that holds these "
        "parameters",
        /* hides */ "gradient-exploding,divergence,update-ratio,loss-spike,growth,dead-units")

enum { ENOUGH = 8 }; /* steps */

static void find(tt_case *c)
{
    int64_t first = INT64_MAX, last = 0, steps = 0;
    c->has_data = tt_case_next(c, TT_COURSE_GRADIENT, NULL) != NULL;
    TT_EACH(c, course, ADDED) {
        const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
        if (course->points < ENOUGH)
            continue;
        tt_case_add(c, gradient != NULL ? gradient : course);
        first = course->first_step < first ? course->first_step : first;
        last = course->last_step > last ? course->last_step : last;
        steps = course->points > steps ? course->points : steps;
    }
    if (c->suspect_count == 0)
        return;
    tt_case_number(c, "parameters", (double)c->suspect_count);
    tt_case_number(c, "steps", (double)steps);
    tt_case_steps(c, first, last);
    tt_case_say(c, TT_SEVERITY_ERROR,
                "%s: nobody sets %s to zero, so that each step has those before in it",
                tt_case_subject(c), c->suspect_count == 1 ? "it" : "them");
}
