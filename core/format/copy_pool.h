/* copy_pool.h -- copies of tensors on their way to files, in memory that is used again and again.
 * Its owner holds a lock around every call.  For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_COPY_POOL_H
#define TT_FORMAT_COPY_POOL_H

#include "format/formats.h"

/* One block of memory: this, the path, the elements. */
typedef struct tt_job {
    struct tt_job *next;
    uint64_t number;  /* in order of queueing, from 1 */
    size_t room;      /* bytes of this block, all included */
    const char *path; /* in this block */
    tt_format format;
    char dtype_name[32]; /* "": that of copy */
    tt_tensor copy;      /* contiguous; the elements are in this block */
    char *elements;      /* of copy */
    size_t bytes;        /* of all elements */
    size_t filled;       /* bytes that are there; guarded by the saver's lock */
} tt_job;

typedef struct tt_copy_pool {
    size_t most;    /* bytes, of both kinds below */
    size_t used;    /* by jobs */
    size_t spare;   /* in blocks to use again */
    tt_job *blocks; /* owned; latest used first */
} tt_copy_pool;

/* Bytes of the block that a job with this path and tensor needs. */
size_t tt_job_size(const char *path, const tt_tensor *t);
/* A job without its elements.  NULL: out of memory.  The caller sees to it that there is room
 * below `most`. */
tt_job *tt_copy_pool_take(tt_copy_pool *pool, const char *path, tt_format format, const tt_tensor *t,
                          const char *dtype_name);
void tt_copy_pool_give(tt_copy_pool *pool, tt_job *job);
void tt_copy_pool_drop(tt_copy_pool *pool, size_t down_to); /* frees what is spare */

#endif
