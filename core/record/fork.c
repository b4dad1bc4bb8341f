/* fork.c -- lets a process fork while it records.
 *
 * Exists because DataLoader workers fork.  A lock that the writer holds at that
 * moment would stay locked in the child for ever; so before a fork we take the
 * locks, and after it both sides let go.  The writer takes its lock again as soon as it
 * has let go of it, and the forking thread would hardly ever get it: `fork_wanted` asks
 * the writer to stay away.
 *
 * The child gets a recorder that is `inherited`: its queue is empty, the file is
 * the parent's and is closed without a word, calls do nothing.  No memory is
 * allocated and nothing is written in the child.
 *
 * value_lock is not taken: its holder may be waiting for the disk.  What it
 * guards is not used in the child, so it is only made new there.
 *
 * This list is one of the two mutable globals of the core: pthread_atfork takes
 * no argument.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    tt_recorder *first; /* borrowed, linked by `next` */
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

static void prepare(void)
{
    pthread_mutex_lock(&registry.lock);
    for (tt_recorder *rec = registry.first; rec != NULL; rec = rec->next)
        atomic_store(&rec->fork_wanted, true);
    for (tt_recorder *rec = registry.first; rec != NULL; rec = rec->next) {
        pthread_mutex_lock(&rec->io_lock);
        pthread_mutex_lock(&rec->queue.lock);
    }
}

static void in_parent(void)
{
    for (tt_recorder *rec = registry.first; rec != NULL; rec = rec->next) {
        pthread_mutex_unlock(&rec->queue.lock);
        pthread_mutex_unlock(&rec->io_lock);
        atomic_store(&rec->fork_wanted, false);
    }
    pthread_mutex_unlock(&registry.lock);
}

static void in_child(void)
{
    for (tt_recorder *rec = registry.first; rec != NULL; rec = rec->next) {
        (void)pthread_mutex_init(&rec->io_lock, NULL);
        (void)pthread_mutex_init(&rec->value_lock, NULL);
        tt_queue_after_fork(&rec->queue);
        tt_sites_after_fork(rec->sites);
        tt_store_forget(&rec->store);
        atomic_store(&rec->fork_wanted, false);
        atomic_store(&rec->has_thread, false);
        atomic_store(&rec->is_inherited, true);
    }
    registry.first = NULL; /* they are not this process's any more */
    (void)pthread_mutex_init(&registry.lock, NULL);
}

static void register_handlers(void)
{
    (void)pthread_atfork(prepare, in_parent, in_child);
}

tt_status tt_fork_add(tt_recorder *rec)
{
    if (pthread_once(&registry.once, register_handlers) != 0)
        return TT_ENOMEM;
    pthread_mutex_lock(&registry.lock);
    rec->next = registry.first;
    registry.first = rec;
    pthread_mutex_unlock(&registry.lock);
    return TT_OK;
}

void tt_fork_remove(tt_recorder *rec)
{
    pthread_mutex_lock(&registry.lock);
    for (tt_recorder **at = &registry.first; *at != NULL; at = &(*at)->next)
        if (*at == rec) {
            *at = rec->next;
            break;
        }
    pthread_mutex_unlock(&registry.lock);
}
