/* evaluation_in_train_mode.c -- forward passes without gradients in training mode.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(evaluation_in_train_mode, "evaluation-in-train-mode", WARNING, LIKELY,
        /* looks at */ "calls of the model",
        "The model is evaluated in training mode: dropout is on, and batch norm learns from the "
        "test data.",
        /* what to do */ "call model.eval() before the evaluation, and model.train() after it",
        /* hides */ NULL)

static void find(tt_case *c)
{
    c->has_data = c->history->count > 0;
    TT_EACH(c, course, NO_GRAD) {
        long long calls = course->points;
        const char *kinds = tt_modes_that_matter(c, course->tail);
        /* Evaluations are rarer than steps; a checkpoint runs the model without gradients each time. */
        if (calls < 2 || kinds == NULL || calls * 2 - 1 > c->history->last_step)
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "calls", (double)calls);
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "%s ran without gradients in training mode %lld times, first after step %lld: %s",
                    course->tail, calls, (long long)course->first_step, kinds);
    }
    tt_modes_find_parts(c, true);
}
