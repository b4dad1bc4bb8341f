/* explain.c -- tensortap explain RUN [--max-bytes N]
 *
 * The state of a run in as many bytes as somebody has time for: the most important first, and at the end
 * what was left out and how to ask for it.  The same run makes the same text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "runs/overview.h"
#include "words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { USUAL = 4000, LEAST = 400, SITES_NAMED = 4, LOSSES = 3 };

static struct {
    int64_t most; /* bytes */
} args = { .most = USUAL };

static bool read_bytes(const char *text, void *out)
{
    return tt_range_count(text, out) && args.most >= LEAST;
}

/* Lines that fit, and how many did not. */
typedef struct page {
    tt_buf line, out; /* owned; the one that is being written, those that fit */
    size_t room;      /* for lines; the end has its own */
    size_t left_out;
} page;

/* Ends the line. */
static void put(page *p)
{
    tt_buf safe = { 0 };
    (void)tt_text_append(p->line.len > 0 ? p->line.data : "",
                         &(tt_style){ .is_ascii = tt_terminal.style.is_ascii }, &safe);
    if (p->left_out == 0 && p->out.len + safe.len + 1 <= p->room) {
        (void)tt_buf_append(&p->out, safe.data, safe.len);
        (void)tt_buf_text(&p->out, "\n");
    } else {
        p->left_out++;
    }
    tt_buf_free(&safe);
    tt_buf_clear(&p->line);
}

static void put_run(page *p, const tt_call *call, const tt_findings *findings)
{
    tt_run *run = call->runs[0];
    const tt_totals totals = tt_run_totals(run);
    (void)tt_buf_printf(&p->line, "%s: %s", call->path, tt_state_text(tt_run_state(run)));
    if (totals.last_step >= totals.first_step)
        (void)tt_buf_printf(&p->line, ", steps %" PRId64 " to %" PRId64, totals.first_step,
                            totals.last_step);
    (void)tt_buf_printf(&p->line, ", %d sites, %" PRId64 " points", (int)tt_run_shown_count(run, NULL),
                        totals.points);
    if (tt_overview_rank_count(run) > 1)
        (void)tt_buf_printf(&p->line, ", %s", tt_overview_ranks(run));
    put(p);
    (void)tt_buf_printf(&p->line, "verdict: %s", findings->verdict);
    if (findings->count > 0 || findings->is_healthy)
        (void)tt_buf_printf(&p->line, " (%d rules)",
                            (int)findings->rules - (int)findings->unchecked_count);
    put(p);
}

static void put_next(page *p, const tt_answer *answer)
{
    for (size_t i = 0; i < answer->next_count; i++) {
        (void)tt_buf_printf(&p->line, "   next: %s", answer->next[i]);
        put(p);
    }
}

static void put_finding(page *p, size_t number, const tt_answer *found)
{
    (void)tt_buf_printf(&p->line, "%zu. %s %s: ", number, tt_severity_text(found->severity), found->rule);
    if (found->rank_count == 1)
        (void)tt_buf_printf(&p->line, "rank %d: ", (int)found->ranks[0]);
    (void)tt_buf_printf(&p->line, "%s%s", found->sentence,
                        found->likelihood == TT_LIKELIHOOD_LIKELY ? " (likely)" : "");
    put(p);
    (void)tt_buf_text(&p->line, "   evidence:");
    for (size_t i = 0; i < found->number_count; i++)
        (void)tt_buf_printf(&p->line, "%s %s %s", i > 0 ? "," : "", found->numbers[i].name,
                            tt_screen_number(found->numbers[i].value));
    if (found->last_step >= 0)
        (void)tt_buf_printf(&p->line, "; steps %" PRId64 " to %" PRId64,
                            found->first_step < 0 ? 0 : found->first_step, found->last_step);
    for (size_t i = 0; i < found->site_count && i < SITES_NAMED; i++)
        (void)tt_buf_printf(&p->line, "%s%s", i > 0 ? ", " : "; ", found->names[i]);
    if (found->site_count > SITES_NAMED)
        (void)tt_buf_printf(&p->line, " and %zu more", found->site_count - SITES_NAMED);
    put(p);
    if (found->code != NULL) {
        (void)tt_buf_printf(&p->line, "   code: %s", found->code);
        put(p);
    }
    if (found->follow_count > 0) {
        (void)tt_buf_printf(&p->line, "   and %zu that follow%s from it: %s", found->follow_count,
                            found->follow_count == 1 ? "s" : "", found->follows);
        put(p);
    }
    (void)tt_buf_printf(&p->line, "   what to do: %s", found->remedy);
    put(p);
    put_next(p, found);
}

/* The fate of the run, or the rest. */
static void put_notes(page *p, const tt_answers *notes, bool is_fate)
{
    for (size_t i = 0; i < notes->count; i++) {
        const tt_answer *note = &notes->items[i];
        if ((note->kind == TT_ANSWER_FAULT) != is_fate || note->severity == TT_SEVERITY_FINE)
            continue;
        (void)tt_buf_text(&p->line, note->sentence);
        put(p);
        for (const char *at = note->detail; at != NULL && *at != '\0';) {
            size_t len = strcspn(at, "\n");
            (void)tt_buf_printf(&p->line, "   %.*s", (int)len, at);
            put(p);
            at += len + (at[len] != '\0');
        }
        put_next(p, note);
    }
}

/* A number, or the mean of a tensor: NaN or Inf if it holds any. */
static double value_of(const tt_point *point)
{
    const tt_stats *stats = &point->stats;
    if ((point->products & TT_PRODUCT_STATS) == 0)
        return point->scalar;
    return stats->nan > 0 ? NAN : stats->posinf + stats->neginf > 0 ? HUGE_VAL : stats->mean;
}

/* The first and the latest value of each loss and learning rate. */
static void put_numbers(page *p, tt_run *run)
{
    int shown = 0;
    for (int32_t site = 0; site < tt_run_site_count(run) && shown < LOSSES; site++) {
        const char *name = tt_run_site_name(run, site);
        tt_point first, latest;
        if (!tt_glob_match("loss/*,loss,train_loss,train/loss,learning_rate*,gradient_norm*", name) ||
            tt_run_points(run, 0, site) == 0 || tt_run_point(run, 0, site, 0, &first, NULL) < 0 ||
            tt_run_point(run, 0, site, -1, &latest, NULL) < 0)
            continue;
        (void)tt_buf_printf(&p->line, "%s: %s at step %" PRId64 ", %s at step %" PRId64, name,
                            tt_screen_number(value_of(&first)), first.step,
                            tt_screen_number(value_of(&latest)), latest.step);
        put(p);
        shown++;
    }
}

static tt_exit explain(tt_call *call)
{
    tt_findings *findings = NULL; /* owned */
    page p = { .room = (size_t)args.most - LEAST / 2 };
    tt_run *joined = tt_overview_join(call->runs[0]); /* owned */
    tt_run *whole = joined != NULL ? joined : call->runs[0];
    tt_status st = tt_health(whole, &(tt_health_options){ .path = call->path }, &findings, call->err);
    if (st < 0) {
        tt_run_close(joined);
        return tt_cmd_exit(st, call->err);
    }
    put_run(&p, call, findings);
    put_notes(&p, &findings->notes, true);
    for (size_t i = 0; i < findings->count; i++)
        put_finding(&p, i + 1, &findings->items[i]);
    put_numbers(&p, whole);
    tt_run_close(joined);
    put_notes(&p, &findings->notes, false);
    if (p.out.len > 0)
        (void)fwrite(p.out.data, 1, p.out.len, stdout);
    if (p.left_out > 0)
        printf("left out: %zu lines; --max-bytes %" PRId64 " shows more\n", p.left_out, args.most * 2);
    puts("more: tensortap health, show, nan; stats RUN SITE --step A:B for numbers");
    st = p.out.st;
    tt_buf_free(&p.line);
    tt_buf_free(&p.out);
    tt_findings_free(findings);
    return tt_cmd_exit(st, call->err);
}

static const tt_option options[] = {
    { "max-bytes", "N", "At most so many bytes (4000)", .to = &args.most, read_bytes,
      "a number of bytes from 400 on" },
};

const tt_cmd tt_cmd_explain = {
    TT_CMD("explain", "RUN", "the state of a run in a few lines"),
    .doc =
        "Print the state of a run in a few lines, the most important first: the verdict, the evidence, "
        "what was left out and how to ask for it.\v"
        "For example: tensortap explain runs/today --max-bytes 1000",
    TT_OPTIONS(options),
    TT_CMD_ONE_RUN,
    .run = explain,
};
