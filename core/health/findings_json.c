/* findings_json.c -- findings as JSON: for the command, for Python and for the page.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include <string.h>

static void put_answers(tt_json *json, const char *name, const tt_answer *items, size_t count)
{
    tt_json_open(json, name, '[');
    for (size_t i = 0; i < count; i++) {
        tt_json_open(json, NULL, '{');
        tt_answer_json(json, &items[i], SIZE_MAX);
        tt_json_close(json);
    }
    tt_json_close(json);
}

void tt_findings_json(tt_json *json, const tt_findings *findings)
{
    const tt_answers *notes = &findings->notes;
    tt_json_text(json, "verdict", findings->verdict);
    tt_json_bool(json, "healthy", findings->is_healthy);
    tt_json_i64(json, "rules", findings->rules);
    put_answers(json, "findings", findings->items, findings->count);
    put_answers(json, "notes", notes->items, notes->count);
    for (size_t i = 0; i < notes->count; i++)
        if (strcmp(notes->items[i].rule, "masked") == 0)
            tt_json_text(json, "left_out", notes->items[i].sentence);
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
