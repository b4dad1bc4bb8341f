/* test_check_bytes.c -- a closed file of many megabytes is checked by several threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "run_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[300], path[320];
static int64_t size;

enum { STEPS = 12, COUNT = 1 << 20 }; /* 48 MB */

static int make_run(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", run_folder_new());
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t site = site_of(rec, "weight");
    uint32_t *data = malloc(COUNT * sizeof *data), x = 1;
    tt_tensor t;
    tt_tensor_describe(&t, data, TT_U32, 1, (int64_t[]){ COUNT }, NULL, NULL);
    for (int64_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < COUNT; i++)
            data[i] = x = x * 1664525 + 1013904223; /* nothing that can be packed */
        tt_stats s;
        tt_stats_compute(&t, &s);
        tt_event event = { .site = site, .step = step, .stats = &s, .tensor = &t, .has_value = true };
        tt_recorder_add(rec, &event);
    }
    finish_run(rec);
    free(data);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    size = about.st_size;
    assert_true(size > STEPS * COUNT * 4);
    return 0;
}

static int drop_run(void **state)
{
    (void)state;
    run_folder_remove(folder);
    return 0;
}

static tt_check check_now(void)
{
    tt_run *run = read_run(folder);
    tt_check about;
    tt_error err;
    if (tt_run_check(run, 0, &about, &err) < 0)
        fail_msg("%s", err.text);
    tt_run_close(run);
    return about;
}

static void cut(int64_t to)
{
    assert_int_equal(truncate(path, to), 0);
}

/* The last 64 bytes say that the file was closed; without them it is looked at in
 * the other way. */
static void a_closed_file_counts_what_an_unclosed_one_counts(void **state)
{
    (void)state;
    char end[64];
    int fd = open(path, O_RDWR);
    assert_true(pread(fd, end, sizeof end, size - 64) == 64);
    tt_check closed = check_now();
    cut(size - 64);
    tt_check open_ended = check_now();
    assert_true(pwrite(fd, end, sizeof end, size - 64) == 64);
    close(fd);
    assert_true(closed.is_closed && !open_ended.is_closed);
    assert_int_equal(closed.damaged_bytes + open_ended.damaged_bytes, 0);
    assert_int_equal(closed.values, STEPS);
    assert_int_equal(closed.values, open_ended.values);
    assert_int_equal(closed.points, open_ended.points);
    assert_int_equal(closed.blocks, open_ended.blocks + 1);
}

static void a_flipped_bit_in_any_of_many_megabytes_is_found(void **state)
{
    (void)state;
    int fd = open(path, O_RDWR);
    for (int i = 0; i < 20; i++) {
        int64_t at = size / 21 * (i + 1) + i;
        char byte;
        assert_true(pread(fd, &byte, 1, at) == 1);
        byte ^= 16;
        assert_true(pwrite(fd, &byte, 1, at) == 1);
        tt_check about = check_now();
        byte ^= 16;
        assert_true(pwrite(fd, &byte, 1, at) == 1);
        assert_int_equal(about.damaged_blocks, 1);
        assert_int_equal(about.values, STEPS - 1);
    }
    close(fd);
    assert_int_equal(check_now().damaged_bytes, 0);
}

static void a_file_that_becomes_shorter_is_an_answer_not_a_crash(void **state)
{
    (void)state;
    tt_run *run = read_run(folder);
    tt_check about;
    cut(size / 2 + 5);
    assert_int_equal(tt_run_check(run, 0, &about, NULL), 0);
    assert_true(!about.is_closed && about.damaged_bytes + about.torn_bytes > 0);
    tt_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_file_counts_what_an_unclosed_one_counts),
        cmocka_unit_test(a_flipped_bit_in_any_of_many_megabytes_is_found),
        cmocka_unit_test(
            a_file_that_becomes_shorter_is_an_answer_not_a_crash), /* the last: it stays so */
    };
    return cmocka_run_group_tests(tests, make_run, drop_run);
}
