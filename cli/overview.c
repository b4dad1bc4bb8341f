/* overview.c -- what the commands share about a run: opening it, names that match nothing, its
 * state, its size, and the lines about it that show, nan and top begin with.
 * SPDX-License-Identifier: Apache-2.0 */
#include "overview.h"

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

tt_exit tt_overview_open(const char *path, tt_run **out, tt_error *err)
{
    struct stat about;
    if (stat(path, &about) < 0 && errno == ENOENT)
        return tt_cmd_fail(err, TT_EXIT_FAILED, "no run at '%.150s'; 'tensortap ls FOLDER' lists runs",
                           path);
    return tt_cmd_exit(tt_run_open(path, out, err), err);
}

bool tt_overview_has_site(const tt_run *run, const char *glob)
{
    for (int32_t i = 0; i < tt_run_site_count(run); i++)
        if (tt_glob_match(glob, tt_run_site_name(run, i)))
            return true;
    return false;
}

/* ---- names that were probably meant --------------------------------------- */

enum { GLOB_LONGEST = 200 };

/* Returns the site whose name is nearest to the pattern; NULL: none is near. */
static const char *near_site(const tt_run *run, const char *glob)
{
    const char *near = NULL;
    size_t best = SIZE_MAX, len = strlen(glob);
    for (int32_t i = 0; i < tt_run_site_count(run); i++) {
        const char *name = tt_run_site_name(run, i), *found = strstr(name, glob);
        size_t distance = tt_suggest_distance(glob, name);
        if (found != NULL && len > 1) /* it is in the name: best at its end */
            distance = strlen(found) == len ? 1 : 2;
        else if (distance > 3 && distance > len / 4)
            continue;
        if (distance < best) {
            best = distance;
            near = name;
        }
    }
    return near;
}

/* Characters up to the next that separates words of names and patterns. */
static size_t word_len(const char *text)
{
    return strcspn(text, "*?,/.");
}

/* The pattern with the word at `at` in exchange for one of `name`, if that is nearer than *best
 * and the pattern then matches something. */
static void try_words(const tt_run *run, const char *glob, size_t at, const char *name, size_t *best,
                      char out[GLOB_LONGEST])
{
    char shared[GLOB_LONGEST], word[GLOB_LONGEST], changed[GLOB_LONGEST];
    size_t len = word_len(glob + at);
    (void)snprintf(shared, sizeof shared, "%.*s", (int)len, glob + at);
    for (const char *part = name; *part != '\0';) {
        size_t part_len = word_len(part);
        (void)snprintf(word, sizeof word, "%.*s", (int)(part_len < GLOB_LONGEST ? part_len : 0), part);
        size_t distance = part_len > 0 ? tt_suggest_distance(shared, word) : SIZE_MAX;
        bool is_near = distance > 0 && distance < *best && distance <= 1 + len / 3 && distance < len;
        if (is_near &&
            snprintf(changed, sizeof changed, "%.*s%s%s", (int)at, glob, word, glob + at + len) <
                GLOB_LONGEST &&
            tt_overview_has_site(run, changed)) {
            *best = distance;
            memcpy(out, changed, sizeof changed);
        }
        part += part_len + (part[part_len] != '\0');
    }
}

/* The pattern with its one misspelt word put right; "": it has none. */
static void near_glob(const tt_run *run, const char *glob, char out[GLOB_LONGEST])
{
    size_t best = SIZE_MAX;
    out[0] = '\0';
    if (strlen(glob) >= GLOB_LONGEST / 2)
        return;
    for (size_t at = 0; glob[at] != '\0';
         at += word_len(glob + at) + (glob[at + word_len(glob + at)] != '\0'))
        for (int32_t i = 0; word_len(glob + at) > 1 && i < tt_run_site_count(run); i++)
            try_words(run, glob, at, tt_run_site_name(run, i), &best, out);
}

/* Copies untrusted text, escaped and short enough for a message. */
static void quote(const char *text, char *out, size_t room)
{
    tt_buf safe = { 0 };
    const tt_style plain = { .columns = 100 };
    out[0] = '\0';
    if (tt_text_append(text, &plain, &safe) == TT_OK && safe.len > 0)
        (void)snprintf(out, room, "%s", safe.data);
    tt_buf_free(&safe);
}

tt_exit tt_overview_no_site(const tt_run *run, const char *glob, tt_error *err)
{
    if (tt_run_site_count(run) == 0)
        return tt_cmd_fail(err, TT_EXIT_USAGE, "nothing has been recorded in this run");
    char pattern[GLOB_LONGEST] = "", glob_text[100], near_text[100];
    near_glob(run, glob, pattern);
    const char *near = *pattern != '\0' ? pattern : near_site(run, glob);
    quote(glob, glob_text, sizeof glob_text);
    if (near == NULL)
        return tt_cmd_fail(err, TT_EXIT_USAGE,
                           "no site matches '%s'; 'tensortap show RUN' lists them, * stands for anything",
                           glob_text);
    quote(near, near_text, sizeof near_text);
    return tt_cmd_fail(err, TT_EXIT_USAGE, "no site matches '%s'; did you mean '%s'?", glob_text,
                       near_text);
}

const char *tt_overview_info(const tt_run *run, const char *key)
{
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        if (strcmp(tt_run_info_key(run, 0, i), key) == 0)
            return tt_run_info_value(run, 0, i);
    return NULL;
}

/* argv is a JSON list of strings: ["train.py", "--lr", "0.1"].  Whatever it holds
 * instead is shown as it is. */
tt_status tt_overview_command(const tt_run *run, tt_buf *out)
{
    const char *argv = tt_overview_info(run, "argv");
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

tt_state tt_overview_state(const tt_run *run)
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
    return state == TT_STATE_FINISHED && tt_overview_stop(run) != NULL ? TT_STATE_STOPPED : state;
}

const char *tt_overview_stop(const tt_run *run)
{
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file file;
        if (tt_run_file_get(run, f, &file) == TT_OK && file.stopped != NULL)
            return file.stopped;
    }
    return NULL;
}

/* The rank of a file, if it is the first of that rank; -1: an earlier one is.  Files come by
 * rank. */
static int32_t new_rank(const tt_run *run, int32_t f)
{
    tt_run_file file = { 0 }, before = { .rank = -1 };
    (void)tt_run_file_get(run, f, &file);
    if (f > 0)
        (void)tt_run_file_get(run, f - 1, &before);
    return file.rank != before.rank ? file.rank : -1;
}

int32_t tt_overview_rank_count(const tt_run *run)
{
    int32_t count = 0;
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        count += new_rank(run, f) >= 0;
    return count;
}

int32_t tt_overview_rank(const tt_run *run, int32_t file)
{
    tt_run_file about;
    return tt_overview_rank_count(run) > 1 && tt_run_file_get(run, file, &about) == TT_OK ? about.rank
                                                                                          : -1;
}

const char *tt_overview_ranks(const tt_run *run, char *out, size_t room)
{
    int32_t count = tt_overview_rank_count(run), first = -1, last = -1;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        int32_t rank = new_rank(run, f);
        first = first < 0 ? rank : first;
        last = rank >= 0 ? rank : last;
    }
    int at = snprintf(out, room, count > 1 ? "ranks %d" : "rank %d", (int)first);
    if (count > 2 && last - first == count - 1) {
        (void)snprintf(out + at, room - (size_t)at, " to %d", (int)last);
        return out;
    }
    for (int32_t f = 1; f < tt_run_file_count(run) && at > 0 && (size_t)at + 20 < room; f++)
        if (new_rank(run, f) >= 0)
            at += snprintf(out + at, room - (size_t)at, ", %d", (int)new_rank(run, f));
    return out;
}

const char *tt_overview_state_text(tt_state state)
{
    static const char *const texts[] = { "finished", "live", "crashed", "stopped" };
    return texts[state];
}

void tt_overview_totals(const tt_run *run, tt_totals *out)
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
    const char *start = tt_overview_info(run, "start");
    struct tm parts = { 0 };
    if (start != NULL && strptime(start, "%Y-%m-%dT%H:%M:%S%z", &parts) != NULL) {
        long east = parts.tm_gmtoff; /* timegm takes no notice of it, and sets it */
        int64_t ns;
        if (!__builtin_mul_overflow((int64_t)timegm(&parts) - east, INT64_C(1000000000), &ns))
            out->started = ns;
    }
}

int64_t tt_overview_steps(const tt_totals *totals)
{
    int64_t steps;
    return __builtin_sub_overflow(totals->last_step, totals->first_step, &steps) || steps == INT64_MAX
               ? INT64_MAX
               : steps + 1;
}

/* ---- the first lines about a run ------------------------------------------- */

static const char untrained[] = " require gradients but no optimizer updates them"; /* runs/steps.py */

const char *tt_overview_untrained(const tt_run *run)
{
    static const char taken_back[] = "all parameters that require gradients are updated by an optimizer";
    const char *found = NULL;
    tt_note note;
    for (int32_t i = 0; tt_run_note(run, 0, i, &note) == TT_OK; i++) {
        size_t len = strlen(note.text);
        if (len > strlen(untrained) && strcmp(note.text + len - strlen(untrained), untrained) == 0)
            found = note.text;
        else if (strcmp(note.text, taken_back) == 0)
            found = NULL;
    }
    return found;
}

/* Prints untrusted text on a line, cut to the width of the terminal; returns 1. */
static int print_line(tt_mood mood, const char *untrusted)
{
    tt_buf text = { 0 };
    if (tt_text_append(untrusted, &tt_terminal.style, &text) == TT_OK && text.len > 0)
        tt_screen_say(mood, "%s", text.data);
    putchar('\n');
    tt_buf_free(&text);
    return 1;
}

/* Prints the names and what is wrong with them, on two lines if one would be cut. */
static int print_untrained(const char *text)
{
    int32_t columns = tt_terminal.style.columns;
    if (columns == 0 || strlen(text) <= (size_t)columns)
        return print_line(TT_MOOD_REMARK, text);
    char *names = strndup(text, strlen(text) - strlen(untrained)); /* owned */
    int lines = names != NULL ? print_line(TT_MOOD_REMARK, names) : 0;
    free(names);
    return lines + print_line(TT_MOOD_REMARK, untrained);
}

int tt_overview_print(const char *path, const tt_run *run)
{
    tt_totals totals;
    tt_overview_totals(run, &totals);
    char points[TT_NUMBER_TEXT], bytes[TT_NUMBER_TEXT], sites[TT_NUMBER_TEXT], last[TT_NUMBER_TEXT];
    tt_state state = tt_overview_state(run);
    bool is_broken = state == TT_STATE_CRASHED || state == TT_STATE_STOPPED;
    tt_screen_name(path);
    fputs("  ", stdout);
    tt_screen_say(is_broken ? TT_MOOD_REMARK : TT_MOOD_SPARK, "%s", tt_overview_state_text(state));
    if (totals.last_step >= totals.first_step)
        printf("  steps %lld to %s", (long long)totals.first_step,
               tt_screen_count(totals.last_step, last));
    int32_t shown = tt_run_shown_count(run, NULL);
    printf("  %s site%s  %s points  %s", tt_screen_count(shown, sites), shown == 1 ? "" : "s",
           tt_screen_count(totals.points, points), tt_screen_bytes(totals.bytes, bytes));
    char ranks[160];
    if (tt_overview_rank_count(run) > 1)
        printf("  %s", tt_overview_ranks(run, ranks, sizeof ranks));
    putchar('\n');
    int lines = 1;
    if (state == TT_STATE_STOPPED)
        lines += print_line(TT_MOOD_REMARK, tt_overview_stop(run));
    if (totals.damaged > 0) {
        tt_screen_say(TT_MOOD_ALARM, "%s of it cannot be read; 'tensortap check' says more",
                      tt_screen_bytes(totals.damaged, bytes));
        putchar('\n');
        lines++;
    }
    if (totals.dropped > 0) {
        tt_screen_say(TT_MOOD_REMARK, "%s events were dropped while recording",
                      tt_screen_count(totals.dropped, points));
        putchar('\n');
        lines++;
    }
    tt_buf command = { 0 };
    if (tt_overview_command(run, &command) == TT_OK && command.len > 0)
        lines += print_line(TT_MOOD_FAINT, command.data);
    tt_buf_free(&command);
    if (tt_overview_untrained(run) != NULL)
        lines += print_untrained(tt_overview_untrained(run));
    fflush(stdout); /* the rest may take a moment */
    return lines;
}
