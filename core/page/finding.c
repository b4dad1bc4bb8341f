/* finding.c -- what is wrong with a run, in sentences.
 *
 * Exists so that the page answers before it shows pictures.  What counts as wrong is decided by
 * core/report (tt_run_nonfinite, tt_run_look, tt_diff_compute), as for the commands.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/finding.h"

#include "page/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINE, NOTE, REMARK, ALARM, FEEDS_MOST = 12, SITES_MOST = 40, TEXT_MOST = 600 };

typedef struct writer {
    tt_json *json;
    const tt_page_run *page;
    int32_t number; /* of the run */
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

/* Opens a finding; details follow, then close_finding. */
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

static void close_details(const writer *w)
{
    tt_json_close(w->json);
}

static void close_finding(const writer *w)
{
    tt_json_close(w->json);
}

static void put_plain(const writer *w, int weight, const char *text, const char *detail)
{
    open_finding(w, weight, -1, -1, text);
    if (detail != NULL)
        tt_json_text(w->json, NULL, detail);
    close_details(w);
    close_finding(w);
}

/* ---- the first NaN or Inf ------------------------------------------------------ */

/* "2 NaN and 1 Inf", "all NaN", "a number that is not finite". */
static const char *counts_text(const tt_point *p, char *out, size_t room)
{
    const tt_stats *s = &p->stats;
    const struct {
        int64_t count;
        const char *name;
    } parts[] = { { s->nan, "NaN" }, { s->posinf, "Inf" }, { s->neginf, "-Inf" } };
    if ((p->products & TT_PRODUCT_STATS) == 0) {
        (void)snprintf(out, room, "%s", isnan(p->scalar) ? "NaN" : p->scalar > 0 ? "Inf" : "-Inf");
        return out;
    }
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].count == 0 || len + 40 > room)
            continue;
        const char *joint = len > 0 ? " and " : "";
        int n = parts[i].count == s->count && s->count > 1
                    ? snprintf(out + len, room - len, "%sonly %s", joint, parts[i].name)
                    : snprintf(out + len, room - len, "%s%" PRId64 " %s", joint, parts[i].count,
                               parts[i].name);
        len += n > 0 ? (size_t)n : 0;
    }
    return out;
}

static const char *birth_text(tt_run *run, const tt_nonfinite *n, char *out, size_t room)
{
    const char *outputs = n->has_forward ? "all recorded module outputs were finite"
                                         : "no module output was recorded in this step";
    tt_point last;
    switch (n->birth) {
    case TT_BIRTH_FORWARD:
        (void)snprintf(out, room, "%s",
                       (n->point.products & TT_PRODUCT_STATS) == 0
                           ? "A number that was logged; every tensor recorded before it was finite."
                       : n->order == 1
                           ? "It arose in the forward pass; nothing was recorded before it in this step."
                           : "It arose in the forward pass; everything recorded before it was finite.");
        break;
    case TT_BIRTH_UPDATE:
        if (n->index == 0 || tt_run_point(run, n->file, n->site, n->index - 1, &last, NULL) < 0)
            (void)snprintf(out, room, "It was there before the first recorded step.");
        else
            (void)snprintf(out, room, "The optimizer's update after step %" PRId64 " wrote it.",
                           last.step);
        break;
    case TT_BIRTH_LOSS:
        (void)snprintf(out, room, "It arose in the loss (backward() at %.200s); %s.",
                       tt_run_site_name(run, n->site) + strlen("loss/"), outputs);
        break;
    case TT_BIRTH_BACKWARD:
        (void)snprintf(out, room, "It arose in the backward pass%s; %s.",
                       n->has_loss ? "; the loss was finite" : ", or in a loss that was not seen",
                       outputs);
        break;
    }
    return out;
}

static tt_status put_feeds(const writer *w, const tt_nonfinite *n)
{
    static const char *const roles[] = { [TT_FEED_BEFORE] = "computed from",
                                         [TT_FEED_PARAMETER] = "parameter",
                                         [TT_FEED_PREVIOUS] = "the same site before" };
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
            tt_json_text(w->json, NULL, roles[feeds[i].kind]);
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

static int32_t rank_count(const tt_run *run)
{
    int32_t count = 0;
    tt_run_file file = { .rank = -1 };
    for (int32_t f = 0, before = -1; tt_run_file_get(run, f, &file) == TT_OK; f++, before = file.rank)
        count += file.rank != before;
    return count;
}

static tt_status put_nonfinite(const writer *w)
{
    tt_run *run = w->page->run;
    tt_nonfinite n;
    tt_status st = tt_run_nonfinite(run, NULL, &n, w->err);
    char text[TEXT_MOST], counts[160], rank[32] = "", birth[400];
    if (st == TT_EFORMAT)
        return TT_OK; /* damaged: another finding says so */
    if (st < 0 || n.site < 0)
        return st;
    tt_run_file file = { 0 };
    (void)tt_run_file_get(run, n.file, &file);
    if (rank_count(run) > 1)
        (void)snprintf(rank, sizeof rank, " on rank %d", (int)file.rank);
    (void)counts_text(&n.point, counts, sizeof counts);
    (void)snprintf(text, sizeof text,
                   "The first value that is not finite: %s in %.300s at step %" PRId64 "%s%s%s.", counts,
                   tt_run_site_name(run, n.site), n.point.step, rank,
                   n.point.phase == TT_PHASE_EVAL ? ", in evaluation" : "",
                   n.point.is_skipped ? ", in a step that was skipped" : "");
    open_finding(w, ALARM, n.site, n.point.step, text);
    tt_json_text(w->json, NULL, birth_text(run, &n, birth, sizeof birth));
    if (n.reached > 1) {
        (void)snprintf(text, sizeof text, "%d of %d sites have been non-finite since.", (int)n.reached,
                       (int)tt_run_shown_count(run, NULL));
        tt_json_text(w->json, NULL, text);
    }
    if (n.point.stats.dtype == TT_F16 && (n.point.stats.posinf | n.point.stats.neginf) != 0)
        tt_json_text(w->json, NULL, "float16 holds no value beyond 65504; bfloat16 and float32 do.");
    close_details(w);
    st = put_feeds(w, &n);
    close_finding(w);
    return st;
}

/* ---- anomalies ------------------------------------------------------------------ */

static void put_anomaly(const writer *w, tt_anomaly kind, const tt_latest *latest)
{
    static const char *const sentences[TT_ANOMALY_COUNT_] = {
        [TT_ANOMALY_NONFINITE] = "held NaN or Inf at some step",
        [TT_ANOMALY_EXPLODING] = "grew to more than 1000 times their first root mean square",
        [TT_ANOMALY_ALL_ZERO] = "are all zero in the latest step",
        [TT_ANOMALY_UNCHANGED] = "have not changed since the first step",
    };
    static const int weights[TT_ANOMALY_COUNT_] = { [TT_ANOMALY_NONFINITE] = ALARM,
                                                    [TT_ANOMALY_EXPLODING] = ALARM,
                                                    [TT_ANOMALY_ALL_ZERO] = REMARK,
                                                    [TT_ANOMALY_UNCHANGED] = REMARK };
    tt_run *run = w->page->run;
    int32_t count = 0, first = -1, sites = tt_run_site_count(run);
    for (int32_t site = 0; site < sites; site++)
        if ((latest[site].anomalies & 1u << kind) != 0 && count++ == 0)
            first = site;
    if (count == 0)
        return;
    char text[TEXT_MOST];
    const char *what = sentences[kind] != NULL ? sentences[kind] : tt_anomaly_text(kind);
    if (count == 1)
        (void)snprintf(text, sizeof text, "One site, %.300s: its values %s.",
                       tt_run_site_name(run, first), what);
    else
        (void)snprintf(text, sizeof text, "%d sites: their values %s.", (int)count, what);
    open_finding(w, weights[kind], first, -1, text);
    close_details(w);
    tt_json_open(w->json, "sites", '[');
    for (int32_t site = 0, shown = 0; site < sites && shown < SITES_MOST; site++)
        if ((latest[site].anomalies & 1u << kind) != 0) {
            tt_json_i64(w->json, NULL, site);
            shown++;
        }
    tt_json_close(w->json);
    tt_json_i64(w->json, "count", count);
    close_finding(w);
}

/* ---- the run itself --------------------------------------------------------------- */

static void put_state(const writer *w)
{
    tt_run *run = w->page->run;
    int64_t dropped = 0, damaged = 0;
    const char *stopped = NULL;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file file;
        if (tt_run_file_get(run, f, &file) < 0)
            continue;
        dropped += file.dropped_events;
        damaged += file.damaged_bytes;
        stopped = stopped == NULL ? file.stopped : stopped;
    }
    char text[TEXT_MOST];
    if (stopped != NULL) {
        (void)snprintf(text, sizeof text, "The program was %.500s", stopped);
        put_plain(w, ALARM, text, NULL);
    } else if (w->page->state != NULL && strcmp(w->page->state, "crashed") == 0) {
        put_plain(w, REMARK, "The program ended without closing the run: it was killed, or it crashed.",
                  "At most the last half second is missing.");
    }
    if (tt_run_untrained(run) != NULL)
        put_plain(w, REMARK, tt_run_untrained(run), NULL);
    if (damaged > 0) {
        (void)snprintf(text, sizeof text, "%" PRId64 " bytes of the run are damaged and left out.",
                       damaged);
        put_plain(w, REMARK, text, "tensortap check --repair copies what can be read.");
    }
    if (dropped > 0) {
        (void)snprintf(text, sizeof text, "%" PRId64 " events were dropped while recording.", dropped);
        put_plain(w, REMARK, text, NULL);
    }
}

tt_status tt_page_findings(tt_json *json, const tt_page_run *page, int32_t number,
                           const tt_latest *latest, tt_error *err)
{
    const writer w = { json, page, number, err };
    uint32_t any = 0;
    for (int32_t site = 0; site < tt_run_site_count(page->run); site++)
        any |= latest[site].anomalies;
    int32_t shown = tt_run_shown_count(page->run, NULL);
    if (shown == 0)
        put_plain(&w, NOTE, "Nothing has been recorded in this run.", NULL);
    tt_status st = put_nonfinite(&w);
    put_state(&w);
    for (tt_anomaly kind = 0; st == TT_OK && kind < TT_ANOMALY_COUNT_; kind++)
        put_anomaly(&w, kind, latest);
    if (shown > 0 && (any & 1u << TT_ANOMALY_NONFINITE) == 0) {
        char text[TEXT_MOST];
        (void)snprintf(text, sizeof text, "All values of %d sites are finite.", (int)shown);
        put_plain(&w, FINE, text, NULL);
    }
    return st;
}

tt_status tt_page_verdict(const tt_page_run *about, tt_buf *out, tt_error *err)
{
    tt_json json = { .out = out, .is_compact = true };
    tt_page *page = NULL; /* owned */
    tt_status st = tt_page_open(about, 1, &(tt_page_options){ 0 }, &page, err);
    if (st == TT_OK)
        st = tt_page_look(page, err);
    tt_json_open(&json, NULL, '[');
    if (st == TT_OK)
        st = tt_page_findings(&json, about, 0, page->sources[0].latest, err);
    tt_json_close(&json);
    tt_page_close(page);
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
    if (points == 0) {
        put_plain(&w, NOTE,
                  "The two runs cannot be compared: no site has points of the same steps in both.", NULL);
    } else if (diff->verdict != TT_DIFF_DIFFERS || first < 0) {
        put_plain(&w, FINE,
                  diff->verdict == TT_DIFF_SAME
                      ? "The two runs are identical in the sites that both have."
                      : "The two runs differ by no more than rounding explains.",
                  NULL);
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
        close_details(&w);
        close_finding(&w);
    }
}
