/* ranks_differ.c -- replicas of a model that are not equal.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TT_RULE(ranks_differ, "ranks-differ", ERROR, CERTAIN,
        /* looks at */ "parameter/*, gradient/* and buffer/* that several ranks have whole",
        "A rank holds other parameters, reduced gradients or buffers than its replicas.",
        /* what to do */
        "let DistributedDataParallel, or what else spreads the model, reduce every gradient, and change "
        "nothing on one rank alone",
        /* hides */ NULL)

/* ---- runs that say where their tensors belong ------------------------------------ */

static bool has_same_ranks(const tt_odd_replica *a, const tt_odd_replica *b)
{
    return a->count == b->count && a->has_majority == b->has_majority &&
           memcmp(a->ranks, b->ranks, a->count * sizeof *a->ranks) == 0;
}

/* "rank 3 differs from 7 replicas"; without a majority nobody can say who is right. */
static const char *say_who(tt_case *c, const tt_odd_replica *odd)
{
    tt_buf ranks = { 0 };
    (void)tt_ranks_append(odd->ranks, odd->count, &ranks);
    const char *text = tt_case_join(c, "%.200s", ranks.len > 0 ? ranks.data : "");
    tt_buf_free(&ranks);
    int others = (int)odd->replicas - (int)odd->count;
    return odd->has_majority
               ? tt_case_join(c, "%s differ%s from %d other%s that ought to hold the same", text,
                              odd->count == 1 ? "s" : "", others, others == 1 ? "" : "s")
               : tt_case_join(c, "%s ought to hold the same and differ", text);
}

/* "rms 0.5 and 0.51, 2 % apart". */
static const char *say_size(tt_case *c, const tt_odd_replica *odd)
{
    double far = fabs(odd->odd - odd->usual), most = fmax(fabs(odd->odd), fabs(odd->usual));
    if (odd->odd == odd->usual)
        return "the digests differ, their statistics are equal";
    return tt_case_join(c, "%s %s and %s%s", tt_field_name(odd->field), tt_case_text(c, odd->odd),
                        tt_case_text(c, odd->usual),
                        most > 0 && isfinite(far / most)
                            ? tt_case_join(c, ", %s of it apart", tt_case_text(c, far / most))
                            : "");
}

/* One finding for all tensors in which the same ranks are odd: those that were first, and how many follow. */
static void say_odd(tt_case *c, const tt_replicas *all, size_t first)
{
    const tt_odd_replica *odd = &all->odd[first];
    size_t later = 0;
    for (size_t i = 0; i < all->count; i++)
        if (has_same_ranks(&all->odd[i], odd) && all->odd[i].step < odd->step)
            odd = &all->odd[i];
    for (size_t i = 0; i < all->count; i++) {
        if (!has_same_ranks(&all->odd[i], odd))
            continue;
        later += all->odd[i].step > odd->step;
        for (const tt_course *course = NULL;
             all->odd[i].step == odd->step && (course = tt_history_next(c->history, course)) != NULL;)
            if (course->site == all->odd[i].site)
                tt_case_add(c, course);
    }
    bool has_size = odd->odd != odd->usual;
    tt_case_ranks(c, odd->ranks, odd->count);
    tt_case_number(c, "rank", odd->ranks[0]);
    tt_case_number(c, "replicas", odd->replicas);
    tt_case_number(c, "difference", has_size ? fabs(odd->odd - odd->usual) : 0);
    tt_case_steps(c, odd->step, c->history->last_step);
    if (odd->is_at_first)
        c->remedy =
            "the ranks began with different values: broadcast the model's state, or set one seed, "
            "before the first step";
    tt_case_say(c, TT_SEVERITY_ERROR, "%s: %s from %sstep %lld on (%s%s)%s", tt_case_subject(c),
                say_who(c, odd), odd->is_at_first ? "the first step, " : "", (long long)odd->step,
                c->suspect_count > 1 ? tt_case_join(c, "%s: ", c->suspects[0]->tail) : "",
                say_size(c, odd), later > 0 ? tt_case_join(c, "; %zu more tensors later", later) : "");
}

static void find_odd(tt_case *c)
{
    const tt_replicas *all = c->evidence->replicas;
    c->has_data = all->compared > 0;
    for (size_t i = 0; i < all->count; i++) {
        bool is_said = false;
        for (size_t k = 0; k < i && !is_said; k++)
            is_said = has_same_ranks(&all->odd[k], &all->odd[i]);
        if (!is_said)
            say_odd(c, all, i);
    }
}

/* ---- runs of older versions --------------------------------------------------------- */

/* A part of a tensor is no replica: equal at first, as biases are, parts are trained apart. */
static bool is_sharded(const tt_history *h, const tt_course *course)
{
    const tt_course *state = tt_history_of(h, course, TT_COURSE_STATE);
    return state != NULL && ((int)state->latest & TT_STATE_IS_SHARDED) != 0;
}

/* Compares with the first rank what began equal. */
static void find_drift(tt_case *c)
{
    const tt_evidence *e = c->evidence;
    int64_t first = 0, last = 0;
    int32_t rank = -1;
    bool is_compared = e->history_count == 1; /* with nothing, and nobody misses it */
    for (int32_t i = 1; i < e->history_count; i++) {
        const tt_history *other = &e->histories[i];
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

static void find(tt_case *c)
{
    if (c->evidence->replicas != NULL)
        find_odd(c);
    else if (tt_case_is_first(c))
        find_drift(c);
}
