/* scaler_skipping.c -- a GradScaler that skips one step after the other.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(scaler_skipping, "scaler-skipping", ERROR, CERTAIN, /* looks at */ "gradient/*",
        "A GradScaler keeps skipping steps because gradients are not finite.",
        /* what to do */ "find what overflows with 'tensortap nan RUN'; use bfloat16, or a smaller loss",
        /* hides */ "weights-unchanged,loss-stuck")

enum { MOST = 8 }; /* a scaler that begins at 65536 and halves its scale may skip a few at first */

static void find(tt_case *c)
{
    const tt_course *worst = NULL;
    TT_EACH_COURSE(c, course) { /* also of gradients that were never used */
        if (course->kind == TT_COURSE_GRADIENT &&
            (worst == NULL || course->skipped_points > worst->skipped_points))
            worst = course;
    }
    c->has_data = worst != NULL;
    if (worst == NULL || worst->skipped_points < MOST || worst->skipped_points * 4 < worst->points)
        return;
    long long skipped = worst->skipped_points, used = worst->points;
    tt_case_add(c, worst);
    tt_case_number(c, "skipped", (double)skipped);
    tt_case_number(c, "used", (double)used);
    tt_case_steps(c, -1, worst->last_skipped_step);
    tt_case_say(
        c, TT_SEVERITY_ERROR,
        "%lld of %lld steps were skipped because gradients were not finite, the last at step %lld: "
        "%s among them",
        skipped, skipped + used, (long long)worst->last_skipped_step, worst->tail);
}
