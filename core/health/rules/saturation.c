/* saturation.c -- tanh and sigmoid whose outputs are at their ends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(saturation, "saturation", WARNING, LIKELY, /* looks at */ "activation/*",
        "The outputs of a tanh or sigmoid inside the model are at their ends, where nothing is "
        "learned.",
        /* what to do */ "scale its inputs down: smaller weights, a norm before it, normalised data",
        /* hides */ "gradient-vanishing")

/* The derivative of tanh is 1 - y^2, that of the sigmoid y (1 - y); its mean says how much passes. */
static double passes(const tt_course *course)
{
    double square = course->level * course->level;
    return tt_course_is_of(course, "Tanh") ? 1 - square : 4 * (course->mean - square);
}

static const double LITTLE = 0.15; /* of the largest derivative */

/* Does a module of the same model run after it?  A probability at the end may well be certain. */
static bool is_last(const tt_case *c, const tt_course *course)
{
    TT_EACH_COURSE(c, other) {
        if (other->kind == TT_COURSE_ACTIVATION && other->site > course->site &&
            tt_course_is_of(other, "*Linear*,*Conv*"))
            return false;
    }
    return true;
}

static void find(tt_case *c)
{
    double least = 1;
    c->has_data = false;
    TT_EACH(c, course, ACTIVATION) {
        if (!tt_course_is_warm(course) || !tt_course_is_of(course, "Tanh,Sigmoid,Hardtanh,Hardsigmoid") ||
            passes(course) > LITTLE || is_last(c, course))
            continue;
        double share = passes(course);
        least = share < least ? share : least;
        tt_case_add(c, course);
    }
    tt_case_number(c, "derivative", least);
    tt_case_say(c, TT_SEVERITY_WARNING,
                "%s: the outputs are at their ends; only %s%% of the gradient passes", tt_case_place(c),
                tt_case_text(c, least * 100));
}
