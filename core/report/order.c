/* order.c -- in which order things happen within a step.
 *
 * Exists because `nan`, `diff` and `health` look for what was first.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/order.h"

#include "tensortap.h"

#include <stdio.h>
#include <string.h>

bool tt_name_begins(const char *name, const char *word)
{
    return strncmp(name, word, strlen(word)) == 0;
}

bool tt_name_ends(const char *name, const char *word)
{
    size_t len = strlen(name), tail = strlen(word);
    return len >= tail && strcmp(name + len - tail, word) == 0;
}

tt_rank_in_step tt_order_kind(const char *name)
{
    return tt_name_begins(name, "parameter/")              ? TT_ORDER_PARAMETER
           : tt_name_begins(name, "loss/")                 ? TT_ORDER_LOSS
           : tt_name_begins(name, "activation_gradient/")  ? TT_ORDER_BACKWARD
           : tt_name_begins(name, "gradient/")             ? TT_ORDER_GRADIENT
           : tt_name_ends(name, "gradient_norm")           ? TT_ORDER_NORM
           : tt_name_ends(name, "gradient_norm (clipped)") ? TT_ORDER_NORM
                                                           : TT_ORDER_FORWARD;
}

bool tt_order_is_before(const tt_moment *a, const tt_moment *b)
{
    bool is_of_weights = a->kind == TT_ORDER_PARAMETER || b->kind == TT_ORDER_PARAMETER;
    bool has_times = a->file == b->file && a->time != b->time;
    if (a->step != b->step)
        return a->step < b->step;
    if (a->is_eval != b->is_eval && !is_of_weights)
        return has_times ? a->time < b->time : b->is_eval;
    if (a->round != b->round && !is_of_weights)
        return a->round < b->round;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    if (a->kind != TT_ORDER_GRADIENT && has_times)
        return a->time < b->time;
    return a->place != b->place ? a->place < b->place : a->file < b->file;
}

tt_birth tt_order_birth(const tt_moment *moment, bool has_updates)
{
    switch (moment->kind) {
    case TT_ORDER_PARAMETER:
        return TT_BIRTH_UPDATE;
    case TT_ORDER_FORWARD:
        return moment->is_eval && has_updates ? TT_BIRTH_EVALUATION : TT_BIRTH_FORWARD;
    case TT_ORDER_LOSS:
        return TT_BIRTH_LOSS;
    default:
        return TT_BIRTH_BACKWARD;
    }
}

int32_t tt_order_find(const tt_run *run, const char *kind, const char *module, const char *tail)
{
    char name[4200];
    int len = snprintf(name, sizeof name, "%s%s%s", kind, module, tail);
    return len > 0 && (size_t)len < sizeof name ? tt_run_find(run, name) : -1;
}

int32_t tt_order_place_of(tt_rank_in_step kind, int32_t site, int32_t of)
{
    bool is_backwards = kind == TT_ORDER_BACKWARD || (kind == TT_ORDER_GRADIENT && site > of);
    return is_backwards ? INT32_MAX - 1 - (of >= 0 ? of : site) : site;
}

bool tt_gradient_is_before(int32_t site_a, int32_t parameter_a, int32_t site_b, int32_t parameter_b)
{
    const tt_rank_in_step a = parameter_a < 0 ? TT_ORDER_PARAMETER : TT_ORDER_GRADIENT,
                          b = parameter_b < 0 ? TT_ORDER_PARAMETER : TT_ORDER_GRADIENT;
    return a != b ? a < b
                  : tt_order_place_of(a, site_a, parameter_a) < tt_order_place_of(b, site_b, parameter_b);
}

/* The output or parameter that a gradient is of; -1: none. */
static int32_t find_owner(const tt_run *run, const char *name)
{
    bool is_of_output = tt_name_begins(name, "activation_gradient/");
    return tt_order_find(run, is_of_output ? "activation" : "parameter", strchr(name, '/'), "");
}

int32_t tt_order_place(const tt_run *run, int32_t site)
{
    const char *name = site >= 0 ? tt_run_site_name(run, site) : NULL;
    if (name == NULL)
        return site;
    tt_rank_in_step kind = tt_order_kind(name);
    bool is_gradient = kind == TT_ORDER_BACKWARD || kind == TT_ORDER_GRADIENT;
    return tt_order_place_of(kind, site, is_gradient ? find_owner(run, name) : -1);
}

bool tt_order_is_unknown(const tt_run *run, int32_t site)
{
    const char *name = tt_run_site_name(run, site);
    return tt_order_kind(name) == TT_ORDER_GRADIENT && site > find_owner(run, name);
}
