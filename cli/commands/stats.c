/* stats.c -- tensortap stats RUN GLOB [--step A:B]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/json.h"
#include "runs/overview.h"
#include "words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* MOST_ROWS: a table is built in memory, 1 kB a row; the rest is for `export --to csv`. */
enum { NARROW = 100, MOST_ROWS = 100000 };

static struct {
    tt_range steps;
    int64_t rank; /* main.c opens it */
} args = { .steps = TT_RANGE_ALL };

enum { STEP, CALL, TYPE, VALUE, MIN, MAX, MEAN, STD, RMS, L1, ZEROS, NANS, INFS, REMARK, COLUMNS };
static const char *const titles[COLUMNS] = { "STEP", "CALL", "TYPE", "VALUE", "MIN", "MAX", "MEAN",
                                             "STD",  "RMS",  "L1",   "ZEROS", "NAN", "INF", "" };

/* Which columns of a site have cells: those without are not drawn. */
typedef struct layout {
    bool is_scalar, is_wide;
    bool has_types; /* points differ in type or shape: each has its own */
} layout;

static void add_point(tt_table *table, const tt_point *p, layout how)
{
    const tt_stats *s = &p->stats;
    const double x[] = { s->min,           s->max,          s->mean,
                         tt_stats_std(s),  tt_stats_rms(s), s->l1,
                         (double)s->zeros, (double)s->nan,  (double)(s->posinf + s->neginf) };
    bool is_number = (p->products & TT_PRODUCT_SCALAR) != 0; /* else there may be a digest alone */
    tt_table_cell(table, TT_MOOD_PLAIN, tt_screen_count(p->step));
    tt_table_cell(table, TT_MOOD_FAINT, tt_screen_text("%u", p->call));
    tt_table_cell(table, TT_MOOD_TYPE, how.has_types ? tt_screen_type(p, true) : "");
    tt_table_cell(table, TT_MOOD_PLAIN, how.is_scalar && is_number ? tt_screen_number(p->scalar) : "");
    for (size_t c = MIN; c < REMARK; c++) {
        double value = x[c - MIN];
        bool is_shown = !how.is_scalar && (how.is_wide || c < RMS || c > ZEROS);
        tt_table_cell(table,
                      c < NANS    ? TT_MOOD_PLAIN
                      : value > 0 ? TT_MOOD_ALARM
                                  : TT_MOOD_FAINT,
                      !is_shown || isnan(value) ? "" /* undefined: the deviation of one element */
                      : c >= ZEROS              ? tt_screen_count((int64_t)value)
                                                : tt_screen_number(value));
    }
    tt_table_cell(table, TT_MOOD_REMARK,
                  p->is_skipped               ? "skipped"
                  : p->phase == TT_PHASE_EVAL ? "eval"
                                              : "");
}

/* Adds a row for those that are left out. */
static void add_gap(tt_table *table)
{
    tt_table_cell(table, TT_MOOD_FAINT, tt_terminal.style.is_ascii ? ".." : "…");
    for (size_t c = CALL; c < COLUMNS; c++)
        tt_table_cell(table, TT_MOOD_FAINT, "");
}

static bool has_same_type(const tt_point *a, const tt_point *b)
{
    return a->stats.dtype == b->stats.dtype && a->ndim == b->ndim &&
           (a->ndim <= 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

/* Prints the points that are in the range; they need not be in order. */
static tt_status print_site(tt_run *run, int32_t file, int32_t site, int64_t most, int64_t *printed,
                            tt_error *err)
{
    int64_t points = (int64_t)tt_run_points(run, file, site), wanted = 0, seen = 0;
    tt_point p, latest;
    bool has_types = false;
    tt_status st = tt_run_point(run, file, site, -1, &latest, err);
    for (int64_t i = 0; st == TT_OK && i < points; i++) {
        st = tt_run_point(run, file, site, i, &p, err);
        if (st < 0 || !tt_range_has(&args.steps, p.step))
            continue;
        has_types = has_types || (wanted > 0 && !has_same_type(&p, &latest));
        latest = p;
        wanted++;
    }
    if (st < 0 || wanted == 0)
        return st;
    const int32_t wide = tt_terminal.style.columns, rank = tt_overview_rank(run, file);
    const layout how = { .is_scalar = (latest.products & TT_PRODUCT_STATS) == 0,
                         .is_wide = wide == 0 || wide >= NARROW,
                         .has_types = has_types };
    if (*printed > 0)
        putchar('\n');
    tt_screen_say(TT_MOOD_PLAIN, "%s  ", tt_run_site_name(run, site));
    tt_screen_say(TT_MOOD_TYPE, "%s", has_types ? "types differ" : tt_screen_type(&latest, false));
    if (rank >= 0)
        printf("  rank %d", (int)rank);
    putchar('\n');
    const char *joined = tt_overview_joined(run, site);
    if (joined != NULL)
        tt_screen_say(TT_MOOD_FAINT, "%s\n", joined);
    tt_table_column columns[COLUMNS];
    for (size_t c = 0; c < COLUMNS; c++)
        columns[c] = (tt_table_column){ titles[c], .is_right = c != REMARK };
    tt_table *table = tt_table_create(&tt_terminal.style, columns, COLUMNS);
    bool is_cut = wanted > most;
    for (int64_t i = 0; st == TT_OK && i < points; i++) {
        st = tt_run_point(run, file, site, i, &p, err);
        if (st < 0 || !tt_range_has(&args.steps, p.step))
            continue;
        if (!is_cut || seen < most / 2 || seen >= wanted - (most - most / 2))
            add_point(table, &p, how);
        else if (seen == most / 2)
            add_gap(table);
        seen++;
    }
    st = tt_screen_table(table, st);
    if (st == TT_OK && is_cut)
        printf("... %lld points in the middle left out; --step A:B shows a part%s\n",
               (long long)(wanted - most), most == MOST_ROWS ? ", export --to csv writes all" : "");
    *printed += wanted;
    return st;
}

static tt_status put_json(tt_json *json, tt_run *run, int32_t file, int32_t site, int64_t *printed,
                          tt_error *err)
{
    tt_status st = TT_OK;
    for (int64_t i = 0; st == TT_OK && i < (int64_t)tt_run_points(run, file, site); i++) {
        tt_point p;
        st = tt_run_point(run, file, site, i, &p, err);
        if (st < 0 || !tt_range_has(&args.steps, p.step))
            continue;
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "site", tt_run_site_name(run, site));
        tt_json_i64(json, "rank", tt_overview_whose(run, file));
        tt_json_point(json, NULL, &p);
        tt_json_close(json);
        ++*printed;
    }
    return st;
}

static tt_exit stats(tt_call *call)
{
    tt_run *run = call->runs[0];
    int64_t matched = 0, printed = 0, most = MOST_ROWS;
    for (int32_t site = 0; site < tt_run_site_count(run); site++)
        matched += tt_glob_match(call->glob, tt_run_site_name(run, site));
    if (tt_terminal.rows > 0) {
        most = (tt_terminal.rows - 2) / matched - 3;
        most = most < 4 ? 4 : most;
    }
    tt_json *json = call->is_json ? tt_json_begin_schema("points") : NULL;
    tt_status st = TT_OK;
    const char *left_out = NULL; /* why a site has no points though ranks recorded it */
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++) {
        if (!tt_glob_match(call->glob, tt_run_site_name(run, site)))
            continue;
        for (int32_t file = 0; st == TT_OK && file < tt_run_file_count(run); file++)
            if (tt_run_points(run, file, site) > 0)
                st = json != NULL ? put_json(json, run, file, site, &printed, call->err)
                                  : print_site(run, file, site, most, &printed, call->err);
            else
                left_out = tt_overview_joined(run, site);
    }
    if (json != NULL)
        st = tt_json_end(st);
    if (st == TT_OK && printed == 0 && left_out != NULL)
        return tt_cmd_fail(call->err, TT_EXIT_USAGE, "%s; --rank N shows what a rank has", left_out);
    if (st == TT_OK && printed == 0)
        return tt_cmd_fail(call->err, TT_EXIT_USAGE,
                           "no points in these steps; 'tensortap show' says which steps the run has");
    return tt_cmd_exit(st, call->err);
}

static const tt_option options[] = {
    TT_RANK_OPTION(&args.rank),
    { "step", "A:B", "Steps from A to B, both included", .to = &args.steps, tt_range_parse,
      TT_RANGE_TAKES },
};

const tt_cmd tt_cmd_stats = {
    TT_CMD("stats", "RUN GLOB", "the statistics of sites, step by step"),
    .doc = "Print the statistics of sites, a line for each point.\v"
           "For example: tensortap stats runs/today 'activation/*.attn' --step 100:120",
    TT_OPTIONS(options),
    .json = TT_JSON,
    .least = 2,
    .most = 2,
    .runs = 1,
    .joins = true,
    .missing = "name a run and a site; 'tensortap show RUN' lists the sites",
    .extra = "put the pattern in quotes",
    .run = stats,
};
