/* ending.c -- what became of a run: which rank raised first, which only followed, which are dead, missing or late;
 * what is damaged, what was dropped, what can be run again.
 *
 * Exists because an exception on one rank makes collectives of the others fail, and theirs is what people see.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/answer.h"
#include "store/run.h"
#include "tensortap_tools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { TEXT_MOST = 400, RANKS_MOST = 1 << 20 };

enum { SILENT = 10 }; /* seconds after which a live run waits for something */

typedef enum fate { GOES_ON, ENDED, RAISED, FOLLOWED, DEAD, GONE, MISSING, LEFT_OUT, FATE_COUNT_ } fate;

typedef struct rank_end {
    fate fate;
    int32_t file; /* -1: none */
    int64_t last_step;
} rank_end;

tt_status tt_ranks_append(const int32_t *ranks, size_t count, tt_buf *out)
{
    (void)tt_buf_text(out, count == 1 ? "rank " : "ranks ");
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && ranks[to] == ranks[to - 1] + 1;)
            to++;
        if (to - from == 2) /* "0, 1", not "0 to 1" */
            to--;
        (void)tt_buf_printf(out, "%s%d", from > 0 ? ", " : "", (int)ranks[from]);
        if (to - from > 1)
            (void)tt_buf_printf(out, " to %d", (int)ranks[to - 1]);
    }
    return out->st;
}

static const char *find_info(const tt_run *run, int32_t f, const char *key)
{
    for (int32_t i = 0; tt_run_info_key(run, f, i) != NULL; i++)
        if (strcmp(tt_run_info_key(run, f, i), key) == 0)
            return tt_run_info_value(run, f, i);
    return NULL;
}

/* The number of ranks that the job had, by its files; 0: only one recorded. */
static int32_t count_ranks(const tt_run *run)
{
    int32_t world = 0;
    if (run->count < 2 || run->taps[0]->rank == run->taps[run->count - 1]->rank)
        return 0; /* files come by rank */
    for (int32_t f = 0; f < run->count; f++) {
        if (run->taps[f]->rank >= RANKS_MOST)
            return 0;
        world = run->taps[f]->rank >= world ? run->taps[f]->rank + 1 : world;
        const char *text = find_info(run, f, "world_size");
        long size = text != NULL ? strtol(text, NULL, 10) : 0;
        world = size > world && size < RANKS_MOST ? (int32_t)size : world;
    }
    return world;
}

/* With how many ranks a run went on that was resumed; INT32_MAX: it was not. */
static int32_t count_resumed(const tt_run *run)
{
    int64_t latest = -1;
    int32_t world = INT32_MAX;
    for (int32_t f = 0; f < run->count; f++) {
        const char *resumed = find_info(run, f, "resumed"); /* launch and step */
        const char *step = resumed != NULL ? strrchr(resumed, ' ') : NULL;
        const char *size = find_info(run, f, "world_size");
        if (step == NULL || size == NULL || strtoll(step, NULL, 10) <= latest)
            continue;
        latest = strtoll(step, NULL, 10);
        world = (int32_t)strtol(size, NULL, 10);
    }
    return world;
}

/* Which ranks were to record, such as "0-7,12"; NULL: all. */
static const char *chosen_ranks(const tt_run *run)
{
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        if (strcmp(tt_run_info_key(run, 0, i), "recorded_ranks") == 0)
            return tt_run_info_value(run, 0, i);
    return NULL;
}

static bool is_among(const char *ranks, int32_t rank)
{
    while (*ranks != '\0') {
        char *end;
        long first = strtol(ranks, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (end == ranks || (first <= rank && rank <= last))
            return true; /* or it cannot be read */
        ranks = *end == ',' ? end + 1 : end;
    }
    return false;
}

static fate fate_of(const tt_run_file *file, bool is_live)
{
    if (file->stopped != NULL)
        return tt_stop_is_consequence(file->stopped) ? FOLLOWED : RAISED;
    return file->is_closed ? ENDED : is_live ? GOES_ON : DEAD;
}

/* The ranks that ended so. */
static void list_group(const rank_end *ends, int32_t world, fate which, int32_t *ranks, size_t *count)
{
    *count = 0;
    for (int32_t rank = 0; rank < world; rank++)
        if (ends[rank].fate == which)
            ranks[(*count)++] = rank;
}

/* The first line of the exception that ended a rank. */
static const char *stop_of(const tt_run *run, const rank_end *end, tt_answers *out)
{
    tt_run_file file = { 0 };
    (void)tt_run_file_get(run, end->file, &file);
    const char *text = file.stopped != NULL ? file.stopped : "";
    size_t len = strcspn(text, "\n");
    return tt_answers_text(out, "%.*s", len < TEXT_MOST ? (int)len : TEXT_MOST, text);
}

/* Adds an answer about ranks: "ranks 0, 2 to 3 " and what became of them, for one or for several. */
static void add(tt_answers *out, const char *path, tt_severity severity, const char *rule,
                const int32_t *ranks, size_t count, int64_t step, const char *one, const char *several,
                const char *rest)
{
    tt_answer found = TT_ANSWER(FAULT, WARNING, .rule = rule);
    tt_buf text = { 0 };
    (void)tt_ranks_append(ranks, count, &text);
    (void)tt_buf_printf(&text, "%s%s", count == 1 ? one : several, rest);
    found.severity = severity;
    found.sentence = tt_answers_take(out, &text);
    found.last_step = step;
    tt_answers_set_ranks(out, &found, ranks, count);
    if (strcmp(rule, "missing") != 0 &&
        strcmp(rule, "not-recorded") != 0) /* nothing of it was recorded */
        tt_answers_next(out, &found, "tensortap show %s --rank %d", path, (int)ranks[0]);
    tt_answers_put(out, &found);
}

/* The smallest last step above `above` among these ranks; INT64_MAX: none. */
static int64_t next_last(const rank_end *ends, const int32_t *ranks, size_t count, int64_t above)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < count; i++)
        if (ends[ranks[i]].last_step > above && ends[ranks[i]].last_step < least)
            least = ends[ranks[i]].last_step;
    return least;
}

static void append_group(const rank_end *ends, const int32_t *ranks, size_t count, int64_t step,
                         tt_buf *out)
{
    int32_t *same = malloc(count * sizeof *same); /* owned */
    size_t of = 0;
    for (size_t i = 0; same != NULL && i < count; i++)
        if (ends[ranks[i]].last_step == step)
            same[of++] = ranks[i];
    (void)tt_buf_printf(out, "%" PRId64 " (", step);
    (void)tt_ranks_append(same, of, out);
    (void)tt_buf_text(out, ")");
    free(same);
}

/* ", the last step is 11", or "; the last recorded steps are 11 (rank 5), 12 (ranks 0 to 4)": a rank that is killed
 * loses up to half a second of what it has seen. */
static const char *say_last(const rank_end *ends, const int32_t *ranks, size_t count, const char *mark,
                            tt_answers *out)
{
    enum { NAMED = 3 };
    int64_t first = next_last(ends, ranks, count, -1), last = first, step = first;
    if (first == INT64_MAX)
        return tt_answers_text(out, "%s nothing is recorded", mark);
    for (size_t i = 0; i < count; i++)
        last = ends[ranks[i]].last_step > last ? ends[ranks[i]].last_step : last;
    if (first == last)
        return tt_answers_text(out, "%s the last step is %" PRId64, mark, last);
    tt_buf text = { 0 };
    (void)tt_buf_printf(&text, "%s the last recorded steps are ", *mark == ',' ? ";" : mark);
    int groups = 0;
    for (; step != INT64_MAX && groups <= NAMED; groups++)
        step = next_last(ends, ranks, count, step);
    bool is_range = groups > NAMED;
    for (step = first; step != INT64_MAX;
         step = is_range && step == first ? last : next_last(ends, ranks, count, step)) {
        (void)tt_buf_text(&text, step == first ? "" : is_range ? " to " : ", ");
        append_group(ends, ranks, count, step, &text);
    }
    return tt_answers_take(out, &text);
}

/* Far behind the others, although it did not end before them; behind at all, if all of them wait. */
static bool is_late(const rank_end *end, int64_t first, int64_t last, bool is_live, bool is_silent)
{
    int64_t behind, span;
    if (__builtin_sub_overflow(last, end->last_step, &behind) ||
        __builtin_sub_overflow(last, first, &span))
        return false; /* steps that nobody counted */
    if (is_live && is_silent)
        return end->fate == GOES_ON && behind > 0;
    if (end->fate == GOES_ON && end->last_step < 0)
        return false; /* it has just begun */
    return (end->fate == GOES_ON || end->fate == ENDED) && behind > 2 &&
           behind > (is_live ? span / 2 : span / 10);
}

/* For how many seconds no file was written. */
static int64_t silence_of(const tt_run *run)
{
    time_t latest = 0;
    for (int32_t f = 0; f < run->count; f++) {
        struct stat about;
        if (stat(run->taps[f]->path, &about) == 0 && about.st_mtime > latest)
            latest = about.st_mtime;
    }
    return latest > 0 ? (int64_t)(time(NULL) - latest) : 0;
}

static void add_late(const tt_run *run, const rank_end *ends, int32_t world, int32_t *ranks, bool is_live,
                     const char *path, tt_answers *out)
{
    const tt_totals totals = tt_run_totals(run);
    int64_t silence = is_live ? silence_of(run) : 0;
    size_t count = 0;
    for (int32_t rank = 0; rank < world; rank++)
        if (is_late(&ends[rank], totals.first_step, totals.last_step, is_live, silence >= SILENT))
            ranks[count++] = rank;
    if (count == 0)
        return;
    const char *waits =
        silence >= SILENT ? tt_answers_text(out, "; no rank has written for %" PRId64 " s", silence) : "";
    add(out, path, TT_SEVERITY_WARNING, "late", ranks, count, ends[ranks[0]].last_step, " is late",
        " are late",
        tt_answers_text(out, "%s, of others %" PRId64 "%s", say_last(ends, ranks, count, ":", out),
                        totals.last_step, waits));
}

static void add_ranks(const tt_run *run, const rank_end *ends, int32_t world, int32_t *ranks,
                      bool is_live, const char *path, tt_answers *out)
{
    int32_t cause = tt_run_stopped_first(run), first = cause >= 0 ? run->taps[cause]->rank : -1;
    size_t count;
    const tt_severity worse = first >= 0 ? TT_SEVERITY_ERROR : TT_SEVERITY_WARNING;
    bool is_cause = first >= 0 && ends[first].fate == RAISED;
    if (is_cause)
        add(out, path, TT_SEVERITY_ERROR, "stopped", &first, 1, ends[first].last_step, " was ", "",
            stop_of(run, &ends[first], out));
    list_group(ends, world, DEAD, ranks, &count);
    if (count > 0) {
        add(out, path, is_cause ? TT_SEVERITY_WARNING : worse, "killed", ranks, count,
            ends[ranks[0]].last_step, " was killed or crashed", " were killed or crashed",
            say_last(ends, ranks, count, ",", out));
    }
    list_group(ends, world, RAISED, ranks, &count);
    if (count > 1) {
        for (size_t i = 0, kept = 0; i < count; i++)
            if (ranks[i] != first)
                ranks[kept++] = ranks[i];
        const char *stop = stop_of(run, &ends[ranks[0]], out);
        add(out, path, TT_SEVERITY_WARNING, "stopped", ranks, count - 1, ends[ranks[0]].last_step,
            " raised, too: ", " raised, too; ",
            count == 2 ? stop : tt_answers_text(out, "rank %d was %s", (int)ranks[0], stop));
    }
    list_group(ends, world, FOLLOWED, ranks, &count);
    if (count > 0) { /* their exceptions say that another rank is gone, or does not answer */
        const char *stop = stop_of(run, &ends[ranks[0]], out);
        add(out, path, TT_SEVERITY_WARNING, "lost-contact", ranks, count, ends[ranks[0]].last_step,
            " lost contact: ", " lost contact; ",
            count == 1 ? stop : tt_answers_text(out, "rank %d was %s", (int)ranks[0], stop));
    }
    list_group(ends, world, MISSING, ranks, &count);
    if (count > 0)
        add(out, path, TT_SEVERITY_WARNING, "missing", ranks, count, -1, " has no file", " have no file",
            tt_answers_text(out, "; the job had %d ranks", (int)world));
    list_group(ends, world, LEFT_OUT, ranks, &count);
    if (count > 0)
        add(out, path, TT_SEVERITY_NOTE, "not-recorded", ranks, count, -1, " did not record",
            " did not record", tt_answers_text(out, ": %s only were to", chosen_ranks(run)));
    list_group(ends, world, GONE, ranks, &count);
    if (count > 0)
        add(out, path, TT_SEVERITY_NOTE, "left", ranks, count, ends[ranks[0]].last_step, " left", " left",
            tt_answers_text(out, "%s: the run went on with %d ranks",
                            say_last(ends, ranks, count, ",", out), (int)count_resumed(run)));
    add_late(run, ends, world, ranks, is_live, path, out);
}

/* Adds how the ranks of a job of several ended: the exception that was first, ranks that were killed, that lost
 * contact, that have no file or are late. */
static tt_status add_ending(const tt_run *run, const char *path, tt_answers *out)
{
    int32_t world = count_ranks(run);
    if (world == 0)
        return TT_OK;
    rank_end *ends = malloc((size_t)world * sizeof *ends);  /* owned */
    int32_t *ranks = malloc((size_t)world * sizeof *ranks); /* owned */
    tt_status st = ends != NULL && ranks != NULL ? TT_OK : TT_ENOMEM;
    bool goes_on = false;
    const char *chosen = chosen_ranks(run);
    int32_t resumed = count_resumed(run);
    for (int32_t rank = 0; st == TT_OK && rank < world; rank++)
        ends[rank] = (rank_end){ .fate = chosen == NULL || is_among(chosen, rank) ? MISSING : LEFT_OUT,
                                 .file = -1,
                                 .last_step = -1 };
    for (int32_t f = 0; st == TT_OK && f < run->count; f++) {
        const tt_tap *tap = run->taps[f];
        tt_run_file file;
        if (tap->rank < 0 || ends[tap->rank].file >= 0 || tt_run_file_get(run, f, &file) < 0)
            continue; /* a process that it has forked */
        bool is_open = !file.is_closed && tt_file_is_written(file.path);
        goes_on |= is_open;
        ends[tap->rank] = (rank_end){ .fate = tap->rank >= resumed ? GONE : fate_of(&file, is_open),
                                      .file = f,
                                      .last_step = file.last_step };
    }
    if (st == TT_OK)
        add_ranks(run, ends, world, ranks, goes_on, path, out);
    free(ends);
    free(ranks);
    return st;
}

/* Adds how a program of one rank ended, unless it came to its end or goes on. */
static void add_end(const tt_run *run, tt_answers *out)
{
    const char *stopped = tt_run_totals(run).stopped;
    bool is_closed = true;
    for (int32_t f = 0; f < run->count; f++) {
        tt_run_file file;
        if (tt_run_file_get(run, f, &file) < 0 || file.is_closed)
            continue;
        if (tt_file_is_written(file.path))
            return;
        is_closed = false;
    }
    if (stopped != NULL)
        tt_answers_put(out, &TT_ANSWER(FAULT, ERROR, .rule = "stopped",
                                       .sentence = tt_answers_text(out, "the program was %s", stopped)));
    else if (!is_closed)
        tt_answers_put(out,
                       &TT_ANSWER(FAULT, WARNING, .rule = "killed",
                                  .sentence =
                                      "the program did not close the run: it was killed, or it crashed; "
                                      "at most the last half second is missing"));
}

void tt_damage_answer(const tt_run *run, const char *path, int64_t unread, tt_answers *out)
{
    int64_t bytes = tt_run_totals(run).damaged_bytes;
    if (bytes <= 0 && unread <= 0)
        return;
    tt_answer damaged = TT_ANSWER(FAULT, ERROR, .rule = "damaged");
    const char *word = tt_answers_run(out, run, path);
    damaged.sentence = tt_answers_text(out, "%" PRId64 " %s of the run cannot be read",
                                       bytes > 0 ? bytes : unread, bytes > 0 ? "bytes" : "points");
    tt_answer_number(&damaged, "bytes", (double)bytes);
    tt_answer_number(&damaged, "points", (double)unread);
    tt_answers_next(out, &damaged, "tensortap check %s", word);
    tt_answers_next(out, &damaged, "tensortap check --repair %s", word);
    tt_answers_put(out, &damaged);
}

/* Adds that the last step is none of training: a GAN's pictures after its last optimizer step. */
static void add_unfinished(const tt_run *run, tt_answers *out)
{
    static const char end[] = " has no step of an optimizer"; /* runs/steps.py */
    tt_note note;
    for (int32_t i = 0; tt_run_note(run, 0, i, &note) == TT_OK; i++)
        if (strstr(note.text, end) != NULL && note.step == tt_run_totals(run).last_step) {
            tt_answer last = TT_ANSWER(NOTE, NOTE, .rule = "unfinished-step");
            last.sentence = tt_answers_text(out, "%s: it has forwards only", note.text);
            last.first_step = last.last_step = note.step;
            tt_answers_put(out, &last);
        }
}

/* Adds which steps a long run has: "every 8th step of tensors from step 16384 on, every 16th from 32768 on". */
static void add_thinned(const tt_run *run, tt_answers *out)
{
    tt_buf text = { 0 };
    int64_t before = 1, first = -1;
    tt_thinned one;
    tt_run_file file;
    int32_t sparsest = tt_run_sparsest(run);
    bool is_alike = true; /* as far as the last stride tells */
    for (int32_t i = 0; tt_run_thinned(run, sparsest, i, &one) == TT_OK; i++) {
        if (one.kind != TT_THINNED_TENSORS || one.stride <= before)
            continue; /* steps around an event, which are all there */
        const char *ending = one.stride % 10 == 2 && one.stride % 100 != 12 ? "nd" : "th";
        (void)tt_buf_printf(&text, "%severy %" PRId64 "%s%s step %" PRId64 " on",
                            first < 0 ? "thinned: " : ", ", one.stride, ending,
                            first < 0 ? " step of tensors from" : " from", one.from);
        before = one.stride;
        first = first < 0 ? one.from : first;
    }
    if (first < 0)
        return;
    (void)tt_buf_text(&text, "; more steps around what happened");
    for (int32_t i = 0; i < tt_run_file_count(run); i++)
        is_alike &= tt_run_stride(run, i, TT_THINNED_TENSORS, INT64_MAX) ==
                    tt_run_stride(run, sparsest, TT_THINNED_TENSORS, INT64_MAX);
    if (!is_alike && tt_run_file_get(run, sparsest, &file) == TT_OK)
        (void)tt_buf_printf(&text, "; so on rank %d, others wrote more", (int)file.rank);
    tt_answer thinned = TT_ANSWER(NOTE, NOTE, .rule = "thinned", .sentence = tt_answers_take(out, &text));
    thinned.first_step = first;
    tt_answer_number(&thinned, "stride", (double)before);
    tt_answers_put(out, &thinned);
}

tt_status tt_run_fate(const tt_run *run, const char *path, int64_t unread, tt_answers *out)
{
    const tt_totals totals = tt_run_totals(run);
    const char *word = tt_answers_run(out, run, path);
    int64_t step;
    tt_status st = add_ending(run, word, out);
    if (count_ranks(run) == 0)
        add_end(run, out);
    tt_damage_answer(run, path, unread, out);
    if (totals.dropped_events > 0)
        tt_answers_put(out, &TT_ANSWER(FAULT, WARNING, .rule = "dropped",
                                       .sentence = tt_answers_text(
                                           out, "%" PRId64 " events were dropped while recording",
                                           totals.dropped_events)));
    add_unfinished(run, out);
    add_thinned(run, out);
    if (tt_answers_find_blackbox(out, run, &step)) {
        tt_answer box = TT_ANSWER(NOTE, NOTE, .rule = "black-box");
        box.sentence =
            tt_answers_text(out, "black box of step %" PRId64 ", which can be run again", step);
        box.first_step = box.last_step = step;
        tt_answers_next(out, &box, "tensortap replay %s", word);
        tt_answers_put(out, &box);
    }
    return st < 0 ? st : out->st;
}
