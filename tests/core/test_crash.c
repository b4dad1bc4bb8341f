/* test_crash.c -- kill -9 and fork at any moment leave a run that can be read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "run_folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static tt_error err;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_for(double seconds)
{
    struct timespec t = { .tv_nsec = (long)(seconds * 1e9) };
    nanosleep(&t, NULL);
}

/* What the child did, as it saw it itself: how late the parent is does not count. */
typedef struct progress {
    _Atomic int64_t step;        /* of the scalar recorded last */
    _Atomic int64_t time;        /* when that was, ns since 1970 */
    _Atomic int64_t stood_still; /* ns in all that the machine, or nobody, let it run */
} progress;

enum { PAUSE = 100000000 }; /* ns between two steps that are not the child's doing */

static int64_t wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Records for ever: scalars, statistics, values; at a pace so little that only the clock
 * makes the writer write. */
static void record_under_load(const char *folder, progress *shared, bool is_paced)
{
    tt_recorder *rec;
    if (tt_recorder_open(folder, NULL, &rec, &err) < 0)
        _exit(3);
    int32_t sites[4];
    static float data[70000];
    tt_tensor t;
    tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ 70000 }, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "site%d", i);
        tt_recorder_site(rec, name, &sites[i], NULL);
    }
    for (int64_t step = 0;; step++) {
        for (int32_t i = 0; i < 3; i++) {
            tt_stats s = stats_of(i, step);
            tt_recorder_add(rec, &(tt_event){ .site = sites[i], .step = step, .stats = &s });
        }
        data[0] = (float)step;
        if (step % (is_paced ? 1000 : 50) == 0)
            tt_recorder_add(
                rec, &(tt_event){ .site = sites[2], .step = step, .tensor = &t, .has_value = true });
        tt_recorder_scalar(rec, sites[3], step, (double)step);
        int64_t moment = wall_clock(), gap = moment - shared->time;
        shared->step = step;
        shared->time = moment;
        shared->stood_still += gap > PAUSE ? gap : 0;
        if (is_paced)
            sleep_for(0.0002);
    }
}

/* The recorder stamps each event with the same clock. */
static int64_t time_of_last(tt_run *run, int32_t site)
{
    tt_point last;
    size_t count = tt_run_points(run, 0, site);
    assert_int_equal(tt_run_point(run, 0, site, (int64_t)count - 1, &last, &err), 0);
    return last.time;
}

/* Seconds between the last event that was recorded and the last that is in the file. */
static double check_killed_run(const char *folder, int64_t begun, const progress *did)
{
    tt_run *run;
    if (tt_run_open(folder, &run, &err) < 0) /* killed before the first block */
        return (double)(did->time - begun) * 1e-9;
    tt_check about;
    assert_int_equal(tt_run_check(run, 0, &about, &err), 0);
    if (about.damaged_bytes != 0)
        fail_msg("%s", about.first);
    int32_t site = tt_run_find(run, "site3");
    size_t n = 0, count = site >= 0 ? tt_run_points(run, 0, site) : 0;
    int64_t *steps = malloc((count + 1) * sizeof *steps);
    double *values = malloc((count + 1) * sizeof *values);
    if (count > 0)
        assert_int_equal(tt_run_series(run, 0, site, TT_FIELD_SCALAR, steps, values, count, &n, &err), 0);
    for (size_t i = 0; i < n; i++) /* whole events, in order, none missing */
        assert_true(steps[i] == (int64_t)i && values[i] == (double)i);
    assert_true((int64_t)n <= did->step + 2); /* it may have died before it could tell */
    int64_t last = n > 0 ? time_of_last(run, site) : begun;
    free(steps);
    free(values);
    tt_run_close(run);
    /* ... and it can go on. */
    tt_recorder *rec;
    if (tt_recorder_open(folder, &(tt_recorder_options){ .resumes = true }, &rec, &err) < 0)
        fail_msg("%s", err.text);
    tt_recorder_site(rec, "site3", &site, NULL);
    tt_recorder_scalar(rec, site, (int64_t)n, (double)n);
    assert_int_equal(tt_recorder_close(rec, 120, &err), 0);
    assert_int_equal(tt_run_open(folder, &run, &err), 0);
    assert_int_equal(tt_run_points(run, 0, tt_run_find(run, "site3")), n + 1);
    tt_run_close(run);
    return (double)(did->time - last) * 1e-9;
}

/* Seconds in which the writer was ready to run and had no processor: not its doing. */
static double writer_waited(pid_t child)
{
    char path[300];
    long long ran, waited = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)child);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        if (atoi(task->d_name) == 0 || atoi(task->d_name) == child)
            continue; /* the writer is the thread that is not the first */
        (void)snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)child, task->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL && fscanf(file, "%lld %lld", &ran, &waited) != 2)
            waited = 0;
        if (file != NULL)
            (void)fclose(file);
    }
    if (tasks != NULL)
        (void)closedir(tasks);
    return (double)waited * 1e-9;
}

/* Kills a recorder after so long; gives the seconds that its run lacks and should not. */
static double lost_by_a_kill(progress *shared, double seconds, bool is_paced)
{
    const char *folder = run_folder_new();
    int64_t begun = wall_clock();
    *shared = (progress){ .time = begun };
    pid_t child = fork();
    if (child == 0)
        record_under_load(folder, shared, is_paced);
    sleep_for(seconds);
    double waited = writer_waited(child);
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    double lost = check_killed_run(folder, begun, shared);
    run_folder_remove(folder);
    return lost - waited - (double)shared->stood_still * 1e-9;
}

/* A machine that stands still, or a slow disk, is asked again.  A writer that writes too
 * seldom loses too much each time, for it is killed at the same moment. */
static void killed_runs_open_and_lose_half_a_second_at_most(void **state)
{
    (void)state;
    enum { TRIES = 8 };
    const char *rounds = getenv("TT_KILLS");
    int kills = rounds != NULL ? atoi(rounds) : 25;
    progress *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    srand(3);
    double longest = 0;
    for (int i = 0; i < kills; i++) {
        double seconds = i % 5 == 0 ? 0.05 * (rand() % 3) : 0.05 + 0.0009 * (rand() % 1000), lost = 1;
        for (int turn = 0; turn < TRIES && lost > 0.5; turn++)
            lost = lost_by_a_kill(shared, seconds, i % 2 == 0);
        longest = lost > longest ? lost : longest;
    }
    print_message("%d kills, lost at most %.3f s\n", kills, longest);
    assert_true(longest <= 0.5);
    munmap(shared, sizeof *shared);
}

#if defined(__SANITIZE_THREAD__)
enum { CHILDREN_RECORD = 0 }; /* it takes a new thread on the old writer's stack for that writer */
#else
enum { CHILDREN_RECORD = 1 };
#endif

static void forks_under_a_saturated_writer_never_hang(void **state)
{
    (void)state;
    const char *rounds = getenv("TT_FORKS");
    int forks = rounds != NULL ? atoi(rounds) : 200;
    const char *folder = run_folder_new();
    char mine[300];
    (void)snprintf(mine, sizeof mine, "%s", folder);
    tt_recorder *rec;
    assert_int_equal(tt_recorder_open(mine, NULL, &rec, &err), 0);
    int32_t site;
    tt_recorder_site(rec, "x", &site, NULL);
    int64_t step = 0;
    double longest = 0;
    for (int i = 0; i < forks; i++) {
        for (int k = 0; k < 3000; k++, step++)
            tt_recorder_scalar(rec, site, step, (double)step);
        double start = now();
        pid_t child = fork();
        double took = now() - start;
        if (child == 0) {
            alarm(60);
            char own[320];
            tt_recorder *other;
            int32_t there;
            if (!tt_recorder_is_inherited(rec) || tt_recorder_scalar(rec, site, 1, 1) < 0 ||
                tt_recorder_flush(rec, NULL) < 0 || tt_recorder_note(rec, 1, "no") < 0)
                _exit(1);
            if (tt_recorder_site(rec, "new name", &there, NULL) < 0 ||
                tt_recorder_close(rec, 1, NULL) < 0)
                _exit(2);
            if (!CHILDREN_RECORD)
                _exit(0);
            /* A file of its own works, beside the parent's. */
            (void)snprintf(own, sizeof own, "%s", mine);
            if (tt_recorder_open(own, &(tt_recorder_options){ .child = getpid(), .queue_bytes = 1 << 16 },
                                 &other, NULL) < 0)
                _exit(3);
            tt_recorder_site(other, "y", &there, NULL);
            tt_recorder_scalar(other, there, i, 1);
            _exit(tt_recorder_close(other, 30, NULL) < 0 ? 4 : 0);
        }
        longest = took > longest ? took : longest;
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("child %d: status %x", i, (unsigned)status);
    }
    assert_int_equal(tt_recorder_close(rec, 120, &err), 0);
    tt_run *run;
    assert_int_equal(tt_run_open(mine, &run, &err), 0);
    assert_int_equal(tt_run_file_count(run), 1 + (CHILDREN_RECORD ? forks : 0));
    assert_int_equal(tt_run_points(run, 0, tt_run_find(run, "x")), step);
    tt_check about;
    assert_int_equal(tt_run_check(run, 0, &about, &err), 0);
    assert_true(about.damaged_bytes == 0 && about.is_closed);
    tt_run_close(run);
    print_message("longest fork: %.1f ms\n", longest * 1e3);
    run_folder_remove(mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_runs_open_and_lose_half_a_second_at_most),
        cmocka_unit_test(forks_under_a_saturated_writer_never_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
