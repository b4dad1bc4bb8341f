/* room.c -- keeps a run file below a size by giving up the oldest values.
 *
 * Exists because values fill disks and statistics do not.  The file stays
 * append-only: the bytes of old values become holes (the file system takes the
 * room back, everything keeps its place), and a section says which stretch of the
 * file has lost its values.
 *
 * The file is seen in stretches of some megabytes that hold values.  The one that
 * was least recently referred to goes first: a tensor that never changes is
 * stored once, long ago, and still in use.  Where the file system cannot make
 * holes no new values are taken; a note says so.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "store/store.h"

enum { STRETCH_MIN = 1 << 20, STRETCHES = 1024, PAGE = 4096 };

static int64_t stretch_size(const tt_store *store)
{
    int64_t size = store->max_bytes / STRETCHES;
    return size < STRETCH_MIN ? STRETCH_MIN : size;
}

/* is_first: of the pieces of its value; the others stay in one stretch with it, so that a
 * value goes whole. */
void tt_store_value_written(tt_store *store, int64_t at, bool is_first)
{
    if (store->max_bytes == 0)
        return;
    uint32_t count = store->segments.count;
    bool is_new = count == 0 || (is_first && at - store->segments.at[count - 1] >= stretch_size(store));
    if (is_new && tt_offsets_add(&store->segments, at) == TT_OK &&
        tt_offsets_add(&store->used_at, store->end) < 0)
        store->segments.count--; /* out of memory: the stretch before grows instead */
    tt_store_value_used(store, at);
}

void tt_store_value_used(tt_store *store, int64_t at)
{
    uint32_t upto = tt_offsets_upto(&store->segments, at);
    if (upto > 0)
        store->used_at.at[upto - 1] = store->end;
}

/* Makes holes of the payloads in [from, to); adds up the bytes. */
static bool punch_values(tt_store *store, int64_t from, int64_t to, int64_t *bytes)
{
    for (int64_t at = from; at < to;) {
        unsigned char head_bytes[TT_BLOCK_HEADER];
        tt_block_head head;
        if (tt_file_read(store->fd, head_bytes, sizeof head_bytes, at) < 0 ||
            !tt_block_parse(head_bytes, at, &head))
            return false;
        if (head.kind == TT_BLOCK_VALUE) {
            int64_t start = (at + tt_block_payload_at(head.body) + PAGE - 1) / PAGE * PAGE;
            int64_t end = (at + head.length) / PAGE * PAGE;
            if (end > start) {
                if (!tt_file_punch(store->fd, start, end - start))
                    return false;
                *bytes += end - start;
            }
        }
        at += head.length;
    }
    return true;
}

static tt_status give_up_one(tt_store *store, tt_error *err)
{
    uint32_t victim = 0, count = store->segments.count;
    for (uint32_t i = 1; i < count; i++)
        if (store->used_at.at[i] < store->used_at.at[victim])
            victim = i;
    int64_t from = store->segments.at[victim];
    int64_t to = victim + 1 < count ? store->segments.at[victim + 1] : store->end;
    /* Said first: a crash in between must not look like damage. */
    tt_store_put_pair(store, TT_SECTION_HOLES, from, to);
    tt_status st = tt_store_flush(store, err);
    if (st == TT_OK)
        st = tt_offsets_add(&store->index.holes, from);
    if (st == TT_OK)
        st = tt_offsets_add(&store->index.holes, to);
    if (st < 0)
        return st;
    size_t behind = (size_t)(count - victim - 1) * sizeof(int64_t);
    memmove(&store->segments.at[victim], &store->segments.at[victim + 1], behind);
    memmove(&store->used_at.at[victim], &store->used_at.at[victim + 1], behind);
    store->segments.count--;
    store->used_at.count--;
    int64_t bytes = 0;
    if (!punch_values(store, from, to, &bytes)) {
        store->is_full = true;
        static const char text[] = "max_bytes: this file system gives no room back; "
                                   "values are not kept any more";
        return tt_store_note(store, 0, 0, text, sizeof text - 1, err);
    }
    store->punched += bytes;
    return TT_OK;
}

/* Makes room for a piece, unless its value would not fit if it were alone. */
tt_status tt_store_make_room(tt_store *store, const tt_value_head *piece, bool *has_room, tt_error *err)
{
    const tt_offsets *holes = &store->index.holes;
    tt_status st = TT_OK;
    uint32_t known = holes->count;
    bool fits = store->packer != NULL || piece->total <= store->max_bytes;
    if (!fits && !store->has_told_size) {
        static const char text[] = "max_bytes: values larger than max_bytes are not kept";
        store->has_told_size = true;
        st = tt_store_note(store, 0, 0, text, sizeof text - 1, err);
    }
    while (st == TT_OK && fits && !store->is_full &&
           store->end - store->punched + piece->stored > store->max_bytes && store->segments.count > 0)
        st = give_up_one(store, err);
    *has_room = fits && !store->is_full;
    for (uint32_t i = known; i + 1 < holes->count; i += 2) /* the pieces before it went too */
        if (piece->before >= holes->at[i] && piece->before < holes->at[i + 1])
            *has_room = false;
    return st;
}
