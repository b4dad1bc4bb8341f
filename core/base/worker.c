/* worker.c -- a thread of ours, how it waits for work and how others wait for it.
 *
 * Exists because the recorder and the saver both have a thread that writes, and
 * waiting, waking and forking are easy to get wrong twice.
 *
 * The list of workers is one of the two mutable globals of the core:
 * pthread_atfork takes no argument.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include "base/clock.h"
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    tt_worker *first; /* borrowed, linked by `next` */
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

/* ---- forks ----------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&registry.lock);
    for (tt_worker *worker = registry.first; worker != NULL; worker = worker->next) {
        pthread_mutex_lock(&worker->lock);
        worker->is_forking = true;
        while (worker->is_busy)
            tt_worker_wait(worker, TT_FOREVER);
    }
}

static void after_fork(void)
{
    for (tt_worker *worker = registry.first; worker != NULL; worker = worker->next) {
        worker->is_forking = false;
        (void)pthread_cond_signal(&worker->work);
        pthread_mutex_unlock(&worker->lock);
    }
    pthread_mutex_unlock(&registry.lock);
}

/* Threads that waited are gone: conditions that count them would wait for them. */
static tt_status make_conditions(tt_worker *worker)
{
    bool is_made = pthread_mutex_init(&worker->lock, NULL) == 0 &&
                   tt_os_condition_init(&worker->work) == 0 &&
                   tt_os_condition_init(&worker->progress) == 0;
    return is_made ? TT_OK : TT_ENOMEM;
}

static void forget_threads(void)
{
    for (tt_worker *worker = registry.first; worker != NULL; worker = worker->next) {
        (void)make_conditions(worker);
        atomic_store(&worker->waiting, 0);
        atomic_store(&worker->is_asleep, false);
        worker->has_thread = worker->is_forking = false;
        atomic_store(&worker->is_inherited, true);
        if (worker->in_child != NULL)
            worker->in_child(worker->owner);
    }
    registry.first = NULL; /* this process has none of them */
    (void)pthread_mutex_init(&registry.lock, NULL);
}

static void register_handlers(void)
{
    (void)pthread_atfork(before_fork, after_fork, forget_threads);
}

/* ---- life ------------------------------------------------------------------ */

tt_status tt_worker_open(tt_worker *worker, void (*in_child)(void *owner), void *owner)
{
    *worker = (tt_worker){ .in_child = in_child, .owner = owner };
    if (make_conditions(worker) < 0 || pthread_once(&registry.once, register_handlers) != 0)
        return TT_ENOMEM;
    pthread_mutex_lock(&registry.lock);
    worker->next = registry.first;
    registry.first = worker;
    pthread_mutex_unlock(&registry.lock);
    return TT_OK;
}

void tt_worker_close(tt_worker *worker)
{
    pthread_mutex_lock(&registry.lock);
    for (tt_worker **at = &registry.first; *at != NULL; at = &(*at)->next)
        if (*at == worker) {
            *at = worker->next;
            break;
        }
    pthread_mutex_unlock(&registry.lock);
    (void)pthread_cond_destroy(&worker->work);
    (void)pthread_cond_destroy(&worker->progress);
    (void)pthread_mutex_destroy(&worker->lock);
}

static void *run_and_tell(void *argument)
{
    tt_worker *worker = argument;
    (void)worker->run(worker->owner);
    pthread_mutex_lock(&worker->lock);
    worker->has_ended = true;
    tt_worker_tell(worker);
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

int tt_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits the mask */
    int got = pthread_create(thread, NULL, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return got;
}

tt_status tt_worker_start(tt_worker *worker, void *(*run)(void *owner), tt_error *err)
{
    if (worker->has_thread)
        return TT_OK;
    worker->run = run;
    worker->has_ended = false;
    int got = tt_thread_start(&worker->thread, run_and_tell, worker);
    if (got != 0)
        return tt_fail(err, TT_ENOMEM, "pthread_create: %s", strerror(got));
    worker->has_thread = true;
    return TT_OK;
}

bool tt_worker_join(tt_worker *worker, double seconds)
{
    if (!worker->has_thread)
        return true;
    double until = tt_clock_seconds() + seconds, left;
    pthread_mutex_lock(&worker->lock);
    while (!worker->has_ended && (left = until - tt_clock_seconds()) > 0)
        tt_worker_wait(worker, left);
    bool has_ended = worker->has_ended;
    pthread_mutex_unlock(&worker->lock);
    if (has_ended)
        (void)pthread_join(worker->thread, NULL);
    else
        (void)pthread_detach(worker->thread);
    worker->has_thread = !has_ended;
    return has_ended;
}

/* ---- waiting --------------------------------------------------------------- */

void tt_worker_begin(tt_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->is_forking)
        (void)pthread_cond_wait(&worker->work, &worker->lock);
    worker->is_busy = true;
    pthread_mutex_unlock(&worker->lock);
}

void tt_worker_end(tt_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->is_busy = false;
    tt_worker_tell(worker);
    pthread_mutex_unlock(&worker->lock);
}

bool tt_worker_sleep(tt_worker *worker, double seconds)
{
    struct timespec until = tt_clock_in(seconds);
    int got = 0;
    atomic_store(&worker->is_asleep, true);
    while (!worker->is_woken && got != ETIMEDOUT)
        got = tt_os_condition_wait(&worker->work, &worker->lock, &until);
    atomic_store(&worker->is_asleep, false);
    bool is_woken = worker->is_woken;
    worker->is_woken = false;
    return is_woken;
}

void tt_worker_wake(tt_worker *worker)
{
    worker->is_woken = true;
    if (atomic_load(&worker->is_asleep))
        (void)pthread_cond_signal(&worker->work);
}

void tt_worker_wait(tt_worker *worker, double seconds)
{
    struct timespec until = tt_clock_in(seconds);
    atomic_fetch_add(&worker->waiting, 1);
    (void)tt_os_condition_wait(&worker->progress, &worker->lock, &until);
    atomic_fetch_sub(&worker->waiting, 1);
}

void tt_worker_tell(tt_worker *worker)
{
    if (atomic_load(&worker->waiting) > 0)
        (void)pthread_cond_broadcast(&worker->progress);
}
