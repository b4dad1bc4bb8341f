/* gradient_missing.c -- gradients that never arrive, although they should.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <ctype.h>
#include <string.h>

TT_RULE(gradient_missing, "gradient-missing", WARNING, /* looks at */ "parameter/* and tensortap/state/*",
        "An optimizer holds parameters whose gradient is None or 0 all the time.",
        /* what to do */
        "look for detach(), .data, no_grad() or zero_grad() between the loss and the step, and "
        "for outputs that the loss does not use",
        /* hides */ "weights-unchanged,loss-stuck,gradient-vanishing")

static const char UNUSED[] =
    "call the module in forward, or leave its parameters out of the optimizer; if a router chooses "
    "parts of the model, look at why it never chooses these";

enum { ENOUGH = 8 }; /* steps */
typedef enum absence { ARRIVES, IS_UNUSED, IS_NONE, IS_ZERO } absence;

/* Is this the site of an output of the module at a path, or of one inside it? */
static bool is_output_of(const tt_course *activation, const char *path, size_t len)
{
    if (strncmp(activation->tail, path, len) != 0)
        return false;
    unsigned char next =
        (unsigned char)activation->tail[len]; /* "fc", "lstm[0]", "fc.inner", not "fc2" */
    return !isalnum(next) && next != '_';
}

/* Was the module of a parameter never called, although calls of others were seen? */
static bool is_never_called(const tt_case *c, const tt_course *parameter)
{
    const char *dot = strrchr(parameter->tail, '.');
    bool has_calls = false;
    if (dot == NULL) /* the model's own */
        return false;
    TT_EACH_COURSE(c, course) {
        if (course->kind != TT_COURSE_ACTIVATION)
            continue;
        has_calls = true;
        if (is_output_of(course, parameter->tail, (size_t)(dot - parameter->tail)))
            return false;
    }
    return has_calls;
}

static absence look_for(const tt_case *c, const tt_course *parameter)
{
    const tt_course *gradient = tt_history_of(c->history, parameter, TT_COURSE_GRADIENT);
    const tt_course *state = tt_history_of(c->history, parameter, TT_COURSE_STATE);
    if ((gradient == NULL || gradient->points + gradient->skipped_points == 0) &&
        ((int)state->latest & TT_STATE_HAS_GRAD) == 0) /* a sparse one cannot be read */
        return is_never_called(c, parameter) ? IS_UNUSED : IS_NONE;
    if (gradient == NULL || gradient->zero_run < ENOUGH || gradient->zero_run * 2 < gradient->points)
        return ARRIVES;
    const tt_course *weight = tt_case_beside(c, parameter);
    return weight != NULL && weight->values > 0 && weight->zero_run == 0 ? ARRIVES : IS_ZERO;
}

/* Those of modules that are never called, or the others. */
static void find_some(tt_case *c, bool is_unused)
{
    long long expected = 0, none = 0, all = 0;
    int64_t since = INT64_MAX;
    TT_EACH(c, course, PARAMETER) {
        if (!tt_case_is_optimized(c, course) || course->points < ENOUGH)
            continue;
        expected++;
        absence how = look_for(c, course);
        all += how != ARRIVES;
        if (how == ARRIVES || (how == IS_UNUSED) != is_unused)
            continue;
        const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
        int64_t from = how == IS_ZERO ? gradient->last_step - gradient->zero_run + 1 : course->first_step;
        none += how != IS_ZERO;
        since = from < since ? from : since;
        tt_case_add(c, course);
    }
    long long found = (long long)c->suspect_count;
    tt_case_number(c, "parameters", (double)found);
    tt_case_number(c, "trainable", (double)expected);
    since = since < 0 ? 0 : since;
    tt_case_steps(c, since, c->found.last_step);
    const char *them = found == 1 ? "it" : "them";
    c->remedy = is_unused ? UNUSED : NULL;
    tt_case_say(c, all == expected ? TT_SEVERITY_ERROR : TT_SEVERITY_WARNING,
                "%s: %s since step %lld%s, although an optimizer is to update %s", tt_case_subject(c),
                none == found ? "no gradient has arrived"
                : none == 0   ? "the gradient has been 0"
                              : "the gradient has been 0 or missing",
                (long long)since,
                is_unused ? tt_case_join(c, ", because forward was not seen to use %s", them) : "", them);
}

static void find(tt_case *c)
{
    find_some(c, true);
    find_some(c, false);
}
