/* buf.h -- memory that grows: arrays, bytes and text, and an arena for things that die together.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_BUF_H
#define TT_BASE_BUF_H

#include "tensortap_tools.h"

/* More of tt_buf. */
tt_status tt_buf_reserve(tt_buf *buf, size_t more); /* room for more bytes and a NUL */

/* Chained chunks; nothing in it is freed singly. */
typedef struct tt_arena_chunk tt_arena_chunk;
typedef struct tt_arena {
    tt_arena_chunk *chunks; /* owned; newest first */
    size_t used;            /* of the newest chunk */
} tt_arena;

void *tt_arena_alloc(tt_arena *arena, size_t n); /* aligned to 16; NULL: out of memory */
char *tt_arena_text(tt_arena *arena, const char *text, size_t len); /* a NUL-ended copy */
void tt_arena_free(tt_arena *arena);

#endif
