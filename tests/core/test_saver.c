/* test_saver.c -- files are whole or not there, memory is bounded, forks are safe.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "alloc_fail.h"
#include "known_bytes.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG = (9 << 20) + 5 };

/* On tmpfs, if there is one: no space is reserved there. */
static int make_folder_in_memory(void **state)
{
    const char *before = getenv("TMPDIR");
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 1);
    int made = known_folder_make(state);
    if (before != NULL)
        (void)setenv("TMPDIR", before, 1);
    else
        (void)unsetenv("TMPDIR");
    return made;
}

static void after_waiting_every_file_is_there_whole(void **state)
{
    (void)state;
    tt_saver *saver;
    assert_int_equal(tt_saver_open(1 << 20, &saver, NULL), TT_OK);
    for (int i = 0; i < 200; i++) {
        tt_tensor t = known_tensor(i * 1500); /* 0 bytes is a file too */
        assert_int_equal(tt_saver_add(saver, known_path(i), TT_FORMAT_BYTES, &t, NULL, NULL), TT_OK);
        assert_true(tt_saver_held(saver) <= 1 << 20);
    }
    assert_int_equal(tt_saver_wait(saver, NULL, NULL), TT_OK);
    for (int i = 0; i < 200; i++)
        assert_known_file(known_path(i), (size_t)i * 1500);
    assert_int_equal(count_known_files(""), 200); /* nothing temporary */
    tt_saver_close(saver);
}

static void assert_same_files(int one, int other)
{
    char a[4096], b[4096];
    size_t n, all = 0;
    FILE *first = fopen(known_path(one), "rb"), *second = fopen(known_path(other), "rb");
    assert_non_null(first);
    assert_non_null(second);
    while ((n = fread(a, 1, sizeof a, first)) > 0) {
        assert_int_equal(fread(b, 1, sizeof b, second), n);
        assert_memory_equal(a, b, n);
        all += n;
    }
    assert_int_equal(fread(b, 1, 1, second), 0);
    assert_true(all >= LONG);
    (void)fclose(first);
    (void)fclose(second);
}

/* The thread writes what the program's thread is still copying. */
static void a_long_tensor_gives_the_same_file_whoever_writes_it(void **state)
{
    (void)state;
    char *data = malloc(LONG);
    tt_saver *saver;
    tt_tensor t;
    const int64_t count = LONG;
    for (size_t i = 0; i < LONG; i++)
        data[i] = (char)(i * 7 + (i >> 13));
    assert_int_equal(tt_tensor_describe(&t, data, TT_U8, 1, &count, NULL, NULL), TT_OK);
    assert_int_equal(tt_saver_open(0, &saver, NULL), TT_OK);
    for (int i = 0; i < 16; i++) {
        tt_format format = (tt_format)(i / 2 % TT_FORMAT_COUNT_);
        assert_int_equal(tt_file_save(known_path(100), format, &t, NULL, NULL), TT_OK);
        assert_int_equal(tt_saver_add(saver, known_path(i), format, &t, NULL, NULL), TT_OK);
        memset(data, 0, LONG);                        /* it is the program's again */
        usleep(i % 2 == 0 ? 0 : 3000u * (unsigned)i); /* the thread has begun, or not */
        assert_int_equal(tt_saver_wait(saver, NULL, NULL), TT_OK);
        assert_same_files(100, i);
        for (size_t k = 0; k < LONG; k++)
            data[k] = (char)(k * 7 + (k >> 13));
    }
    tt_saver_close(saver);
    free(data);
}

/* Each look for work is a context switch, which the kernel counts. */
static void the_thread_sleeps_when_nothing_comes(void **state)
{
    (void)state;
    tt_saver *saver;
    tt_tensor t = known_tensor(10);
    struct rusage before, after;
    assert_int_equal(tt_saver_open(0, &saver, NULL), TT_OK);
    assert_int_equal(tt_saver_add(saver, known_path(0), TT_FORMAT_BYTES, &t, NULL, NULL), TT_OK);
    assert_int_equal(tt_saver_wait(saver, NULL, NULL), TT_OK);
    (void)getrusage(RUSAGE_SELF, &before);
    usleep(200000);
    (void)getrusage(RUSAGE_SELF, &after);
    assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 1, 20);
    tt_saver_close(saver);
}

static void what_is_larger_than_the_memory_goes_through(void **state)
{
    (void)state;
    tt_saver *saver;
    tt_tensor t = known_tensor(KNOWN_BYTES);
    assert_int_equal(tt_saver_open(1000, &saver, NULL), TT_OK);
    assert_int_equal(tt_saver_add(saver, known_path(0), TT_FORMAT_BYTES, &t, NULL, NULL), TT_OK);
    assert_known_file(known_path(0), KNOWN_BYTES);
    tt_saver_close(saver);
}

static void a_strided_tensor_is_written_in_logical_order(void **state)
{
    (void)state;
    tt_tensor t;
    char want[6];
    tt_saver *saver;
    const int64_t shape[] = { 2, 3 }, stride[] = { 1, 1000 };
    assert_int_equal(tt_tensor_describe(&t, known_bytes, TT_U8, 2, shape, stride, NULL), TT_OK);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            want[i * 3 + k] = known_bytes[i + 1000 * k];
    assert_int_equal(tt_saver_open(0, &saver, NULL), TT_OK);
    assert_int_equal(tt_saver_add(saver, known_path(0), TT_FORMAT_BYTES, &t, NULL, NULL), TT_OK);
    assert_int_equal(tt_file_save(known_path(1), TT_FORMAT_BYTES, &t, NULL, NULL), TT_OK);
    tt_saver_close(saver); /* writes what is left */
    for (int i = 0; i < 2; i++) {
        char got[7];
        FILE *file = fopen(known_path(i), "rb");
        assert_int_equal(fread(got, 1, 7, file), 6);
        assert_memory_equal(got, want, 6);
        (void)fclose(file);
    }
}

static void a_failure_names_the_file_and_leaves_the_others(void **state)
{
    (void)state;
    tt_saver *saver;
    tt_tensor t = known_tensor(10);
    tt_error err;
    int64_t failed = 0;
    char lost[300];
    (void)snprintf(lost, sizeof lost, "%s/gone/q.call0.pt", known_folder());
    assert_int_equal(tt_saver_open(0, &saver, NULL), TT_OK);
    assert_int_equal(tt_saver_add(saver, lost, TT_FORMAT_BYTES, &t, NULL, &err), TT_OK);
    assert_int_equal(tt_saver_add(saver, lost, TT_FORMAT_BYTES, &t, NULL, &err), TT_OK);
    assert_int_equal(tt_saver_add(saver, known_path(1), TT_FORMAT_BYTES, &t, NULL, &err), TT_OK);
    assert_int_equal(tt_saver_wait(saver, &failed, &err), TT_EIO);
    assert_int_equal(failed, 2);
    assert_non_null(strstr(err.text, "gone/q.call0.pt"));
    assert_known_file(known_path(1), 10);
    assert_int_equal(tt_saver_wait(saver, &failed, &err), TT_OK); /* told once */
    tt_saver_close(saver);
}

static void a_full_disk_leaves_no_half_file(void **state)
{
    (void)state;
    tt_saver *saver;
    tt_error err;
    tt_tensor t = known_tensor(KNOWN_BYTES), fits = known_tensor(100);
    struct rlimit before, small;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 100000;
    assert_int_equal(tt_saver_open(0, &saver, NULL), TT_OK);
    (void)setrlimit(RLIMIT_FSIZE, &small);
    (void)tt_saver_add(saver, known_path(0), TT_FORMAT_PT, &t, NULL, NULL);
    (void)tt_saver_add(saver, known_path(1), TT_FORMAT_BYTES, &fits, NULL, NULL);
    tt_status st = tt_saver_wait(saver, NULL, &err);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(st, TT_EIO);
    assert_non_null(strstr(err.text, known_path(0)));
    assert_int_equal(count_known_files(""), 1);
    assert_known_file(known_path(1), 100);
    tt_saver_close(saver);
}

typedef struct producer {
    tt_saver *saver;
    int first;
} producer;

static void *produce(void *argument)
{
    const producer *p = argument;
    for (int i = 0; i < 40; i++) {
        tt_tensor t = known_tensor(1000 + 97 * i);
        assert_int_equal(
            tt_saver_add(p->saver, known_path(p->first + i), TT_FORMAT_BYTES, &t, NULL, NULL), TT_OK);
        if (i % 10 == 9)
            assert_int_equal(tt_saver_wait(p->saver, NULL, NULL), TT_OK);
    }
    for (int i = 0; i < 40; i++) /* its own are there, whatever the others do */
        assert_known_file(known_path(p->first + i), (size_t)(1000 + 97 * i));
    return NULL;
}

static void many_threads_may_save_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    producer producers[4];
    tt_saver *saver;
    assert_int_equal(tt_saver_open(20000, &saver, NULL), TT_OK);
    for (int i = 0; i < 4; i++) {
        producers[i] = (producer){ saver, i * 40 };
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    tt_saver_close(saver);
}

static void a_forked_child_saves_and_ends(void **state)
{
    (void)state;
    tt_saver *saver;
    tt_tensor t = known_tensor(KNOWN_BYTES);
    assert_int_equal(tt_saver_open(4 << 20, &saver, NULL), TT_OK);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(tt_saver_add(saver, known_path(i), TT_FORMAT_BYTES, &t, NULL, NULL), TT_OK);
        pid_t child = fork(); /* while the writer is at work */
        if (child == 0) {
            alarm(60);
            tt_status st = tt_saver_add(saver, known_path(100 + i), TT_FORMAT_BYTES, &t, NULL, NULL);
            st = st == TT_OK ? tt_saver_wait(saver, NULL, NULL) : st;
            tt_saver_close(saver);
            _exit(st == TT_OK ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_known_file(known_path(100 + i), KNOWN_BYTES);
    }
    assert_int_equal(tt_saver_wait(saver, NULL, NULL), TT_OK);
    tt_saver_close(saver);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    tt_tensor t = known_tensor(1000);
    for (long nth = 1;; nth++) {
        tt_saver *saver = NULL;
        tt_error err;
        alloc_fail_at(nth);
        tt_status st = tt_saver_open(0, &saver, &err);
        if (st == TT_OK)
            st = tt_saver_add(saver, known_path(0), TT_FORMAT_PT, &t, NULL, &err);
        if (st == TT_OK)
            st = tt_saver_wait(saver, NULL, &err);
        bool was_hit = alloc_fail_stop();
        tt_saver_close(saver);
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        if (!was_hit)
            break;
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, known_folder_make, known_folder_remove)
    const struct CMUnitTest tests[] = {
        TEST(after_waiting_every_file_is_there_whole),
        TEST(a_long_tensor_gives_the_same_file_whoever_writes_it),
        cmocka_unit_test_setup_teardown(a_long_tensor_gives_the_same_file_whoever_writes_it,
                                        make_folder_in_memory, known_folder_remove),
        TEST(the_thread_sleeps_when_nothing_comes),
        TEST(what_is_larger_than_the_memory_goes_through),
        TEST(a_strided_tensor_is_written_in_logical_order),
        TEST(a_failure_names_the_file_and_leaves_the_others),
        TEST(a_full_disk_leaves_no_half_file),
        TEST(many_threads_may_save_at_once),
        TEST(a_forked_child_saves_and_ends),
        TEST(killed_at_any_moment_every_file_is_whole),
        TEST(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
