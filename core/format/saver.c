/* saver.c -- writes tensors to files while the program goes on.
 *
 * Exists because the forward pass should pay for a copy, not for a disk.  One
 * thread takes copies in the order they came and writes each to its file; whoever
 * waits for the end writes too, or takes over the checksum of what is being
 * written.  For a large tensor the thread starts before the copying ends and
 * follows it piece by piece.  Memory of written copies is used again, because
 * fresh memory costs more (page faults) than the copy itself; it is let go when
 * nothing has come for a second.
 *
 * Who may touch what:
 *   lock guards everything in tt_saver but `owner`, and job.helpers
 *   job.filled is written by the thread that added the job, read by the writer
 *   job.sum: see checksum.h
 *   the rest of a job is set before it is queued
 *
 * Fork: the child has neither the thread nor a lock it could trust.  It knows by
 * `owner`, touches nothing of this, and writes files itself.  The copies that
 * wait are the parent's business.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/copy_pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    BYTES = 64 << 20,
    LARGE = 512 << 10, /* from here on two threads share the work of writing, ... */
    LONG = 4 << 20,    /* ... and from here on writing begins before the copy is complete */
    NAP = 50000,       /* ns between looks at the queue, ... */
    NAPS = 400,        /* ... so often, before the thread sleeps until it is woken */
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
    bool is_idle;      /* the thread sleeps until it is woken */
    bool is_expecting; /* something will come soon */
};

static bool is_inherited(const tt_saver *saver)
{
    return getpid() != saver->owner;
}

/* ---- the writer ------------------------------------------------------------- */

static void take_failure(tt_saver *saver, tt_status st, const tt_error *err)
{
    if (saver->failed++ == 0) {
        saver->st = st;
        saver->error = *err;
    }
}

static void wait_for_change(tt_saver *saver)
{
    saver->waiting++;
    pthread_cond_wait(&saver->change, &saver->lock);
    saver->waiting--;
}

/* A large job that is being written by one thread alone; NULL: none. */
static tt_job *find_alone(const tt_saver *saver)
{
    for (tt_job *at = saver->busy; at != NULL; at = at->next)
        if (at->content.bytes >= LARGE && tt_format_of(at->format)->tail != NULL &&
            tt_checksum_is_alone(&at->sum))
            return at;
    return NULL;
}

/* Takes over the checksum of such a job, with the lock let go. */
static void help_one(tt_saver *saver, tt_job *with)
{
    with->helpers++;
    pthread_mutex_unlock(&saver->lock);
    tt_checksum_help(&with->sum, with->data, with->content.bytes, &with->filled);
    pthread_mutex_lock(&saver->lock);
    with->helpers--;
    if (saver->waiting > 0)
        pthread_cond_broadcast(&saver->change);
}

/* Writes a job with the lock let go.  It is in `busy` meanwhile, for helpers. */
static tt_status write_job(tt_saver *saver, tt_job *now, const tt_saved_source *source, tt_error *err)
{
    tt_job **at = &saver->busy;
    now->next = saver->busy;
    saver->busy = now;
    pthread_mutex_unlock(&saver->lock);
    tt_status st = tt_saved_write(now->path, now->format, &now->content, source, &now->sum, err);
    tt_checksum_wait_filled(&now->filled, now->content.bytes); /* it may have failed early */
    pthread_mutex_lock(&saver->lock);
    while (now->helpers > 0)
        wait_for_change(saver);
    while (*at != now)
        at = &(*at)->next;
    *at = now->next;
    return st;
}

/* Takes the first job, which is there, and writes it. */
static void write_one(tt_saver *saver)
{
    tt_job *now = saver->first;
    tt_error err;
    tt_saved_source source = { .data = now->data, .filled = &now->filled };
    saver->first = now->next;
    tt_status st = write_job(saver, now, &source, &err);
    if (st < 0)
        take_failure(saver, st, &err);
    tt_copy_pool_give(&saver->pool, now);
    if (saver->waiting > 0)
        pthread_cond_broadcast(&saver->change);
}

/* A job that has just come is left alone for a moment: if its maker waits for it,
 * it can write it sooner than a thread on another core. */
static bool is_ripe(const tt_saver *saver)
{
    const tt_job *first = saver->first;
    return first != NULL && (first->number <= saver->seen || first->content.bytes >= LONG);
}

static bool has_work(const tt_saver *saver)
{
    return is_ripe(saver) || saver->is_closing || find_alone(saver) != NULL;
}

/* To wake a thread costs its waker as much as to copy 300 KB; so, while files
 * come one after the other, the thread looks for itself. */
static void wait_for_work(tt_saver *saver)
{
    saver->seen = saver->added; /* what came while it was busy waits no longer */
    for (int i = 0; i < NAPS && !has_work(saver); i++) {
        struct timespec nap = { .tv_nsec = NAP };
        if (saver->is_expecting)
            i = 0;
        saver->is_expecting = false;
        saver->seen = saver->added;
        pthread_mutex_unlock(&saver->lock);
        (void)nanosleep(&nap, NULL);
        pthread_mutex_lock(&saver->lock);
    }
    struct timespec late;
    (void)clock_gettime(CLOCK_MONOTONIC, &late);
    late.tv_sec++;
    bool is_late = false;
    saver->seen = UINT64_MAX; /* woken for a job, it takes it */
    while (!has_work(saver) && !saver->is_expecting) {
        saver->is_idle = true;
        if (is_late)
            pthread_cond_wait(&saver->work, &saver->lock);
        else
            is_late = pthread_cond_timedwait(&saver->work, &saver->lock, &late) == ETIMEDOUT;
        if (is_late)
            tt_copy_pool_drop(&saver->pool, 0);
    }
    saver->is_idle = false;
}

static void *run(void *argument)
{
    tt_saver *saver = argument;
    (void)prctl(PR_SET_TIMERSLACK, 1); /* else a nap takes twice as long */
    pthread_mutex_lock(&saver->lock);
    for (;;) {
        wait_for_work(saver);
        tt_job *alone = find_alone(saver);
        if (saver->first != NULL)
            write_one(saver);
        else if (alone != NULL)
            help_one(saver, alone);
        else if (saver->is_closing)
            break;
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
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
    saver->pool.most = bytes > 0 ? bytes : BYTES;
    saver->owner = getpid();
    (void)pthread_mutex_init(&saver->lock, NULL);
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&saver->work, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
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
    tt_copy_pool_drop(&saver->pool, 0);
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

/* From where it lies, by the caller; the thread may do the checksum. */
tt_status tt_saver_save(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                        const char *dtype_name, tt_error *err)
{
    tt_content content = tt_content_of(t, dtype_name);
    tt_saved_source source = { .tensor = t };
    bool is_shared = content.bytes >= LARGE && tt_tensor_is_contiguous(t) && !t->is_swapped;
    if (!is_shared || is_inherited(saver))
        return tt_saved_write(path, format, &content, &source, NULL, err);
    tt_job now = { .number = UINT64_MAX, /* nobody waits for it */
                   .path = path,
                   .format = format,
                   .content = content,
                   .data = (char *)(uintptr_t)t->data,
                   .filled = content.bytes };
    pthread_mutex_lock(&saver->lock);
    (void)start(saver, NULL); /* without it nobody helps */
    if (saver->is_idle)
        pthread_cond_signal(&saver->work);
    tt_status st = write_job(saver, &now, &source, err);
    pthread_mutex_unlock(&saver->lock);
    return st;
}

tt_status tt_saver_add(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                       const char *dtype_name, tt_error *err)
{
    tt_content content = tt_content_of(t, dtype_name);
    if (is_inherited(saver))
        return tt_saved_write(path, format, &content, &(tt_saved_source){ .tensor = t }, NULL, err);
    if (content.bytes > saver->pool.most / 2) {
        tt_error why;
        tt_status saved = tt_saver_save(saver, path, format, t, dtype_name, &why);
        pthread_mutex_lock(&saver->lock);
        if (saved < 0)
            take_failure(saver, saved, &why);
        pthread_mutex_unlock(&saver->lock);
        return TT_OK;
    }
    size_t need = tt_job_size(path, &content);
    pthread_mutex_lock(&saver->lock);
    while (saver->pool.used > 0 && saver->pool.used + need > saver->pool.most)
        wait_for_change(saver);
    tt_status st = start(saver, err);
    tt_job *now = st == TT_OK ? tt_copy_pool_take(&saver->pool, need) : NULL;
    if (now != NULL)
        tt_job_fill(now, path, format, &content);
    if (now != NULL && content.bytes >= LONG)
        queue_job(saver, now);
    pthread_mutex_unlock(&saver->lock);
    if (now == NULL)
        return st < 0 ? st : tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    tt_job_copy(now, t);
    if (content.bytes < LONG) {
        pthread_mutex_lock(&saver->lock);
        queue_job(saver, now);
        pthread_mutex_unlock(&saver->lock);
    }
    return TT_OK;
}

void tt_saver_expect(tt_saver *saver)
{
    if (is_inherited(saver))
        return;
    pthread_mutex_lock(&saver->lock);
    (void)start(saver, NULL); /* tt_saver_add tries again, and says why not */
    saver->is_expecting = true;
    if (saver->is_idle)
        pthread_cond_signal(&saver->work);
    pthread_mutex_unlock(&saver->lock);
}

bool tt_saver_has_room(tt_saver *saver, size_t bytes)
{
    if (is_inherited(saver))
        return false;
    pthread_mutex_lock(&saver->lock);
    /* With what a path and a block that is too large may take. */
    bool has_room = bytes <= saver->pool.most / 2 &&
                    (saver->pool.used == 0 || saver->pool.used + 2 * bytes + 8192 <= saver->pool.most);
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
    while (saver->first != NULL && saver->first->number <= goal) {
        if (saver->is_idle && saver->first->content.bytes >= LARGE)
            pthread_cond_signal(&saver->work); /* to help */
        write_one(saver);
    }
    while (is_busy(saver, goal)) {
        tt_job *alone = find_alone(saver);
        if (alone != NULL)
            help_one(saver, alone);
        else
            wait_for_change(saver);
    }
    tt_status st = saver->failed > 0 ? saver->st : TT_OK;
    if (st < 0) {
        (void)tt_fail(err, st, "%s", saver->error.text);
        if (failed != NULL)
            *failed = saver->failed;
    }
    saver->failed = 0;
    tt_copy_pool_drop(&saver->pool, saver->pool.most / 2);
    pthread_mutex_unlock(&saver->lock);
    return st;
}

size_t tt_saver_held(tt_saver *saver)
{
    if (is_inherited(saver))
        return 0;
    pthread_mutex_lock(&saver->lock);
    size_t held = saver->pool.used + saver->pool.spare;
    pthread_mutex_unlock(&saver->lock);
    return held;
}
