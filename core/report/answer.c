/* answer.c -- answers: how they are made, and as JSON.
 *
 * Exists so that a report says what it found once, as a value, and whoever shows it (a terminal, a page, a
 * notebook, a test) only lays it out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/answer.h"
#include "base/buf.h"
#include "store/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tt_severity_text(tt_severity severity)
{
    static const char *const texts[] = { "note", "fine", "warning", "error" };
    return texts[severity];
}

static const char *likelihood_text(tt_likelihood likelihood)
{
    static const char *const texts[] = { "", "likely", "certain" };
    return texts[likelihood];
}

static const char *kind_text(tt_answer_kind kind)
{
#define X(name, text) text,
    static const char *const texts[] = { TT_ANSWER_KIND_MAP(X) };
#undef X
    return texts[kind];
}

/* ---- making them ------------------------------------------------------------ */

void tt_answers_free(tt_answers *answers)
{
    if (answers == NULL)
        return;
    if (answers->texts != NULL)
        tt_arena_free(answers->texts);
    free(answers->texts);
    free(answers->items);
    *answers = (tt_answers){ 0 };
}

void *tt_answers_alloc(tt_answers *answers, size_t bytes)
{
    if (answers->texts == NULL)
        answers->texts = calloc(1, sizeof *answers->texts);
    void *room = answers->texts != NULL ? tt_arena_alloc(answers->texts, bytes) : NULL;
    if (room == NULL)
        answers->st = TT_ENOMEM;
    return room;
}

const char *tt_answers_keep(tt_answers *answers, const char *text)
{
    size_t size = strlen(text) + 1;
    char *kept = tt_answers_alloc(answers, size);
    return kept != NULL ? memcpy(kept, text, size) : "";
}

const char *tt_answers_take(tt_answers *answers, tt_buf *text)
{
    const char *kept = tt_answers_keep(answers, text->st == TT_OK && text->len > 0 ? text->data : "");
    if (text->st < 0)
        answers->st = text->st;
    tt_buf_free(text);
    return kept;
}

const char *tt_answers_text(tt_answers *answers, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    char *kept = len >= 0 ? tt_answers_alloc(answers, (size_t)len + 1) : NULL;
    if (kept != NULL)
        (void)vsnprintf(kept, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return kept != NULL ? kept : "";
}

const char *tt_answers_word(tt_answers *answers, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/:=+@%,";
    if (*text != '\0' && strspn(text, plain) == strlen(text))
        return tt_answers_keep(answers, text);
    tt_buf word = { 0 };
    (void)tt_buf_text(&word, "'");
    for (const char *at = text; *at != '\0'; at++)
        (void)(*at == '\'' ? tt_buf_text(&word, "'\\''") : tt_buf_append(&word, at, 1));
    (void)tt_buf_text(&word, "'");
    return tt_answers_take(answers, &word);
}

void tt_answers_put(tt_answers *answers, const tt_answer *answer)
{
    tt_status st = tt_grow(&answers->items, &answers->cap, answers->count + 1, sizeof *answer);
    if (st == TT_OK)
        answers->items[answers->count++] = *answer;
    else
        answers->st = st;
}

void tt_answers_set_site(tt_answers *answers, tt_answer *of, const char *name, int32_t site)
{
    int32_t *sites = tt_answers_alloc(answers, sizeof *sites);
    const char **names = tt_answers_alloc(answers, sizeof *names);
    if (sites == NULL || names == NULL)
        return;
    *sites = site;
    *names = of->place = tt_answers_keep(answers, name);
    of->sites = sites;
    of->names = names;
    of->site_count = 1;
}

void tt_answers_set_ranks(tt_answers *answers, tt_answer *of, const int32_t *ranks, size_t count)
{
    int32_t *kept = tt_answers_alloc(answers, (count + 1) * sizeof *kept);
    if (kept != NULL && count > 0)
        memcpy(kept, ranks, count * sizeof *kept);
    of->ranks = kept;
    of->rank_count = kept != NULL ? count : 0;
}

void tt_answer_number(tt_answer *of, const char *name, double value)
{
    if (of->number_count == TT_NUMBERS_MOST)
        return;
    of->numbers[of->number_count].name = name;
    of->numbers[of->number_count++].value = value;
}

void tt_answers_next(tt_answers *answers, tt_answer *of, const char *format, ...)
{
    char command[4096];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (of->next_count < TT_NEXT_MOST && len > 0 &&
        (size_t)len < sizeof command) /* never half a command */
        of->next[of->next_count++] = tt_answers_keep(answers, command);
}

/* The folder of a run, or of its file. */
static tt_status append_folder(const tt_run *run, tt_buf *out)
{
    tt_run_file file = { 0 };
    if (tt_run_file_get(run, 0, &file) < 0)
        return TT_OK;
    const char *slash = strrchr(file.path, '/');
    return tt_buf_append(out, slash != NULL ? file.path : ".",
                         slash == NULL        ? 1
                         : slash == file.path ? 1
                                              : (size_t)(slash - file.path));
}

const char *tt_answers_run(tt_answers *answers, const tt_run *run, const char *path)
{
    tt_buf folder = { 0 };
    if (path != NULL && *path != '\0')
        return tt_answers_word(answers, path);
    if (!run->is_folder)
        return tt_answers_word(answers, run->taps[0]->path);
    (void)append_folder(run, &folder);
    return tt_answers_word(answers, tt_answers_take(answers, &folder));
}

/* A fact that a rank's file says of itself; NULL: it does not. */
static const char *find_info(const tt_tap *tap, const char *key)
{
    for (int32_t i = 0; i < tap->info_count; i++)
        if (strcmp(tap->info[2 * i], key) == 0)
            return tap->info[2 * i + 1];
    return NULL;
}

const char *tt_answers_position(tt_answers *answers, const tt_run *run, int32_t rank)
{
    const tt_tap *tap = NULL;
    const tt_mesh *widest = NULL;
    tt_buf text = { 0 };
    for (int32_t f = 0; f < run->count && tap == NULL; f++)
        tap = run->taps[f]->rank == rank ? run->taps[f] : NULL;
    for (int32_t i = 0; tap != NULL && i < tap->mesh_count; i++)
        if (widest == NULL || tap->meshes[i].mesh.ndim > widest->ndim)
            widest = &tap->meshes[i].mesh;
    const char *host = tap != NULL ? find_info(tap, "host") : NULL,
               *world = tap != NULL ? find_info(tap, "world_size") : NULL;
    bool has_ranks = run->taps[0]->rank != run->taps[run->count - 1]->rank;
    if (!has_ranks || (host == NULL && widest == NULL))
        return "";
    (void)tt_buf_printf(&text, "rank %d", (int)rank);
    if (world != NULL)
        (void)tt_buf_printf(&text, " of %.20s", world);
    if (host != NULL)
        (void)tt_buf_printf(&text, ", host %.100s", host);
    for (int32_t d = 0; widest != NULL && d < widest->ndim; d++)
        if (*widest->name[d] != '\0')
            (void)tt_buf_printf(&text, ", %s %d", widest->name[d], (int)widest->coordinate[d]);
    return tt_answers_take(answers, &text);
}

bool tt_answers_find_blackbox(tt_answers *answers, const tt_run *run, int64_t *step)
{
    tt_buf folder = { 0 };
    tt_blackboxes found = { 0 };
    (void)append_folder(run, &folder);
    tt_blackbox_visit(tt_answers_take(answers, &folder), false, &found);
    *step = found.first_step;
    return found.count > 0;
}

/* ---- JSON ------------------------------------------------------------------------ */

static void put_feed(tt_json *json, const tt_feed *feed)
{
    tt_buf line = { 0 };
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "role", tt_feed_text(feed->kind));
    tt_json_text(json, "site", feed->name);
    tt_json_i64(json, "step", feed->point.step);
    tt_json_text(json, "line", tt_point_line(&feed->point, &line) == TT_OK ? line.data : "");
    tt_json_close(json);
    tt_buf_free(&line);
}

static void put_lines(tt_json *json, const char *name, const char *text)
{
    tt_json_open(json, name, '[');
    for (const char *at = text; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, "\n");
        tt_buf line = { 0 };
        if (tt_buf_append(&line, at, len) == TT_OK)
            tt_json_text(json, NULL, line.data);
        tt_buf_free(&line);
        at += len + (at[len] != '\0');
    }
    tt_json_close(json);
}

void tt_answer_json(tt_json *json, const tt_answer *a, size_t most)
{
    tt_json_text(json, "kind", kind_text(a->kind));
    tt_json_text(json, "severity", tt_severity_text(a->severity));
    tt_json_text(json, "likelihood", likelihood_text(a->likelihood));
    tt_json_text(json, "rule", a->rule);
    tt_json_text(json, "place", a->place != NULL ? a->place : "");
    tt_json_text(json, "sentence", a->sentence);
    put_lines(json, "detail", a->detail);
    tt_json_text(json, "remedy", a->remedy != NULL ? a->remedy : "");
    tt_json_text(json, "code", a->code != NULL ? a->code : "");
    tt_json_text(json, "follows", a->follows != NULL ? a->follows : "");
    tt_json_i64(json, "follow_count", (int64_t)a->follow_count);
    tt_json_open(json, "sites", '[');
    for (size_t i = 0; i < a->site_count && i < most; i++)
        tt_json_text(json, NULL, a->names[i]);
    tt_json_close(json);
    tt_json_i64(json, "site_count", (int64_t)a->site_count);
    tt_json_i64(json, "first_step", a->first_step);
    tt_json_i64(json, "last_step", a->last_step);
    tt_json_i64(json, "call", a->call);
    tt_json_i64(json, "rank", a->rank_count == 1 ? a->ranks[0] : -1);
    tt_json_open(json, "ranks", '[');
    for (size_t i = 0; i < a->rank_count; i++)
        tt_json_i64(json, NULL, a->ranks[i]);
    tt_json_close(json);
    tt_json_open(json, "numbers", '{');
    for (size_t i = 0; i < a->number_count; i++)
        tt_json_f64(json, a->numbers[i].name, a->numbers[i].value);
    tt_json_close(json);
    tt_json_open(json, "feeds", '[');
    for (size_t i = 0; i < a->feed_count; i++)
        put_feed(json, &a->feeds[i]);
    tt_json_close(json);
    tt_json_open(json, "next", '[');
    for (size_t i = 0; i < a->next_count; i++)
        tt_json_text(json, NULL, a->next[i]);
    tt_json_close(json);
}
