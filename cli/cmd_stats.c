/* cmd_stats.c -- tensortap stats RUN GLOB [--step A:B]
 * SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "header.h"
#include "json_out.h"
#include "range.h"

#include <stdio.h>
#include <string.h>

enum { STEP = 256, NARROW = 100 };

typedef struct arguments {
    tt_arguments shared;
    tt_range steps;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case STEP:
        if (!tt_range_parse(arg, &args->steps))
            argp_failure(state, TT_EXIT_USAGE, 0, "--step takes A:B, A:, :B or A, not '%s'", arg);
        return 0;
    default:
        return tt_arguments_parse(&args->shared, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "step", STEP, "A:B", 0, "Steps from A up to and with B", 0 },
    { "json", TT_ARGUMENTS_JSON, NULL, 0, "Print JSON", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN GLOB",
    .doc = "Print the statistics of sites, a line for each point.\v"
           "For example: tensortap stats runs/today 'activation/*.attn' --step 100:120",
};

static const struct {
    const char *title;
    tt_field field;
    bool is_extra, is_whole;
} columns[] = {
    { "VALUE", TT_FIELD_SCALAR, false, false }, { "MIN", TT_FIELD_MIN, false, false },
    { "MAX", TT_FIELD_MAX, false, false },      { "MEAN", TT_FIELD_MEAN, false, false },
    { "STD", TT_FIELD_STD, false, false },      { "RMS", TT_FIELD_RMS, true, false },
    { "L1", TT_FIELD_L1, true, false },         { "ZEROS", TT_FIELD_ZEROS, true, true },
    { "NAN", TT_FIELD_NAN, false, true },       { "INF", TT_FIELD_POSINF, false, true },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static double field_of(const tt_point *p, tt_field field)
{
    const tt_stats *s = &p->stats;
    switch ((int)field) {
    case TT_FIELD_SCALAR:
        return p->scalar;
    case TT_FIELD_MIN:
        return s->min;
    case TT_FIELD_MAX:
        return s->max;
    case TT_FIELD_MEAN:
        return s->mean;
    case TT_FIELD_STD:
        return tt_stats_std(s);
    case TT_FIELD_RMS:
        return tt_stats_rms(s);
    case TT_FIELD_L1:
        return s->l1;
    case TT_FIELD_ZEROS:
        return (double)s->zeros;
    case TT_FIELD_NAN:
        return (double)s->nan;
    default:
        return (double)(s->posinf + s->neginf);
    }
}

static bool is_shown(size_t column, bool is_scalar, bool is_wide)
{
    return is_scalar ? column == 0 : column > 0 && (is_wide || !columns[column].is_extra);
}

static tt_status add_point(tt_table *table, const tt_point *p, bool is_scalar, bool is_wide)
{
    char text[TT_NUMBER_TEXT];
    tt_status st = tt_table_cell(table, TT_MOOD_PLAIN, tt_screen_count(p->step, text));
    (void)snprintf(text, sizeof text, "%u", p->call);
    if (st == TT_OK)
        st = tt_table_cell(table, TT_MOOD_FAINT, text);
    for (size_t c = 0; st == TT_OK && c < COLUMNS; c++) {
        if (!is_shown(c, is_scalar, is_wide))
            continue;
        double x = field_of(p, columns[c].field);
        bool is_bad = columns[c].field == TT_FIELD_NAN || columns[c].field == TT_FIELD_POSINF;
        if (columns[c].is_whole)
            (void)tt_screen_count((int64_t)x, text);
        else
            (void)tt_number_short(x, text);
        st = tt_table_cell(table,
                           is_bad && x > 0 ? TT_MOOD_ALARM
                           : is_bad        ? TT_MOOD_FAINT
                                           : TT_MOOD_PLAIN,
                           text);
    }
    const char *remark = p->is_skipped ? "skipped" : p->phase == TT_PHASE_EVAL ? "eval" : "";
    return st == TT_OK ? tt_table_cell(table, TT_MOOD_REMARK, remark) : st;
}

/* A row that stands for those left out. */
static tt_status add_gap(tt_table *table, const tt_screen *screen, bool is_scalar, bool is_wide)
{
    tt_status st = tt_table_cell(table, TT_MOOD_FAINT, screen->style.is_ascii ? ".." : "…");
    for (size_t empty = 2; st == TT_OK && empty > 0; empty--) /* the call, and the remark */
        st = tt_table_cell(table, TT_MOOD_FAINT, "");
    for (size_t c = 0; st == TT_OK && c < COLUMNS; c++)
        if (is_shown(c, is_scalar, is_wide))
            st = tt_table_cell(table, TT_MOOD_FAINT, "");
    return st;
}

/* The points from first on that are in the range; they need not be in order. */
static tt_status print_site(tt_run *run, int32_t file, int32_t site, const arguments *args,
                            const tt_screen *screen, int64_t most, int64_t *printed, tt_error *err)
{
    int64_t points = (int64_t)tt_run_points(run, file, site), wanted = 0, seen = 0;
    tt_table *table = NULL;
    tt_buf text = { 0 };
    tt_point p, latest;
    bool is_wide = screen->style.columns == 0 || screen->style.columns >= NARROW;
    tt_status st = tt_run_point(run, file, site, -1, &latest, err);
    for (int64_t i = 0; st == TT_OK && i < points; i++) {
        st = tt_run_point(run, file, site, i, &p, err);
        wanted += st == TT_OK && p.step >= args->steps.first && p.step <= args->steps.last;
    }
    if (st < 0 || wanted == 0)
        return st;
    bool is_scalar = (latest.products & TT_PRODUCT_STATS) == 0;
    char type[200];
    if (*printed > 0)
        putchar('\n');
    tt_screen_name(screen, tt_run_site_name(run, site));
    printf("  %s%s%s", tt_header_ink(screen, TT_MOOD_TYPE),
           tt_screen_type(&latest, false, type, sizeof type), tt_header_ink(screen, TT_MOOD_PLAIN));
    tt_run_file about;
    if (tt_opened_rank_count(run) > 1 && tt_run_file_get(run, file, &about) == TT_OK)
        printf("  rank %d", (int)about.rank);
    putchar('\n');
    st = tt_table_create(&screen->style, &table);
    if (st == TT_OK)
        st = tt_table_column(table, "STEP", true, 0);
    if (st == TT_OK)
        st = tt_table_column(table, "CALL", true, 0);
    for (size_t c = 0; st == TT_OK && c < COLUMNS; c++)
        if (is_shown(c, is_scalar, is_wide))
            st = tt_table_column(table, columns[c].title, true, 0);
    if (st == TT_OK)
        st = tt_table_column(table, "", false, 0);
    bool is_cut = most > 0 && wanted > most;
    for (int64_t i = 0; st == TT_OK && i < points; i++) {
        st = tt_run_point(run, file, site, i, &p, err);
        if (st < 0 || p.step < args->steps.first || p.step > args->steps.last)
            continue;
        if (!is_cut || seen < most / 2 || seen >= wanted - (most - most / 2))
            st = add_point(table, &p, is_scalar, is_wide);
        else if (seen == most / 2)
            st = add_gap(table, screen, is_scalar, is_wide);
        seen++;
    }
    if (st == TT_OK)
        st = tt_table_render(table, true, &text);
    tt_table_free(table);
    st = tt_screen_print(&text, st, err);
    if (st == TT_OK && is_cut)
        printf("... %lld points in the middle left out; --step A:B shows a part\n",
               (long long)(wanted - most));
    *printed += wanted;
    return st;
}

static tt_status print_json(tt_run *run, int32_t file, int32_t site, const arguments *args,
                            tt_json_out *json, int64_t *printed, tt_error *err)
{
    tt_status st = TT_OK;
    tt_run_file about = { 0 };
    (void)tt_run_file_get(run, file, &about);
    int64_t points = (int64_t)tt_run_points(run, file, site);
    for (int64_t i = 0; st == TT_OK && i < points; i++) {
        tt_point p;
        st = tt_run_point(run, file, site, i, &p, err);
        if (st < 0 || p.step < args->steps.first || p.step > args->steps.last)
            continue;
        tt_json_open(json, NULL, '{');
        tt_json_words(json, "site", tt_run_site_name(run, site));
        tt_json_whole(json, "rank", about.rank);
        tt_json_point(json, &p);
        tt_json_close(json, '}');
        ++*printed;
    }
    return st;
}

tt_exit tt_cmd_stats(int argc, char **argv, tt_error *err)
{
    arguments args = { .shared = { .least = 2, .most = 2 }, .steps = TT_RANGE_ALL };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    tt_run *run = NULL;
    tt_exit code = tt_overview_open(args.shared.run, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    int64_t matched = 0, printed = 0, most = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++)
        matched += tt_glob_match(args.shared.glob, tt_run_site_name(run, site));
    if (matched == 0) {
        code = tt_overview_no_site(run, args.shared.glob, err);
        goto out;
    }
    if (screen.rows > 0) {
        most = (screen.rows - 2) / matched - 3;
        most = most < 4 ? 4 : most;
    }
    tt_json_out json = { 0 };
    tt_status st = TT_OK;
    if (args.shared.is_json)
        tt_json_open(&json, NULL, '[');
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++)
        for (int32_t file = 0; st == TT_OK && file < tt_run_file_count(run); file++)
            if (tt_glob_match(args.shared.glob, tt_run_site_name(run, site)) &&
                tt_run_points(run, file, site) > 0)
                st = args.shared.is_json
                         ? print_json(run, file, site, &args, &json, &printed, err)
                         : print_site(run, file, site, &args, &screen, most, &printed, err);
    if (args.shared.is_json)
        tt_json_close(&json, ']');
    code = st < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
    if (st == TT_OK && printed == 0) {
        (void)snprintf(err->text, sizeof err->text,
                       "no points in these steps; 'tensortap show' says which steps the run has");
        code = TT_EXIT_USAGE;
    }
out:
    tt_run_close(run);
    return code;
}
