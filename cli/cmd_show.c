/* cmd_show.c -- tensortap show RUN [GLOB]
 * SPDX-License-Identifier: Apache-2.0 */
#include "anomalies.h"
#include "arguments.h"
#include "header.h"
#include "json_out.h"
#include "progress.h"
#include "range.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 256, CLASSES, RANK, PHASE, TREND = 16, NARROW = 100 };

typedef struct arguments {
    tt_arguments shared;
    tt_look look;
    bool shows_all, shows_classes;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    int64_t rank;
    switch (key) {
    case ALL:
        args->shows_all = true;
        return 0;
    case CLASSES:
        args->shows_classes = true;
        return 0;
    case RANK:
        if (!tt_range_count(arg, &rank) || rank > INT32_MAX)
            argp_failure(state, TT_EXIT_USAGE, 0, "--rank takes a number, not '%s'", arg);
        args->look.rank = (int32_t)rank;
        return 0;
    case PHASE:
        args->look.phases = strcmp(arg, "train") == 0  ? TT_PHASES_TRAIN
                            : strcmp(arg, "eval") == 0 ? TT_PHASES_EVAL
                            : strcmp(arg, "all") == 0  ? TT_PHASES_ALL
                                                       : 0;
        if (args->look.phases == 0)
            argp_failure(state, TT_EXIT_USAGE, 0, "--phase takes train, eval or all, not '%s'", arg);
        return 0;
    default:
        return tt_arguments_parse(&args->shared, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "all", ALL, NULL, 0, "Unfold repeated layers, and show every line", 0 },
    { "classes", CLASSES, NULL, 0, "Name the class of every module", 0 },
    { "rank", RANK, "N", 0, "Of this rank alone (what is odd: of all; numbers: of the first)", 0 },
    { "phase", PHASE, "PHASE", 0,
      "train, eval, or all: one after the other (train; of what was never trained, eval)", 0 },
    { "json", TT_ARGUMENTS_JSON, NULL, 0, "Print JSON", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN [GLOB]",
    .doc = "Show what a run holds: what is odd first, then every site with its latest statistics "
           "and the course of its root mean square over the steps, of training.\v"
           "For example: tensortap show runs/today 'activation/*'",
};

/* A number, or nothing where no element defines it: "nan" would look like trouble. */
static const char *number_text(double x, const tt_stats *s, char out[TT_NUMBER_TEXT])
{
    bool is_trouble = (s->nan | s->posinf | s->neginf) != 0 && tt_stats_finite(s) <= 0;
    out[0] = '\0';
    if (!isnan(x) || is_trouble)
        (void)tt_number_short(x, out);
    return out;
}

static tt_status add_numbers(tt_table *table, const tt_tree_row *row)
{
    const tt_stats *s = &row->latest.stats;
    bool has_stats = row->site >= 0 && (row->latest.products & TT_PRODUCT_STATS) != 0;
    const double x[] = { s->min, s->max, s->mean, tt_stats_std(s) };
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < 4; i++) {
        char text[TT_NUMBER_TEXT];
        st = tt_table_cell(table, TT_MOOD_PLAIN, has_stats ? number_text(x[i], s, text) : "");
    }
    return st;
}

/* "4x f32[8,16]"; of a number its value. */
static void describe_latest(const tt_tree_row *row, bool is_ascii, bool is_wide, char *out, size_t room)
{
    char type[200] = "", count[32] = "", number[TT_NUMBER_TEXT] = "";
    if (row->sites > 1)
        (void)snprintf(count, sizeof count, "%d%s", (int)row->sites, is_ascii ? "x " : "× ");
    if (row->site >= 0)
        (void)tt_screen_type(&row->latest, !is_wide, type, sizeof type);
    if (row->sites == 1 &&
        (row->latest.products & (TT_PRODUCT_STATS | TT_PRODUCT_SCALAR)) == TT_PRODUCT_SCALAR)
        (void)tt_number_short(row->latest.scalar, number);
    (void)snprintf(out, room, "%s%s%s%s", count, type, *number != '\0' ? " " : "", number);
}

static tt_status add_line(tt_table *table, tt_run *run, const tt_tree_row *row, const tt_screen *screen,
                          bool is_wide, bool has_classes, size_t *left_out, tt_error *err)
{
    tt_buf trend = { 0 };
    char latest[280], odd[64] = "";
    const bool is_ascii = screen->style.is_ascii;
    char guides[64 * 8] = "";
    size_t at = 0;
    for (int32_t d = 1; d <= row->depth && at + 8 < sizeof guides; d++) {
        bool is_ended = (row->ended >> (d < 63 ? d : 63) & 1) != 0, is_own = d == row->depth;
        const char *piece = is_own ? (is_ended ? (is_ascii ? "`- " : "└─ ") : (is_ascii ? "|- " : "├─ "))
                                   : (is_ended ? "   " : (is_ascii ? "|  " : "│  "));
        at += (size_t)snprintf(guides + at, sizeof guides - at, "%s", piece);
    }
    const char *name = *row->label != '\0' ? row->label : "(no name)";
    tt_status st = tt_table_branch(table, guides, TT_MOOD_PLAIN, name);
    if (st == TT_OK && has_classes)
        st = tt_table_cell(table, TT_MOOD_PLAIN, row->class_name != NULL ? row->class_name : "");
    describe_latest(row, is_ascii, is_wide, latest, sizeof latest);
    if (st == TT_OK)
        st = tt_table_cell(table, TT_MOOD_TYPE, latest);
    if (st == TT_OK)
        st = add_numbers(table, row);
    bool is_scalar = (row->latest.products & TT_PRODUCT_STATS) == 0;
    int32_t site = row->worst >= 0 ? row->worst : row->site;
    if (st == TT_OK && row->site >= 0)
        st =
            tt_trend_append(run, row->file, site, is_scalar ? TT_FIELD_SCALAR : TT_FIELD_RMS, row->phases,
                            is_wide ? TREND : TREND / 2, &screen->style, &trend, left_out, err);
    tt_mood mood = (row->anomalies & (1u << TT_ANOMALY_NONFINITE | 1u << TT_ANOMALY_EXPLODING)) != 0
                       ? TT_MOOD_ALARM
                       : TT_MOOD_SPARK;
    if (st == TT_OK)
        st = tt_table_cell(table, mood, trend.len > 0 ? trend.data : "");
    for (tt_anomaly a = 0; a < TT_ANOMALY_COUNT_; a++)
        if ((row->anomalies & 1u << a) != 0 && odd[0] == '\0')
            (void)snprintf(odd, sizeof odd, "%s", tt_anomaly_text(a));
    if (row->site >= 0 && row->phases == TT_PHASES_EVAL)
        (void)snprintf(odd + strlen(odd), sizeof odd - strlen(odd), "%seval", *odd != '\0' ? ", " : "");
    if (st == TT_OK)
        st = tt_table_cell(table, mood == TT_MOOD_ALARM ? mood : TT_MOOD_REMARK, odd);
    tt_buf_free(&trend);
    return st;
}

/* evaluated: how many of the lines leave out points of evaluation. */
static tt_status print_tree(tt_run *run, const tt_run_tree *tree, const tt_screen *screen, size_t most,
                            bool has_classes, size_t *evaluated, tt_error *err)
{
    tt_table *table = NULL;
    tt_buf text = { 0 };
    bool is_wide = screen->style.columns == 0 || screen->style.columns >= NARROW;
    static const struct {
        const char *title;
        bool is_right;
        int32_t least;
        uint32_t turn; /* tt_table_optional */
    } columns[] = { { "SITE", false, 20, 0 }, { "LATEST", false, 7, 0 }, { "MIN", true, 0, 0 },
                    { "MAX", true, 0, 0 },    { "MEAN", true, 0, 2 },    { "STD", true, 0, 1 },
                    { "RMS", false, 0, 0 },   { "", false, 0, 0 } };
    tt_status st = tt_table_create(&screen->style, &table);
    for (size_t c = 0; st == TT_OK && c < sizeof columns / sizeof *columns; c++) {
        if (c == 1 && has_classes)
            st = tt_table_column(table, "CLASS", false, 7);
        bool is_long = is_wide && strcmp(columns[c].title, "RMS") == 0;
        if (st == TT_OK)
            st = tt_table_column(table, is_long ? "RMS OVER STEPS" : columns[c].title,
                                 columns[c].is_right, columns[c].least);
        if (st == TT_OK && columns[c].turn > 0)
            tt_table_optional(table, columns[c].turn);
    }
    size_t count = tt_run_tree_count(tree);
    tt_progress *bar = tt_progress_start("reading");
    for (size_t i = 0; st == TT_OK && i < count && i < most; i++) {
        size_t left_out = 0;
        const tt_tree_row *row = tt_run_tree_at(tree, i);
        st = add_line(table, run, row, screen, is_wide, has_classes, &left_out, err);
        *evaluated += left_out > 0 && row->phases == TT_PHASES_TRAIN;
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

static tt_status print_json(const char *path, tt_run *run, const arguments *args, tt_error *err)
{
    /* Of all phases training comes first; evaluation has a member of its own. */
    bool has_both = args->look.phases == TT_PHASES_ALL;
    const tt_look look = { args->look.rank, has_both ? 0 : args->look.phases },
                  evaluation = { args->look.rank, TT_PHASES_EVAL };
    tt_json_out json = { 0 };
    tt_totals totals;
    tt_overview_totals(run, &totals);
    tt_status st = TT_OK;
    tt_json_open(&json, NULL, '{');
    tt_json_words(&json, "run", path);
    tt_json_words(&json, "state", tt_overview_state_text(tt_overview_state(run)));
    tt_buf command = { 0 };
    (void)tt_overview_command(run, &command);
    tt_json_words(&json, "command", command.data);
    tt_buf_free(&command);
    tt_json_whole(&json, "first_step", totals.first_step);
    tt_json_whole(&json, "last_step", totals.last_step);
    tt_json_whole(&json, "points", totals.points);
    tt_json_whole(&json, "bytes", totals.bytes);
    tt_json_words(&json, "untrained", tt_header_untrained(run));
    tt_json_open(&json, "sites", '[');
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++) {
        tt_latest sight, other = { .file = -1 };
        tt_run_file about = { 0 };
        if (!tt_site_is_shown(tt_run_site_name(run, site), args->shared.glob))
            continue;
        st = tt_run_look(run, site, &look, &sight, err);
        if (st == TT_OK && has_both && sight.phases == TT_PHASES_TRAIN)
            st = tt_run_look(run, site, &evaluation, &other, err);
        if (st < 0)
            break;
        if (sight.file < 0)
            continue;
        (void)tt_run_file_get(run, sight.file, &about);
        tt_json_open(&json, NULL, '{');
        tt_json_words(&json, "site", tt_run_site_name(run, site));
        tt_json_whole(&json, "rank", about.rank);
        tt_json_whole(&json, "points", (int64_t)tt_run_points(run, sight.file, site));
        tt_json_open(&json, "anomalies", '[');
        for (tt_anomaly a = 0; a < TT_ANOMALY_COUNT_; a++)
            if ((sight.anomalies & 1u << a) != 0)
                tt_json_words(&json, NULL, tt_anomaly_text(a));
        tt_json_close(&json, ']');
        tt_json_open(&json, "latest", '{');
        tt_json_point(&json, &sight.latest);
        tt_json_close(&json, '}');
        if (other.file >= 0) {
            tt_json_open(&json, "evaluation", '{');
            tt_json_point(&json, &other.latest);
            tt_json_close(&json, '}');
        }
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, ']');
    tt_json_close(&json, '}');
    return st;
}

static bool has_rank(const tt_run *run, const tt_look *look)
{
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        if (tt_look_has_file(look, run, f))
            return true;
    return false;
}

/* What is odd, then the tree; `lines` are on the screen already. */
static tt_status print_look(tt_run *run, const arguments *args, const tt_look *look, const char *title,
                            const tt_screen *screen, int lines, tt_error *err)
{
    tt_run_tree *tree = NULL;
    int odd = 0;
    size_t most = SIZE_MAX, evaluated = 0;
    tt_status st = tt_run_tree_create(run, look, args->shared.glob,
                                      args->shows_all ? TT_TREE_UNFOLDED : 0, &tree, err);
    bool is_again = look->phases == TT_PHASES_EVAL && args->look.phases == TT_PHASES_ALL;
    if (st == TT_OK && !is_again) /* what is odd is so in any phase */
        st = tt_anomalies_print(args->shared.run, run, tree, look, args->shows_all, screen, &odd, err);
    if (screen->rows > 0 && !args->shows_all)
        most = screen->rows > lines + odd + 8 ? (size_t)(screen->rows - lines - odd - 4) : 4;
    if (st == TT_OK) {
        printf("\n%s", title);
        st = print_tree(run, tree, screen, most, args->shows_classes, &evaluated, err);
    }
    if (st == TT_OK && evaluated > 0 && look->phases == 0)
        printf("%s%zu of these lines leave out evaluation; --phase eval shows it, --phase all both%s\n",
               tt_header_ink(screen, TT_MOOD_FAINT), evaluated, tt_header_ink(screen, TT_MOOD_PLAIN));
    tt_run_tree_free(tree);
    return st;
}

/* No site has points of this rank and phase: says what there is. */
static tt_exit no_points(const arguments *args, tt_error *err)
{
    (void)snprintf(err->text, sizeof err->text, "no %s%.100s%s has points of this %s",
                   args->shared.glob != NULL ? "site that matches '" : "site",
                   args->shared.glob != NULL ? args->shared.glob : "",
                   args->shared.glob != NULL ? "'" : "",
                   args->look.rank >= 0 && args->look.phases != 0 ? "rank and phase"
                   : args->look.rank >= 0                         ? "rank"
                                                                  : "phase");
    return TT_EXIT_USAGE;
}

tt_exit tt_cmd_show(int argc, char **argv, tt_error *err)
{
    arguments args = { .shared = { .least = 1, .most = 2 }, .look = { .rank = -1 } };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    tt_run *run = NULL;
    tt_exit code = tt_overview_open(args.shared.run, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    if (!has_rank(run, &args.look)) {
        char ranks[160];
        (void)snprintf(err->text, sizeof err->text, "this run has no rank %d; it has %s",
                       (int)args.look.rank, tt_opened_ranks(run, ranks, sizeof ranks));
        code = TT_EXIT_USAGE;
    } else if (args.shared.glob != NULL && !tt_overview_has_site(run, args.shared.glob)) {
        code = tt_overview_no_site(run, args.shared.glob, err);
    } else if (args.shared.is_json) {
        code = print_json(args.shared.run, run, &args, err) < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
    } else {
        int lines = tt_header_print(args.shared.run, run, &screen);
        if (args.look.rank < 0 && tt_opened_rank_count(run) > 1) {
            tt_run_file first = { 0 };
            (void)tt_run_file_get(run, 0, &first);
            printf("%snumbers are of rank %d where it has the site; --rank N shows another's%s\n",
                   tt_header_ink(&screen, TT_MOOD_FAINT), (int)first.rank,
                   tt_header_ink(&screen, TT_MOOD_PLAIN));
            lines++;
        }
        tt_status st = TT_OK;
        bool has_both = args.look.phases == TT_PHASES_ALL,
             has_site = tt_run_shown_count(run, args.shared.glob) > 0;
        tt_look look = args.look;
        look.phases = has_both ? TT_PHASES_TRAIN : look.phases;
        if (has_site)
            st = print_look(run, &args, &look, has_both ? "training\n" : "", &screen, lines, err);
        look.phases = TT_PHASES_EVAL;
        if (has_site && has_both && (st == TT_OK || st == TT_EMISMATCH)) {
            bool had_none = st == TT_EMISMATCH;
            st = print_look(run, &args, &look, "evaluation\n", &screen, lines, err);
            st = st == TT_EMISMATCH && !had_none ? TT_OK : st;
            err->text[0] = st == TT_OK ? '\0' : err->text[0];
        }
        code = st == TT_EMISMATCH ? no_points(&args, err) : st < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
    }
    tt_run_close(run);
    return code;
}
