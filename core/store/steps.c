/* steps.c -- the steps of a run: the union over all sites and files.
 *
 * Exists apart from series.c because no site needs to have them all.  A set of
 * bits over the range of steps; chunks with evenly spaced steps cost nothing to
 * unpack.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"

#include <stdlib.h>

enum { SPAN_MAX = 1 << 29 }; /* 64 MB of bits; steps are counted, not dates */

static bool find_range(const tt_run *run, int64_t *low, int64_t *high)
{
    bool is_any = false;
    for (int32_t i = 0; i < run->count; i++) {
        const tt_index *index = &run->taps[i]->index;
        if (index->last_step < index->first_step)
            continue;
        *low = !is_any || index->first_step < *low ? index->first_step : *low;
        *high = !is_any || index->last_step > *high ? index->last_step : *high;
        is_any = true;
    }
    return is_any;
}

static tt_status mark_chunk(tt_run *run, const tt_tap *tap, const tt_index_site *row,
                            const tt_index_chunk *entry, int64_t low, uint64_t span, uint64_t *bits)
{
    tt_chunk chunk;
    tt_status st = tt_run_chunk(run, tap, row, entry, &chunk);
    if (st == TT_OK)
        st = tt_run_grow_cells(run, chunk.n);
    if (st == TT_OK)
        st = tt_chunk_column(&chunk, TT_COLUMN_STEP, run->cells, chunk.n);
    for (uint32_t i = 0; st == TT_OK && i < chunk.n; i++) {
        uint64_t at = run->cells[i] - (uint64_t)low;
        if (at <= span)
            bits[at / 64] |= UINT64_C(1) << at % 64;
    }
    return st;
}

/* True if all steps of a chunk are marked already: most sites have the same. */
static bool is_marked(const tt_index_chunk *entry, int64_t low, uint64_t span, const uint64_t *bits)
{
    uint64_t from = (uint64_t)entry->first_step - (uint64_t)low,
             to = (uint64_t)entry->last_step - (uint64_t)low;
    if (from > span || to > span || to < from || (to - from) / 64 > entry->n)
        return false; /* of so few points in so many steps: unpacking takes less time */
    for (uint64_t at = from; at <= to; at++) {
        if (at % 64 == 0 && to - at >= 63 && bits[at / 64] == UINT64_MAX)
            at += 63;
        else if ((bits[at / 64] >> at % 64 & 1) == 0)
            return false;
    }
    return true;
}

tt_status tt_run_steps(tt_run *run, int64_t *steps, size_t cap, size_t *count, tt_error *err)
{
    int64_t low = 0, high = -1;
    if (!find_range(run, &low, &high)) {
        *count = 0;
        return TT_OK;
    }
    uint64_t span = (uint64_t)high - (uint64_t)low;
    if (span > SPAN_MAX)
        return tt_fail(err, TT_EINVAL, "steps from %lld to %lld are too far apart to list",
                       (long long)low, (long long)high);
    uint64_t *bits = calloc(span / 64 + 1, sizeof *bits);
    tt_status st = bits != NULL ? TT_OK : TT_ENOMEM;
    const tt_tap *tap = NULL;
    for (int32_t f = 0; st == TT_OK && f < run->count; f++) {
        tap = run->taps[f];
        for (int32_t s = 0; st == TT_OK && s < tap->index.count; s++) {
            const tt_index_site *row = &tap->index.row[s];
            for (uint32_t k = 0; st == TT_OK && k < row->count; k++)
                if (!is_marked(&row->chunks[k], low, span, bits))
                    st = mark_chunk(run, tap, row, &row->chunks[k], low, span, bits);
        }
    }
    size_t have = 0;
    for (uint64_t word = 0; st == TT_OK && word <= span / 64; word++)
        for (uint64_t rest = bits[word]; rest != 0; rest &= rest - 1, have++)
            if (have < cap)
                steps[have] = low + (int64_t)(word * 64 + (uint64_t)__builtin_ctzll(rest));
    free(bits);
    if (st < 0)
        return tap != NULL ? tt_tap_fail(tap, st, err, "the steps")
                           : tt_fail(err, st, "%s", tt_status_text(st));
    *count = have;
    return TT_OK;
}
