/* bench_thin.c -- a training of weeks in minutes: how large its file is, and what is still in it.
 *
 *     bench_thin FOLDER [STEPS]
 *
 * 462 sites, as a GPT-2-like model has, a loss and a norm of the gradients; in every eighth of the run a NaN, a
 * spike of the loss, one of the norm, and a note.  Prints one JSON line a row, as the scripts here do; bench_thin.py builds and runs it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"
#include "tensortap_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SITES = 462, TABLE = 1 << 14, EVENTS = 8, BEFORE = 100, AFTER = 16 };
typedef enum event { BAD, LOSS, NORM, NOTE, KINDS } event;
static const char *const names[KINDS] = { "NaN", "spike of the loss", "spike of the norm", "note" };

/* The step of the k-th event of a kind. */
static int64_t step_of(event kind, int64_t k, int64_t steps)
{
    return steps / EVENTS * k + steps / EVENTS / (KINDS + 1) * ((int64_t)kind + 1) + 3;
}

static bool is_step_of(event kind, int64_t step, int64_t steps)
{
    return step == step_of(kind, step / (steps / EVENTS), steps);
}

static tt_error err;

static void must(tt_status st)
{
    if (st < 0) {
        printf("failed: %s\n", err.text);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double noise(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 11) / (double)(UINT64_C(1) << 53);
}

static void row(const char *what, double value, double bar, const char *unit, bool is_at_most)
{
    bool holds = is_at_most ? value <= bar : value >= bar;
    printf("{\"what\": \"%s\", \"value\": %.6g, \"bar\": %g, \"unit\": \"%s\", \"at_most\": %s, "
           "\"holds\": %s}\n",
           what, value, bar, unit, is_at_most ? "true" : "false", holds ? "true" : "false");
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    int64_t steps = argc > 2 ? strtoll(argv[2], NULL, 10) : 1000000;
    if (argc < 2)
        return 2;
    tt_recorder *rec;
    tt_recorder_options options = { .disk = 2000000000 };
    static tt_stats table[TABLE];
    for (size_t i = 0; i < TABLE; i++) {
        tt_stats *s = &table[i];
        *s = (tt_stats){ .count = 4096,
                         .min = (double)(float)(-1 - noise()),
                         .max = (double)(float)(1 + noise()),
                         .sum = noise() - 0.5,
                         .l1 = 1000 * (1 + 0.1 * noise()),
                         .sumsq = 400 * (1 + 0.1 * noise()),
                         .dtype = TT_F32 };
        s->absmax = fmax(-s->min, s->max);
        s->mean = s->sum / 4096;
        s->m2 = s->sumsq - s->mean * s->sum;
    }
    must(tt_recorder_open(argv[1], &options, &rec, &err));
    int32_t sites[SITES], loss, norm;
    char name[32];
    for (int32_t i = 0; i < SITES; i++) {
        (void)snprintf(name, sizeof name, "gradient/%d", (int)i);
        must(tt_recorder_site(rec, name, &sites[i], &err));
    }
    must(tt_recorder_site(rec, "loss", &loss, &err));
    must(tt_recorder_site(rec, "gradient_norm", &norm, &err));
    float element = 0;
    tt_tensor t;
    must(tt_tensor_describe(&t, &element, TT_F32, 2, (int64_t[]){ 64, 64 }, (int64_t[]){ 0, 0 }, &err));
    t.count = 4096;
    double start = now();
    size_t at = 0;
    for (int64_t step = 0; step < steps; step++) {
        for (int32_t i = 0; i < SITES; i++) {
            tt_stats s = table[at++ % TABLE];
            if (i == 7 && is_step_of(BAD, step, steps))
                s.nan = 1;
            tt_event e = { .site = sites[i],
                           .step = step,
                           .time = 1 + step * 200000000 + i * 400000 + (int64_t)(at * 7919 % 100000),
                           .phase = TT_PHASE_TRAIN,
                           .tensor = &t,
                           .stats = &s };
            must(tt_recorder_add(rec, &e));
        }
        must(tt_recorder_scalar(rec, loss, step, is_step_of(LOSS, step, steps) ? 60 : 3 + 0.1 * noise()));
        must(tt_recorder_scalar(rec, norm, step, is_step_of(NORM, step, steps) ? 9 : 1 + 0.1 * noise()));
        if (is_step_of(NOTE, step, steps))
            must(tt_recorder_note(rec, step, "the learning rate was halved"));
        tt_recorder_counts counts;
        tt_recorder_counts_get(rec, &counts);
        if (counts.stride == 1) /* steps take a while: the writer writes each alone */
            must(tt_recorder_flush(rec, &err));
    }
    must(tt_recorder_close(rec, 600, &err));
    double took = now() - start;
    tt_run *run;
    must(tt_run_open(argv[1], &run, &err));
    tt_totals totals = tt_run_totals(run);
    row("thinned run: bytes of a million steps of 462 sites, 2 GB at most", (double)totals.bytes / 1e9, 2,
        "GB", true);
    int32_t site = tt_run_find(run, "gradient/7"), other = tt_run_find(run, "gradient/400");
    int whole = 0;
    for (int64_t k = 0; k < EVENTS; k++)
        for (int kind = 0; kind < KINDS; kind++) {
            int64_t step = step_of((event)kind, k, steps), found = 0, index;
            for (int64_t s = step - BEFORE; s <= step + AFTER; s++) {
                must(tt_run_seek(run, 0, other, s, -1, 0, &index, &err));
                found += index >= 0;
            }
            tt_point p = { 0 };
            must(tt_run_seek(run, 0, site, step, -1, 0, &index, &err));
            if (index >= 0)
                must(tt_run_point(run, 0, site, index, &p, &err));
            bool is_whole = index >= 0 && p.stats.nan == (kind == BAD) && found == BEFORE + AFTER + 1;
            whole += is_whole;
            if (!is_whole)
                fprintf(stderr, "%s at step %lld: %lld of %d steps around it\n", names[kind],
                        (long long)step, (long long)found, BEFORE + AFTER + 1);
        }
    row("thinned run: NaN, spikes and notes of 32 that have all 100 steps before and 16 behind them",
        whole, KINDS * EVENTS, "", false);
    row("thinned run: losses of 1000 that are there",
        1000.0 * (double)tt_run_points(run, 0, tt_run_find(run, "loss")) / (double)steps, 1000, "",
        false);
    row("thinned run: statistics a second", (double)SITES * (double)steps / took, 200000, "", false);
    tt_thinned one;
    for (int32_t i = 0; tt_run_thinned(run, 0, i, &one) == TT_OK; i++)
        if (one.stride > 1)
            fprintf(stderr, "from %lld every %lld (%d)\n", (long long)one.from, (long long)one.stride,
                    (int)one.kind);
    tt_run_close(run);
    return 0;
}
