/* evaluation_graphs.c -- evaluations that build graphs which nobody uses.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(evaluation_graphs, "evaluation-graphs", WARNING, CERTAIN, /* looks at */ "calls of the model",
        "The model is evaluated with gradients, and no backward follows: memory and time for nothing.",
        /* what to do */
        "evaluate within torch.no_grad() or torch.inference_mode(); keep loss.item(), not the loss: it "
        "holds the "
        "whole graph",
        /* hides */ NULL)

enum { ENOUGH = 3 }; /* calls */

static void find(tt_case *c)
{
    c->has_data = c->history->count > 0;
    TT_EACH(c, course, GRAPH) {
        const tt_course *output = tt_history_of(c->history, course, TT_COURSE_ACTIVATION);
        long long calls = course->points + 1; /* of the first one the second tells */
        if (course->points < ENOUGH)
            continue;
        tt_case_add(c, output != NULL ? output : course);
        tt_case_number(c, "calls", (double)calls);
        tt_case_steps(c, course->first_step, course->last_step);
        tt_case_say(
            c, TT_SEVERITY_WARNING,
            "%s was called at least %lld times in evaluation mode with gradients that no backward used",
            course->tail, calls);
    }
}
