/* half_underflow.c -- float16 gradients that are too small for their type.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(
    half_underflow, "half-underflow", WARNING, LIKELY, /* looks at */ "gradient/*",
    "Gradients in float16 are so small that many become zero.",
    /* what to do */ "scale the loss with torch.amp.GradScaler, keep weights in float32, or use bfloat16",
    /* hides */ "gradient-missing,dead-units,weights-unchanged,gradient-vanishing,loss-stuck")

static const double NORMAL = 6.103515625e-05; /* the smallest float16 that keeps all its digits */

static void find(tt_case *c)
{
    double worst = 0, zeros = 0;
    TT_EACH(c, course, GRADIENT) {
        if (course->dtype != TT_F16 || !tt_course_is_warm(course) || course->zeros == 0)
            continue;
        double used = 1 - course->zeros; /* the root mean square of those that are not zero */
        double size = used > 0 ? course->level / sqrt(used) : 0;
        if (size >= NORMAL)
            continue;
        tt_case_add(c, course);
        zeros = course->zeros > zeros ? course->zeros : zeros;
        worst = size > worst ? size : worst;
    }
    tt_case_number(c, "zeros", zeros);
    tt_case_number(c, "rms", worst);
    tt_case_say(
        c, TT_SEVERITY_WARNING,
        "float16 gradients of %s are flushed to zero: up to %.0f%% are 0, the others are around %s; "
        "below 6.1e-05 float16 loses digits",
        tt_case_place(c), zeros * 100, tt_case_text(c, worst));
}
