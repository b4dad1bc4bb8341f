/* test_named_temporary.c -- where files cannot be without a name, they are whole as well.
 *
 * Some file systems (FAT, NFS, older overlays) know no O_TMPFILE.  This program
 * asks the kernel to refuse it, for good, before the first test: from then on
 * every folder is such a file system.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/output.h"

#include "alloc_fail.h"
#include "known_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { SKIPPED = 77 };

static tt_error err;

/* False: this kernel lets nobody ask. */
static bool refuse_nameless_files(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { .len = sizeof steps / sizeof *steps, .filter = steps };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static tt_status write_bytes(const tt_output *file, size_t count)
{
    struct iovec part = tt_file_part(known_bytes, count);
    return tt_output_write(file, &part, 1, &err);
}

static tt_status save(const char *path, size_t count)
{
    tt_output *file = NULL;
    tt_status st = tt_output_open(path, &file, &err);
    if (st == TT_OK)
        st = write_bytes(file, count);
    return tt_output_close(file, st, &err);
}

static void the_kernel_does_refuse(void **state)
{
    (void)state;
    assert_int_equal(open(known_folder(), O_WRONLY | O_TMPFILE, 0666), -1);
    assert_int_equal(errno, EOPNOTSUPP);
}

static void the_name_appears_with_the_last_byte(void **state)
{
    (void)state;
    tt_output *file = NULL;
    assert_int_equal(tt_output_open(known_path(0), &file, &err), TT_OK);
    assert_int_equal(write_bytes(file, 5000), TT_OK);
    assert_int_not_equal(access(known_path(0), F_OK), 0);
    assert_int_equal(count_known_files(".tensortap-"), 1); /* so this is the way it went */
    assert_int_equal(tt_output_close(file, TT_OK, &err), TT_OK);
    assert_known_file(known_path(0), 5000);
    assert_int_equal(count_known_files(""), 1);
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    tt_output *file = NULL;
    assert_int_equal(tt_output_open(known_path(0), &file, &err), TT_OK);
    assert_int_equal(write_bytes(file, 5000), TT_OK);
    assert_int_equal(tt_output_close(file, TT_EIO, &err), TT_EIO);
    assert_int_equal(count_known_files(""), 0);
}

static void a_full_disk_leaves_nothing_under_any_name(void **state)
{
    (void)state;
    struct rlimit before, small;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 100000;
    (void)setrlimit(RLIMIT_FSIZE, &small);
    tt_status st = save(known_path(0), KNOWN_BYTES);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(st, TT_EIO);
    assert_non_null(strstr(err.text, known_path(0)));
    assert_int_equal(count_known_files(""), 0);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    char lost[300];
    (void)snprintf(lost, sizeof lost, "%s/gone/a", known_folder());
    assert_int_equal(save(lost, 10), TT_EIO);
    assert_non_null(strstr(err.text, "/gone/a: No such file"));
}

static void what_a_killed_process_left_is_not_in_the_way(void **state)
{
    (void)state;
    char left[400];
    (void)snprintf(left, sizeof left, "%s/.tensortap-%d-%d-0.tmp", known_folder(), (int)getpid(),
                   (int)gettid());
    FILE *file = fopen(left, "wb");
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(save(known_path(0), 5000), TT_OK);
    assert_known_file(known_path(0), 5000);
    assert_int_equal(access(left, F_OK), 0); /* nor taken for ours */
    assert_int_equal(count_known_files(""), 2);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        alloc_fail_at(nth);
        tt_status st = save(known_path(0), 100);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        if (!was_hit)
            break;
    }
    assert_int_equal(count_known_files(""), 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, known_folder_make, known_folder_remove)
    const struct CMUnitTest tests[] = {
        TEST(the_kernel_does_refuse),
        TEST(the_name_appears_with_the_last_byte),
        TEST(a_failure_leaves_nothing),
        TEST(a_full_disk_leaves_nothing_under_any_name),
        TEST(a_folder_that_is_not_there_is_named),
        TEST(what_a_killed_process_left_is_not_in_the_way),
        TEST(killed_at_any_moment_every_file_is_whole),
        TEST(every_failed_allocation_is_reported),
    };
    if (!refuse_nameless_files()) {
        (void)fprintf(stderr, "skipped: no seccomp here, nothing can refuse O_TMPFILE\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
