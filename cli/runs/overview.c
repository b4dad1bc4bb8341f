/* overview.c -- what the commands share about a run: opening it, names that match nothing, its
 * state, its size, and the lines about it that show, nan and top begin with.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/overview.h"
#include "output/findings.h"
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

tt_exit tt_overview_open(const char *path, tt_run **out, tt_error *err)
{
    struct stat about;
    const char *mirror = tt_python_mirror(path);
    path = mirror != NULL ? mirror : path;
    if (stat(path, &about) < 0 && errno == ENOENT)
        return tt_cmd_fail(err, TT_EXIT_FAILED, "no run at '%.150s'; 'tensortap ls FOLDER' lists runs",
                           path);
    return tt_cmd_exit(tt_run_open(path, out, err), err);
}

tt_run *tt_overview_join(tt_run *run)
{
    tt_run *joined = NULL;
    return tt_run_join(run, &joined, NULL) == TT_OK ? joined : NULL;
}

int32_t tt_overview_left_out(const tt_run *run, const tt_run *joined, const char *glob)
{
    int32_t count = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++)
        count += tt_site_is_shown(tt_run_site_name(run, site), glob) && tt_run_has_points(run, site) &&
                 !tt_run_has_points(joined, site);
    return count;
}

tt_exit tt_overview_open_rank(const char *folder, const char *path, tt_run **out, tt_error *err)
{
    struct stat about;
    if (stat(path, &about) == 0)
        return tt_cmd_exit(tt_run_open(path, out, err), err);
    tt_run *all = NULL;
    tt_exit code = tt_overview_open(folder, &all, err);
    if (code == TT_EXIT_FINE)
        code = tt_cmd_fail(err, TT_EXIT_USAGE, "this run has no such rank; it has %s",
                           tt_overview_ranks(all));
    tt_run_close(all);
    return code;
}

static void say_left_out(tt_buf *out, int64_t points, const char *why)
{
    if (points > 0)
        (void)tt_buf_printf(out, "; %lld point%s left out: %s", (long long)points, points == 1 ? "" : "s",
                            why);
}

const char *tt_overview_joined(const tt_run *run, int32_t site)
{
    static char text[400];
    const tt_joined_site *j = tt_run_joined(run, site);
    tt_buf out = { 0 };
    if (j == NULL || j->ranks < 2)
        return NULL;
    if (j->parts > 1)
        (void)tt_buf_printf(&out, "joined from %d parts on %d ranks", (int)j->parts, (int)j->ranks);
    else
        (void)tt_buf_printf(&out, "%s on %d ranks",
                            j->unplaced > 0 ? "of the lowest rank; recorded"
                            : j->points > 0 ? "the same"
                                            : "recorded",
                            (int)j->ranks);
    say_left_out(&out, j->incomplete, "parts are missing");
    if (j->incomplete > 0)
        (void)tt_buf_printf(&out, " (%d of %d there)", (int)j->found, (int)j->parts);
    say_left_out(&out, j->partial, "addends of a sum that was still to be made");
    say_left_out(&out, j->unknown, "it is not known how they belong together");
    if (j->unequal > 0)
        (void)tt_buf_printf(&out, "; ranks differ in %lld points, from step %lld on",
                            (long long)j->unequal, (long long)j->first_unequal);
    (void)snprintf(text, sizeof text, "%s", out.data != NULL ? out.data : "");
    tt_buf_free(&out);
    return text;
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
#define SEPARATORS "*?,/."

/* Returns the site whose name is nearest to the pattern; NULL: none is near. */
static const char *near_site(const tt_run *run, const char *glob)
{
    const char *near = NULL;
    size_t best = SIZE_MAX, len = strlen(glob);
    for (int32_t i = 0; i < tt_run_site_count(run); i++) {
        const char *name = tt_run_site_name(run, i), *found = strstr(name, glob);
        size_t distance = tt_words_distance(glob, len, name, strlen(name));
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

/* Moves to the next word of a name or a pattern, which is *len long; false: there is none. */
static bool next_word(const char **at, size_t *len)
{
    *at += *len;
    *at += strspn(*at, SEPARATORS);
    *len = strcspn(*at, SEPARATORS);
    return *len > 0;
}

/* Finds the pattern with its one misspelt word put right: a word of a name in its place that is
 * near, and then the pattern matches something.  "": there is none. */
static void near_glob(const tt_run *run, const char *glob, char out[GLOB_LONGEST])
{
    size_t best = SIZE_MAX, typed_len = 0, len;
    out[0] = '\0';
    for (const char *typed = glob; strlen(glob) < GLOB_LONGEST / 2 && next_word(&typed, &typed_len);)
        for (int32_t i = 0; typed_len > 1 && i < tt_run_site_count(run); i++) {
            len = 0;
            for (const char *word = tt_run_site_name(run, i); next_word(&word, &len);) {
                size_t distance = tt_words_distance(typed, typed_len, word, len);
                if (distance == 0 || distance >= best || distance > 1 + typed_len / 3 ||
                    distance >= typed_len)
                    continue;
                const char *changed = tt_screen_text("%.*s%.*s%s", (int)(typed - glob), glob, (int)len,
                                                     word, typed + typed_len);
                if (strlen(changed) < GLOB_LONGEST && tt_overview_has_site(run, changed)) {
                    best = distance;
                    strcpy(out, changed);
                }
            }
        }
}

tt_exit tt_overview_no_site(const tt_run *run, const char *glob, tt_error *err)
{
    if (tt_run_site_count(run) == 0)
        return tt_cmd_fail(err, TT_EXIT_USAGE, "nothing has been recorded in this run");
    char pattern[GLOB_LONGEST];
    near_glob(run, glob, pattern);
    const char *near = *pattern != '\0' ? pattern : near_site(run, glob);
    if (near == NULL)
        return tt_cmd_fail(
            err, TT_EXIT_USAGE,
            "no site matches '%.99s'; 'tensortap show RUN' lists them, * stands for anything", glob);
    return tt_cmd_fail(err, TT_EXIT_USAGE, "no site matches '%.99s'; did you mean '%.99s'?", glob, near);
}

bool tt_overview_is_private(void)
{
    const char *wish = getenv("TENSORTAP_PRIVATE");
    return wish != NULL && *wish != '\0' && strcmp(wish, "0") != 0;
}

tt_run_file tt_overview_file(const tt_run *run, int32_t file)
{
    tt_run_file about = { .rank = -1 };
    (void)tt_run_file_get(run, file, &about);
    return about;
}

/* Is it the first file of its rank?  Files come by rank. */
static bool starts_rank(const tt_run *run, int32_t f)
{
    return f == 0 || tt_overview_file(run, f).rank != tt_overview_file(run, f - 1).rank;
}

int32_t tt_overview_rank_count(const tt_run *run)
{
    int32_t count = 0;
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        count += starts_rank(run, f);
    return count;
}

int32_t tt_overview_rank(const tt_run *run, int32_t file)
{
    return tt_overview_rank_count(run) > 1 ? tt_overview_file(run, file).rank : -1;
}

int32_t tt_overview_whose(const tt_run *run, int32_t file)
{
    return tt_run_joined(run, 0) != NULL ? -1 : tt_overview_file(run, file).rank;
}

const char *tt_overview_ranks(const tt_run *run)
{
    int32_t files = tt_run_file_count(run), count = 0;
    int32_t *ranks = malloc((size_t)(files > 0 ? files : 1) * sizeof *ranks); /* owned */
    tt_buf text = { 0 };
    for (int32_t f = 0; ranks != NULL && f < files; f++)
        if (starts_rank(run, f))
            ranks[count++] = tt_overview_file(run, f).rank;
    if (ranks != NULL)
        (void)tt_ranks_append(ranks, (size_t)count, &text);
    const char *shown = tt_screen_text("%.140s", text.len > 0 ? text.data : "");
    tt_buf_free(&text);
    free(ranks);
    return shown;
}

int64_t tt_overview_steps(const tt_totals *totals)
{
    int64_t steps;
    return __builtin_sub_overflow(totals->last_step, totals->first_step, &steps) || steps == INT64_MAX
               ? INT64_MAX
               : steps + 1;
}

/* ---- the first lines about a run ------------------------------------------- */

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

int tt_overview_print(const char *path, const tt_run *run)
{
    const tt_totals totals = tt_run_totals(run);
    tt_state state = tt_run_state(run);
    bool is_broken = state == TT_STATE_CRASHED || state == TT_STATE_STOPPED;
    int32_t shown = tt_run_shown_count(run, NULL);
    tt_screen_say(TT_MOOD_PLAIN, "%s  ", path);
    tt_screen_say(is_broken ? TT_MOOD_REMARK : TT_MOOD_SPARK, "%s", tt_state_text(state));
    if (totals.last_step >= totals.first_step)
        printf("  steps %lld to %s", (long long)totals.first_step, tt_screen_count(totals.last_step));
    printf("  %s site%s  %s points  %s", tt_screen_count(shown), shown == 1 ? "" : "s",
           tt_screen_count(totals.points), tt_screen_bytes(totals.bytes));
    if (tt_overview_rank_count(run) > 1)
        printf("  %s", tt_overview_ranks(run));
    putchar('\n');
    int lines = 1;
    tt_answers fate = { 0 };
    if (tt_run_fate(run, path, 0, &fate) == TT_OK)
        for (size_t i = 0; i < fate.count; i++)
            lines += tt_answer_print(&fate.items[i], TT_EXTENT_ALL);
    tt_answers_free(&fate);
    tt_buf command = { 0 };
    if (tt_run_command(run, &command) == TT_OK && command.len > 0)
        lines += print_line(TT_MOOD_FAINT, command.data);
    tt_buf_free(&command);
    fflush(stdout); /* the rest may take a moment */
    return lines;
}
