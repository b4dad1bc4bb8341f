/* loss_stuck.c -- a loss that does not move although gradients arrive.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(loss_stuck, "loss-stuck", WARNING, LIKELY, /* looks at */ "a loss",
        "The loss is the same number step after step, and not because it is learned.",
        /* what to do */
        "look at what the loss is computed from: a constant output, a saturated softmax, data "
        "that do not change",
        /* hides */ NULL)

static const double STILL = 1e-5; /* of the loss */
enum { ENOUGH = 30 };             /* points */

static void find(tt_case *c)
{
    TT_EACH_LOSS(c, course) {
        double level = fabs(course->level);
        bool is_learned = level < 0.01 * fabs(course->first);
        if (course->points < ENOUGH || course->spread > STILL * level || is_learned)
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "loss", course->level);
        tt_case_number(c, "spread", course->spread);
        tt_case_steps(c, course->last_step - TT_COURSE_RECENT, course->last_step);
        tt_case_say(c, TT_SEVERITY_WARNING, "%s has stopped moving: it has been %s for at least %d steps",
                    course->name, tt_case_text(c, course->level), (int)TT_COURSE_RECENT);
    }
}
