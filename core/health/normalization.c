/* normalization.c -- a norm whose output is not normalised.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(normalization, "normalization", WARNING, /* looks at */ "activation/*",
        "The output of a norm has another size than its weight and bias give it.",
        /* what to do */
        "look at its mode (a batch norm in evaluation mode uses what it learned), its eps and its "
        "axes",
        /* hides */ NULL)

static const double FAR = 1.5; /* times what the weight and the bias of the norm explain */

/* The size that a norm's output should have.  Some classes multiply by 1 + weight. */
static double expected(const tt_case *c, const tt_course *course)
{
    const tt_course *weight = tt_history_find(c->history, TT_COURSE_PARAMETER, course->tail, ".weight");
    const tt_course *bias = tt_history_find(c->history, TT_COURSE_PARAMETER, course->tail, ".bias");
    double scale = weight != NULL ? weight->latest : 1, shift = bias != NULL ? bias->latest : 0;
    bool is_of_torch = tt_course_is_of(course, "BatchNorm*,LayerNorm,GroupNorm,InstanceNorm*,RMSNorm");
    if (!is_of_torch && fabs(course->level - scale - 1) < fabs(course->level - scale))
        scale += 1;
    return sqrt(scale * scale + shift * shift);
}

static void find(tt_case *c)
{
    double worst = 1, size = 0, wanted = 0;
    TT_EACH(c, course, ACTIVATION) {
        if (!tt_course_is_warm(course) ||
            !tt_course_is_of(course, "*BatchNorm*,*LayerNorm*,*GroupNorm*,*InstanceNorm*,*RMSNorm*,Norm"))
            continue;
        const tt_course *mode = tt_history_of(c->history, course, TT_COURSE_MODE);
        if (mode != NULL && mode->zero_points > 0)
            continue; /* in evaluation mode it uses what it learned, and is meant to */
        double should = expected(c, course), ratio = should > 0 ? course->level / should : 1;
        ratio = ratio < 1 && ratio > 0 ? 1 / ratio : ratio;
        if (ratio < FAR)
            continue;
        if (ratio > worst) {
            worst = ratio;
            size = course->level;
            wanted = should;
        }
        tt_case_add(c, course);
    }
    tt_case_number(c, "rms", size);
    tt_case_number(c, "expected", wanted);
    tt_case_say(c, TT_SEVERITY_WARNING,
                "%s: the output is not normalised: its size is %s, where its weight and bias make %s",
                tt_case_place(c), tt_case_text(c, size), tt_case_text(c, wanted));
}
