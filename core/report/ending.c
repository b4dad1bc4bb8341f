/* ending.c -- how the ranks of a run ended: which raised first, which only followed, which are dead, missing or late.
 *
 * Exists because an exception on one rank makes collectives of the others fail, and theirs is what people see.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "store/run.h"
#include "tensortap_tools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 400, RANKS_MOST = 1 << 20 };

typedef enum fate { GOES_ON, ENDED, RAISED, FOLLOWED, DEAD, MISSING, FATE_COUNT_ } fate;

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
        for (int32_t i = 0; tt_run_info_key(run, f, i) != NULL; i++)
            if (strcmp(tt_run_info_key(run, f, i), "world_size") == 0) {
                long size = strtol(tt_run_info_value(run, f, i), NULL, 10);
                world = size > world && size < RANKS_MOST ? (int32_t)size : world;
            }
    }
    return world;
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

/* One line: "ranks 0, 2 to 3 " and what became of them. */
static void put_line(const int32_t *ranks, size_t count, tt_buf *out, const char *one,
                     const char *several)
{
    (void)tt_ranks_append(ranks, count, out);
    (void)tt_buf_text(out, count == 1 ? one : several);
}

static void put_stop(const tt_run *run, const rank_end *ends, int32_t rank, tt_buf *out)
{
    tt_run_file file = { 0 };
    (void)tt_run_file_get(run, ends[rank].file, &file);
    const char *text = file.stopped != NULL ? file.stopped : "";
    size_t len = strcspn(text, "\n"); /* the first line says it */
    (void)tt_buf_printf(out, "%.*s\n", len < TEXT_MOST ? (int)len : TEXT_MOST, text);
}

/* Far behind the others, although it did not end before them. */
static bool is_late(const rank_end *end, int64_t first, int64_t last, bool is_live)
{
    int64_t behind, span;
    if (__builtin_sub_overflow(last, end->last_step, &behind) ||
        __builtin_sub_overflow(last, first, &span))
        return false; /* steps that nobody counted */
    return (end->fate == GOES_ON || end->fate == ENDED) && behind > 2 &&
           behind > (is_live ? span / 2 : span / 10);
}

static void put_lines(const tt_run *run, const rank_end *ends, int32_t world, int32_t *ranks,
                      bool is_live, tt_buf *out)
{
    const tt_totals totals = tt_run_totals(run);
    int32_t cause = tt_run_stopped_first(run), first = cause >= 0 ? run->taps[cause]->rank : -1;
    size_t count;
    bool is_cause = first >= 0 && ends[first].fate == RAISED;
    if (is_cause) {
        (void)tt_buf_printf(out, "rank %d was ", (int)first);
        put_stop(run, ends, first, out);
    }
    list_group(ends, world, DEAD, ranks, &count);
    if (count > 0) {
        put_line(ranks, count, out, " was killed or crashed", " were killed or crashed");
        if (ends[ranks[0]].last_step >= 0)
            (void)tt_buf_printf(out, ", the last step is %" PRId64, ends[ranks[0]].last_step);
        (void)tt_buf_text(out, "\n");
    }
    list_group(ends, world, RAISED, ranks, &count);
    if (count > 1) {
        for (size_t i = 0, kept = 0; i < count; i++)
            if (ranks[i] != first)
                ranks[kept++] = ranks[i];
        put_line(ranks, count - 1, out, " raised, too: ", " raised, too; ");
        if (count > 2)
            (void)tt_buf_printf(out, "rank %d was ", (int)ranks[0]);
        put_stop(run, ends, ranks[0], out);
    }
    list_group(ends, world, FOLLOWED, ranks, &count);
    if (count > 0) { /* their exceptions say that another rank is gone, or does not answer */
        put_line(ranks, count, out, " lost contact: ", " lost contact; ");
        if (count > 1)
            (void)tt_buf_printf(out, "rank %d was ", (int)ranks[0]);
        put_stop(run, ends, ranks[0], out);
    }
    list_group(ends, world, MISSING, ranks, &count);
    if (count > 0) {
        put_line(ranks, count, out, " has no file", " have no file");
        (void)tt_buf_printf(out, "; the job had %d ranks\n", (int)world);
    }
    count = 0;
    for (int32_t rank = 0; rank < world; rank++)
        if (is_late(&ends[rank], totals.first_step, totals.last_step, is_live))
            ranks[count++] = rank;
    if (count > 0) {
        put_line(ranks, count, out, " is late", " are late");
        (void)tt_buf_printf(out, ": the last step is %" PRId64 ", of others %" PRId64 "\n",
                            ends[ranks[0]].last_step, totals.last_step);
    }
}

tt_status tt_run_ending(const tt_run *run, bool (*is_live)(const char *path), tt_buf *out)
{
    int32_t world = count_ranks(run);
    if (world == 0)
        return TT_OK;
    rank_end *ends = malloc((size_t)world * sizeof *ends);  /* owned */
    int32_t *ranks = malloc((size_t)world * sizeof *ranks); /* owned */
    tt_status st = ends != NULL && ranks != NULL ? TT_OK : TT_ENOMEM;
    bool goes_on = false;
    for (int32_t rank = 0; st == TT_OK && rank < world; rank++)
        ends[rank] = (rank_end){ .fate = MISSING, .file = -1, .last_step = -1 };
    for (int32_t f = 0; st == TT_OK && f < run->count; f++) {
        const tt_tap *tap = run->taps[f];
        tt_run_file file;
        if (tap->rank < 0 || ends[tap->rank].file >= 0 || tt_run_file_get(run, f, &file) < 0)
            continue; /* a process that it has forked */
        bool is_open = !file.is_closed && is_live != NULL && is_live(file.path);
        goes_on |= is_open;
        ends[tap->rank] =
            (rank_end){ .fate = fate_of(&file, is_open), .file = f, .last_step = file.last_step };
    }
    if (st == TT_OK)
        put_lines(run, ends, world, ranks, goes_on, out);
    free(ends);
    free(ranks);
    return st == TT_OK ? out->st : st;
}
