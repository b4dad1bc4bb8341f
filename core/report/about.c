/* about.c -- what a run says of itself: its command, when it began, how it ended.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* argv is a JSON list of strings: ["train.py", "--lr", "0.1"].  Whatever it holds
 * instead is shown as it is. */
tt_status tt_run_command(const tt_run *run, tt_buf *out)
{
    const char *argv = tt_run_info(run, "argv");
    const tt_style style = { 0 };
    if (argv == NULL || *argv != '[')
        return argv != NULL ? tt_text_append(argv, &style, out) : TT_OK;
    char *plain = malloc(strlen(argv) + 1);
    if (plain == NULL)
        return TT_ENOMEM;
    size_t len = 0;
    bool is_inside = false;
    for (const char *at = argv; *at != '\0'; at++) {
        if (*at == '"' && !is_inside && len > 0)
            plain[len++] = ' ';
        if (*at == '"')
            is_inside = !is_inside;
        else if (is_inside && *at == '\\' && (at[1] == '"' || at[1] == '\\' || at[1] == '/'))
            plain[len++] = *++at;
        else if (is_inside)
            plain[len++] = *at;
    }
    plain[len] = '\0';
    tt_status st = tt_text_append(plain, &style, out);
    free(plain);
    return st;
}

tt_state tt_run_state(const tt_run *run)
{
    tt_state state = TT_STATE_FINISHED;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        const tt_tap *tap = run->taps[f];
        if (!tap->scan.is_closed && tt_file_is_written(tap->path))
            return TT_STATE_LIVE;
        if (!tap->scan.is_closed)
            state = TT_STATE_CRASHED;
    }
    return state == TT_STATE_FINISHED && tt_run_totals(run).stopped != NULL ? TT_STATE_STOPPED : state;
}

const char *tt_state_text(tt_state state)
{
    static const char *const texts[] = { "finished", "live", "crashed", "stopped" };
    return texts[state];
}

int64_t tt_run_started(const tt_run *run)
{
    const char *start = tt_run_info(run, "start");
    struct tm parts = { 0 };
    struct stat about;
    int64_t ns = 0;
    if (start != NULL && strptime(start, "%Y-%m-%dT%H:%M:%S%z", &parts) != NULL) {
        long east = parts.tm_gmtoff; /* timegm takes no notice of it, and sets it */
        if (!__builtin_mul_overflow((int64_t)timegm(&parts) - east, INT64_C(1000000000), &ns))
            return ns;
    }
    ns = 0;
    for (int32_t f = 0; ns == 0 && f < tt_run_file_count(run); f++)
        if (stat(run->taps[f]->path, &about) == 0)
            ns = (int64_t)about.st_mtime * 1000000000;
    return ns;
}
