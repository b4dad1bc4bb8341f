/* nan.c -- tensortap nan RUN [--allow GLOB]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "output/json.h"
#include "runs/overview.h"
#include "words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    char *allow; /* owned; all of them, with commas */
} args;

static bool is_number(const tt_point *p)
{
    return (p->products & TT_PRODUCT_STATS) == 0;
}

static void add_row(tt_table *table, const char *role, const char *name, const tt_point *p)
{
    const tt_stats *s = &p->stats;
    bool is_origin = strcmp(role, "here") == 0, has_stats = !is_number(p);
    bool is_bare = has_stats && isnan(s->min) && s->count > 0; /* of no finite element */
    tt_table_cell(table, TT_MOOD_FAINT, role);
    tt_table_cell(table, is_origin ? TT_MOOD_ALARM : TT_MOOD_PLAIN, name);
    tt_table_cell(table, TT_MOOD_PLAIN, tt_screen_count(p->step));
    tt_table_cell(table, TT_MOOD_TYPE, tt_screen_type(p, true));
    tt_table_cell(table, TT_MOOD_PLAIN, is_bare ? "" : tt_screen_number(has_stats ? s->min : p->scalar));
    tt_table_cell(table, TT_MOOD_PLAIN, has_stats && !is_bare ? tt_screen_number(s->max) : "");
    tt_table_cell(table, TT_MOOD_PLAIN, has_stats && !is_bare ? tt_screen_number(tt_stats_rms(s)) : "");
    tt_table_cell(table, TT_MOOD_ALARM, has_stats ? tt_screen_nonfinite(s) : "");
}

static tt_status print_feeds(const tt_answer *origin, const tt_nonfinite *n)
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
    tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
    add_row(table, "here", origin->names[0], &n->point);
    for (size_t i = 0; i < origin->feed_count; i++)
        add_row(table, tt_feed_phrase(origin->feeds[i].kind), origin->feeds[i].name,
                &origin->feeds[i].point);
    putchar('\n');
    return tt_screen_table(table, TT_OK);
}

static bool is_damaged(const tt_run *run, const tt_nonfinite *n)
{
    return tt_run_totals(run).damaged_bytes > 0 || n->unread > 0;
}

/* The origin at length: where, since when, what it was computed from. */
static tt_status print_origin(tt_run *run, const tt_answer *origin, const tt_nonfinite *n)
{
    const tt_point *p = &n->point;
    const char *counts = is_number(p) ? tt_screen_number(p->scalar) : tt_screen_nonfinite(&p->stats);
    tt_screen_say(TT_MOOD_ALARM, "%s", *counts != '\0' ? counts : "a value that is not finite");
    fputs(" in ", stdout);
    tt_screen_say(TT_MOOD_ALARM, "%s", origin->names[0]);
    printf(" at step %s", tt_screen_count(p->step));
    if (origin->rank_count > 0)
        printf(", rank %d", (int)origin->ranks[0]);
    puts(p->phase == TT_PHASE_EVAL && p->is_skipped ? ", in eval mode, in a step that was skipped"
         : p->phase == TT_PHASE_EVAL                ? ", in eval mode"
         : p->is_skipped                            ? ", in a step that was skipped"
                                                    : "");
    (void)tt_answer_print_detail(origin, 0);
    if (tt_screen_has_overflowed(p))
        tt_screen_say(TT_MOOD_FAINT,
                      "float16 overflow: values beyond 65504 are Inf; bfloat16 and float32 "
                      "hold larger ones\n");
    tt_screen_say(TT_MOOD_FAINT,
                  "point %s of %s in the step%s; %d of %d sites have been non-finite since\n",
                  tt_screen_count(n->order), tt_screen_count(n->of),
                  p->call > 0 ? tt_screen_text(", call %u of this site", p->call) : "", (int)n->reached,
                  (int)tt_run_shown_count(run, NULL));
    if (n->allowed > 0)
        tt_screen_say(TT_MOOD_FAINT, "%d sites left out by --allow %s\n", (int)n->allowed, args.allow);
    fflush(stdout);
    return print_feeds(origin, n);
}

static tt_status print_text(tt_run *run, const tt_answers *answers, const tt_nonfinite *n)
{
    const tt_answer *origin = n->site >= 0 ? &answers->items[0] : NULL;
    tt_status st = origin != NULL ? print_origin(run, origin, n) : TT_OK;
    for (size_t i = origin != NULL; st == TT_OK && i < answers->count; i++)
        (void)tt_answer_print(&answers->items[i], TT_EXTENT_ALL);
    if (st == TT_OK && origin != NULL) {
        putchar('\n');
        (void)tt_answer_print_next(origin, 0);
    }
    return st;
}

static tt_status print_json(tt_run *run, const tt_answers *answers, const tt_nonfinite *n)
{
    tt_json *json = tt_json_begin_schema(NULL);
    tt_json_bool(json, "found", n->site >= 0);
    tt_json_i64(json, "allowed", n->allowed);
    tt_json_i64(json, "masked", n->masked);
    if (n->masked > 0)
        tt_json_text(json, "masked_example", tt_run_site_name(run, n->masked_site));
    tt_json_i64(json, "damaged_bytes", tt_run_totals(run).damaged_bytes);
    tt_json_i64(json, "unread_points", n->unread);
    if (n->site >= 0) {
        tt_json_text(json, "site", tt_run_site_name(run, n->site));
        tt_json_i64(json, "rank", tt_overview_file(run, n->file).rank);
        tt_json_text(json, "birth", tt_birth_text(n->birth));
        tt_json_i64(json, "order", n->order);
        tt_json_i64(json, "of", n->of);
        tt_json_i64(json, "reached", n->reached);
        tt_json_i64(json, "together", n->together);
        tt_json_bool(json, "float16_overflow", tt_screen_has_overflowed(&n->point));
        tt_json_point(json, "point", &n->point);
        tt_json_open(json, "fed_by", '[');
        for (size_t i = 0; i < answers->items[0].feed_count; i++) {
            const tt_feed *feed = &answers->items[0].feeds[i];
            tt_json_open(json, NULL, '{');
            tt_json_text(json, "role", tt_feed_text(feed->kind));
            tt_json_text(json, "site", feed->name);
            tt_json_point(json, NULL, &feed->point);
            tt_json_close(json);
        }
        tt_json_close(json);
    }
    tt_json_answers(json, answers);
    return tt_json_end(TT_OK);
}

static tt_exit nan_command(tt_call *call)
{
    tt_nonfinite found;
    tt_run *run = call->runs[0];
    if (args.allow != NULL && !tt_overview_has_site(run, args.allow))
        return tt_overview_no_site(run, args.allow, call->err);
    tt_answers answers = { 0 };
    tt_status st = tt_run_nonfinite(run, args.allow, &found, call->err);
    if (st == TT_OK)
        st = tt_nonfinite_answer(run, &found, call->path, &answers, call->err);
    if (st == TT_OK)
        st = call->is_json ? print_json(run, &answers, &found) : print_text(run, &answers, &found);
    tt_answers_free(&answers);
    if (st == TT_OK && found.site < 0 && is_damaged(run, &found))
        return tt_cmd_fail(
            call->err, TT_EXIT_FAILED,
            "the run is damaged, and what cannot be read may hold NaN or Inf; save the rest "
            "with: tensortap check --repair %.150s",
            call->path);
    return st == TT_OK && found.site >= 0 ? TT_EXIT_FOUND : tt_cmd_exit(st, call->err);
}

static const tt_option options[] = {
    { "allow", "GLOB", "Sites that may hold NaN or Inf; may be given again", .to = &args.allow,
      tt_words_join, "a pattern" },
};

const tt_cmd tt_cmd_nan = {
    TT_CMD("nan", "RUN", "where the first NaN or Inf was born"),
    .doc = "Find where the first NaN or Inf of a run was born, and what fed it.  Exit code 1: there is "
           "one.  Masks, which hold only -Inf, do not count.\v"
           "For example: tensortap nan runs/today --allow '*.log_prob'",
    TT_OPTIONS(options),
    .json = TT_JSON,
    TT_CMD_ONE_RUN,
    .run = nan_command,
};
