/* lifecycle.c -- starts and ends a recorder.
 *
 * Exists apart from recorder.c because everything here may allocate, wait and
 * touch the disk.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { QUEUE_BYTES = 32 << 20 };

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

static tt_status name_file(tt_recorder *rec, const char *folder, const tt_recorder_options *options)
{
    size_t room = strlen(folder) + 48;
    rec->path = malloc(room);
    if (rec->path == NULL)
        return TT_ENOMEM;
    if (options->child != 0)
        (void)snprintf(rec->path, room, "%s/rank%d.%d.tap", folder, (int)options->rank,
                       (int)options->child);
    else
        (void)snprintf(rec->path, room, "%s/rank%d.tap", folder, (int)options->rank);
    return TT_OK;
}

static tt_status copy_text(char **out, const char *text)
{
    size_t len = text != NULL ? strlen(text) + 1 : 0;
    char *copy = text != NULL ? malloc(len) : NULL;
    if (text != NULL && copy == NULL)
        return TT_ENOMEM;
    if (text != NULL)
        memcpy(copy, text, len);
    *out = copy;
    return TT_OK;
}

static tt_status copy_plan(tt_recorder *rec, const tt_plan *plan)
{
    tt_status st = copy_text(&rec->only, plan->only);
    if (st == TT_OK)
        st = copy_text(&rec->exclude, plan->exclude);
    rec->plan = *plan;
    rec->plan.only = rec->only;
    rec->plan.exclude = rec->exclude;
    return st;
}

static tt_status make_values(tt_recorder *rec)
{
    rec->values = calloc(TT_VALUE_ROWS, sizeof *rec->values);
    rec->place = calloc(TT_VALUE_ROWS, sizeof *rec->place);
    rec->is_gone = calloc(TT_VALUE_ROWS, sizeof *rec->is_gone);
    return rec->values != NULL && rec->place != NULL && rec->is_gone != NULL ? TT_OK : TT_ENOMEM;
}

static void release(tt_recorder *rec)
{
    if (rec->queue.ring != NULL)
        tt_queue_close(&rec->queue);
    tt_sites_free(rec->sites);
    tt_writer_free(&rec->batch);
    pthread_mutex_destroy(&rec->io_lock);
    pthread_mutex_destroy(&rec->value_lock);
    free(rec->values);
    free(rec->place);
    free((void *)rec->is_gone);
    free(rec->only);
    free(rec->exclude);
    free(rec->path);
    free(rec);
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
        return tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    rec->drops = options->drops;
    rec->store.fd = -1;
    bool has_store = false;
    st = pthread_mutex_init(&rec->io_lock, NULL) == 0 && pthread_mutex_init(&rec->value_lock, NULL) == 0
             ? TT_OK
             : TT_ENOMEM;
    if (st == TT_OK)
        st = name_file(rec, folder, options);
    if (st == TT_OK)
        st = copy_plan(rec, &options->plan);
    if (st == TT_OK)
        st = make_values(rec);
    if (st == TT_OK)
        st = tt_sites_create(&rec->sites);
    if (st == TT_OK)
        st = tt_queue_open(&rec->queue, options->queue_bytes > 0 ? options->queue_bytes : QUEUE_BYTES,
                           &tt_recorder_fork_calls, rec);
    if (st < 0) {
        (void)tt_fail(err, st, "%s", tt_status_text(st));
        goto out;
    }
    tt_store_options store = { .resumes = options->resumes,
                               .compresses = options->compresses,
                               .max_bytes = options->max_bytes,
                               .info = options->info };
    st = tt_store_open(&rec->store, rec->path, rec->sites, &store, err);
    if (st < 0)
        goto out;
    has_store = true;
    plan_known_sites(rec);
    atomic_store(&rec->bytes, rec->store.end);
    st = tt_worker_start(&rec->queue.worker, tt_writer_run, rec, err);
    if (st < 0)
        goto out;
    *out = rec;
    return TT_OK;
out:
    if (has_store)
        (void)tt_store_close(&rec->store, NULL);
    release(rec);
    return st;
}

tt_status tt_recorder_close(tt_recorder *rec, double seconds, tt_error *err)
{
    if (rec == NULL)
        return TT_OK;
    tt_status st = TT_OK;
    if (!tt_recorder_is_in_child(rec)) {
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
