/* test_merge.c -- chunks that are written again as a larger one keep their numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"
#include "tensortap.h"

#include "run_folder.h"
#include "store/block.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BEFORE = 10, AFTER = 160, NONE = -1 };

static double value_at(int64_t step, int64_t infinite)
{
    return step == infinite ? INFINITY : (double)step / 3;
}

/* A chunk for each step.  Returns how many points of before could not be read. */
static int64_t record_one_by_one(const char *folder, bool resumes, int64_t from, int64_t until,
                                 int64_t infinite)
{
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .resumes = resumes });
    int32_t site = site_of(rec, "x");
    for (int64_t step = from; step < until; step++) {
        tt_recorder_scalar(rec, site, step, value_at(step, infinite));
        assert_int_equal(tt_recorder_flush(rec, NULL), TT_OK);
    }
    tt_recorder_counts counts;
    tt_recorder_counts_get(rec, &counts);
    finish_run(rec);
    return counts.damaged;
}

typedef enum file_end { END_STAYS, END_IS_TORN } file_end;

/* The body of one batch becomes nothing (NONE: of none).  A torn file is as a kill leaves it,
 * without a footer.  Returns the number of batches. */
static int damage_batch(const char *path, int which, file_end tail)
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
    if (tail == END_STAYS)
        end = (size_t)size;
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, bytes, end, 0), (ssize_t)end);
    close(fd);
    return batches;
}

/* Ten steps, damage, 150 more: a run of all of them but the one that is lost. */
static tt_run *damaged_run(const char *folder, int lost, file_end tail, int64_t infinite,
                           int64_t *damaged)
{
    char path[320];
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    (void)record_one_by_one(folder, false, 0, BEFORE, infinite);
    assert_int_equal(damage_batch(path, lost, tail), BEFORE);
    *damaged = record_one_by_one(folder, true, BEFORE, AFTER, infinite);
    return read_run(folder);
}

static void assert_gap(tt_run *run, int64_t lost)
{
    int64_t steps[AFTER];
    double values[AFTER];
    size_t n;
    assert_int_equal(tt_run_series(run, 0, 0, TT_FIELD_SCALAR, steps, values, AFTER, &n, NULL), TT_OK);
    assert_int_equal(n, AFTER - 1);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(steps[i], (int64_t)i < lost ? i : i + 1);
        assert_true(values[i] == (double)steps[i] / 3);
    }
}

static void the_gap_of_a_damaged_run_that_goes_on_stays_a_gap(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    int64_t damaged;
    tt_run *run = damaged_run(folder, 4, END_IS_TORN, NONE, &damaged);
    assert_gap(run, 4);
    tt_run_close(run);
    run_folder_remove(folder);
}

static int notes_about_damage(const tt_run *run, const char *text)
{
    int told = 0;
    tt_note note;
    for (int32_t i = 0; tt_run_note(run, 0, i, &note) == TT_OK; i++)
        told += strstr(note.text, "the file is damaged") != NULL && strstr(note.text, text) != NULL;
    return told;
}

static void a_chunk_that_the_footer_knows_and_nobody_can_read_stops_nothing(void **state)
{
    (void)state;
    for (int lost = 0; lost < BEFORE; lost += 3) { /* the first, some, the last */
        const char *folder = run_folder_new();
        int64_t damaged;
        char text[40];
        (void)snprintf(text, sizeof text, "x at steps %d to %d", lost, lost);
        tt_run *run = damaged_run(folder, lost, END_STAYS, NONE, &damaged);
        assert_gap(run, lost);
        assert_int_equal(damaged, 1);
        assert_int_equal(notes_about_damage(run, text), 1);
        tt_run_close(run);
        run_folder_remove(folder);
    }
}

static void damage_in_two_places_is_told_once(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    char path[320];
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    (void)record_one_by_one(folder, false, 0, BEFORE, NONE);
    (void)damage_batch(path, 2, END_STAYS);
    (void)damage_batch(path, 5, END_STAYS);
    assert_int_equal(record_one_by_one(folder, true, BEFORE, AFTER, NONE), 2);
    tt_run *run = read_run(folder);
    assert_int_equal(notes_about_damage(run, ""), 1);
    assert_int_equal(tt_run_points(run, 0, 0), AFTER - 2);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void the_first_infinity_is_the_first_that_can_be_read(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    int64_t damaged, index;
    tt_run *run = damaged_run(folder, 4, END_STAYS, 4, &damaged); /* the damage hits just that one */
    assert_int_equal(tt_run_first_nonfinite(run, 0, 0, &index, NULL), TT_OK);
    assert_int_equal(index, -1);
    tt_run_close(run);
    run_folder_remove(folder);
    folder = run_folder_new();
    char path[320];
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t site = site_of(rec, "x");
    for (int64_t step = 0; step < BEFORE; step++) {
        tt_recorder_scalar(rec, site, step, step == 4 || step == 7 ? INFINITY : 1);
        assert_int_equal(tt_recorder_flush(rec, NULL), TT_OK);
    }
    finish_run(rec);
    assert_int_equal(damage_batch(path, 4, END_STAYS), BEFORE);
    assert_int_equal(record_one_by_one(folder, true, BEFORE, AFTER, 50), 1);
    run = read_run(folder);
    assert_int_equal(tt_run_first_nonfinite(run, 0, 0, &index, NULL), TT_OK);
    assert_int_equal(index, 6); /* step 7: one is missing before it */
    tt_run_close(run);
    run_folder_remove(folder);
}

static void an_infinity_before_a_kill_is_known_after_the_run_went_on(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    int64_t damaged, index;
    tt_run *run = damaged_run(folder, NONE, END_IS_TORN, 7, &damaged);
    assert_int_equal(tt_run_first_nonfinite(run, 0, 0, &index, NULL), TT_OK);
    assert_int_equal(index, 7);
    assert_int_equal(damaged, 0);
    tt_run_close(run);
    run_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gap_of_a_damaged_run_that_goes_on_stays_a_gap),
        cmocka_unit_test(a_chunk_that_the_footer_knows_and_nobody_can_read_stops_nothing),
        cmocka_unit_test(damage_in_two_places_is_told_once),
        cmocka_unit_test(the_first_infinity_is_the_first_that_can_be_read),
        cmocka_unit_test(an_infinity_before_a_kill_is_known_after_the_run_went_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
