/* findings.c -- what the rules found, as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "output/screen.h"

#include <stdio.h>
#include <string.h>

bool tt_findings_has(const tt_findings *findings, tt_severity severity)
{
    return findings->count > 0 && findings->items[0].severity >= severity; /* the heaviest is first */
}

/* Prints text in lines that fit the screen, the first of which has `used` characters before it; returns
 * their number. */
static int print_wrapped(tt_mood mood, const char *untrusted, size_t used)
{
    enum { INDENT = 9, LEAST = 20 };
    size_t columns = tt_terminal.style.columns > 0 ? (size_t)tt_terminal.style.columns : SIZE_MAX;
    tt_buf text = { 0 };
    int lines = 1;
    (void)tt_text_append(untrusted, &(tt_style){ .is_ascii = tt_terminal.style.is_ascii }, &text);
    for (const char *at = text.len > 0 ? text.data : ""; *at != '\0';) {
        size_t room = columns - used > columns || columns - used < LEAST ? LEAST : columns - used;
        size_t len = strlen(at), cut = len;
        if (len > room) {
            for (cut = room; cut > 0 && at[cut] != ' '; cut--)
                ;
            cut = cut > 0 ? cut : room;
        }
        tt_screen_say(mood, "%.*s", (int)cut, at);
        at += cut + strspn(at + cut, " ");
        if (*at != '\0') {
            printf("\n%*s", (int)INDENT, "");
            used = INDENT;
            lines++;
        }
    }
    putchar('\n');
    tt_buf_free(&text);
    return lines;
}

int tt_findings_print(const tt_findings *findings, size_t most, bool has_remedies)
{
    int lines = 0;
    for (size_t i = 0; i < findings->count && i < most; i++) {
        const tt_finding *found = &findings->items[i];
        bool is_error = found->severity == TT_SEVERITY_ERROR;
        const char *rank = found->rank >= 0 ? tt_screen_text("rank %d: ", (int)found->rank) : "";
        tt_screen_say(is_error ? TT_MOOD_ALARM : TT_MOOD_REMARK, "%-7s",
                      tt_severity_text(found->severity));
        tt_screen_say(TT_MOOD_FAINT, "  %s", found->rule->id);
        printf("  %s", rank);
        lines +=
            print_wrapped(TT_MOOD_PLAIN, found->sentence, 11 + strlen(found->rule->id) + strlen(rank));
        if (!has_remedies)
            continue;
        printf("%*s", 9, "");
        lines += print_wrapped(TT_MOOD_FAINT, found->remedy, 9);
    }
    return lines;
}

int tt_findings_print_verdict(const tt_findings *findings, size_t used)
{
    bool is_bad = tt_findings_has(findings, TT_SEVERITY_ERROR), is_said = findings->is_healthy;
    tt_mood mood = is_bad                ? TT_MOOD_ALARM
                   : findings->count > 0 ? TT_MOOD_REMARK
                   : is_said             ? TT_MOOD_SPARK
                                         : TT_MOOD_PLAIN;
    if ((findings->count == 0 && !is_said) || findings->has_gaps)
        return print_wrapped(mood, findings->verdict, used);
    tt_screen_say(mood, "%s", findings->verdict);
    printf("  %d rules\n", (int)findings->rules - (int)findings->unchecked_count);
    return 1;
}

void tt_findings_print_unchecked(const tt_findings *findings)
{
    tt_buf line = { 0 };
    for (size_t i = 0; i < findings->unchecked_count; i++) {
        if (!tt_findings_is_first_reason(findings, i))
            continue;
        tt_buf_clear(&line);
        (void)tt_buf_text(&line, "not checked: ");
        (void)tt_findings_list_unchecked(findings, i, &line);
        (void)print_wrapped(TT_MOOD_FAINT, line.data != NULL ? line.data : "", 0);
    }
    tt_buf_free(&line);
}
