/* read_value.c -- the bytes of a tensor out of a run.
 *
 * Exists apart from value.c because the pieces lie in the file, the last one
 * known, each naming the one before.  Every piece is checked; the caller's memory
 * is filled from the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/file.h"
#include "store/run.h"
#include "store/value.h"

#include <stdlib.h>

#include <zstd.h>

enum { PACKED_MAX = 16 << 20 }; /* bytes of a packed piece, and those it unpacks to; ours are 8 MB */

/* Reads the block of a piece; *payload is where its bytes are. */
static tt_status find_piece(tt_tap *tap, int64_t at, tt_value_head *head, int64_t *payload)
{
    tt_block_head block;
    int64_t found = at;
    if (at < 0 || at % TT_BLOCK_ALIGN != 0 || tt_scan_next(&tap->scan, &found, &block, NULL) == 0 ||
        found != at || block.kind != TT_BLOCK_VALUE)
        return TT_EFORMAT;
    tt_status st = tt_scan_body(&tap->scan, at, &block);
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

/* The piece at `at`, if it ends where the value has `left` bytes left, and what lies behind it
 * is of the same value. */
static tt_status take_piece(tt_tap *tap, const tt_value *value, int64_t at, int64_t left,
                            tt_value_head *head, int64_t *payload)
{
    tt_status st = find_piece(tap, at, head, payload);
    if (st == TT_OK &&
        (head->total != value->bytes || head->at + head->len != left || (head->len == 0 && left > 0) ||
         head->digest.low != value->digest.low || head->digest.high != value->digest.high))
        st = TT_EFORMAT;
    return st;
}

/* Looks at the heads of all pieces, so that a value is as large as it says. */
static tt_status check_pieces(tt_tap *tap, const tt_value *value, bool *is_evicted)
{
    int64_t at = value->at, left = value->bytes;
    tt_status st = TT_OK;
    do {
        tt_value_head head;
        int64_t payload;
        *is_evicted = tt_index_is_hole(&tap->index, at);
        if (!*is_evicted)
            st = take_piece(tap, value, at, left, &head, &payload);
        if (st < 0 || *is_evicted)
            return st;
        left = head.at;
        at = head.before;
    } while (left > 0);
    return TT_OK;
}

tt_status tt_run_value_find(tt_run *run, int32_t file, int64_t value_at, tt_value *out, tt_error *err)
{
    if (file < 0 || file >= run->count || value_at <= 0)
        return tt_fail(err, TT_EINVAL, "there is no value at this point");
    tt_tap *tap = run->taps[file];
    tt_value_head head;
    int64_t payload;
    bool is_evicted = false;
    tt_status st = find_piece(tap, value_at, &head, &payload);
    tt_value value = { .at = value_at, .file = file };
    if (st == TT_OK) {
        value.dtype = (tt_dtype)head.dtype;
        value.ndim = head.ndim;
        value.bytes = head.total;
        value.digest = head.digest;
        memcpy(value.shape, head.shape, sizeof value.shape);
        st = check_pieces(tap, &value, &is_evicted);
    }
    if (st < 0)
        return tt_tap_fail(tap, st, err, "the value at %lld", (long long)value_at);
    if (is_evicted)
        return tt_fail(err, TT_EMISMATCH, "this value was evicted to stay within max_bytes");
    *out = value;
    return TT_OK;
}

static tt_status read_piece(tt_tap *tap, const tt_value_head *head, int64_t payload, char *to)
{
    tt_status st = TT_OK;
    if (head->packing == TT_VALUE_RAW) {
        st = tt_file_read(tap->fd, to, (size_t)head->len, payload);
        if (st == TT_OK && tt_block_hash(to, (size_t)head->len) != head->check)
            st = TT_EFORMAT;
        return st;
    }
    char *packed = malloc((size_t)head->stored + 1);
    if (packed == NULL)
        return TT_ENOMEM;
    st = tt_file_read(tap->fd, packed, (size_t)head->stored, payload);
    if (st == TT_OK && tt_block_hash(packed, (size_t)head->stored) != head->check)
        st = TT_EFORMAT;
    if (st == TT_OK &&
        ZSTD_decompress(to, (size_t)head->len, packed, (size_t)head->stored) != (size_t)head->len)
        st = TT_EFORMAT;
    free(packed);
    return st;
}

tt_status tt_run_value_read(tt_run *run, const tt_value *value, void *out, tt_error *err)
{
    if (value->file < 0 || value->file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    tt_tap *tap = run->taps[value->file];
    int64_t at = value->at, left = value->bytes;
    tt_status st = TT_OK;
    do {
        tt_value_head head;
        int64_t payload;
        st = take_piece(tap, value, at, left, &head, &payload);
        if (st == TT_OK)
            st = read_piece(tap, &head, payload, (char *)out + head.at);
        if (st == TT_OK) {
            left = head.at;
            at = head.before;
        }
    } while (st == TT_OK && left > 0);
    return st == TT_OK ? st : tt_tap_fail(tap, st, err, "the value at %lld", (long long)value->at);
}
