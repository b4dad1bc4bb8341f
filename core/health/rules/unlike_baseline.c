/* unlike_baseline.c -- sizes that a good run of the same training never had.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(unlike_baseline, "unlike-baseline", WARNING, LIKELY, /* looks at */ "a baseline",
        "Sizes are more than ten times beyond those of the run that was given as the baseline.",
        /* what to do */ "'tensortap diff BASELINE RUN' shows where the two runs part",
        /* hides */ NULL)

static const double FAR = 10; /* times the range of the good run */

static void find(tt_case *c)
{
    static const tt_course_kind kinds[] = { TT_COURSE_LOSS, TT_COURSE_ACTIVATION, TT_COURSE_GRADIENT,
                                            TT_COURSE_PARAMETER };
    c->has_data = true; /* nobody misses it without --baseline */
    for (size_t k = 0; c->evidence->baseline != NULL && k < sizeof kinds / sizeof *kinds; k++) {
        double worst = 1, size = 0, low = 0, high = 0;
        const tt_course *course = NULL;
        while ((course = tt_case_next(c, kinds[k], course)) != NULL) {
            const tt_course *good = tt_history_find(c->evidence->baseline, kinds[k], course->tail, "");
            bool is_bias = kinds[k] == TT_COURSE_GRADIENT && !tt_course_is_weight(course);
            if (!tt_course_is_warm(course) || !tt_course_is_warm(good) || is_bias || good->lowest <= 0)
                continue;
            double now = tt_course_median(course);
            double above = now / (good->highest * FAR), below = now > 0 ? good->lowest / (FAR * now) : 0;
            double by = above > below ? above : below;
            if (by < 1)
                continue;
            if (by > worst) {
                worst = by;
                size = now;
                low = good->lowest;
                high = good->highest;
            }
            tt_case_add(c, course);
        }
        tt_case_number(c, "size", size);
        tt_case_number(c, "baseline_low", low);
        tt_case_number(c, "baseline_high", high);
        tt_case_say(c, TT_SEVERITY_WARNING, "%s: the size is %s, where the baseline has %s to %s",
                    tt_case_subject(c), tt_case_text(c, size), tt_case_text(c, low),
                    tt_case_text(c, high));
    }
}
