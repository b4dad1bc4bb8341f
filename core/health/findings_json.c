/* findings_json.c -- findings as JSON: for the command, for Python and for the page.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

static void put_finding(tt_json *json, const tt_finding *found)
{
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "rule", found->rule->id);
    tt_json_text(json, "severity", tt_severity_text(found->severity));
    tt_json_text(json, "place", found->place);
    tt_json_text(json, "sentence", found->sentence);
    tt_json_text(json, "remedy", found->remedy);
    tt_json_open(json, "sites", '[');
    for (size_t i = 0; i < found->site_count; i++)
        tt_json_text(json, NULL, found->names[i]);
    tt_json_close(json);
    tt_json_i64(json, "first_step", found->first_step);
    tt_json_i64(json, "last_step", found->last_step);
    tt_json_i64(json, "rank", found->rank);
    tt_json_open(json, "numbers", '{');
    for (size_t i = 0; i < found->number_count; i++)
        tt_json_f64(json, found->numbers[i].name, found->numbers[i].value);
    tt_json_close(json);
    tt_json_close(json);
}

void tt_findings_json(tt_json *json, const tt_findings *findings)
{
    tt_json_text(json, "verdict", findings->verdict);
    tt_json_i64(json, "rules", findings->rules);
    tt_json_open(json, "findings", '[');
    for (size_t i = 0; i < findings->count; i++)
        put_finding(json, &findings->items[i]);
    tt_json_close(json);
    if (findings->left_out != NULL)
        tt_json_text(json, "left_out", findings->left_out);
    tt_json_open(json, "unchecked", '[');
    for (size_t i = 0; i < findings->unchecked_count; i++) {
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "rule", findings->unchecked[i].rule->id);
        tt_json_text(json, "reason", findings->unchecked[i].reason);
        tt_json_close(json);
    }
    tt_json_close(json);
}

tt_status tt_findings_write(const tt_findings *findings, tt_buf *out)
{
    tt_json json = { .out = out };
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "schema", TT_JSON_SCHEMA);
    tt_findings_json(&json, findings);
    tt_json_close(&json);
    return tt_json_finish(&json);
}
