/* saver.h -- what writes tensors to files while the program goes on.
 *
 * saver.c is for the program's threads, saver_thread.c is the thread that writes,
 * and saver_writing.c is what both do with a job.
 *
 * Who may touch what:
 *   lock guards everything in tt_saver but `owner`, and job.helpers
 *   job.filled is written by the thread that added the job, read by the writer
 *   job.work: see checksum.h and two_ends.h
 *   the rest of a job is set before it is queued
 * Every function here is called with the lock held.
 *
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_SAVER_H
#define TT_FORMAT_SAVER_H

#include "format/copy_pool.h"

#include <pthread.h>
#include <sys/types.h>

enum {
    TT_SAVER_LARGE = 512 << 10, /* from here on two threads share the work of writing, ... */
    TT_SAVER_LONG = 4 << 20,    /* ... and from here on writing begins before the copy is complete */
};

struct tt_saver {
    pthread_mutex_t lock;
    pthread_cond_t work;   /* there is a job, or the end */
    pthread_cond_t change; /* a job is done */
    pid_t owner;
    tt_copy_pool pool;
    tt_job *first, *last; /* waiting to be written */
    tt_job *busy;         /* being written */
    uint64_t added;
    uint64_t seen; /* jobs up to this number are the thread's to take */
    int64_t failed;
    tt_status st; /* of the first failure */
    tt_error error;
    pthread_t thread;
    int waiting; /* for change */
    bool has_thread, is_closing;
    bool is_idle;      /* the thread sleeps until it is woken, ... */
    bool is_dozing;    /* ... or until a moment that is not quite near */
    bool is_expecting; /* something will come soon */
};

/* Tells the thread that there is something to do now. */
void tt_saver_wake(tt_saver *saver);
/* Starts the thread, unless it is there. */
tt_status tt_saver_start(tt_saver *saver, tt_error *err);
/* Writes a job with the lock let go. */
tt_status tt_saver_write(tt_saver *saver, tt_job *now, const tt_saved_source *source, tt_error *err);
/* Takes the first job that waits, which is there, and writes it. */
void tt_saver_write_first(tt_saver *saver);
/* A large job that is being written by one thread alone; NULL: none. */
tt_job *tt_saver_find_alone(const tt_saver *saver);
/* Takes over what it can of such a job, with the lock let go. */
void tt_saver_help(tt_saver *saver, tt_job *with);
void tt_saver_wait_change(tt_saver *saver);
void tt_saver_note_failure(tt_saver *saver, tt_status st, const tt_error *err);

#endif
