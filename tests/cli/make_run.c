/* make_run.c -- records runs with known content, for the tests of the program.
 *
 *     make_run SCENARIO FOLDER [STEPS]
 *
 * A small transformer that never ran: numbers come from a fixed sequence, times
 * from a fixed clock, so that every answer is the same to the byte.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 4, ROWS = 8, COLS = 16, POINTS_MAX = 64 };

typedef struct scenario {
    const char *name;
    int64_t steps;
    int64_t bad_step;     /* -1: never */
    const char *bad_site; /* where it is born; NULL: nowhere */
    double bad;           /* NaN or an infinity */
    const char *off_site; /* values of this site are multiplied ... */
    double off_by;        /* ... by this */
    bool is_masked;       /* -inf in a mask, as it should be */
    bool is_half;         /* activations rounded to bfloat16 */
    bool is_float16;      /* and near its largest number */
    bool is_evaluated;    /* every ten steps */
    const char *stop;     /* the note of an exception; NULL: none */
    bool is_renamed;      /* blocks.0 in place of layers.0 */
    bool is_killed;       /* no footer */
    bool has_values;
    int32_t ranks;
} scenario;

static const scenario scenarios[] = {
    { .name = "good", .steps = 50, .bad_step = -1 },
    { .name = "values", .steps = 3, .bad_step = -1, .has_values = true },
    { .name = "nan-forward",
      .steps = 50,
      .bad_step = 31,
      .bad_site = "activation/layers.2.attn",
      .bad = NAN },
    { .name = "nan-first", .steps = 5, .bad_step = 0, .bad_site = "activation/embed", .bad = NAN },
    { .name = "nan-gradient",
      .steps = 50,
      .bad_step = 20,
      .bad_site = "gradient/layers.1.mlp.weight",
      .bad = INFINITY },
    { .name = "nan-update",
      .steps = 50,
      .bad_step = 11,
      .bad_site = "parameter/layers.3.attn.weight",
      .bad = NAN },
    { .name = "masked-inf", .steps = 50, .bad_step = -1, .is_masked = true },
    { .name = "masked-nan",
      .steps = 50,
      .bad_step = 40,
      .bad_site = "activation/head",
      .bad = NAN,
      .is_masked = true },
    { .name = "late-nan",
      .steps = 10050,
      .bad_step = 10000,
      .bad_site = "activation/layers.1.mlp",
      .bad = NAN },
    { .name = "rank1-nan",
      .steps = 20,
      .bad_step = 7,
      .bad_site = "activation/layers.0.mlp",
      .bad = NAN,
      .ranks = 2 },
    { .name = "ranks", .steps = 20, .bad_step = -1, .ranks = 2 },
    { .name = "shorter", .steps = 30, .bad_step = -1 },
    { .name = "changed-weight",
      .steps = 50,
      .bad_step = -1,
      .off_site = "parameter/layers.1.attn.weight",
      .off_by = 1.01 },
    { .name = "changed-layer",
      .steps = 50,
      .bad_step = -1,
      .off_site = "activation/layers.2.attn",
      .off_by = 1.01 },
    { .name = "rounded",
      .steps = 50,
      .bad_step = -1,
      .off_site = "activation/embed",
      .off_by = 1 + 1e-7 },
    { .name = "half", .steps = 50, .bad_step = -1, .is_half = true },
    { .name = "half-changed",
      .steps = 50,
      .bad_step = -1,
      .is_half = true,
      .off_site = "activation/layers.2.attn",
      .off_by = 1.01 },
    { .name = "renamed", .steps = 50, .bad_step = -1, .is_renamed = true },
    { .name = "evaluated", .steps = 20, .bad_step = -1, .is_evaluated = true },
    { .name = "overflow",
      .steps = 8,
      .bad_step = 5,
      .bad_site = "activation/layers.1.mlp",
      .bad = INFINITY,
      .is_float16 = true },
    { .name = "raised", .steps = 3, .bad_step = -1, .stop = "stopped by ValueError: bad luck" },
    { .name = "killed", .steps = 50, .bad_step = -1, .is_killed = true },
    { .name = "absurd", .steps = 2 },
    { .name = "hostile", .steps = 3, .bad_step = -1 },
    { .name = "wide", .steps = 2000, .bad_step = -1 },
};

typedef struct maker {
    const scenario *is;
    tt_recorder *rec;
    int32_t rank;
    int64_t step, time;
    tt_phase phase;
    bool is_spoilt; /* what comes later in the forward is not finite either */
} maker;

static void must(tt_status st, const tt_error *err)
{
    if (st >= 0)
        return;
    fprintf(stderr, "make_run: %s\n", err->text[0] != '\0' ? err->text : tt_status_text(st));
    exit(1);
}

/* The same for the same site, element and step. */
static float element(const char *name, int64_t step, uint32_t i)
{
    uint32_t hash = 2166136261u + (uint32_t)step * 97 + i * 7919;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    hash ^= hash >> 15;
    hash *= 2246822519u;
    hash ^= hash >> 13;
    return (float)((double)hash / 4294967296.0 * 2 - 1);
}

static float to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static void put(maker *m, const char *name, double scale)
{
    tt_error err = { "" };
    static float data[ROWS * COLS];
    bool is_gradient = strncmp(name, "gradient/", 9) == 0,
         is_parameter = strncmp(name, "parameter/", 10) == 0;
    bool is_bias = strstr(name, ".bias") != NULL, is_frozen = strstr(name, "embed") != NULL;
    bool is_bad = m->is->bad_site != NULL && m->step == m->is->bad_step &&
                  m->rank == (m->is->ranks > 1) && strcmp(name, m->is->bad_site) == 0;
    bool is_mask = strstr(name, "mask") != NULL;
    double drift = is_parameter ? 1 + 0.002 * (double)m->step : 1 / (1 + 0.05 * (double)m->step);
    for (uint32_t i = 0; i < ROWS * COLS; i++) {
        double x = element(name, is_parameter ? 0 : m->step, i) * scale *
                   (is_parameter && is_frozen ? 1 : drift);
        if (m->is->is_float16)
            x *= 20000;
        if (m->is->off_site != NULL && strcmp(name, m->is->off_site) == 0)
            x *= m->is->off_by;
        data[i] = m->is->is_half && !is_parameter ? to_bf16((float)x) : (float)x;
        if (is_mask)
            data[i] = i % COLS > i / COLS ? -INFINITY : 0;
        if ((is_bad && i % 64 == 3) || (m->is_spoilt && !is_parameter && i % 2 == 0))
            data[i] = (float)m->is->bad;
    }
    /* Backward goes on from the layer below; the recorder sees parameters in order. */
    if (is_gradient && m->is->bad_site != NULL && strncmp(m->is->bad_site, "gradient/", 9) == 0 &&
        m->step == m->is->bad_step && strcmp(name, m->is->bad_site) < 0 && strstr(name, "head") == NULL)
        data[5] = NAN;
    if (is_bad && !is_gradient && !is_parameter)
        m->is_spoilt = true;
    if (is_bad && is_parameter)
        data[0] = (float)m->is->bad;
    int32_t site;
    char renamed[128];
    const char *at = strstr(name, "layers.");
    (void)snprintf(renamed, sizeof renamed, "%.*sblocks.%s", at != NULL ? (int)(at - name) : 0, name,
                   at != NULL ? at + 7 : "");
    must(tt_recorder_site(m->rec, m->is->is_renamed && at != NULL ? renamed : name, &site, &err), &err);
    tt_tensor t;
    must(tt_tensor_describe(&t, data, TT_F32, is_bias ? 1 : 2, (int64_t[]){ is_bias ? COLS : ROWS, COLS },
                            NULL, &err),
         &err);
    tt_stats stats;
    tt_stats_compute(&t, &stats);
    if (m->is->is_half && !is_parameter)
        stats.dtype = TT_BF16;
    if (m->is->is_float16)
        stats.dtype = TT_F16;
    m->time += 1000;
    must(tt_recorder_add(m->rec, &(tt_event){ .site = site,
                                              .step = m->step,
                                              .time = m->time,
                                              .phase = (uint8_t)m->phase,
                                              .tensor = &t,
                                              .stats = &stats,
                                              .has_value = m->is->has_values }),
         &err);
}

static void put_scalar(maker *m, const char *name, double value)
{
    tt_error err = { "" };
    int32_t site;
    must(tt_recorder_site(m->rec, name, &site, &err), &err);
    m->time += 1000;
    must(tt_recorder_add(m->rec,
                         &(tt_event){ .site = site, .step = m->step, .time = m->time, .scalar = &value }),
         &err);
}

static void put_step(maker *m)
{
    static const char *const parts[] = { "attn", "mlp" };
    char name[96];
    put(m, "activation/embed", 1);
    for (int layer = 0; layer < LAYERS; layer++) {
        if (m->is->is_masked) {
            (void)snprintf(name, sizeof name, "activation/layers.%d.attn.mask", layer);
            put(m, name, 1);
        }
        for (int part = 0; part < 2; part++) {
            (void)snprintf(name, sizeof name, "activation/layers.%d.%s", layer, parts[part]);
            put(m, name, 2);
        }
        (void)snprintf(name, sizeof name, "activation/layers.%d", layer);
        put(m, name, 3);
    }
    put(m, "activation/head", 0.5);
    put(m, "activation/(root)", 0.5);
    put_scalar(m, "loss",
               m->is_spoilt ? NAN
                            : (2.3 / (1 + 0.1 * (double)m->step)) * (m->is->is_half ? 1 + 2e-4 : 1));
    m->is_spoilt = false;
    static const char *const kinds[] = { "parameter", "gradient" };
    for (int kind = 0; kind < 2; kind++) {
        double scale = kind == 0 ? 0.3 : 0.01;
        (void)snprintf(name, sizeof name, "%s/embed.weight", kinds[kind]);
        put(m, name, scale);
        for (int layer = 0; layer < LAYERS; layer++)
            for (int part = 0; part < 2; part++) {
                (void)snprintf(name, sizeof name, "%s/layers.%d.%s.weight", kinds[kind], layer,
                               parts[part]);
                put(m, name, scale);
            }
        (void)snprintf(name, sizeof name, "%s/head.bias", kinds[kind]);
        put(m, name, kind == 0 ? 0.1 : 0);
    }
}

/* Evaluation: many forwards in one step, a hundred times as large, and a site of its own. */
static void put_evaluation(maker *m)
{
    m->phase = TT_PHASE_EVAL;
    for (int i = 0; i < 150; i++) {
        put(m, "activation/embed", 100);
        put(m, "activation/head", 50);
        put(m, "activation/probe", 1);
    }
    m->phase = TT_PHASE_TRAIN;
}

static void put_hostile(maker *m)
{
    static const char *const names[] = { "activation/\x1b[31mred\x1b[2J",
                                         "activation/new\nline",
                                         "tab\there",
                                         "activation/\xff\xfe not UTF-8",
                                         "right\u202eleft",
                                         "wide 漢字 名前",
                                         "activation/a..b",
                                         "activation//x",
                                         "",
                                         "%s%n%d",
                                         "a,b*c?",
                                         "activation/\abell" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(m, names[i], 1);
    m->time += 1000;
}

/* Numbers that no tensor has, in every field of a point. */
static void put_absurd(maker *m)
{
    static const struct {
        const char *name;
        tt_stats stats;
        double scalar;
        uint8_t phase;
        uint32_t call;
    } points[] = {
        { .name = "activation/type", .stats = { .dtype = 999, .count = 4, .min = 1 } },
        { .name = "activation/negative",
          .stats = { .dtype = -1, .count = -5, .nan = -7, .zeros = INT64_MIN, .sumsq = -1 } },
        { .name = "activation/huge",
          .stats = { .count = INT64_MAX,
                     .nan = INT64_MAX,
                     .posinf = INT64_MAX,
                     .neginf = INT64_MAX,
                     .zeros = INT64_MAX,
                     .min = 1.7e308,
                     .max = -1.7e308,
                     .sumsq = 1.7e308,
                     .m2 = 1.7e308 } },
        { .name = "activation/nan",
          .stats = { .count = 3, .min = NAN, .max = NAN, .mean = INFINITY, .m2 = NAN, .sumsq = NAN } },
        { .name = "parameter/call", .stats = { .count = 1 }, .phase = TT_PHASE_EVAL, .call = UINT32_MAX },
        { .name = "number", .scalar = -INFINITY },
    };
    tt_error err = { "" };
    static const float nothing[1];
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        int32_t site;
        tt_tensor t;
        must(tt_recorder_site(m->rec, points[i].name, &site, &err), &err);
        must(tt_tensor_describe(&t, nothing, TT_F32, 1, (int64_t[]){ 0 }, NULL, &err), &err);
        t.shape[0] = -5; /* nobody checks it again */
        t.ndim = 3;
        t.shape[1] = t.shape[2] = INT64_MAX;
        bool is_number = strcmp(points[i].name, "number") == 0;
        must(tt_recorder_add(m->rec, &(tt_event){ .site = site,
                                                  .step = m->step == 0 ? INT64_MIN + 1 : INT64_MAX - 1,
                                                  .time = m->step == 0 ? INT64_MAX : INT64_MIN,
                                                  .phase = points[i].phase,
                                                  .call = points[i].call,
                                                  .tensor = is_number ? NULL : &t,
                                                  .stats = is_number ? NULL : &points[i].stats,
                                                  .scalar = is_number ? &points[i].scalar : NULL }),
             &err);
    }
}

/* Many points in little time: one tensor's statistics again and again. */
static void put_wide(maker *m, int64_t steps)
{
    enum { SITES = 1000 };
    tt_error err = { "" };
    static int32_t sites[SITES];
    tt_stats stats[16];
    tt_tensor t;
    for (int i = 0; i < SITES; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s/layers.%d.part%d",
                       i % 3 == 0   ? "parameter"
                       : i % 3 == 1 ? "activation"
                                    : "gradient",
                       i / 10, i % 10);
        must(tt_recorder_site(m->rec, name, &sites[i], &err), &err);
    }
    for (int k = 0; k < 16; k++) {
        float data[64];
        for (uint32_t i = 0; i < 64; i++)
            data[i] = element("wide", k, i);
        must(tt_tensor_describe(&t, data, TT_F32, 2, (int64_t[]){ 8, 8 }, NULL, &err), &err);
        tt_stats_compute(&t, &stats[k]);
    }
    for (m->step = 0; m->step < steps; m->step++)
        for (int i = 0; i < SITES; i++) {
            m->time += 1000;
            must(tt_recorder_add(m->rec, &(tt_event){ .site = sites[i],
                                                      .step = m->step,
                                                      .time = m->time,
                                                      .tensor = &t,
                                                      .stats = &stats[(m->step + i) % 16] }),
                 &err);
        }
}

int main(int argc, char **argv)
{
    const scenario *is = NULL;
    for (size_t i = 0; argc >= 3 && i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(scenarios[i].name, argv[1]) == 0)
            is = &scenarios[i];
    if (is == NULL) {
        fputs("usage: make_run SCENARIO FOLDER [STEPS]\n", stderr);
        return 2;
    }
    tt_error err = { "" };
    int64_t steps = argc > 3 ? atoll(argv[3]) : is->steps;
    static const char *const absurd[] = { "argv",  "[{\"\x1b[31m\": [1e999, null",
                                          "start", "9999999999-99-99Tyesterday",
                                          "host",  "\x1b]0;title\x07",
                                          "pid",   "-1e400",
                                          NULL };
    static const char *const info[] = { "argv",  "[\"train.py\", \"--lr\", \"0.1\"]",
                                        "start", "2026-01-05T11:00:00+0100",
                                        "host",  "example",
                                        "pid",   "4711",
                                        NULL };
    bool is_absurd = strcmp(is->name, "absurd") == 0;
    for (int32_t rank = 0; rank < (is->ranks > 0 ? is->ranks : 1); rank++) {
        maker m = {
            .is = is, .rank = rank, .phase = TT_PHASE_TRAIN, .time = INT64_C(1767607200000000000)
        };
        must(tt_recorder_open(argv[2],
                              &(tt_recorder_options){ .rank = rank, .info = is_absurd ? absurd : info },
                              &m.rec, &err),
             &err);
        if (strcmp(is->name, "wide") == 0)
            put_wide(&m, steps);
        else
            for (m.step = 0; m.step < steps; m.step++) {
                m.time += 100000;
                if (is->is_evaluated && m.step % 10 == 9)
                    put_evaluation(&m);
                (is_absurd ? put_absurd : strcmp(is->name, "hostile") == 0 ? put_hostile : put_step)(&m);
            }
        if (strcmp(is->name, "hostile") == 0)
            must(tt_recorder_note(m.rec, 1, "note with \x1b[31mcolour"), &err);
        if (is->stop != NULL)
            must(tt_recorder_note(m.rec, steps - 1, is->stop), &err);
        if (is->is_killed) {
            must(tt_recorder_flush(m.rec, &err), &err);
            _exit(0);
        }
        must(tt_recorder_close(m.rec, 60, &err), &err);
    }
    return 0;
}
