/* cmd_diff.c -- tensortap diff A B [--rtol R --atol A] [--step A:B]
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "header.h"
#include "json_out.h"
#include "progress.h"
#include "range.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RTOL = 256, ATOL, STEP, ONLY, RENAME, JSON, WORST = 10, NAMES = 3 };

typedef struct arguments {
    const char *runs[2];
    tt_diff_options options;
    tt_rename rename;
    bool is_json;
} arguments;

static double parse_tolerance(const char *text, struct argp_state *state)
{
    char *end = NULL;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !(x >= 0) || isinf(x))
        argp_failure(state, TT_EXIT_USAGE, 0, "a tolerance is a number from 0 on, not '%s'", text);
    return x;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    tt_range range;
    switch (key) {
    case RTOL:
    case ATOL:
        *(key == RTOL ? &args->options.rtol : &args->options.atol) = parse_tolerance(arg, state);
        args->options.has_tolerance = true;
        return 0;
    case STEP:
        if (!tt_range_parse(arg, &range))
            argp_failure(state, TT_EXIT_USAGE, 0, "--step takes A:B, A:, :B or A, not '%s'", arg);
        args->options.first_step = range.first;
        args->options.last_step = range.last;
        return 0;
    case ONLY:
        args->options.only = arg;
        return 0;
    case RENAME: {
        const char *equals = strchr(arg, '=');
        size_t from = equals != NULL ? (size_t)(equals - arg) : 0;
        if (from == 0 || from >= sizeof args->rename.from || strlen(equals + 1) >= sizeof args->rename.to)
            argp_failure(state, TT_EXIT_USAGE, 0, "--rename takes OLD=NEW, not '%s'", arg);
        (void)snprintf(args->rename.from, sizeof args->rename.from, "%.*s", (int)from, arg);
        (void)snprintf(args->rename.to, sizeof args->rename.to, "%s", equals + 1);
        args->options.rename = &args->rename;
        return 0;
    }
    case JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_failure(state, TT_EXIT_USAGE, 0, "two runs, no more");
        args->runs[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_failure(state, TT_EXIT_USAGE, 0, "name two runs; 'tensortap ls' lists them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    { "rtol", RTOL, "X", 0, "Fine is |a - b| <= atol + rtol * |b|, in place of the noise floor", 0 },
    { "atol", ATOL, "X", 0, "See --rtol", 0 },
    { "step", STEP, "A:B", 0, "Steps from A up to and with B", 0 },
    { "only", ONLY, "GLOB", 0, "Sites that match", 0 },
    { "rename", RENAME, "OLD=NEW", 0,
      "What names of the first run hold is this in the second; found out where every name fits", 0 },
    { "json", JSON, NULL, 0, "Print JSON", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN RUN",
    .doc = "Find where two runs part: the first site that differs by more than rounding, and the worst.  "
           "Exit code 0: identical, or within noise; 1: they differ.\v"
           "For example: tensortap diff runs/before runs/after --step 0:100",
};

typedef struct counts {
    size_t same, noise, differing, only[2];
    int64_t points, alone[2];
} counts;

static counts count_sites(const tt_diff *diff)
{
    counts c = { 0 };
    for (size_t i = 0; i < tt_diff_count(diff); i++) {
        const tt_diff_site *s = tt_diff_at(diff, i);
        if (s->points == 0) {
            c.only[s->only_a == 0] += s->only_a + s->only_b > 0;
            continue;
        }
        c.points += s->points;
        c.alone[0] += s->only_a;
        c.alone[1] += s->only_b;
        c.same += s->verdict == TT_DIFF_SAME;
        c.noise += s->verdict == TT_DIFF_NOISE;
        c.differing += s->verdict == TT_DIFF_DIFFERS;
    }
    return c;
}

static void print_percent(double x)
{
    char text[TT_NUMBER_TEXT];
    (void)snprintf(text, sizeof text, x >= 0.1 && x < 1e6 ? "%.0f" : "%.2g", x >= 1e-4 ? x * 100 : x);
    printf("%s%s", text, x >= 1e-4 ? "%" : "");
}

/* Sites that have points in one run only. */
static void print_alone(const tt_diff *diff, const tt_screen *screen, int side, size_t count,
                        const char *path)
{
    size_t shown = 0;
    if (count == 0)
        return;
    printf("only in ");
    tt_screen_name(screen, path);
    printf(": %zu site%s, ", count, count == 1 ? "" : "s");
    for (size_t i = 0; i < tt_diff_count(diff) && shown < NAMES; i++) {
        const tt_diff_site *s = tt_diff_at(diff, i);
        if (s->points > 0 || s->only_a + s->only_b == 0 || (s->only_a == 0) != (side == 1))
            continue;
        fputs(shown++ > 0 ? ", " : "", stdout);
        tt_screen_name(screen, s->name);
    }
    puts(count > shown ? " ..." : "");
}

static int by_excess(const void *a, const void *b)
{
    const tt_diff_site *x = *(const tt_diff_site *const *)a, *y = *(const tt_diff_site *const *)b;
    if (x->verdict != y->verdict)
        return x->verdict > y->verdict ? -1 : 1;
    double p = x->deviation, q = y->deviation;
    if (p != q)
        return p > q ? -1 : 1;
    if (x->first_step != y->first_step) /* a NaN is everywhere: where it came first */
        return x->first_step < y->first_step ? -1 : 1;
    return x < y ? -1 : 1;
}

static tt_status print_worst(const tt_diff *diff, const tt_screen *screen, bool has_tolerance,
                             bool has_ranks, tt_error *err)
{
    size_t count = 0;
    const tt_diff_site **sites = calloc(tt_diff_count(diff) + 1, sizeof *sites);
    tt_table *table = NULL;
    tt_buf text = { 0 };
    tt_status st = sites != NULL ? tt_table_create(&screen->style, &table) : TT_ENOMEM;
    for (size_t i = 0; st == TT_OK && i < tt_diff_count(diff); i++)
        if (tt_diff_at(diff, i)->verdict != TT_DIFF_SAME)
            sites[count++] = tt_diff_at(diff, i);
    if (count > 0)
        qsort(sites, count, sizeof *sites, by_excess);
    const char *const titles[] = { "WORST", "FROM STEP", "AT", "FIELD", "A", "B", "OFF BY", "FLOOR" };
    static const uint32_t turns[] = { 0, 3, 2, 0, 0, 0, 0, 1 }; /* tt_table_optional */
    for (size_t c = 0; st == TT_OK && c < 8 - (size_t)has_tolerance; c++) {
        st = tt_table_column(table, titles[c], c > 0 && c != 3, c == 0 ? -16 : 0);
        if (st == TT_OK && turns[c] > 0)
            tt_table_optional(table, turns[c]);
    }
    for (size_t i = 0; st == TT_OK && i < count && i < WORST; i++) {
        const tt_diff_site *s = sites[i];
        char cells[8][TT_NUMBER_TEXT], name[4200];
        (void)snprintf(name, sizeof name, "%s", s->name);
        if (has_ranks)
            (void)snprintf(name, sizeof name, "%s (rank %d)", s->name, (int)s->rank);
        (void)tt_screen_count(s->first_step, cells[1]);
        (void)tt_screen_count(s->worst_step, cells[2]);
        (void)snprintf(cells[3], sizeof cells[3], "%s", tt_field_name(s->worst_field));
        (void)tt_number_short(s->a, cells[4]);
        (void)tt_number_short(s->b, cells[5]);
        (void)snprintf(cells[6], sizeof cells[6], "%.2g",
                       has_tolerance ? fabs(s->a - s->b) : s->deviation);
        (void)snprintf(cells[7], sizeof cells[7], "%.2g", s->floor);
        for (size_t c = 0; st == TT_OK && c < 8 - (size_t)has_tolerance; c++)
            st = tt_table_cell(table,
                               c == 6 && s->verdict == TT_DIFF_DIFFERS ? TT_MOOD_ALARM
                               : c > 6                                 ? TT_MOOD_FAINT
                                                                       : TT_MOOD_PLAIN,
                               c == 0 ? name : cells[c]);
    }
    if (st == TT_OK && count > 0)
        st = tt_table_render(table, true, &text);
    tt_table_free(table);
    if (st == TT_OK && count > 0)
        putchar('\n');
    st = tt_screen_print(&text, st, err);
    if (st == TT_OK && count > WORST)
        printf("... %zu more; --json lists all\n", count - WORST);
    free(sites);
    return st;
}

static tt_status print_text(const tt_diff *diff, const arguments *args, const tt_screen *screen,
                            bool has_ranks, tt_error *err)
{
    counts c = count_sites(diff);
    char a[TT_NUMBER_TEXT], b[TT_NUMBER_TEXT];
    const char *plain = tt_header_ink(screen, TT_MOOD_PLAIN),
               *faint = tt_header_ink(screen, TT_MOOD_FAINT);
    tt_verdict verdict = tt_diff_verdict(diff);
    if (c.points == 0) {
        puts("nothing to compare: no site has points of the same steps in both runs");
    } else if (verdict == TT_DIFF_DIFFERS) {
        const tt_diff_site *s = tt_diff_at(diff, (size_t)tt_diff_first(diff));
        printf("they part at step %s in %s", tt_screen_count(s->first_step, a),
               tt_header_ink(screen, TT_MOOD_ALARM));
        tt_screen_name(screen, s->name);
        fputs(plain, stdout);
        if (has_ranks)
            printf(", rank %d", (int)s->rank);
        (void)tt_number_short(s->first_a, a);
        (void)tt_number_short(s->first_b, b);
        printf("\n%sthere %s is %s against %s", faint, tt_field_name(s->first_field), a, b);
        if (!args->options.has_tolerance && !isinf(s->first_deviation)) {
            fputs(", off by ", stdout);
            print_percent(s->first_deviation);
            fputs(" where rounding explains ", stdout);
            print_percent(s->first_floor);
        }
        printf("%s\n", plain);
    } else {
        printf("%s%s%s\n", tt_header_ink(screen, TT_MOOD_SPARK),
               verdict == TT_DIFF_SAME
                   ? (c.only[0] + c.only[1] > 0 ? "identical in the sites that both have" : "identical")
               : args->options.has_tolerance ? "within the tolerance"
                                             : "within noise: no more than rounding",
               plain);
    }
    printf("%s%s points compared; sites: %zu identical, %zu within %s, %zu differ%s\n", faint,
           tt_screen_count(c.points, a), c.same, c.noise,
           args->options.has_tolerance ? "tolerance" : "noise", c.differing, plain);
    if (args->options.rename != NULL) {
        fputs("'", stdout);
        tt_screen_name(screen, args->rename.from);
        fputs("' in names of the first is taken for '", stdout);
        tt_screen_name(screen, args->rename.to);
        fputs("' in the second\n", stdout);
    }
    for (int side = 0; side < 2; side++) {
        if (c.alone[side] > 0) {
            printf("%s points only in ", tt_screen_count(c.alone[side], a));
            tt_screen_name(screen, args->runs[side]);
            puts(": its steps or calls are not in the other");
        }
        print_alone(diff, screen, side, c.only[side], args->runs[side]);
    }
    return print_worst(diff, screen, args->options.has_tolerance, has_ranks, err);
}

static void print_json(const tt_diff *diff)
{
    static const char *const verdicts[] = { "identical", "noise", "differs" };
    tt_json_out json = { 0 };
    int64_t first = tt_diff_first(diff);
    tt_json_open(&json, NULL, '{');
    tt_json_words(&json, "verdict",
                  count_sites(diff).points > 0 ? verdicts[tt_diff_verdict(diff)] : "nothing to compare");
    tt_json_words(&json, "first", first >= 0 ? tt_diff_at(diff, (size_t)first)->name : NULL);
    tt_json_open(&json, "sites", '[');
    for (size_t i = 0; i < tt_diff_count(diff); i++) {
        const tt_diff_site *s = tt_diff_at(diff, i);
        tt_json_open(&json, NULL, '{');
        tt_json_words(&json, "site", s->name);
        tt_json_whole(&json, "rank", s->rank);
        tt_json_words(&json, "verdict",
                      s->points > 0   ? verdicts[s->verdict]
                      : s->only_a > 0 ? "only in a"
                                      : "only in b");
        tt_json_whole(&json, "points", s->points);
        tt_json_whole(&json, "only_a", s->only_a);
        tt_json_whole(&json, "only_b", s->only_b);
        if (s->verdict != TT_DIFF_SAME) {
            tt_json_whole(&json, "first_step", s->first_step);
            tt_json_whole(&json, "first_call", s->first_call);
            tt_json_words(&json, "first_field", tt_field_name(s->first_field));
            tt_json_number(&json, "first_a", s->first_a);
            tt_json_number(&json, "first_b", s->first_b);
            tt_json_whole(&json, "worst_step", s->worst_step);
            tt_json_words(&json, "field", tt_field_name(s->worst_field));
            tt_json_number(&json, "a", s->a);
            tt_json_number(&json, "b", s->b);
            tt_json_number(&json, "deviation", s->deviation);
            tt_json_number(&json, "floor", s->floor);
        }
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, ']');
    tt_json_close(&json, '}');
}

static void tell(void *bar, int64_t done, int64_t total)
{
    tt_progress_tell(bar, done, total);
}

tt_exit tt_cmd_diff(int argc, char **argv, tt_error *err)
{
    arguments args = { .options = { .first_step = INT64_MIN, .last_step = INT64_MAX } };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    tt_run *runs[2] = { NULL, NULL };
    tt_diff *diff = NULL;
    tt_exit code = tt_overview_open(args.runs[0], &runs[0], err);
    if (code == TT_EXIT_FINE)
        code = tt_overview_open(args.runs[1], &runs[1], err);
    if (code != TT_EXIT_FINE)
        goto out;
    if (args.options.only != NULL && !tt_overview_has_site(runs[0], args.options.only) &&
        !tt_overview_has_site(runs[1], args.options.only)) {
        code = tt_overview_no_site(runs[0], args.options.only, err);
        goto out;
    }
    if (args.options.rename == NULL && tt_diff_guess_rename(runs[0], runs[1], &args.rename))
        args.options.rename = &args.rename;
    tt_progress *bar = tt_progress_start("comparing");
    args.options.progress = tell;
    args.options.context = bar;
    tt_status st = tt_diff_compute(runs[0], runs[1], &args.options, &diff, err);
    tt_progress_end(bar);
    bool has_ranks = tt_opened_rank_count(runs[0]) > 1 || tt_opened_rank_count(runs[1]) > 1;
    if (st == TT_OK && args.is_json)
        print_json(diff);
    else if (st == TT_OK)
        st = print_text(diff, &args, &screen, has_ranks, err);
    code = st < 0                                     ? TT_EXIT_FAILED
           : tt_diff_verdict(diff) == TT_DIFF_DIFFERS ? TT_EXIT_FOUND
           : count_sites(diff).points == 0            ? TT_EXIT_USAGE
                                                      : TT_EXIT_FINE;
out:
    tt_diff_free(diff);
    tt_run_close(runs[0]);
    tt_run_close(runs[1]);
    return code;
}
