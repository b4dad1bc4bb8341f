/* facts.c -- what a page says in words: its findings, where the runs came from, their sites and
 * trees, and where two runs differ.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"
#include "store/run.h"

enum { NOTES_MOST = 200, HISTOGRAM_SITES = 100, VALUE_SITES = 100 };

/* ---- facts ------------------------------------------------------------------------------ */

static void put_notes(tt_json *json, const tt_run *run)
{
    tt_json_open(json, "notes", '[');
    for (int32_t f = 0, shown = 0; f < tt_run_file_count(run); f++) {
        tt_note note;
        for (int32_t i = 0; shown < NOTES_MOST && tt_run_note(run, f, i, &note) == TT_OK; i++, shown++) {
            tt_json_open(json, NULL, '[');
            tt_json_i64(json, NULL, note.step);
            tt_json_text(json, NULL, note.text);
            tt_json_close(json);
        }
    }
    tt_json_close(json);
}

static void put_settings(tt_json *json, const tt_run *run, bool is_private)
{
    tt_settings settings = { 0 };
    tt_json_open(json, "settings", '[');
    if (tt_settings_read(run, &settings) == TT_OK)
        for (size_t i = 0; i < settings.count; i++) {
            if (is_private && tt_glob_match("code/*,file/*", settings.items[i].key))
                continue;
            tt_json_open(json, NULL, '[');
            tt_json_text(json, NULL, settings.items[i].key);
            tt_json_text(json, NULL, settings.items[i].value);
            tt_json_close(json);
        }
    tt_settings_free(&settings);
    tt_json_close(json);
}

void tt_page_put_counts(tt_json *json, const tt_page_source *s)
{
    const tt_totals totals = tt_run_totals(tt_run_parts(s->run));
    tt_json_text(json, "state", s->about->state);
    tt_json_i64(json, "bytes", totals.bytes);
    tt_json_i64(json, "points", totals.points);
    tt_json_i64(json, "lost", s->lost);
    tt_json_i64(json, "shown", tt_run_shown_count(s->run, NULL));
    tt_json_i64(json, "alarms", s->bins[TT_PAGE_NUMBERS].alarms + s->bins[TT_PAGE_TENSORS].alarms);
}

static void put_run(tt_json *json, const tt_page_source *s, bool is_private)
{
    tt_run *run = tt_run_parts(s->run);
    tt_run_file file;
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "path", s->about->path);
    tt_page_put_counts(json, s);
    tt_json_open(json, "ranks", '[');
    for (int32_t f = 0; tt_run_file_get(run, f, &file) == TT_OK; f++)
        tt_json_i64(json, NULL, file.rank);
    tt_json_close(json);
    tt_json_bool(json, "joined", run != s->run);
    tt_page_put_mesh(json, run);
    tt_json_open(json, "info", '{');
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        if (!is_private || !tt_glob_match("host,argv,cwd,commit", tt_run_info_key(run, 0, i)))
            tt_json_text(json, tt_run_info_key(run, 0, i), tt_run_info_value(run, 0, i));
    tt_json_close(json);
    put_notes(json, s->run);
    put_settings(json, run, is_private);
    int32_t cost = tt_run_find(run, "tensortap/cost");
    tt_point latest;
    if (cost >= 0 && tt_run_point(run, 0, cost, -1, &latest, NULL) == TT_OK)
        tt_json_f64(json, "cost", latest.scalar);
    tt_json_close(json);
}

tt_status tt_page_put_facts(tt_page *page, bool has_findings, tt_buf *out, tt_error *err)
{
    tt_json json = { .out = out, .is_compact = true };
    tt_status st = has_findings ? tt_page_compare(page, err) : TT_OK;
    tt_json_open(&json, NULL, '{');
    tt_json_text(&json, "version", TT_VERSION);
    tt_json_bool(&json, "live", page->room == 0);
    tt_json_bool(&json, "pending", !has_findings);
    tt_json_open(&json, "runs", '[');
    for (size_t i = 0; i < page->count; i++)
        put_run(&json, &page->sources[i], page->is_private);
    tt_json_close(&json);
    tt_json_open(&json, "answers", '[');
    if (st == TT_OK && has_findings && page->diff != NULL)
        tt_page_put_comparison(&json, page->diff);
    for (size_t i = 0; st == TT_OK && has_findings && i < page->count; i++)
        st = tt_page_put_answers(&json, &page->sources[i], (int32_t)i, err);
    tt_json_close(&json);
    tt_json_close(&json);
    return st == TT_OK ? tt_json_finish(&json) : st;
}

/* ---- tables --------------------------------------------------------------------------- */

static tt_status put_sites(tt_json *json, const tt_page *page, const tt_page_source *s)
{
    tt_status st = TT_OK;
    tt_page_room room = { HISTOGRAM_SITES, VALUE_SITES };
    tt_json_open(json, "sites", '[');
    for (int32_t site = 0; st == TT_OK && site < s->looked; site++) {
        const tt_latest *found = &s->latest[site];
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "name", tt_run_site_name(s->run, site));
        if (found->file >= 0 && page->room > 0 && !tt_page_is_overlay(page))
            st = tt_page_put_site(json, s->run, site, found, &room);
        else if (found->file >= 0) /* the rest is asked for when the site is opened */
            tt_json_i64(json, "count", found->latest.stats.count);
        if (found->has_bad)
            tt_json_bool(json, "nonfinite", true);
        tt_json_close(json);
    }
    tt_json_close(json);
    return st;
}

/* The rows of the tree, with repeated layers folded. */
static tt_status put_tree(tt_json *json, const tt_page_source *s)
{
    tt_run_tree *tree = NULL; /* owned */
    const tt_look look = { .rank = -1 };
    tt_status st = tt_run_tree_create(s->run, &look, NULL, 0, &tree, NULL);
    tt_json_open(json, "tree", '[');
    for (size_t i = 0; st == TT_OK && i < tree->count; i++) {
        const tt_tree_row *row = &tree->rows[i];
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "label", row->label);
        tt_json_i64(json, "depth", row->depth);
        if (row->class_name != NULL)
            tt_json_text(json, "class", row->class_name);
        if (row->sites > 0) {
            tt_json_open(json, "sites", '[');
            for (int32_t k = 0; k < row->sites; k++)
                tt_json_i64(json, NULL, row->members[k]);
            tt_json_close(json);
        }
        tt_json_close(json);
    }
    tt_json_close(json);
    tt_run_tree_free(tree);
    return st == TT_ENOMEM ? st : TT_OK; /* no site, or a damaged one: no tree */
}

tt_status tt_page_put_table(tt_page *page, size_t number, tt_buf *out, tt_error *err)
{
    const tt_page_source *s = &page->sources[number];
    tt_json json = { .out = out, .is_compact = true };
    tt_status st = tt_page_look(page, err);
    tt_json_open(&json, NULL, '{');
    if (st == TT_OK)
        st = put_sites(&json, page, s);
    if (st == TT_OK && !tt_page_is_overlay(page))
        st = put_tree(&json, s);
    tt_json_close(&json);
    return st == TT_OK ? tt_json_finish(&json) : st;
}

/* ---- two runs ------------------------------------------------------------------------- */

tt_status tt_page_put_differences(tt_page *page, tt_buf *out, tt_error *err)
{
    tt_json json = { .out = out, .is_compact = true };
    tt_status st = tt_page_compare(page, err);
    if (st < 0)
        return st;
    const tt_diff *diff = page->diff;
    tt_json_open(&json, NULL, '[');
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        tt_json_open(&json, NULL, '{');
        tt_json_text(&json, "name", s->name);
        tt_json_i64(&json, "a", tt_run_find(page->sources[0].run, s->name));
        tt_json_i64(&json, "rank", s->rank);
        tt_json_bool(&json, "first", (int64_t)i == diff->first);
        tt_json_text(&json, "verdict",
                     s->points > 0   ? tt_verdict_text(s->verdict)
                     : s->only_a > 0 ? "only in the first"
                                     : "only in the second");
        if (s->points > 0 && s->verdict != TT_DIFF_SAME) {
            tt_json_i64(&json, "first_step", s->first.step);
            tt_json_text(&json, "field", tt_field_name(s->worst.field));
            tt_json_i64(&json, "worst_step", s->worst.step);
            tt_page_put_number(&json, "value_a", s->worst.a);
            tt_page_put_number(&json, "value_b", s->worst.b);
            tt_json_f64(&json, "deviation", s->worst.deviation);
            tt_json_f64(&json, "floor", s->worst.floor);
        }
        tt_json_close(&json);
    }
    tt_json_close(&json);
    return tt_json_finish(&json);
}
