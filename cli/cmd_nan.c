/* cmd_nan.c -- tensortap nan RUN [--allow GLOB]
 * SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "header.h"
#include "json_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOW = 256, FEEDS_MOST = 12 };

typedef struct arguments {
    tt_arguments shared;
    char *allow; /* owned; all of them, with commas */
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case ALLOW: {
        char *joined = NULL;
        if (asprintf(&joined, "%s%s%s", args->allow != NULL ? args->allow : "",
                     args->allow != NULL ? "," : "", arg) < 0)
            return ENOMEM;
        free(args->allow);
        args->allow = joined;
        return 0;
    }
    default:
        return tt_arguments_parse(&args->shared, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "allow", ALLOW, "GLOB", 0,
      "Sites that may hold NaN or Inf, such as attention masks; may be given again", 0 },
    { "json", TT_ARGUMENTS_JSON, NULL, 0, "Print JSON", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN",
    .doc = "Find where the first NaN or Inf of a run was born, and what fed it.  Exit code 1: there is "
           "one.\v"
           "For example: tensortap nan runs/today --allow '*.mask'",
};

static const char *const birth_words[] = { "forward", "update", "backward", "loss" };
static const char *const feed_words[] = { "before", "parameter", "previous" };

/* Where it came from, as far as it was recorded. */
static void print_birth(tt_run *run, const tt_nonfinite *n, const tt_screen *screen)
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
            fputs("born in the forward pass; nothing was recorded before it", stdout);
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
        tt_screen_name(screen, tt_run_site_name(run, n->site) + strlen("loss/"));
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
        return "look next at what modules are given: tensortap run --inputs --on-nonfinite raise";
    return NULL;
}

static tt_status add_row(tt_table *table, const char *role, const char *name, const tt_point *p)
{
    bool is_origin = strcmp(role, "here") == 0;
    char step[TT_NUMBER_TEXT], type[200], low[TT_NUMBER_TEXT] = "", high[TT_NUMBER_TEXT] = "",
                                          std[TT_NUMBER_TEXT] = "", counts[128] = "";
    bool has_stats = (p->products & TT_PRODUCT_STATS) != 0;
    if (has_stats) {
        (void)tt_number_short(p->stats.min, low);
        (void)tt_number_short(p->stats.max, high);
        (void)tt_number_short(tt_stats_rms(&p->stats), std);
        (void)tt_screen_nonfinite(&p->stats, counts, sizeof counts);
    } else {
        (void)tt_number_short(p->scalar, low);
    }
    const char *cells[] = { role,
                            name,
                            tt_screen_count(p->step, step),
                            tt_screen_type(p, true, type, sizeof type),
                            low,
                            high,
                            std,
                            counts };
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < sizeof cells / sizeof *cells; i++)
        st = tt_table_cell(table,
                           i == 0                            ? TT_MOOD_FAINT
                           : i == 3                          ? TT_MOOD_TYPE
                           : i == 7 || (is_origin && i == 1) ? TT_MOOD_ALARM
                                                             : TT_MOOD_PLAIN,
                           cells[i]);
    return st;
}

static tt_status print_feeds(tt_run *run, const tt_nonfinite *n, const tt_screen *screen, tt_error *err)
{
    static const struct {
        const char *title;
        bool is_right;
        int32_t least;
        uint32_t turn; /* tt_table_optional */
    } columns[] = { { "", false, 0, 0 },     { "SITE", false, -16, 0 }, { "STEP", true, 0, 2 },
                    { "TYPE", false, 5, 0 }, { "MIN", true, 0, 0 },     { "MAX", true, 0, 0 },
                    { "RMS", true, 0, 1 },   { "", false, 0, 0 } };
    static const char *const roles[] = { "fed by", "parameter", "last time" };
    tt_feed feeds[FEEDS_MOST];
    size_t count = 0;
    tt_table *table = NULL;
    tt_buf text = { 0 };
    tt_status st = tt_run_feeds(run, n, feeds, FEEDS_MOST, &count, err);
    if (st == TT_OK)
        st = tt_table_create(&screen->style, &table);
    for (size_t c = 0; st == TT_OK && c < sizeof columns / sizeof *columns; c++) {
        st = tt_table_column(table, columns[c].title, columns[c].is_right, columns[c].least);
        if (st == TT_OK && columns[c].turn > 0)
            tt_table_optional(table, columns[c].turn);
    }
    if (st == TT_OK)
        st = add_row(table, "here", tt_run_site_name(run, n->site), &n->point);
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        tt_point p;
        st = tt_run_point(run, n->file, feeds[i].site, feeds[i].index, &p, err);
        if (st == TT_OK)
            st = add_row(table, roles[feeds[i].kind], tt_run_site_name(run, feeds[i].site), &p);
    }
    if (st == TT_OK)
        st = tt_table_render(table, true, &text);
    tt_table_free(table);
    putchar('\n');
    return tt_screen_print(&text, st, err);
}

static tt_status print_text(tt_run *run, const tt_nonfinite *n, const arguments *args,
                            const tt_screen *screen, tt_error *err)
{
    const char *alarm = tt_header_ink(screen, TT_MOOD_ALARM),
               *plain = tt_header_ink(screen, TT_MOOD_PLAIN),
               *faint = tt_header_ink(screen, TT_MOOD_FAINT);
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
    printf("%s%s%s in %s", alarm, *counts != '\0' ? counts : "a value that is not finite", plain, alarm);
    tt_screen_name(screen, tt_run_site_name(run, n->site));
    printf("%s at step %s", plain, tt_screen_count(p->step, a));
    tt_run_file about;
    if (tt_opened_rank_count(run) > 1 && tt_run_file_get(run, n->file, &about) == TT_OK)
        printf(", rank %d", (int)about.rank);
    if (p->phase == TT_PHASE_EVAL)
        fputs(", in eval mode", stdout);
    if (p->is_skipped)
        fputs(", in a step that was skipped", stdout);
    putchar('\n');
    fputs(faint, stdout);
    print_birth(run, n, screen);
    printf("%s\n", plain);
    if (next_look(n) != NULL)
        printf("%s%s%s\n", faint, next_look(n), plain);
    if ((p->products & TT_PRODUCT_STATS) != 0 && tt_screen_has_overflowed(&p->stats))
        printf(
            "%sfloat16 overflow: values beyond 65504 are Inf; bfloat16 and float32 hold larger ones%s\n",
            faint, plain);
    printf("%spoint %s of %s in the step", faint, tt_screen_count(n->order, a),
           tt_screen_count(n->of, b));
    if (p->call > 0)
        printf(", call %u of this site", p->call);
    printf("; %d of %d sites have been non-finite since%s\n", (int)n->reached,
           (int)tt_run_shown_count(run, NULL), plain);
    if (n->allowed > 0)
        printf("%s%d sites left out by --allow %s%s\n", faint, (int)n->allowed, args->allow, plain);
    fflush(stdout);
    return print_feeds(run, n, screen, err);
}

static tt_status print_json(tt_run *run, const tt_nonfinite *n, tt_error *err)
{
    tt_json_out json = { 0 };
    tt_feed feeds[FEEDS_MOST];
    size_t count = 0;
    tt_status st = tt_run_feeds(run, n, feeds, FEEDS_MOST, &count, err);
    tt_json_open(&json, NULL, '{');
    tt_json_flag(&json, "found", n->site >= 0);
    tt_json_whole(&json, "allowed", n->allowed);
    if (n->site >= 0) {
        tt_run_file about = { 0 };
        (void)tt_run_file_get(run, n->file, &about);
        tt_json_words(&json, "site", tt_run_site_name(run, n->site));
        tt_json_whole(&json, "rank", about.rank);
        tt_json_words(&json, "birth", birth_words[n->birth]);
        tt_json_whole(&json, "order", n->order);
        tt_json_whole(&json, "of", n->of);
        tt_json_whole(&json, "reached", n->reached);
        tt_json_flag(&json, "float16_overflow",
                     (n->point.products & TT_PRODUCT_STATS) != 0 &&
                         tt_screen_has_overflowed(&n->point.stats));
        tt_json_open(&json, "point", '{');
        tt_json_point(&json, &n->point);
        tt_json_close(&json, '}');
        tt_json_open(&json, "fed_by", '[');
        for (size_t i = 0; st == TT_OK && i < count; i++) {
            tt_point p;
            st = tt_run_point(run, n->file, feeds[i].site, feeds[i].index, &p, err);
            if (st < 0)
                break;
            tt_json_open(&json, NULL, '{');
            tt_json_words(&json, "role", feed_words[feeds[i].kind]);
            tt_json_words(&json, "site", tt_run_site_name(run, feeds[i].site));
            tt_json_point(&json, &p);
            tt_json_close(&json, '}');
        }
        tt_json_close(&json, ']');
    }
    tt_json_close(&json, '}');
    return st;
}

tt_exit tt_cmd_nan(int argc, char **argv, tt_error *err)
{
    arguments args = { .shared = { .least = 1, .most = 1 } };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    tt_run *run = NULL;
    tt_nonfinite found;
    tt_exit code = tt_overview_open(args.shared.run, &run, err);
    if (code != TT_EXIT_FINE)
        goto out;
    if (args.allow != NULL && !tt_overview_has_site(run, args.allow)) {
        code = tt_overview_no_site(run, args.allow, err);
        goto out;
    }
    tt_status st = tt_run_nonfinite(run, args.allow, &found, err);
    if (st == TT_OK)
        st = args.shared.is_json ? print_json(run, &found, err)
                                 : print_text(run, &found, &args, &screen, err);
    code = st < 0 ? TT_EXIT_FAILED : found.site >= 0 ? TT_EXIT_FOUND : TT_EXIT_FINE;
out:
    tt_run_close(run);
    free(args.allow);
    return code;
}
