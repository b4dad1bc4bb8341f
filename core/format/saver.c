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
#include "format/copy_pool.h"

#include <stdlib.h>

enum {
    BYTES = 64 << 20,
    LONG = 4 << 20, /* from here on writing begins before the copy is complete */
};
/* s.  Waking a thread costs as much as copying 300 KB.  So while files come one after the
 * other the thread looks for itself every `glance`; after a glance at nothing new it sleeps
 * until it is woken, and releases its spare memory after `patience`. */
static const double glance = 0.01, patience = 1, forever = 1e6;

struct tt_saver {
    tt_worker worker;
    tt_copy_pool pool;
    tt_job *first, *last; /* waiting to be written */
    tt_job *busy;         /* being written */
    uint64_t added;
    int64_t failed;
    tt_status st; /* of the first failure */
    tt_error error;
    bool is_idle; /* the thread does not look by itself */
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

/* ---- writing; called with the lock held -------------------------------------- */

static void note_failure(tt_saver *saver, tt_status st, const tt_error *err)
{
    if (saver->failed++ == 0) {
        saver->st = st;
        saver->error = *err;
    }
}

typedef struct filling {
    tt_saver *saver;
    const tt_job *job;
} filling;

/* Waits, without the lock held before, until so many bytes of a job are there. */
static void wait_filled(void *context, size_t bytes)
{
    const filling *now = context;
    lock(now->saver);
    while (now->job->filled < bytes)
        tt_worker_wait(&now->saver->worker, forever);
    unlock(now->saver);
}

/* Writes the first job that waits, with the lock released meanwhile. */
static void write_first(tt_saver *saver)
{
    tt_job *now = saver->first, **at = &saver->busy;
    filling source = { saver, now };
    tt_error err;
    saver->first = now->next;
    now->next = saver->busy;
    saver->busy = now;
    unlock(saver);
    tt_status st = tt_saved_write(
        now->path, now->format, &now->content,
        &(tt_elements){ .data = now->data, .wait = wait_filled, .context = &source }, &err);
    wait_filled(&source, now->content.bytes); /* a failure may come before the end of the copy */
    lock(saver);
    while (*at != now)
        at = &(*at)->next;
    *at = now->next;
    if (st < 0)
        note_failure(saver, st, &err);
    tt_copy_pool_give(&saver->pool, now);
    tt_worker_tell(&saver->worker);
}

/* ---- the thread -------------------------------------------------------------- */

/* Returns when there is a job to write, or the end has come. */
static void wait_for_work(tt_saver *saver)
{
    uint64_t seen = saver->added;
    while (!tt_worker_sleep(&saver->worker, glance)) {
        if (saver->first != NULL)
            return;
        if (saver->added == seen)
            break;
        seen = saver->added;
    }
    saver->is_idle = true;
    if (saver->first == NULL && !saver->is_closing && !tt_worker_sleep(&saver->worker, patience))
        tt_copy_pool_drop(&saver->pool, 0);
    while (saver->first == NULL && !saver->is_closing)
        (void)tt_worker_sleep(&saver->worker, forever);
    saver->is_idle = false;
}

static void *run(void *argument)
{
    tt_saver *saver = argument;
    lock(saver);
    while (saver->first != NULL || !saver->is_closing) {
        if (saver->first != NULL)
            write_first(saver);
        else
            wait_for_work(saver);
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
        return tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
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
    while (!is_inherited(saver) && !tt_worker_join(&saver->worker, forever))
        continue;
    tt_copy_pool_drop(&saver->pool, 0);
    tt_worker_close(&saver->worker);
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
    if (saver->is_idle || now->content.bytes >= LONG)
        tt_worker_wake(&saver->worker);
}

/* A piece of the copy is there. */
static void tell_filled(void *context, tt_job *job, size_t bytes)
{
    tt_saver *saver = context;
    lock(saver);
    job->filled = bytes;
    if (job->content.bytes >= LONG)
        tt_worker_tell(&saver->worker);
    else if (bytes == job->content.bytes)
        queue_job(saver, job);
    unlock(saver);
}

/* Waits for another file to be written, which makes room. */
static void wait_for_room(tt_saver *saver)
{
    tt_worker_wake(&saver->worker);
    tt_worker_wait(&saver->worker, forever);
}

tt_status tt_saver_add(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                       const char *dtype_name, tt_error *err)
{
    tt_content content = tt_content_of(t, dtype_name);
    if (is_inherited(saver))
        return tt_file_save(path, format, t, dtype_name, err);
    if (content.bytes > saver->pool.most / 2) {
        tt_error why;
        tt_status saved = tt_file_save(path, format, t, dtype_name, &why);
        lock(saver);
        if (saved < 0)
            note_failure(saver, saved, &why);
        unlock(saver);
        return TT_OK;
    }
    size_t need = tt_job_size(path, &content);
    lock(saver);
    while (saver->pool.used > 0 && saver->pool.used + need > saver->pool.most)
        wait_for_room(saver);
    tt_status st = tt_worker_start(&saver->worker, run, saver, err);
    tt_job *now = st == TT_OK ? tt_copy_pool_take(&saver->pool, need) : NULL;
    if (now != NULL)
        tt_job_fill(now, path, format, &content);
    if (now != NULL && (content.bytes >= LONG || content.bytes == 0))
        queue_job(saver, now);
    unlock(saver);
    if (now == NULL)
        return st < 0 ? st : tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    if (content.bytes > 0) /* an empty job may be written and gone already */
        tt_job_copy(now, t, tell_filled, saver);
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
    for (const tt_job *at = saver->busy; at != NULL; at = at->next)
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
        tt_worker_wait(&saver->worker, forever);
    tt_status st = saver->failed > 0 ? saver->st : TT_OK;
    if (st < 0) {
        (void)tt_fail(err, st, "%s", saver->error.text);
        if (failed != NULL)
            *failed = saver->failed;
    }
    saver->failed = 0;
    tt_copy_pool_drop(&saver->pool, saver->pool.most / 2);
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
