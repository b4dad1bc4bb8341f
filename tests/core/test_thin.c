/* test_thin.c -- a run that lasts for weeks: what is left of it, and what is always there.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"
#include "store/run.h"
#include "tensortap_tools.h"

#include "run_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SITES = 24, DISK = 16 << 20, BAD_STEP = 40007, SPIKE_STEP = 50003, BEFORE = 100 };

static tt_error err;

static double noise(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    i = (i ^ i >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (double)((i ^ i >> 31) >> 11) / (double)(UINT64_C(1) << 53);
}

static tt_stats made_up(int32_t site, int64_t step)
{
    uint64_t seed = (uint64_t)step * 64 + (uint64_t)site;
    tt_stats s = { .count = 1000,
                   .min = (double)(float)-noise(seed * 5),
                   .max = (double)(float)noise(seed * 5 + 1),
                   .absmax = 1,
                   .sum = noise(seed * 5 + 2),
                   .l1 = 400 + noise(seed * 5 + 3),
                   .sumsq = 300 + noise(seed * 5 + 4),
                   .dtype = TT_F32 };
    s.mean = s.sum / 1000;
    s.m2 = s.sumsq - s.mean * s.sum;
    if (site == 3 && step == BAD_STEP)
        s.nan = 7;
    return s;
}

/* Records steps [from, to) of a training whose loss jumps and in which a NaN appears; `numbers` more are logged, and
 * the writer is made to write after so many steps. */
static void train_as(tt_recorder *rec, int64_t from, int64_t to, int32_t numbers, int64_t flush)
{
    int32_t sites[SITES], loss = site_of(rec, "loss");
    char name[32];
    for (int32_t i = 0; i < SITES; i++) {
        (void)snprintf(name, sizeof name, "gradient/%d", i);
        sites[i] = site_of(rec, name);
    }
    for (int64_t step = from; step < to; step++) {
        for (int32_t i = 0; i < SITES; i++) {
            tt_stats s = made_up(i, step);
            tt_event e = { .site = sites[i],
                           .step = step,
                           .time = 1 + step * 100000007 + i,
                           .phase = TT_PHASE_TRAIN,
                           .stats = &s };
            assert_int_equal(tt_recorder_add(rec, &e), 0);
        }
        double value = step == SPIKE_STEP ? 40 : 2 + 0.1 * noise((uint64_t)step);
        assert_int_equal(tt_recorder_scalar(rec, loss, step, value), 0);
        for (int32_t i = 0; i < numbers; i++) {
            (void)snprintf(name, sizeof name, "metric/%d", i);
            assert_int_equal(tt_recorder_scalar(rec, site_of(rec, name), step, 1.0 / (double)(step + i)),
                             0);
        }
        if (step % flush == flush - 1) /* as if steps took a while */
            assert_int_equal(tt_recorder_flush(rec, &err), 0);
    }
}

static void train(tt_recorder *rec, int64_t from, int64_t to)
{
    train_as(rec, from, to, 0, 256);
}

static int64_t size_of(const char *folder)
{
    char path[300];
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    assert_int_equal(stat(path, &about), 0);
    return about.st_size;
}

typedef struct series {
    int64_t *steps; /* owned */
    size_t n;
} series;

static series steps_of(tt_run *run, const char *name)
{
    int32_t site = tt_run_find(run, name);
    assert_true(site >= 0);
    size_t cap = tt_run_points(run, 0, site);
    series s = { .steps = malloc((cap + 1) * sizeof(int64_t)) };
    double *values = malloc((cap + 1) * sizeof *values);
    tt_field field = strcmp(name, "loss") == 0 ? TT_FIELD_SCALAR : TT_FIELD_MEAN;
    assert_int_equal(tt_run_series(run, 0, site, field, s.steps, values, cap, &s.n, &err), 0);
    free(values);
    for (size_t i = 1; i < s.n; i++)
        assert_true(s.steps[i] > s.steps[i - 1]);
    return s;
}

static size_t count_in(const series *s, int64_t from, int64_t to)
{
    size_t count = 0;
    for (size_t i = 0; i < s->n; i++)
        count += s->steps[i] >= from && s->steps[i] <= to;
    return count;
}

static tt_recorder_options bounded(void)
{
    return (tt_recorder_options){ .disk = DISK };
}

static void a_long_run_stays_within_its_disk_and_keeps_what_matters(void **state)
{
    (void)state;
    enum { STEPS = 60000 };
    const char *folder = run_folder_new();
    tt_recorder_options options = bounded();
    tt_recorder *rec = begin_run(folder, &options);
    train(rec, 0, STEPS);
    tt_run *run = finish_and_read(rec, folder);
    assert_true(size_of(folder) <= DISK);
    assert_true(size_of(folder) > DISK / 4); /* the room is used */
    series one = steps_of(run, "gradient/0"), bad = steps_of(run, "gradient/3"),
           loss = steps_of(run, "loss");
    assert_true(one.n < STEPS / 4);
    assert_int_equal(loss.n, STEPS);
    assert_int_equal(count_in(&one, 0, 1000), 1001);
    assert_int_equal(count_in(&one, BAD_STEP - BEFORE, BAD_STEP), BEFORE + 1);
    assert_int_equal(count_in(&bad, BAD_STEP - BEFORE, BAD_STEP), BEFORE + 1);
    assert_int_equal(count_in(&one, SPIKE_STEP - BEFORE, SPIKE_STEP), BEFORE + 1);
    assert_int_equal(count_in(&one, STEPS - BEFORE, STEPS - 1), BEFORE);
    assert_true(count_in(&one, 30000, 35000) < 2500); /* where nothing happens */
    assert_true(count_in(&one, 30000, 35000) >= 4);
    int64_t index;
    tt_point p;
    assert_int_equal(tt_run_first_nonfinite(run, 0, tt_run_find(run, "gradient/3"), &index, &err), 0);
    assert_int_equal(tt_run_point(run, 0, tt_run_find(run, "gradient/3"), index, &p, &err), 0);
    assert_true(p.step == BAD_STEP && p.stats.nan == 7);
    assert_int_equal(tt_run_point(run, 0, tt_run_find(run, "gradient/0"), -1, &p, &err), 0);
    assert_int_equal(p.step, STEPS - 1);
    for (int64_t i = 0; i < (int64_t)one.n; i += 97) { /* every number as it was */
        tt_stats s = made_up(0, one.steps[i]);
        assert_int_equal(tt_run_point(run, 0, tt_run_find(run, "gradient/0"), i, &p, &err), 0);
        assert_memory_equal(&p.stats, &s, sizeof s);
    }
    free(one.steps);
    free(bad.steps);
    free(loss.steps);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_file_says_which_steps_it_has(void **state)
{
    (void)state;
    enum { STEPS = 30000 };
    const char *folder = run_folder_new();
    tt_recorder_options options = bounded();
    tt_recorder *rec = begin_run(folder, &options);
    train(rec, 0, STEPS);
    tt_run *run = finish_and_read(rec, folder);
    series one = steps_of(run, "gradient/0");
    size_t at = 0;
    int64_t last_kept = -1, widest = 1;
    for (int64_t step = 0; step < STEPS; step++) {
        int64_t stride = tt_run_stride(run, 0, TT_THINNED_TENSORS, step);
        assert_true(stride >= 1 && (stride & (stride - 1)) == 0);
        widest = stride > widest ? stride : widest;
        bool is_there = at < one.n && one.steps[at] == step;
        at += is_there;
        if (stride == 1 || step % stride == 0)
            assert_true(is_there);
        last_kept = is_there ? step : last_kept;
    }
    assert_int_equal(at, one.n);
    assert_int_equal(last_kept, STEPS - 1);
    assert_true(widest > 1);
    assert_int_equal(tt_run_widest_stride(run), widest);
    assert_int_equal(tt_run_stride(run, 0, TT_THINNED_NUMBERS, STEPS - 1), 1);
    free(one.steps);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_run_that_fits_is_not_thinned(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder_options options = bounded();
    tt_recorder *rec = begin_run(folder, &options);
    train(rec, 0, 1000);
    tt_run *run = finish_and_read(rec, folder);
    tt_thinned one;
    assert_int_equal(tt_run_points(run, 0, tt_run_find(run, "gradient/7")), 1000);
    assert_int_equal(tt_run_thinned(run, 0, 0, &one), TT_EINVAL);
    assert_int_equal(tt_run_widest_stride(run), 1);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_resumed_run_goes_on_as_thinly(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder_options options = bounded();
    tt_recorder *rec = begin_run(folder, &options);
    train(rec, 0, 20000);
    finish_run(rec);
    tt_run *run = read_run(folder);
    int64_t stride = tt_run_stride(run, 0, TT_THINNED_TENSORS, 21000);
    assert_true(stride > 1);
    tt_run_close(run);
    options.resumes = true;
    rec = begin_run(folder, &options);
    train(rec, 20000, 30000);
    run = finish_and_read(rec, folder);
    series one = steps_of(run, "gradient/0");
    assert_true(count_in(&one, 22000, 26000) <= (size_t)(4000 / stride + 1));
    assert_true(count_in(&one, 22000, 26000) > 10);
    assert_true(size_of(folder) <= DISK);
    free(one.steps);
    tt_run_close(run);
    run_folder_remove(folder);
}

/* The same training on a slow and on a fast machine, and as a rank that logs numbers as well. */
static void what_is_written_depends_on_the_points_alone(void **state)
{
    (void)state;
    enum { STEPS = 52000, RUNS = 4 };
    static const int64_t flush[RUNS] = { 256, 61, 4099, 256 };
    static const int32_t numbers[RUNS] = { 0, 0, 0, 9 };
    tt_run *runs[RUNS];
    const char *folders[RUNS];
    for (int i = 0; i < RUNS; i++) {
        folders[i] = strdup(run_folder_new());
        tt_recorder_options options = { .disk = 2 * DISK };
        tt_recorder *rec = begin_run(folders[i], &options);
        train_as(rec, 0, STEPS, numbers[i], flush[i]);
        runs[i] = finish_and_read(rec, folders[i]);
    }
    for (int32_t site = 0; site < SITES; site++) {
        char name[32];
        (void)snprintf(name, sizeof name, "gradient/%d", (int)site);
        series first = steps_of(runs[0], name);
        assert_true(first.n < STEPS / 2);
        for (int i = 1; i < RUNS; i++) {
            series other = steps_of(runs[i], name);
            assert_int_equal(other.n, first.n);
            assert_memory_equal(other.steps, first.steps, first.n * sizeof *first.steps);
            free(other.steps);
        }
        free(first.steps);
    }
    for (int64_t step = 0; step < STEPS; step++)
        for (int i = 1; i < RUNS; i++)
            assert_int_equal(tt_run_stride(runs[i], 0, TT_THINNED_TENSORS, step),
                             tt_run_stride(runs[0], 0, TT_THINNED_TENSORS, step));
    for (int i = 0; i < RUNS; i++) {
        tt_run_close(runs[i]);
        run_folder_remove(folders[i]);
        free((void *)(uintptr_t)folders[i]);
    }
}

/* Files of two ranks, of which one has fewer sites and is thinned less. */
static void ranks_have_the_steps_of_the_sparser_one_in_common(void **state)
{
    (void)state;
    const char *folders[2];
    series have[2];
    tt_run *runs[2];
    for (int i = 0; i < 2; i++) {
        folders[i] = strdup(run_folder_new());
        tt_recorder_options options = { .disk = i == 0 ? DISK : DISK / 2 };
        tt_recorder *rec = begin_run(folders[i], &options);
        train(rec, 0, 30000);
        runs[i] = finish_and_read(rec, folders[i]);
        have[i] = steps_of(runs[i], "gradient/0");
    }
    assert_true(have[1].n < have[0].n);
    size_t planned = 0;
    for (int64_t step = 0; step < 30000; step++) {
        int64_t strides[2] = { tt_run_stride(runs[0], 0, TT_THINNED_TENSORS, step),
                               tt_run_stride(runs[1], 0, TT_THINNED_TENSORS, step) };
        int64_t sparser = strides[0] > strides[1] ? strides[0] : strides[1];
        if (sparser == 1 || step % sparser != 0)
            continue;
        assert_true(count_in(&have[0], step, step) == 1 && count_in(&have[1], step, step) == 1);
        planned++;
    }
    assert_true(planned > 100);
    tt_run_close(runs[0]);
    tt_run_close(runs[1]);
    for (int i = 0; i < 2; i++) {
        free(have[i].steps);
        run_folder_remove(folders[i]);
        free((void *)(uintptr_t)folders[i]);
    }
}

/* A reader that has read points by their numbers learns that others came between them. */
static void a_reader_hears_of_points_between_others(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder_options options = bounded();
    tt_recorder *rec = begin_run(folder, &options);
    train(rec, 0, 30001);
    assert_int_equal(tt_recorder_flush(rec, &err), 0);
    tt_run *run = read_run(folder);
    int64_t before = tt_run_insertions(run);
    assert_int_equal(tt_recorder_note(rec, 30000, "something happened"), 0);
    assert_int_equal(tt_recorder_flush(rec, &err), 0);
    assert_int_equal(tt_run_refresh(run, &err), 0);
    assert_true(tt_run_insertions(run) > before);
    series one = steps_of(run, "gradient/0");
    assert_int_equal(count_in(&one, 30000 - BEFORE, 30000), BEFORE + 1);
    free(one.steps);
    tt_run_close(run);
    finish_run(rec);
    run_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_run_stays_within_its_disk_and_keeps_what_matters),
        cmocka_unit_test(a_file_says_which_steps_it_has),
        cmocka_unit_test(a_run_that_fits_is_not_thinned),
        cmocka_unit_test(a_resumed_run_goes_on_as_thinly),
        cmocka_unit_test(what_is_written_depends_on_the_points_alone),
        cmocka_unit_test(ranks_have_the_steps_of_the_sparser_one_in_common),
        cmocka_unit_test(a_reader_hears_of_points_between_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
