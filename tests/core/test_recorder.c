/* test_recorder.c -- what goes into a recorder comes out of the run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"
#include "store/run.h"
#include "tensortap_tools.h"

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

static void every_number_of_every_point_comes_back(void **state)
{
    (void)state;
    enum { SITES = 20, STEPS = 700 };
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t sites[SITES];
    char name[32];
    for (int32_t i = 0; i < SITES; i++) {
        (void)snprintf(name, sizeof name, "activation/layers.%d", i);
        sites[i] = site_of(rec, name);
    }
    float data[6] = { 0 };
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, TT_F32, 2, (int64_t[]){ 2, 3 }, NULL, &err), 0);
    for (int64_t step = 0; step < STEPS; step++) {
        for (int32_t i = 0; i < SITES; i++) {
            tt_stats s = stats_of(i, step);
            tt_event e = { .site = sites[i],
                           .step = step,
                           .call = (uint32_t)(step % 2),
                           .time = 1000 + step * 7,
                           .thread = 3,
                           .phase = TT_PHASE_TRAIN,
                           .is_skipped = step % 5 == 0,
                           .tensor = &t,
                           .stats = &s };
            assert_int_equal(tt_recorder_add(rec, &e), 0);
        }
        if (step % 10 == 0) /* many small blocks: chunks are merged */
            assert_int_equal(tt_recorder_flush(rec, &err), 0);
    }
    tt_run *run = finish_and_read(rec, folder);
    assert_int_equal(tt_run_site_count(run), SITES);
    for (int32_t i = 0; i < SITES; i++) {
        (void)snprintf(name, sizeof name, "activation/layers.%d", i);
        int32_t site = tt_run_find(run, name);
        assert_int_equal(tt_run_points(run, 0, site), STEPS);
        for (int64_t step = 0; step < STEPS; step++) {
            tt_point p;
            tt_stats s = stats_of(i, step);
            assert_int_equal(tt_run_point(run, 0, site, step, &p, &err), 0);
            assert_memory_equal(&p.stats, &s, sizeof s);
            assert_true(p.step == step && p.call == step % 2 && p.time == 1000 + step * 7 &&
                        p.thread == 3);
            assert_true(p.phase == TT_PHASE_TRAIN && p.is_skipped == (step % 5 == 0));
            assert_true(p.products == TT_PRODUCT_STATS && isnan(p.scalar));
            assert_true(p.ndim == 2 && p.shape[0] == 2 && p.shape[1] == 3);
        }
        int64_t steps[STEPS];
        double values[STEPS];
        size_t n;
        assert_int_equal(tt_run_series(run, 0, site, TT_FIELD_L2, steps, values, STEPS, &n, &err), 0);
        assert_int_equal(n, STEPS);
        for (int64_t step = 0; step < STEPS; step++) {
            tt_stats s = stats_of(i, step);
            assert_true(steps[step] == step && values[step] == tt_stats_l2(&s));
        }
    }
    tt_point last;
    assert_int_equal(tt_run_point(run, 0, 3, -1, &last, &err), 0);
    assert_int_equal(last.step, STEPS - 1);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void points_with_different_products_keep_apart(void **state)
{
    (void)state;
    enum { STEPS = 300 };
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t site = site_of(rec, "mixed");
    float data[100];
    for (int i = 0; i < 100; i++)
        data[i] = (float)(i - 30) / 8;
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, TT_F32, 2, (int64_t[]){ 10, 10 }, NULL, &err), 0);
    tt_hist *hist;
    tt_sample *sample;
    assert_int_equal(tt_hist_create(&hist), 0);
    tt_hist_add(hist, &t);
    assert_int_equal(tt_sample_create(&t, &(tt_sample_options){ 5, 4, 2 }, &sample, &err), 0);
    for (int64_t step = 0; step < STEPS; step++) {
        double x = (double)step;
        tt_stats s = stats_of(1, step);
        tt_digest d = { (uint64_t)step, ~(uint64_t)step };
        tt_event e = { .site = site,
                       .step = step,
                       .tensor = &t,
                       .stats = step % 2 ? &s : NULL,
                       .digest = step % 3 ? &d : NULL,
                       .hist = step % 5 ? NULL : hist,
                       .sample = step % 7 ? NULL : sample,
                       .scalar = step % 11 ? NULL : &x };
        assert_int_equal(tt_recorder_add(rec, &e), 0);
        if (step % 20 == 0)
            tt_recorder_flush(rec, &err);
    }
    tt_run *run = finish_and_read(rec, folder);
    for (int64_t step = 0; step < STEPS; step++) {
        tt_point p;
        assert_int_equal(tt_run_point(run, 0, 0, step, &p, &err), 0);
        assert_int_equal(p.products,
                         (step % 2 ? TT_PRODUCT_STATS : 0) | (step % 3 ? TT_PRODUCT_DIGEST : 0) |
                             (step % 5 ? 0 : TT_PRODUCT_HIST) | (step % 7 ? 0 : TT_PRODUCT_SAMPLE) |
                             (step % 11 ? 0 : TT_PRODUCT_SCALAR));
        if (step % 2)
            assert_true(p.stats.mean == stats_of(1, step).mean);
        if (step % 3)
            assert_true(p.digest.low == (uint64_t)step && p.digest.high == ~(uint64_t)step);
        if (step % 11 == 0)
            assert_true(p.scalar == (double)step);
        tt_hist_bin got[64], want[64];
        size_t n;
        if (step % 5 == 0) {
            assert_int_equal(tt_run_hist(run, 0, 0, step, got, 64, &n, &err), 0);
            assert_int_equal(n, tt_hist_bins(hist, want, 64));
            assert_memory_equal(got, want, n * sizeof *got);
        } else {
            assert_int_equal(tt_run_hist(run, 0, 0, step, got, 64, &n, &err), TT_EMISMATCH);
        }
        if (step % 7 == 0) {
            tt_sample *back;
            tt_dtype dtype;
            assert_int_equal(tt_run_sample(run, 0, 0, step, &back, &dtype, &err), 0);
            assert_true(dtype == TT_F32 && tt_sample_count(back) == tt_sample_count(sample) &&
                        tt_sample_is_partial(back));
            const tt_sample_slice *a = tt_sample_at(back, 0), *b = tt_sample_at(sample, 0);
            assert_true(a->rows == b->rows && a->cols == b->cols);
            assert_memory_equal(a->values, b->values, (size_t)(a->rows * a->cols) * 4);
            assert_memory_equal(a->row, b->row, (size_t)a->rows * 8);
            tt_sample_free(back);
        }
    }
    size_t n;
    int64_t steps[STEPS];
    double values[STEPS];
    assert_int_equal(tt_run_series(run, 0, 0, TT_FIELD_SCALAR, steps, values, STEPS, &n, &err), 0);
    assert_int_equal(n, (STEPS + 10) / 11);
    for (size_t i = 0; i < n; i++)
        assert_true(steps[i] == (int64_t)i * 11 && values[i] == (double)steps[i]);
    tt_run_close(run);
    tt_hist_free(hist);
    tt_sample_free(sample);
    run_folder_remove(folder);
}

/* Values that differ by step; rows and columns swapped so that copying walks. */
static void values_come_back_and_equal_ones_are_stored_once(void **state)
{
    bool compresses = *(bool *)*state;
    const char *folder = run_folder_new();
    tt_recorder *rec =
        begin_run(folder, &(tt_recorder_options){ .compresses = compresses, .queue_bytes = 1 << 20 });
    int32_t changing = site_of(rec, "changing"), fixed = site_of(rec, "fixed"),
            empty = site_of(rec, "empty");
    enum { ROWS = 300, COLS = 400 };
    int32_t *data = malloc(ROWS * COLS * sizeof *data), *back = malloc(ROWS * COLS * sizeof *data);
    tt_tensor t, none;
    int64_t shape[] = { COLS, ROWS }, stride[] = { 4, COLS * 4 };
    assert_int_equal(tt_tensor_describe(&t, data, TT_I32, 2, shape, stride, &err), 0);
    assert_int_equal(tt_tensor_describe(&none, NULL, TT_F64, 2, (int64_t[]){ 0, 4 }, NULL, &err), 0);
    for (int64_t step = 0; step < 10; step++) {
        for (int32_t i = 0; i < ROWS * COLS; i++)
            data[i] = i * 7 + (int32_t)step * 1000003;
        assert_int_equal(
            tt_recorder_add(
                rec, &(tt_event){ .site = changing, .step = step, .tensor = &t, .has_value = true }),
            0);
        for (int32_t i = 0; i < ROWS * COLS; i++)
            data[i] = i;
        assert_int_equal(
            tt_recorder_add(rec,
                            &(tt_event){ .site = fixed, .step = step, .tensor = &t, .has_value = true }),
            0);
        assert_int_equal(
            tt_recorder_add(
                rec, &(tt_event){ .site = empty, .step = step, .tensor = &none, .has_value = true }),
            0);
    }
    tt_recorder_counts counts;
    tt_recorder_counts_get(rec, &counts);
    assert_int_equal(counts.values, 12);
    assert_int_equal(counts.values_same, 18);
    assert_int_equal(tt_recorder_flush(rec, NULL), 0);
    tt_recorder_counts_get(rec, &counts);
    assert_true(counts.writer_ns > 0);
    tt_run *run = finish_and_read(rec, folder);
    for (int64_t step = 0; step < 10; step++) {
        tt_point p;
        tt_value v;
        int64_t index;
        assert_int_equal(tt_run_seek(run, 0, changing, step, 0, TT_PRODUCT_VALUE, &index, &err), 0);
        assert_int_equal(index, step);
        assert_int_equal(tt_run_point(run, 0, changing, index, &p, &err), 0);
        assert_int_equal(tt_run_value_find(run, 0, p.value_at, &v, &err), 0);
        assert_true(v.dtype == TT_I32 && v.ndim == 2 && v.shape[0] == COLS && v.shape[1] == ROWS);
        assert_int_equal(v.bytes, ROWS * COLS * 4);
        assert_int_equal(tt_run_value_read(run, &v, back, &err), 0);
        for (int32_t c = 0; c < COLS; c++)
            for (int32_t r = 0; r < ROWS; r++)
                assert_int_equal(back[c * ROWS + r], (r * COLS + c) * 7 + (int32_t)step * 1000003);
        assert_int_equal(tt_run_point(run, 0, empty, step, &p, &err), 0);
        assert_int_equal(tt_run_value_find(run, 0, p.value_at, &v, &err), 0);
        assert_true(v.bytes == 0 && v.dtype == TT_F64 && v.shape[1] == 4);
        assert_int_equal(tt_run_value_read(run, &v, back, &err), 0);
    }
    tt_run_file about;
    assert_int_equal(tt_run_file_get(run, 0, &about), 0);
    int64_t one = ROWS * COLS * 4;
    assert_true(about.is_closed && about.bytes < 11 * one + 100000 &&
                (compresses || about.bytes > 11 * one));
    tt_run_close(run);
    free(data);
    free(back);
    run_folder_remove(folder);
}

static void a_tensor_larger_than_the_queue_goes_through(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .queue_bytes = 1 << 16, .drops = true });
    int32_t site = site_of(rec, "large");
    size_t count = 3000001;
    double *data = malloc(count * 8), *back = malloc(count * 8);
    for (size_t i = 0; i < count; i++)
        data[i] = (double)i * 0.5;
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, TT_F64, 1, (int64_t[]){ (int64_t)count }, NULL, &err),
                     0);
    tt_recorder_add(rec, &(tt_event){ .site = site, .step = 1, .tensor = &t, .has_value = true });
    tt_run *run = finish_and_read(rec, folder);
    tt_point p;
    tt_value v;
    assert_int_equal(tt_run_point(run, 0, site, -1, &p, &err), 0);
    assert_int_equal(tt_run_value_find(run, 0, p.value_at, &v, &err), 0);
    assert_int_equal(tt_run_value_read(run, &v, back, &err), 0);
    assert_memory_equal(back, data, count * 8);
    tt_run_close(run);
    free(data);
    free(back);
    run_folder_remove(folder);
}

static void a_resumed_run_first_cuts_off_what_a_crash_left(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    static const char rubbish[1 << 16] = "half a block";
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t site = site_of(rec, "x");
    tt_recorder_scalar(rec, site, 0, 1.0);
    FILE *file = fopen(rec->path, "abe");
    finish_run(rec);
    assert_true(file != NULL && fwrite(rubbish, 1, sizeof rubbish, file) == sizeof rubbish);
    assert_int_equal(fclose(file), 0);
    rec = begin_run(folder, &(tt_recorder_options){ .resumes = true });
    tt_recorder_scalar(rec, site, 1, 2.0);
    assert_int_equal(tt_recorder_flush(rec, &err), 0);
    tt_run *run = read_run(folder); /* as it would be if this process were killed now */
    tt_check about;
    assert_int_equal(tt_run_check(run, 0, &about, &err), 0);
    assert_int_equal(about.torn_bytes, 0);
    assert_int_equal(about.points, 2);
    tt_run_close(run);
    finish_run(rec);
    run_folder_remove(folder);
}

static void a_run_can_be_resumed(void **state)
{
    (void)state;
    const char *folder = run_folder_new(), *info[] = { "host", "one", NULL },
               *more[] = { "host", "two", NULL };
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .info = info });
    int32_t a = site_of(rec, "a"), b = site_of(rec, "b");
    for (int64_t step = 0; step < 100; step++)
        tt_recorder_scalar(rec, b, step, 1.0);
    tt_recorder_note(rec, 7, "first");
    (void)a;
    finish_run(rec);
    tt_recorder *again;
    assert_int_equal(tt_recorder_open(folder, NULL, &again, &err), TT_EINVAL);
    rec = begin_run(folder, &(tt_recorder_options){ .resumes = true, .info = more });
    assert_int_equal(tt_recorder_open(folder, &(tt_recorder_options){ .resumes = true }, &again, &err),
                     TT_EIO); /* locked */
    int32_t c = site_of(rec, "c");
    assert_int_equal(site_of(rec, "b"), b);
    for (int64_t step = 100; step < 150; step++) {
        tt_recorder_scalar(rec, b, step, 2.0);
        tt_recorder_scalar(rec, c, step, step == 120 ? NAN : 3.0);
    }
    tt_recorder_note(rec, 108, "second");
    tt_run *run = finish_and_read(rec, folder);
    assert_int_equal(tt_run_points(run, 0, tt_run_find(run, "b")), 150);
    assert_int_equal(tt_run_points(run, 0, tt_run_find(run, "c")), 50);
    assert_string_equal(tt_run_info_key(run, 0, 0), "host");
    assert_string_equal(tt_run_info_value(run, 0, 0), "two");
    assert_null(tt_run_info_key(run, 0, 1));
    tt_note note;
    assert_int_equal(tt_run_note_count(run, 0), 2);
    assert_int_equal(tt_run_note(run, 0, 1, &note), 0);
    assert_string_equal(note.text, "second");
    assert_int_equal(note.step, 108);
    int64_t index, steps[200];
    size_t n;
    assert_int_equal(tt_run_first_nonfinite(run, 0, tt_run_find(run, "c"), &index, &err), 0);
    assert_int_equal(index, 20);
    assert_int_equal(tt_run_first_nonfinite(run, 0, tt_run_find(run, "b"), &index, &err), 0);
    assert_int_equal(index, -1);
    assert_int_equal(tt_run_steps(run, steps, 200, &n, &err), 0);
    assert_int_equal(n, 150);
    assert_int_equal(steps[149], 149);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_run_can_be_followed_while_it_grows(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL),
                *other = begin_run(folder, &(tt_recorder_options){ .rank = 1 });
    int32_t a = site_of(rec, "a");
    tt_run *run = read_run(folder);
    assert_int_equal(tt_run_file_count(run), 2);
    for (int64_t step = 0; step < 400; step++) {
        tt_recorder_scalar(rec, a, step, (double)step);
        if (step == 200)
            tt_recorder_scalar(other, site_of(other, "z"), step, 5);
        if (step % 3 == 0) {
            assert_int_equal(tt_recorder_flush(rec, &err), 0);
            assert_int_equal(tt_run_refresh(run, &err), 0);
            assert_int_equal(tt_run_points(run, 0, tt_run_find(run, "a")), step + 1);
        }
    }
    finish_run(other);
    finish_run(rec);
    assert_int_equal(tt_run_refresh(run, &err), 0);
    tt_run_file about;
    assert_int_equal(tt_run_file_get(run, 1, &about), 0);
    assert_true(about.is_closed && about.rank == 1 && about.points == 1);
    double values[400];
    size_t n;
    assert_int_equal(
        tt_run_series(run, 0, tt_run_find(run, "a"), TT_FIELD_SCALAR, NULL, values, 400, &n, &err), 0);
    for (int i = 0; i < 400; i++)
        assert_true(values[i] == i);
    assert_int_equal(tt_run_points(run, 1, tt_run_find(run, "z")), 1);
    assert_int_equal(tt_run_points(run, 0, tt_run_find(run, "z")), 0);
    assert_whole(run);
    tt_run_close(run);
    run_folder_remove(folder);
}

int main(void)
{
    static bool no = false, yes = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_every_point_comes_back),
        cmocka_unit_test(points_with_different_products_keep_apart),
        { "values_come_back_and_equal_ones_are_stored_once",
          values_come_back_and_equal_ones_are_stored_once, NULL, NULL, &no },
        { "compressed_values_come_back", values_come_back_and_equal_ones_are_stored_once, NULL, NULL,
          &yes },
        cmocka_unit_test(a_tensor_larger_than_the_queue_goes_through),
        cmocka_unit_test(a_run_can_be_resumed),
        cmocka_unit_test(a_resumed_run_first_cuts_off_what_a_crash_left),
        cmocka_unit_test(a_run_can_be_followed_while_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
