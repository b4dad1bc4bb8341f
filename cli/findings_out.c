/* findings_out.c -- what the rules found, as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "findings_out.h"
#include "screen.h"

#include <stdio.h>

bool tt_findings_has(const tt_findings *findings, tt_severity severity)
{
    return findings->count > 0 && findings->items[0].severity >= severity; /* the heaviest is first */
}

const char *tt_findings_count_text(const tt_findings *findings)
{
    size_t errors = 0;
    while (errors < findings->count && findings->items[errors].severity == TT_SEVERITY_ERROR)
        errors++;
    size_t warnings = findings->count - errors;
    const char *left = errors > 0 ? tt_screen_text("%zu error%s", errors, errors == 1 ? "" : "s") : "";
    const char *right =
        warnings > 0 ? tt_screen_text("%zu warning%s", warnings, warnings == 1 ? "" : "s") : "";
    return findings->count == 0
               ? "healthy"
               : tt_screen_text("%s%s%s", left, errors > 0 && warnings > 0 ? ", " : "", right);
}

int tt_findings_print(const tt_findings *findings, size_t most, bool has_remedies)
{
    int lines = 0;
    for (size_t i = 0; i < findings->count && i < most; i++) {
        const tt_finding *found = &findings->items[i];
        bool is_error = found->severity == TT_SEVERITY_ERROR;
        tt_buf text = { 0 };
        (void)tt_text_append(found->sentence, &(tt_style){ .is_ascii = tt_terminal.style.is_ascii },
                             &text);
        tt_screen_say(is_error ? TT_MOOD_ALARM : TT_MOOD_REMARK, "%-7s",
                      tt_severity_text(found->severity));
        tt_screen_say(TT_MOOD_FAINT, "  %s", found->rule->id);
        if (found->rank >= 0)
            printf("  rank %d:", (int)found->rank);
        printf("  %s\n", text.len > 0 ? text.data : "");
        lines++;
        if (has_remedies) {
            tt_screen_say(TT_MOOD_FAINT, "         %s\n", found->rule->remedy);
            lines++;
        }
        tt_buf_free(&text);
    }
    return lines;
}
