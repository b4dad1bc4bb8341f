/* merge.c -- writes small chunks of a site again, as a larger one.
 *
 * Exists because a run is written five times a second, a few points a site, and
 * read a site at a time.  Whenever 16 chunks below a size (16, 256, 1024 points)
 * have come, and none of them outweighs the others, they become one; so a point
 * is written three or four times, and a site has some tens of chunks and one for
 * each thousand points or more.  The small ones are read back from the file: they are in the page
 * cache, and our memory stays small whatever the number of sites.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

enum {
    FAN_IN = 16,
    FULL_POINTS = 1024,
    OUTWEIGHS = 4,          /* a merge makes the largest of its chunks at least so many times larger */
    FULL_BYTES = 256 << 10, /* histograms, samples: large before they are many */
};

/* How many chunks at the end of a row are below this size and follow each other;
 * 0 if it is too early to merge them. */
static uint32_t count_due(const tt_index_site *row, uint32_t points)
{
    uint32_t count = 0;
    uint64_t total = 0, largest = 0;
    for (uint32_t i = row->count; i > 0; i--) {
        const tt_index_chunk *chunk = &row->chunks[i - 1];
        if (chunk->n >= points || chunk->len >= FULL_BYTES || total + chunk->n > TT_CHUNK_POINTS_MAX)
            break;
        if (i < row->count && chunk->first + chunk->n != chunk[1].first)
            break;
        count++;
        total += chunk->n;
        largest = chunk->n > largest ? chunk->n : largest;
    }
    return count >= FAN_IN && largest * OUTWEIGHS <= total ? count : 0;
}

/* Reads the last chunks of a row into store->merged.  *k: the one that failed. */
static tt_status gather(tt_store *store, const tt_index_site *row, uint32_t count, uint32_t *k)
{
    tt_status st = TT_OK;
    tt_points_clear(&store->merged);
    for (uint32_t i = row->count - count; st == TT_OK && i < row->count; i++) {
        st = tt_store_read_chunk(store->fd, &store->scratch, &row->chunks[i], &store->merged);
        if (st < 0)
            *k = i;
    }
    return st;
}

tt_status tt_store_tidy(tt_store *store, int32_t site, tt_error *err)
{
    const tt_index_site *row = &store->index.row[site];
    for (;;) {
        uint32_t count = count_due(row, FAN_IN), k = 0;
        if (count == 0)
            count = count_due(row, FAN_IN * FAN_IN);
        if (count == 0)
            count = count_due(row, FULL_POINTS);
        if (count == 0)
            return TT_OK;
        tt_status st = gather(store, row, count, &k);
        if (st == TT_OK)
            return tt_store_put_chunk(store, site, row->chunks[row->count - count].first, &store->merged,
                                      err);
        if (st == TT_EIO)
            return TT_OK; /* the disk may be better next time */
        if (st != TT_EFORMAT)
            return tt_fail(err, st, "%s", tt_status_text(st));
        st = tt_store_give_up(store, site, k, err); /* there is one less now */
        if (st < 0)
            return st;
    }
}
