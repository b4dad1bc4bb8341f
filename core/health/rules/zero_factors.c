/* zero_factors.c -- two factors of a product that are both zero: neither gets a gradient, ever.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <string.h>

TT_RULE(zero_factors, "zero-factors", ERROR, CERTAIN, /* looks at */ "parameter/* and gradient/*",
        "Two weights of a module, such as lora_A and lora_B, are both zero: neither can learn.",
        /* what to do */
        "start one of the two with random values: lora_A with kaiming_uniform_, lora_B with zeros",
        /* hides */ NULL)

enum { ENOUGH = 8 }; /* points */

static bool is_zero(const tt_case *c, const tt_course *weight)
{
    const tt_course *gradient = tt_history_of(c->history, weight, TT_COURSE_GRADIENT);
    return weight->ndim >= 2 && weight->values >= ENOUGH && weight->first == 0 && weight->level == 0 &&
           gradient != NULL && gradient->values >= ENOUGH && gradient->zero_run == gradient->values &&
           tt_case_is_optimized(c, weight);
}

/* The length of what two factors of one product have in common: the module's path. */
static size_t module_len(const char *tail)
{
    const char *lora = strstr(tail, "lora_"), *dot = strrchr(tail, '.');
    return lora != NULL ? (size_t)(lora - tail) : dot != NULL ? (size_t)(dot - tail) + 1 : 0;
}

bool tt_factor_is_zero(const tt_case *c, const tt_course *weight)
{
    size_t len = module_len(weight->tail);
    if (!is_zero(c, weight))
        return false;
    TT_EACH_COURSE(c, other) {
        if (other != weight && other->kind == TT_COURSE_PARAMETER && module_len(other->tail) == len &&
            strncmp(other->tail, weight->tail, len) == 0 && is_zero(c, other))
            return true;
    }
    return false;
}

static void find(tt_case *c)
{
    TT_EACH(c, course, PARAMETER)
        if (tt_factor_is_zero(c, course))
            tt_case_add(c, course);
    tt_case_number(c, "parameters", (double)c->suspect_count);
    if (c->suspect_count > 0)
        tt_case_say(c, TT_SEVERITY_ERROR,
                    "%s: both factors of the product are 0, so that the gradient of each is 0, too",
                    tt_case_subject(c));
}
