/* test_golden.c -- runs of earlier versions can be read for ever.
 *
 * tests/golden/run_v1 was written by version 1 of the format; argv[1] is the
 * folder tests/golden.  20 steps: site "a" with statistics (a histogram every 4th
 * step, a sample every 5th, the value every 6th), site "b" with scalars step / 2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "run_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *golden;

static void a_run_of_version_1_reads_as_it_was_written(void **state)
{
    (void)state;
    char path[1024];
    tt_error err;
    (void)snprintf(path, sizeof path, "%s/run_v1", golden);
    tt_run *run = read_run(path);
    assert_whole(run);
    int32_t a = tt_run_find(run, "a"), b = tt_run_find(run, "b");
    assert_int_equal(tt_run_points(run, 0, a), 20);
    int64_t steps[20];
    double values[20];
    size_t n;
    assert_int_equal(tt_run_series(run, 0, b, TT_FIELD_SCALAR, steps, values, 20, &n, &err), 0);
    assert_int_equal(n, 20);
    float data[40], back[40]; /* the tensor as it was: i % 7 - 3, and 1 more in one place a step */
    for (int i = 0; i < 40; i++)
        data[i] = (float)(i % 7) - 3;
    for (int64_t k = 0; k < 20; k++) {
        assert_true(steps[k] == k && values[k] == 0.5 * (double)k);
        tt_tensor t;
        tt_stats s;
        tt_point p;
        assert_int_equal(tt_tensor_describe(&t, data, TT_F32, 2, (int64_t[]){ 5, 8 }, NULL, &err), 0);
        tt_stats_compute(&t, &s);
        assert_int_equal(tt_run_point(run, 0, a, k, &p, &err), 0);
        assert_true(p.stats.min == s.min && p.stats.max == s.max && p.stats.sum == s.sum);
        assert_true(p.ndim == 2 && p.shape[0] == 5 && p.shape[1] == 8);
        assert_int_equal((p.products & TT_PRODUCT_HIST) != 0, k % 4 == 0);
        assert_int_equal((p.products & TT_PRODUCT_SAMPLE) != 0, k % 5 == 0);
        if (k % 6 == 0) {
            tt_value v;
            assert_int_equal(tt_run_value_find(run, 0, p.value_at, &v, &err), 0);
            assert_int_equal(v.bytes, sizeof back);
            assert_int_equal(tt_run_value_read(run, &v, back, &err), 0);
            assert_memory_equal(back, data, sizeof back);
        }
        data[k] += 1;
    }
    tt_note note;
    assert_int_equal(tt_run_note(run, 0, 0, &note), 0);
    assert_string_equal(note.text, "note");
    assert_string_equal(tt_run_info_value(run, 0, 0), "h");
    tt_run_close(run);
}

int main(int argc, char **argv)
{
    golden = argc > 1 ? argv[1] : "tests/golden";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_of_version_1_reads_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
