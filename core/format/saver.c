/* saver.c -- writes tensors to files while the program goes on.
 *
 * Exists because the forward pass should pay for a copy, not for a disk.  One
 * thread takes copies in the order they came and writes each to its file; whoever
 * waits for the end writes too, or helps with what is being written.  For a large
 * tensor the thread starts before the copying ends and follows it piece by piece.
 * Memory of written copies is used again, because fresh memory costs more (page
 * faults) than the copy itself.
 *
 * Fork: the child has neither the thread nor a lock it could trust.  It knows by
 * `owner`, touches nothing of this, and writes files itself.  The copies that
 * wait are the parent's business.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/saver.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 64 << 20 };

static bool is_inherited(const tt_saver *saver)
{
    return getpid() != saver->owner;
}

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
    /* What is small can wait until the thread looks. */
    if (saver->is_idle || now->content.bytes >= TT_SAVER_LONG)
        tt_saver_wake(saver);
}

/* From where it lies, by the caller; the thread may help. */
tt_status tt_saver_save(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                        const char *dtype_name, tt_error *err)
{
    tt_content content = tt_content_of(t, dtype_name);
    tt_saved_source source = { .tensor = t };
    bool is_shared = content.bytes >= TT_SAVER_LARGE && tt_tensor_is_contiguous(t) && !t->is_swapped;
    if (!is_shared || is_inherited(saver))
        return tt_saved_write(path, format, &content, &source, NULL, err);
    tt_job now = { .number = UINT64_MAX, /* nobody waits for it */
                   .path = path,
                   .format = format,
                   .content = content,
                   .data = (char *)(uintptr_t)t->data,
                   .filled = content.bytes };
    pthread_mutex_lock(&saver->lock);
    (void)tt_saver_start(saver, NULL); /* without it nobody helps */
    tt_saver_wake(saver);
    tt_status st = tt_saver_write(saver, &now, &source, err);
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
            tt_saver_note_failure(saver, saved, &why);
        pthread_mutex_unlock(&saver->lock);
        return TT_OK;
    }
    size_t need = tt_job_size(path, &content);
    pthread_mutex_lock(&saver->lock);
    while (saver->pool.used > 0 && saver->pool.used + need > saver->pool.most)
        tt_saver_wait_change(saver);
    tt_status st = tt_saver_start(saver, err);
    tt_job *now = st == TT_OK ? tt_copy_pool_take(&saver->pool, need) : NULL;
    if (now != NULL)
        tt_job_fill(now, path, format, &content);
    if (now != NULL && content.bytes >= TT_SAVER_LONG)
        queue_job(saver, now);
    pthread_mutex_unlock(&saver->lock);
    if (now == NULL)
        return st < 0 ? st : tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    tt_job_copy(now, t);
    if (content.bytes < TT_SAVER_LONG) {
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
    (void)tt_saver_start(saver, NULL); /* tt_saver_add tries again, and says why not */
    saver->is_expecting = true;
    tt_saver_wake(saver);
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
        if (saver->first->content.bytes >= TT_SAVER_LARGE)
            tt_saver_wake(saver); /* to help */
        tt_saver_write_first(saver);
    }
    while (is_busy(saver, goal)) {
        tt_job *alone = tt_saver_find_alone(saver);
        if (alone != NULL)
            tt_saver_help(saver, alone);
        else
            tt_saver_wait_change(saver);
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
