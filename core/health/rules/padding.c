/* padding.c -- padding that the loss counts.
 *
 * A position that the loss leaves out gets a gradient of exactly 0.  Padding is what fills the ends of rows with one value
 * that stands nowhere else.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(padding, "padding", WARNING, LIKELY, /* looks at */ "tensortap/padding/*",
        "The loss counts positions that are padding.",
        /* what to do */
        "give ignore_index to the cross entropy, set labels of padding to -100, or multiply the loss by "
        "a mask",
        /* hides */ NULL)

static const double MOST = 0.9; /* of the padding */
enum { ENOUGH = 3 };            /* points */

static void find(tt_case *c)
{
    c->has_data = c->history->count > 0;
    TT_EACH(c, course, PADDING) {
        const tt_course *output = tt_history_of(c->history, course, TT_COURSE_ACTIVATION);
        if (course->values < ENOUGH || course->early < MOST || course->level < MOST)
            continue;
        tt_case_add(c, output != NULL ? output : course);
        tt_case_number(c, "counted", course->level);
        tt_case_steps(c, course->first_step, course->last_step);
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "the loss counts the padding of the inputs of %s: gradients come from %s%% of these "
                    "positions",
                    course->tail, tt_case_text(c, course->level * 100));
    }
}
