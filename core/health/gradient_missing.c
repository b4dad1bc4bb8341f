/* gradient_missing.c -- gradients that never arrive, although they should.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(gradient_missing, "gradient-missing", WARNING, /* looks at */ "parameter/* and tensortap/state/*",
        "An optimizer holds parameters whose gradient is None or 0 all the time.",
        /* what to do */
        "look for detach(), .data, no_grad() or zero_grad() between the loss and the step, and "
        "for outputs that the loss does not use",
        /* hides */ "weights-unchanged,loss-stuck,gradient-vanishing")

enum { ENOUGH = 8 }; /* steps */

static void find(tt_case *c)
{
    long long expected = 0, none = 0;
    int64_t since = INT64_MAX;
    TT_EACH(c, course, PARAMETER) {
        if (!tt_case_is_optimized(c, course) || course->points < ENOUGH)
            continue;
        expected++;
        const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
        const tt_course *state = tt_history_of(c->history, course, TT_COURSE_STATE);
        bool is_none = (gradient == NULL || gradient->points + gradient->skipped_points == 0) &&
                       ((int)state->latest & TT_STATE_HAS_GRAD) == 0; /* a sparse one cannot be read */
        bool is_zero = !is_none && gradient != NULL && gradient->zero_run >= ENOUGH &&
                       gradient->zero_run * 2 >= gradient->points;
        if (!is_none && !is_zero)
            continue;
        int64_t from = is_none ? course->first_step : gradient->last_step - gradient->zero_run + 1;
        none += is_none;
        since = from < since ? from : since;
        tt_case_add(c, course);
    }
    long long found = (long long)c->suspect_count;
    tt_case_number(c, "parameters", (double)found);
    tt_case_number(c, "trainable", (double)expected);
    since = since < 0 ? 0 : since;
    tt_case_steps(c, since, c->found.last_step);
    tt_case_say(c, found == expected ? TT_SEVERITY_ERROR : TT_SEVERITY_WARNING,
                "%s: %s since step %lld, although an optimizer is to update %s", tt_case_place(c),
                none == found ? "no gradient has arrived"
                : none == 0   ? "the gradient has been 0"
                              : "the gradient has been 0 or missing",
                (long long)since, found == 1 ? "it" : "them");
}
