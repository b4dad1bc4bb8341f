/* order.c -- in which order things happen within a step.
 *
 * Exists because both `nan` and `diff` look for what was first.
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
    bool is_by_time = a->kind != TT_ORDER_GRADIENT;
    if (a->step != b->step)
        return a->step < b->step;
    if (a->is_eval != b->is_eval && !is_of_weights)
        return a->time != b->time ? a->time < b->time : b->is_eval;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return is_by_time && a->time != b->time ? a->time < b->time : a->place < b->place;
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

int32_t tt_order_place(const tt_run *run, int32_t site)
{
    const char *name = site >= 0 ? tt_run_site_name(run, site) : NULL;
    if (name == NULL || tt_order_kind(name) != TT_ORDER_GRADIENT)
        return site;
    /* Their own numbers say little: hooks see gradients from the last to the first, an optimizer
     * from the first to the last. */
    int32_t parameter = tt_order_find(run, "parameter/", name + strlen("gradient/"), "");
    return INT32_MAX - 1 - (parameter >= 0 ? parameter : site);
}
