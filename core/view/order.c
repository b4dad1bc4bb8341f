/* order.c -- which of two things of one step happened first.
 *
 * Exists because "first" is what both `nan` and `diff` are asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "view/order.h"

#include "store/run.h"

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
    return begins(name, "parameter/")             ? TT_ORDER_PARAMETER
           : begins(name, "activation_gradient/") ? TT_ORDER_BACKWARD
           : begins(name, "gradient/")            ? TT_ORDER_GRADIENT
           : ends(name, "gradient_norm")          ? TT_ORDER_NORM
                                                  : TT_ORDER_FORWARD;
}

bool tt_order_before(const tt_moment *a, const tt_moment *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    bool is_turned = a->kind == TT_ORDER_GRADIENT;
    if (a->time != b->time)
        return is_turned ? a->time > b->time : a->time < b->time;
    if (a->site != b->site)
        return is_turned ? a->site > b->site : a->site < b->site;
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
        tt_status st = tt_run_chunk(run, run->taps[file], entry, &chunk);
        if (st == TT_OK)
            st = tt_run_grow_cells(run, (size_t)chunk.n * 2);
        if (st == TT_OK)
            st = tt_chunk_column(&chunk, TT_COLUMN_STEP, run->cells, chunk.n);
        if (st == TT_OK)
            st = tt_chunk_column(&chunk, TT_COLUMN_TIME, run->cells + chunk.n, chunk.n);
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
