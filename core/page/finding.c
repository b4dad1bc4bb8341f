/* finding.c -- what is to be said of the runs of a page: answers.
 *
 * Exists so that the page answers before it shows pictures.  What is said is decided by core/health and, for two
 * runs, by tt_diff_compute, as for the commands.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"
#include "report/answer.h"

enum { SITES_MOST = 40 };

static void put(tt_json *json, int32_t run, const tt_answer *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tt_json_open(json, NULL, '{');
        tt_json_i64(json, "run", run);
        tt_answer_json(json, &items[i], SITES_MOST);
        tt_json_close(json);
    }
}

tt_status tt_page_put_answers(tt_json *json, tt_page_source *source, int32_t number, tt_error *err)
{
    const tt_page_run *page = source->about;
    tt_findings *findings = NULL; /* owned */
    tt_answers fate = { 0 };
    const tt_health_options options = { .seen = &source->seen, .path = page->path };
    tt_status st = tt_health(source->run, &options, &findings, err);
    source->suspect_count = 0;
    for (size_t i = 0; st == TT_OK && i < findings->count && source->suspect_count < TT_PAGE_SUSPECTS;
         i++)
        if (findings->items[i].site_count > 0)
            source->suspects[source->suspect_count++] = findings->items[i].sites[0];
    if (st == TT_EFORMAT) { /* damaged, as its fate says */
        st = tt_fail_plain(err, tt_run_fate(page->run, page->path, 0, &fate));
        put(json, number, fate.items, fate.count);
    } else if (st == TT_OK) {
        tt_answer verdict = TT_ANSWER(NOTE, NOTE, .rule = "verdict", .sentence = findings->verdict);
        verdict.severity = findings->is_healthy ? TT_SEVERITY_FINE : TT_SEVERITY_NOTE;
        put(json, number, findings->items, findings->count);
        put(json, number, &verdict,
            (findings->count == 0 || findings->has_gaps) && tt_run_shown_count(page->run, NULL) > 0);
        put(json, number, findings->notes.items, findings->notes.count);
    }
    tt_findings_free(findings);
    tt_answers_free(&fate);
    return st;
}

void tt_page_put_comparison(tt_json *json, const tt_diff *diff)
{
    put(json, -1, diff->answers.items, diff->answers.count);
}
