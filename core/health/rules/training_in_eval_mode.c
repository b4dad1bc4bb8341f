/* training_in_eval_mode.c -- steps whose forward pass ran in evaluation mode.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(training_in_eval_mode, "training-in-eval-mode", WARNING, LIKELY,
        /* looks at */ "calls of the model",
        "The model is trained while it is in evaluation mode, so that dropout and batch norm are "
        "off.",
        /* what to do */ "call model.train() before the training loop, and again after each evaluation",
        /* hides */ NULL)

enum { ENOUGH = 5 };

static void find(tt_case *c)
{
    c->has_data = c->history->count > 0;
    TT_EACH(c, course, WITH_GRAD) {
        long long steps = course->points;
        const char *kinds = tt_modes_that_matter(c, course->tail);
        if (steps < ENOUGH || kinds == NULL)
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "steps", (double)steps);
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "%s was trained in evaluation mode for %lld steps, from step %lld to %lld: %s",
                    course->tail, steps, (long long)course->first_step, (long long)course->last_step,
                    kinds);
    }
    tt_modes_find_parts(c, false);
}
