/* same_sample.c -- batches whose samples are all the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(same_sample, "same-sample", WARNING, LIKELY, /* looks at */ "tensortap/rows/*",
        "All samples of a batch are the same, in every batch.",
        /* what to do */
        "look at __getitem__ and collate_fn: an index that is not used, or one sample that is repeated",
        /* hides */ "repeated-batch,loss-stuck")

enum { ENOUGH = 8 }; /* batches */

static void find(tt_case *c)
{
    TT_EACH(c, course, ROWS) {
        const tt_course *batch = tt_history_of(c->history, course, TT_COURSE_BATCH);
        if (course->values < ENOUGH || course->early < 1 || course->level < 1)
            continue;
        tt_case_add(c, batch != NULL ? batch : course);
        tt_case_number(c, "batches", (double)course->values);
        tt_case_steps(c, course->first_step, course->last_step);
        tt_case_say(c, TT_SEVERITY_WARNING, "%s got batches whose samples are all the same",
                    course->tail);
    }
}
