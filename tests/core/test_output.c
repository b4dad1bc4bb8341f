/* test_output.c -- a file is there whole, or not at all; devices stay devices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/output.h"

#include "alloc_fail.h"
#include "known_bytes.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static tt_error err;

static const char *in_folder(const char *name)
{
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", known_folder(), name);
    return path;
}

static void assert_holds(const char *path, const char *text)
{
    char got[100] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    (void)fread(got, 1, sizeof got - 1, file);
    (void)fclose(file);
    assert_string_equal(got, text);
}

/* In three parts, of which one is empty. */
static tt_status write_parts(const tt_output *file, const char *text)
{
    struct iovec part[] = { tt_file_part(text, 2), tt_file_part(NULL, 0),
                            tt_file_part(text + 2, strlen(text) - 2) };
    return tt_output_write(file, part, 3, &err);
}

static tt_status write_text(const char *path, const char *text)
{
    tt_output *file = NULL;
    tt_status st = tt_output_open(path, &file, &err);
    if (st == TT_OK)
        st = write_parts(file, text);
    return tt_output_close(file, st, &err);
}

static void the_name_appears_with_the_last_byte(void **state)
{
    (void)state;
    tt_output *file = NULL;
    const char *path = in_folder("a");
    assert_int_equal(tt_output_open(path, &file, &err), TT_OK);
    assert_int_equal(write_parts(file, "hello"), TT_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(tt_output_close(file, TT_OK, &err), TT_OK);
    assert_holds(path, "hello");
    assert_int_equal(count_known_files(""), 1);
}

static void until_then_a_kill_would_leave_nothing(void **state)
{
    (void)state;
    tt_output *file = NULL;
    int nameless = open(known_folder(), O_WRONLY | O_TMPFILE, 0666);
    if (nameless < 0)
        skip(); /* this file system has none */
    assert_int_equal(close(nameless), 0);
    assert_int_equal(tt_output_open(in_folder("a"), &file, &err), TT_OK);
    assert_int_equal(write_parts(file, "hello"), TT_OK);
    assert_int_equal(count_known_files(""), 0);
    assert_int_equal(tt_output_close(file, TT_EIO, &err), TT_EIO);
    assert_int_equal(count_known_files(""), 0);
}

static void a_file_that_came_meanwhile_is_replaced(void **state)
{
    (void)state;
    tt_output *file = NULL;
    const char *path = in_folder("a");
    assert_int_equal(tt_output_open(path, &file, &err), TT_OK);
    assert_int_equal(write_parts(file, "hello"), TT_OK);
    assert_int_equal(write_text(path, "another"), TT_OK);
    assert_int_equal(tt_output_close(file, TT_OK, &err), TT_OK);
    assert_holds(path, "hello");
    assert_int_equal(count_known_files(""), 1);
}

static void a_failure_leaves_the_old_file(void **state)
{
    (void)state;
    tt_output *file = NULL;
    const char *path = in_folder("a");
    assert_int_equal(write_text(path, "old one"), TT_OK);
    assert_int_equal(tt_output_open(path, &file, &err), TT_OK);
    assert_int_equal(write_parts(file, "new"), TT_OK);
    assert_int_equal(tt_output_close(file, TT_ENOMEM, &err), TT_ENOMEM);
    assert_holds(path, "old one");
    assert_int_equal(count_known_files(""), 1);
}

static void a_pipe_is_written_to(void **state)
{
    (void)state;
    struct stat about;
    const char *path = in_folder("pipe");
    char got[8] = "";
    assert_int_equal(mkfifo(path, 0666), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(write_text(path, "hello"), TT_OK);
    assert_int_equal(read(reader, got, sizeof got), 5);
    assert_string_equal(got, "hello");
    assert_int_equal(close(reader), 0);
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(count_known_files(""), 1);
}

static void a_link_to_a_device_stays(void **state)
{
    (void)state;
    struct stat about;
    const char *path = in_folder("full");
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(write_text(path, "hello"), TT_EIO);
    assert_non_null(strstr(err.text, "No space left"));
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
}

static void a_link_to_a_file_is_refused_and_its_file_stays(void **state)
{
    (void)state;
    struct stat about;
    const char *path = in_folder("link"), *target = in_folder("target");
    assert_int_equal(write_text(target, "old one"), TT_OK);
    assert_int_equal(symlink("target", path), 0);
    assert_int_equal(write_text(path, "new one"), TT_EIO);
    assert_non_null(strstr(err.text, "/link: a symbolic link is not written through"));
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_holds(target, "old one");
    assert_int_equal(count_known_files(""), 2);
}

static void a_link_to_nothing_is_refused_and_makes_no_file(void **state)
{
    (void)state;
    const char *path = in_folder("link");
    assert_int_equal(symlink("nothing", path), 0);
    assert_int_equal(write_text(path, "hello"), TT_EIO);
    assert_int_not_equal(access(in_folder("nothing"), F_OK), 0);
    assert_int_equal(count_known_files(""), 1);
}

static void a_folder_is_an_error_that_names_it(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    assert_int_equal(write_text(in_folder("sub"), "hello"), TT_EIO);
    assert_non_null(strstr(err.text, "/sub: "));
    assert_int_equal(write_text(in_folder("gone/a"), "hello"), TT_EIO);
    assert_non_null(strstr(err.text, "/gone/a: No such file"));
    assert_int_equal(count_known_files(""), 1);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        alloc_fail_at(nth);
        tt_status st = write_text(in_folder("a"), "hello");
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
        TEST(the_name_appears_with_the_last_byte),
        TEST(until_then_a_kill_would_leave_nothing),
        TEST(a_file_that_came_meanwhile_is_replaced),
        TEST(a_failure_leaves_the_old_file),
        TEST(a_pipe_is_written_to),
        TEST(a_link_to_a_device_stays),
        TEST(a_link_to_a_file_is_refused_and_its_file_stays),
        TEST(a_link_to_nothing_is_refused_and_makes_no_file),
        TEST(a_folder_is_an_error_that_names_it),
        TEST(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
