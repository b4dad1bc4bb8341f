/* values.c -- writes the bytes of tensors, piece by piece.
 *
 * Exists apart from append.c because a value is its own block: it is written
 * straight from the queue, without a copy.  Pieces are chained backwards, so
 * that nothing has to be known in advance; a point refers to the last piece and
 * is written after it, so that a value is seen when it is complete.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "store/value.h"

#include <zstd.h>

enum { COMPRESS_LEVEL = 1 };

void tt_value_pack(tt_wire *out, const tt_value_head *head)
{
    unsigned char fixed[32];
    tt_put_u64(fixed, head->digest.low);
    tt_put_u64(fixed + 8, head->digest.high);
    tt_put_u64(fixed + 16, head->check);
    tt_put_u64(fixed + 24, (uint64_t)head->before);
    tt_wire_bytes(out, fixed, sizeof fixed);
    tt_wire_varint(out, (uint64_t)head->packing);
    tt_wire_varint(out, (uint64_t)head->total);
    tt_wire_varint(out, (uint64_t)head->at);
    tt_wire_varint(out, (uint64_t)head->len);
    tt_wire_varint(out, (uint64_t)head->stored);
    tt_wire_varint(out, (uint64_t)head->site);
    tt_wire_signed(out, head->step);
    tt_wire_varint(out, head->call);
    tt_wire_varint(out, (uint64_t)head->dtype);
    tt_wire_varint(out, (uint64_t)head->ndim);
    for (int32_t d = 0; d < head->ndim; d++)
        tt_wire_varint(out, (uint64_t)head->shape[d]);
}

tt_status tt_store_value(tt_store *store, const tt_piece *piece, const void *bytes, int32_t site,
                         int64_t step, uint32_t call, int64_t *before, tt_error *err)
{
    tt_status st = tt_store_flush(store, err); /* its chunks know where they will be */
    if (st < 0)
        return st;
    const void *payload = bytes;
    size_t stored = (size_t)piece->len;
    tt_value_head head = {
        .digest = piece->digest,
        .before = *before,
        .packing = TT_VALUE_RAW,
        .total = piece->total,
        .at = piece->at,
        .len = piece->len,
        .site = site,
        .step = step,
        .call = call,
        .dtype = piece->dtype,
        .ndim = piece->ndim,
    };
    memcpy(head.shape, piece->shape, (size_t)piece->ndim * sizeof *piece->shape);
    if (store->packer != NULL && stored > 0) {
        size_t bound = ZSTD_compressBound(stored);
        tt_buf_clear(&store->scratch);
        st = tt_buf_reserve(&store->scratch, bound);
        if (st < 0)
            return tt_fail(err, st, "%s", tt_status_text(st));
        size_t packed =
            ZSTD_compressCCtx(store->packer, store->scratch.data, bound, bytes, stored, COMPRESS_LEVEL);
        if (!ZSTD_isError(packed) && packed < stored - stored / 16) {
            payload = store->scratch.data;
            stored = packed;
            head.packing = TT_VALUE_ZSTD;
        }
    }
    head.stored = (int64_t)stored;
    if (store->max_bytes > 0) {
        bool has_room;
        st = tt_store_make_room(store, piece, (int64_t)stored, *before, &has_room, err);
        if (st < 0 || !has_room) {
            *before = 0;
            return st;
        }
    }
    head.check =
        piece->has_check && head.packing == TT_VALUE_RAW ? piece->check : tt_block_hash(payload, stored);
    tt_wire body = { 0 };
    (void)tt_wire_room(&body, TT_BLOCK_HEADER);
    tt_value_pack(&body, &head);
    store->first_step = store->last_step = step;
    int64_t at = store->end;
    st = tt_store_put(store, TT_BLOCK_VALUE, &body, payload, stored, err);
    tt_buf_free(&body.buf);
    store->first_step = 0;
    store->last_step = -1;
    if (st == TT_OK) {
        *before = at;
        tt_store_value_written(store, at, head.before == 0);
    }
    return st;
}
