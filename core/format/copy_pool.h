/* copy_pool.h -- memory for copies of tensors, used again and again.
 * Its owner holds a lock around every call.  For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_COPY_POOL_H
#define TT_FORMAT_COPY_POOL_H

#include "format/job.h"

typedef struct tt_copy_pool {
    size_t most;    /* bytes, of both kinds below */
    size_t used;    /* by jobs */
    size_t spare;   /* in blocks to use again */
    tt_job *blocks; /* owned; latest used first */
} tt_copy_pool;

/* A block of at least so many bytes, of which only .room is set.  NULL: out of
 * memory.  That there is room below `most` is the caller's business. */
tt_job *tt_copy_pool_take(tt_copy_pool *pool, size_t need);
void tt_copy_pool_give(tt_copy_pool *pool, tt_job *block);
void tt_copy_pool_drop(tt_copy_pool *pool, size_t down_to); /* frees what is spare */

#endif
