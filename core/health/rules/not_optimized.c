/* not_optimized.c -- parameters that get gradients and are in no optimizer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(not_optimized, "not-optimized", WARNING, CERTAIN, /* looks at */ "tensortap/state/*",
        "Parameters get gradients, but no optimizer holds them.",
        /* what to do */
        "give model.parameters() to the optimizer, after the model is complete and was not "
        "copied; set requires_grad=False for what is meant to stay",
        /* hides */ "weights-unchanged")

static void find(tt_case *c)
{
    const int found = TT_STATE_REQUIRES_GRAD | TT_STATE_HAS_GRAD;
    long long trainable = 0;
    TT_EACH(c, course, STATE) {
        trainable += ((int)course->latest & TT_STATE_REQUIRES_GRAD) != 0;
        if (((int)course->latest & (found | TT_STATE_IS_OPTIMIZED)) == found)
            tt_case_add(c, course);
    }
    long long missing = (long long)c->suspect_count;
    tt_case_number(c, "parameters", (double)missing);
    tt_case_number(c, "trainable", (double)trainable);
    tt_case_steps(c, c->found.last_step, c->found.last_step);
    tt_case_say(c, missing == trainable ? TT_SEVERITY_ERROR : TT_SEVERITY_WARNING,
                "%s: %s no optimizer updates %s", tt_case_subject(c),
                missing == trainable ? "gradients arrive in every parameter, but"
                                     : "gradients arrive, but",
                missing == 1 ? "it" : "them");
}
