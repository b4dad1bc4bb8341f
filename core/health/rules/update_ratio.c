/* update_ratio.c -- updates that are large beside the weights that they change.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(update_ratio, "update-ratio", WARNING, LIKELY, /* looks at */ "tensortap/update/*",
        "The updates of a weight are large beside the weight itself.",
        /* what to do */ "lower the learning rate of these parameters; about 0.1% a step is usual",
        /* hides */ NULL)

/* A step changes a weight by about a thousandth in most trainings; whoever replaces a third of it at
 * each step forgets what was learned. */
static const double LARGE = 0.3, BESIDE_OTHERS = 0.05, TIMES_OTHERS = 20;

static void find(tt_case *c)
{
    double typical = tt_case_typical(c, TT_COURSE_UPDATE), worst = 0;
    TT_EACH(c, course, UPDATE) {
        double ratio = tt_course_median(course);
        if (course->points < TT_COURSE_RECENT || !(ratio > BESIDE_OTHERS) ||
            !(ratio > LARGE || ratio > TIMES_OTHERS * typical))
            continue;
        worst = ratio > worst ? ratio : worst;
        tt_case_add(c, course);
    }
    tt_case_number(c, "ratio", worst);
    tt_case_number(c, "typical", typical);
    const char *others = isnan(typical) ? ""
                                        : tt_case_join(c, ", where a typical weight changes by %s%%",
                                                       tt_case_text(c, typical * 100));
    tt_case_say(c, TT_SEVERITY_WARNING, "%s: each step changes the weight by %s%% of its size%s",
                tt_case_subject(c), tt_case_text(c, worst * 100), others);
}
