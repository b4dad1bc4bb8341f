/* gradient_vanishing.c -- gradients that are nothing beside those of other layers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(gradient_vanishing, "gradient-vanishing", WARNING, LIKELY, /* looks at */ "gradient/*",
        "The gradient of a weight is less than a hundred-thousandth of another layer's.",
        /* what to do */
        "add residual connections or norms, use ReLU or GELU in place of sigmoid, and look at the "
        "initialisation",
        /* hides */ "loss-stuck,weights-unchanged")

static const double SMALL = 1e-5; /* of the largest gradient of a weight */

static bool is_sharded(const tt_case *c, const tt_course *course)
{
    const tt_course *state = tt_history_of(c->history, course, TT_COURSE_STATE);
    return state != NULL && ((int)state->latest & TT_STATE_IS_SHARDED) != 0;
}

/* The size of its gradient, of a weight that has a history; 0: none.  Of a weight that is spread over
 * ranks it is that of the largest part: a part may hold the rows of classes that never occur. */
static double size_of(const tt_case *c, const tt_course *course)
{
    if (!tt_course_is_weight(course))
        return 0;
    double size = tt_course_is_warm(course) ? tt_course_median(course) : 0;
    const tt_evidence *e = c->evidence;
    for (int32_t i = 0; i < e->history_count && e->history_count > 1 && is_sharded(c, course); i++) {
        const tt_course *part = tt_history_find(&e->histories[i], TT_COURSE_GRADIENT, course->tail, "");
        if (tt_course_is_warm(part) && tt_course_median(part) > size)
            size = tt_course_median(part);
    }
    return size;
}

/* A rank that is seen alone, while it trains, does not know the other parts. */
static bool is_whole(const tt_case *c, const tt_course *course)
{
    return tt_case_is_joined(c) || c->evidence->history_count > 1 || !is_sharded(c, course);
}

static void find(tt_case *c)
{
    const tt_course *strongest = NULL, *weakest = NULL;
    TT_EACH(c, course, GRADIENT)
        if (size_of(c, course) > (strongest != NULL ? size_of(c, strongest) : 0))
            strongest = course;
    if (strongest == NULL)
        return;
    TT_EACH(c, course, GRADIENT) {
        bool is_weight = tt_course_is_warm(course) && tt_course_is_weight(course);
        if (!is_weight || course->zero_run > 0 || !is_whole(c, course) ||
            !(size_of(c, course) < SMALL * size_of(c, strongest)))
            continue;
        if (weakest == NULL || size_of(c, course) < size_of(c, weakest))
            weakest = course;
        tt_case_add(c, course);
    }
    if (weakest == NULL)
        return;
    tt_case_number(c, "least", size_of(c, weakest));
    tt_case_number(c, "most", size_of(c, strongest));
    tt_case_say(c, TT_SEVERITY_WARNING,
                "%s: the gradient has almost vanished: its size is %s, that of %s is %s",
                tt_case_place(c), tt_case_text(c, size_of(c, weakest)), strongest->tail,
                tt_case_text(c, size_of(c, strongest)));
}
