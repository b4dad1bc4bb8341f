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

void tt_runs_entry_free(tt_runs_entry *e)
{
    tt_buf_free(&e->command);
    free(e->path);
    free(e->verdict);
    for (size_t k = 0; k < TT_RUNS_USUAL_COUNT_; k++)
        tt_runs_value_free(&e->usual[k]);
    for (size_t k = 0; k < e->value_count; k++)
        tt_runs_value_free(&e->values[k]);
    free(e->values);
}

void tt_runs_free(tt_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        tt_runs_entry_free(&runs->entries[i]);
    free(runs->entries);
    *runs = (tt_runs){ 0 };
}

/* What tensortap.cloud.upload has written down: bytes, a URL, "done" or an error. */
static int64_t read_behind(const char *path)
{
    char *name = NULL, line[4096] = "", state[16] = ""; /* name: owned */
    long long behind = -1;
    FILE *file = asprintf(&name, "%s/.upload", path) >= 0 ? fopen(name, "re") : NULL;
    if (file != NULL) {
        if (fscanf(file, "%lld\n%4095[^\n]\n%15[^\n]", &behind, line, state) < 2 || behind < 0)
            behind = -1;
        (void)fclose(file);
    }
    free(name);
    return strcmp(state, "done") == 0 ? 0 : behind;
}

static bool is_uploading(const char *path)
{
    char *name = NULL; /* owned */
    bool is_held = asprintf(&name, "%s/.upload.lock", path) >= 0 && tt_file_is_written(name);
    free(name);
    return is_held;
}

/* ---- values ------------------------------------------------------------------ */

static tt_status add_value(tt_runs_entry *e)
{
    tt_status st = tt_grow(&e->values, &e->value_cap, e->value_count + 1, sizeof *e->values);
    if (st == TT_OK)
        e->values[e->value_count++] = (tt_runs_value){ 0 };
    return st;
}

typedef struct filling {
    tt_runs_entry *entry;
    tt_run *run;
} filling;

/* What tells no run from another, or is no number. */
#define CODE "code/*,file/*,module/*,tensortap/*"
#define TENSORS "activation/*,activation_gradient/*,buffer/*,gradient/*,input/*,line/*,parameter/*"

/* Adds what has a value; a tensor has none. */
static tt_status add_named(void *self, const char *name, int32_t site, const char *setting)
{
    const filling *f = self;
    tt_runs_entry *e = f->entry;
    bool is_left_out = tt_glob_match(setting == NULL ? TENSORS : CODE, name);
    if (is_left_out || (setting != NULL && tt_run_find(f->run, name) >= 0))
        return TT_OK; /* a number that was logged goes before a setting of its name */
    tt_status st = add_value(e);
    if (st < 0)
        return st;
    tt_runs_value *made = &e->values[e->value_count - 1];
    st =
        setting != NULL ? tt_runs_value_set(made, name, setting) : tt_runs_value_read(f->run, site, made);
    made->is_setting = setting != NULL;
    if (st < 0)
        e->value_count--;
    return st == TT_EMISMATCH ? TT_OK : st;
}

static tt_status read_values(tt_runs_entry *e, tt_run *files, const tt_runs_wish *wish, tt_error *err)
{
    tt_settings settings = { 0 };
    tt_run *joined = tt_overview_join(files); /* owned; NULL: they cannot be */
    tt_run *run = joined != NULL ? joined : files;
    tt_status st = tt_settings_read(files, &settings);
    for (tt_runs_usual i = 0; st == TT_OK && i < TT_RUNS_USUAL_COUNT_; i++)
        st = tt_runs_value_usual(run, &settings, i, &e->usual[i]);
    for (size_t i = 0; st == TT_OK && wish != NULL && i < wish->key_count; i++) {
        st = add_value(e);
        if (st == TT_OK)
            st = tt_runs_value_find(run, &settings, wish->keys[i], &e->values[i], err);
    }
    if (st == TT_OK && wish != NULL && wish->wants_all)
        st = tt_runs_value_each(run, &settings, add_named, &(filling){ e, run });
    tt_settings_free(&settings);
    tt_run_close(joined);
    return st;
}

static tt_status add_entry(tt_runs *all, const tt_runs_wish *wish, const char *path, tt_error *err)
{
    if (tt_grow(&all->entries, &all->cap, all->count + 1, sizeof *all->entries) < 0)
        return TT_ENOMEM;
    tt_runs_entry *e = &all->entries[all->count];
    *e = (tt_runs_entry){
        .path = strdup(path), .behind = read_behind(path), .is_uploading = is_uploading(path), .stride = 1
    };
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
    e->started = tt_run_started(run);
    e->state = tt_run_state(run);
    e->ranks = tt_overview_rank_count(run);
    e->totals.stopped = NULL; /* it is the run's */
    e->stride = tt_run_widest_stride(run);
    tt_status st = tt_run_command(run, &e->command);
    if (st == TT_OK)
        st = read_values(e, run, wish, err);
    tt_run_close(run);
    return st;
}

/* ---- verdicts ------------------------------------------------------------------ */

static tt_status judge(tt_runs_entry *e)
{
    tt_run *run = NULL;
    tt_findings *found = NULL; /* owned */
    tt_status st = tt_run_open(e->path, &run, NULL);
    if (st == TT_OK)
        st = tt_health(run, &(tt_health_options){ .path = e->path }, &found, NULL);
    for (size_t i = 0; st == TT_OK && i < found->count; i++)
        *(found->items[i].severity == TT_SEVERITY_ERROR ? &e->errors : &e->warnings) += 1;
    if (st == TT_OK) {
        free(e->verdict);
        e->verdict = strdup(found->verdict);
        st = e->verdict != NULL ? TT_OK : TT_ENOMEM;
    }
    tt_findings_free(found);
    tt_run_close(run);
    return st == TT_ENOMEM ? st : TT_OK; /* what cannot be read has no verdict */
}

tt_status tt_runs_judge(tt_runs *runs, int64_t bytes)
{
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < runs->count; i++) {
        tt_runs_entry *e = &runs->entries[i];
        if (!e->is_readable || e->verdict != NULL || e->totals.bytes > bytes)
            continue;
        bytes -= e->totals.bytes;
        st = judge(e);
    }
    return st;
}

/* ---- the folder ------------------------------------------------------------------ */

/* Folders that were searched: a link may lead to one of them. */
typedef struct visited {
    const tt_runs_wish *wish;
    struct {
        dev_t device;
        ino_t number;
    } * folders; /* owned */
    size_t count, cap;
} visited;

static tt_status visit(visited *all, int fd, bool *is_new)
{
    struct stat about;
    *is_new = true;
    if (fstat(fd, &about) < 0)
        return TT_OK;
    for (size_t i = 0; i < all->count; i++)
        if (all->folders[i].number == about.st_ino && all->folders[i].device == about.st_dev)
            *is_new = false;
    if (!*is_new)
        return TT_OK;
    if (tt_grow(&all->folders, &all->cap, all->count + 1, sizeof *all->folders) < 0)
        return TT_ENOMEM;
    all->folders[all->count].device = about.st_dev;
    all->folders[all->count++].number = about.st_ino;
    return TT_OK;
}

static tt_status search_inner(tt_runs *all, visited *before, const char *path, const char *name,
                              int depth, tt_error *err);

static tt_status search(tt_runs *all, visited *before, const char *path, int depth, tt_error *err)
{
    DIR *folder = opendir(path);
    bool is_new = true;
    if (folder == NULL) {
        if (depth > 0)
            return TT_OK; /* not ours to read: as if it were not there */
        return tt_fail(err, TT_EIO, "%.150s: %s; give a folder that holds runs", path, strerror(errno));
    }
    tt_status st = visit(before, dirfd(folder), &is_new);
    if (st < 0 || !is_new) {
        (void)closedir(folder);
        return st;
    }
    bool is_run = false;
    for (struct dirent *at; !is_run && (at = readdir(folder)) != NULL;)
        is_run = tt_remove_is_tap(at->d_name);
    if (is_run)
        st = add_entry(all, before->wish, path, err);
    for (int links = 0; st == TT_OK && !is_run && depth < DEPTH && links < 2; links++) {
        rewinddir(folder); /* links at last, so that a run has its own name */
        for (struct dirent *at; st == TT_OK && (at = readdir(folder)) != NULL;)
            if (at->d_name[0] != '.' && (links == 0) == (at->d_type == DT_DIR) &&
                (at->d_type == DT_DIR || at->d_type == DT_UNKNOWN || at->d_type == DT_LNK))
                st = search_inner(all, before, path, at->d_name, depth + 1, err);
    }
    (void)closedir(folder);
    return st;
}

static tt_status search_inner(tt_runs *all, visited *before, const char *path, const char *name,
                              int depth, tt_error *err)
{
    char *inner = NULL; /* owned */
    struct stat about;
    tt_status st = TT_OK;
    if ((strcmp(path, ".") == 0 ? asprintf(&inner, "%s", name) : asprintf(&inner, "%s/%s", path, name)) <
        0)
        return TT_ENOMEM;
    if (stat(inner, &about) == 0 && S_ISDIR(about.st_mode))
        st = search(all, before, inner, depth, err);
    free(inner);
    return st;
}

static int by_time(const void *a, const void *b)
{
    const tt_runs_entry *x = a, *y = b;
    if (x->started != y->started)
        return x->started < y->started ? 1 : -1;
    return strcmp(x->path, y->path);
}

tt_status tt_runs_find(const char *folder, const tt_runs_wish *wish, tt_runs *out, tt_error *err)
{
    tt_runs found = { 0 };
    visited before = { .wish = wish };
    tt_status st = search(&found, &before, folder, 0, err);
    free(before.folders);
    if (st == TT_OK && found.count > 0)
        qsort(found.entries, found.count, sizeof *found.entries, by_time);
    if (st == TT_OK)
        *out = found;
    else
        tt_runs_free(&found);
    return st;
}

static void put_value(tt_json *json, const char *name, const tt_runs_value *value)
{
    if (value->name != NULL && value->is_number)
        tt_json_f64(json, name, value->number);
    else
        tt_json_text(json, name, value->text);
}

static void put_values(tt_json *json, const tt_runs_entry *e)
{
    tt_json_text(json, "verdict", e->verdict);
    put_value(json, "loss", &e->usual[TT_RUNS_LOSS]);
    tt_json_text(json, "loss_name", e->usual[TT_RUNS_LOSS].name);
    put_value(json, "lr", &e->usual[TT_RUNS_LR]);
    put_value(json, "batch", &e->usual[TT_RUNS_BATCH]);
    tt_json_i64(json, "stride", e->stride);
    tt_json_open(json, "values", '{');
    for (size_t i = 0; i < e->value_count; i++)
        if (e->values[i].name != NULL)
            put_value(json, e->values[i].name, &e->values[i]);
    tt_json_close(json);
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
            tt_json_text(json, "state", tt_state_text(e->state));
            tt_json_i64(json, "first_step", e->totals.first_step);
            tt_json_i64(json, "last_step", e->totals.last_step);
            tt_json_i64(json, "points", e->totals.points);
            tt_json_i64(json, "ranks", e->ranks);
            tt_json_i64(json, "bytes", e->totals.bytes);
            if (e->behind >= 0)
                tt_json_i64(json, "upload_behind", e->behind);
            if (e->behind > 0)
                tt_json_bool(json, "uploading", e->is_uploading);
            put_values(json, e);
        }
        tt_json_close(json);
    }
}
