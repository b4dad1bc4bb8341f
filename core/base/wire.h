/* wire.h -- numbers as bytes of a file, and bytes as numbers.
 *
 * For store and format.  Everything in our files is little-endian.  Writing goes into a
 * tt_buf, which keeps the first failure; reading from a tt_cursor that turns bad, and
 * stays bad, at the first byte that is not there.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_WIRE_H
#define TT_BASE_WIRE_H

#include "base/buf.h"

#include <string.h>

/* ---- writing ---- */

/* Room for n bytes, to be filled by the caller; NULL after a failure. */
static inline unsigned char *tt_wire_room(tt_buf *out, size_t n)
{
    if (tt_buf_reserve(out, n) < 0)
        return NULL;
    unsigned char *room = (unsigned char *)out->data + out->len;
    out->len += n;
    return room;
}

/* Appends what another buffer holds, or hands on its failure. */
static inline void tt_wire_buf(tt_buf *out, const tt_buf *from)
{
    if (from->st < 0 && out->st == TT_OK)
        out->st = from->st;
    (void)tt_buf_append(out, from->data, from->len);
}

static inline unsigned char *tt_put_varint(unsigned char *at, uint64_t x) /* at most 10 bytes */
{
    while (x >= 0x80) {
        *at++ = (unsigned char)(x | 0x80);
        x >>= 7;
    }
    *at++ = (unsigned char)x;
    return at;
}

/* Small numbers of either sign become small numbers. */
static inline uint64_t tt_zigzag(uint64_t x)
{
    return x << 1 ^ (uint64_t) - (int64_t)(x >> 63);
}

static inline uint64_t tt_unzigzag(uint64_t x)
{
    return x >> 1 ^ (uint64_t) - (int64_t)(x & 1);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers lie in memory as in our files");

static inline void tt_put_u32(unsigned char *at, uint32_t x)
{
    memcpy(at, &x, sizeof x);
}

static inline void tt_put_u64(unsigned char *at, uint64_t x)
{
    memcpy(at, &x, sizeof x);
}

static inline uint32_t tt_get_u32(const unsigned char *at)
{
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline uint64_t tt_get_u64(const unsigned char *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline uint64_t tt_bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double tt_f64_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- reading ---- */

typedef struct tt_cursor {
    const unsigned char *at, *end;
    bool is_bad;
} tt_cursor;

static inline tt_cursor tt_cursor_over(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    return (tt_cursor){ .at = at, .end = n > 0 ? at + n : at }; /* NULL, if there are no bytes */
}

static inline size_t tt_cursor_left(const tt_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

/* The next n bytes; NULL, and the cursor bad, if they are not there. */
static inline const unsigned char *tt_cursor_take(tt_cursor *cursor, uint64_t n)
{
    if (cursor->is_bad || n > tt_cursor_left(cursor)) {
        cursor->is_bad = true;
        return NULL;
    }
    const unsigned char *at = cursor->at;
    cursor->at += n;
    return at;
}

static inline uint64_t tt_cursor_varint(tt_cursor *cursor)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
        unsigned char byte = *cursor->at++;
        x |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return x;
    }
    cursor->is_bad = true;
    return 0;
}

static inline int64_t tt_cursor_signed(tt_cursor *cursor)
{
    return (int64_t)tt_unzigzag(tt_cursor_varint(cursor));
}

static inline void tt_wire_signed(tt_buf *out, int64_t x)
{
    tt_buf_varint(out, tt_zigzag((uint64_t)x));
}

#endif
