/* opened.c -- runs and names that the user gave.
 *
 * Exists so that all commands say the same when a run or a site is not there.
 * SPDX-License-Identifier: Apache-2.0 */
#include "opened.h"

#include "suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

tt_exit tt_opened_run(const char *path, tt_run **out, tt_error *err)
{
    struct stat about;
    if (stat(path, &about) < 0 && errno == ENOENT) {
        (void)snprintf(err->text, sizeof err->text,
                       "no run at '%.150s'; 'tensortap ls FOLDER' lists runs", path);
        return TT_EXIT_FAILED;
    }
    return tt_run_open(path, out, err) < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
}

bool tt_opened_has_site(const tt_run *run, const char *glob)
{
    for (int32_t i = 0; i < tt_run_site_count(run); i++)
        if (tt_glob_match(glob, tt_run_site_name(run, i)))
            return true;
    return false;
}

tt_exit tt_opened_no_site(const tt_run *run, const char *glob, tt_error *err)
{
    const char *near = NULL;
    size_t best = SIZE_MAX, len = strlen(glob);
    if (tt_run_site_count(run) == 0) {
        (void)snprintf(err->text, sizeof err->text, "nothing has been recorded in this run");
        return TT_EXIT_USAGE;
    }
    for (int32_t i = 0; i < tt_run_site_count(run); i++) {
        const char *name = tt_run_site_name(run, i), *found = strstr(name, glob);
        size_t distance = tt_suggest_distance(glob, name);
        if (found != NULL && len > 1) /* a part of it was given: its end is the better guess */
            distance = strlen(found) == len ? 1 : 2;
        else if (distance > 3 && distance > len / 4)
            continue;
        if (distance < best) {
            best = distance;
            near = name;
        }
    }
    char glob_text[128] = "", near_text[128] = "";
    tt_buf safe = { 0 };
    tt_style plain = { .is_ascii = false, .columns = 100 };
    if (tt_text_append(glob, &plain, &safe) == TT_OK && safe.len > 0)
        (void)snprintf(glob_text, sizeof glob_text, "%s", safe.data);
    tt_buf_free(&safe);
    if (near != NULL && tt_text_append(near, &plain, &safe) == TT_OK && safe.len > 0)
        (void)snprintf(near_text, sizeof near_text, "%s", safe.data);
    tt_buf_free(&safe);
    if (near != NULL)
        (void)snprintf(err->text, sizeof err->text, "no site matches '%s'; did you mean '%.100s'?",
                       glob_text, near_text);
    else
        (void)snprintf(err->text, sizeof err->text,
                       "no site matches '%s'; 'tensortap show RUN' lists them, * stands for anything",
                       glob_text);
    return TT_EXIT_USAGE;
}

const char *tt_opened_info(const tt_run *run, const char *key)
{
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        if (strcmp(tt_run_info_key(run, 0, i), key) == 0)
            return tt_run_info_value(run, 0, i);
    return NULL;
}

/* argv is a JSON list of strings: ["train.py", "--lr", "0.1"].  Whatever it holds
 * instead is shown as it is. */
tt_status tt_opened_command(const tt_run *run, tt_buf *out)
{
    const char *argv = tt_opened_info(run, "argv");
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

/* The writer holds a lock on its file as long as it lives. */
static bool is_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        (void)close(fd);
    return is_held;
}

tt_state tt_opened_state(const tt_run *run)
{
    tt_state state = TT_STATE_FINISHED;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file file;
        if (tt_run_file_get(run, f, &file) < 0 || file.is_closed)
            continue;
        if (is_locked(file.path))
            return TT_STATE_LIVE;
        state = TT_STATE_CRASHED;
    }
    return state;
}

const char *tt_opened_state_text(tt_state state)
{
    static const char *const texts[] = { "finished", "live", "crashed" };
    return texts[state];
}

void tt_opened_totals(const tt_run *run, tt_totals *out)
{
    *out = (tt_totals){ .last_step = -1 };
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file file;
        struct stat about;
        if (tt_run_file_get(run, f, &file) < 0)
            continue;
        out->bytes += file.bytes;
        out->points += file.points;
        out->dropped += file.dropped_events;
        out->damaged += file.damaged_bytes;
        if (file.last_step >= file.first_step) {
            bool is_first = out->last_step < out->first_step;
            out->first_step =
                is_first || file.first_step < out->first_step ? file.first_step : out->first_step;
            out->last_step =
                is_first || file.last_step > out->last_step ? file.last_step : out->last_step;
        }
        if (out->started == 0 && stat(file.path, &about) == 0)
            out->started = (int64_t)about.st_mtime * 1000000000;
    }
    const char *start = tt_opened_info(run, "start");
    struct tm parts = { 0 };
    if (start != NULL && strptime(start, "%Y-%m-%dT%H:%M:%S%z", &parts) != NULL) {
        long east = parts.tm_gmtoff; /* timegm takes no notice of it, and sets it */
        int64_t ns;
        if (!__builtin_mul_overflow((int64_t)timegm(&parts) - east, INT64_C(1000000000), &ns))
            out->started = ns;
    }
}

int64_t tt_opened_steps(const tt_totals *totals)
{
    int64_t steps;
    return __builtin_sub_overflow(totals->last_step, totals->first_step, &steps) || steps == INT64_MAX
               ? INT64_MAX
               : steps + 1;
}
