/* test_recorder_limits.c -- many threads, full queues, full disks, no memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include "alloc_fail.h"
#include "run_folder.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static tt_error err;

static void the_oldest_values_make_room_and_statistics_stay(void **state)
{
    (void)state;
    enum { COUNT = 1 << 18, STEPS = 40, LIMIT = 12 << 20 };
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .max_bytes = LIMIT });
    int32_t changing = site_of(rec, "changing"), fixed = site_of(rec, "fixed");
    float *data = malloc(COUNT * 4);
    tt_tensor t;
    tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ COUNT }, NULL, &err);
    for (int64_t step = 0; step < STEPS; step++) {
        tt_stats s = stats_of(0, step);
        memset(data, 1, COUNT * 4);
        tt_recorder_add(
            rec,
            &(tt_event){ .site = fixed, .step = step, .tensor = &t, .stats = &s, .has_value = true });
        for (int i = 0; i < COUNT; i++)
            data[i] = (float)(i + step * 77);
        tt_recorder_add(
            rec,
            &(tt_event){ .site = changing, .step = step, .tensor = &t, .stats = &s, .has_value = true });
        tt_recorder_flush(rec, &err);
        tt_recorder_counts counts;
        tt_recorder_counts_get(rec, &counts);
        assert_true(counts.bytes <= LIMIT + (1 << 20));
    }
    tt_run *run = finish_and_read(rec, folder);
    tt_point p;
    tt_value v;
    for (int64_t step = 0; step < STEPS; step++) {
        assert_int_equal(tt_run_point(run, 0, changing, step, &p, &err), 0);
        assert_true(p.stats.mean == stats_of(0, step).mean);
        tt_status st = tt_run_value_find(run, 0, p.value_at, &v, &err);
        assert_int_equal(st, step < 30 ? st : TT_OK);
        if (step < 20)
            assert_int_equal(st, TT_EMISMATCH);
        if (st == TT_OK) {
            assert_int_equal(tt_run_value_read(run, &v, data, &err), 0);
            assert_true(data[5] == (float)(5 + step * 77));
        }
    }
    assert_int_equal(tt_run_point(run, 0, fixed, -1, &p, &err), 0); /* in use all the time */
    assert_int_equal(tt_run_value_find(run, 0, p.value_at, &v, &err), 0);
    assert_int_equal(tt_run_value_read(run, &v, data, &err), 0);
    int64_t latest = p.value_at;
    assert_int_equal(tt_run_point(run, 0, fixed, 0, &p, &err), 0);
    assert_int_equal(p.value_at, latest); /* kept, not given up and stored again */
    tt_run_close(run);
    free(data);
    run_folder_remove(folder);
}

static void fill(float *values, size_t count, int64_t step)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)i + (float)step * 77;
}

static void a_value_in_pieces_is_evicted_whole(void **state)
{
    (void)state;
    enum { COUNT = 3 << 18, STEPS = 9 }; /* 3 MB in 24 pieces; a stretch is 1 MB */
    const char *folder = run_folder_new();
    tt_recorder *rec =
        begin_run(folder, &(tt_recorder_options){ .max_bytes = 10 << 20, .queue_bytes = 1 << 20 });
    int32_t site = site_of(rec, "x");
    float *data = malloc(COUNT * 4), *expected = malloc(COUNT * 4);
    tt_tensor t;
    tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ COUNT }, NULL, &err);
    for (int64_t step = 0; step < STEPS; step++) {
        fill(data, COUNT, step < STEPS - 1 ? step : 0); /* at the end the first one again */
        tt_recorder_add(rec, &(tt_event){ .site = site, .step = step, .tensor = &t, .has_value = true });
        tt_recorder_flush(rec, &err);
    }
    tt_run *run = finish_and_read(rec, folder);
    int there = 0;
    for (int64_t step = 0; step < STEPS; step++) {
        tt_point p;
        tt_value v;
        assert_int_equal(tt_run_point(run, 0, site, step, &p, &err), TT_OK);
        tt_status st = tt_run_value_find(run, 0, p.value_at, &v, &err);
        if (st != TT_OK) {
            assert_int_equal(st, TT_EMISMATCH);
            assert_string_equal(err.text, "this value was evicted to stay within max_bytes");
            continue;
        }
        there++;
        fill(expected, COUNT, step < STEPS - 1 ? step : 0);
        assert_int_equal(tt_run_value_read(run, &v, data, &err), TT_OK);
        assert_memory_equal(data, expected, COUNT * 4);
        if (step == 0)
            fail_msg("the first value is still there");
    }
    assert_int_equal(there, 3); /* as many as max_bytes has room for, the last one among them */
    tt_run_close(run);
    free(data);
    free(expected);
    run_folder_remove(folder);
}

static void a_value_larger_than_max_bytes_evicts_nothing(void **state)
{
    (void)state;
    enum { SMALL = 1000, LARGE = 3 << 18 };
    const char *folder = run_folder_new();
    tt_recorder *rec =
        begin_run(folder, &(tt_recorder_options){ .max_bytes = 2 << 20, .queue_bytes = 1 << 20 });
    int32_t site = site_of(rec, "x");
    float *data = malloc(LARGE * 4);
    tt_tensor t;
    fill(data, LARGE, 1);
    for (int64_t step = 0; step < 2; step++) {
        tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ step == 0 ? SMALL : LARGE }, NULL, &err);
        tt_recorder_add(rec, &(tt_event){ .site = site, .step = step, .tensor = &t, .has_value = true });
    }
    tt_run *run = finish_and_read(rec, folder);
    tt_point p;
    tt_value v;
    assert_int_equal(tt_run_point(run, 0, site, 0, &p, &err), TT_OK);
    assert_int_equal(tt_run_value_find(run, 0, p.value_at, &v, &err), TT_OK);
    assert_int_equal(tt_run_point(run, 0, site, 1, &p, &err), TT_OK);
    assert_int_equal(p.value_at, 0);
    tt_run_close(run);
    free(data);
    run_folder_remove(folder);
}

enum { THREADS = 8, EVENTS = 20000 };
static tt_recorder *shared;

static void *produce(void *number)
{
    int32_t me = (int32_t)(intptr_t)number, site;
    char name[16];
    (void)snprintf(name, sizeof name, "thread%d", (int)me);
    tt_recorder_site(shared, name, &site, NULL);
    for (int64_t i = 0; i < EVENTS; i++) {
        if (i % 10 == 0) {
            tt_stats s = stats_of(me, i);
            tt_recorder_add(shared, &(tt_event){ .site = site, .step = i, .stats = &s });
        } else {
            tt_recorder_scalar(shared, site, i, (double)(me * EVENTS + i));
        }
    }
    return NULL;
}

static void eight_threads_record_and_nothing_is_lost(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    shared = begin_run(folder, &(tt_recorder_options){ .queue_bytes = 1 << 17 }); /* small: they wait */
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, produce, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tt_recorder_counts counts;
    tt_recorder_counts_get(shared, &counts);
    assert_int_equal(counts.events, THREADS * EVENTS);
    assert_int_equal(counts.dropped_events, 0);
    tt_run *run = finish_and_read(shared, folder);
    static double values[EVENTS];
    static int64_t steps[EVENTS];
    for (int me = 0; me < THREADS; me++) {
        char name[16];
        size_t n;
        (void)snprintf(name, sizeof name, "thread%d", me);
        int32_t site = tt_run_find(run, name);
        assert_int_equal(tt_run_points(run, 0, site), EVENTS);
        assert_int_equal(tt_run_series(run, 0, site, TT_FIELD_SCALAR, steps, values, EVENTS, &n, &err),
                         0);
        assert_int_equal(n, EVENTS / 10 * 9);
        for (size_t i = 0; i < n; i++) /* in the order recorded */
            assert_true(values[i] == (double)(me * EVENTS + steps[i]) &&
                        (i == 0 || steps[i] > steps[i - 1]));
    }
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_full_queue_drops_with_exact_counts(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .queue_bytes = 1 << 16, .drops = true });
    int32_t site = site_of(rec, "x");
    for (int64_t i = 0; i < 300000; i++)
        tt_recorder_scalar(rec, site, i, 1);
    tt_recorder_counts counts;
    tt_recorder_counts_get(rec, &counts);
    finish_run(rec);
    tt_run *run = read_run(folder);
    tt_run_file about;
    tt_run_file_get(run, 0, &about);
    assert_int_equal(counts.events + counts.dropped_events, 300000);
    assert_int_equal(about.points, counts.events);
    assert_int_equal(about.dropped_events, counts.dropped_events);
    tt_run_close(run);
    run_folder_remove(folder);
}

/* A caller that lets go of a lock while it waits. */
typedef struct patience {
    float *data;
    int waits;
    int changes_at; /* which wait finds the first element changed; 0: none */
    int gone_at;    /* which wait finds the memory gone; 0: none */
} patience;

static void leave(void *context)
{
    ((patience *)context)->waits++;
}

static bool enter(void *context)
{
    const patience *caller = context;
    if (caller->waits == caller->changes_at)
        caller->data[0] += 1;
    return caller->waits != caller->gone_at;
}

static void a_caller_may_wait_in_its_own_way_and_what_changed_meanwhile_is_no_value(void **state)
{
    (void)state;
    /* Far more than the queue holds: it is full often, however busy the machine. */
    enum { COUNT = 1 << 22 };
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .queue_bytes = 1 << 16 });
    int32_t site = site_of(rec, "x");
    float *data = calloc(COUNT, sizeof *data), *back = malloc(COUNT * sizeof *back);
    tt_tensor t;
    tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ COUNT }, NULL, &err);
    patience callers[] = { { data, 0, 0, 0 }, { data, 0, 3, 0 }, { data, 0, 0, 3 }, { data, 0, 0, 0 } };
    for (int64_t step = 0; step < 4; step++) {
        data[1] = (float)step;
        tt_stats s = stats_of(0, step);
        tt_recorder_add(rec, &(tt_event){ .site = site,
                                          .step = step,
                                          .tensor = &t,
                                          .stats = &s,
                                          .has_value = true,
                                          .leave = leave,
                                          .enter = enter,
                                          .context = &callers[step] });
        assert_true(callers[step].waits >= 3);
    }
    tt_recorder_counts counts;
    tt_recorder_counts_get(rec, &counts);
    assert_int_equal(counts.values, 2);
    assert_int_equal(counts.dropped_events, 2);
    tt_run *run = finish_and_read(rec, folder);
    for (int64_t step = 0; step < 4; step++) {
        tt_point p;
        tt_value v;
        assert_int_equal(tt_run_point(run, 0, site, step, &p, &err), 0);
        assert_true(p.stats.mean == stats_of(0, step).mean); /* statistics stay */
        bool has_value = (p.products & TT_PRODUCT_VALUE) != 0;
        assert_int_equal(has_value, step == 0 || step == 3);
        if (!has_value)
            continue;
        assert_int_equal(tt_run_value_find(run, 0, p.value_at, &v, &err), 0);
        assert_int_equal(tt_run_value_read(run, &v, back, &err), 0);
        assert_true(back[0] == (step == 0 ? 0.0f : 1.0f) && back[1] == (float)step);
    }
    tt_run_close(run);
    free(data);
    free(back);
    run_folder_remove(folder);
}

static int64_t resident_bytes(void)
{
    long long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%lld %lld", &size, &resident) != 2)
        fail_msg("/proc/self/statm cannot be read");
    (void)fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { COUNTS_MEMORY = 0 }; /* a sanitizer's own is resident as well */
#else
enum { COUNTS_MEMORY = 1 };
#endif

static void a_queue_that_is_never_full_stays_small(void **state)
{
    (void)state;
    enum { ROUNDS = 60, EACH = 20000 }; /* 64 bytes each: 1.3 MB a round, 77 MB in all */
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .queue_bytes = 128 << 20 });
    int32_t site = site_of(rec, "x");
    int64_t before = resident_bytes();
    for (int64_t round = 0; round < ROUNDS; round++) {
        for (int64_t i = 0; i < EACH; i++)
            tt_recorder_scalar(rec, site, round * EACH + i, (double)(round * EACH + i));
        assert_int_equal(tt_recorder_flush(rec, &err), 0);
    }
    if (COUNTS_MEMORY)
        assert_true(resident_bytes() - before < 40 << 20);
    tt_run *run = finish_and_read(rec, folder);
    assert_int_equal(tt_run_points(run, 0, site), ROUNDS * EACH);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void closing_may_wait_for_ever(void **state)
{
    (void)state;
    static const double seconds[] = { INFINITY, 1e300, 1e10 };
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        const char *folder = run_folder_new();
        tt_recorder *rec = begin_run(folder, NULL);
        tt_recorder_scalar(rec, site_of(rec, "x"), 0, 1.0);
        assert_int_equal(tt_recorder_close(rec, seconds[i], &err), TT_OK);
        tt_run *run = read_run(folder);
        tt_run_file about;
        assert_int_equal(tt_run_file_get(run, 0, &about), TT_OK);
        assert_true(about.is_closed);
        tt_run_close(run);
        run_folder_remove(folder);
    }
}

static void an_allocation_that_fails_is_reported(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        const char *folder = run_folder_new();
        tt_recorder *rec = NULL;
        tt_run *run = NULL;
        alloc_fail_at(nth);
        tt_status st = tt_recorder_open(folder, NULL, &rec, &err);
        if (st == TT_OK) {
            int32_t site = 0;
            st = tt_recorder_site(rec, "x", &site, &err);
            tt_stats s = stats_of(1, 1);
            float data[64] = { 1 };
            tt_tensor t;
            tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ 64 }, NULL, NULL);
            for (int64_t step = 0; st == TT_OK && step < 40; step++) {
                tt_recorder_add(
                    rec,
                    &(tt_event){
                        .site = site, .step = step, .stats = &s, .tensor = &t, .has_value = step == 3 });
                st = tt_recorder_flush(rec, &err);
            }
            tt_status closed = tt_recorder_close(rec, 30, &err);
            st = st < 0 ? st : closed;
        }
        tt_status opened = tt_run_open(folder, &run, NULL);
        double values[64];
        size_t n;
        if (opened == TT_OK)
            opened = tt_run_series(run, 0, 0, TT_FIELD_MEAN, NULL, values, 64, &n, NULL);
        bool was_hit = alloc_fail_stop();
        tt_run_close(run);
        run_folder_remove(folder);
        if (!was_hit) {
            assert_true(st == TT_OK && opened == TT_OK);
            assert_true(nth > 20);
            return;
        }
        assert_true(st == TT_ENOMEM || opened == TT_ENOMEM || (st == TT_OK && opened == TT_OK) ||
                    opened == TT_EIO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_values_make_room_and_statistics_stay),
        cmocka_unit_test(a_value_in_pieces_is_evicted_whole),
        cmocka_unit_test(a_value_larger_than_max_bytes_evicts_nothing),
        cmocka_unit_test(eight_threads_record_and_nothing_is_lost),
        cmocka_unit_test(a_full_queue_drops_with_exact_counts),
        cmocka_unit_test(a_caller_may_wait_in_its_own_way_and_what_changed_meanwhile_is_no_value),
        cmocka_unit_test(a_queue_that_is_never_full_stays_small),
        cmocka_unit_test(closing_may_wait_for_ever),
        cmocka_unit_test(an_allocation_that_fails_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
