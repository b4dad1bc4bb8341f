/* sweep.h -- chunks of one file, read in the order in which they lie there.
 *
 * For join/series.c: of a thousand files each holds a few bytes of every site, block after block, and a read for each
 * chunk costs more than its bytes.
 *
 *     tt_sweep_begin(&sweep);
 *     tt_sweep_want(&sweep, row, whose);                   // of each site
 *     while (tt_sweep_next(&sweep, tap, &one, &chunk, &st))
 *         take(one->whose, one->before, &chunk);
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_SWEEP_H
#define TT_STORE_SWEEP_H

#include "store/run.h"

/* A chunk that is wanted. */
typedef struct tt_swept {
    const tt_index_chunk *entry;
    const tt_index_site *row;
    size_t whose;    /* the caller's number of the site */
    uint32_t before; /* points of the row in earlier chunks */
} tt_swept;

/* { 0 } is empty and valid. */
typedef struct tt_sweep {
    tt_swept *all; /* owned */
    size_t count, cap, next;
    tt_buf bytes; /* of the file ... */
    int64_t at;   /* ... from here on */
} tt_sweep;

void tt_sweep_begin(tt_sweep *sweep); /* forgets what was wanted before; keeps the memory */
/* Wants all chunks of a row. */
tt_status tt_sweep_want(tt_sweep *sweep, const tt_index_site *row, size_t whose);
/* Reads the next chunk, which is valid until the call after this one; false: there is none.  *st: TT_EFORMAT if it is
 * damaged. */
bool tt_sweep_next(tt_sweep *sweep, const tt_tap *tap, const tt_swept **out, tt_chunk *chunk,
                   tt_status *st);
void tt_sweep_free(tt_sweep *sweep);

#endif
