/* cmd_show.c -- tensortap show RUN [GLOB]
 * SPDX-License-Identifier: Apache-2.0 */
#include "given.h"
#include "header_line.h"
#include "json_out.h"
#include "odd.h"
#include "progress.h"
#include "range.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 256, CLASSES, RANK, TREND = 16, NARROW = 100 };

typedef struct arguments {
    tt_given given;
    int64_t rank;
    bool shows_all, shows_classes;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case ALL:
        args->shows_all = true;
        return 0;
    case CLASSES:
        args->shows_classes = true;
        return 0;
    case RANK:
        if (!tt_range_count(arg, &args->rank))
            argp_failure(state, TT_EXIT_USAGE, 0, "--rank takes a number, not '%s'", arg);
        return 0;
    default:
        return tt_given_parse(&args->given, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "all", ALL, NULL, 0, "Unfold repeated layers, and show every line", 0 },
    { "classes", CLASSES, NULL, 0, "Name the class of every module", 0 },
    { "rank", RANK, "N", 0, "Of this rank (0)", 0 },
    { "json", TT_GIVEN_JSON, NULL, 0, "Print JSON", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN [GLOB]",
    .doc = "Show what a run holds: what is odd first, then every site with its latest statistics "
           "and the course of its root mean square.\v"
           "For example: tensortap show runs/today 'activation/*'",
};

static tt_status add_numbers(tt_table *table, const tt_tree_row *row, bool is_wide)
{
    const tt_stats *s = &row->latest.stats;
    bool has_stats = (row->latest.products & TT_PRODUCT_STATS) != 0;
    bool is_number = (row->latest.products & TT_PRODUCT_SCALAR) != 0;
    const double x[] = { s->min, s->max, s->mean, tt_stats_std(s) };
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < 4; i++) {
        char text[TT_NUMBER_TEXT] = "";
        if (i < 2 && !is_wide)
            continue;
        if (i == 3 && isnan(x[3]))
            ; /* fewer than two values: "nan" would look like trouble */
        else if (row->site >= 0 && has_stats)
            (void)tt_number_short(x[i], text);
        else if (row->site >= 0 && is_number && i == 2)
            (void)tt_number_short(row->latest.scalar, text);
        st = tt_table_cell(table, TT_MOOD_PLAIN, text);
    }
    return st;
}

static tt_status add_line(tt_table *table, tt_run *run, const tt_tree_row *row, const tt_screen *screen,
                          bool is_wide, bool has_classes, tt_error *err)
{
    tt_buf trend = { 0 };
    char type[200] = "", odd[64] = "", label[64] = "";
    const bool is_ascii = screen->style.is_ascii;
    char guides[64 * 8] = "";
    size_t at = 0;
    for (int32_t d = 1; d <= row->depth && at + 8 < sizeof guides; d++) {
        bool is_ended = (row->ended >> (d < 63 ? d : 63) & 1) != 0, is_own = d == row->depth;
        const char *piece = is_own ? (is_ended ? (is_ascii ? "`- " : "└─ ") : (is_ascii ? "|- " : "├─ "))
                                   : (is_ended ? "   " : (is_ascii ? "|  " : "│  "));
        at += (size_t)snprintf(guides + at, sizeof guides - at, "%s", piece);
    }
    tt_status st = TT_OK;
    const char *name = *row->label != '\0' ? row->label : "(no name)";
    st = tt_table_branch(table, guides, TT_MOOD_PLAIN, name);
    if (st == TT_OK && has_classes)
        st = tt_table_cell(table, TT_MOOD_PLAIN, row->class_name != NULL ? row->class_name : "");
    if (row->sites > 1)
        (void)snprintf(label, sizeof label, "%d%s", (int)row->sites, is_ascii ? "x " : "× ");
    if (row->site >= 0)
        (void)tt_screen_type(&row->latest, !is_wide, type, sizeof type);
    char whole[280];
    (void)snprintf(whole, sizeof whole, "%s%s", label, type);
    if (st == TT_OK)
        st = tt_table_cell(table, TT_MOOD_TYPE, whole);
    if (st == TT_OK)
        st = add_numbers(table, row, is_wide);
    bool is_scalar = (row->latest.products & TT_PRODUCT_STATS) == 0;
    int32_t site = row->worst >= 0 ? row->worst : row->site;
    if (st == TT_OK && row->site >= 0)
        st = tt_trend_append(run, row->file, site, is_scalar ? TT_FIELD_SCALAR : TT_FIELD_RMS,
                             is_wide ? TREND : TREND / 2, &screen->style, &trend, err);
    tt_mood mood = (row->anomalies & (1u << TT_ANOMALY_NONFINITE | 1u << TT_ANOMALY_EXPLODING)) != 0
                       ? TT_MOOD_ALARM
                       : TT_MOOD_SPARK;
    if (st == TT_OK)
        st = tt_table_cell(table, mood, trend.len > 0 ? trend.data : "");
    for (tt_anomaly a = 0; a < TT_ANOMALY_COUNT_; a++)
        if ((row->anomalies & 1u << a) != 0 && odd[0] == '\0')
            (void)snprintf(odd, sizeof odd, "%s", tt_anomaly_text(a));
    if (st == TT_OK)
        st = tt_table_cell(table, mood == TT_MOOD_ALARM ? mood : TT_MOOD_REMARK, odd);
    tt_buf_free(&trend);
    return st;
}

static tt_status print_tree(tt_run *run, const tt_run_tree *tree, const tt_screen *screen, size_t most,
                            bool has_classes, tt_error *err)
{
    tt_table *table = NULL;
    tt_buf text = { 0 };
    bool is_wide = screen->style.columns == 0 || screen->style.columns >= NARROW;
    static const struct {
        const char *title;
        bool is_right, is_extra;
        int32_t least;
    } columns[] = { { "SITE", false, false, 20 }, { "LATEST", false, false, 7 },
                    { "MIN", true, true, 0 },     { "MAX", true, true, 0 },
                    { "MEAN", true, false, 0 },   { "STD", true, false, 0 },
                    { "RMS", false, false, 0 },   { "", false, false, 0 } };
    tt_status st = tt_table_create(&screen->style, &table);
    for (size_t c = 0; st == TT_OK && c < sizeof columns / sizeof *columns; c++) {
        if (c == 1 && has_classes)
            st = tt_table_column(table, "CLASS", false, 7);
        if (st == TT_OK && (is_wide || !columns[c].is_extra))
            st = tt_table_column(table,
                                 is_wide && strcmp(columns[c].title, "RMS") == 0 ? "RMS OVER STEPS"
                                                                                 : columns[c].title,
                                 columns[c].is_right, columns[c].least);
    }
    size_t count = tt_run_tree_count(tree);
    tt_progress *bar = tt_progress_start("reading");
    for (size_t i = 0; st == TT_OK && i < count && i < most; i++) {
        st = add_line(table, run, tt_run_tree_at(tree, i), screen, is_wide, has_classes, err);
        tt_progress_tell(bar, (int64_t)i + 1, (int64_t)(count < most ? count : most));
    }
    tt_progress_end(bar);
    if (st == TT_OK)
        st = tt_table_render(table, true, &text);
    tt_table_free(table);
    st = tt_screen_print(&text, st, err);
    if (st == TT_OK && count > most)
        printf("... %zu more lines; --all shows them, or give a pattern such as 'activation/*'\n",
               count - most);
    return st;
}

static tt_status print_json(const char *path, tt_run *run, int32_t file, const arguments *args,
                            tt_error *err)
{
    tt_json_out json = { 0 };
    tt_totals totals;
    tt_opened_totals(run, &totals);
    tt_status st = TT_OK;
    tt_json_open(&json, NULL, '{');
    tt_json_words(&json, "run", path);
    tt_json_words(&json, "state", tt_opened_state_text(tt_opened_state(run)));
    tt_buf command = { 0 };
    (void)tt_opened_command(run, &command);
    tt_json_words(&json, "command", command.data);
    tt_buf_free(&command);
    tt_json_whole(&json, "first_step", totals.first_step);
    tt_json_whole(&json, "last_step", totals.last_step);
    tt_json_whole(&json, "points", totals.points);
    tt_json_whole(&json, "bytes", totals.bytes);
    tt_json_words(&json, "untrained", tt_header_untrained(run));
    tt_json_open(&json, "sites", '[');
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++) {
        uint32_t bits;
        tt_point latest;
        if (!tt_site_is_shown(tt_run_site_name(run, site), args->given.glob) ||
            tt_run_points(run, file, site) == 0)
            continue;
        st = tt_run_anomalies(run, file, site, &bits, &latest, err);
        if (st < 0)
            break;
        tt_json_open(&json, NULL, '{');
        tt_json_words(&json, "site", tt_run_site_name(run, site));
        tt_json_whole(&json, "points", (int64_t)tt_run_points(run, file, site));
        tt_json_open(&json, "anomalies", '[');
        for (tt_anomaly a = 0; a < TT_ANOMALY_COUNT_; a++)
            if ((bits & 1u << a) != 0)
                tt_json_words(&json, NULL, tt_anomaly_text(a));
        tt_json_close(&json, ']');
        tt_json_open(&json, "latest", '{');
        tt_json_point(&json, &latest);
        tt_json_close(&json, '}');
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, ']');
    tt_json_close(&json, '}');
    return st;
}

tt_exit tt_cmd_show(int argc, char **argv, tt_error *err)
{
    arguments args = { .given = { .least = 1, .most = 2 } };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    tt_run *run = NULL;
    tt_run_tree *tree = NULL;
    int32_t file = -1;
    int lines = 0, odd = 0;
    tt_exit code = tt_opened_run(args.given.run, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file about;
        if (file < 0 && tt_run_file_get(run, f, &about) == TT_OK && about.rank == args.rank)
            file = f;
    }
    if (file < 0) {
        (void)snprintf(err->text, sizeof err->text, "this run has no rank %" PRId64 "; it has %d file%s",
                       args.rank, (int)tt_run_file_count(run), tt_run_file_count(run) == 1 ? "" : "s");
        code = TT_EXIT_USAGE;
    } else if (args.given.glob != NULL && !tt_opened_has_site(run, args.given.glob)) {
        code = tt_opened_no_site(run, args.given.glob, err);
    } else if (args.given.is_json) {
        code = print_json(args.given.run, run, file, &args, err) < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
    } else {
        lines = tt_header_print(args.given.run, run, &screen);
        tt_status st = TT_OK;
        if (tt_run_site_count(run) > 0)
            st = tt_run_tree_create(run, file, args.given.glob, args.shows_all ? TT_TREE_UNFOLDED : 0,
                                    &tree, err);
        if (st == TT_OK && tree != NULL)
            st = tt_odd_print(args.given.run, run, tree, file, args.shows_all, &screen, &odd, err);
        size_t most = SIZE_MAX;
        if (screen.rows > 0 && !args.shows_all)
            most = screen.rows > lines + odd + 8 ? (size_t)(screen.rows - lines - odd - 4) : 4;
        if (st == TT_OK && tree != NULL) {
            putchar('\n');
            st = print_tree(run, tree, &screen, most, args.shows_classes, err);
        }
        code = st == TT_EMISMATCH ? TT_EXIT_USAGE : st < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
    }
    tt_run_tree_free(tree);
    tt_run_close(run);
    return code;
}
