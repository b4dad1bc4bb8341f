/* repeated_batch.c -- the same batch step after step.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(repeated_batch, "repeated-batch", WARNING, LIKELY, /* looks at */ "tensortap/batch/*",
        "The model gets the same batch in several steps in a row.",
        /* what to do */
        "make the iterator once, outside of the loop, and look at the sampler's shuffling; ignore "
        "this rule if the whole data set is one batch",
        /* hides */ NULL)

enum { ENOUGH = 5 }; /* a batch that is used twice or thrice may be meant so */

static void find(tt_case *c)
{
    TT_EACH(c, course, BATCH) {
        long long repeats = course->same_longest;
        if (repeats < ENOUGH)
            continue;
        int64_t since = course->same_since;
        tt_case_add(c, course);
        tt_case_number(c, "repeats", (double)repeats);
        tt_case_steps(c, since, course->same_step);
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "%s got the same batch in %lld steps in a row, from step %lld on", course->tail,
                    repeats + 1, (long long)since);
    }
}
