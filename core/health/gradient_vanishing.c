/* gradient_vanishing.c -- gradients that are nothing beside those of other layers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

static const double SMALL = 1e-5; /* of the largest gradient of a weight */

static void find(tt_case *c)
{
    const tt_course *course, *strongest = NULL;
    double most = 0, least = 0;
    int64_t first = 0, last = 0;
    for (int32_t at = 0; (course = tt_case_next(c, TT_COURSE_GRADIENT, &at)) != NULL;) {
        double now =
            tt_course_is_warm(course) && tt_course_is_weight(course) ? tt_course_median(course) : 0;
        if (now > most) {
            most = now;
            strongest = course;
        }
    }
    for (int32_t at = 0;
         strongest != NULL && (course = tt_case_next(c, TT_COURSE_GRADIENT, &at)) != NULL;) {
        if (!tt_course_is_warm(course) || !tt_course_is_weight(course) || course->zero_run > 0)
            continue;
        double now = tt_course_median(course);
        if (!(now < SMALL * most))
            continue;
        least = c->suspect_count == 0 || now < least ? now : least;
        first = course->first_step;
        last = course->last_step;
        tt_case_add(c, course);
    }
    if (c->suspect_count == 0)
        return;
    tt_case_number(c, "least", least);
    tt_case_number(c, "most", most);
    tt_case_say(c, TT_SEVERITY_WARNING, first, last,
                "%s: the gradient has almost vanished: its size is %s, that of %s is %s",
                tt_case_place(c), tt_case_text(c, least), strongest->tail, tt_case_text(c, most));
}

TT_RULE(gradient_vanishing, "gradient-vanishing", WARNING, "gradient/*",
        "The gradient of a weight is less than a hundred-thousandth of another layer's.",
        "add residual connections or norms, use ReLU or GELU in place of sigmoid, and look at the "
        "initialisation",
        .hides = "loss-stuck,weights-unchanged");
