/* list.c -- the runs in a folder.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH = 3 };

typedef struct searching {
    tt_runs *before, *out;
    tt_error *err;
} searching;

static void free_entry(tt_runs_entry *entry)
{
    tt_buf_free(&entry->command);
    free(entry->path);
}

void tt_runs_free(tt_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        free_entry(&runs->entries[i]);
    free(runs->entries);
    *runs = (tt_runs){ 0 };
}

/* Takes what was found earlier, unless the run may have changed. */
static bool take_before(tt_runs *before, const char *path, uint64_t stamp, tt_runs_entry *out)
{
    for (size_t i = 0; before != NULL && i < before->count; i++) {
        tt_runs_entry *entry = &before->entries[i];
        if (strcmp(entry->path, path) != 0 || entry->stamp != stamp || entry->state == TT_STATE_LIVE)
            continue;
        *out = *entry;
        *entry = before->entries[--before->count];
        return true;
    }
    return false;
}

static tt_status add_entry(const searching *s, const char *path, uint64_t stamp)
{
    tt_runs *all = s->out;
    if (tt_grow(&all->entries, &all->cap, all->count + 1, sizeof *all->entries) < 0)
        return TT_ENOMEM;
    tt_runs_entry *e = &all->entries[all->count];
    if (take_before(s->before, path, stamp, e)) {
        all->count++;
        return TT_OK;
    }
    *e = (tt_runs_entry){ .path = strdup(path), .stamp = stamp };
    if (e->path == NULL)
        return TT_ENOMEM;
    all->count++;
    tt_run *run;
    if (tt_run_open(path, &run, &e->error) < 0) {
        e->state = TT_STATE_CRASHED;
        return TT_OK;
    }
    e->is_readable = true;
    e->totals = tt_run_totals(run);
    e->started = tt_overview_started(run);
    e->state = tt_overview_state(run);
    e->ranks = tt_overview_rank_count(run);
    e->totals.stopped = NULL; /* it is the run's */
    tt_status st = tt_overview_command(run, &e->command);
    tt_run_close(run);
    return st;
}

/* A number that changes when a file is written, or is another. */
static uint64_t stamp_of(DIR *folder, const char *name)
{
    struct stat about;
    if (fstatat(dirfd(folder), name, &about, 0) < 0)
        return 1;
    const uint64_t parts[] = { (uint64_t)about.st_ino, (uint64_t)about.st_size,
                               (uint64_t)about.st_mtime };
    uint64_t stamp = 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        stamp = (stamp ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return stamp;
}

static tt_status search(const searching *s, const char *path, int depth)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        if (depth > 0)
            return TT_OK; /* not ours to read: as if it were not there */
        return tt_fail(s->err, TT_EIO, "%.150s: %s; give a folder that holds runs", path,
                       strerror(errno));
    }
    tt_status st = TT_OK;
    uint64_t stamp = 0;
    for (struct dirent *at; (at = readdir(folder)) != NULL;)
        if (tt_remove_is_tap(at->d_name))
            stamp += stamp_of(folder, at->d_name);
    if (stamp != 0)
        st = add_entry(s, path, stamp);
    rewinddir(folder);
    for (struct dirent *at;
         st == TT_OK && stamp == 0 && depth < DEPTH && (at = readdir(folder)) != NULL;) {
        if (at->d_name[0] == '.' ||
            (at->d_type != DT_DIR && at->d_type != DT_UNKNOWN && at->d_type != DT_LNK))
            continue;
        char *inner = NULL;
        struct stat about;
        int len = strcmp(path, ".") == 0 ? asprintf(&inner, "%s", at->d_name)
                                         : asprintf(&inner, "%s/%s", path, at->d_name);
        if (len < 0)
            st = TT_ENOMEM;
        else if (stat(inner, &about) == 0 && S_ISDIR(about.st_mode))
            st = search(s, inner, depth + 1);
        if (len >= 0)
            free(inner);
    }
    (void)closedir(folder);
    return st;
}

static int by_time(const void *a, const void *b)
{
    const tt_runs_entry *x = a, *y = b;
    if (x->started != y->started)
        return x->started < y->started ? 1 : -1;
    return strcmp(x->path, y->path);
}

tt_status tt_runs_find(const char *folder, tt_runs *before, tt_runs *out, tt_error *err)
{
    tt_runs found = { 0 };
    tt_status st = search(&(searching){ before, &found, err }, folder, 0);
    if (st == TT_OK && found.count > 0)
        qsort(found.entries, found.count, sizeof *found.entries, by_time);
    if (before != NULL)
        tt_runs_free(before);
    if (st == TT_OK)
        *out = found;
    else
        tt_runs_free(&found);
    return st;
}

void tt_runs_json(tt_json *json, const tt_runs *runs, size_t skip)
{
    for (size_t i = 0; i < runs->count; i++) {
        const tt_runs_entry *e = &runs->entries[i];
        size_t len = strlen(e->path);
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "run", e->path + (skip < len ? skip : len));
        if (!e->is_readable) {
            tt_json_text(json, "error", e->error.text);
        } else {
            tt_json_i64(json, "started", e->started);
            tt_json_text(json, "command", e->command.data);
            tt_json_text(json, "state", tt_overview_state_text(e->state));
            tt_json_i64(json, "first_step", e->totals.first_step);
            tt_json_i64(json, "last_step", e->totals.last_step);
            tt_json_i64(json, "points", e->totals.points);
            tt_json_i64(json, "ranks", e->ranks);
            tt_json_i64(json, "bytes", e->totals.bytes);
        }
        tt_json_close(json);
    }
}
