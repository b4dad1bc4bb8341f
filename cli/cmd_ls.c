/* cmd_ls.c -- tensortap ls [FOLDER] [--keep-last N]
 *
 * A folder is searched three levels deep; what holds a rank*.tap is a run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "json_out.h"
#include "overview.h"
#include "range.h"
#include "remove.h"
#include "screen.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEEP_LAST = 256, JSON, YES, DEPTH = 3 };

typedef struct arguments {
    const char *folder;
    int64_t keep_last; /* -1: all */
    bool is_json, is_sure;
} arguments;

/* What is shown of a run.  It is not kept open: a folder may hold more than a process may. */
typedef struct entry {
    char *path;     /* owned */
    tt_buf command; /* owned; may be empty */
    bool is_readable;
    char error[sizeof((tt_error *)NULL)->text]; /* why not */
    tt_totals totals;
    tt_state state;
    int32_t files;
} entry;

typedef struct list {
    entry *entries; /* owned */
    size_t count, cap;
} list;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case KEEP_LAST:
        if (!tt_range_count(arg, &args->keep_last))
            argp_failure(state, TT_EXIT_USAGE, 0, "--keep-last takes a number, not '%s'", arg);
        return 0;
    case YES:
        args->is_sure = true;
        return 0;
    case JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_failure(state, TT_EXIT_USAGE, 0, "one folder at most");
        args->folder = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    { "keep-last", KEEP_LAST, "N", 0, "Remove all finished and crashed runs but the latest N; asks first",
      0 },
    { "yes", YES, NULL, 0, "Do not ask", 0 },
    { "json", JSON, NULL, 0, "Print JSON; with --keep-last, of what was removed", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "[FOLDER]",
    .doc = "List the runs in a folder, the latest first.\v"
           "For example: tensortap ls runs\n"
           "             tensortap ls runs --keep-last 10",
};

static tt_status add_entry(list *all, const char *path)
{
    if (all->count == all->cap) {
        size_t cap = all->cap < 16 ? 16 : all->cap * 2;
        entry *grown = realloc(all->entries, cap * sizeof *grown);
        if (grown == NULL)
            return TT_ENOMEM;
        all->entries = grown;
        all->cap = cap;
    }
    entry *e = &all->entries[all->count];
    *e = (entry){ .path = strdup(path) };
    if (e->path == NULL)
        return TT_ENOMEM;
    all->count++;
    tt_error why = { "" };
    tt_run *run;
    if (tt_run_open(path, &run, &why) < 0) {
        memcpy(e->error, why.text, sizeof e->error);
        e->state = TT_STATE_CRASHED;
        return TT_OK;
    }
    e->is_readable = true;
    tt_overview_totals(run, &e->totals);
    e->state = tt_overview_state(run);
    e->files = tt_opened_rank_count(run);
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
        (void)snprintf(err->text, sizeof err->text, "%.150s: %s; give a folder that holds runs", path,
                       strerror(errno));
        return TT_EIO;
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

static void print_json(const list *all)
{
    tt_json_out json = { 0 };
    tt_json_open(&json, NULL, '[');
    for (size_t i = 0; i < all->count; i++) {
        const entry *e = &all->entries[i];
        tt_json_open(&json, NULL, '{');
        tt_json_words(&json, "run", e->path);
        if (!e->is_readable) {
            tt_json_words(&json, "error", e->error);
        } else {
            tt_json_whole(&json, "started", e->totals.started);
            tt_json_words(&json, "command", e->command.data);
            tt_json_words(&json, "state", tt_overview_state_text(e->state));
            tt_json_whole(&json, "first_step", e->totals.first_step);
            tt_json_whole(&json, "last_step", e->totals.last_step);
            tt_json_whole(&json, "points", e->totals.points);
            tt_json_whole(&json, "ranks", e->files);
            tt_json_whole(&json, "bytes", e->totals.bytes);
        }
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, ']');
}

static tt_status print_table(const list *all, const tt_screen *screen, tt_error *err)
{
    tt_table *table = NULL;
    tt_buf text = { 0 };
    static const struct {
        const char *title;
        bool is_right;
        int32_t least;
    } columns[] = { { "RUN", false, -24 }, { "STARTED", false, 0 }, { "STATE", false, 0 },
                    { "STEPS", true, 0 },  { "SIZE", true, 0 },     { "COMMAND", false, 8 } };
    size_t most = screen->rows > 3 ? (size_t)screen->rows - 3 : all->count;
    tt_status st = tt_table_create(&screen->style, &table);
    for (size_t c = 0; st == TT_OK && c < sizeof columns / sizeof *columns; c++)
        st = tt_table_column(table, columns[c].title, columns[c].is_right, columns[c].least);
    for (size_t i = 0; st == TT_OK && i < all->count && i < most; i++) {
        const entry *e = &all->entries[i];
        char time[64] = "", bytes[TT_NUMBER_TEXT] = "", steps[TT_NUMBER_TEXT] = "";
        static const tt_mood moods[] = { TT_MOOD_FAINT, TT_MOOD_SPARK, TT_MOOD_REMARK, TT_MOOD_REMARK };
        if (e->is_readable) {
            (void)tt_screen_time(e->totals.started, time, sizeof time);
            (void)tt_screen_count(tt_overview_steps(&e->totals), steps);
            (void)tt_screen_bytes(e->totals.bytes, bytes);
        }
        const char *cells[] = {
            e->path, time,  e->is_readable ? tt_overview_state_text(e->state) : "unreadable",
            steps,   bytes, !e->is_readable ? e->error : e->command.data != NULL ? e->command.data : ""
        };
        for (size_t c = 0; st == TT_OK && c < sizeof cells / sizeof *cells; c++)
            st = tt_table_cell(table,
                               c == 2   ? (e->is_readable ? moods[e->state] : TT_MOOD_ALARM)
                               : c == 1 ? TT_MOOD_FAINT
                                        : TT_MOOD_PLAIN,
                               cells[c]);
    }
    if (st == TT_OK)
        st = tt_table_render(table, true, &text);
    tt_table_free(table);
    st = tt_screen_print(&text, st, err);
    if (st == TT_OK && all->count > most)
        printf("... %zu older runs; 'tensortap ls | less' shows all\n", all->count - most);
    return st;
}

tt_exit tt_cmd_ls(int argc, char **argv, tt_error *err)
{
    arguments args = { .folder = ".", .keep_last = -1 };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    list all = { 0 };
    tt_exit code = TT_EXIT_FINE;
    tt_status st = search(&all, args.folder, 0, err);
    if (st < 0) {
        code = TT_EXIT_FAILED;
        goto out;
    }
    if (all.count > 0)
        qsort(all.entries, all.count, sizeof *all.entries, by_time);
    if (args.keep_last >= 0) {
        const char **paths = calloc(all.count + 1, sizeof *paths);
        size_t count = 0, kept = 0;
        for (size_t i = 0; paths != NULL && i < all.count; i++) {
            bool is_live = all.entries[i].state == TT_STATE_LIVE;
            if (!all.entries[i].is_readable)
                continue; /* perhaps not a run at all */
            if (is_live || kept < (uint64_t)args.keep_last)
                kept += !is_live;
            else
                paths[count++] = all.entries[i].path;
        }
        code = tt_remove_runs(paths, count, &(tt_removal){ args.is_sure, args.is_json }, err);
        free(paths);
    } else if (args.is_json) {
        print_json(&all);
    } else if (all.count == 0) {
        fputs("no runs in ", stdout);
        tt_screen_name(&screen, args.folder);
        fputs("; tensortap run script.py makes one\n", stdout);
    } else if (print_table(&all, &screen, err) < 0) {
        code = TT_EXIT_FAILED;
    }
out:
    for (size_t i = 0; i < all.count; i++) {
        tt_buf_free(&all.entries[i].command);
        free(all.entries[i].path);
    }
    free(all.entries);
    return code;
}
