/* test_origin.c -- nan and health name the same origin, and it is where the value was born.
 *
 * Trainings that never ran: ranks with clocks of their own, micro-batches, gradients that all ranks share.  What
 * was born where is known, because it was drawn.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "run_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODULES = 5, RUNS = 200, STEPS = 4 };
static tt_error err;
static uint32_t seed = 1;

static int draw(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

typedef enum pass { PARAMETER, FORWARD, LOSS, BACKWARD, GRADIENT } pass;

/* Where a NaN is born; from the last module to the first in backward. */
typedef struct birth {
    int rank, step, round, module;
    pass pass;
} birth;

typedef struct training {
    int ranks, rounds;
    bool has_backward; /* gradients of outputs are recorded */
    bool is_noted;     /* gradients were seen as backward made them */
    birth births[2];
    int count;
} training;

typedef struct maker {
    const training *is;
    tt_recorder *rec;
    tt_checker *checker; /* which sees the events as they come; NULL: none */
    int rank, step, round;
    int64_t time;
} maker;

/* ---- the order, written down once more ------------------------------------------------ */

static int64_t key_of(const birth *b)
{
    bool is_back = b->pass == BACKWARD || b->pass == GRADIENT;
    int round = b->pass == GRADIENT ? 99 : b->pass == PARAMETER ? -1 : b->round;
    return (((int64_t)b->step * 200 + round) * 10 + b->pass) * 10 +
           (is_back ? MODULES - b->module : b->module);
}

static const birth *first_of(const training *t)
{
    const birth *first = &t->births[0];
    for (int i = 1; i < t->count; i++) {
        int64_t a = key_of(&t->births[i]), b = key_of(first);
        if (a < b || (a == b && t->births[i].rank < first->rank))
            first = &t->births[i];
    }
    return first;
}

/* Has what was born there come to this value? */
static bool reaches(const birth *b, const maker *m, pass kind, int module)
{
    if (m->step != b->step)
        return m->step > b->step; /* the update has spoilt all weights of all ranks */
    if (kind == GRADIENT)         /* all ranks share it */
        return b->pass == GRADIENT || b->pass == BACKWARD ? module <= b->module : true;
    if (m->rank != b->rank || kind == PARAMETER)
        return b->pass == PARAMETER && (kind != PARAMETER || module == b->module) && m->rank == b->rank;
    if (b->pass == PARAMETER)
        return kind > FORWARD || module >= b->module;
    if (b->pass == GRADIENT || m->round != b->round)
        return false;
    if (kind != b->pass)
        return kind > b->pass;
    return kind == BACKWARD ? module <= b->module : module >= b->module;
}

static bool is_bad(const maker *m, pass kind, int module)
{
    for (int i = 0; i < m->is->count; i++)
        if (reaches(&m->is->births[i], m, kind, module))
            return true;
    return false;
}

/* ---- the run ---------------------------------------------------------------------------- */

static int32_t site_named(const maker *m, const char *name)
{
    int32_t site;
    assert_int_equal(tt_recorder_site(m->rec, name, &site, &err), 0);
    return site;
}

static const char *name_of(pass kind, int module)
{
    static char name[80];
    static const char *const kinds[] = { "parameter", "activation", "loss", "activation_gradient",
                                         "gradient" };
    if (kind == LOSS)
        return "loss/train.py:9";
    (void)snprintf(name, sizeof name, "%s/m%d%s", kinds[kind], module,
                   kind == PARAMETER || kind == GRADIENT ? ".weight" : "");
    return name;
}

static void put(maker *m, pass kind, int module)
{
    tt_stats stats = {
        .count = 10, .min = -1, .max = 1, .absmax = 1, .sumsq = 5, .l1 = 5, .dtype = TT_F32
    };
    stats.nan = is_bad(m, kind, module) ? 1 + draw(9) : 0;
    m->time += 1 + draw(2000000);
    tt_event event = { .site = site_named(m, name_of(kind, module)),
                       .step = m->step,
                       .call = kind == PARAMETER || kind == GRADIENT ? 0 : (uint32_t)m->round,
                       .time = m->time,
                       .stats = &stats };
    assert_int_equal(tt_recorder_add(m->rec, &event), 0);
    if (m->checker != NULL)
        tt_checker_see(m->checker, name_of(kind, module), &event);
}

static void put_step(maker *m)
{
    const training *is = m->is;
    for (m->round = 0; m->round < is->rounds; m->round++) {
        for (int i = 0; i < MODULES; i++)
            put(m, FORWARD, i);
        for (int i = MODULES; i-- > 0;) {
            if (is->is_noted)
                (void)site_named(m, name_of(GRADIENT, i));
            if (is->has_backward)
                put(m, BACKWARD, i);
            if (i == MODULES - 1) /* recorded while backward runs */
                put(m, LOSS, 0);
        }
    }
    m->round = 0;
    for (int i = 0; i < MODULES; i++) {
        put(m, PARAMETER, i);
        put(m, GRADIENT, i);
    }
}

static void record(const char *folder, const training *is, int rank, tt_checker *checker)
{
    maker m = { .is = is, .checker = checker, .rank = rank, .time = INT64_C(1767607200000000000) };
    m.time += ((int64_t)draw(2000) - 1000) * INT64_C(3600000000000); /* its clock is hours off */
    const tt_recorder_options options = { .rank = rank };
    assert_int_equal(tt_recorder_open(folder, &options, &m.rec, &err), 0);
    for (m.step = 0; m.step < STEPS; m.step++)
        put_step(&m);
    assert_int_equal(tt_recorder_close(m.rec, 30, &err), 0);
}

static birth draw_birth(const training *t)
{
    birth b = {
        .rank = draw(t->ranks), .step = draw(STEPS), .round = draw(t->rounds), .module = draw(MODULES)
    };
    do
        b.pass = (pass)draw(5);
    while ((b.pass == BACKWARD && !t->has_backward) || (b.pass == PARAMETER && b.step == 0));
    if (b.pass == LOSS)
        b.module = 0;
    if (b.pass == GRADIENT)
        b.rank = 0; /* it is on all */
    return b;
}

static training draw_training(void)
{
    training t = { .ranks = 1 + draw(8),
                   .rounds = 1 + draw(3),
                   .has_backward = draw(2) != 0,
                   .is_noted = draw(2) != 0,
                   .count = 1 + draw(2) };
    for (int i = 0; i < t.count; i++)
        t.births[i] = draw_birth(&t);
    if (t.count == 2 && draw(2) != 0)
        t.births[1].step = t.births[0].step;
    return t;
}

static const tt_answer *find_rule(const tt_findings *findings, const char *id)
{
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->items[i].rule, id) == 0)
            return &findings->items[i];
    return NULL;
}

static void check(int number)
{
    const training t = draw_training();
    const birth *b = first_of(&t);
    const char *folder = run_folder_new();
    tt_run *run;
    tt_nonfinite found;
    tt_findings *findings;
    tt_checker *checker;
    assert_int_equal(tt_checker_create(&checker, &err), 0);
    for (int rank = 0; rank < t.ranks; rank++)
        record(folder, &t, rank, t.ranks == 1 ? checker : NULL);
    assert_int_equal(tt_run_open(folder, &run, &err), 0);
    assert_int_equal(tt_run_nonfinite(run, NULL, &found, &err), 0);
    assert_int_equal(tt_health(run, NULL, &findings, &err), 0);
    const tt_answer *finding = find_rule(findings, "nonfinite");
    assert_true(found.site >= 0 && finding != NULL);
    const char *name = tt_run_site_name(run, found.site), *wanted = name_of(b->pass, b->module);
    if (strcmp(name, wanted) != 0 || found.point.step != b->step || found.file != b->rank)
        fail_msg("run %d: %s at step %d of rank %d, not %s at step %d of rank %d", number, name,
                 (int)found.point.step, (int)found.file, wanted, b->step, b->rank);
    assert_string_equal(finding->names[0], name);
    assert_int_equal(finding->first_step, b->step);
    assert_int_equal(finding->rank_count, t.ranks > 1);
    if (t.ranks > 1)
        assert_int_equal(finding->ranks[0], b->rank);
    if (b->pass == FORWARD || b->pass == LOSS)
        assert_int_equal(found.point.call, b->round);
    tt_findings_free(findings);
    assert_int_equal(tt_checker_find(checker, &findings, &err), 0);
    finding = find_rule(findings, "nonfinite");
    if (t.ranks == 1 && (finding == NULL || strcmp(finding->names[0], name) != 0))
        fail_msg("run %d: while it runs, %s is the first, not %s", number,
                 finding != NULL ? finding->names[0] : "nothing", name);
    tt_findings_free(findings);
    tt_checker_free(checker);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void nan_and_health_find_where_it_was_born_in_200_trainings(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i++)
        check(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nan_and_health_find_where_it_was_born_in_200_trainings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
