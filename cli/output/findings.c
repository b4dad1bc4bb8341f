/* findings.c -- answers as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "output/screen.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 9 };

bool tt_findings_has(const tt_findings *findings, tt_severity severity)
{
    return findings->count > 0 && findings->items[0].severity >= severity; /* the heaviest is first */
}

/* Prints text in lines that fit the screen, the first of which has `used` characters before it, the others
 * `indent` spaces; returns their number. */
static int print_wrapped(tt_mood mood, const char *untrusted, size_t used, int indent)
{
    enum { LEAST = 20 };
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
            printf("\n%*s", indent, "");
            used = (size_t)indent;
            lines++;
        }
    }
    putchar('\n');
    tt_buf_free(&text);
    return lines;
}

tt_mood tt_severity_mood(tt_severity severity)
{
    static const tt_mood moods[] = { [TT_SEVERITY_NOTE] = TT_MOOD_FAINT,
                                     [TT_SEVERITY_FINE] = TT_MOOD_SPARK,
                                     [TT_SEVERITY_WARNING] = TT_MOOD_REMARK,
                                     [TT_SEVERITY_ERROR] = TT_MOOD_ALARM };
    return moods[severity];
}

static int print_indented(tt_mood mood, const char *text, int indent)
{
    printf("%*s", indent, "");
    return print_wrapped(mood, text, (size_t)indent, indent < INDENT ? indent + 2 : indent);
}

static int print_code(const tt_answer *answer, int indent)
{
    return answer->code != NULL ? print_indented(TT_MOOD_FAINT, answer->code, indent) : 0;
}

static int print_follows(const tt_answer *answer)
{
    tt_buf text = { 0 };
    int lines = 0;
    if (answer->follow_count > 0 &&
        tt_buf_printf(&text, "and %zu that follow%s from it: %s", answer->follow_count,
                      answer->follow_count == 1 ? "s" : "", answer->follows) == TT_OK)
        lines = print_indented(TT_MOOD_FAINT, text.data, INDENT);
    tt_buf_free(&text);
    return lines;
}

int tt_answer_print_detail(const tt_answer *answer, int indent)
{
    int lines = print_code(answer, indent);
    for (const char *at = answer->detail; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, "\n");
        tt_buf line = { 0 };
        if (tt_buf_append(&line, at, len) == TT_OK)
            lines += print_indented(TT_MOOD_FAINT, line.data, indent);
        tt_buf_free(&line);
        at += len + (at[len] != '\0');
    }
    return lines;
}

int tt_answer_print_next(const tt_answer *answer, int indent)
{
    for (size_t i = 0; i < answer->next_count; i++)
        tt_screen_say(TT_MOOD_PLAIN, "%*s%s\n", indent, "", answer->next[i]); /* whole, to be copied */
    return (int)answer->next_count;
}

int tt_answer_print(const tt_answer *answer, tt_extent extent)
{
    bool is_of_rule = answer->kind == TT_ANSWER_FINDING || answer->kind == TT_ANSWER_ORIGIN;
    int lines = 0;
    if (is_of_rule) {
        const char *rank =
            answer->rank_count == 1 ? tt_screen_text("rank %d: ", (int)answer->ranks[0]) : "";
        tt_screen_say(tt_severity_mood(answer->severity), "%-7s", tt_severity_text(answer->severity));
        tt_screen_say(TT_MOOD_FAINT, "  %s", answer->rule);
        printf("  %s", rank);
        tt_buf sentence = { 0 };
        (void)tt_buf_printf(&sentence, "%s%s", answer->sentence,
                            answer->likelihood == TT_LIKELIHOOD_LIKELY ? " (likely)" : "");
        lines += print_wrapped(TT_MOOD_PLAIN, sentence.st == TT_OK ? sentence.data : answer->sentence,
                               11 + strlen(answer->rule) + strlen(rank), INDENT);
        tt_buf_free(&sentence);
    } else {
        lines += print_wrapped(tt_severity_mood(answer->severity), answer->sentence, 0, 2);
    }
    if (extent >= TT_EXTENT_DETAIL && !is_of_rule)
        lines += tt_answer_print_detail(answer, answer->kind == TT_ANSWER_NOTE ? 2 : 0);
    if (extent == TT_EXTENT_ALL) {
        lines += is_of_rule ? print_code(answer, INDENT) : 0;
        lines += print_follows(answer);
        if (answer->remedy != NULL)
            lines += print_indented(TT_MOOD_FAINT, answer->remedy, is_of_rule ? INDENT : 2);
        lines += tt_answer_print_next(answer, is_of_rule ? INDENT : 2);
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
        return print_wrapped(mood, findings->verdict, used, INDENT);
    tt_screen_say(mood, "%s", findings->verdict);
    printf("  %d rules\n", (int)findings->rules - (int)findings->unchecked_count);
    return 1;
}
