/* growth.c -- activations that grow, or shrink, from layer to layer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TT_RULE(growth, "growth", WARNING, LIKELY, /* looks at */ "activation/*",
        "Activations grow or shrink a thousandfold from the first of equal layers to the last, or grow "
        "by a factor "
        "from each to the next.",
        /* what to do */ "put a norm into each layer, or scale what a layer adds to its input",
        /* hides */ "gradient-exploding,gradient-vanishing,loss-spike,divergence")

static const double FAR = 1000; /* times, from the first layer of a kind to the last ... */
static const double FACTOR = 1.5,
                    FAR_BY_FACTOR = 30;    /* ... or by a factor for each layer, and so many in all */
enum { FEWEST = 4, FEWEST_BY_FACTOR = 6 }; /* layers */

/* Layers whose names differ in numbers alone, and that have one class, in order of execution. */
typedef struct chain {
    const tt_course *first, *last;
    int32_t count, rises, falls, steps_by_factor;
} chain;

/* Has it grown by a factor from each layer to the next?  That of a healthy stream grows by what layers add. */
static bool grows_by_factor(const chain *one, double ratio)
{
    return one->count >= FEWEST_BY_FACTOR && ratio >= FAR_BY_FACTOR &&
           pow(ratio, 1.0 / (one->count - 1)) >= FACTOR &&
           one->steps_by_factor * 10 >= (one->count - 1) * 8;
}

static void follow(chain *one, const tt_course *course)
{
    if (one->first == NULL || strcmp(one->first->class_name, course->class_name) != 0) {
        if (one->count < FEWEST) /* of several classes the first that repeats */
            *one = (chain){ .first = course, .last = course, .count = 1 };
        return;
    }
    one->rises += course->level > one->last->level;
    one->falls += course->level < one->last->level;
    one->steps_by_factor += course->level >= FACTOR * one->last->level * 0.9;
    one->last = course;
    one->count++;
}

/* Growth that was not there at first may follow from a loss that exploded. */
static void tell_steps(tt_case *c, const tt_course *course, double at_first)
{
    bool was_there = at_first > FAR || (at_first > 0 && at_first < 1 / FAR);
    tt_case_steps(c, was_there ? course->first_step : course->last_step, course->last_step);
}

/* A module that a loop calls again and again in a step. */
static void find_loop(tt_case *c)
{
    TT_EACH(c, course, ACTIVATION) {
        double ratio = course->from_call_to_call;
        if (!tt_course_is_warm(course) || course->calls < FEWEST || ratio <= 0 ||
            (ratio < FAR && ratio > 1 / FAR))
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "ratio", ratio);
        tt_case_number(c, "calls", (double)course->calls);
        tell_steps(c, course, course->calls_at_first);
        tt_case_say(
            c, TT_SEVERITY_WARNING,
            "%s: its output %s from call to call: over %lld calls in a step to %s times the first",
            course->tail, ratio > 1 ? "grows" : "shrinks", (long long)course->calls,
            tt_case_text(c, ratio));
        return;
    }
}

static void find(tt_case *c)
{
    find_loop(c);
    int32_t patterns = tt_sites_count(c->history->patterns);
    chain *chains = calloc((size_t)patterns + 1, sizeof *chains);
    if (chains == NULL) {
        c->st = TT_ENOMEM;
        return;
    }
    TT_EACH(c, course, ACTIVATION)
        if (tt_course_is_warm(course) && course->class_name != NULL)
            follow(&chains[course->pattern], course);
    const chain *worst = NULL;
    double most = 0;
    for (int32_t i = 0; i < patterns; i++) {
        const chain *one = &chains[i];
        if (one->count < FEWEST || one->first->level <= 0 || one->last->level <= 0)
            continue;
        double ratio = one->last->level / one->first->level;
        bool is_steady = (ratio > 1 ? one->rises : one->falls) * 10 >= (one->count - 1) * 8;
        bool is_far = grows_by_factor(one, ratio);
        ratio = ratio < 1 ? 1 / ratio : ratio;
        if (is_steady && (is_far || ratio > FAR) && ratio > most) {
            most = ratio;
            worst = one;
        }
    }
    if (worst != NULL) {
        bool grows = worst->last->level > worst->first->level;
        tt_case_add(c, worst->last);
        tt_case_add(c, worst->first);
        tt_case_number(c, "first", worst->first->level);
        tt_case_number(c, "last", worst->last->level);
        tt_case_number(c, "layers", worst->count);
        tell_steps(c, worst->last,
                   worst->first->first > 0 ? worst->last->first / worst->first->first : 0);
        tt_case_say(
            c, TT_SEVERITY_WARNING,
            "activations %s from layer to layer: their size is %s after %s and %s after %s, %d layers of "
            "%s later",
            grows ? "grow" : "shrink", tt_case_text(c, worst->first->level), worst->first->tail,
            tt_case_text(c, worst->last->level), worst->last->tail, (int)worst->count - 1,
            worst->last->class_name);
    }
    free(chains);
}
