/* push.c -- sends the bytes of a tensor through the queue.
 *
 * Exists apart from recorder.c because a tensor may be larger than the queue: it
 * goes in pieces, and its caller waits for the writer.  A tensor that was sent
 * before is only named.  All of it under value_lock, so that pieces of two
 * tensors do not mix and a row of the table means one value at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"
#include "store/block.h"
#include "tensor/walk.h"

#include <string.h>

enum { PIECE_MAX = 8 << 20 };

static uint32_t slots_for(size_t bytes)
{
    return (uint32_t)((bytes + TT_SLOT - 1) / TT_SLOT);
}

/* The row that holds a digest; else a row to use for it. */
static int64_t find_row(tt_recorder *rec, const tt_digest *digest, bool *is_known)
{
    size_t first = (size_t)(digest->low % (TT_VALUE_ROWS / TT_VALUE_WAYS)) * TT_VALUE_WAYS;
    for (size_t row = first; row < first + TT_VALUE_WAYS; row++) {
        const tt_value_row *value = &rec->values[row];
        if (value->is_known && value->digest.low == digest->low && value->digest.high == digest->high) {
            *is_known = atomic_exchange_explicit(&rec->is_gone[row], 0, memory_order_relaxed) == 0;
            return (int64_t)row;
        }
    }
    *is_known = false;
    for (size_t row = first; row < first + TT_VALUE_WAYS; row++)
        if (!rec->values[row].is_known)
            return (int64_t)row;
    return (int64_t)(first + rec->next_way++ % TT_VALUE_WAYS);
}

/* Copies the next len bytes, in logical order. */
static void copy_bytes(tt_walk *walk, const tt_tensor *t, bool is_plain, int64_t at, int64_t len,
                       char *to)
{
    if (is_plain) {
        if (len > 0)
            memcpy(to, (const char *)t->data + at, (size_t)len);
        return;
    }
    _Alignas(32) char tile[TT_TILE_BYTES];
    size_t item = tt_dtype_size(t->dtype);
    for (size_t left = (size_t)len / item; left > 0;) {
        const void *run;
        size_t n = tt_walk_next(walk, tile, left < TT_TILE ? left : TT_TILE, &run);
        memcpy(to, run, n * item);
        to += n * item;
        left -= n;
    }
}

static bool has_digest(const tt_tensor *t, const tt_digest *digest)
{
    tt_digest now;
    tt_digest_compute(t, &now);
    return now.low == digest->low && now.high == digest->high;
}

bool tt_recorder_push_value(tt_recorder *rec, const tt_event *event, const tt_digest *digest,
                            tt_lent *lent, int64_t *row)
{
    const tt_tensor *t = event->tensor;
    bool is_known;
    *row = find_row(rec, digest, &is_known);
    if (is_known) {
        atomic_fetch_add_explicit(&rec->values_same, 1, memory_order_relaxed);
        return true;
    }
    size_t item = tt_dtype_size(t->dtype);
    int64_t limit = (int64_t)(rec->queue.slots / 8 * TT_SLOT);
    limit = (limit > PIECE_MAX ? PIECE_MAX : limit) / (int64_t)item * (int64_t)item;
    tt_piece piece = {
        .digest = *digest, .total = t->count * (int64_t)item, .dtype = (int32_t)t->dtype, .ndim = t->ndim
    };
    memcpy(piece.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    bool is_plain = tt_tensor_is_contiguous(t) && !t->is_swapped;
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    rec->values[*row].is_known = false;
    do {
        piece.len = piece.total - piece.at < limit ? piece.total - piece.at : limit;
        uint64_t place;
        uint32_t slots = 1 + slots_for(sizeof piece + (size_t)piece.len);
        /* The first piece may find the queue full; the others follow it whatever it takes. */
        tt_record *record =
            tt_recorder_reserve(rec, event, slots, !rec->drops || piece.at > 0, lent, &place);
        if (record == NULL)
            return false;
        bool is_last = piece.at + piece.len == piece.total;
        if (!lent->is_changed && lent->has_waited && is_last)
            lent->is_changed = !has_digest(t, digest); /* or it would stand for a torn tensor */
        if (lent->is_changed) {
            tt_queue_give_back(&rec->queue, slots, place);
            return false; /* without its last piece a value is never seen */
        }
        *record = (tt_record){ .slots = slots,
                               .kind = TT_RECORD_PIECE,
                               .site = event->site,
                               .step = event->step,
                               .call = event->call,
                               .value = *row };
        char *tail = (char *)record + sizeof *record, *bytes = tail + sizeof piece;
        copy_bytes(&walk, t, is_plain, piece.at, piece.len, bytes);
        /* Of the copy: the tensor may be changing.  Where the writer lags behind we would wait
         * for it anyway, and here the bytes are still in the cache. */
        piece.has_check = tt_queue_is_behind(&rec->queue);
        piece.check = piece.has_check ? tt_block_hash(bytes, (size_t)piece.len) : 0;
        memcpy(tail, &piece, sizeof piece);
        tt_queue_commit(&rec->queue, place);
        piece.at += piece.len;
    } while (piece.at < piece.total);
    rec->values[*row] = (tt_value_row){ .digest = *digest, .is_known = true };
    atomic_fetch_add_explicit(&rec->values_stored, 1, memory_order_relaxed);
    return true;
}
