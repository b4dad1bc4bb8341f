/* worker.h -- a thread of ours, how it waits for work and how others wait for it.
 *
 *     tt_worker worker;
 *     tt_worker_open(&worker, NULL, owner);
 *     tt_worker_start(&worker, run, err);
 *
 *     a user's thread                          run
 *     pthread_mutex_lock(&worker.lock);        pthread_mutex_lock(&worker.lock);
 *     add_work();                              while (!has_work())
 *     tt_worker_wake(&worker);                     tt_worker_sleep(&worker, 0.2);
 *     while (!is_done())                       do_work();
 *         tt_worker_wait(&worker, 0.1);        tt_worker_tell(&worker);
 *     pthread_mutex_unlock(&worker.lock);      pthread_mutex_unlock(&worker.lock);
 *
 * wake, sleep, wait and tell are called with the lock held, all others without it.
 *
 * Fork: a fork waits until the thread is not between begin and end, and holds the lock,
 * so that a child never inherits either in use.  The child has no thread; `is_inherited`
 * says so, and nothing else works there but close.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_WORKER_H
#define TT_BASE_WORKER_H

#include "tensortap_tools.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TT_FOREVER = 1000000 }; /* s */

typedef struct tt_worker {
    pthread_mutex_t lock;
    pthread_cond_t work;     /* the thread waits here */
    pthread_cond_t progress; /* everybody else waits here */
    _Atomic int waiting;     /* for progress; changed under the lock */
    _Atomic bool is_asleep;  /* the thread is in tt_worker_sleep; changed under the lock */
    bool is_woken;           /* since it last slept */
    bool is_busy;            /* the thread is between begin and end */
    bool is_forking;         /* a fork waits, or happens */
    bool has_thread;
    bool has_ended;            /* the thread needs nothing any more; under the lock */
    _Atomic bool is_inherited; /* in a forked child */
    pthread_t thread;
    void *(*run)(void *owner);     /* what the thread does */
    void (*in_child)(void *owner); /* NULL: nothing */
    void *owner;                   /* borrowed */
    struct tt_worker *next;        /* in the list of all workers */
} tt_worker;

/* pthread_create for a thread that blocks all signals: they are the program's. */
int tt_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* in_child: what the owner does in a forked child; it may not allocate. */
tt_status tt_worker_open(tt_worker *worker, void (*in_child)(void *owner), void *owner);
/* Without a thread, or after it was joined. */
void tt_worker_close(tt_worker *worker);
/* Twice is once. */
tt_status tt_worker_start(tt_worker *worker, void *(*run)(void *owner), tt_error *err);
/* Waits for the thread to end.  False: it has not ended after so many seconds, and goes on;
 * the worker and all that it uses must then stay. */
bool tt_worker_join(tt_worker *worker, double seconds);

/* The thread, around work that no fork may interrupt.  end does what tell does. */
void tt_worker_begin(tt_worker *worker);
void tt_worker_end(tt_worker *worker);
/* The thread: waits until woken, or for so many seconds.  Returns at once if it was woken
 * since the last time.  False: the time is over. */
bool tt_worker_sleep(tt_worker *worker, double seconds);
void tt_worker_wake(tt_worker *worker);
/* The others: waits for tt_worker_tell, or for so many seconds. */
void tt_worker_wait(tt_worker *worker, double seconds);
void tt_worker_tell(tt_worker *worker);

#endif
