/* learning_rate.c -- a learning rate that changes nothing: zero, too small for the weights, or collapsed early.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TT_RULE(learning_rate, "learning-rate", ERROR, CERTAIN, /* looks at */ "learning_rate",
        "The learning rate is zero, from the beginning or since some step, too small to change a "
        "weight, or collapsed early.",
        /* what to do */
        "look at the schedule: its number of steps, its warm-up, and whether it is stepped once a "
        "step",
        /* hides */ "weights-unchanged,loss-stuck,update-ratio")

enum {
    ENOUGH = 5, /* steps from the first on */
    LATER = 8,  /* the latest: a schedule that ends on 0 is followed by fewer */
};
static const double UNMOVED = 2e-7;   /* of a weight that a step changes: a million steps are too few */
static const double COLLAPSED = 1e-4; /* of the highest rate, for half of the steps */
enum { ENOUGH_TO_FALL = 20, ENOUGH_UPDATES = 8 };
static const double MOMENTUM = 10; /* gradients that add up, and Adam's first steps */

/* Half the distance from a number of about 1 to the next: what is less is rounded away.  Types of 16 bits round
 * usual updates away; that is not the rate's fault. */
static double half_unit(int32_t dtype)
{
    return dtype == TT_F64 ? 0x1p-53 : 0x1p-24;
}

/* The most that a step with this rate can change an element of a weight by.  Adam and its like move by about
 * the rate, SGD by the rate times the gradient, LARS by the rate times the weight. */
static double largest_update(double rate, const tt_course *weight, const tt_course *gradient)
{
    double norm = fmax(gradient->level, weight->level) * sqrt((double)weight->elements);
    return MOMENTUM * rate * fmax(1, norm);
}

static double highest(const tt_course *rate)
{
    double most = rate->latest;
    for (int32_t i = 0; i < rate->kept.count; i++)
        most = fmax(most, rate->kept.values[i]);
    return most;
}

/* Has no weight moved, as far as updates were measured?  False: they were not. */
static bool has_not_moved(tt_case *c)
{
    long long judged = 0;
    if (!tt_case_is_rate_settled(c))
        return false;
    TT_EACH(c, update, UPDATE) {
        const tt_course *weight = tt_history_of(c->history, update, TT_COURSE_PARAMETER);
        const tt_course *gradient = tt_history_of(c->history, update, TT_COURSE_GRADIENT);
        if (weight == NULL || gradient == NULL || tt_dtype_size((tt_dtype)weight->dtype) < 4 ||
            !tt_case_is_optimized(c, weight) || gradient->zero_points * 2 > gradient->points)
            continue;
        if (update->values < ENOUGH_UPDATES ||
            !(fmax(update->first, fmax(update->early, tt_course_median(update))) < UNMOVED))
            return false;
        judged++;
    }
    return judged > 0;
}

/* Was it next to nothing, beside its highest value, for half of the steps? */
static bool has_collapsed(const tt_course *rate)
{
    int32_t low = 0;
    for (int32_t i = 0; i < rate->kept.count; i++)
        low += rate->kept.values[i] < COLLAPSED * highest(rate);
    return rate->points >= ENOUGH_TO_FALL && rate->latest > 0 &&
           rate->latest < COLLAPSED * highest(rate) && low * 2 >= rate->kept.count;
}

/* Is every weight so large beside what this rate can do that nothing changes? */
static bool is_too_small(tt_case *c, double rate)
{
    long long judged = 0;
    if (has_not_moved(c))
        return true;
    TT_EACH(c, weight, PARAMETER) {
        const tt_course *gradient = tt_history_of(c->history, weight, TT_COURSE_GRADIENT);
        if (!tt_course_is_weight(weight) || !tt_case_is_optimized(c, weight) || gradient == NULL ||
            gradient->values == 0 || weight->level == 0)
            continue;
        if (!(largest_update(rate, weight, gradient) < half_unit(weight->dtype) * weight->level))
            return false;
        judged++;
    }
    return judged > 0;
}

/* The rate that the optimizer was given, if the schedule multiplied it by itself all the time: LambdaLR takes a
 * factor, and was given a rate.  0: it did not. */
static double squared_rate(const tt_case *c, const tt_course *course)
{
    const char *number = strchr(course->name, '/');
    char key[64] = "optimizer/lr";
    if (number != NULL)
        (void)snprintf(key, sizeof key, "optimizer/group%.20s/lr", number + 1);
    const char *text = tt_history_setting(c->history, key);
    double given = text != NULL && strchr(course->name, ':') == NULL ? strtod(text, NULL) : 0;
    double most = highest(course);
    bool is_squared = given > 0 && given < 0.2 && fabs(most / (given * given) - 1) < 0.02;
    return is_squared && course->points >= ENOUGH_TO_FALL ? given : 0;
}

static void find(tt_case *c)
{
    for (const tt_course *course = NULL; (course = tt_case_next(c, TT_COURSE_RATE, course)) != NULL;) {
        bool is_always = course->zero_run == course->points && course->points >= ENOUGH;
        bool is_tiny = course->points >= LATER && highest(course) > 0 && is_too_small(c, highest(course));
        bool is_fallen = !is_tiny && has_collapsed(course);
        double given = tt_case_is_rate_settled(c) ? squared_rate(c, course) : 0;
        if (!is_always && !is_tiny && !is_fallen && course->zero_run < LATER && given == 0)
            continue;
        long long steps = is_tiny ? course->points : course->zero_run;
        int64_t since = is_always || is_tiny ? course->first_step : course->zero_from;
        tt_case_add(c, course);
        tt_case_number(c, "steps", (double)steps);
        tt_case_steps(c, since, course->last_step);
        if (given > 0) {
            tt_case_number(c, "learning_rate", highest(course));
            tt_case_number(c, "given", given);
            tt_case_steps(c, course->first_step, course->last_step);
            c->likelihood = TT_LIKELIHOOD_LIKELY;
            c->remedy =
                "LambdaLR takes a factor, not a rate: let its function return 1 for the full rate";
            tt_case_say(c, TT_SEVERITY_WARNING,
                        "%s is at most %s, which is the %s that the optimizer was given times %s: the "
                        "schedule returns a rate where a factor is expected",
                        course->name, tt_case_text(c, highest(course)), tt_case_text(c, given),
                        tt_case_text(c, given));
        } else if (is_fallen) {
            tt_case_number(c, "highest", highest(course));
            tt_case_number(c, "learning_rate", course->latest);
            tt_case_steps(c, course->first_step, course->last_step);
            c->likelihood = TT_LIKELIHOOD_LIKELY;
            c->remedy =
                "a schedule that counts epochs is stepped once an epoch, not once a batch; look at its "
                "number of steps and its factor";
            tt_case_say(c, TT_SEVERITY_WARNING,
                        "%s has fallen from %s to %s, and was next to nothing for half of the steps",
                        course->name, tt_case_text(c, highest(course)), tt_case_text(c, course->latest));
        } else if (is_tiny) {
            tt_case_number(c, "learning_rate", highest(course));
            c->remedy =
                "use a learning rate that fits the weights: about 1e-3 for Adam, 0.1 for SGD; look "
                "at its exponent and at what the schedule multiplies it by";
            tt_case_say(c, TT_SEVERITY_ERROR,
                        "%s is %s: the updates are smaller than the precision of every weight, so "
                        "nothing is learned",
                        course->name, tt_case_text(c, highest(course)));
        } else if (is_always) {
            tt_case_say(c, TT_SEVERITY_ERROR, "%s is 0 in all %lld steps: nothing is learned",
                        course->name, steps);
        } else {
            tt_case_say(
                c, TT_SEVERITY_WARNING,
                "%s has been 0 for %lld steps, since step %lld: the training has stopped learning",
                course->name, steps, (long long)since);
        }
    }
}
