/* gradient_missing.c -- gradients that never arrive, although they should.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <ctype.h>
#include <string.h>

TT_RULE(gradient_missing, "gradient-missing", WARNING, CERTAIN,
        /* looks at */ "parameter/* and tensortap/state/*",
        "An optimizer holds parameters whose gradient is None or 0 all the time.",
        /* what to do */
        "look for detach(), .data, no_grad() or zero_grad() between the loss and the step, and "
        "for outputs that the loss does not use",
        /* hides */ "weights-unchanged,loss-stuck,gradient-vanishing")

static const char BLOCKED[] =
    "look for no_grad(), inference_mode() or detach() around the module, and for inputs that it turns "
    "into "
    "integers; leave its parameters out of the optimizer if they are meant to stay";
static const char LOST[] = "look for detach(), .data or .item() between the module and the loss, and for "
                           "outputs that the loss does "
                           "not use";
static const char UNUSED[] =
    "call the module in forward, or leave its parameters out of the optimizer; if a router chooses "
    "parts of the model, look at why it never chooses these";

enum { ENOUGH = 8 }; /* steps */
typedef enum absence {
    ARRIVES,
    IS_UNUSED,  /* its module is never called */
    IS_BLOCKED, /* the output of its module requires no gradient */
    IS_LOST,    /* that does, but none arrives */
    IS_ZERO,
} absence;

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

/* Does the output of its module require no gradient? */
static bool is_blocked(const tt_case *c, const tt_course *parameter)
{
    const char *dot = strrchr(parameter->tail, '.');
    size_t len = dot != NULL ? (size_t)(dot - parameter->tail) : 0;
    TT_EACH_COURSE(c, course) {
        if (course->kind == TT_COURSE_BLOCKED && strlen(course->tail) == len &&
            strncmp(course->tail, parameter->tail, len) == 0)
            return true;
    }
    return false;
}

static absence look_for(const tt_case *c, const tt_course *parameter)
{
    const tt_course *gradient = tt_history_of(c->history, parameter, TT_COURSE_GRADIENT);
    const tt_course *state = tt_history_of(c->history, parameter, TT_COURSE_STATE);
    if ((gradient == NULL || gradient->points + gradient->skipped_points == 0) &&
        ((int)state->latest & TT_STATE_HAS_GRAD) == 0) /* a sparse one cannot be read */
        return is_never_called(c, parameter) ? IS_UNUSED
               : is_blocked(c, parameter)    ? IS_BLOCKED
                                             : IS_LOST;
    if (tt_norm_is_of_one(c, parameter) || tt_factor_is_zero(c, parameter))
        return ARRIVES; /* a rule of its own says more */
    if (gradient == NULL || gradient->zero_run < ENOUGH || gradient->zero_run * 2 < gradient->points)
        return ARRIVES;
    const tt_course *weight = tt_case_beside(c, parameter);
    return weight != NULL && weight->values > 0 && weight->zero_run == 0 ? ARRIVES : IS_ZERO;
}

/* Those that share a cause: lost and zero ones go together. */
static void find_some(tt_case *c, absence cause)
{
    long long expected = 0, none = 0, all = 0;
    int64_t since = INT64_MAX;
    TT_EACH(c, course, PARAMETER) {
        if (!tt_case_is_optimized(c, course) || course->points < ENOUGH)
            continue;
        expected++;
        absence how = look_for(c, course);
        all += how != ARRIVES;
        if (how == ARRIVES || (how == IS_ZERO ? IS_LOST : how) != cause)
            continue;
        const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
        int64_t from = how == IS_ZERO ? gradient->zero_from : course->first_step;
        none += how != IS_ZERO;
        since = from < since ? from : since;
        tt_case_add(c, course);
    }
    long long found = (long long)c->suspect_count;
    const char *them = found == 1 ? "it" : "them";
    tt_case_number(c, "parameters", (double)found);
    tt_case_number(c, "trainable", (double)expected);
    since = since < 0 ? 0 : since;
    tt_case_steps(c, since, c->found.last_step);
    c->remedy = cause == IS_UNUSED ? UNUSED : cause == IS_BLOCKED ? BLOCKED : none == found ? LOST : NULL;
    const char *why =
        cause == IS_UNUSED    ? tt_case_join(c, ", because forward was not seen to use %s", them)
        : cause == IS_BLOCKED ? tt_case_join(c, ", because the output of %s requires no gradient",
                                             found == 1 ? "its module" : "their modules")
                              : "";
    tt_case_say(c, all == expected ? TT_SEVERITY_ERROR : TT_SEVERITY_WARNING,
                "%s: %s since step %lld%s, although an optimizer is to update %s", tt_case_subject(c),
                none == found ? "no gradient has arrived"
                : none == 0   ? "the gradient has been 0"
                              : "the gradient has been 0 or missing",
                (long long)since, why, them);
}

static void find(tt_case *c)
{
    find_some(c, IS_UNUSED);
    find_some(c, IS_BLOCKED);
    find_some(c, IS_LOST);
}
