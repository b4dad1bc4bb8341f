/* gradient_exploding.c -- gradients far beyond their own history, or beyond those of other layers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(gradient_exploding, "gradient-exploding", WARNING, LIKELY, /* looks at */ "gradient/*",
        "Gradients are a thousand times what they were, or a hundred thousand times those of "
        "other layers.",
        /* what to do */
        "clip gradients (torch.nn.utils.clip_grad_norm_), lower the learning rate, or normalise "
        "between the layers",
        /* hides */ "divergence")

static const double BEYOND_HISTORY = 1000, BEYOND_OTHERS = 1e5, BEYOND_WEIGHT = 1e4;

static void find(tt_case *c)
{
    double typical = tt_case_typical(c, TT_COURSE_GRADIENT), worst = 0, usual = 0;
    const char *beside = "";
    bool was_there = false; /* at first: then a loss that exploded did not make it */
    TT_EACH(c, course, GRADIENT) {
        if (!tt_course_is_warm(course) || !tt_course_is_weight(course))
            continue;
        double now = tt_course_median(course);
        bool grew = course->early > 0 && now > BEYOND_HISTORY * course->early && now > 1e-3;
        bool is_beyond = now > BEYOND_OTHERS * typical && now > 1;
        const tt_course *weight = tt_history_of(c->history, course, TT_COURSE_PARAMETER);
        bool is_huge = weight != NULL && weight->level > 0 && now > BEYOND_WEIGHT * weight->level;
        if (!grew && !is_beyond && !is_huge)
            continue;
        if (now > worst) {
            worst = now;
            beside = grew ? "at first it was" : is_beyond ? "a typical one has" : "the weight has";
            usual = grew ? course->early : is_beyond ? typical : weight->level;
        }
        was_there |= !grew && course->first * 10 > now;
        tt_case_add(c, course);
    }
    if (!was_there)
        tt_case_steps(c, c->found.last_step, c->found.last_step);
    tt_case_number(c, "rms", worst);
    tt_case_number(c, "usual", usual);
    tt_case_say(c, TT_SEVERITY_WARNING, "%s: gradients have grown to a size of %s; %s %s",
                tt_case_place(c), tt_case_text(c, worst), beside, tt_case_text(c, usual));
}
