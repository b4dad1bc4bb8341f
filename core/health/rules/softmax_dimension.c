/* softmax_dimension.c -- a softmax over the samples of a batch, or over the queries of an attention.
 *
 * The graph says over which dimension it runs, and what its result is used for: a product of matrices sums over the last
 * dimension of what stands on its left.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <string.h>

TT_RULE(softmax_dimension, "softmax-dimension", WARNING, LIKELY, /* looks at */ "calls of the model",
        "A softmax inside the model runs over the batch, or over the queries of an attention.",
        /* what to do */
        "attention weights and probabilities are normalised over the last dimension: use dim=-1",
        /* hides */ "attention-entropy,saturation")

/* Does another one that was found lie inside of it? */
static bool has_inner(tt_case *c, const tt_course *outer)
{
    size_t len = strlen(outer->tail);
    TT_EACH(c, other, SOFTMAX) {
        bool is_inside = strncmp(other->tail, outer->tail, len) == 0 && other->tail[len] == '.';
        if (is_inside && other->latest == outer->latest)
            return true;
    }
    return false;
}

static void find_some(tt_case *c, int over)
{
    TT_EACH(c, course, SOFTMAX) {
        const tt_course *output = tt_history_of(c->history, course, TT_COURSE_ACTIVATION);
        if ((int)course->latest == over && !has_inner(c, course))
            tt_case_add(c, output != NULL ? output : course);
    }
    if (c->suspect_count > 0)
        tt_case_say(
            c, TT_SEVERITY_WARNING,
            over == TT_SOFTMAX_OVER_BATCH
                ? "%s: a softmax inside runs over the samples of the batch (dim=0), which so share their "
                  "weights"
                : "%s: a softmax inside runs over the queries; the product that uses it sums over the "
                  "keys, whose weights do not add up to 1",
            tt_case_place(c));
}

static void find(tt_case *c)
{
    c->has_data = c->history->count > 0;
    find_some(c, TT_SOFTMAX_OVER_BATCH);
    find_some(c, TT_SOFTMAX_OVER_QUERIES);
}
