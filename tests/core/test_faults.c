/* test_faults.c -- each system call of the writer may fail, at any moment.
 *
 * The linker sends the calls here (-Wl,--wrap; with 64-bit offsets they carry a 64).  The nth of them fails, for every
 * n that occurs: recording stops with one error, the caller goes on, and what was
 * written before can be read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

#include "run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

ssize_t __real_pwritev64(int fd, const struct iovec *parts, int count, off_t at);
ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int count, off_t at);
int __real_fallocate64(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t at, off_t len);
int __real_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size);
int __real_fstat64(int fd, struct stat *about);
int __wrap_fstat64(int fd, struct stat *about);
ssize_t __real_pread64(int fd, void *out, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *out, size_t n, off_t at);
int __real_close(int fd);
int __wrap_close(int fd);

typedef enum call { PWRITEV, FALLOCATE, FTRUNCATE, FSTAT, PREAD, CLOSE, CALLS } call;
typedef enum fault { FAILS, IS_SHORT, IS_TORN, IS_INTERRUPTED } fault; /* torn: short, then it fails */

static atomic_int target = CALLS, countdown, fault_errno;
static atomic_int kind;
static atomic_bool is_lasting, was_hit;

static bool strikes(call which)
{
    if ((int)which != atomic_load(&target))
        return false;
    int left = atomic_fetch_sub(&countdown, 1);
    bool hit = left == 1 || (left < 1 && atomic_load(&is_lasting));
    if (hit) {
        atomic_store(&was_hit, true);
        errno = atomic_load(&fault_errno);
    }
    return hit;
}

ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int count, off_t at)
{
    if (!strikes(PWRITEV))
        return __real_pwritev64(fd, parts, count, at);
    if (atomic_load(&kind) == IS_TORN) {
        atomic_store(&kind, FAILS);
        atomic_store(&countdown, 1);
        return __real_pwritev64(fd, parts, 1, at);
    }
    if (atomic_load(&kind) == IS_SHORT) { /* half of the first part, or one byte */
        struct iovec some = { parts->iov_base, parts->iov_len / 2 + 1 };
        return __real_pwritev64(fd, &some, 1, at);
    }
    return -1;
}

int __wrap_fallocate64(int fd, int mode, off_t at, off_t len)
{
    return strikes(FALLOCATE) ? -1 : __real_fallocate64(fd, mode, at, len);
}

int __wrap_ftruncate64(int fd, off_t size)
{
    return strikes(FTRUNCATE) ? -1 : __real_ftruncate64(fd, size);
}

int __wrap_fstat64(int fd, struct stat *about)
{
    return strikes(FSTAT) ? -1 : __real_fstat64(fd, about);
}

ssize_t __wrap_pread64(int fd, void *out, size_t n, off_t at)
{
    if (!strikes(PREAD))
        return __real_pread64(fd, out, n, at);
    return atomic_load(&kind) == IS_SHORT ? __real_pread64(fd, out, n / 2 + 1, at) : -1;
}

int __wrap_close(int fd)
{
    if (!strikes(CLOSE))
        return __real_close(fd);
    (void)__real_close(fd);
    errno = atomic_load(&fault_errno);
    return -1;
}

enum { STEPS = 48 };
static tt_error err;

/* Records a little of everything; returns what closing said. */
static tt_status record(const char *folder, int64_t *surely)
{
    tt_recorder *rec;
    *surely = 0;
    tt_status st = tt_recorder_open(folder, &(tt_recorder_options){ .max_bytes = 3 << 20 }, &rec, &err);
    if (st < 0)
        return st;
    static float data[100000];
    tt_tensor t;
    int32_t site, value;
    tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ 100000 }, NULL, NULL);
    assert_int_equal(tt_recorder_site(rec, "x", &site, &err), 0);
    assert_int_equal(tt_recorder_site(rec, "value", &value, &err), 0);
    for (int64_t step = 0; step < STEPS; step++) {
        assert_int_equal(tt_recorder_scalar(rec, site, step, (double)step), 0);
        data[0] = (float)step;
        if (step % 4 == 0)
            assert_int_equal(
                tt_recorder_add(
                    rec, &(tt_event){ .site = value, .step = step, .tensor = &t, .has_value = true }),
                0);
        if (tt_recorder_flush(rec, &err) == TT_OK)
            *surely = step + 1;
    }
    return tt_recorder_close(rec, 30, &err);
}

static void check(const char *folder, int64_t surely)
{
    tt_run *run;
    tt_error why;
    if (tt_run_open(folder, &run, &why) < 0) {
        if (surely > 0)
            fail_msg("%s", why.text);
        return;
    }
    tt_check about;
    assert_int_equal(tt_run_check(run, 0, &about, &why), 0);
    if (about.damaged_bytes != 0)
        fail_msg("%s", about.first);
    assert_int_equal(about.torn_bytes, 0);
    double values[STEPS];
    size_t n = 0;
    assert_int_equal(
        tt_run_series(run, 0, tt_run_find(run, "x"), TT_FIELD_SCALAR, NULL, values, STEPS, &n, &why), 0);
    assert_true((int64_t)n >= surely);
    for (size_t i = 0; i < n; i++)
        assert_true(values[i] == (double)i);
    tt_run_close(run);
}

/* Returns how many such calls there were. */
static int strike_each(call which, fault how, int number, bool lasts, bool must_succeed)
{
    for (int nth = 1;; nth++) {
        const char *folder = run_folder_new();
        int64_t surely;
        atomic_store(&kind, how);
        atomic_store(&fault_errno, number);
        atomic_store(&is_lasting, lasts);
        atomic_store(&was_hit, false);
        atomic_store(&countdown, nth);
        atomic_store(&target, which);
        tt_status st = record(folder, &surely);
        atomic_store(&target, CALLS);
        if (must_succeed)
            assert_int_equal(st, TT_OK);
        if (st < 0)
            assert_true(strlen(err.text) > 10);
        if (st == TT_OK)
            assert_int_equal(surely, STEPS);
        check(folder, surely);
        run_folder_remove(folder);
        if (!atomic_load(&was_hit))
            return nth - 1;
        nth += nth / 12; /* every early one, then fewer */
    }
}

static void a_full_disk_stops_recording_with_one_error(void **state)
{
    (void)state;
    assert_true(strike_each(PWRITEV, FAILS, ENOSPC, true, false) > 40);
    assert_true(strike_each(PWRITEV, IS_TORN, ENOSPC, true, false) > 40);
}

static void a_failing_disk_stops_recording_with_one_error(void **state)
{
    (void)state;
    assert_true(strike_each(PWRITEV, FAILS, EIO, false, false) > 40);
    assert_true(strike_each(FSTAT, FAILS, EIO, false, false) > 40);
    assert_true(strike_each(FALLOCATE, FAILS, EIO, false, false) > 0);
    assert_true(strike_each(FTRUNCATE, FAILS, EIO, false, false) > 0);
    assert_true(strike_each(CLOSE, FAILS, EIO, false, false) > 0);
}

static void what_cannot_be_read_back_now_is_merged_later(void **state)
{
    (void)state;
    assert_true(strike_each(PREAD, FAILS, EIO, false, true) > 0);
    assert_true(strike_each(PREAD, FAILS, EIO, true, true) > 0);
}

static void short_and_interrupted_calls_go_on(void **state)
{
    (void)state;
    strike_each(PWRITEV, IS_SHORT, 0, false, true);
    strike_each(PWRITEV, IS_INTERRUPTED, EINTR, false, true);
    strike_each(FALLOCATE, IS_INTERRUPTED, EINTR, false, true);
    strike_each(FTRUNCATE, IS_INTERRUPTED, EINTR, false, true);
    strike_each(PREAD, IS_SHORT, 0, false, true);
    strike_each(PREAD, IS_INTERRUPTED, EINTR, false, true);
}

static void a_file_system_that_cannot_reserve_or_punch_is_fine(void **state)
{
    (void)state;
    strike_each(FALLOCATE, FAILS, EOPNOTSUPP, true, true);
    strike_each(FALLOCATE, FAILS, ENOSPC, true, true);
}

static void a_file_that_was_removed_stops_recording(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec;
    assert_int_equal(tt_recorder_open(folder, NULL, &rec, &err), 0);
    int32_t site;
    tt_recorder_site(rec, "x", &site, &err);
    tt_recorder_scalar(rec, site, 1, 1);
    assert_int_equal(tt_recorder_flush(rec, &err), 0);
    assert_int_equal(unlink(rec->path), 0);
    tt_recorder_scalar(rec, site, 2, 1);
    assert_int_equal(tt_recorder_flush(rec, &err), TT_EIO);
    assert_non_null(strstr(err.text, "removed"));
    for (int64_t i = 0; i < 1000000; i++) /* never waits for a writer that has left */
        assert_int_equal(tt_recorder_scalar(rec, site, i, 1), 0);
    tt_recorder_counts counts;
    tt_recorder_counts_get(rec, &counts);
    assert_int_equal(counts.dropped_events, 1000000);
    assert_int_equal(tt_recorder_close(rec, 5, &err), TT_EIO);
    run_folder_remove(folder);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state)
{
    (void)state;
    tt_recorder *rec;
    assert_int_equal(tt_recorder_open("/proc/nothing/here", NULL, &rec, &err), TT_EIO);
    assert_int_equal(tt_recorder_open("", NULL, &rec, &err), TT_EINVAL);
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_stops_recording_with_one_error),
        cmocka_unit_test(a_failing_disk_stops_recording_with_one_error),
        cmocka_unit_test(what_cannot_be_read_back_now_is_merged_later),
        cmocka_unit_test(short_and_interrupted_calls_go_on),
        cmocka_unit_test(a_file_system_that_cannot_reserve_or_punch_is_fine),
        cmocka_unit_test(a_file_that_was_removed_stops_recording),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
