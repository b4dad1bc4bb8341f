/* ls.c -- tensortap ls [FOLDER] [--keep-last N]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/json.h"
#include "runs/list.h"
#include "words.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
    int64_t keep_last; /* -1: all */
    bool is_sure;      /* do not ask */
} args = { .keep_last = -1 };

static tt_status print_json(const tt_runs *all)
{
    tt_runs_json(tt_json_begin_schema("runs"), all, 0);
    return tt_json_end(TT_OK);
}

static tt_status print_table(const tt_runs *all)
{
    static const tt_table_column columns[] = {
        { "RUN", .least = -24 },       { .title = "STARTED" },       { .title = "STATE" },
        { "STEPS", .is_right = true }, { "SIZE", .is_right = true }, { .title = "UPLOAD" },
        { "COMMAND", .least = 8 },
    };
    static const tt_mood moods[] = { TT_MOOD_FAINT, TT_MOOD_SPARK, TT_MOOD_REMARK, TT_MOOD_REMARK };
    size_t most = tt_terminal.rows > 3 ? (size_t)tt_terminal.rows - 3 : all->count;
    tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < all->count && i < most; i++) {
        const tt_runs_entry *e = &all->entries[i];
        bool is_read = e->is_readable;
        const char *command = e->command.data != NULL ? e->command.data : "";
        tt_table_cell(table, TT_MOOD_PLAIN, e->path);
        tt_table_cell(table, TT_MOOD_FAINT, is_read ? tt_screen_time(e->started) : "");
        tt_table_cell(table, is_read ? moods[e->state] : TT_MOOD_ALARM,
                      is_read ? tt_state_text(e->state) : "unreadable");
        tt_table_cell(table, TT_MOOD_PLAIN,
                      is_read ? tt_screen_count(tt_overview_steps(&e->totals)) : "");
        tt_table_cell(table, TT_MOOD_PLAIN, is_read ? tt_screen_bytes(e->totals.bytes) : "");
        tt_table_cell(table, TT_MOOD_FAINT,
                      e->behind < 0    ? ""
                      : e->behind == 0 ? "done"
                                       : tt_screen_text("%s %s", tt_screen_bytes(e->behind),
                                                        e->is_uploading ? "behind" : "left, stopped"));
        tt_table_cell(table, TT_MOOD_PLAIN, is_read ? command : e->error.text);
    }
    tt_status st = tt_screen_table(table, TT_OK);
    if (st == TT_OK && all->count > most)
        printf("... %zu older runs; 'tensortap ls | less' shows all\n", all->count - most);
    return st;
}

/* Removes all but the latest runs.  Those that cannot be read are perhaps not runs at all. */
static tt_exit remove_old(const tt_call *call, const tt_runs *all)
{
    const char **paths = calloc(all->count + 1, sizeof *paths);
    size_t count = 0, kept = 0;
    if (paths == NULL)
        return tt_cmd_exit(TT_ENOMEM, call->err);
    for (size_t i = 0; i < all->count; i++) {
        bool is_live = all->entries[i].state == TT_STATE_LIVE;
        if (!all->entries[i].is_readable)
            continue;
        if (is_live || kept < (uint64_t)args.keep_last)
            kept += !is_live;
        else
            paths[count++] = all->entries[i].path;
    }
    tt_exit code = tt_remove_runs(call, paths, count, args.is_sure);
    free(paths);
    return code;
}

static tt_exit ls(tt_call *call)
{
    const char *folder = call->count > 0 ? call->path : ".";
    tt_runs all = { 0 };
    tt_exit code = TT_EXIT_FINE;
    tt_status st = tt_runs_find(folder, &all, call->err);
    if (st == TT_OK && args.keep_last >= 0) {
        code = remove_old(call, &all);
    } else if (st == TT_OK && call->is_json) {
        st = print_json(&all);
    } else if (st == TT_OK && all.count > 0) {
        st = print_table(&all);
    } else if (st == TT_OK) {
        tt_screen_say(TT_MOOD_PLAIN, "no runs in %s; tensortap run script.py makes one\n", folder);
    }
    tt_runs_free(&all);
    return st < 0 ? tt_cmd_exit(st, call->err) : code;
}

static const tt_option options[] = {
    { "keep-last", "N", "Remove all finished and crashed runs but the latest N; asks first",
      .to = &args.keep_last, tt_range_count, "a number" },
    { "yes", NULL, "Do not ask", .to = &args.is_sure },
};

const tt_cmd tt_cmd_ls = {
    TT_CMD("ls", "[FOLDER]", "list runs: when, what command, steps, size, state"),
    .doc = "List the runs in a folder, the latest first.\v"
           "For example: tensortap ls runs\n"
           "             tensortap ls runs --keep-last 10",
    TT_OPTIONS(options),
    .json = "Print JSON; with --keep-last, of what was removed",
    .most = 1,
    .extra = "name one folder",
    .run = ls,
};
