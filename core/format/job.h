/* job.h -- a tensor's copy on its way to a file.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_JOB_H
#define TT_FORMAT_JOB_H

#include "format/saved_file.h"

enum { TT_JOB_ALIGN = 64 };

/* One block of memory: this, the path, the elements. */
typedef struct tt_job {
    struct tt_job *next;
    uint64_t number;  /* in order of queueing, from 1 */
    size_t room;      /* bytes of this block, all included */
    const char *path; /* in this block */
    char dtype_name[32];
    tt_format format;
    tt_content content; /* .shape is this job's */
    int64_t shape[TT_MAX_DIM];
    char *data;    /* in this block */
    size_t filled; /* bytes of data that are there; guarded by the saver's lock */
} tt_job;

/* Bytes of the block that a job with this content needs. */
size_t tt_job_size(const char *path, const tt_content *content);
/* Sets everything but number, room and the elements. */
void tt_job_fill(tt_job *to, const char *path, tt_format format, const tt_content *content);
/* Copies the elements.  Calls `filled` with the bytes so far after every piece. */
void tt_job_copy(tt_job *to, const tt_tensor *t, void (*filled)(void *context, tt_job *to, size_t bytes),
                 void *context);

#endif
