/* divergence.c -- a loss that has grown instead of falling.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(divergence, "divergence", ERROR, /* looks at */ "a loss",
        "The loss is several times what it was at first.",
        /* what to do */
        "lower the learning rate, warm it up, or clip gradients; look at the sign of the loss",
        /* hides */ "loss-spike,update-ratio")

static const double FAR = 3, VERY_FAR = 10; /* times what it was at first */
enum { ENOUGH = 20 };                       /* points */

/* Has it grown since the first steps?  A loss that exploded within them has not, but is far away. */
static bool has_grown(const tt_course *course, double now, double before)
{
    double scale = fabs(before) > course->spread ? fabs(before) : course->spread;
    return now > before + (FAR - 1) * scale &&
           (now > course->early || now > before + (VERY_FAR - 1) * fabs(before));
}

static void find(tt_case *c)
{
    TT_EACH_LOSS(c, course) {
        double now = tt_course_median(course), before = course->first;
        if (course->points < ENOUGH || !has_grown(course, now, before))
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "first", before);
        tt_case_number(c, "now", now);
        tt_case_say(c, TT_SEVERITY_ERROR,
                    "%s has grown: it was %s at step %lld and is about %s at step %lld", course->name,
                    tt_case_text(c, before), (long long)course->first_step, tt_case_text(c, now),
                    (long long)course->last_step);
    }
}
