/* remove.c -- removes runs, and nothing else.
 *
 * Exists because what is gone is gone: only files that begin as a run file does are
 * unlinked, and the folder goes only if it is then empty.
 * SPDX-License-Identifier: Apache-2.0 */
#include "remove.h"

#include "opened.h"
#include "screen.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Removes what the reader took for files of the run. */
static tt_exit remove_one(const char *path, tt_error *err)
{
    tt_run *run;
    struct stat about;
    bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    tt_exit code = tt_opened_run(path, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    for (int32_t f = 0; code == TT_EXIT_FINE && f < tt_run_file_count(run); f++) {
        tt_run_file file;
        if (tt_run_file_get(run, f, &file) == TT_OK && unlink(file.path) < 0) {
            (void)snprintf(err->text, sizeof err->text, "cannot remove %.150s: %s", file.path,
                           strerror(errno));
            code = TT_EXIT_FAILED;
        }
    }
    tt_run_close(run);
    if (code == TT_EXIT_FINE && is_folder && rmdir(path) < 0 && errno != ENOTEMPTY && errno != EEXIST) {
        (void)snprintf(err->text, sizeof err->text, "cannot remove the folder %.150s: %s", path,
                       strerror(errno));
        code = TT_EXIT_FAILED;
    }
    return code;
}

static bool answer_is_yes(void)
{
    char line[16] = "";
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        return false;
    return line[0] == 'y' || line[0] == 'Y';
}

tt_exit tt_remove_runs(const char *const *paths, size_t count, bool is_sure, tt_error *err)
{
    tt_screen screen;
    tt_screen_look(&screen);
    int64_t bytes = 0;
    tt_exit code = TT_EXIT_FINE;
    /* All of them are looked at before the first goes. */
    for (size_t i = 0; i < count; i++) {
        tt_run *run;
        tt_totals totals;
        code = tt_opened_run(paths[i], &run, err);
        if (code != TT_EXIT_FINE)
            return code;
        tt_opened_totals(run, &totals);
        bytes += totals.bytes;
        bool is_live = tt_opened_state(run) == TT_STATE_LIVE;
        tt_run_close(run);
        if (is_live) {
            (void)snprintf(err->text, sizeof err->text, "%.150s is being written; end its program first",
                           paths[i]);
            return TT_EXIT_FAILED;
        }
    }
    if (count == 0) {
        puts("nothing to remove");
        return TT_EXIT_FINE;
    }
    char size[TT_NUMBER_TEXT];
    if (!is_sure) {
        if (isatty(STDIN_FILENO) != 1) {
            (void)snprintf(err->text, sizeof err->text,
                           "would remove %zu run%s, %s; add --yes where nobody can be asked", count,
                           count == 1 ? "" : "s", tt_screen_bytes(bytes, size));
            return TT_EXIT_FAILED;
        }
        for (size_t i = 0; i < count; i++) {
            fputs("  ", stdout);
            tt_screen_name(&screen, paths[i]);
            putchar('\n');
        }
        printf("Remove %zu run%s, %s? [y/N] ", count, count == 1 ? "" : "s",
               tt_screen_bytes(bytes, size));
        if (!answer_is_yes()) {
            puts("nothing was removed");
            return TT_EXIT_FINE;
        }
    }
    for (size_t i = 0; code == TT_EXIT_FINE && i < count; i++) {
        code = remove_one(paths[i], err);
        if (code == TT_EXIT_FINE) {
            fputs("removed ", stdout);
            tt_screen_name(&screen, paths[i]);
            putchar('\n');
        }
    }
    return code;
}
