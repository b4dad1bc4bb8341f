/* header.c -- the first line about a run.
 *
 * Exists so that show, nan and top begin alike, and at once: nothing is read for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "header.h"

#include <stdio.h>
#include <string.h>

const char *tt_header_ink(const tt_screen *screen, tt_mood mood)
{
    static const char *const codes[] = {
        [TT_MOOD_PLAIN] = "\x1b[0m",  [TT_MOOD_FAINT] = "\x1b[2m",   [TT_MOOD_TYPE] = "\x1b[36m",
        [TT_MOOD_SPARK] = "\x1b[32m", [TT_MOOD_REMARK] = "\x1b[33m", [TT_MOOD_ALARM] = "\x1b[1;31m",
    };
    return screen->style.is_colored ? codes[mood] : "";
}

const char *tt_header_untrained(const tt_run *run)
{
    static const char tail[] = " require gradients but no optimizer updates them"; /* of runs/steps.py */
    static const char taken_back[] = "all parameters that require gradients are updated by an optimizer";
    const char *found = NULL;
    tt_note note;
    for (int32_t i = 0; tt_run_note(run, 0, i, &note) == TT_OK; i++) {
        size_t len = strlen(note.text);
        if (len > strlen(tail) && strcmp(note.text + len - strlen(tail), tail) == 0)
            found = note.text;
        else if (strcmp(note.text, taken_back) == 0)
            found = NULL;
    }
    return found;
}

int tt_header_print(const char *path, const tt_run *run, const tt_screen *screen)
{
    tt_totals totals;
    tt_overview_totals(run, &totals);
    char points[TT_NUMBER_TEXT], bytes[TT_NUMBER_TEXT], sites[TT_NUMBER_TEXT], last[TT_NUMBER_TEXT];
    const char *faint = tt_header_ink(screen, TT_MOOD_FAINT),
               *plain = tt_header_ink(screen, TT_MOOD_PLAIN);
    tt_state state = tt_overview_state(run);
    bool is_broken = state == TT_STATE_CRASHED || state == TT_STATE_STOPPED;
    tt_screen_name(screen, path);
    printf("  %s%s%s", tt_header_ink(screen, is_broken ? TT_MOOD_REMARK : TT_MOOD_SPARK),
           tt_overview_state_text(state), plain);
    if (totals.last_step >= totals.first_step)
        printf("  steps %lld to %s", (long long)totals.first_step,
               tt_screen_count(totals.last_step, last));
    int32_t shown = tt_run_shown_count(run, NULL);
    printf("  %s site%s  %s points  %s", tt_screen_count(shown, sites), shown == 1 ? "" : "s",
           tt_screen_count(totals.points, points), tt_screen_bytes(totals.bytes, bytes));
    char ranks[160];
    if (tt_opened_rank_count(run) > 1)
        printf("  %s", tt_opened_ranks(run, ranks, sizeof ranks));
    putchar('\n');
    int lines = 1;
    if (state == TT_STATE_STOPPED) {
        tt_buf text = { 0 };
        if (tt_text_append(tt_opened_stop(run), &screen->style, &text) == TT_OK && text.len > 0)
            printf("%s%s%s\n", tt_header_ink(screen, TT_MOOD_REMARK), text.data, plain);
        tt_buf_free(&text);
        lines++;
    }
    if (totals.damaged > 0) {
        printf("%s%s of it cannot be read; 'tensortap check' says more%s\n",
               tt_header_ink(screen, TT_MOOD_ALARM), tt_screen_bytes(totals.damaged, bytes), plain);
        lines++;
    }
    if (totals.dropped > 0) {
        printf("%s%s events were dropped while recording%s\n", tt_header_ink(screen, TT_MOOD_REMARK),
               tt_screen_count(totals.dropped, points), plain);
        lines++;
    }
    tt_buf command = { 0 };
    if (tt_overview_command(run, &command) == TT_OK && command.len > 0) {
        tt_buf text = { 0 };
        if (tt_text_append(command.data, &screen->style, &text) == TT_OK && text.len > 0)
            printf("%s%s%s\n", faint, text.data, plain);
        tt_buf_free(&text);
        lines++;
    }
    tt_buf_free(&command);
    const char *untrained = tt_header_untrained(run);
    if (untrained != NULL) {
        fputs(tt_header_ink(screen, TT_MOOD_REMARK), stdout);
        tt_screen_name(screen, untrained);
        printf("%s\n", plain);
        lines++;
    }
    fflush(stdout); /* the rest may take a moment */
    return lines;
}
