/* instant.c -- what was recorded in one step of one file, and its micro-batches.
 *
 * Exists because a step may have several forward and backward passes: what fed a value is of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/instant.h"

#include "base/buf.h"
#include "report/order.h"
#include "store/run.h"

#include <stdlib.h>

tt_status tt_instants_read(tt_run *run, int32_t file, int32_t site, int64_t step, tt_instants *out)
{
    static const tt_column columns[] = { TT_COLUMN_PRODUCTS, TT_COLUMN_STEP, TT_COLUMN_TIME,
                                         TT_COLUMN_PHASE };
    const tt_index_site *row = tt_run_row(run, file, site);
    tt_status st = TT_OK;
    int64_t before = 0;
    for (uint32_t k = 0; row != NULL && k < row->count && st == TT_OK; before += row->chunks[k++].n) {
        const tt_index_chunk *entry = &row->chunks[k];
        const uint64_t *cells[4];
        if (step < entry->first_step || step > entry->last_step)
            continue;
        st = tt_run_columns(run, run->taps[file], row, entry, columns, 4, cells);
        for (uint32_t i = 0; st == TT_OK && i < entry->n; i++) {
            if ((int64_t)cells[1][i] != step)
                continue;
            st = tt_grow(&out->items, &out->cap, out->count + 1, sizeof *out->items);
            if (st == TT_OK)
                out->items[out->count++] =
                    (tt_instant){ .index = before + i,
                                  .time = (int64_t)cells[2][i],
                                  .is_eval = tt_phases_hold(TT_PHASES_EVAL, cells[3][i]),
                                  .has_stats = (cells[0][i] & TT_PRODUCT_STATS) != 0 };
        }
        if (st == TT_EFORMAT) {
            out->unread += entry->n;
            st = TT_OK;
        }
    }
    return st;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const tt_instant *)a)->time, y = ((const tt_instant *)b)->time;
    return (x > y) - (x < y);
}

/* Reads the tensors of training in all sites whose names begin so. */
static tt_status read_kind(tt_run *run, int32_t file, int64_t step, const char *kind, tt_instants *out)
{
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++)
        if (tt_name_begins(tt_run_site_name(run, site), kind))
            st = tt_instants_read(run, file, site, step, out);
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++)
        if (out->items[i].has_stats && !out->items[i].is_eval)
            out->items[kept++] = out->items[i];
    out->count = kept;
    if (kept > 0)
        qsort(out->items, kept, sizeof *out->items, by_time);
    return st;
}

tt_status tt_rounds_read(tt_run *run, int32_t file, int64_t step, tt_rounds *out)
{
    out->losses.count = out->outputs.count = 0;
    tt_status st = read_kind(run, file, step, "loss/", &out->losses);
    if (st == TT_OK && out->losses.count > 0) /* else there is one round */
        st = read_kind(run, file, step, "activation/", &out->outputs);
    return st;
}

void tt_rounds_free(tt_rounds *rounds)
{
    free(rounds->outputs.items);
    free(rounds->losses.items);
}

/* A micro-batch ends with a backward pass, during which its loss is recorded; the next begins with a call. */
int64_t tt_rounds_find(const tt_rounds *rounds, int64_t time, int64_t *begin)
{
    const tt_instants *outputs = &rounds->outputs, *losses = &rounds->losses;
    int64_t called = INT64_MIN, round = 0;
    for (size_t i = 0; i < outputs->count && outputs->items[i].time <= time; i++)
        called = outputs->items[i].time;
    *begin = INT64_MIN;
    while ((size_t)round < losses->count && losses->items[round].time < called)
        *begin = losses->items[round++].time;
    return round;
}
