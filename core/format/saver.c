/* saver.c -- writes tensors to files while the program goes on.
 *
 * Exists because the forward pass should pay for a copy, not for a disk.  One
 * thread takes copies in the order they came and writes each to its file; a thread
 * that waits for the end writes too.  For a long tensor the thread starts before
 * the copying ends and follows it piece by piece.  Memory of written copies is
 * reused, because fresh memory costs more (page faults) than the copy itself.
 *
 * Who may touch what: worker.lock guards everything in tt_saver, and job.filled;
 * the rest of a job is set before it is queued.
 *
 * In a forked child each file is written by the thread that saves it.  The copies
 * that wait there are the parent's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"
#include "format/formats.h"
#include "os/os.h"
#include "tensor/walk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES = 64 << 20,
    LONG = 4 << 20,    /* from here on writing begins before the copy is complete */
    PIECE = 256 << 10, /* copied before the thread is told */
    HUGE_PAGE = 2 << 20,
    ALIGN = 64,
};
/* s.  Waking a thread costs as much as copying 300 KB, so the thread lets copies gather for a
 * moment, as the recorder's writer does.  It is woken only after a moment in which nothing came;
 * after `patience` without work it frees the spare memory. */
static const double moment = 0.01, patience = 1;

/* One block of memory: this, the path, the elements. */
typedef struct save_job {
    struct save_job *next;
    tt_saver *saver;  /* borrowed */
    uint64_t number;  /* in order of queueing, from 1 */
    size_t room;      /* bytes of this block, all included */
    const char *path; /* in this block */
    tt_format format;
    char dtype_name[32]; /* "": that of copy */
    tt_tensor copy;      /* contiguous; the elements are in this block */
    char *elements;      /* of copy */
    size_t bytes;        /* of all elements */
    size_t filled;       /* bytes that are there; guarded by the saver's lock */
} save_job;

typedef struct copy_pool {
    size_t most;      /* bytes, of both kinds below */
    size_t used;      /* by jobs */
    size_t spare;     /* in blocks to use again */
    save_job *blocks; /* owned; latest used first */
} copy_pool;

struct tt_saver {
    tt_worker worker;
    copy_pool pool;
    save_job *first, *last; /* waiting to be written */
    save_job *busy;         /* being written */
    uint64_t added;
    int64_t failed;
    tt_status st; /* of the first failure */
    tt_error error;
    bool is_idle; /* the thread sleeps until it is woken */
    bool is_closing;
};

static bool is_inherited(const tt_saver *saver)
{
    return atomic_load_explicit(&saver->worker.is_inherited, memory_order_relaxed);
}

static void lock(tt_saver *saver)
{
    (void)pthread_mutex_lock(&saver->worker.lock);
}

static void unlock(tt_saver *saver)
{
    (void)pthread_mutex_unlock(&saver->worker.lock);
}

/* ---- memory for copies; called with the lock held ----------------------------
 * Used again and again: what was just written to a file is still in the cache. */

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Bytes of the block that a job with this path and tensor needs. */
static size_t job_size(const char *path, const tt_tensor *t)
{
    return round_up(sizeof(save_job) + strlen(path) + 1) +
           round_up((size_t)t->count * tt_dtype_size(t->dtype));
}

/* Frees spare blocks. */
static void drop_spare(copy_pool *pool, size_t down_to)
{
    while (pool->blocks != NULL && pool->spare > down_to) {
        save_job *gone = pool->blocks;
        pool->blocks = gone->next;
        pool->spare -= gone->room;
        free(gone);
    }
}

/* A block that fits and is not much too large, the latest used first; NULL: none. */
static save_job *take_spare(copy_pool *pool, size_t need)
{
    for (save_job **at = &pool->blocks; *at != NULL; at = &(*at)->next) {
        save_job *found = *at;
        if (found->room >= need && found->room / 2 <= need) {
            *at = found->next;
            pool->spare -= found->room;
            return found;
        }
    }
    return NULL;
}

/* Large ones in huge pages: far fewer faults. */
static save_job *new_block(size_t need)
{
    bool is_huge = need >= HUGE_PAGE;
    size_t align = is_huge ? HUGE_PAGE : ALIGN;
    save_job *block = aligned_alloc(align, (need + align - 1) & ~(align - 1));
    if (block == NULL)
        return NULL;
    if (is_huge)
        tt_os_memory_is_large(block, need);
    block->room = need;
    return block;
}

/* Returns a job without its elements.  NULL: out of memory.  The caller sees to it that there is
 * room below `most`. */
static save_job *take_job(copy_pool *pool, const char *path, tt_format format, const tt_tensor *t,
                          const char *dtype_name)
{
    size_t need = job_size(path, t), path_len = strlen(path) + 1;
    save_job *job = take_spare(pool, need);
    if (job == NULL) {
        drop_spare(pool, pool->used + need < pool->most ? pool->most - pool->used - need : 0);
        job = new_block(need);
    }
    if (job == NULL)
        return NULL;
    pool->used += job->room;
    job->next = NULL;
    job->path = memcpy((char *)job + sizeof *job, path, path_len);
    job->format = format;
    job->elements = (char *)job + round_up(sizeof *job + path_len);
    job->bytes = (size_t)t->count * tt_dtype_size(t->dtype);
    job->filled = 0;
    (void)snprintf(job->dtype_name, sizeof job->dtype_name, "%s", dtype_name != NULL ? dtype_name : "");
    tt_status st = tt_tensor_describe(&job->copy, job->elements, t->dtype, t->ndim, t->shape, NULL, NULL);
    assert(st == TT_OK); /* as t itself */
    (void)st;
    return job;
}

static void give_job(copy_pool *pool, save_job *job)
{
    pool->used -= job->room;
    job->next = pool->blocks;
    pool->blocks = job;
    pool->spare += job->room;
}

/* ---- writing; called with the lock held -------------------------------------- */

static void note_failure(tt_saver *saver, tt_status st, const tt_error *err)
{
    if (saver->failed++ == 0) {
        saver->st = st;
        saver->error = *err;
    }
}

/* Waits, without the lock held before, until so many bytes of a job are there. */
static void wait_filled(void *context, size_t bytes)
{
    const save_job *job = context;
    lock(job->saver);
    while (job->filled < bytes)
        tt_worker_wait(&job->saver->worker, TT_FOREVER);
    unlock(job->saver);
}

/* Writes the first job that waits, with the lock released meanwhile. */
static void write_first(tt_saver *saver)
{
    save_job *now = saver->first, **at = &saver->busy;
    tt_filling filling = { wait_filled, now };
    tt_error err;
    saver->first = now->next;
    now->next = saver->busy;
    saver->busy = now;
    unlock(saver);
    tt_status st = tt_saved_write(now->path, now->format, &now->copy,
                                  now->dtype_name[0] != '\0' ? now->dtype_name : NULL, &filling, &err);
    wait_filled(now, now->bytes); /* a failure may come before the end of the copy */
    lock(saver);
    while (*at != now)
        at = &(*at)->next;
    *at = now->next;
    if (st < 0)
        note_failure(saver, st, &err);
    give_job(&saver->pool, now);
    tt_worker_tell(&saver->worker);
}

/* ---- the thread -------------------------------------------------------------- */

static void *run(void *argument)
{
    tt_saver *saver = argument;
    uint64_t seen = 0; /* jobs, before the last sleep */
    lock(saver);
    while (saver->first != NULL || !saver->is_closing) {
        if (saver->first != NULL) {
            write_first(saver);
            continue;
        }
        saver->is_idle = saver->added == seen;
        seen = saver->added;
        /* A copy in use may be written, and become spare, by a thread that waits. */
        bool has_memory = saver->pool.used + saver->pool.spare > 0;
        double seconds = !saver->is_idle ? moment : has_memory ? patience : TT_FOREVER;
        if (!tt_worker_sleep(&saver->worker, seconds) && saver->is_idle)
            drop_spare(&saver->pool, 0);
        saver->is_idle = false;
    }
    unlock(saver);
    return NULL;
}

/* ---- the program's threads ---------------------------------------------------- */

tt_status tt_saver_open(size_t bytes, tt_saver **out, tt_error *err)
{
    tt_saver *saver = calloc(1, sizeof *saver);
    if (saver == NULL || tt_worker_open(&saver->worker, NULL, saver) < 0) {
        free(saver);
        return tt_fail_plain(err, TT_ENOMEM);
    }
    saver->pool.most = bytes > 0 ? bytes : BYTES;
    *out = saver;
    return TT_OK;
}

void tt_saver_close(tt_saver *saver)
{
    if (saver == NULL)
        return;
    lock(saver);
    saver->is_closing = true;
    tt_worker_wake(&saver->worker);
    unlock(saver);
    while (!is_inherited(saver) && !tt_worker_join(&saver->worker, TT_FOREVER))
        continue;
    drop_spare(&saver->pool, 0);
    tt_worker_close(&saver->worker);
    free(saver);
}

static void queue_job(tt_saver *saver, save_job *now)
{
    if (saver->first == NULL)
        saver->first = now;
    else
        saver->last->next = now;
    saver->last = now;
    now->saver = saver;
    now->number = ++saver->added;
    if (saver->is_idle || now->bytes >= LONG)
        tt_worker_wake(&saver->worker);
}

/* Copies the elements of a job that is queued now, if it is long, or will be at the end. */
static void copy_elements(tt_saver *saver, save_job *job, const tt_tensor *t)
{
    size_t bytes = job->bytes;
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        tt_walk_copy(&walk, job->elements + at, n);
        lock(saver);
        job->filled = at + n;
        if (bytes >= LONG)
            tt_worker_tell(&saver->worker);
        else if (at + n == bytes)
            queue_job(saver, job);
        unlock(saver);
    }
}

tt_status tt_saver_add(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                       const char *dtype_name, tt_error *err)
{
    size_t bytes = (size_t)t->count * tt_dtype_size(t->dtype);
    if (is_inherited(saver))
        return tt_file_save(path, format, t, dtype_name, err);
    if (bytes > saver->pool.most / 2) {
        tt_error why;
        tt_status saved = tt_file_save(path, format, t, dtype_name, &why);
        lock(saver);
        if (saved < 0)
            note_failure(saver, saved, &why);
        unlock(saver);
        return TT_OK;
    }
    size_t need = job_size(path, t);
    lock(saver);
    while (saver->pool.used > 0 && saver->pool.used + need > saver->pool.most) {
        tt_worker_wake(&saver->worker);
        tt_worker_wait(&saver->worker, TT_FOREVER); /* for another file to be written */
    }
    tt_status st = tt_worker_start(&saver->worker, run, err);
    save_job *now = st == TT_OK ? take_job(&saver->pool, path, format, t, dtype_name) : NULL;
    if (now != NULL && (bytes >= LONG || bytes == 0))
        queue_job(saver, now);
    unlock(saver);
    if (now == NULL)
        return st < 0 ? st : tt_fail_plain(err, TT_ENOMEM);
    if (bytes > 0) /* an empty job may be written and gone already */
        copy_elements(saver, now, t);
    return TT_OK;
}

bool tt_saver_has_room(tt_saver *saver, size_t bytes)
{
    if (is_inherited(saver))
        return false;
    lock(saver);
    /* With what a path and a block that is too large may take. */
    bool has_room = bytes <= saver->pool.most / 2 &&
                    (saver->pool.used == 0 || saver->pool.used + 2 * bytes + 8192 <= saver->pool.most);
    unlock(saver);
    return has_room;
}

/* Is one of the jobs up to this number still being written? */
static bool is_busy(const tt_saver *saver, uint64_t number)
{
    for (const save_job *at = saver->busy; at != NULL; at = at->next)
        if (at->number <= number)
            return true;
    return false;
}

tt_status tt_saver_wait(tt_saver *saver, int64_t *failed, tt_error *err)
{
    if (is_inherited(saver))
        return TT_OK;
    lock(saver);
    uint64_t goal = saver->added;
    while (saver->first != NULL && saver->first->number <= goal) {
        if (saver->first->next != NULL) /* enough for two */
            tt_worker_wake(&saver->worker);
        write_first(saver);
    }
    while (is_busy(saver, goal))
        tt_worker_wait(&saver->worker, TT_FOREVER);
    tt_status st = saver->failed > 0 ? saver->st : TT_OK;
    if (st < 0) {
        (void)tt_fail(err, st, "%s", saver->error.text);
        if (failed != NULL)
            *failed = saver->failed;
    }
    saver->failed = 0;
    drop_spare(&saver->pool, saver->pool.most / 2);
    unlock(saver);
    return st;
}

size_t tt_saver_held(tt_saver *saver)
{
    if (is_inherited(saver))
        return 0;
    lock(saver);
    size_t held = saver->pool.used + saver->pool.spare;
    unlock(saver);
    return held;
}
