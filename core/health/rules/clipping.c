/* clipping.c -- gradients that are clipped to next to nothing in every step.
 *
 * A clip that is always active turns gradients into directions; one far below their norm leaves nothing of them.  Clipping
 * before GradScaler has unscaled them is the usual way to get there.  A division by a constant is no clip: the
 * factor of a clip changes with the norm.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(clipping, "clipping", WARNING, LIKELY, /* looks at */ "gradient/*",
        "Gradients are clipped to less than a hundredth of what backward computed, in every step.",
        /* what to do */
        "clip at about the usual norm of the gradients (gradient_norm in the run), or not at all",
        /* hides */ "weights-unchanged,loss-stuck,update-ratio")

static const char SCALED[] =
    "call scaler.unscale_(optimizer) before clip_grad_norm_: the norm is compared with that "
    "of scaled gradients";
static const double FAR = 0.01;    /* of the gradient */
static const double VARIES = 1e-4; /* a division by a constant does not */
enum { ENOUGH = 10 };              /* points */

static void find(tt_case *c)
{
    c->has_data = tt_case_next(c, TT_COURSE_GRADIENT, NULL) != NULL;
    TT_EACH(c, course, CLIP) {
        const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
        double now = tt_course_median(course);
        if (course->values < ENOUGH || !(course->first < FAR && course->early < FAR && now < FAR) ||
            !(course->spread > VARIES * course->level))
            continue;
        tt_case_add(c, gradient != NULL ? gradient : course);
        tt_case_number(c, "factor", now);
        tt_case_steps(c, course->first_step, course->last_step);
        c->remedy = tt_history_setting(c->history, "scaler/growth_factor") != NULL ? SCALED : NULL;
        tt_case_say(
            c, TT_SEVERITY_WARNING,
            "gradients are clipped in every step, to about %s of what backward computed (measured at %s)",
            tt_case_text(c, now), course->tail);
        return;
    }
}
