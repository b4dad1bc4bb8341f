/* read_back.c -- the writer reads what the file holds already.
 *
 * Exists because a run that goes on may have been killed, or damaged, before: what
 * the index does not say is looked up, and what cannot be read is given up, so that
 * nothing new is lost over it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "store/chunk.h"
#include "store/file.h"
#include "store/store.h"

#include <stdio.h>

tt_status tt_store_read_chunk(int fd, tt_buf *scratch, const tt_index_chunk *entry, tt_points *out)
{
    tt_chunk chunk;
    tt_buf_clear(scratch);
    tt_status st = tt_buf_reserve(scratch, entry->len);
    if (st == TT_OK)
        st = tt_file_read(fd, scratch->data, entry->len, entry->at);
    if (st == TT_OK)
        st = tt_chunk_parse(&chunk, scratch->data, entry->len);
    if (st == TT_OK && (chunk.first != entry->first || chunk.n != entry->n))
        st = TT_EFORMAT;
    return st == TT_OK ? tt_chunk_unpack(&chunk, 0, out) : st;
}

/* Finds the first NaN or infinity behind the points of which that is known. */
void tt_store_look_back(tt_store *store, int32_t site)
{
    tt_index_site *row = &store->index.row[site];
    for (uint32_t k = 0; row->nonfinite < 0 && row->scanned < row->points && k < row->count; k++) {
        const tt_index_chunk *entry = &row->chunks[k];
        if (entry->first + entry->n <= row->scanned)
            continue;
        tt_points_clear(&store->merged);
        if (tt_store_read_chunk(store->fd, &store->scratch, entry, &store->merged) < 0)
            continue; /* damaged: nobody can */
        int64_t i = tt_points_nonfinite(&store->merged);
        row->nonfinite = i < 0 ? -1 : entry->first + i;
    }
    row->scanned = row->points;
}

static tt_status tell(tt_store *store, int32_t site, const tt_index_chunk *lost, tt_error *err)
{
    char text[256];
    int len = snprintf(text, sizeof text,
                       "the file is damaged: %.100s at steps %lld to %lld cannot be read; the rest goes "
                       "on, `tensortap check` says more",
                       tt_sites_row(store->index.sites, site)->name, (long long)lost->first_step,
                       (long long)lost->last_step);
    return tt_store_note(store, store->index.last_step, tt_clock_now(), text, (size_t)len, err);
}

/* Forgets a chunk that cannot be read; says so once in a session. */
tt_status tt_store_give_up(tt_store *store, int32_t site, uint32_t k, tt_error *err)
{
    tt_index_site *row = &store->index.row[site];
    tt_index_chunk lost = row->chunks[k];
    tt_index_drop(&store->index, site, k);
    if (row->nonfinite >= lost.first && row->nonfinite < lost.first + lost.n) {
        row->nonfinite = -1;
        row->scanned = lost.first;
        tt_store_look_back(store, site);
    }
    bool is_first = store->damaged == 0;
    store->damaged += lost.n;
    return is_first ? tell(store, site, &lost, err) : TT_OK;
}
