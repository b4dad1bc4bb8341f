/* half_overflow.c -- float16 values near the largest one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(
    half_overflow, "half-overflow", WARNING, LIKELY,
    /* looks at */ "activation/*, gradient/* or parameter/*",
    "A float16 tensor comes near the largest number of its type.",
    /* what to do */ "use bfloat16 or float32 there, or scale the values down; a norm before it helps",
    /* hides */ NULL)

static const double LARGEST = 65504, NEAR = 0.5; /* of the largest */

static void find(tt_case *c)
{
    const tt_course *worst = NULL;
    TT_EACH_COURSE(c, course) {
        bool is_tensor = course->kind == TT_COURSE_ACTIVATION || course->kind == TT_COURSE_GRADIENT ||
                         course->kind == TT_COURSE_PARAMETER;
        if (!is_tensor || course->points == 0)
            continue;
        c->has_data = true;
        if (course->dtype == TT_F16 && course->absmax >= NEAR * LARGEST &&
            (worst == NULL || course->absmax_step < worst->absmax_step))
            worst = course;
    }
    if (worst == NULL)
        return;
    tt_case_add(c, worst);
    tt_case_number(c, "absmax", worst->absmax);
    tt_case_number(c, "largest", LARGEST);
    tt_case_steps(c, worst->absmax_step, worst->last_step);
    tt_case_say(c, TT_SEVERITY_WARNING, "%s reaches %s at step %lld; float16 ends at 65504", worst->name,
                tt_case_text(c, worst->absmax), (long long)worst->absmax_step);
}
