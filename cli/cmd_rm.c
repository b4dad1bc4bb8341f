/* cmd_rm.c -- tensortap rm RUN...; also removes for `ls --keep-last`.
 *
 * Exists because what is gone is gone: only files that begin as a run file does are
 * unlinked, those of `check --repair` too, and the folder goes only if it is then empty.
 * SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"
#include "overview.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "rank3.tap", "rank3.1234.tap" */
bool tt_remove_is_tap(const char *name)
{
    int end = -1, number;
    if (sscanf(name, "rank%9d.tap%n", &number, &end) == 1 && end > 0 && name[end] == '\0')
        return true;
    end = -1;
    return sscanf(name, "rank%9d.%*9d.tap%n", &number, &end) == 1 && end > 0 && name[end] == '\0';
}

/* What `check --repair` wrote: "rank3.repaired.tap", "rank3.1234.repaired.tap". */
static bool is_repaired(const char *name)
{
    static const char end[] = ".repaired.tap";
    size_t len = strlen(name), cut = sizeof end - 1;
    char whole[64];
    if (len <= cut || len >= sizeof whole || strcmp(name + len - cut, end) != 0)
        return false;
    (void)snprintf(whole, sizeof whole, "%.*s.tap", (int)(len - cut), name);
    return tt_remove_is_tap(whole);
}

/* Size of a repaired file that is one of ours; -1: it is not. */
static int64_t size_of_tap(const char *path)
{
    tt_run *run;
    if (tt_run_open(path, &run, NULL) < 0)
        return -1;
    int64_t bytes = tt_overview_file(run, 0).bytes;
    tt_run_close(run);
    return bytes;
}

/* Adds up the repaired files of a folder, and removes them if asked to. */
static tt_status look_at_repaired(const char *folder, bool removes, int64_t *bytes, tt_error *err)
{
    DIR *dir = opendir(folder);
    tt_status st = TT_OK;
    for (struct dirent *at; dir != NULL && st == TT_OK && (at = readdir(dir)) != NULL;) {
        char *path = NULL;
        if (!is_repaired(at->d_name) || asprintf(&path, "%s/%s", folder, at->d_name) < 0)
            continue;
        int64_t size = size_of_tap(path);
        *bytes += size > 0 ? size : 0;
        if (removes && size >= 0 && unlink(path) < 0) {
            st = tt_fail(err, TT_EIO, "cannot remove %.150s: %s", path, strerror(errno));
        }
        free(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return st;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Removes what the reader took for files of the run, and what was saved of them. */
static tt_exit remove_one(const char *path, tt_error *err)
{
    tt_run *run;
    int64_t bytes = 0;
    bool has_folder = is_folder(path);
    tt_exit code = tt_overview_open(path, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    if (has_folder && look_at_repaired(path, true, &bytes, err) < 0)
        code = TT_EXIT_FAILED;
    for (int32_t f = 0; code == TT_EXIT_FINE && f < tt_run_file_count(run); f++) {
        const char *file = tt_overview_file(run, f).path;
        if (unlink(file) < 0)
            code = tt_cmd_fail(err, TT_EXIT_FAILED, "cannot remove %.150s: %s", file, strerror(errno));
    }
    tt_run_close(run);
    if (code == TT_EXIT_FINE && has_folder && rmdir(path) < 0 && errno != ENOTEMPTY && errno != EEXIST) {
        code = tt_cmd_fail(err, TT_EXIT_FAILED, "cannot remove the folder %.150s: %s", path,
                           strerror(errno));
    }
    return code;
}

/* Also with a slash behind it, which lstat would follow. */
static bool is_link(const char *path)
{
    struct stat about;
    char name[4096];
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len >= sizeof name)
        return false;
    (void)snprintf(name, sizeof name, "%.*s", (int)len, path);
    return lstat(name, &about) == 0 && S_ISLNK(about.st_mode);
}

/* Looks at a run before anything goes: how large it is, and whether it may go. */
static tt_exit weigh(const char *path, int64_t *bytes, tt_error *err)
{
    tt_run *run;
    tt_totals totals;
    if (is_link(path)) {
        return tt_cmd_fail(err, TT_EXIT_FAILED,
                           "%.150s is a symbolic link; nothing was removed. Name the run itself", path);
    }
    tt_exit code = tt_overview_open(path, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    tt_overview_totals(run, &totals);
    *bytes = totals.bytes;
    bool is_live = tt_overview_state(run) == TT_STATE_LIVE;
    tt_run_close(run);
    if (is_folder(path))
        (void)look_at_repaired(path, false, bytes, err);
    if (!is_live)
        return TT_EXIT_FINE;
    return tt_cmd_fail(err, TT_EXIT_FAILED, "%.150s is being written; end its program first", path);
}

/* Asks on standard error: the answer on standard output may go elsewhere. */
static bool answer_is_yes(const char *const *paths, size_t count, const char *size)
{
    char line[16] = "";
    for (size_t i = 0; i < count; i++) {
        tt_buf safe = { 0 };
        if (tt_text_append(paths[i], &(tt_style){ 0 }, &safe) == TT_OK && safe.len > 0)
            fprintf(stderr, "  %s\n", safe.data);
        tt_buf_free(&safe);
    }
    fprintf(stderr, "Remove %zu run%s, %s? [y/N] ", count, count == 1 ? "" : "s", size);
    if (fgets(line, sizeof line, stdin) == NULL) {
        fputc('\n', stderr); /* the end of input left the cursor behind the question */
        return false;
    }
    return line[0] == 'y' || line[0] == 'Y';
}

tt_exit tt_remove_runs(const char *const *paths, size_t count, const tt_removal *how, tt_error *err)
{
    int64_t all = 0, *bytes = calloc(count + 1, sizeof *bytes);
    tt_exit code = bytes != NULL ? TT_EXIT_FINE : TT_EXIT_FAILED;
    for (size_t i = 0; code == TT_EXIT_FINE && i < count; i++) { /* all of them, before the first goes */
        code = weigh(paths[i], &bytes[i], err);
        all += bytes[i];
    }
    const char *size = tt_screen_bytes(all);
    if (code == TT_EXIT_FINE && count > 0 && !how->is_sure && isatty(STDIN_FILENO) != 1) {
        code = tt_cmd_fail(err, TT_EXIT_FAILED,
                           "would remove %zu run%s, %s; without a terminal to ask on, add --yes", count,
                           count == 1 ? "" : "s", size);
    }
    if (code != TT_EXIT_FINE)
        goto out;
    bool goes_on = count > 0 && (how->is_sure || answer_is_yes(paths, count, size));
    tt_json_out out;
    tt_json *json = how->is_json ? tt_json_begin(&out, '[') : NULL;
    if (json == NULL && !goes_on)
        puts(count == 0 ? "nothing to remove" : "nothing was removed");
    for (size_t i = 0; goes_on && code == TT_EXIT_FINE && i < count; i++) {
        code = remove_one(paths[i], err);
        if (code == TT_EXIT_FINE && json != NULL) {
            tt_json_open(json, NULL, '{');
            tt_json_text(json, "run", paths[i]);
            tt_json_i64(json, "bytes", bytes[i]);
            tt_json_close(json);
        } else if (code == TT_EXIT_FINE) {
            tt_screen_say(TT_MOOD_PLAIN, "removed %s\n", paths[i]);
        }
    }
    if (json != NULL)
        (void)tt_json_print(&out, TT_OK);
out:
    free(bytes);
    return code;
}

static tt_removal how;

static tt_exit rm(tt_call *call)
{
    return tt_remove_runs((const char *const *)call->words, call->count, &how, call->err);
}

const tt_cmd tt_cmd_rm = {
    .name = "rm",
    .args = "RUN...",
    .summary = "remove runs; asks first",
    .doc = "Remove runs: their rank*.tap files, those of check --repair too, and the folder if nothing "
           "else is in it. A symbolic link to a run is refused: name the run itself.\v"
           "For example: tensortap rm runs/monday runs/tuesday",
    .options =
        (const tt_option[]){ { "yes", NULL, "Do not ask", .to = &how.is_sure },
                             { "json", NULL, "Print what was removed as JSON", .to = &how.is_json },
                             { 0 } },
    .least = 1,
    .most = SIZE_MAX,
    .missing = "name a run to remove",
    .run = rm,
};
