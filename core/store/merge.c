/* merge.c -- writes small chunks of a site again, as a larger one.
 *
 * Exists because a run is written every half second, a few points a site, and
 * read a site at a time.  Whenever 16 chunks below a size (16, 256, 1024 points)
 * have come, and none of them outweighs the others, they become one; so a point
 * is written three or four times, and a site has some tens of chunks and one for
 * each thousand points or more.  The small ones are read back from the file: they are in the page
 * cache, and our memory stays small whatever the number of sites.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/chunk.h"
#include "store/file.h"
#include "store/store.h"

enum {
    FAN_IN = 16,
    FULL_POINTS = 1024,
    OUTWEIGHS = 4,          /* a merge makes the largest of its chunks at least so many times larger */
    FULL_BYTES = 256 << 10, /* histograms, samples: large before they are many */
};

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
    return st == TT_OK ? tt_chunk_unpack(&chunk, out) : st;
}

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

tt_status tt_store_tidy(tt_store *store, int32_t site, tt_error *err)
{
    const tt_index_site *row = &store->index.row[site];
    uint32_t count = count_due(row, FAN_IN);
    if (count == 0)
        count = count_due(row, FAN_IN * FAN_IN);
    if (count == 0)
        count = count_due(row, FULL_POINTS);
    if (count == 0)
        return TT_OK;
    tt_points_clear(&store->merged);
    const tt_index_chunk *first = &row->chunks[row->count - count];
    int64_t number = first->first;
    for (uint32_t i = 0; i < count; i++) {
        tt_status st = tt_store_read_chunk(store->fd, &store->scratch, &first[i], &store->merged);
        if (st < 0)
            return tt_fail(err, st, "reading back what was written: %s", tt_status_text(st));
    }
    return tt_store_put_chunk(store, site, number, &store->merged, err);
}
