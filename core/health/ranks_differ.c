/* ranks_differ.c -- replicas of a model that were equal and are not any more.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(ranks_differ, "ranks-differ", ERROR, /* looks at */ "parameter/* that several ranks have whole",
        "Parameters that began equal on all ranks have become different.",
        /* what to do */
        "wrap the model in DistributedDataParallel before training, and do nothing to it on one "
        "rank alone",
        /* hides */ NULL)

/* A part of a tensor is no replica: equal at first, as biases are, parts are trained apart. */
static bool is_sharded(const tt_history *h, const tt_course *course)
{
    const tt_course *state = tt_history_of(h, course, TT_COURSE_STATE);
    return state != NULL && ((int)state->latest & TT_STATE_IS_SHARDED) != 0;
}

static void find(tt_case *c)
{
    int64_t first = 0, last = 0;
    int32_t rank = -1;
    bool is_compared = c->history_count == 1; /* with nothing, and nobody misses it */
    for (int32_t i = 1; tt_case_is_first(c) && i < c->history_count; i++) {
        const tt_history *other = &c->histories[i];
        if (other->rank == c->history->rank)
            continue;
        TT_EACH(c, course, PARAMETER) {
            const tt_course *twin = tt_history_find(other, TT_COURSE_PARAMETER, course->tail, "");
            if (twin == NULL || (rank >= 0 && rank != other->rank) || is_sharded(c->history, course) ||
                is_sharded(other, twin))
                continue;
            is_compared = true;
            bool began_equal =
                course->first_step == twin->first_step && course->first_mark == twin->first_mark;
            bool is_later =
                course->marked_step == twin->marked_step && course->marked_step > course->first_step;
            if (!began_equal || !is_later || course->step_mark == twin->step_mark)
                continue; /* also the parts of a model that somebody cut by hand */
            rank = other->rank;
            first = course->first_step;
            last = course->marked_step;
            tt_case_add(c, course);
        }
    }
    c->has_data = is_compared;
    tt_case_number(c, "rank", rank);
    tt_case_steps(c, first, last);
    tt_case_say(c, TT_SEVERITY_ERROR, "%s: equal on ranks %d and %d at step %lld, different at step %lld",
                tt_case_place(c), (int)c->history->rank, (int)rank, (long long)first, (long long)last);
}
