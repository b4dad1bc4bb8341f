/* rm.c -- tensortap rm RUN...; also removes for `ls --keep-last`.
 *
 * Exists because what is gone is gone: only files that begin as a run file does are
 * unlinked, those of `check --repair` too, and charts and black boxes.  The folder goes only if it
 * is then empty.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/json.h"
#include "runs/overview.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is the whole name of this form, which ends with %n? */
static bool is_of_form(const char *name, const char *form)
{
    int end = -1;
    return sscanf(name, form, &end) == 0 && end > 0 && name[end] == '\0';
}

bool tt_remove_is_tap(const char *name)
{
    return is_of_form(name, "rank%*9d.tap%n") || is_of_form(name, "rank%*9d.%*9d.tap%n");
}

/* Did `check --repair` write it? */
static bool is_repaired(const char *name)
{
    return is_of_form(name, "rank%*9d.repaired.tap%n") ||
           is_of_form(name, "rank%*9d.%*9d.repaired.tap%n");
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

/* Adds up the size of a file, if it is one of ours, and removes it if asked to. */
static tt_exit visit_file(const char *path, bool removes, int64_t *bytes, tt_error *err)
{
    tt_run *run;
    if (tt_run_open(path, &run, NULL) < 0)
        return TT_EXIT_FINE;
    *bytes += tt_overview_file(run, 0).bytes;
    tt_run_close(run);
    if (!removes || unlink(path) == 0)
        return TT_EXIT_FINE;
    return tt_cmd_fail(err, TT_EXIT_FAILED, "cannot remove %.150s: %s", path, strerror(errno));
}

static bool is_chart(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".svg") == 0 || strcmp(dot, ".png") == 0);
}

/* What `upload` has written down about a run is part of it. */
static void remove_notes_of_upload(const char *run)
{
    static const char *const names[] = { ".upload", ".upload.lock", ".upload.part" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = NULL; /* owned */
        if (asprintf(&path, "%s/%s", run, names[i]) >= 0)
            (void)unlink(path);
        free(path);
    }
}

/* The same for the pictures in the run's folder `charts`, and for that folder. */
static void visit_charts(const char *run, bool removes, int64_t *bytes)
{
    char *path = NULL;
    DIR *folder = asprintf(&path, "%s/charts", run) >= 0 && !is_link(path) ? opendir(path) : NULL;
    for (struct dirent *at; folder != NULL && (at = readdir(folder)) != NULL;) {
        struct stat about;
        if (!is_chart(at->d_name) ||
            fstatat(dirfd(folder), at->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(about.st_mode))
            continue;
        *bytes += about.st_size;
        if (removes)
            (void)unlinkat(dirfd(folder), at->d_name, 0);
    }
    if (folder != NULL) {
        (void)closedir(folder);
        if (removes)
            (void)rmdir(path);
    }
    free(path);
}

/* The same for the files of a run, and for its folder. */
static tt_exit visit_run(const char *path, bool removes, int64_t *bytes, tt_error *err)
{
    DIR *folder = opendir(path);
    tt_exit code = TT_EXIT_FINE;
    if (folder == NULL)
        return visit_file(path, removes, bytes, err);
    for (struct dirent *at; code == TT_EXIT_FINE && (at = readdir(folder)) != NULL;) {
        char *file = NULL;
        if ((!tt_remove_is_tap(at->d_name) && !is_repaired(at->d_name)) ||
            asprintf(&file, "%s/%s", path, at->d_name) < 0)
            continue;
        code = visit_file(file, removes, bytes, err);
        free(file);
    }
    (void)closedir(folder);
    tt_blackboxes boxes = { 0 };
    if (code == TT_EXIT_FINE) {
        tt_blackbox_visit(path, removes, &boxes);
        visit_charts(path, removes, bytes);
    }
    *bytes += boxes.bytes;
    if (code == TT_EXIT_FINE && removes)
        remove_notes_of_upload(path);
    if (code == TT_EXIT_FINE && removes && rmdir(path) < 0 && errno != ENOTEMPTY && errno != EEXIST)
        code = tt_cmd_fail(err, TT_EXIT_FAILED, "cannot remove the folder %.150s: %s", path,
                           strerror(errno));
    return code;
}

/* Looks at a run before anything is removed: how large it is, and whether it may be removed. */
static tt_exit weigh(const char *path, int64_t *bytes, tt_error *err)
{
    tt_run *run;
    if (is_link(path))
        return tt_cmd_fail(err, TT_EXIT_FAILED,
                           "%.150s is a symbolic link; nothing was removed. Name the run itself", path);
    tt_exit code = tt_overview_open(path, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    bool is_live = tt_run_state(run) == TT_STATE_LIVE;
    tt_run_close(run);
    if (is_live)
        return tt_cmd_fail(err, TT_EXIT_FAILED, "%.150s is being written; end its program first", path);
    return visit_run(path, false, bytes, err);
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

tt_exit tt_remove_runs(const tt_call *call, const char *const *paths, size_t count, bool is_sure)
{
    tt_error *err = call->err;
    int64_t all = 0;
    tt_exit code = TT_EXIT_FINE;
    for (size_t i = 0; code == TT_EXIT_FINE && i < count; i++) /* all of them, before the first goes */
        code = weigh(paths[i], &all, err);
    if (code != TT_EXIT_FINE)
        return code;
    const char *size = tt_screen_bytes(all), *plural = count == 1 ? "" : "s";
    if (count > 0 && !is_sure && isatty(STDIN_FILENO) != 1)
        return tt_cmd_fail(err, TT_EXIT_FAILED,
                           "would remove %zu run%s, %s; without a terminal to ask on, add --yes", count,
                           plural, size);
    bool goes_on = count > 0 && (is_sure || answer_is_yes(paths, count, size));
    tt_json *json = call->is_json ? tt_json_begin_schema("removed") : NULL;
    if (json == NULL && !goes_on)
        puts(count == 0 ? "nothing to remove" : "nothing was removed");
    for (size_t i = 0; goes_on && code == TT_EXIT_FINE && i < count; i++) {
        int64_t bytes = 0, removed = 0;
        code = weigh(paths[i], &bytes, err); /* again: the same run may be named twice */
        if (code == TT_EXIT_FINE)
            code = visit_run(paths[i], true, &removed, err);
        if (code == TT_EXIT_FINE && json != NULL) {
            tt_json_open(json, NULL, '{');
            tt_json_text(json, "run", paths[i]);
            tt_json_i64(json, "bytes", bytes);
            tt_json_close(json);
        } else if (code == TT_EXIT_FINE) {
            tt_screen_say(TT_MOOD_PLAIN, "removed %s\n", paths[i]);
        }
    }
    if (json != NULL)
        (void)tt_json_end(TT_OK);
    return code;
}

static bool is_sure; /* --yes */

static tt_exit rm(tt_call *call)
{
    return tt_remove_runs(call, (const char *const *)call->words, call->count, is_sure);
}

static const tt_option options[] = {
    { "yes", NULL, "Do not ask", .to = &is_sure },
};

const tt_cmd tt_cmd_rm = {
    TT_CMD("rm", "RUN...", "remove runs; asks first"),
    .doc =
        "Remove runs: their rank*.tap files, those of check --repair, charts and black boxes too, and "
        "the folder if nothing else is in it. A symbolic link to a run is refused: name the run itself.\v"
        "For example: tensortap rm runs/monday runs/tuesday",
    TT_OPTIONS(options),
    .json = "Print what was removed as JSON",
    .least = 1,
    .most = SIZE_MAX,
    .missing = "name a run to remove",
    .run = rm,
};
