/* order.c -- which of two things of one step happened first.
 *
 * Exists because "first" is what both `nan` and `diff` are asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/order.h"

#include "store/run.h"

#include <stdio.h>
#include <string.h>

static bool begins(const char *name, const char *word)
{
    return strncmp(name, word, strlen(word)) == 0;
}

static bool ends(const char *name, const char *word)
{
    size_t len = strlen(name), tail = strlen(word);
    return len >= tail && strcmp(name + len - tail, word) == 0;
}

tt_rank_in_step tt_order_kind(const char *name)
{
    return begins(name, "parameter/")              ? TT_ORDER_PARAMETER
           : begins(name, "loss/")                 ? TT_ORDER_LOSS
           : begins(name, "activation_gradient/")  ? TT_ORDER_BACKWARD
           : begins(name, "gradient/")             ? TT_ORDER_GRADIENT
           : ends(name, "gradient_norm")           ? TT_ORDER_NORM
           : ends(name, "gradient_norm (clipped)") ? TT_ORDER_NORM
                                                   : TT_ORDER_FORWARD;
}

int32_t tt_order_place(const tt_run *run, int32_t site)
{
    static const char gradient[] = "gradient/", parameter[] = "parameter/";
    const char *name = site >= 0 ? tt_run_site_name(run, site) : NULL;
    char other[4200];
    if (name == NULL || tt_order_kind(name) != TT_ORDER_GRADIENT)
        return site;
    /* Their own numbers say little: hooks see them from behind, an optimizer from the front. */
    int len = snprintf(other, sizeof other, "%s%s", parameter, name + strlen(gradient));
    int32_t found = len > 0 && (size_t)len < sizeof other ? tt_run_find(run, other) : -1;
    return INT32_MAX - 1 - (found >= 0 ? found : site);
}

bool tt_order_before(const tt_moment *a, const tt_moment *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    if (a->kind != TT_ORDER_GRADIENT && a->time != b->time)
        return a->time < b->time;
    if (a->place != b->place)
        return a->place < b->place;
    return a->file < b->file;
}

tt_status tt_order_look(tt_run *run, int32_t file, int32_t site, int64_t step, int64_t time,
                        tt_order_count *out)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    tt_order_count seen = { 0 };
    for (uint32_t k = 0; row != NULL && k < row->count; k++) {
        const tt_index_chunk *entry = &row->chunks[k];
        if (step < entry->first_step || step > entry->last_step)
            continue;
        tt_chunk chunk;
        const tt_column columns[] = { TT_COLUMN_STEP, TT_COLUMN_TIME };
        tt_status st = tt_run_columns(run, run->taps[file], row, entry, columns, 2, &chunk);
        if (st < 0)
            return st;
        for (uint32_t i = 0; i < chunk.n; i++) {
            int64_t at = (int64_t)run->cells[chunk.n + i];
            if ((int64_t)run->cells[i] != step)
                continue;
            seen.first_time = seen.points == 0 ? at : seen.first_time;
            seen.points++;
            seen.before += at < time;
        }
    }
    *out = seen;
    return TT_OK;
}
