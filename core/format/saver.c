/* saver.c -- writes tensors to files while the program goes on.
 *
 * Exists because the forward pass should pay for a copy, not for a disk.  One
 * thread takes copies in the order they came and writes each to its file; whoever
 * waits for the end helps.  For a large tensor it is woken before the copying
 * starts and follows it piece by piece.  Memory of written copies is used again: fresh memory costs
 * more (page faults) than the copy itself.
 *
 * Who may touch what:
 *   lock guards everything in tt_saver but `owner`
 *   job.filled is written by the thread that added the job, read by the writer;
 *   the rest of a job is set before it is queued
 *
 * Fork: the child has neither the thread nor a lock it could trust.  It knows by
 * `owner`, touches nothing of this, and writes files itself.  The copies that
 * wait are the parent's business.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/job.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BYTES = 64 << 20,
    LARGE = 512 << 10, /* from here on copying and writing overlap */
    NAP = 200000,      /* ns between looks at the queue, ... */
    NAPS = 100,        /* ... so often, before the thread sleeps until it is woken */
};

struct tt_saver {
    pthread_mutex_t lock;
    pthread_cond_t work;   /* there is a job, or the end */
    pthread_cond_t change; /* a job is done */
    pid_t owner;
    size_t most;
    size_t used;  /* bytes of jobs that wait or are being written */
    size_t spare; /* bytes of blocks to use again */
    tt_job *first, *last; /* waiting to be written */
    tt_job *busy;         /* being written */
    tt_job *blocks;       /* to use again */
    uint64_t added;
    int64_t failed;
    tt_status st; /* of the first failure */
    tt_error error;
    pthread_t thread;
    int waiting; /* for change */
    bool has_thread, is_idle, is_closing;
};

static bool is_inherited(const tt_saver *saver)
{
    return getpid() != saver->owner;
}

/* ---- blocks; the lock is held ---------------------------------------------- */

static void drop_spare(tt_saver *saver, size_t down_to)
{
    while (saver->blocks != NULL && saver->spare > down_to) {
        tt_job *gone = saver->blocks;
        saver->blocks = gone->next;
        saver->spare -= gone->room;
        free(gone);
    }
}

/* A block that fits and is not much too large, the latest used first; NULL: none. */
static tt_job *take_spare(tt_saver *saver, size_t need)
{
    for (tt_job **at = &saver->blocks; *at != NULL; at = &(*at)->next) {
        tt_job *found = *at;
        if (found->room >= need && found->room / 2 <= need) {
            *at = found->next;
            saver->spare -= found->room;
            return found;
        }
    }
    return NULL;
}

static tt_job *take_block(tt_saver *saver, size_t need)
{
    tt_job *block = take_spare(saver, need);
    if (block == NULL) {
        drop_spare(saver, saver->used + need < saver->most ? saver->most - saver->used - need : 0);
        block = aligned_alloc(TT_JOB_ALIGN, need);
        if (block == NULL)
            return NULL;
        block->room = need;
    }
    saver->used += block->room;
    return block;
}

static void give_back(tt_saver *saver, tt_job *block)
{
    saver->used -= block->room;
    block->next = saver->blocks;
    saver->blocks = block;
    saver->spare += block->room;
}

/* ---- the writer ------------------------------------------------------------- */

static void take_failure(tt_saver *saver, tt_status st, const tt_error *err)
{
    if (saver->failed++ == 0) {
        saver->st = st;
        saver->error = *err;
    }
}

/* Takes the first job, which is there, and writes it with the lock let go. */
static void write_one(tt_saver *saver)
{
    tt_job *now = saver->first, **at = &saver->busy;
    saver->first = now->next;
    now->next = saver->busy;
    saver->busy = now;
    pthread_mutex_unlock(&saver->lock);
    tt_error err;
    tt_saved_source source = { .data = now->data, .filled = &now->filled };
    tt_status st = tt_saved_write(now->path, now->format, &now->content, &source, &err);
    while (atomic_load_explicit(&now->filled, memory_order_acquire) < now->content.bytes)
        sched_yield(); /* it failed early: the block is not ours until it is full */
    pthread_mutex_lock(&saver->lock);
    if (st < 0)
        take_failure(saver, st, &err);
    while (*at != now)
        at = &(*at)->next;
    *at = now->next;
    give_back(saver, now);
    if (saver->waiting > 0)
        pthread_cond_broadcast(&saver->change);
}

/* To wake a thread costs its waker as much as to copy 300 KB; so, while files
 * come one after the other, the thread looks for itself. */
static void wait_for_work(tt_saver *saver)
{
    for (int i = 0; i < NAPS && saver->first == NULL && !saver->is_closing; i++) {
        struct timespec nap = { .tv_nsec = NAP };
        pthread_mutex_unlock(&saver->lock);
        (void)nanosleep(&nap, NULL);
        pthread_mutex_lock(&saver->lock);
    }
    while (saver->first == NULL && !saver->is_closing) {
        saver->is_idle = true;
        pthread_cond_wait(&saver->work, &saver->lock);
    }
    saver->is_idle = false;
}

static void *run(void *argument)
{
    tt_saver *saver = argument;
    pthread_mutex_lock(&saver->lock);
    for (;;) {
        wait_for_work(saver);
        if (saver->first == NULL)
            break;
        write_one(saver);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

static void wait_for_change(tt_saver *saver)
{
    saver->waiting++;
    pthread_cond_wait(&saver->change, &saver->lock);
    saver->waiting--;
}

/* Signals stay with the program's own threads. */
static tt_status start(tt_saver *saver, tt_error *err)
{
    sigset_t all, before;
    if (saver->has_thread)
        return TT_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int got = pthread_create(&saver->thread, NULL, run, saver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (got != 0)
        return tt_fail(err, TT_ENOMEM, "pthread_create: %s", strerror(got));
    saver->has_thread = true;
    return TT_OK;
}

/* ---- the callers ------------------------------------------------------------- */

tt_status tt_saver_open(size_t bytes, tt_saver **out, tt_error *err)
{
    tt_saver *saver = calloc(1, sizeof *saver);
    if (saver == NULL)
        return tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    saver->most = bytes > 0 ? bytes : BYTES;
    saver->owner = getpid();
    (void)pthread_mutex_init(&saver->lock, NULL);
    (void)pthread_cond_init(&saver->work, NULL);
    (void)pthread_cond_init(&saver->change, NULL);
    *out = saver;
    return TT_OK;
}

void tt_saver_close(tt_saver *saver)
{
    if (saver == NULL || is_inherited(saver)) /* the parent's; its memory goes with the process */
        return;
    pthread_mutex_lock(&saver->lock);
    saver->is_closing = true;
    pthread_cond_signal(&saver->work);
    pthread_mutex_unlock(&saver->lock);
    if (saver->has_thread)
        (void)pthread_join(saver->thread, NULL);
    drop_spare(saver, 0);
    (void)pthread_cond_destroy(&saver->change);
    (void)pthread_cond_destroy(&saver->work);
    (void)pthread_mutex_destroy(&saver->lock);
    free(saver);
}

static void queue_job(tt_saver *saver, tt_job *now)
{
    if (saver->first == NULL)
        saver->first = now;
    else
        saver->last->next = now;
    saver->last = now;
    now->number = ++saver->added;
    if (saver->is_idle)
        pthread_cond_signal(&saver->work);
}

/* Larger than what may wait: from where it lies, by the caller. */
static tt_status save_now(tt_saver *saver, const char *path, tt_format format, const tt_content *content,
                          const tt_tensor *t)
{
    tt_error err;
    tt_status st = tt_saved_write(path, format, content, &(tt_saved_source){ .tensor = t }, &err);
    if (st < 0) {
        pthread_mutex_lock(&saver->lock);
        take_failure(saver, st, &err);
        pthread_mutex_unlock(&saver->lock);
    }
    return TT_OK;
}

tt_status tt_saver_add(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                       const char *dtype_name, tt_error *err)
{
    tt_content content = tt_content_of(t, dtype_name);
    if (is_inherited(saver))
        return tt_saved_write(path, format, &content, &(tt_saved_source){ .tensor = t }, err);
    if (content.bytes > saver->most / 2)
        return save_now(saver, path, format, &content, t);
    size_t need = tt_job_size(path, &content);
    pthread_mutex_lock(&saver->lock);
    while (saver->used > 0 && saver->used + need > saver->most)
        wait_for_change(saver);
    tt_status st = start(saver, err);
    tt_job *now = st == TT_OK ? take_block(saver, need) : NULL;
    if (now != NULL)
        tt_job_fill(now, path, format, &content);
    if (now != NULL && content.bytes >= LARGE)
        queue_job(saver, now);
    pthread_mutex_unlock(&saver->lock);
    if (now == NULL)
        return st < 0 ? st : tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    tt_job_copy(now, t);
    if (content.bytes < LARGE) {
        pthread_mutex_lock(&saver->lock);
        queue_job(saver, now);
        pthread_mutex_unlock(&saver->lock);
    }
    return TT_OK;
}

bool tt_saver_has_room(tt_saver *saver, size_t bytes)
{
    if (is_inherited(saver))
        return false;
    pthread_mutex_lock(&saver->lock);
    /* With what a path and a block that is too large may take. */
    bool has_room = bytes <= saver->most / 2 && (saver->used == 0 || saver->used + 2 * bytes + 8192 <= saver->most);
    pthread_mutex_unlock(&saver->lock);
    return has_room;
}

/* Is one of the jobs up to this number still being written? */
static bool is_busy(const tt_saver *saver, uint64_t number)
{
    for (const tt_job *at = saver->busy; at != NULL; at = at->next)
        if (at->number <= number)
            return true;
    return false;
}

tt_status tt_saver_wait(tt_saver *saver, int64_t *failed, tt_error *err)
{
    if (is_inherited(saver))
        return TT_OK;
    pthread_mutex_lock(&saver->lock);
    uint64_t goal = saver->added;
    while (saver->first != NULL && saver->first->number <= goal)
        write_one(saver);
    while (is_busy(saver, goal))
        wait_for_change(saver);
    tt_status st = saver->failed > 0 ? saver->st : TT_OK;
    if (st < 0) {
        (void)tt_fail(err, st, "%s", saver->error.text);
        if (failed != NULL)
            *failed = saver->failed;
    }
    saver->failed = 0;
    drop_spare(saver, saver->most / 4);
    pthread_mutex_unlock(&saver->lock);
    return st;
}

size_t tt_saver_held(tt_saver *saver)
{
    if (is_inherited(saver))
        return 0;
    pthread_mutex_lock(&saver->lock);
    size_t held = saver->used + saver->spare;
    pthread_mutex_unlock(&saver->lock);
    return held;
}
