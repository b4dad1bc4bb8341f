/* merge.c -- writes small chunks of a site again, as a larger one.
 *
 * Exists because a run is written five times a second, a few points a site, and
 * read a site at a time.  Whenever 128 chunks below a size (128, 2048 points), or so many
 * points in them (2048, 32768), have come, and none of them outweighs the others, they become one,
 * and those that are left at the end of the run do.  So a point is written twice in a run of some
 * thousand steps, and a site has some hundred chunks and one for each two thousand points or more.
 * The small ones are read back from the file: they are in the page
 * cache, and our memory stays small whatever the number of sites.
 *
 * A run that goes on may have been killed, or damaged, before: what cannot be read is
 * given up, so that nothing new is lost over it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/file.h"
#include "store/chunk.h"
#include "store/store.h"

#include <stdio.h>

enum {
    FAN_IN = 128,
    FEWEST = 16,        /* at the end of a run */
    FULL_POINTS = 2048, /* they fit into the cache */
    MOST_POINTS = 32768,
    OUTWEIGHS = 4,          /* a merge makes the largest of its chunks at least so many times larger */
    FULL_BYTES = 256 << 10, /* histograms, samples: large before they are many */
};

tt_status tt_store_read_chunk(tt_store *store, int32_t site, const tt_index_chunk *entry)
{
    tt_chunk chunk;
    tt_status st = tt_chunk_read(store->fd, store->end, site, entry, &store->scratch, &chunk);
    return st == TT_OK ? tt_chunk_unpack(&chunk, 0, &store->merged) : st;
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
        if (tt_store_read_chunk(store, site, entry) < 0)
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
    return tt_store_note(store, store->index.steps.last, tt_clock_now(), text, (size_t)len, err);
}

/* Forgets a chunk that cannot be read; says so once in a session. */
static tt_status give_up(tt_store *store, int32_t site, uint32_t k, tt_error *err)
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

/* How many chunks at the end of a row are below this size and follow each other;
 * 0 if they are not enough to merge them. */
static uint32_t count_due(const tt_index_site *row, uint32_t points, uint32_t enough,
                          uint32_t enough_points)
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
    return (count >= enough || total >= enough_points) && largest * OUTWEIGHS <= total ? count : 0;
}

/* Reads the last chunks of a row into store->merged.  *k: the one that failed. */
static tt_status gather(tt_store *store, const tt_index_site *row, uint32_t count, uint32_t *k)
{
    tt_status st = TT_OK;
    tt_points_clear(&store->merged);
    for (uint32_t i = row->count - count; st == TT_OK && i < row->count; i++) {
        st = tt_store_read_chunk(store, (int32_t)(row - store->index.row), &row->chunks[i]);
        if (st < 0)
            *k = i;
    }
    return st;
}

/* Leaves out the oldest records that, with these points, make a chunk too large. */
static uint32_t skip_oldest(const tt_record *const *records, uint32_t count, const tt_points *points)
{
    uint32_t from = count, room = TT_CHUNK_POINTS_MAX - points->n;
    size_t bytes = points->bytes[TT_COLUMN_HIST].len + points->bytes[TT_COLUMN_SAMPLE].len;
    while (from > 0 && count - from < room && bytes < TT_COLUMN_BYTES_MAX / 2) {
        from--;
        bytes += (size_t)records[from]->text_len + records[from]->more_len;
    }
    return from;
}

/* Does the chunk before this one hold steps of this session from here on? */
static bool overlaps(const tt_store *store, const tt_index_site *row, uint32_t k, int64_t step)
{
    const tt_offsets *sessions = &store->index.sessions;
    return k > 0 && row->chunks[k - 1].last_step >= step &&
           row->chunks[k - 1].at > sessions->at[sessions->count - 1];
}

tt_status tt_store_insert(tt_store *store, int32_t site, const tt_record *const *records, uint32_t count,
                          tt_error *err)
{
    tt_index_site *row;
    tt_points *points = &store->merged;
    tt_status st = tt_index_row(&store->index, site, &row);
    if (st < 0)
        return tt_fail_plain(err, st);
    uint32_t from = row->count, k, before = 0;
    while (overlaps(store, row, from, records[0]->step) &&
           before + row->chunks[from - 1].n + count <= TT_CHUNK_POINTS_MAX &&
           (from == row->count ||
            row->chunks[from - 1].first + row->chunks[from - 1].n == row->chunks[from].first))
        before += row->chunks[--from].n;
    for (; count > 0 && overlaps(store, row, from, records[0]->step); count--)
        records++; /* that one is damaged, or there is no room for more */
    st = gather(store, row, row->count - from, &k);
    if (st == TT_EIO || st == TT_EFORMAT || count == 0)
        return TT_OK; /* damaged: the points that are there stay as they are */
    uint32_t skipped = skip_oldest(records, count, points);
    records += skipped;
    count -= skipped;
    int64_t first = from < row->count ? row->chunks[from].first : row->points;
    uint32_t products = 0;
    for (uint32_t i = 0; i < count; i++)
        products |= records[i]->products;
    if (st == TT_OK)
        st = tt_points_reserve(points, points->n + count, products);
    for (uint32_t i = 0; st == TT_OK && i < count; i++)
        st = tt_points_add(points, records[i]);
    if (st == TT_OK)
        st = tt_points_sort(points);
    if (st < 0)
        return tt_fail_plain(err, st);
    int64_t bad = row->nonfinite >= 0 && row->nonfinite < first ? -1 : tt_points_nonfinite(points);
    st = tt_store_put_chunk(store, site, first, points, err);
    if (bad >= 0)
        row->nonfinite = first + bad;
    row->scanned = row->points;
    return st;
}

tt_status tt_store_tidy(tt_store *store, int32_t site, bool is_end, tt_error *err)
{
    const tt_index_site *row = &store->index.row[site];
    for (;;) {
        uint32_t count = count_due(row, FAN_IN, is_end ? FEWEST : FAN_IN, FULL_POINTS), k = 0;
        if (count == 0)
            count = count_due(row, FULL_POINTS, FAN_IN, MOST_POINTS);
        if (count == 0)
            return TT_OK;
        tt_status st = gather(store, row, count, &k);
        if (st == TT_OK)
            return tt_store_put_chunk(store, site, row->chunks[row->count - count].first, &store->merged,
                                      err);
        if (st == TT_EIO)
            return TT_OK; /* the disk may be better next time */
        if (st != TT_EFORMAT)
            return tt_fail_plain(err, st);
        st = give_up(store, site, k, err); /* there is one less now */
        if (st < 0)
            return st;
    }
}
