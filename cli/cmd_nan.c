/* cmd_nan.c -- tensortap nan RUN [--allow GLOB]
 * SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"
#include "overview.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEEDS_MOST = 12 };

static struct {
    char *allow; /* owned; all of them, with commas */
    bool is_json;
} args;

static bool read_allow(const char *text, void *to)
{
    char **allow = to, *joined = NULL;
    if (asprintf(&joined, "%s%s%s", *allow != NULL ? *allow : "", *allow != NULL ? "," : "", text) < 0)
        return false;
    free(*allow);
    *allow = joined;
    return true;
}

static const char *const birth_words[] = { "forward", "update", "backward", "loss" };
static const char *const feed_words[] = { "before", "parameter", "previous" };

/* Where it came from, as far as it was recorded. */
static void print_birth(tt_run *run, const tt_nonfinite *n)
{
    const char *outputs = n->has_forward ? "recorded module outputs were finite"
                                         : "no module output was recorded in this step";
    char text[TT_NUMBER_TEXT];
    tt_point last;
    switch (n->birth) {
    case TT_BIRTH_FORWARD:
        if ((n->point.products & TT_PRODUCT_STATS) == 0)
            fputs("a number that was logged; every tensor recorded before it was finite", stdout);
        else if (n->order == 1)
            fputs("born in the forward pass; nothing was recorded before it in this step", stdout);
        else
            fputs("born in the forward pass; everything recorded before it was finite", stdout);
        break;
    case TT_BIRTH_UPDATE:
        if (n->index == 0 || tt_run_point(run, n->file, n->site, n->index - 1, &last, NULL) < 0)
            fputs("born before the first step that was recorded", stdout);
        else if (last.step == n->point.step - 1)
            fputs("born by the optimizer's update of the step before", stdout);
        else
            printf("born by an update after step %s", tt_screen_count(last.step, text));
        break;
    case TT_BIRTH_LOSS:
        fputs("born in the loss (backward() at ", stdout);
        tt_screen_name(tt_run_site_name(run, n->site) + strlen("loss/"));
        printf("); %s", outputs);
        break;
    case TT_BIRTH_BACKWARD:
        fputs(n->has_loss ? "born in the backward pass; the loss was finite; "
                          : "born in the backward pass, or in a loss that was not seen; ",
              stdout);
        fputs(outputs, stdout);
        break;
    }
}

/* What would show more than this run does; NULL: nothing that we know. */
static const char *next_look(const tt_nonfinite *n)
{
    if (n->birth == TT_BIRTH_LOSS)
        return "look next at the lines that compute the loss: tensortap.flow draws them";
    if (n->birth == TT_BIRTH_BACKWARD && !n->has_backward)
        return "look next at the gradients of outputs: tensortap run --grads all --on-nonfinite raise";
    if (n->birth == TT_BIRTH_FORWARD && n->order == 1 && (n->point.products & TT_PRODUCT_STATS) != 0)
        return "look next at the inputs of modules: tensortap run --inputs --on-nonfinite raise";
    return NULL;
}

static void add_row(tt_table *table, const char *role, const char *name, const tt_point *p)
{
    bool is_origin = strcmp(role, "here") == 0;
    char step[TT_NUMBER_TEXT], type[200], low[TT_NUMBER_TEXT] = "", high[TT_NUMBER_TEXT] = "",
                                          rms[TT_NUMBER_TEXT] = "", counts[128] = "";
    if ((p->products & TT_PRODUCT_STATS) != 0) {
        if (isnan(p->stats.min) && p->stats.count > 0) {
            strcpy(low, "none");
            strcpy(high, "finite");
        } else {
            (void)tt_number_short(p->stats.min, low);
            (void)tt_number_short(p->stats.max, high);
            (void)tt_number_short(tt_stats_rms(&p->stats), rms);
        }
        (void)tt_screen_nonfinite(&p->stats, counts, sizeof counts);
    } else {
        (void)tt_number_short(p->scalar, low);
    }
    tt_table_cell(table, TT_MOOD_FAINT, role);
    tt_table_cell(table, is_origin ? TT_MOOD_ALARM : TT_MOOD_PLAIN, name);
    tt_table_cell(table, TT_MOOD_PLAIN, tt_screen_count(p->step, step));
    tt_table_cell(table, TT_MOOD_TYPE, tt_screen_type(p, true, type, sizeof type));
    tt_table_cell(table, TT_MOOD_PLAIN, low);
    tt_table_cell(table, TT_MOOD_PLAIN, high);
    tt_table_cell(table, TT_MOOD_PLAIN, rms);
    tt_table_cell(table, TT_MOOD_ALARM, counts);
}

static tt_status print_feeds(tt_run *run, const tt_nonfinite *n, tt_error *err)
{
    static const tt_table_column columns[] = {
        { .title = "" },
        { "SITE", .least = -16 },
        { "STEP", .is_right = true, .optional = 2 },
        { "TYPE", .least = 5 },
        { "MIN", .is_right = true },
        { "MAX", .is_right = true },
        { "RMS", .is_right = true, .optional = 1 },
        { .title = "" },
    };
    static const char *const roles[] = { "fed by", "parameter", "last time" };
    tt_feed feeds[FEEDS_MOST];
    size_t count = 0;
    tt_status st = tt_run_feeds(run, n, feeds, FEEDS_MOST, &count, err);
    tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
    add_row(table, "here", tt_run_site_name(run, n->site), &n->point);
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        tt_point p;
        st = tt_run_point(run, n->file, feeds[i].site, feeds[i].index, &p, err);
        if (st == TT_OK)
            add_row(table, roles[feeds[i].kind], tt_run_site_name(run, feeds[i].site), &p);
    }
    putchar('\n');
    return tt_screen_table(table, true, st);
}

static tt_status print_text(tt_run *run, const tt_nonfinite *n, tt_error *err)
{
    char counts[128], a[TT_NUMBER_TEXT], b[TT_NUMBER_TEXT];
    if (tt_run_shown_count(run, NULL) == 0) {
        puts("nothing has been recorded in this run");
        return TT_OK;
    }
    if (n->site < 0) {
        tt_totals totals;
        tt_overview_totals(run, &totals);
        printf("all values of %s sites in %s steps are finite",
               tt_screen_count(tt_run_shown_count(run, NULL) - n->allowed, a),
               tt_screen_count(tt_overview_steps(&totals), b));
        if (n->allowed > 0)
            printf("; %d sites were left out by --allow", (int)n->allowed);
        putchar('\n');
        return TT_OK;
    }
    const tt_point *p = &n->point;
    if ((p->products & TT_PRODUCT_STATS) != 0)
        (void)tt_screen_nonfinite(&p->stats, counts, sizeof counts);
    else
        (void)tt_number_short(p->scalar, counts);
    tt_screen_say(TT_MOOD_ALARM, "%s", *counts != '\0' ? counts : "a value that is not finite");
    printf(" in %s", tt_screen_ink(TT_MOOD_ALARM));
    tt_screen_name(tt_run_site_name(run, n->site));
    printf("%s at step %s", tt_screen_ink(TT_MOOD_PLAIN), tt_screen_count(p->step, a));
    if (tt_overview_rank(run, n->file) >= 0)
        printf(", rank %d", (int)tt_overview_rank(run, n->file));
    if (p->phase == TT_PHASE_EVAL)
        fputs(", in eval mode", stdout);
    if (p->is_skipped)
        fputs(", in a step that was skipped", stdout);
    const char *faint = tt_screen_ink(TT_MOOD_FAINT), *plain = tt_screen_ink(TT_MOOD_PLAIN);
    printf("\n%s", faint);
    print_birth(run, n);
    printf("%s\n", plain);
    if (next_look(n) != NULL)
        printf("%s%s%s\n", faint, next_look(n), plain);
    if ((p->products & TT_PRODUCT_STATS) != 0 && tt_screen_has_overflowed(&p->stats))
        printf("%sfloat16 overflow: values beyond 65504 are Inf; bfloat16 and float32 hold larger "
               "ones%s\n",
               faint, plain);
    printf("%spoint %s of %s in the step", faint, tt_screen_count(n->order, a),
           tt_screen_count(n->of, b));
    if (p->call > 0)
        printf(", call %u of this site", p->call);
    printf("; %d of %d sites have been non-finite since%s\n", (int)n->reached,
           (int)tt_run_shown_count(run, NULL), plain);
    if (n->allowed > 0)
        printf("%s%d sites left out by --allow %s%s\n", faint, (int)n->allowed, args.allow, plain);
    fflush(stdout);
    return print_feeds(run, n, err);
}

static tt_status print_json(tt_run *run, const tt_nonfinite *n, tt_error *err)
{
    tt_json_out out;
    tt_json *json = tt_json_begin(&out, '{');
    tt_feed feeds[FEEDS_MOST];
    size_t count = 0;
    tt_status st = tt_run_feeds(run, n, feeds, FEEDS_MOST, &count, err);
    tt_json_bool(json, "found", n->site >= 0);
    tt_json_i64(json, "allowed", n->allowed);
    if (n->site >= 0) {
        tt_run_file about = { 0 };
        (void)tt_run_file_get(run, n->file, &about);
        tt_json_text(json, "site", tt_run_site_name(run, n->site));
        tt_json_i64(json, "rank", about.rank);
        tt_json_text(json, "birth", birth_words[n->birth]);
        tt_json_i64(json, "order", n->order);
        tt_json_i64(json, "of", n->of);
        tt_json_i64(json, "reached", n->reached);
        tt_json_bool(json, "float16_overflow",
                     (n->point.products & TT_PRODUCT_STATS) != 0 &&
                         tt_screen_has_overflowed(&n->point.stats));
        tt_json_point(json, "point", &n->point);
        tt_json_open(json, "fed_by", '[');
        for (size_t i = 0; st == TT_OK && i < count; i++) {
            tt_point p;
            st = tt_run_point(run, n->file, feeds[i].site, feeds[i].index, &p, err);
            if (st < 0)
                break;
            tt_json_open(json, NULL, '{');
            tt_json_text(json, "role", feed_words[feeds[i].kind]);
            tt_json_text(json, "site", tt_run_site_name(run, feeds[i].site));
            tt_json_point(json, NULL, &p);
            tt_json_close(json);
        }
    }
    return tt_json_print(&out, st);
}

static tt_exit nan_command(tt_call *call)
{
    tt_nonfinite found;
    tt_run *run = call->runs[0];
    if (args.allow != NULL && !tt_overview_has_site(run, args.allow))
        return tt_overview_no_site(run, args.allow, call->err);
    tt_status st = tt_run_nonfinite(run, args.allow, &found, call->err);
    if (st == TT_OK)
        st = args.is_json ? print_json(run, &found, call->err) : print_text(run, &found, call->err);
    return st == TT_OK && found.site >= 0 ? TT_EXIT_FOUND : tt_cmd_exit(st, call->err);
}

const tt_cmd tt_cmd_nan = {
    .name = "nan",
    .args = "RUN",
    .summary = "where the first NaN or Inf was born",
    .doc = "Find where the first NaN or Inf of a run was born, and what fed it.  Exit code 1: there is "
           "one.\v"
           "For example: tensortap nan runs/today --allow '*.mask'",
    .options = (const tt_option[]){ { "allow", "GLOB",
                                      "Sites that may hold NaN or Inf, such as attention masks; may be "
                                      "given again",
                                      .to = &args.allow, read_allow, "a pattern" },
                                    { "json", NULL, "Print JSON", .to = &args.is_json },
                                    { 0 } },
    TT_CMD_ONE_RUN,
    .run = nan_command,
};
