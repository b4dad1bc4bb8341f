/* recorder.c -- starts and ends a recorder, knows its sites and how it goes.
 *
 * A process may fork while it records: DataLoader workers do.  The child gets a recorder
 * that is `inherited`: its queue is empty, the file is the parent's and is closed without a
 * word, calls do nothing.  No memory is allocated and nothing is written in the child.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { QUEUE_BYTES = 32 << 20 };

/* ---- opening and closing ----------------------------------------------------- */

/* Makes a folder and those above it. */
static tt_status make_folder(const char *folder, tt_error *err)
{
    char path[PATH_MAX];
    size_t len = strlen(folder);
    if (len == 0 || len >= sizeof path - 32)
        return tt_fail(err, TT_EINVAL, "the folder's name is empty or too long");
    memcpy(path, folder, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        char kept = path[i];
        path[i] = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return tt_fail(err, TT_EIO, "%.180s: %s", path, strerror(errno));
        path[i] = kept;
    }
    return TT_OK;
}

static bool name_file(tt_recorder *rec, const char *folder, const tt_recorder_options *options)
{
    char child[16] = "";
    if (options->child != 0)
        (void)snprintf(child, sizeof child, ".%d", (int)options->child);
    if (asprintf(&rec->path, "%s/rank%d%s.tap", folder, (int)options->rank, child) < 0)
        rec->path = NULL;
    return rec->path != NULL;
}

static bool copy_plan(tt_recorder *rec, const tt_plan *plan)
{
    rec->plan = *plan;
    rec->plan.only = plan->only != NULL ? strdup(plan->only) : NULL;
    rec->plan.exclude = plan->exclude != NULL ? strdup(plan->exclude) : NULL;
    return (rec->plan.only != NULL) == (plan->only != NULL) &&
           (rec->plan.exclude != NULL) == (plan->exclude != NULL);
}

static void release(tt_recorder *rec)
{
    if (rec->queue.ring != NULL)
        tt_queue_close(&rec->queue);
    tt_sites_free(rec->sites);
    tt_writer_free(&rec->batch);
    tt_thin_free(&rec->thin);
    pthread_mutex_destroy(&rec->value_lock);
    free(rec->values);
    free((void *)(uintptr_t)rec->plan.only);
    free((void *)(uintptr_t)rec->plan.exclude);
    free(rec->path);
    free(rec);
}

/* value_lock was not waited for: a thread that has it may be waiting for the disk.  What it
 * guards is not used in the child. */
static void in_child(void *owner)
{
    tt_recorder *rec = owner;
    (void)pthread_mutex_init(&rec->value_lock, NULL);
    tt_queue_after_fork(&rec->queue);
    tt_sites_after_fork(rec->sites);
    tt_store_forget(&rec->store);
}

/* Sites of a run that goes on get the plan of now. */
static void plan_known_sites(tt_recorder *rec)
{
    for (int32_t i = 0; i < tt_sites_count(rec->sites); i++)
        tt_recorder_set_plan(rec, i, tt_plan_products(&rec->plan, tt_sites_row(rec->sites, i)->name),
                             rec->plan.every > 0 ? rec->plan.every : 1);
}

tt_status tt_recorder_open(const char *folder, const tt_recorder_options *options, tt_recorder **out,
                           tt_error *err)
{
    static const tt_recorder_options defaults = { 0 };
    options = options != NULL ? options : &defaults;
    tt_status st = make_folder(folder, err);
    if (st < 0)
        return st;
    tt_recorder *rec = calloc(1, sizeof *rec);
    if (rec == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    rec->drops = options->drops;
    rec->store.fd = -1;
    rec->values = calloc(TT_VALUE_ROWS, sizeof *rec->values);
    size_t bytes = options->queue_bytes > 0 ? options->queue_bytes : QUEUE_BYTES;
    if (pthread_mutex_init(&rec->value_lock, NULL) != 0 || rec->values == NULL ||
        !name_file(rec, folder, options) || !copy_plan(rec, &options->plan) ||
        tt_sites_create(&rec->sites) < 0 || tt_queue_open(&rec->queue, bytes, in_child, rec) < 0) {
        st = tt_fail_plain(err, TT_ENOMEM);
        goto out;
    }
    st = tt_store_open(&rec->store, rec->path, rec->sites, options, err);
    if (st < 0)
        goto out;
    plan_known_sites(rec);
    tt_thin_open(&rec->thin, &rec->store, options->disk);
    atomic_store(&rec->stride, 1);
    atomic_store(&rec->bytes, rec->store.end);
    st = tt_worker_start(&rec->queue.worker, tt_writer_run, err);
out:
    if (st < 0) {
        (void)tt_store_close(&rec->store, NULL);
        release(rec);
        return st;
    }
    *out = rec;
    return TT_OK;
}

tt_status tt_recorder_close(tt_recorder *rec, double seconds, tt_error *err)
{
    if (rec == NULL)
        return TT_OK;
    tt_status st = TT_OK;
    if (!tt_recorder_is_inherited(rec)) {
        atomic_store(&rec->is_closing, true);
        tt_queue_wake(&rec->queue);
        if (!tt_worker_join(&rec->queue.worker, seconds)) /* it may use everything we have */
            return tt_fail(err, TT_EIO, "%.150s: the disk did not take the last events in %g s",
                           rec->path, seconds);
        st = tt_recorder_error(rec, err);
    }
    release(rec);
    return st;
}

bool tt_recorder_is_inherited(const tt_recorder *rec)
{
    return atomic_load_explicit(&rec->queue.worker.is_inherited, memory_order_relaxed);
}

/* ---- sites ------------------------------------------------------------------- */

tt_status tt_recorder_site(tt_recorder *rec, const char *name, int32_t *out, tt_error *err)
{
    tt_status st = tt_sites_intern(rec->sites, name, strlen(name), &rec->plan, out);
    if (st == TT_EINVAL)
        return tt_fail(err, st, "%.60s...: a run holds %d names of at most %d bytes", name, TT_SITES_MAX,
                       TT_SITE_NAME_MAX);
    return tt_fail_plain(err, st);
}

const char *tt_recorder_site_name(const tt_recorder *rec, int32_t site)
{
    const tt_site_row *row = tt_sites_row(rec->sites, site);
    return row != NULL ? row->name : NULL;
}

uint32_t tt_recorder_wants(const tt_recorder *rec, int32_t site, int64_t step)
{
    const tt_site_row *row = tt_sites_row(rec->sites, site);
    if (row == NULL)
        return 0;
    uint32_t every = atomic_load_explicit(&row->every, memory_order_relaxed);
    if (every != 1 && (every == 0 || step % every != 0))
        return 0;
    return atomic_load_explicit(&row->products, memory_order_relaxed);
}

bool tt_recorder_excludes(const tt_recorder *rec, const char *name)
{
    return rec->plan.exclude != NULL && tt_glob_match(rec->plan.exclude, name);
}

void tt_recorder_set_plan(tt_recorder *rec, int32_t site, uint32_t products, uint32_t every)
{
    tt_site_row *row = tt_sites_row(rec->sites, site);
    if (row == NULL)
        return;
    atomic_store_explicit(&row->products, products, memory_order_relaxed);
    atomic_store_explicit(&row->every, every, memory_order_relaxed);
}

/* ---- how it goes --------------------------------------------------------------- */

tt_status tt_recorder_flush(tt_recorder *rec, tt_error *err)
{
    if (tt_recorder_is_inherited(rec))
        return TT_OK;
    tt_worker *worker = &rec->queue.worker;
    pthread_mutex_lock(&worker->lock);
    uint64_t goal = atomic_load(&rec->queue.head); /* under the lock: the queue may be rewound */
    if (atomic_load(&rec->wanted) < goal)
        atomic_store(&rec->wanted, goal);
    tt_worker_wake(worker);
    while (atomic_load(&rec->written) < goal && !atomic_load(&rec->queue.is_stopped))
        tt_worker_wait(worker, TT_FOREVER);
    pthread_mutex_unlock(&worker->lock);
    return tt_recorder_error(rec, err);
}

tt_status tt_recorder_error(const tt_recorder *rec, tt_error *err)
{
    if (!atomic_load(&rec->is_failed))
        return TT_OK;
    return tt_fail(err, rec->st, "%s", rec->error.text); /* not written again */
}

void tt_recorder_counts_get(const tt_recorder *rec, tt_recorder_counts *out)
{
    *out = (tt_recorder_counts){
        .events = atomic_load(&rec->events),
        .dropped_events = atomic_load(&rec->dropped_events),
        .dropped_bytes = atomic_load(&rec->dropped_bytes),
        .values = atomic_load(&rec->values_stored),
        .values_same = atomic_load(&rec->values_same),
        .values_gone = atomic_load(&rec->punched),
        .bytes = atomic_load(&rec->bytes),
        .damaged = atomic_load(&rec->damaged),
        .writer_ns = atomic_load(&rec->writer_ns),
        .stride = atomic_load(&rec->stride),
        .step_bytes = atomic_load(&rec->step_bytes),
    };
}
