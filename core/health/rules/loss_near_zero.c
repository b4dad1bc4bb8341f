/* loss_near_zero.c -- a loss that is next to nothing before anything was learned.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(loss_near_zero, "loss-near-zero", WARNING, LIKELY, /* looks at */ "a loss",
        "The loss is 0 all the time, or a cross entropy is near zero from the first steps on.",
        /* what to do */
        "look at what the loss is computed from: a cross entropy of one class is 0, labels may be part "
        "of the "
        "inputs, a mask may leave nothing",
        /* hides */
        "gradient-missing,gradient-vanishing,weights-unchanged,loss-stuck,dead-units,not-optimized")

static const double NEAR = 0.02; /* of a model that knows nothing about two classes it is 0.69 */
enum { ENOUGH = 8 };             /* points */

static void find(tt_case *c)
{
    TT_EACH_LOSS(c, loss) {
        const tt_course *made = tt_history_of(c->history, loss, TT_COURSE_LABELS);
        bool is_zero = loss->values >= ENOUGH && loss->first == 0 && loss->early == 0 && loss->level == 0;
        bool is_near = made != NULL && loss->values >= ENOUGH && loss->first_step <= 1 &&
                       fabs(loss->first) < NEAR && fabs(loss->early) < NEAR;
        if (!is_zero && !is_near)
            continue;
        tt_case_add(c, loss);
        tt_case_number(c, "first", loss->first);
        if (is_zero)
            tt_case_say(c, TT_SEVERITY_ERROR, "%s is 0 in all %lld steps: there is nothing to learn from",
                        loss->name, (long long)loss->values);
        else
            tt_case_say(
                c, TT_SEVERITY_WARNING,
                "%s is %s at the first step: that of a model that has learned nothing is far larger",
                loss->name, tt_case_text(c, loss->first));
    }
}
