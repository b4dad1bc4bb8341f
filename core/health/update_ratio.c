/* update_ratio.c -- updates that are large beside the weights that they change.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

/* A step changes a weight by about a thousandth in most trainings; whoever replaces a third of it at
 * each step forgets what was learned. */
static const double LARGE = 0.3, BESIDE_OTHERS = 0.05, TIMES_OTHERS = 20;

static void find(tt_case *c)
{
    const tt_course *course;
    double typical = tt_case_typical(c, TT_COURSE_UPDATE), worst = 0;
    int64_t first = 0, last = 0;
    for (int32_t at = 0; (course = tt_case_next(c, TT_COURSE_UPDATE, &at)) != NULL;) {
        double ratio = tt_course_median(course);
        if (course->points < TT_COURSE_RECENT || !(ratio > BESIDE_OTHERS) ||
            !(ratio > LARGE || ratio > TIMES_OTHERS * typical))
            continue;
        worst = ratio > worst ? ratio : worst;
        first = course->first_step;
        last = course->last_step;
        tt_case_add(c, course);
    }
    if (c->suspect_count == 0)
        return;
    tt_case_number(c, "ratio", worst);
    tt_case_number(c, "typical", typical);
    const char *others = isnan(typical) ? ""
                                        : tt_case_join(c, ", where a typical weight changes by %s%%",
                                                       tt_case_text(c, typical * 100));
    tt_case_say(c, TT_SEVERITY_WARNING, first, last,
                "%s: each step changes the weight by %s%% of its size%s", tt_case_place(c),
                tt_case_text(c, worst * 100), others);
}

TT_RULE(update_ratio, "update-ratio", WARNING, "tensortap/update/*",
        "The updates of a weight are large beside the weight itself.",
        "lower the learning rate of these parameters; about 0.1% a step is usual");
