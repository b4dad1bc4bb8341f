/* repeated_batch.c -- the same batch step after step.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <stdlib.h>

TT_RULE(repeated_batch, "repeated-batch", WARNING, LIKELY, /* looks at */ "tensortap/batch/*",
        "The model gets the same batch in several steps in a row.",
        /* what to do */
        "make the iterator once, outside of the loop, and look at the sampler's shuffling; ignore "
        "this rule if you mean to learn one batch by heart",
        /* hides */ NULL)

enum { ENOUGH = 5 }; /* a batch that is used twice or thrice may be meant so */

/* Whoever has no DataLoader, or one that gives out everything at once, trains on the whole data set. */
static bool may_be_all_data(const tt_case *c)
{
    const char *samples = tt_history_setting(c->history, "data/samples");
    const char *size = tt_history_setting(c->history, "data/batch_size");
    return samples == NULL || size == NULL || strtoll(samples, NULL, 10) <= strtoll(size, NULL, 10);
}

static void find(tt_case *c)
{
    TT_EACH(c, course, BATCH) {
        long long repeats = course->same_longest;
        bool is_in_all = repeats + 1 >= course->points;
        if (repeats < ENOUGH || (is_in_all && may_be_all_data(c)))
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
