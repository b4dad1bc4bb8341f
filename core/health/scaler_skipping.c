/* scaler_skipping.c -- a GradScaler that skips one step after the other.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

enum { MOST = 8 }; /* a scaler that begins at 65536 and halves its scale may skip a few at first */

static void find(tt_case *c)
{
    const tt_course *course, *worst = NULL;
    for (int32_t at = 0; (course = tt_case_next(c, TT_COURSE_GRADIENT, &at)) != NULL;)
        if (worst == NULL || course->skipped_points > worst->skipped_points)
            worst = course;
    for (int32_t i = 0; i < c->history->count; i++) { /* of gradients that were never used */
        course = &c->history->courses[i];
        if (course->kind == TT_COURSE_GRADIENT &&
            (worst == NULL || course->skipped_points > worst->skipped_points))
            worst = course;
    }
    if (worst == NULL || worst->skipped_points < MOST || worst->skipped_points * 4 < worst->points)
        return;
    long long skipped = worst->skipped_points, used = worst->points;
    tt_case_add(c, worst);
    tt_case_number(c, "skipped", (double)skipped);
    tt_case_number(c, "used", (double)used);
    tt_case_say(
        c, TT_SEVERITY_ERROR, -1, worst->last_skipped_step,
        "%lld of %lld steps were skipped because gradients were not finite, the last at step %lld: "
        "%s among them",
        skipped, skipped + used, (long long)worst->last_skipped_step, worst->tail);
}

TT_RULE(scaler_skipping, "scaler-skipping", ERROR, "gradient/*",
        "A GradScaler keeps skipping steps because gradients are not finite.",
        "find what overflows with 'tensortap nan RUN'; use bfloat16, or a smaller loss",
        .hides = "weights-unchanged,loss-stuck");
