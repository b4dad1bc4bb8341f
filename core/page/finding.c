/* finding.c -- what is wrong with a run, in sentences.
 *
 * Exists so that the page answers before it shows pictures.  What counts as wrong is decided by
 * core/health and, for two runs, by tt_diff_compute, as for the commands.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTE, FINE, REMARK, ALARM, FEEDS_MOST = 12, SITES_MOST = 40, TEXT_MOST = 600 };

typedef struct writer {
    tt_json *json;
    const tt_page_run *page;
    int32_t number;      /* of the run */
    tt_histories **seen; /* of its rules */
    tt_error *err;
} writer;

tt_status tt_page_point_line(const tt_point *p, tt_buf *out)
{
    if ((p->products & TT_PRODUCT_STATS) == 0) {
        char number[TT_NUMBER_TEXT];
        (void)tt_number_short(p->scalar, number);
        return tt_buf_text(out, number);
    }
    const tt_facts facts = { .dtype = tt_dtype_name((tt_dtype)p->stats.dtype),
                             .shape = p->ndim >= 0 ? p->shape : NULL,
                             .ndim = p->ndim,
                             .stats = &p->stats };
    return tt_facts_line(&facts, &(tt_style){ 0 }, out);
}

/* Opens a finding and the list of its details. */
static void open_finding(const writer *w, int weight, int32_t site, int64_t step, const char *text)
{
    tt_json_open(w->json, NULL, '{');
    tt_json_i64(w->json, "weight", weight);
    tt_json_text(w->json, "text", text);
    tt_json_i64(w->json, "run", w->number);
    tt_json_i64(w->json, "site", site);
    tt_json_i64(w->json, "step", step);
    tt_json_open(w->json, "detail", '[');
}

/* detail: NULL: none. */
static void put_plain(const writer *w, int weight, const char *detail, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void put_plain(const writer *w, int weight, const char *detail, const char *format, ...)
{
    char text[TEXT_MOST];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    open_finding(w, weight, -1, -1, text);
    if (detail != NULL)
        tt_json_text(w->json, NULL, detail);
    tt_json_close(w->json);
    tt_json_close(w->json);
}

/* ---- the rules of health ------------------------------------------------------- */

static tt_status put_feeds(const writer *w, const tt_nonfinite *n)
{
    tt_run *run = w->page->run;
    tt_feed feeds[FEEDS_MOST];
    size_t count = 0;
    tt_status st = tt_run_feeds(run, n, feeds, FEEDS_MOST, &count, w->err);
    tt_json_open(w->json, "fed_by", '[');
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        tt_point p;
        tt_buf line = { 0 };
        st = tt_run_point(run, n->file, feeds[i].site, feeds[i].index, &p, w->err);
        if (st == TT_OK)
            st = tt_page_point_line(&p, &line);
        if (st == TT_OK) {
            tt_json_open(w->json, NULL, '[');
            tt_json_text(w->json, NULL, tt_feed_phrase(feeds[i].kind));
            tt_json_i64(w->json, NULL, feeds[i].site);
            tt_json_i64(w->json, NULL, p.step);
            tt_json_text(w->json, NULL, line.data);
            tt_json_close(w->json);
        }
        tt_buf_free(&line);
    }
    tt_json_close(w->json);
    return st == TT_EFORMAT ? TT_OK : st; /* a damaged file: what can be read is there */
}

/* Where the first NaN or Inf came from and where to look next, as `tensortap nan` says it. */
static tt_status put_birth(const writer *w, const tt_nonfinite *n)
{
    tt_buf line = { 0 };
    tt_status st = tt_run_birth_line(w->page->run, n, &line);
    if (st == TT_OK)
        tt_json_text(w->json, NULL, line.data);
    if (st == TT_OK && tt_nonfinite_next(n) != NULL)
        tt_json_text(w->json, NULL, tt_nonfinite_next(n));
    tt_buf_free(&line);
    return st;
}

/* The finding of a rule, with what to do; for the first NaN or Inf with what it was computed from. */
static tt_status put_rule(const writer *w, const tt_finding *found, const tt_nonfinite *first)
{
    int32_t site = found->site_count > 0 ? found->sites[0] : -1;
    bool is_first = first->site >= 0 && strcmp(found->rule->id, "nonfinite") == 0;
    tt_status st = TT_OK;
    open_finding(w, found->severity == TT_SEVERITY_ERROR ? ALARM : REMARK, site, found->first_step,
                 found->sentence);
    is_first &= first->site == site;
    if (is_first)
        st = put_birth(w, first);
    else
        tt_json_text(w->json, NULL, found->remedy);
    tt_json_close(w->json);
    tt_json_text(w->json, "rule", found->rule->id);
    if (st == TT_OK && is_first)
        st = put_feeds(w, first);
    tt_json_open(w->json, "sites", '[');
    for (size_t i = 0; i < found->site_count && i < SITES_MOST; i++)
        tt_json_i64(w->json, NULL, found->sites[i]);
    tt_json_close(w->json);
    tt_json_i64(w->json, "count", (int64_t)found->site_count);
    tt_json_close(w->json);
    return st;
}

/* What rules did not look at, and why. */
static void put_unchecked(const writer *w, const tt_findings *findings)
{
    if (findings->unchecked_count == 0)
        return;
    char text[TEXT_MOST];
    (void)snprintf(text, sizeof text, "Not checked: %zu of %d rules, because the run lacks their data.",
                   findings->unchecked_count, (int)findings->rules);
    open_finding(w, NOTE, -1, -1, text);
    for (size_t i = 0; i < findings->unchecked_count; i++) {
        if (!tt_findings_is_first_reason(findings, i))
            continue;
        tt_buf line = { 0 };
        (void)tt_findings_list_unchecked(findings, i, &line);
        tt_json_text(w->json, NULL, line.data != NULL ? line.data : "");
        tt_buf_free(&line);
    }
    tt_json_close(w->json);
    tt_json_close(w->json);
}

static tt_status put_health(const writer *w)
{
    tt_run *run = w->page->run;
    tt_findings *findings = NULL; /* owned */
    tt_nonfinite first = { .site = -1 };
    int32_t shown = tt_run_shown_count(run, NULL);
    tt_status st = tt_health(run, &(tt_health_options){ .seen = w->seen }, &findings, w->err);
    if (st == TT_OK)
        st = tt_run_nonfinite(run, NULL, &first, w->err);
    for (size_t i = 0; st == TT_OK && i < findings->count; i++)
        st = put_rule(w, &findings->items[i], &first);
    if (st == TT_OK && findings->count == 0 && !findings->is_healthy)
        put_plain(w, NOTE, NULL, "%c%.500s.", toupper((unsigned char)*findings->verdict),
                  findings->verdict + 1);
    shown -= first.masked;
    if (st == TT_OK && first.site < 0)
        put_plain(w, FINE, findings->left_out, "%sAll values of %d site%s are finite.",
                  findings->is_healthy ? "No rule found anything wrong.  " : "", (int)shown,
                  shown == 1 ? "" : "s");
    if (st == TT_OK)
        put_unchecked(w, findings);
    tt_findings_free(findings);
    return st == TT_EFORMAT ? TT_OK : st; /* damaged: another finding says so */
}

/* ---- the run itself --------------------------------------------------------------- */

static bool is_any(const char *path)
{
    (void)path;
    return true;
}

static void put_state(const writer *w)
{
    const tt_totals totals = tt_run_totals(w->page->run);
    const char *stopped = totals.stopped;
    bool is_live = w->page->state != NULL && strcmp(w->page->state, "live") == 0;
    tt_buf ending = { 0 };
    (void)tt_run_ending(w->page->run, is_live ? is_any : NULL, &ending);
    if (ending.len > 0) {
        for (char *rest = NULL, *line = strtok_r(ending.data, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest))
            put_plain(w, line == ending.data && stopped != NULL ? ALARM : REMARK, NULL, "%c%.500s.",
                      toupper((unsigned char)*line), line + 1);
    } else if (stopped != NULL)
        put_plain(w, ALARM, NULL, "The program was %.500s", stopped);
    else if (w->page->state != NULL && strcmp(w->page->state, "crashed") == 0)
        put_plain(w, REMARK, "At most the last half second is missing.",
                  "The program ended without closing the run: it was killed, or it crashed.");
    tt_buf_free(&ending);
    if (totals.damaged_bytes > 0)
        put_plain(w, REMARK, "tensortap check --repair copies what can be read.",
                  "%" PRId64 " bytes of the run are damaged and left out.", totals.damaged_bytes);
    if (totals.dropped_events > 0)
        put_plain(w, REMARK, NULL, "%" PRId64 " events were dropped while recording.",
                  totals.dropped_events);
}

/* The step that can be run again. */
static void put_black_box(const writer *w)
{
    tt_run_file file = { 0 };
    tt_blackboxes found = { 0 };
    tt_buf folder = { 0 };
    char command[TEXT_MOST];
    (void)tt_run_file_get(w->page->run, 0, &file);
    const char *slash = file.path != NULL ? strrchr(file.path, '/') : NULL;
    if (slash != NULL && tt_buf_append(&folder, file.path, (size_t)(slash - file.path)) == TT_OK)
        tt_blackbox_visit(folder.data, false, &found);
    if (found.count > 0) {
        (void)snprintf(command, sizeof command, "Run that step again: tensortap replay %.500s",
                       *w->page->path != '\0' ? w->page->path : folder.data);
        put_plain(w, NOTE, command, "There is a black box of step %" PRId64 ".", found.first_step);
    }
    tt_buf_free(&folder);
}

tt_status tt_page_findings(tt_json *json, const tt_page_run *page, int32_t number, tt_histories **seen,
                           tt_error *err)
{
    const writer w = { json, page, number, seen, err };
    bool is_empty = tt_run_shown_count(page->run, NULL) == 0;
    if (is_empty)
        put_plain(&w, NOTE, NULL, "Nothing has been recorded in this run.");
    put_state(&w);
    put_black_box(&w);
    return is_empty ? TT_OK : put_health(&w);
}

tt_status tt_page_verdict(const tt_page_run *about, tt_buf *out, tt_error *err)
{
    tt_json json = { .out = out, .is_compact = true };
    tt_json_open(&json, NULL, '[');
    tt_status st = tt_page_findings(&json, about, 0, NULL, err);
    tt_json_close(&json);
    return st == TT_OK ? tt_json_finish(&json) : st;
}

/* ---- two runs ----------------------------------------------------------------------- */

void tt_page_put_divergence(tt_json *json, const tt_run *a, const tt_diff *diff)
{
    const writer w = { .json = json };
    char text[TEXT_MOST], x[TT_NUMBER_TEXT], y[TT_NUMBER_TEXT];
    int64_t points = 0, first = diff->first;
    size_t differing = 0;
    for (size_t i = 0; i < diff->count; i++) {
        points += diff->sites[i].points;
        differing += diff->sites[i].verdict == TT_DIFF_DIFFERS;
    }
    for (size_t i = 0; i < diff->premise_count; i++) {
        const char *premise = diff->premises[i].text;
        put_plain(&w, REMARK, NULL, "%c%s.", premise[0] - 'a' + 'A', premise + 1);
    }
    if (points == 0) {
        put_plain(&w, NOTE, NULL,
                  "The two runs cannot be compared: no site has points of the same steps in both.");
    } else if (diff->verdict != TT_DIFF_DIFFERS || first < 0) {
        put_plain(&w, FINE, NULL, "The two runs %s.",
                  diff->verdict == TT_DIFF_SAME ? "are identical in the sites that both have"
                                                : "differ by no more than rounding explains");
    } else {
        const tt_diff_site *s = &diff->sites[first];
        (void)snprintf(text, sizeof text, "The two runs diverge at step %" PRId64 " in %.300s.",
                       s->first.step, s->name);
        open_finding(&w, REMARK, tt_run_find(a, s->name), s->first.step, text);
        (void)tt_number_short(s->first.a, x);
        (void)tt_number_short(s->first.b, y);
        int len =
            snprintf(text, sizeof text, "There %s is %s against %s", tt_field_name(s->first.field), x, y);
        if (len > 0 && isfinite(s->first.deviation))
            (void)snprintf(text + len, sizeof text - (size_t)len,
                           "; the relative difference is %.2g, rounding explains %.2g",
                           s->first.deviation, s->first.floor);
        (void)strncat(text, ".", sizeof text - strlen(text) - 1);
        tt_json_text(json, NULL, text);
        (void)snprintf(text, sizeof text, "%zu %s.", differing,
                       differing == 1 ? "site differs" : "sites differ");
        tt_json_text(json, NULL, text);
        tt_json_close(json);
        tt_json_close(json);
    }
}
