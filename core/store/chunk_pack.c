/* chunk_pack.c -- packs points of one site into a chunk.
 *
 * Exists apart from chunk.c because the writer packs and everyone unpacks.
 * Numbers are packed by the cheapest rule that holds for the whole column: the
 * same, evenly spaced, small differences, floats that fit 32 bits.  The rest of
 * a mean or a sum is noise, on which a general compressor gains little.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/chunk.h"

#include "store/block.h"

#include <zstd.h>

static bool is_all_same(const uint64_t *cells, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (cells[i] != cells[0])
            return false;
    return true;
}

static bool is_linear(const uint64_t *cells, uint32_t n)
{
    for (uint32_t i = 2; i < n; i++)
        if (cells[i] - cells[i - 1] != cells[1] - cells[0])
            return false;
    return n >= 2;
}

static bool fits_f32(const uint64_t *cells, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double x, back;
        memcpy(&x, &cells[i], sizeof x);
        if (x == x && (x > 3.4e38 || x < -3.4e38) && x - x == 0)
            return false; /* finite, but beyond f32: the conversion is not defined */
        float narrow = (float)x;
        back = (double)narrow;
        if (memcmp(&back, &x, sizeof x) != 0)
            return false;
    }
    return true;
}

static void put_tag(tt_wire *out, size_t column, tt_packing packing)
{
    tt_wire_varint(out, (uint64_t)column << 3 | (uint64_t)packing);
}

static void put_raw(tt_wire *out, const uint64_t *cells, uint32_t n)
{
    unsigned char *at = tt_wire_room(out, (size_t)n * 8);
    for (uint32_t i = 0; at != NULL && i < n; i++)
        tt_put_u64(at + (size_t)i * 8, cells[i]);
}

static void put_f32(tt_wire *out, const uint64_t *cells, uint32_t n)
{
    unsigned char *at = tt_wire_room(out, (size_t)n * 4);
    for (uint32_t i = 0; at != NULL && i < n; i++) {
        double x;
        memcpy(&x, &cells[i], sizeof x);
        float narrow = (float)x;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        tt_put_u32(at + (size_t)i * 4, bits);
    }
}

/* Writes differences behind a length of fixed width (5 bytes of varint), falling
 * back to raw numbers where those are shorter. */
static void put_delta(tt_wire *out, size_t column, const uint64_t *cells, uint32_t n)
{
    size_t start = out->buf.len;
    put_tag(out, column, TT_PACK_DELTA);
    size_t length_at = out->buf.len;
    unsigned char *room = tt_wire_room(out, 5 + (size_t)n * 10);
    if (room == NULL)
        return;
    unsigned char *at = room + 5;
    uint64_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        at = tt_put_varint(at, tt_zigzag(cells[i] - before));
        before = cells[i];
    }
    size_t len = (size_t)(at - room) - 5;
    if (len >= (size_t)n * 8) {
        out->buf.len = start;
        put_tag(out, column, TT_PACK_RAW);
        tt_wire_varint(out, (uint64_t)n * 8);
        put_raw(out, cells, n);
        return;
    }
    for (int i = 0; i < 5; i++) /* a varint may be longer than it needs to be */
        room[i] = (unsigned char)((len >> 7 * i & 0x7f) | (i < 4 ? 0x80 : 0));
    out->buf.len = length_at + 5 + len;
}

static bool is_all_same_bytes(const tt_points *points, size_t column)
{
    const uint64_t *cells = points->cells[column];
    const char *bytes = points->bytes[column].data;
    for (uint32_t i = 1; i < points->used[column]; i++)
        if (cells[i] != cells[0] || memcmp(bytes + i * cells[0], bytes, cells[0]) != 0)
            return false;
    return true;
}

static void put_bytes(tt_wire *out, size_t column, const tt_points *points)
{
    const uint64_t *cells = points->cells[column];
    const tt_buf *bytes = &points->bytes[column];
    uint32_t n = points->used[column];
    if (bytes->len == 0)
        return;
    if (is_all_same_bytes(points, column)) {
        put_tag(out, column, TT_PACK_SAME);
        tt_wire_varint(out, cells[0]);
        tt_wire_bytes(out, bytes->data, cells[0]);
        return;
    }
    tt_wire plain = { 0 };
    for (uint32_t i = 0; i < n; i++)
        tt_wire_varint(&plain, cells[i]);
    tt_wire_bytes(&plain, bytes->data, bytes->len);
    size_t bound = ZSTD_compressBound(plain.buf.len), start = out->buf.len;
    if (plain.buf.len > 256) {
        put_tag(out, column, TT_PACK_ZSTD);
        tt_wire_varint(out, plain.buf.len);
        tt_wire packed = { 0 };
        unsigned char *room = tt_wire_room(&packed, bound);
        size_t len = room != NULL ? ZSTD_compress(room, bound, plain.buf.data, plain.buf.len, 1) : 0;
        bool is_smaller = room != NULL && !ZSTD_isError(len) && len < plain.buf.len;
        if (is_smaller) {
            tt_wire_varint(out, len);
            tt_wire_bytes(out, packed.buf.data, len);
        }
        tt_buf_free(&packed.buf);
        if (is_smaller)
            goto out;
        out->buf.len = start;
    }
    put_tag(out, column, TT_PACK_BYTES);
    tt_wire_varint(out, plain.buf.len);
    tt_wire_bytes(out, plain.buf.data, plain.buf.len);
out:
    if (plain.st < 0 && out->st == TT_OK)
        out->st = plain.st;
    tt_buf_free(&plain.buf);
}

static void put_column(tt_wire *out, size_t column, const tt_points *points)
{
    const uint64_t *cells = points->cells[column];
    uint32_t n = points->used[column];
    if (n == 0)
        return;
    if (tt_column_kinds[column].type == TT_COLUMN_BYTES) {
        put_bytes(out, column, points);
        return;
    }
    bool is_int = tt_column_kinds[column].type == TT_COLUMN_INT;
    if (is_all_same(cells, n)) {
        if (cells[0] == 0)
            return;
        put_tag(out, column, TT_PACK_SAME);
        if (is_int)
            tt_wire_varint(out, tt_zigzag(cells[0]));
        else
            put_raw(out, cells, 1);
    } else if (is_int && is_linear(cells, n)) {
        put_tag(out, column, TT_PACK_LINEAR);
        tt_wire_varint(out, tt_zigzag(cells[0]));
        tt_wire_varint(out, tt_zigzag(cells[1] - cells[0]));
    } else if (is_int) {
        put_delta(out, column, cells, n);
    } else if (fits_f32(cells, n)) {
        put_tag(out, column, TT_PACK_F32);
        tt_wire_varint(out, (uint64_t)n * 4);
        put_f32(out, cells, n);
    } else {
        put_tag(out, column, TT_PACK_RAW);
        tt_wire_varint(out, (uint64_t)n * 8);
        put_raw(out, cells, n);
    }
}

static void put_steps(tt_wire *out, const tt_points *points)
{
    const uint64_t *steps = points->cells[TT_COLUMN_STEP];
    int64_t low = (int64_t)steps[0], high = low;
    for (uint32_t i = 1; i < points->n; i++) {
        int64_t step = (int64_t)steps[i];
        low = step < low ? step : low;
        high = step > high ? step : high;
    }
    tt_wire_signed(out, low);
    tt_wire_varint(out, (uint64_t)high - (uint64_t)low);
}

void tt_chunk_pack(tt_wire *out, uint32_t site, int64_t first, const tt_points *points)
{
    size_t start = out->buf.len;
    (void)tt_wire_room(out, 4);
    tt_wire_varint(out, site);
    tt_wire_varint(out, (uint64_t)first);
    tt_wire_varint(out, points->n);
    put_steps(out, points);
    for (size_t column = 0; column < TT_COLUMN_COUNT_; column++)
        put_column(out, column, points);
    if (out->st == TT_OK)
        tt_put_u32((unsigned char *)out->buf.data + start,
                   (uint32_t)tt_block_hash(out->buf.data + start + 4, out->buf.len - start - 4));
}
