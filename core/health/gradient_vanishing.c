/* gradient_vanishing.c -- gradients that are nothing beside those of other layers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(gradient_vanishing, "gradient-vanishing", WARNING, /* looks at */ "gradient/*",
        "The gradient of a weight is less than a hundred-thousandth of another layer's.",
        /* what to do */
        "add residual connections or norms, use ReLU or GELU in place of sigmoid, and look at the "
        "initialisation",
        /* hides */ "loss-stuck,weights-unchanged")

static const double SMALL = 1e-5; /* of the largest gradient of a weight */

/* The size of its gradient, of a weight that has a history; 0: none. */
static double size_of(const tt_course *course)
{
    return tt_course_is_warm(course) && tt_course_is_weight(course) ? tt_course_median(course) : 0;
}

static void find(tt_case *c)
{
    const tt_course *strongest = NULL, *weakest = NULL;
    TT_EACH(c, course, GRADIENT)
        if (size_of(course) > (strongest != NULL ? size_of(strongest) : 0))
            strongest = course;
    if (strongest == NULL)
        return;
    TT_EACH(c, course, GRADIENT) {
        bool is_weight = tt_course_is_warm(course) && tt_course_is_weight(course);
        if (!is_weight || course->zero_run > 0 || !(size_of(course) < SMALL * size_of(strongest)))
            continue;
        if (weakest == NULL || size_of(course) < size_of(weakest))
            weakest = course;
        tt_case_add(c, course);
    }
    if (weakest == NULL)
        return;
    tt_case_number(c, "least", size_of(weakest));
    tt_case_number(c, "most", size_of(strongest));
    tt_case_say(c, TT_SEVERITY_WARNING,
                "%s: the gradient has almost vanished: its size is %s, that of %s is %s",
                tt_case_place(c), tt_case_text(c, size_of(weakest)), strongest->tail,
                tt_case_text(c, size_of(strongest)));
}
