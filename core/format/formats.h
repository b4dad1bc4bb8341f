/* formats.h -- what a saved file consists of, for each format.
 *
 * Every format here is a head, the elements one after the other in logical
 * order (little-endian), and a tail.  So one piece of code writes them all
 * (saved_file.c), and a format only says what stands before and behind.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_FORMATS_H
#define TT_FORMAT_FORMATS_H

#include "base/buf.h"

/* What a file is to hold, without its bytes. */
typedef struct tt_content {
    tt_dtype dtype;
    const char *dtype_name; /* borrowed; torch's name of a type the core does not know; NULL: dtype */
    int32_t ndim;
    const int64_t *shape; /* borrowed */
    uint64_t bytes;       /* of all elements */
} tt_content;

/* Appends what stands before the elements. */
typedef tt_status tt_head_fn(const tt_content *content, tt_buf *out, tt_error *err);
/* Appends what stands behind them; crc is the CRC-32 of the elements. */
typedef tt_status tt_tail_fn(const tt_content *content, uint32_t crc, tt_buf *out);

/* Are the elements written as f32, because the format has no word for their type? */
typedef bool tt_widens_fn(const tt_content *content);

tt_head_fn tt_pt_head, tt_npy_head, tt_safetensors_head;
tt_tail_fn tt_pt_tail;
tt_widens_fn tt_npy_widens;

typedef struct tt_format_row {
    tt_head_fn *head;     /* NULL: nothing */
    tt_tail_fn *tail;     /* NULL: nothing, and no CRC is wanted */
    tt_widens_fn *widens; /* NULL: never */
} tt_format_row;

const tt_format_row *tt_format_of(tt_format format);

#endif
