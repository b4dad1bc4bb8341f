/* cmd_ls.c -- tensortap ls [FOLDER] [--keep-last N]
 *
 * A folder is searched three levels deep; what holds a rank*.tap is a run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"
#include "overview.h"
#include "words.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH = 3 };

static struct {
    int64_t keep_last; /* -1: all */
    tt_removal how;
} args = { .keep_last = -1 };

/* What is shown of a run.  It is not kept open: a folder may hold more than a process may. */
typedef struct entry {
    char *path;     /* owned */
    tt_buf command; /* owned; may be empty */
    bool is_readable;
    tt_error error; /* why not */
    tt_totals totals;
    tt_state state;
    int32_t files;
} entry;

typedef struct list {
    entry *entries; /* owned */
    size_t count, cap;
} list;

static tt_status add_entry(list *all, const char *path)
{
    if (tt_grow(&all->entries, &all->cap, all->count + 1, sizeof *all->entries) < 0)
        return TT_ENOMEM;
    entry *e = &all->entries[all->count];
    *e = (entry){ .path = strdup(path) };
    if (e->path == NULL)
        return TT_ENOMEM;
    all->count++;
    tt_run *run;
    if (tt_run_open(path, &run, &e->error) < 0) {
        e->state = TT_STATE_CRASHED;
        return TT_OK;
    }
    e->is_readable = true;
    tt_overview_totals(run, &e->totals);
    e->state = tt_overview_state(run);
    e->files = tt_overview_rank_count(run);
    tt_status st = tt_overview_command(run, &e->command);
    tt_run_close(run);
    return st;
}

static tt_status search(list *all, const char *path, int depth, tt_error *err)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        if (depth > 0)
            return TT_OK; /* not ours to read: as if it were not there */
        return tt_fail(err, TT_EIO, "%.150s: %s; give a folder that holds runs", path, strerror(errno));
    }
    tt_status st = TT_OK;
    bool is_run = false;
    for (struct dirent *at; !is_run && (at = readdir(folder)) != NULL;)
        is_run = tt_remove_is_tap(at->d_name);
    if (is_run)
        st = add_entry(all, path);
    rewinddir(folder);
    for (struct dirent *at; st == TT_OK && !is_run && depth < DEPTH && (at = readdir(folder)) != NULL;) {
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
            st = search(all, inner, depth + 1, err);
        if (len >= 0)
            free(inner);
    }
    (void)closedir(folder);
    return st;
}

static int by_time(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->totals.started != y->totals.started)
        return x->totals.started < y->totals.started ? 1 : -1;
    return strcmp(x->path, y->path);
}

static tt_status print_json(const list *all)
{
    tt_json_out out;
    tt_json *json = tt_json_begin(&out, '[');
    for (size_t i = 0; i < all->count; i++) {
        const entry *e = &all->entries[i];
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "run", e->path);
        if (!e->is_readable) {
            tt_json_text(json, "error", e->error.text);
        } else {
            tt_json_i64(json, "started", e->totals.started);
            tt_json_text(json, "command", e->command.data);
            tt_json_text(json, "state", tt_overview_state_text(e->state));
            tt_json_i64(json, "first_step", e->totals.first_step);
            tt_json_i64(json, "last_step", e->totals.last_step);
            tt_json_i64(json, "points", e->totals.points);
            tt_json_i64(json, "ranks", e->files);
            tt_json_i64(json, "bytes", e->totals.bytes);
        }
        tt_json_close(json);
    }
    return tt_json_print(&out, TT_OK);
}

static tt_status print_table(const list *all)
{
    static const tt_table_column columns[] = {
        { "RUN", .least = -24 },       { .title = "STARTED" },       { .title = "STATE" },
        { "STEPS", .is_right = true }, { "SIZE", .is_right = true }, { "COMMAND", .least = 8 },
    };
    static const tt_mood moods[] = { TT_MOOD_FAINT, TT_MOOD_SPARK, TT_MOOD_REMARK, TT_MOOD_REMARK };
    size_t most = tt_terminal.rows > 3 ? (size_t)tt_terminal.rows - 3 : all->count;
    tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < all->count && i < most; i++) {
        const entry *e = &all->entries[i];
        bool is_read = e->is_readable;
        const char *command = e->command.data != NULL ? e->command.data : "";
        tt_table_cell(table, TT_MOOD_PLAIN, e->path);
        tt_table_cell(table, TT_MOOD_FAINT, is_read ? tt_screen_time(e->totals.started) : "");
        tt_table_cell(table, is_read ? moods[e->state] : TT_MOOD_ALARM,
                      is_read ? tt_overview_state_text(e->state) : "unreadable");
        tt_table_cell(table, TT_MOOD_PLAIN,
                      is_read ? tt_screen_count(tt_overview_steps(&e->totals)) : "");
        tt_table_cell(table, TT_MOOD_PLAIN, is_read ? tt_screen_bytes(e->totals.bytes) : "");
        tt_table_cell(table, TT_MOOD_PLAIN, is_read ? command : e->error.text);
    }
    tt_status st = tt_screen_table(table, true, TT_OK);
    if (st == TT_OK && all->count > most)
        printf("... %zu older runs; 'tensortap ls | less' shows all\n", all->count - most);
    return st;
}

/* Removes all but the latest runs.  Those that cannot be read are perhaps not runs at all. */
static tt_exit remove_old(const list *all, tt_error *err)
{
    const char **paths = calloc(all->count + 1, sizeof *paths);
    size_t count = 0, kept = 0;
    if (paths == NULL)
        return tt_cmd_exit(TT_ENOMEM, err);
    for (size_t i = 0; i < all->count; i++) {
        bool is_live = all->entries[i].state == TT_STATE_LIVE;
        if (!all->entries[i].is_readable)
            continue;
        if (is_live || kept < (uint64_t)args.keep_last)
            kept += !is_live;
        else
            paths[count++] = all->entries[i].path;
    }
    tt_exit code = tt_remove_runs(paths, count, &args.how, err);
    free(paths);
    return code;
}

static tt_exit ls(tt_call *call)
{
    const char *folder = call->count > 0 ? call->path : ".";
    list all = { 0 };
    tt_exit code = TT_EXIT_FINE;
    tt_status st = search(&all, folder, 0, call->err);
    if (st == TT_OK && all.count > 0)
        qsort(all.entries, all.count, sizeof *all.entries, by_time);
    if (st == TT_OK && args.keep_last >= 0) {
        code = remove_old(&all, call->err);
    } else if (st == TT_OK && args.how.is_json) {
        st = print_json(&all);
    } else if (st == TT_OK && all.count > 0) {
        st = print_table(&all);
    } else if (st == TT_OK) {
        tt_screen_say(TT_MOOD_PLAIN, "no runs in %s; tensortap run script.py makes one\n", folder);
    }
    for (size_t i = 0; i < all.count; i++) {
        tt_buf_free(&all.entries[i].command);
        free(all.entries[i].path);
    }
    free(all.entries);
    return st < 0 ? tt_cmd_exit(st, call->err) : code;
}

const tt_cmd tt_cmd_ls = {
    .name = "ls",
    .args = "[FOLDER]",
    .summary = "list runs: when, what command, steps, size, state",
    .doc = "List the runs in a folder, the latest first.\v"
           "For example: tensortap ls runs\n"
           "             tensortap ls runs --keep-last 10",
    .options = (const tt_option[]){ { "keep-last", "N",
                                      "Remove all finished and crashed runs but the latest N; asks first",
                                      .to = &args.keep_last, tt_range_count, "a number" },
                                    { "yes", NULL, "Do not ask", .to = &args.how.is_sure },
                                    { "json", NULL, "Print JSON; with --keep-last, of what was removed",
                                      .to = &args.how.is_json },
                                    { 0 } },
    .most = 1,
    .extra = "name one folder",
    .run = ls,
};
