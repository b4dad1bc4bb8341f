/* value.c -- the bytes of tensors in a run file: written, found and read.
 *
 * A value is written as pieces, each a block of its own, straight from the queue without a
 * copy.  Each piece names the one before it, so that nothing has to be known in advance; a
 * point refers to the last piece and is written after it, so that a value is seen when it is
 * complete.  A reader trusts nothing: it checks every piece and fills the caller's memory from
 * the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/value.h"

#include "base/file.h"
#include "store/run.h"
#include "store/store.h"

#include <stdlib.h>

#include <zstd.h>

enum {
    COMPRESS_LEVEL = 1,
    PACKED_MAX = 16 << 20, /* bytes of a packed piece, and those it unpacks to; ours are 8 MB */
};

/* ---- what stands before the bytes -------------------------------------------- */

tt_status tt_value_parse(tt_value_head *out, const void *body, size_t len)
{
    tt_cursor cursor = tt_cursor_over(body, len);
    const unsigned char *fixed = tt_cursor_take(&cursor, 32);
    if (fixed == NULL)
        return TT_EFORMAT;
    uint64_t packing = tt_cursor_varint(&cursor), total = tt_cursor_varint(&cursor);
    uint64_t at = tt_cursor_varint(&cursor), piece = tt_cursor_varint(&cursor);
    uint64_t stored = tt_cursor_varint(&cursor), site = tt_cursor_varint(&cursor);
    int64_t step = tt_cursor_signed(&cursor);
    uint64_t call = tt_cursor_varint(&cursor), dtype = tt_cursor_varint(&cursor);
    uint64_t ndim = tt_cursor_varint(&cursor);
    if (cursor.is_bad || packing > TT_VALUE_ZSTD || total > INT64_MAX || at > total ||
        piece > total - at || (packing == TT_VALUE_RAW && stored != piece) || stored > INT64_MAX ||
        site > INT32_MAX || call > UINT32_MAX || dtype >= TT_DTYPE_COUNT_ || ndim > TT_MAX_DIM)
        return TT_EFORMAT;
    tt_value_head head = {
        .digest = { tt_get_u64(fixed), tt_get_u64(fixed + 8) },
        .check = tt_get_u64(fixed + 16),
        .before = (int64_t)tt_get_u64(fixed + 24),
        .packing = (int32_t)packing,
        .total = (int64_t)total,
        .at = (int64_t)at,
        .len = (int64_t)piece,
        .stored = (int64_t)stored,
        .site = (int32_t)site,
        .step = step,
        .call = (uint32_t)call,
        .dtype = (int32_t)dtype,
        .ndim = (int32_t)ndim,
    };
    /* The shape must make up the bytes, or a reader would trust the wrong one. */
    uint64_t bytes = tt_dtype_size((tt_dtype)dtype);
    for (uint64_t d = 0; d < ndim; d++) {
        uint64_t size = tt_cursor_varint(&cursor);
        if (cursor.is_bad || size > INT64_MAX || __builtin_mul_overflow(bytes, size, &bytes))
            return TT_EFORMAT;
        head.shape[d] = (int64_t)size;
    }
    if (bytes != total)
        return TT_EFORMAT;
    *out = head;
    return TT_OK;
}

void tt_value_pack(tt_buf *out, const tt_value_head *head)
{
    unsigned char fixed[32];
    tt_put_u64(fixed, head->digest.low);
    tt_put_u64(fixed + 8, head->digest.high);
    tt_put_u64(fixed + 16, head->check);
    tt_put_u64(fixed + 24, (uint64_t)head->before);
    tt_buf_append(out, fixed, sizeof fixed);
    tt_buf_varint(out, (uint64_t)head->packing);
    tt_buf_varint(out, (uint64_t)head->total);
    tt_buf_varint(out, (uint64_t)head->at);
    tt_buf_varint(out, (uint64_t)head->len);
    tt_buf_varint(out, (uint64_t)head->stored);
    tt_buf_varint(out, (uint64_t)head->site);
    tt_wire_signed(out, head->step);
    tt_buf_varint(out, head->call);
    tt_buf_varint(out, (uint64_t)head->dtype);
    tt_buf_varint(out, (uint64_t)head->ndim);
    for (int32_t d = 0; d < head->ndim; d++)
        tt_buf_varint(out, (uint64_t)head->shape[d]);
}

/* ---- writing ----------------------------------------------------------------- */

tt_status tt_store_value(tt_store *store, const tt_value_head *piece, const void *bytes, int64_t *before,
                         tt_error *err)
{
    tt_status st = tt_store_flush(store, err); /* its chunks know where they will be */
    if (st < 0)
        return st;
    const void *payload = bytes;
    size_t stored = (size_t)piece->len;
    tt_value_head head = *piece;
    head.before = *before;
    head.packing = TT_VALUE_RAW;
    if (store->packer != NULL && stored > 0) {
        size_t bound = ZSTD_compressBound(stored);
        tt_buf_clear(&store->scratch);
        st = tt_buf_reserve(&store->scratch, bound);
        if (st < 0)
            return tt_fail_plain(err, st);
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
        st = tt_store_make_room(store, &head, &has_room, err);
        if (st < 0 || !has_room) {
            *before = 0;
            return st;
        }
    }
    if (!head.has_check || head.packing != TT_VALUE_RAW)
        head.check = tt_block_hash(payload, stored);
    tt_buf body = { 0 };
    tt_value_pack(&body, &head);
    int64_t at = store->end;
    st = tt_store_put(store, TT_BLOCK_VALUE, (tt_span){ head.step, head.step }, &body, payload, stored,
                      err);
    tt_buf_free(&body);
    if (st == TT_OK) {
        *before = at;
        store->value_bytes += store->end - at;
        tt_store_value_written(store, at, head.before == 0);
    }
    return st;
}

/* ---- reading ----------------------------------------------------------------- */

/* Reads the block of a piece; *payload is where its bytes are. */
static tt_status find_piece(tt_tap *tap, int64_t at, tt_value_head *head, int64_t *payload)
{
    tt_block_head block;
    tt_status st = tt_scan_load(&tap->scan, at, TT_BLOCK_VALUE, &block);
    if (st == TT_OK)
        st = tt_value_parse(head, tap->scan.body.data, tap->scan.body.len);
    if (st < 0)
        return st;
    *payload = at + tt_block_payload_at(block.body);
    if (head->packing != TT_VALUE_RAW && (head->stored > PACKED_MAX || head->len > PACKED_MAX))
        return TT_ELIMIT;
    /* Not more than the block holds, and what came before lies before. */
    if (head->stored > block.length - (*payload - at) || head->before < 0 || head->before >= at ||
        (head->at > 0) != (head->before > 0))
        return TT_EFORMAT;
    return TT_OK;
}

static tt_status read_piece(tt_tap *tap, const tt_value_head *head, int64_t payload, char *to)
{
    bool is_raw = head->packing == TT_VALUE_RAW;
    size_t stored = (size_t)head->stored, len = (size_t)head->len;
    char *packed = is_raw ? NULL : malloc(stored + 1), *at = is_raw ? to : packed;
    if (at == NULL)
        return TT_ENOMEM;
    tt_status st = tt_file_read(tap->fd, at, stored, payload);
    if (st == TT_OK && (tt_block_hash(at, stored) != head->check ||
                        (!is_raw && ZSTD_decompress(to, len, packed, stored) != len)))
        st = TT_EFORMAT;
    free(packed);
    return st;
}

/* Looks at the heads of all pieces, so that a value is as large as it says, and reads them where
 * out is not NULL.  TT_EMISMATCH: a piece was evicted. */
static tt_status walk_pieces(tt_run *run, tt_tap *tap, const tt_value *value, char *out)
{
    int64_t at = value->at, left = value->bytes;
    tt_status st = TT_OK;
    do {
        tt_value_head head;
        int64_t payload;
        if (tt_index_is_hole(&tap->index, at))
            return TT_EMISMATCH;
        st = find_piece(tap, at, &head, &payload);
        /* It ends where `left` bytes are left, and what lies behind it is of the same value. */
        if (st == TT_OK &&
            (head.total != value->bytes || head.at + head.len != left || (head.len == 0 && left > 0) ||
             head.digest.low != value->digest.low || head.digest.high != value->digest.high))
            st = TT_EFORMAT;
        if (st == TT_OK && out != NULL)
            st = read_piece(tap, &head, payload, out + head.at);
        if (st < 0)
            return tt_run_miss(run, tap, st, at, 0);
        left = head.at;
        at = head.before;
    } while (left > 0);
    return TT_OK;
}

static tt_status describe(const tt_tap *tap, tt_status st, int64_t at, tt_error *err)
{
    if (st == TT_EMISMATCH)
        return tt_fail(err, st, "this value was evicted to stay within max_bytes");
    return st == TT_OK ? st : tt_tap_fail(tap, st, err, "the value at %lld", (long long)at);
}

tt_status tt_run_value_find(tt_run *run, int32_t file, int64_t value_at, tt_value *out, tt_error *err)
{
    if (file < 0 || file >= run->count || value_at <= 0)
        return tt_fail(err, TT_EINVAL, "there is no value at this point");
    tt_tap *tap = run->taps[file];
    tt_value_head head;
    int64_t payload;
    tt_status st = tt_run_miss(run, tap, find_piece(tap, value_at, &head, &payload), value_at, 0);
    tt_value value = { .at = value_at, .file = file };
    if (st == TT_OK) {
        value.dtype = (tt_dtype)head.dtype;
        value.ndim = head.ndim;
        value.bytes = head.total;
        value.digest = head.digest;
        memcpy(value.shape, head.shape, sizeof value.shape);
        st = walk_pieces(run, tap, &value, NULL);
    }
    if (st == TT_OK)
        *out = value;
    return describe(tap, st, value_at, err);
}

tt_status tt_run_value_read(tt_run *run, const tt_value *value, void *out, tt_error *err)
{
    if (value->file < 0 || value->file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    tt_tap *tap = run->taps[value->file];
    return describe(tap, walk_pieces(run, tap, value, out), value->at, err);
}
