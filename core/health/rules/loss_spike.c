/* loss_spike.c -- one step that is unlike the others: its loss jumped, or all that was computed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>
#include <stdlib.h>

TT_RULE(
    loss_spike, "loss-spike", WARNING, LIKELY, /* looks at */ "a loss",
    "The loss, or what was computed from one batch, jumped far beyond its usual noise at one "
    "step.",
    /* what to do */ "look at the batch of that step; clip gradients so that one batch cannot do harm",
    /* hides */ NULL)

static const double SPREADS = 20, TIMES = 5; /* of the loss */
static const double SURPRISE = 12;           /* a loss with a heavy tail has such values all the time */
static const double TIMES_INSIDE = 30;       /* of activations: a damaged batch, whatever its loss */

/* A loss that jumped: far beyond its noise, several times its size, and unlike its other jumps. */
static bool has_jumped(const tt_course *course)
{
    double rise = course->jump.value - course->jump.level;
    return course->points >= 2 * TT_COURSE_WARM && course->jump.by >= SPREADS &&
           rise >= (TIMES - 1) * fabs(course->jump.level) && tt_course_surprise(course) > SURPRISE;
}

/* ---- while a program runs ----------------------------------------------------- */

struct tt_spikes {
    tt_course course;
};

tt_spikes *tt_spikes_create(void)
{
    tt_spikes *spikes = calloc(1, sizeof *spikes);
    if (spikes != NULL)
        spikes->course = (tt_course){ .name = "loss", .tail = "loss", .kind = TT_COURSE_LOSS };
    return spikes;
}

void tt_spikes_free(tt_spikes *spikes)
{
    free(spikes);
}

bool tt_spikes_see(tt_spikes *spikes, double loss, int64_t step)
{
    tt_course *course = &spikes->course;
    double highest = course->jump.by;
    tt_course_add(course, &(tt_sighting){ .step = step, .has_value = true, .value = loss });
    return course->jump.by > highest && has_jumped(course);
}

/* ---- the rule ------------------------------------------------------------------- */

/* The first activation that jumped and came back; NULL: none. */
static const tt_course *find_inside(tt_case *c)
{
    TT_EACH(c, course, ACTIVATION)
        if (has_jumped(course) && course->jump.value > TIMES_INSIDE * course->jump.level &&
            course->last_step > course->jump.step && course->latest * 10 < course->jump.value)
            return course;
    return NULL;
}

static void find(tt_case *c)
{
    const tt_course *inside = find_inside(c);
    TT_EACH_LOSS(c, course) {
        bool is_inside = !has_jumped(course) && inside != NULL;
        if (!has_jumped(course) && inside == NULL)
            continue;
        const tt_course *shown = is_inside ? inside : course;
        tt_case_add(c, course);
        if (is_inside)
            tt_case_add(c, inside);
        tt_case_number(c, "value", shown->jump.value);
        tt_case_number(c, "usual", shown->jump.level);
        tt_case_steps(c, shown->jump.step, shown->jump.step);
        tt_case_say(c, TT_SEVERITY_WARNING, "%s jumped to %s at step %lld; it was about %s%s",
                    shown->name, tt_case_text(c, shown->jump.value), (long long)shown->jump.step,
                    tt_case_text(c, shown->jump.level),
                    is_inside
                        ? tt_case_join(c, "; so look at the loss of that step, %s, too", course->name)
                        : "");
        if (is_inside)
            return;
    }
}
