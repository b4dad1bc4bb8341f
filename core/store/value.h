/* value.h -- what stands before the bytes of a tensor in the queue and in the file.
 *
 * For store and record.  A tensor may be several pieces, which follow each other.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_VALUE_H
#define TT_STORE_VALUE_H

#include "base/wire.h"

enum { TT_VALUE_RAW = 0, TT_VALUE_ZSTD = 1 };

typedef struct tt_value_head {
    tt_digest digest; /* of the whole value */
    uint64_t check;   /* of the payload, as stored; in the queue of the bytes, if has_check */
    bool has_check;
    int64_t before; /* block of the piece before this one; 0: this is the first */
    int32_t packing;
    int64_t total;   /* bytes of the whole value */
    int64_t at, len; /* of this piece in it */
    int64_t stored;  /* bytes of the payload */
    int32_t site;    /* where it was first seen */
    int64_t step;
    uint32_t call;
    int32_t dtype;
    int32_t ndim;
    int64_t shape[TT_MAX_DIM];
} tt_value_head;

void tt_value_pack(tt_buf *out, const tt_value_head *head);
tt_status tt_value_parse(tt_value_head *out, const void *body, size_t len);

#endif
