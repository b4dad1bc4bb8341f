/* value.c -- reads what stands before the bytes of a tensor, trusting nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/value.h"

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
