/* test_merge.c -- chunks that are written again as a larger one keep their numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include "run_folder.h"
#include "store/block.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A chunk for each step. */
static void record_one_by_one(const char *folder, bool resumes, int64_t from, int64_t until)
{
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .resumes = resumes });
    int32_t site = site_of(rec, "x");
    for (int64_t step = from; step < until; step++) {
        tt_recorder_scalar(rec, site, step, (double)step / 3);
        assert_int_equal(tt_recorder_flush(rec, NULL), TT_OK);
    }
    finish_run(rec);
}

/* Leaves a file as a kill would, without a footer; the body of one batch is nothing.
 * Returns the number of batches. */
static int damage_batch(const char *path, int which)
{
    static char bytes[1 << 16];
    int fd = open(path, O_RDWR), batches = 0;
    ssize_t size = read(fd, bytes, sizeof bytes);
    size_t end = 0;
    tt_block_head head;
    assert_true(fd >= 0 && size > 0 && (size_t)size < sizeof bytes);
    for (size_t at = 0; at < (size_t)size; at += (size_t)head.length) {
        assert_true(tt_block_parse((const unsigned char *)bytes + at, (int64_t)at, &head));
        if (head.kind != TT_BLOCK_BATCH)
            continue;
        if (batches++ == which)
            memset(bytes + at + TT_BLOCK_HEADER, 0, (size_t)head.length - TT_BLOCK_HEADER);
        end = at + (size_t)head.length;
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, bytes, end, 0), (ssize_t)end);
    close(fd);
    return batches;
}

static void the_gap_of_a_damaged_run_that_goes_on_stays_a_gap(void **state)
{
    (void)state;
    enum { BEFORE = 10, AFTER = 60, LOST = 4 };
    const char *folder = run_folder_new();
    char path[320];
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    record_one_by_one(folder, false, 0, BEFORE);
    assert_int_equal(damage_batch(path, LOST), BEFORE);
    record_one_by_one(folder, true, BEFORE, AFTER);
    tt_run *run = read_run(folder);
    int64_t steps[AFTER];
    double values[AFTER];
    size_t n;
    assert_int_equal(tt_run_series(run, 0, 0, TT_FIELD_SCALAR, steps, values, AFTER, &n, NULL), TT_OK);
    assert_int_equal(n, AFTER - 1);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(steps[i], i < LOST ? i : i + 1);
        assert_true(values[i] == (double)steps[i] / 3);
    }
    tt_run_close(run);
    run_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gap_of_a_damaged_run_that_goes_on_stays_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
