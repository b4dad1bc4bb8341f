/* ls.c -- tensortap ls [FOLDER] [--where 'KEY OP VALUE'] [--sort KEY] [--verdict] [--keep-last N]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/json.h"
#include "runs/filter.h"
#include "words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs of so many bytes are judged unasked: they take some 25 ms. */
static const int64_t JUDGED_BYTES = 4 << 20;

enum { RUN_LEAST = 24 }; /* columns of the name of a run, where it is narrow */

static struct {
    tt_filter filter;
    int64_t keep_last; /* -1: all */
    bool judges;       /* whatever it takes */
    bool is_sure;      /* do not ask */
} args = { .keep_last = -1 };

static bool read_where(const char *text, void *to)
{
    return tt_filter_where(to, text);
}

static bool read_sort(const char *text, void *to)
{
    return tt_filter_sort(to, text);
}

static tt_status print_json(const tt_runs *all)
{
    tt_runs_json(tt_json_begin_schema("runs"), all, 0);
    return tt_json_end(TT_OK);
}

/* ---- the table ------------------------------------------------------------------ */

/* "2 errors" of "2 errors, 1 warning". */
static const char *verdict_text(const tt_runs_entry *e)
{
    return e->errors > 0     ? tt_screen_text("%zu error%s", e->errors, e->errors == 1 ? "" : "s")
           : e->warnings > 0 ? tt_screen_text("%zu warning%s", e->warnings, e->warnings == 1 ? "" : "s")
           : strcmp(e->verdict, "healthy") == 0
               ? "healthy"
               : "nothing found"; /* the rest of it says what was not seen */
}

static void add_verdict(tt_table *table, const tt_runs_entry *e)
{
    if (!e->is_readable)
        tt_table_cell(table, TT_MOOD_PLAIN, "");
    else if (e->verdict == NULL)
        tt_table_cell(table, TT_MOOD_FAINT, "?");
    else
        tt_table_cell(table,
                      e->errors > 0     ? TT_MOOD_ALARM
                      : e->warnings > 0 ? TT_MOOD_REMARK
                                        : TT_MOOD_SPARK,
                      verdict_text(e));
}

static void add_value(tt_table *table, const tt_runs_value *value)
{
    bool is_bad = value->text != NULL && value->is_number && !isfinite(value->number);
    tt_table_cell(table, is_bad ? TT_MOOD_ALARM : TT_MOOD_PLAIN, value->text != NULL ? value->text : "");
}

/* Columns that a line has besides its command. */
static int32_t width_of(const tt_runs *all)
{
    int32_t width = 51, longest = 0; /* when, state, steps and size */
    bool has_value[TT_RUNS_USUAL_COUNT_] = { false };
    for (size_t i = 0; i < all->count; i++) {
        int32_t len = (int32_t)strnlen(all->entries[i].path, RUN_LEAST);
        longest = len > longest ? len : longest;
        for (size_t k = 0; k < TT_RUNS_USUAL_COUNT_; k++)
            has_value[k] |= all->entries[i].usual[k].name != NULL;
    }
    for (size_t k = 0; k < TT_RUNS_USUAL_COUNT_; k++)
        width += has_value[k] ? 9 : 0;
    return width + longest + 12 * (int32_t)(1 + args.filter.key_count);
}

static void add_row(tt_table *table, const tt_runs_entry *e, bool has_command)
{
    static const tt_mood moods[] = { TT_MOOD_FAINT, TT_MOOD_SPARK, TT_MOOD_REMARK, TT_MOOD_REMARK };
    bool is_read = e->is_readable;
    const char *command = e->command.data != NULL && has_command ? e->command.data : "";
    tt_table_cell(table, TT_MOOD_PLAIN, e->path);
    add_verdict(table, e);
    for (size_t k = 0; k < TT_RUNS_USUAL_COUNT_; k++)
        add_value(table, &e->usual[k]);
    for (size_t k = 0; k < args.filter.key_count; k++)
        add_value(table, k < e->value_count ? &e->values[k] : &(tt_runs_value){ 0 });
    tt_table_cell(table, TT_MOOD_FAINT, is_read ? tt_screen_time(e->started) : "");
    tt_table_cell(table, is_read ? moods[e->state] : TT_MOOD_ALARM,
                  is_read ? tt_state_text(e->state) : "unreadable");
    tt_table_cell(table, TT_MOOD_PLAIN, is_read ? tt_screen_count(tt_overview_steps(&e->totals)) : "");
    tt_table_cell(table, TT_MOOD_FAINT,
                  e->stride > 1 ? tt_screen_text("1 in %s", tt_screen_count(e->stride)) : "");
    tt_table_cell(table, TT_MOOD_PLAIN, is_read ? tt_screen_bytes(e->totals.bytes) : "");
    tt_table_cell(table, TT_MOOD_FAINT,
                  e->behind < 0    ? ""
                  : e->behind == 0 ? "done"
                                   : tt_screen_text("%s %s", tt_screen_bytes(e->behind),
                                                    e->is_uploading ? "behind" : "left, stopped"));
    tt_table_cell(table, TT_MOOD_PLAIN, is_read ? command : e->error.text);
}

static tt_status print_table(const tt_runs *all)
{
    bool is_wide = tt_terminal.style.columns == 0 || tt_terminal.style.columns >= width_of(all) + 8;
    const uint8_t may_go = is_wide ? 0 : 1;
    tt_table_column columns[14 + TT_FILTERS_MOST + 1] = {
        { "RUN", .least = -RUN_LEAST },
        { .title = "VERDICT" },
        { "LOSS", .is_right = true },
        { "LR", .is_right = true, .optional = 3 * may_go },
        { "BATCH", .is_right = true, .optional = 3 * may_go },
    };
    const tt_table_column others[] = {
        { "STARTED", .optional = 2 * may_go },
        { .title = "STATE" },
        { "STEPS", .is_right = true },
        { .title = "THINNED", .is_right = true },
        { "SIZE", .is_right = true, .optional = may_go },
        { .title = "UPLOAD" },
        { "COMMAND", .least = 8 },
    };
    size_t count = 5;
    for (size_t k = 0; k < args.filter.key_count; k++)
        columns[count++] = (tt_table_column){ args.filter.keys[k], .is_right = true };
    memcpy(&columns[count], others, sizeof others);
    count += sizeof others / sizeof *others;
    size_t most = tt_terminal.rows > 3 ? (size_t)tt_terminal.rows - 3 : all->count;
    tt_table *table = tt_table_create(&tt_terminal.style, columns, count);
    bool is_judged = true;
    for (size_t i = 0; i < all->count && i < most; i++) {
        add_row(table, &all->entries[i], is_wide);
        is_judged &= all->entries[i].verdict != NULL || !all->entries[i].is_readable;
    }
    tt_status st = tt_screen_table(table, TT_OK);
    if (st == TT_OK && all->count > most)
        printf("... %zu more runs; 'tensortap ls | less' shows all\n", all->count - most);
    if (st == TT_OK && !is_judged)
        tt_screen_say(TT_MOOD_FAINT, "? was not looked for; --verdict reads every point for it\n");
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

/* Keeps the runs that are asked for, and judges them. */
static tt_status choose(tt_runs *all, size_t *lacking, tt_error *err)
{
    bool must_judge = args.judges || args.filter.needs_verdict;
    tt_status st = TT_OK;
    if (args.filter.needs_verdict)
        st = tt_runs_judge(all, INT64_MAX);
    if (st == TT_OK)
        st = tt_filter_apply(&args.filter, all, lacking, err);
    if (st == TT_OK)
        st = tt_runs_judge(all, must_judge ? INT64_MAX : JUDGED_BYTES);
    return st < 0 && err->text[0] == '\0' ? tt_fail_plain(err, st) : st;
}

static tt_status print_runs(const tt_runs *all, size_t found, size_t lacking, const char *folder)
{
    if (found == 0) {
        tt_screen_say(TT_MOOD_PLAIN, "no runs in %s; tensortap run script.py makes one\n", folder);
        return TT_OK;
    }
    tt_status st = all->count > 0 ? print_table(all) : TT_OK;
    if (st == TT_OK && all->count < found)
        tt_screen_say(TT_MOOD_FAINT, "%s of %s runs%s\n", tt_screen_count((int64_t)all->count),
                      tt_screen_count((int64_t)found),
                      lacking > 0
                          ? tt_screen_text("; %s without these values", tt_screen_count((int64_t)lacking))
                          : "");
    return st;
}

static tt_exit ls(tt_call *call)
{
    const char *folder = call->count > 0 ? call->path : ".";
    const tt_runs_wish wish = { args.filter.keys, args.filter.key_count, false };
    tt_runs all = { 0 };
    tt_exit code = TT_EXIT_FINE;
    size_t found = 0, lacking = 0;
    tt_status st = tt_runs_find(folder, &wish, &all, call->err);
    found = all.count;
    if (st == TT_OK && args.keep_last < 0)
        st = choose(&all, &lacking, call->err);
    if (st == TT_OK && args.keep_last >= 0)
        code = remove_old(call, &all);
    else if (st == TT_OK)
        st = call->is_json ? print_json(&all) : print_runs(&all, found, lacking, folder);
    tt_runs_free(&all);
    tt_filter_free(&args.filter);
    return st == TT_EINVAL ? TT_EXIT_USAGE : st < 0 ? tt_cmd_exit(st, call->err) : code;
}

static void check(const tt_call *call)
{
    if (args.keep_last >= 0 && (args.filter.count > 0 || args.filter.sort != NULL || args.judges))
        tt_cmd_refuse(call->cmd,
                      "--keep-last goes by time alone: leave out --where, --sort and --verdict");
}

static const tt_option options[] = {
    { "where", "'KEY OP VALUE'",
      "Only runs of which this holds, such as 'lr<0.001' or 'state=crashed'; OP is one of < <= > >= = != "
      "~ (a "
      "pattern); may be given several times",
      .to = &args.filter, read_where, "KEY OP VALUE, such as 'lr<0.001', with one of < <= > >= = != ~" },
    { "sort", "KEY", "Sort by this, the least first; -KEY: the largest first", .to = &args.filter,
      read_sort, "one KEY, such as loss or -val/accuracy" },
    { "verdict", NULL, "Say of every run what 'tensortap health' says, however long that takes",
      .to = &args.judges },
    { "keep-last", "N", "Remove all finished and crashed runs but the latest N; asks first",
      .to = &args.keep_last, tt_range_count, "a number" },
    { "yes", NULL, "Do not ask", .to = &args.is_sure },
};

const tt_cmd tt_cmd_ls = {
    TT_CMD("ls", "[FOLDER]", "list runs: verdict, loss, settings, when, steps, state"),
    .doc = "List the runs in a folder, the latest first, with what is wrong with them, their last loss, "
           "learning "
           "rate and batch size.  A KEY is a column of the list (run, verdict, loss, lr, batch, started, "
           "state, "
           "steps, stride, size, points, ranks, command), a setting (optimizer/weight_decay), a number "
           "that was "
           "logged (val/accuracy), or the end of one (weight_decay).\v"
           "For example: tensortap ls runs\n"
           "             tensortap ls runs --where 'lr<0.001' --where 'verdict=healthy' --sort loss\n"
           "             tensortap ls runs --keep-last 10",
    TT_OPTIONS(options),
    .json = "Print JSON; with --keep-last, of what was removed",
    .most = 1,
    .extra = "name one folder",
    .check = check,
    .run = ls,
};
