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

/* The length of what two factors of one product have in common: the path of the module that has both, as parameters
 * ("0.lora_A") or as layers ("adapter.down.weight"). */
static size_t module_len(const char *tail)
{
    const char *lora = strstr(tail, "lora_"), *dot = strrchr(tail, '.');
    if (lora != NULL)
        return (size_t)(lora - tail);
    if (dot == NULL)
        return 0;
    bool is_layer = strcmp(dot, ".weight") == 0;
    const char *end = is_layer ? dot : dot + 1;
    while (is_layer && end > tail && end[-1] != '.')
        end--; /* over the name of the layer */
    return (size_t)(end - tail);
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
    bool is_lora = c->suspect_count > 0;
    for (size_t i = 0; i < c->suspect_count; i++)
        is_lora &= strstr(c->suspects[i]->tail, "lora_") != NULL;
    tt_case_number(c, "parameters", (double)c->suspect_count);
    c->likelihood = is_lora ? TT_LIKELIHOOD_CERTAIN : TT_LIKELIHOOD_LIKELY;
    if (c->suspect_count > 0)
        tt_case_say(c, is_lora ? TT_SEVERITY_ERROR : TT_SEVERITY_WARNING,
                    is_lora
                        ? "%s: both factors of the product are 0, so that the gradient of each is 0, too"
                        : "%s: these weights of one module began at 0, and so is the gradient of each: "
                          "where one multiplies the other, neither can learn",
                    tt_case_subject(c));
}
