/* diff.c -- tensortap diff A B [--rtol R --atol A] [--step A:B]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "output/json.h"
#include "output/progress.h"
#include "runs/overview.h"
#include "words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORST = 10, NAMES = 3 };

static struct {
    tt_diff_options options;
    tt_range steps;
    tt_rename rename;
    int64_t rank; /* main.c opens it */
} args = { .steps = TT_RANGE_ALL };

static bool read_tolerance(const char *text, void *out)
{
    char *end = NULL;
    double x = strtod(text, &end);
    *(double *)out = x;
    return end != text && *end == '\0' && x >= 0 && !isinf(x);
}

static bool read_rename(const char *text, void *out)
{
    tt_rename *rename = out;
    const char *equals = strchr(text, '=');
    size_t from = equals != NULL ? (size_t)(equals - text) : 0;
    if (from == 0 || from >= sizeof rename->from || strlen(equals + 1) >= sizeof rename->to)
        return false;
    (void)snprintf(rename->from, sizeof rename->from, "%.*s", (int)from, text);
    (void)snprintf(rename->to, sizeof rename->to, "%s", equals + 1);
    return true;
}

typedef struct counts {
    size_t same, noise, differing;
    int64_t points, alone[2], unwritten;
} counts;

static counts count_sites(const tt_diff *diff)
{
    counts c = { 0 };
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        if (s->points == 0)
            continue;
        c.points += s->points;
        c.unwritten += s->unwritten;
        c.alone[0] += s->only_a;
        c.alone[1] += s->only_b;
        c.same += s->verdict == TT_DIFF_SAME;
        c.noise += s->verdict == TT_DIFF_NOISE;
        c.differing += s->verdict == TT_DIFF_DIFFERS;
    }
    return c;
}

/* Has a run recorded a site on several ranks whose parts could not be joined? */
static bool is_left_out(const tt_run *run, const char *name)
{
    const tt_joined_site *j = tt_run_joined(run, tt_run_find(run, name));
    return j != NULL && j->points == 0 && j->ranks > 0;
}

static bool is_alone(const tt_diff_site *s, int side)
{
    return s->points == 0 && s->only_a + s->only_b > 0 && (s->only_a == 0) == (side == 1);
}

/* Prints which sites have points in one run only: those that the other could not join, or those that it does
 * not have. */
static void print_alone(const tt_diff *diff, const tt_call *call, int side, bool has_parts)
{
    size_t count = 0, shown = 0;
    for (size_t i = 0; i < diff->count; i++)
        count += is_alone(&diff->sites[i], side) &&
                 is_left_out(call->runs[!side], diff->sites[i].name) == has_parts;
    if (count == 0)
        return;
    const char *ending = count == 1 ? "" : "s";
    if (has_parts)
        tt_screen_say(TT_MOOD_PLAIN,
                      "not compared: %zu site%s of %s, whose parts could not be joined: ", count, ending,
                      call->words[!side]);
    else
        tt_screen_say(TT_MOOD_PLAIN, "only in %s: %zu site%s, ", call->words[side], count, ending);
    for (size_t i = 0; i < diff->count && shown < NAMES; i++)
        if (is_alone(&diff->sites[i], side) &&
            is_left_out(call->runs[!side], diff->sites[i].name) == has_parts)
            tt_screen_say(TT_MOOD_PLAIN, "%s%s", shown++ > 0 ? ", " : "", diff->sites[i].name);
    puts(count > shown ? " ..." : "");
}

/* Names the biases that rounding alone moves, of the first rank that has some. */
static void print_drift(const tt_diff *diff)
{
    const tt_diff_site *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        if (!s->is_rounding || (first != NULL && s->rank != first->rank))
            continue;
        first = first != NULL ? first : s;
        if (count++ < NAMES)
            tt_screen_say(TT_MOOD_PLAIN, "%s%s", s == first ? "" : ", ", strchr(s->name, '/') + 1);
    }
    if (count > NAMES)
        printf(" and %zu more", count - NAMES);
    if (count > 0)
        printf(" move%s by rounding only: the gradient is zero but for rounding\n",
               count == 1 ? "s" : "");
}

static int by_excess(const void *a, const void *b)
{
    const tt_diff_site *x = *(const tt_diff_site *const *)a, *y = *(const tt_diff_site *const *)b;
    if (x->verdict != y->verdict)
        return x->verdict > y->verdict ? -1 : 1;
    double p = x->worst.deviation, q = y->worst.deviation;
    if (p != q)
        return p > q ? -1 : 1;
    if (x->first.step != y->first.step) /* a NaN is everywhere: where it came first */
        return x->first.step < y->first.step ? -1 : 1;
    return x < y ? -1 : 1;
}

/* "[16, 8]" where the points cannot be compared because of their shapes, else the number. */
static const char *side_text(const tt_diff_site *s, const tt_diff_point *at, int side)
{
    bool is_shape = at->field == TT_FIELD_COUNT && s->shapes[side][0] != '\0';
    return is_shape ? s->shapes[side] : tt_screen_number(side == 0 ? at->a : at->b);
}

static const char *field_text(const tt_diff_site *s, const tt_diff_point *at)
{
    bool is_shape = at->field == TT_FIELD_COUNT && s->shapes[0][0] != '\0';
    return is_shape ? "shape" : tt_field_name(at->field);
}

static tt_status print_worst(const tt_diff *diff, bool has_ranks)
{
    tt_status st = TT_OK;
    static const tt_table_column columns[] = {
        { "WORST", .least = -16 },
        { "FROM STEP", .is_right = true, .optional = 3 },
        { "AT", .is_right = true, .optional = 2 },
        { .title = "FIELD" },
        { "A", .is_right = true },
        { "B", .is_right = true },
        { "OFF BY", .is_right = true },
        { "FLOOR", .is_right = true, .optional = 1 }, /* empty, and so not drawn, with a tolerance */
    };
    const bool has_tolerance = args.options.has_tolerance;
    size_t count = 0;
    const tt_diff_site **sites = calloc(diff->count + 1, sizeof *sites);
    if (sites == NULL)
        return TT_ENOMEM;
    for (size_t i = 0; i < diff->count; i++)
        if (diff->sites[i].verdict != TT_DIFF_SAME)
            sites[count++] = &diff->sites[i];
    if (count == 0)
        goto out;
    qsort(sites, count, sizeof *sites, by_excess);
    tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < count && i < WORST; i++) {
        const tt_diff_site *s = sites[i];
        double off_by = has_tolerance ? fabs(s->worst.a - s->worst.b) : s->worst.deviation;
        char name[4200];
        (void)snprintf(name, sizeof name, has_ranks ? "%s (rank %d)" : "%s", s->name, (int)s->rank);
        tt_table_cell(table, TT_MOOD_PLAIN, name);
        tt_table_cell(table, TT_MOOD_PLAIN, tt_screen_count(s->first.step));
        tt_table_cell(table, TT_MOOD_PLAIN, tt_screen_count(s->worst.step));
        tt_table_cell(table, TT_MOOD_PLAIN, field_text(s, &s->worst));
        tt_table_cell(table, TT_MOOD_PLAIN, side_text(s, &s->worst, 0));
        tt_table_cell(table, TT_MOOD_PLAIN, side_text(s, &s->worst, 1));
        tt_table_cell(table, s->verdict == TT_DIFF_DIFFERS ? TT_MOOD_ALARM : TT_MOOD_PLAIN,
                      tt_screen_text("%.2g", off_by));
        tt_table_cell(table, TT_MOOD_FAINT, has_tolerance ? "" : tt_screen_text("%.2g", s->worst.floor));
    }
    putchar('\n');
    st = tt_screen_table(table, TT_OK);
    if (st == TT_OK && count > WORST)
        printf("... %zu more; --json lists all\n", count - WORST);
out:
    free(sites);
    return st;
}

static tt_status print_text(const tt_diff *diff, const tt_call *call, bool has_ranks)
{
    counts c = count_sites(diff);
    const bool has_tolerance = args.options.has_tolerance;
    const tt_answers *answers = &diff->answers;
    const tt_answer *last = &answers->items[answers->count - 1];
    for (size_t i = 0; i < answers->count; i++)
        (void)tt_answer_print(&answers->items[i], TT_EXTENT_DETAIL);
    tt_screen_say(TT_MOOD_FAINT, "%s points compared; sites: %zu identical, %zu within %s, %zu differ\n",
                  tt_screen_count(c.points), c.same, c.noise, has_tolerance ? "tolerance" : "noise",
                  c.differing);
    if (c.unwritten > 0)
        tt_screen_say(
            TT_MOOD_FAINT,
            "%s more are of steps that only one of the runs has, because the other is thinned\n",
            tt_screen_count(c.unwritten));
    print_drift(diff);
    if (args.options.rename != NULL)
        tt_screen_say(TT_MOOD_PLAIN, "'%s' in names of the first matches '%s' in the second\n",
                      args.rename.from, args.rename.to);
    for (int side = 0; side < 2; side++) {
        if (c.alone[side] > 0)
            tt_screen_say(TT_MOOD_PLAIN,
                          "%s points only in %s: its steps or calls are not in the other\n",
                          tt_screen_count(c.alone[side]), call->words[side]);
        print_alone(diff, call, side, true);
        print_alone(diff, call, side, false);
    }
    tt_status st = print_worst(diff, has_ranks);
    if (st == TT_OK && last->next_count > 0) {
        putchar('\n');
        (void)tt_answer_print_next(last, 0);
    }
    return st;
}

static tt_status print_json(const tt_diff *diff)
{
    tt_json *json = tt_json_begin_schema(NULL);
    tt_json_text(json, "verdict",
                 count_sites(diff).points > 0 ? tt_verdict_text(diff->verdict) : "nothing to compare");
    tt_json_text(json, "first", diff->first >= 0 ? diff->sites[diff->first].name : NULL);
    tt_json_open(json, "premises", '[');
    for (size_t i = 0; i < diff->answers.count; i++) {
        const tt_answer *premise = &diff->answers.items[i];
        if (premise->kind != TT_ANSWER_PREMISE)
            continue;
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "kind", premise->rule);
        tt_json_i64(json, "step", premise->first_step);
        tt_json_text(json, "site", premise->site_count > 0 ? premise->names[0] : NULL);
        tt_json_text(json, "text", premise->sentence);
        tt_json_text(json, "detail", premise->detail);
        tt_json_close(json);
    }
    tt_json_close(json);
    tt_json_answers(json, &diff->answers);
    tt_json_open(json, "sites", '[');
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "site", s->name);
        tt_json_i64(json, "rank", s->rank);
        tt_json_text(json, "verdict", tt_diff_site_text(s));
        tt_json_i64(json, "points", s->points);
        tt_json_i64(json, "only_a", s->only_a);
        tt_json_i64(json, "only_b", s->only_b);
        if (s->unwritten > 0)
            tt_json_i64(json, "unwritten", s->unwritten);
        if (s->shapes[0][0] != '\0') {
            tt_json_text(json, "shape_a", s->shapes[0]);
            tt_json_text(json, "shape_b", s->shapes[1]);
            tt_json_i64(json, "unlike", s->unlike);
        }
        if (s->dtypes[0] >= 0) {
            tt_json_text(json, "dtype_a", tt_dtype_name((tt_dtype)s->dtypes[0]));
            tt_json_text(json, "dtype_b", tt_dtype_name((tt_dtype)s->dtypes[1]));
        }
        if (s->verdict != TT_DIFF_SAME) {
            tt_json_i64(json, "first_step", s->first.step);
            tt_json_i64(json, "first_call", s->first.call);
            tt_json_text(json, "first_field", tt_field_name(s->first.field));
            tt_json_f64(json, "first_a", s->first.a);
            tt_json_f64(json, "first_b", s->first.b);
            tt_json_i64(json, "worst_step", s->worst.step);
            tt_json_text(json, "field", tt_field_name(s->worst.field));
            tt_json_f64(json, "a", s->worst.a);
            tt_json_f64(json, "b", s->worst.b);
            tt_json_f64(json, "deviation", s->worst.deviation);
            tt_json_f64(json, "floor", s->worst.floor);
            tt_json_bool(json, "is_rounding", s->is_rounding);
        }
        tt_json_close(json);
    }
    return tt_json_end(TT_OK);
}

static void check(const tt_call *call)
{
    static const char *const aligned[] = { "map", "write-map" };
    static const char *const by_name[] = { "rank", "rtol", "atol", "step", "only", "ignore", "rename" };
    const bool has_align = tt_call_has(call, "align"), has_weights = tt_call_has(call, "weights");
    if (has_align && has_weights)
        tt_cmd_refuse(call->cmd, "--weights and --align do not go together");
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        if (tt_call_has(call, aligned[i]) && !has_align)
            tt_cmd_refuse(call->cmd, "--%s needs --align tokens", aligned[i]);
    for (size_t i = 0; i < sizeof by_name / sizeof *by_name && (has_align || has_weights); i++)
        if (tt_call_has(call, by_name[i]))
            tt_cmd_refuse(call->cmd, "--%s does not go with --%s", by_name[i],
                          has_align ? "align" : "weights");
}

static tt_exit diff_command(tt_call *call)
{
    if (tt_call_has(call, "align") || tt_call_has(call, "weights"))
        return tt_python_run(call);
    tt_run *a = call->runs[0], *b = call->runs[1];
    tt_diff *diff = NULL;
    tt_diff_options *options = &args.options;
    options->paths[0] = call->words[0];
    options->paths[1] = call->words[1];
    options->first_step = args.steps.first;
    options->last_step = args.steps.last;
    options->has_tolerance = tt_call_has(call, "rtol") || tt_call_has(call, "atol");
    if (options->only != NULL && !tt_overview_has_site(a, options->only) &&
        !tt_overview_has_site(b, options->only))
        return tt_overview_no_site(a, options->only, call->err);
    if (args.rename.from[0] != '\0' || tt_diff_guess_rename(a, b, &args.rename))
        options->rename = &args.rename;
    tt_progress_start("comparing");
    options->progress = tt_progress_tell;
    tt_status st = tt_diff_compute(a, b, options, &diff, call->err);
    tt_progress_end();
    bool has_ranks = tt_overview_rank_count(a) > 1 || tt_overview_rank_count(b) > 1;
    if (st == TT_OK)
        st = call->is_json ? print_json(diff) : print_text(diff, call, has_ranks);
    tt_exit code = st < 0                             ? tt_cmd_exit(st, call->err)
                   : diff->verdict == TT_DIFF_DIFFERS ? TT_EXIT_FOUND
                   : count_sites(diff).points == 0    ? TT_EXIT_USAGE
                                                      : TT_EXIT_FINE;
    tt_diff_free(diff);
    return code;
}

static const tt_option options[] = {
    TT_RANK_OPTION(&args.rank),
    { "rtol", "X", "Accept |a - b| <= atol + rtol * |b|, in place of the noise floor",
      .to = &args.options.rtol, read_tolerance, "a number from 0 on" },
    { "atol", "X", "See --rtol", .to = &args.options.atol, read_tolerance, "a number from 0 on" },
    { "step", "A:B", "Steps from A to B, both included", .to = &args.steps, tt_range_parse,
      TT_RANGE_TAKES },
    { "only", "GLOB", "Only sites that match", .to = &args.options.only },
    { "ignore", "GLOB", "Leave out sites and settings that match: they are meant to differ",
      .to = &args.options.ignore },
    { "rename", "OLD=NEW",
      "OLD in names of the first run is NEW in the second; detected if all names then match",
      .to = &args.rename, read_rename, "OLD=NEW" },
    { "align", "HOW",
      "tokens: the runs are two implementations of one model; modules are paired by their weights, "
      "tokens "
      "by their ids (needs --keep tokens)",
      .takes = "tokens" },
    { .name = "map", "FILE", "Pairs of modules that are known better, as --write-map writes them" },
    { .name = "write-map", "FILE", "Write the pairs that were found" },
    { .name = "weights",
      NULL,
      "Compare the weights alone: equal, rounded, different, missing (needs --keep tokens)" },
};

const tt_cmd tt_cmd_diff = {
    TT_CMD("diff", "RUN RUN", "where two runs diverge"),
    .doc =
        "Find where two runs diverge: the first site that differs by more than rounding, and the worst.  "
        "Exit code 0: identical, or within noise; 1: they differ.\v"
        "For example: tensortap diff runs/before runs/after --step 0:100\n"
        "Trainer and engine: tensortap diff --align tokens runs/trainer runs/engine",
    TT_OPTIONS(options),
    .json = TT_JSON,
    .least = 2,
    .most = 2,
    .runs = 2,
    .joins = true,
    .missing = "name two runs; 'tensortap ls' lists them",
    .extra = "name two runs",
    .check = check,
    .run = diff_command,
};
