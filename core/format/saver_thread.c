/* saver_thread.c -- the thread that writes copies of tensors to files.
 *
 * Exists because the forward pass should pay for a copy, not for a disk, and not
 * for waking a thread either.  Memory that nothing has come for in a second is
 * let go here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/saver.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    NAP = 50000,      /* ns between looks at the queue, ... */
    ALERT = 5000000,  /* ... until nothing has come for so long; then naps of a quarter of the time ... */
    AWAKE = 20000000, /* ... until nothing has come for so long; then sleep until woken */
};

/* A job that has just come is left alone for a moment: if its maker waits for it,
 * it can write it sooner than a thread on another core. */
static bool is_ripe(const tt_saver *saver)
{
    const tt_job *first = saver->first;
    return first != NULL && (first->number <= saver->seen || first->content.bytes >= TT_SAVER_LONG);
}

static bool has_work(const tt_saver *saver)
{
    return is_ripe(saver) || saver->is_closing || tt_saver_find_alone(saver) != NULL;
}

static struct timespec time_in(long ns)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_nsec += ns;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* Gives the ns it was meant to take. */
static long nap(tt_saver *saver, long waited)
{
    if (waited < ALERT) {
        pthread_mutex_unlock(&saver->lock);
        (void)nanosleep(&(struct timespec){ .tv_nsec = NAP }, NULL);
        pthread_mutex_lock(&saver->lock);
        return NAP;
    }
    struct timespec end = time_in(waited / 4);
    saver->is_dozing = true;
    (void)pthread_cond_timedwait(&saver->work, &saver->lock, &end);
    saver->is_dozing = false;
    return waited / 4;
}

/* To wake a thread costs its waker as much as to copy 300 KB; so, while files
 * come one after the other, the thread looks for itself. */
static void wait_for_work(tt_saver *saver)
{
    saver->seen = saver->added; /* what came while it was busy waits no longer */
    for (long waited = 0; waited < AWAKE && !has_work(saver);) {
        saver->seen = saver->added;
        waited += nap(saver, waited);
        if (saver->is_expecting)
            waited = 0;
        saver->is_expecting = false;
    }
    struct timespec late = time_in(0);
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
        tt_job *alone = tt_saver_find_alone(saver);
        if (saver->first != NULL)
            tt_saver_write_first(saver);
        else if (alone != NULL)
            tt_saver_help(saver, alone);
        else if (saver->is_closing)
            break;
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

void tt_saver_wake(tt_saver *saver)
{
    if (saver->is_idle || saver->is_dozing)
        pthread_cond_signal(&saver->work);
}

/* Signals stay with the program's own threads. */
tt_status tt_saver_start(tt_saver *saver, tt_error *err)
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
