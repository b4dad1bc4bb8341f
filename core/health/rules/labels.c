/* labels.c -- labels that the loss cannot take.
 *
 * Nobody has to read them: a cross entropy of probabilities is never negative, unless its labels, or
 * what it calls probabilities, are none.  A class that does not exist ends the program.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <string.h>

TT_RULE(labels, "labels", ERROR, CERTAIN, /* looks at */ "calls of the model",
        "Labels are outside of the range that the loss takes.",
        /* what to do */
        "binary cross entropy takes labels from 0 to 1, cross entropy classes from 0 to the number of "
        "logits less one, nll_loss the output of log_softmax",
        /* hides */ "divergence,gradient-exploding")

static const double NEGATIVE = -0.01; /* rounding does not explain it */
enum { ENOUGH = 3 };                  /* points */

static void find(tt_case *c)
{
    static const char *const whys[] = {
        [TT_LOSS_BINARY_CROSS_ENTROPY] = "a binary cross entropy, so labels are outside of 0 to 1",
        [TT_LOSS_NLL] = "an nll_loss, so its inputs are no logarithms of probabilities",
    };
    c->has_data = c->history->count > 0;
    const char *target = c->history->stopped != NULL ? strstr(c->history->stopped, "Target ") : NULL;
    if (target != NULL && strstr(target, "out of bounds") != NULL) {
        TT_EACH(c, course, BATCH)
            tt_case_add(c, course);
        c->is_of_run = true;
        tt_case_steps(c, c->history->last_step, c->history->last_step);
        tt_case_say(c, TT_SEVERITY_ERROR,
                    "a label is no class of the model, and ended the program: %.80s", target);
    }
    TT_EACH(c, made, LABELS) {
        const tt_course *loss = tt_history_of(c->history, made, TT_COURSE_LOSS);
        int by = (int)made->latest;
        if (loss == NULL || loss->points < ENOUGH || !(loss->latest < NEGATIVE) ||
            !(tt_course_median(loss) < NEGATIVE) ||
            (by != TT_LOSS_BINARY_CROSS_ENTROPY && by != TT_LOSS_NLL))
            continue;
        tt_case_add(c, loss);
        tt_case_number(c, "loss", loss->latest);
        tt_case_say(c, TT_SEVERITY_ERROR, "%s is %s; it is %s", loss->name, tt_case_text(c, loss->latest),
                    whys[by]);
    }
}
