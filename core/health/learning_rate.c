/* learning_rate.c -- a learning rate of zero.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(learning_rate, "learning-rate", ERROR, /* looks at */ "learning_rate",
        "The learning rate is zero, from the beginning or since some step.",
        /* what to do */
        "look at the schedule: its number of steps, its warm-up, and whether it is stepped once a "
        "step",
        /* hides */ "weights-unchanged,loss-stuck,update-ratio")

enum {
    ENOUGH = 5, /* steps from the first on */
    LATER = 8,  /* the latest: a schedule that ends on 0 is followed by fewer */
};

static void find(tt_case *c)
{
    TT_EACH(c, course, RATE) {
        bool is_always = course->zero_run == course->points && course->points >= ENOUGH;
        if (!is_always && course->zero_run < LATER)
            continue;
        long long steps = course->zero_run;
        int64_t since = is_always ? course->first_step : course->last_step - course->zero_run + 1;
        tt_case_add(c, course);
        tt_case_number(c, "steps", (double)steps);
        tt_case_steps(c, since, course->last_step);
        if (is_always)
            tt_case_say(c, TT_SEVERITY_ERROR, "%s is 0 in all %lld steps: nothing is learned",
                        course->name, steps);
        else
            tt_case_say(
                c, TT_SEVERITY_WARNING,
                "%s has been 0 for %lld steps, since step %lld: the training has stopped learning",
                course->name, steps, (long long)since);
    }
}
