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
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

static void before(void *owner)
{
    tt_recorder *rec = owner;
    atomic_store(&rec->fork_wanted, true);
    pthread_mutex_lock(&rec->io_lock);
}

static void in_parent(void *owner)
{
    tt_recorder *rec = owner;
    pthread_mutex_unlock(&rec->io_lock);
    atomic_store(&rec->fork_wanted, false);
}

static void in_child(void *owner)
{
    tt_recorder *rec = owner;
    (void)pthread_mutex_init(&rec->io_lock, NULL);
    (void)pthread_mutex_init(&rec->value_lock, NULL);
    tt_queue_after_fork(&rec->queue);
    tt_sites_after_fork(rec->sites);
    tt_store_forget(&rec->store);
    atomic_store(&rec->fork_wanted, false);
}

const tt_fork_calls tt_recorder_fork_calls = { before, in_parent, in_child };
