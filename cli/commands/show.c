/* show.c -- tensortap show RUN [GLOB]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "output/json.h"
#include "output/progress.h"
#include "runs/overview.h"
#include "words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREND = 16, NARROW = 100, MOST_LISTED = 10 };

static struct {
    tt_look look;
    int64_t rank; /* -1: every rank */
    bool shows_all, shows_classes, shows_settings;
} args = { .rank = -1 };

static bool read_rank(const char *text, void *out)
{
    return tt_range_count(text, out) && args.rank <= INT32_MAX;
}

static bool read_phases(const char *text, void *out)
{
    tt_phases phases = strcmp(text, "train") == 0  ? TT_PHASES_TRAIN
                       : strcmp(text, "eval") == 0 ? TT_PHASES_EVAL
                       : strcmp(text, "all") == 0  ? TT_PHASES_ALL
                                                   : 0;
    *(tt_phases *)out = phases;
    return phases != 0;
}

/* ---- what is wrong ----------------------------------------------------------------- */

static tt_findings *findings; /* owned by show() */

/* Is the finding about one of these sites, and of this rank? */
static bool is_asked_about(const tt_answer *found, const char *glob)
{
    bool is_of_rank = args.rank < 0 || found->rank_count != 1 || found->ranks[0] == (int32_t)args.rank;
    for (size_t i = 0; glob != NULL && i < found->site_count; i++)
        if (tt_glob_match(glob, found->names[i]))
            return is_of_rank;
    return is_of_rank && glob == NULL;
}

/* Prints what the rules found, on no more than a third of the screen; returns the number of lines. */
static int print_findings(const tt_call *call)
{
    size_t found = 0, most = args.shows_all ? SIZE_MAX : MOST_LISTED;
    if (tt_terminal.rows > 0 && !args.shows_all && (size_t)tt_terminal.rows / 3 < most)
        most = (size_t)tt_terminal.rows / 3 + 1;
    for (size_t i = 0; i < findings->count; i++)
        if (is_asked_about(&findings->items[i], call->glob))
            findings->items[found++] = findings->items[i];
    bool had_none = findings->count == 0;
    findings->count = found;
    if (had_none && !findings->is_healthy && call->glob == NULL)
        return tt_findings_print_verdict(findings, 0);
    if (found == 0)
        return 0;
    putchar('\n');
    int lines = 2;
    for (size_t i = 0; i < found && i < most; i++)
        lines += tt_answer_print(&findings->items[i], TT_EXTENT_SENTENCE);
    if (findings->has_gaps)
        lines += tt_findings_print_verdict(findings, 0);
    if (found > most)
        printf("  and %zu more\n", found - most);
    fputs("  ", stdout);
    tt_screen_say(TT_MOOD_FAINT, "what to do: tensortap health %s\n", call->path);
    return lines + (found > most);
}

static const tt_answer *find_rule(const char *id)
{
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->items[i].rule, id) == 0)
            return &findings->items[i];
    return NULL;
}

/* The heaviest finding about a site of a row; NULL: none. */
static const tt_answer *finding_of(const tt_tree_row *row)
{
    const tt_answer *worst = NULL;
    for (int32_t i = 0; i < row->sites; i++) {
        const tt_answer *found = tt_findings_about(findings, row->members[i]);
        worst = found != NULL && (worst == NULL || found < worst) ? found : worst; /* they are in order */
    }
    return worst;
}

/* ---- the tree ------------------------------------------------------------------ */

/* A number, or nothing where no element defines it: "nan" would look like trouble. */
static const char *number_text(double x, const tt_stats *s)
{
    bool is_trouble = (s->nan | s->posinf | s->neginf) != 0 && tt_stats_finite(s) <= 0;
    return !isnan(x) || is_trouble ? tt_screen_number(x) : "";
}

/* "4x f32[8,16]"; of a number its value. */
static const char *latest_text(const tt_tree_row *row, bool is_wide)
{
    if (row->site < 0)
        return "";
    const char *type = tt_screen_type(&row->latest, !is_wide);
    if (row->sites > 1)
        return tt_screen_text("%d%s%s", (int)row->sites, tt_terminal.style.is_ascii ? "x " : "× ", type);
    if ((row->latest.products & (TT_PRODUCT_STATS | TT_PRODUCT_SCALAR)) == TT_PRODUCT_SCALAR)
        return tt_screen_text("%s %s", type, tt_screen_number(row->latest.scalar));
    return type;
}

static tt_status add_line(tt_table *table, tt_run *run, const tt_tree_row *row, bool is_wide,
                          size_t *left_out, tt_error *err)
{
    tt_buf trend = { 0 }, guides = { 0 };
    tt_status st = TT_OK;
    const tt_stats *s = &row->latest.stats;
    const double numbers[] = { s->min, s->max, s->mean, tt_stats_std(s) };
    bool has_stats = (row->latest.products & TT_PRODUCT_STATS) != 0;
    bool is_evaluation = row->site >= 0 && row->phases == TT_PHASES_EVAL;
    if (row->site >= 0)
        st = tt_trend_append(run, row->file, row->worst >= 0 ? row->worst : row->site,
                             has_stats ? TT_FIELD_RMS : TT_FIELD_SCALAR, row->phases,
                             is_wide ? TREND : TREND / 2, &tt_terminal.style, &trend, left_out, err);
    (void)tt_buf_text(&guides, "");
    for (int32_t d = 1; d <= row->depth; d++)
        (void)tt_buf_text(&guides,
                          tt_tree_guide(d == row->depth, (row->ended >> (d < 63 ? d : 63) & 1) != 0,
                                        tt_terminal.style.is_ascii));
    tt_table_branch(table, guides.st == TT_OK ? guides.data : "", TT_MOOD_PLAIN,
                    *row->label != '\0' ? row->label : "(no name)");
    tt_table_cell(table, TT_MOOD_PLAIN,
                  args.shows_classes && row->class_name != NULL ? row->class_name : "");
    tt_table_cell(table, TT_MOOD_TYPE, latest_text(row, is_wide));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tt_table_cell(table, TT_MOOD_PLAIN, has_stats ? number_text(numbers[i], s) : "");
    const tt_answer *found = finding_of(row);
    bool is_bad = row->worst >= 0 || (found != NULL && found->severity == TT_SEVERITY_ERROR);
    const char *remark = found != NULL ? found->rule
                         : row->worst >= 0
                             ? tt_screen_text("not finite from step %" PRId64, row->bad_step)
                             : "";
    tt_table_cell(table, is_bad ? TT_MOOD_ALARM : TT_MOOD_SPARK, trend.len > 0 ? trend.data : "");
    tt_table_cell(table, is_bad ? TT_MOOD_ALARM : TT_MOOD_REMARK,
                  tt_screen_text("%s%s%s", remark, is_evaluation && *remark != '\0' ? ", " : "",
                                 is_evaluation ? "eval" : ""));
    tt_buf_free(&trend);
    tt_buf_free(&guides);
    return st < 0 ? st : guides.st;
}

/* How much more the first layer is than the last, or less; 1: the same. */
static double growth_of(const tt_tree_row *row)
{
    return row->rms_first > 0 ? fmax(row->rms_last / row->rms_first, row->rms_first / row->rms_last) : 1;
}

static double oddness_of(const tt_tree_row *row)
{
    return row->odd >= 0 ? fmax(row->rms_odd / row->rms_usual, row->rms_usual / row->rms_odd) : 1;
}

/* Says what the rows of repeated layers hide: a trend from layer to layer, or one that is unlike its siblings. */
static void print_hidden(const tt_run *run, const tt_run_tree *tree)
{
    enum { MOST_SAID = 3 };
    static const double GROWN = 8, ODD = 10;
    size_t found = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const tt_tree_row *row = &tree->rows[i];
        double grown = growth_of(row), odd = oddness_of(row);
        if ((grown < GROWN && odd < ODD) || found++ >= MOST_SAID)
            continue;
        if (odd >= ODD) /* it may be the first or the last, which is no trend */
            tt_screen_say(TT_MOOD_REMARK,
                          "folded: the rms of %s is %s, that of its %d siblings about %s\n",
                          tt_run_site_name(run, row->odd), tt_screen_number(row->rms_odd),
                          (int)row->sites - 1, tt_screen_number(row->rms_usual));
        else
            tt_screen_say(
                TT_MOOD_REMARK, "folded: the rms %s from %s in %s to %s in %s (%s%s)\n",
                row->rms_last > row->rms_first ? "grows" : "shrinks", tt_screen_number(row->rms_first),
                tt_run_site_name(run, row->members[0]), tt_screen_number(row->rms_last),
                tt_run_site_name(run, row->members[row->sites - 1]),
                row->rms_last > row->rms_first ? "" : "1/",
                tt_screen_text("%.3g%s", grown, row->rms_last > row->rms_first ? " times" : ""));
    }
    if (found > MOST_SAID)
        tt_screen_say(TT_MOOD_REMARK, "and %zu more rows like these; --all shows every layer\n",
                      found - MOST_SAID);
    else if (found > 0)
        tt_screen_say(TT_MOOD_FAINT, "--all shows every layer\n");
}

/* evaluated: how many of the lines leave out points of evaluation. */
static tt_status print_tree(tt_run *run, const tt_run_tree *tree, size_t most, size_t *evaluated,
                            tt_error *err)
{
    const bool is_wide = tt_terminal.style.columns == 0 || tt_terminal.style.columns >= NARROW;
    const tt_table_column columns[] = {
        { "SITE", .least = 20 },
        { "CLASS", .least = 7 }, /* empty, and so not drawn, without --classes */
        { "LATEST", .least = 7 },
        { "MIN", .is_right = true },
        { "MAX", .is_right = true },
        { "MEAN", .is_right = true, .optional = 2 },
        { "STD", .is_right = true, .optional = 1 },
        { .title = is_wide ? "RMS OVER STEPS" : "RMS" },
        { .title = "" },
    };
    size_t count = tree->count;
    tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
    tt_progress_start("reading");
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < count && i < most; i++) {
        size_t left_out = 0;
        const tt_tree_row *row = &tree->rows[i];
        st = add_line(table, run, row, is_wide, &left_out, err);
        *evaluated += left_out > 0 && row->phases == TT_PHASES_TRAIN;
        tt_progress_tell((int64_t)i + 1, (int64_t)(count < most ? count : most));
    }
    tt_progress_end();
    st = tt_screen_table(table, st);
    if (st == TT_OK && count > most)
        printf("... %zu more lines; --all shows them, or give a pattern such as 'activation/*'\n",
               count - most);
    return st;
}

static tt_run *whole; /* the numbers of all ranks as one; the run itself if they cannot be joined */

static tt_status print_json(const tt_call *call)
{
    /* Of all phases training comes first; evaluation has a member of its own. */
    bool has_both = args.look.phases == TT_PHASES_ALL;
    const tt_look look = { args.look.rank, has_both ? 0 : args.look.phases },
                  evaluation = { args.look.rank, TT_PHASES_EVAL };
    tt_run *run = call->runs[0];
    tt_json *json = tt_json_begin_schema(NULL);
    const tt_totals totals = tt_run_totals(run);
    tt_buf command = { 0 };
    tt_json_text(json, "run", call->path);
    tt_json_text(json, "state", tt_state_text(tt_run_state(run)));
    (void)tt_run_command(run, &command);
    tt_json_text(json, "command", command.data);
    tt_buf_free(&command);
    tt_json_i64(json, "first_step", totals.first_step);
    tt_json_i64(json, "last_step", totals.last_step);
    tt_json_i64(json, "points", totals.points);
    tt_json_i64(json, "bytes", totals.bytes);
    const tt_answer *untrained = find_rule("not-optimized");
    tt_json_text(json, "untrained", untrained != NULL ? untrained->sentence : NULL);
    tt_json_open(json, "sites", '[');
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++) {
        tt_latest found, other = { .file = -1 };
        if (!tt_site_is_shown(tt_run_site_name(run, site), call->glob))
            continue;
        st = tt_run_look(whole, site, &look, &found, call->err);
        if (st == TT_OK && has_both && found.phases == TT_PHASES_TRAIN)
            st = tt_run_look(whole, site, &evaluation, &other, call->err);
        if (st < 0)
            break;
        if (found.file < 0)
            continue;
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "site", tt_run_site_name(run, site));
        tt_json_i64(json, "rank", tt_overview_whose(whole, found.file));
        tt_json_i64(json, "points", (int64_t)tt_run_points(whole, found.file, site));
        tt_json_open(json, "findings", '[');
        for (size_t i = 0; i < findings->count; i++)
            for (size_t k = 0; k < findings->items[i].site_count; k++)
                if (findings->items[i].sites[k] == site)
                    tt_json_text(json, NULL, findings->items[i].rule);
        tt_json_close(json);
        tt_json_bool(json, "finite", !found.has_nonfinite);
        tt_json_point(json, "latest", &found.latest);
        if (other.file >= 0)
            tt_json_point(json, "evaluation", &other.latest);
        tt_json_close(json);
    }
    return tt_json_end(st);
}

static bool has_rank(const tt_run *run, const tt_look *look)
{
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        if (tt_look_has_file(look, run, f))
            return true;
    return false;
}

/* Prints what is wrong, then the tree; `lines` are on the screen already. */
static tt_status print_look(const tt_call *call, const tt_look *look, const char *title, int lines)
{
    tt_run_tree *tree = NULL;
    int listed = 0;
    size_t most = SIZE_MAX, evaluated = 0;
    tt_status st = tt_run_tree_create(whole, look, call->glob, args.shows_all ? TT_TREE_UNFOLDED : 0,
                                      &tree, call->err);
    bool is_again = look->phases == TT_PHASES_EVAL && args.look.phases == TT_PHASES_ALL;
    if (st == TT_OK && !is_again) /* findings are of any phase */
        listed = print_findings(call);
    if (tt_terminal.rows > 0 && !args.shows_all)
        most =
            tt_terminal.rows > lines + listed + 8 ? (size_t)(tt_terminal.rows - lines - listed - 4) : 4;
    if (st == TT_OK) {
        printf("\n%s", title);
        st = print_tree(whole, tree, most, &evaluated, call->err);
    }
    if (st == TT_OK && evaluated > 0 && look->phases == 0)
        tt_screen_say(
            TT_MOOD_FAINT,
            "%zu of these lines leave out evaluation; --phase eval shows it, --phase all both\n",
            evaluated);
    if (st == TT_OK && !args.shows_all)
        print_hidden(whole, tree);
    tt_run_tree_free(tree);
    return st;
}

/* No site has points of this rank and phase. */
static tt_exit no_points(const tt_call *call)
{
    const char *glob = call->glob;
    return tt_cmd_fail(call->err, TT_EXIT_USAGE, "no %s%.100s%s has points of this %s",
                       glob != NULL ? "site that matches '" : "site", glob != NULL ? glob : "",
                       glob != NULL ? "'" : "",
                       args.rank >= 0 && args.look.phases != 0 ? "rank and phase"
                       : args.rank >= 0                        ? "rank"
                                                               : "phase");
}

/* Says of which ranks the numbers are; returns how many lines that took. */
static int print_ranks(const tt_run *run, const char *glob)
{
    if (args.rank >= 0 || tt_overview_rank_count(run) <= 1)
        return 0;
    if (whole == run) {
        tt_screen_say(TT_MOOD_FAINT,
                      "numbers are of rank %d where it has the site; --rank N shows another's\n",
                      (int)tt_overview_rank(run, 0));
        return 1;
    }
    int32_t left_out = tt_overview_left_out(run, whole, glob);
    tt_screen_say(TT_MOOD_FAINT,
                  "numbers are of the whole job, joined from all ranks; --rank N shows one\n");
    if (left_out > 0)
        tt_screen_say(
            TT_MOOD_FAINT, "%d %s left out: %s parts could not be joined; 'tensortap stats' says why\n",
            (int)left_out, left_out == 1 ? "site is" : "sites are", left_out == 1 ? "its" : "their");
    return 1 + (left_out > 0);
}

static tt_exit show_run(tt_call *call)
{
    tt_run *run = call->runs[0];
    args.look.rank = (int32_t)args.rank;
    if (!has_rank(run, &args.look))
        return tt_cmd_fail(call->err, TT_EXIT_USAGE, "this run has no rank %d; it has %s", (int)args.rank,
                           tt_overview_ranks(run));
    int lines =
        call->is_json ? 0 : tt_overview_print(call->path, run); /* at once: rules read every point */
    tt_status st = tt_health(whole, &(tt_health_options){ .path = call->path }, &findings, call->err);
    if (st < 0 || call->is_json)
        return tt_cmd_exit(st == TT_OK ? print_json(call) : st, call->err);
    lines += print_ranks(run, call->glob);
    bool has_both = args.look.phases == TT_PHASES_ALL;
    bool is_left_out = whole != run && tt_overview_left_out(run, whole, call->glob) ==
                                           tt_run_shown_count(run, call->glob);
    if (is_left_out || tt_run_shown_count(run, call->glob) == 0) /* that was said */
        return TT_EXIT_FINE;
    tt_look look = args.look;
    look.phases = has_both ? TT_PHASES_TRAIN : look.phases;
    st = print_look(call, &look, has_both ? "training\n" : "", lines);
    if (has_both && (st == TT_OK || st == TT_EMISMATCH)) {
        bool had_none = st == TT_EMISMATCH;
        look.phases = TT_PHASES_EVAL;
        st = print_look(call, &look, "evaluation\n", lines);
        st = st == TT_EMISMATCH && !had_none ? TT_OK : st;
        call->err->text[0] = st == TT_OK ? '\0' : call->err->text[0];
    }
    return st == TT_EMISMATCH ? no_points(call) : tt_cmd_exit(st, call->err);
}

/* ---- settings ------------------------------------------------------------------- */

static tt_status print_settings_json(const tt_settings *settings)
{
    tt_json *json = tt_json_begin_schema("settings");
    for (size_t i = 0; i < settings->count; i++) {
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "key", settings->items[i].key);
        tt_json_text(json, "value", settings->items[i].value);
        tt_json_i64(json, "step", settings->items[i].step);
        tt_json_close(json);
    }
    return tt_json_end(TT_OK);
}

static tt_exit show_settings(tt_call *call)
{
    static const tt_table_column columns[] = {
        { "SETTING", .least = -16 },
        { "FROM STEP", .is_right = true, .optional = 1 },
        { "VALUE", .least = 16 },
    };
    tt_settings settings;
    tt_status st = tt_settings_read(call->runs[0], &settings);
    if (st < 0)
        return tt_cmd_exit(st, call->err);
    size_t kept = 0;
    for (size_t i = 0; i < settings.count; i++)
        if (call->glob == NULL || tt_glob_match(call->glob, settings.items[i].key))
            settings.items[kept++] = settings.items[i];
    settings.count = kept;
    if (call->is_json) {
        st = print_settings_json(&settings);
    } else if (kept == 0) {
        puts(call->glob != NULL ? "no setting matches" : "no settings: none were recorded");
    } else {
        tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
        for (size_t i = 0; i < kept; i++) {
            tt_table_cell(table, TT_MOOD_PLAIN, settings.items[i].key);
            tt_table_cell(table, TT_MOOD_FAINT,
                          settings.items[i].step > 0 ? tt_screen_count(settings.items[i].step) : "");
            tt_table_cell(table, TT_MOOD_PLAIN, settings.items[i].value);
        }
        st = tt_screen_table(table, TT_OK);
    }
    tt_settings_free(&settings);
    return tt_cmd_exit(st, call->err);
}

static tt_exit show(tt_call *call)
{
    if (args.shows_settings)
        return show_settings(call);
    tt_run *joined = args.rank < 0 ? tt_overview_join(call->runs[0]) : NULL; /* owned */
    whole = joined != NULL ? joined : call->runs[0];
    tt_exit code = show_run(call);
    tt_run_close(joined);
    tt_findings_free(findings);
    return code;
}

static const tt_option options[] = {
    { "all", NULL, "Show repeated layers one by one, and every line", .to = &args.shows_all },
    { "settings", NULL, "Show what the program had set, and where its code is; GLOB selects keys",
      .to = &args.shows_settings },
    { "classes", NULL, "Name the class of every module", .to = &args.shows_classes },
    { "rank", "N", "Only this rank (default: what is wrong on all ranks, numbers of the first)",
      .to = &args.rank, read_rank, "a number" },
    { "phase", "PHASE",
      "train, eval, or all: one after the other (default: train, or eval for a site that was "
      "never "
      "trained)",
      .to = &args.look.phases, read_phases, "train, eval or all" },
};

const tt_cmd tt_cmd_show = {
    TT_CMD("show", "RUN [GLOB]", "a tree of all sites, what is wrong first"),
    .doc = "Show what a run holds: what is wrong first, then every site with its latest statistics "
           "and its root mean square over the training steps.\v"
           "For example: tensortap show runs/today 'activation/*'",
    TT_OPTIONS(options),
    .json = TT_JSON,
    TT_CMD_RUN_AND_GLOB,
    .keeps_ranks = true,
    .run = show,
};
