/* event.h -- an event as it lies in the queue between a user's thread and the
 * writer.
 *
 * For store and record.  A record is a head of one slot (64 bytes) and a tail,
 * padded to whole slots.  The tail of a point holds, in this order and only
 * where `products`, `ndim` and the lengths say so: tt_stats, shape (int64_t
 * each), tt_digest, histogram bytes, sample bytes, sketches of its tokens.  The tail of a note is its
 * text, that of a section its bytes; that of a piece of a value is a tt_value_head and the bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_EVENT_H
#define TT_STORE_EVENT_H

#include "tensortap.h"

enum { TT_SLOT = 64 };

typedef enum tt_record_kind {
    TT_RECORD_POINT,
    TT_RECORD_NOTE,
    TT_RECORD_SECTION, /* its bytes, for the file as they are */
    TT_RECORD_PIECE,
    TT_RECORD_PAD, /* nothing: the ring starts again behind it */
} tt_record_kind;

typedef struct tt_record {
    uint32_t slots; /* head and tail */
    uint8_t kind;   /* tt_record_kind */
    uint8_t phase;
    bool is_skipped;
    int8_t ndim; /* of the shape; -1: none */
    int32_t site;
    uint32_t call;
    int64_t step, time;
    double scalar;
    uint32_t thread;
    uint32_t products; /* of a section: its kind */
    uint32_t text_len; /* note, section; histogram of a point */
    uint32_t more_len; /* sample of a point */
    int64_t value;     /* row of the table of values; the writer puts its place here */
} tt_record;
_Static_assert(sizeof(tt_record) == TT_SLOT, "a scalar takes one slot");

static inline const void *tt_record_tail(const tt_record *record)
{
    return (const char *)record + sizeof *record;
}

#endif
