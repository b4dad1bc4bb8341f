/* divergence.c -- a loss that exploded, or that has grown instead of falling.
 *
 * After an explosion units are dead, weights are huge and gradients vanish, also when the loss falls
 * again: it is the cause of these, and the learning rate most often the cause of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>

TT_RULE(divergence, "divergence", ERROR, LIKELY, /* looks at */ "a loss",
        "The loss exploded at some step, or is several times what it was at first.",
        /* what to do */
        "lower the learning rate, warm it up, or clip gradients; look at the sign of the loss (one of "
        "reinforcement learning may grow)",
        /* hides */ "loss-spike,update-ratio")

static const char FOLLOWS[] =
    "half-overflow,half-underflow,dead-units,saturation,attention-entropy,gradient-missing,"
    "weights-unchanged,update-ratio,growth,gradient-exploding,gradient-vanishing,loss-spike,loss-stuck,"
    "unlike-baseline";

static const double FAR = 3, VERY_FAR = 10; /* times what it was at first */
static const double FORGIVEN = 100; /* times what it was: a loss that recovered from less is fine */
static const double AT_HOME = 20;   /* spreads */
enum { ENOUGH = 20 };               /* points */

/* Has it grown since the first steps?  A loss that exploded within them has not, but is far away. */
static bool has_grown(const tt_course *course, double now, double before)
{
    double scale = fabs(before) > course->spread ? fabs(before) : course->spread;
    return now > before + (FAR - 1) * scale &&
           (now > course->early || now > before + (VERY_FAR - 1) * fabs(before));
}

static void say_exploded(tt_case *c, const tt_course *course, double now)
{
    const tt_burst *burst = &course->burst;
    double rate = tt_case_rate(c, burst->step);
    if (fabs(course->level) < course->spread && burst->peak < AT_HOME * course->spread)
        return; /* a loss around 0 that has such values all the time */
    bool has_recovered = now <= burst->from + (FAR - 1) * fabs(burst->from);
    if (has_recovered && burst->peak < FORGIVEN * fabs(burst->from))
        return;
    tt_case_add(c, course);
    tt_case_number(c, "before", burst->from);
    tt_case_number(c, "peak", burst->peak);
    tt_case_number(c, "now", now);
    if (isfinite(rate))
        tt_case_number(c, "learning_rate", rate);
    tt_case_steps(c, burst->step, burst->peak_step);
    c->hides = FOLLOWS;
    tt_case_say(c, has_recovered ? TT_SEVERITY_WARNING : TT_SEVERITY_ERROR,
                "%s exploded at step %lld (from %s to %s)%s", course->name, (long long)burst->step,
                tt_case_text(c, burst->from), tt_case_text(c, burst->peak),
                isfinite(rate) ? tt_case_join(c, "; the learning rate was %s", tt_case_text(c, rate))
                               : "");
}

static void find(tt_case *c)
{
    TT_EACH_LOSS(c, course) {
        double now = tt_course_median(course), before = course->first;
        if (course->burst.points >= TT_BURST_POINTS) {
            say_exploded(c, course, now);
            continue;
        }
        if (course->points < ENOUGH || !has_grown(course, now, before))
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "first", before);
        tt_case_number(c, "now", now);
        tt_case_say(c, TT_SEVERITY_WARNING, /* that of an actor and a critic grows while they learn */
                    "%s has grown: it was %s at step %lld and is about %s at step %lld", course->name,
                    tt_case_text(c, before), (long long)course->first_step, tt_case_text(c, now),
                    (long long)course->last_step);
    }
}
