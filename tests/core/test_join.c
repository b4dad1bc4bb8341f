/* test_join.c -- the points of all ranks, joined, are those of the whole tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"

#include "run_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 10, COLUMNS = 6, MOST = 8 };
static tt_error err;

/* A job of some ranks, each with its file in one folder. */
typedef struct job {
    const char *folder;
    int32_t ranks;
    tt_recorder *rec[MOST];
    int32_t site[MOST];
    uint64_t mesh[MOST];
    tt_run *parts, *run;
} job;

static float whole[ROWS][COLUMNS];

static void fill(void)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            whole[r][c] = (float)(((r * COLUMNS + c) * 7919) % 101) / 17.0f - 2.5f;
}

/* A mesh of one or two dimensions over all ranks. */
static job begin(int32_t first, int32_t second, const char *name)
{
    job j = { .folder = run_folder_new(), .ranks = first * second };
    int32_t all[MOST];
    fill();
    for (int32_t r = 0; r < j.ranks; r++)
        all[r] = r;
    for (int32_t r = 0; r < j.ranks; r++) {
        tt_recorder_options options = { .rank = r, .plan = { .products = TT_PRODUCT_STATS, .every = 1 } };
        if (tt_recorder_open(j.folder, &options, &j.rec[r], &err) < 0)
            fail_msg("%s", err.text);
        const tt_mesh mesh = { .ndim = second > 1 ? 2 : 1,
                               .name = { "dp", "tp" },
                               .size = { first, second },
                               .coordinate = { r / second, r % second },
                               .ranks = all };
        assert_int_equal(tt_recorder_mesh(j.rec[r], &mesh, &j.mesh[r]), TT_OK);
        j.site[r] = site_of(j.rec[r], name);
    }
    return j;
}

static void place(const job *j, int32_t rank, tt_spread first, tt_spread second)
{
    const tt_placement p = { .mesh = j->mesh[rank],
                             .mesh_ndim = second != TT_SPREAD_COUNT_ ? 2 : 1,
                             .on = { { .spread = first, .factor = 1 },
                                     { .spread = second, .factor = 1 } },
                             .ndim = 2,
                             .shape = { ROWS, COLUMNS } };
    assert_int_equal(tt_recorder_place(j->rec[rank], j->site[rank], &p), TT_OK);
}

/* Records rows [from, to) of the whole. */
static void put_rows(const job *j, int32_t rank, int64_t from, int64_t to, int64_t step)
{
    tt_tensor t;
    tt_stats stats;
    tt_hist *hist;
    const int64_t shape[] = { to - from, COLUMNS };
    assert_int_equal(
        tt_tensor_describe(&t, &whole[from < ROWS ? from : 0][0], TT_F32, 2, shape, NULL, &err), 0);
    tt_digest digest;
    tt_stats_compute(&t, &stats);
    tt_digest_compute(&t, &digest);
    assert_int_equal(tt_hist_create(&hist), TT_OK);
    tt_hist_add(hist, &t);
    assert_int_equal(tt_recorder_add(j->rec[rank], &(tt_event){ .site = j->site[rank],
                                                                .step = step,
                                                                .tensor = &t,
                                                                .stats = &stats,
                                                                .digest = &digest,
                                                                .hist = hist }),
                     TT_OK);
    tt_hist_free(hist);
}

static tt_run *join(job *j)
{
    for (int32_t r = 0; r < j->ranks; r++)
        if (j->rec[r] != NULL)
            assert_int_equal(tt_recorder_close(j->rec[r], 30, &err), TT_OK);
    assert_int_equal(tt_run_open(j->folder, &j->parts, &err), TT_OK);
    if (tt_run_join(j->parts, &j->run, &err) < 0)
        fail_msg("%s", err.text);
    return j->run;
}

static void end(job *j)
{
    tt_run_close(j->run);
    tt_run_close(j->parts);
    run_folder_remove(j->folder);
}

/* The one point of the joined site is that of the whole tensor. */
static void assert_is_whole(const tt_run *run, const char *name)
{
    tt_tensor t;
    tt_stats expected;
    tt_point p;
    int32_t site = tt_run_find(run, name);
    assert_int_equal(tt_tensor_describe(&t, whole, TT_F32, 2, (int64_t[]){ ROWS, COLUMNS }, NULL, &err),
                     0);
    tt_stats_compute(&t, &expected);
    assert_int_equal(tt_run_file_count(run), 1);
    assert_int_equal(tt_run_points(run, 0, site), 1);
    assert_int_equal(tt_run_point((tt_run *)(uintptr_t)run, 0, site, 0, &p, &err), TT_OK);
    assert_int_equal(p.stats.count, expected.count);
    assert_int_equal(p.stats.zeros, expected.zeros);
    assert_true(p.stats.min == expected.min && p.stats.max == expected.max);
    assert_true(p.stats.absmax == expected.absmax);
    assert_true(fabs(p.stats.mean - expected.mean) < 1e-6);
    assert_true(fabs(tt_stats_rms(&p.stats) - tt_stats_rms(&expected)) < 1e-6);
    assert_true(fabs(tt_stats_std(&p.stats) - tt_stats_std(&expected)) < 1e-6);
    assert_int_equal(p.ndim, 2);
    assert_int_equal(p.shape[0], ROWS);
    tt_hist *hist;
    tt_hist_bin bins[256], joined[256];
    size_t count;
    assert_int_equal(tt_hist_create(&hist), TT_OK);
    tt_hist_add(hist, &t);
    size_t want = tt_hist_bins(hist, bins, 256);
    assert_int_equal(tt_run_hist((tt_run *)(uintptr_t)run, 0, site, 0, joined, 256, &count, &err), TT_OK);
    assert_int_equal(count, want);
    assert_memory_equal(bins, joined, want * sizeof *bins);
    tt_hist_free(hist);
}

static void shards_of_any_size_make_the_whole(void **state)
{
    (void)state;
    static const int64_t cuts[][5] = { { 0, 3, 6, 8, 10 },
                                       { 0, 4, 8, 10, 10 } }; /* uneven; one is empty */
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        job j = begin(4, 1, "parameter/w");
        for (int32_t r = 0; r < 4; r++) {
            place(&j, r, TT_SPREAD_SHARD, TT_SPREAD_COUNT_);
            put_rows(&j, r, cuts[k][r], cuts[k][r + 1], 0);
        }
        assert_is_whole(join(&j), "parameter/w");
        const tt_joined_site *site = tt_run_joined(j.run, tt_run_find(j.run, "parameter/w"));
        assert_int_equal(site->ranks, 4);
        assert_int_equal(site->parts, 4);
        assert_int_equal(site->points, 1);
        end(&j);
    }
}

static void replicas_count_once(void **state)
{
    (void)state;
    job j = begin(2, 2, "parameter/w"); /* replicated over dp, sharded over tp */
    for (int32_t r = 0; r < 4; r++) {
        place(&j, r, TT_SPREAD_REPLICA, TT_SPREAD_SHARD);
        put_rows(&j, r, r % 2 == 0 ? 0 : 5, r % 2 == 0 ? 5 : 10, 0);
    }
    assert_is_whole(join(&j), "parameter/w");
    assert_int_equal(tt_run_joined(j.run, 0)->unequal, 0);
    end(&j);
}

static uint64_t chain_of(const tt_run *run, int32_t file)
{
    return tt_index_chain(tt_run_row(run, file, 0));
}

/* Replicas that are equal are known by their footers, also if one of them was resumed. */
static void footers_tell_which_replicas_are_equal(void **state)
{
    (void)state;
    job j = begin(4, 1, "parameter/w");
    for (int32_t r = 0; r < 4; r++) {
        place(&j, r, TT_SPREAD_REPLICA, TT_SPREAD_COUNT_);
        for (int64_t step = 0; step < 5; step++) {
            whole[3][3] = r == 3 && step == 4 ? nextafterf(whole[3][3], 9) : whole[3][3];
            if (r == 2 && step == 3) {
                assert_int_equal(tt_recorder_close(j.rec[r], 30, &err), TT_OK);
                const tt_recorder_options options = { .rank = r, .resumes = true };
                assert_int_equal(tt_recorder_open(j.folder, &options, &j.rec[r], &err), TT_OK);
                j.site[r] = site_of(j.rec[r], "parameter/w");
            }
            put_rows(&j, r, 0, ROWS, step);
            if (r == 1) /* written one by one, with and without a digest */
                assert_int_equal(tt_recorder_flush(j.rec[r], &err), TT_OK);
            assert_int_equal(tt_recorder_add(j.rec[r], &(tt_event){ .site = j.site[r],
                                                                    .step = step,
                                                                    .call = 1,
                                                                    .stats = &(tt_stats){ .count = 1 } }),
                             TT_OK);
        }
        fill();
    }
    tt_run *run = join(&j);
    assert_true(chain_of(j.parts, 0) != 0);
    assert_true(chain_of(j.parts, 0) == chain_of(j.parts, 1));
    assert_true(chain_of(j.parts, 0) == chain_of(j.parts, 2));
    assert_true(chain_of(j.parts, 0) != chain_of(j.parts, 3));
    const tt_joined_site *site = tt_run_joined(run, 0);
    assert_int_equal(site->ranks, 4);
    assert_int_equal(site->points, 10);
    assert_int_equal(site->unequal, 1);
    assert_int_equal(site->first_unequal, 4);
    end(&j);
}

static void replicas_that_differ_are_counted(void **state)
{
    (void)state;
    job j = begin(2, 1, "parameter/w");
    for (int32_t r = 0; r < 2; r++) {
        place(&j, r, TT_SPREAD_REPLICA, TT_SPREAD_COUNT_);
        for (int64_t step = 0; step < 5; step++) {
            whole[3][3] = r == 1 && step >= 2 ? nextafterf(whole[3][3], 9) : whole[3][3];
            put_rows(&j, r, 0, ROWS, step);
        }
        fill();
    }
    tt_run *run = join(&j);
    const tt_joined_site *site = tt_run_joined(run, 0);
    assert_int_equal(site->points, 5);
    assert_int_equal(site->unequal, 3);
    assert_int_equal(site->first_unequal, 2);
    end(&j);
}

static void a_split_batch_is_pooled(void **state)
{
    (void)state;
    job j = begin(2, 1, "activation/fc");
    for (int32_t r = 0; r < 2; r++) {
        place(&j, r, TT_SPREAD_BATCH, TT_SPREAD_COUNT_);
        put_rows(&j, r, r * 5, r * 5 + 5, 0);
    }
    assert_is_whole(join(&j), "activation/fc");
    end(&j);
}

static void a_missing_part_claims_nothing(void **state)
{
    (void)state;
    job j = begin(4, 1, "parameter/w");
    for (int32_t r = 0; r < 4; r++) {
        place(&j, r, TT_SPREAD_SHARD, TT_SPREAD_COUNT_);
        for (int64_t step = 0; step < (r == 2 ? 1 : 2); step++)
            put_rows(&j, r, (int64_t[]){ 0, 3, 6, 8 }[r], (int64_t[]){ 3, 6, 8, 10 }[r], step);
    }
    tt_run *run = join(&j);
    const tt_joined_site *site = tt_run_joined(run, 0);
    assert_int_equal(site->points, 1);
    assert_int_equal(site->incomplete, 1);
    assert_int_equal(site->found, 3);
    assert_int_equal(site->parts, 4);
    end(&j);
}

static void a_placement_that_lies_is_caught_by_the_counts(void **state)
{
    (void)state;
    job j = begin(2, 1, "parameter/w");
    for (int32_t r = 0; r < 2; r++) {
        place(&j, r, TT_SPREAD_SHARD, TT_SPREAD_COUNT_);
        put_rows(&j, r, 0, ROWS, 0); /* each holds all of it */
    }
    assert_int_equal(tt_run_points(join(&j), 0, 0), 0);
    assert_int_equal(tt_run_joined(j.run, 0)->incomplete, 1);
    end(&j);
}

static void addends_are_not_joined(void **state)
{
    (void)state;
    job j = begin(2, 1, "gradient/norm");
    for (int32_t r = 0; r < 2; r++) {
        place(&j, r, TT_SPREAD_PARTIAL, TT_SPREAD_COUNT_);
        put_rows(&j, r, 0, ROWS, 0);
    }
    assert_int_equal(tt_run_points(join(&j), 0, 0), 0);
    assert_int_equal(tt_run_joined(j.run, 0)->partial, 1);
    end(&j);
}

static void the_norm_of_the_gradients_is_that_of_the_whole(void **state)
{
    (void)state;
    job j = begin(2, 1, "gradient/w");
    double sumsq = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            sumsq += (double)whole[r][c] * (double)whole[r][c];
    for (int32_t r = 0; r < 2; r++) {
        place(&j, r, TT_SPREAD_SHARD, TT_SPREAD_COUNT_);
        put_rows(&j, r, r * 5, r * 5 + 5, 0);
        int32_t norm = site_of(j.rec[r], "gradient_norm");
        assert_int_equal(tt_recorder_scalar(j.rec[r], norm, 0, 1 + r), TT_OK); /* of its own part */
    }
    tt_run *run = join(&j);
    tt_point p;
    assert_int_equal(tt_run_point(run, 0, tt_run_find(run, "gradient_norm"), 0, &p, &err), TT_OK);
    assert_true(fabs(p.scalar - sqrt(sumsq)) < 1e-5);
    end(&j);
}

/* The lowest rank claims a grid that is larger than the job, the last one a small one. */
static void ranks_that_speak_of_other_grids_claim_nothing(void **state)
{
    enum { HUGE_GRID = 100000 };
    (void)state;
    job j = begin(2, 1, "parameter/w");
    int32_t *all = calloc(HUGE_GRID, sizeof *all);
    assert_non_null(all);
    for (int32_t r = 0; r < HUGE_GRID; r++)
        all[r] = r;
    const tt_mesh grid = {
        .ndim = 1, .name = { "dp" }, .size = { HUGE_GRID }, .coordinate = { HUGE_GRID - 1 }, .ranks = all
    };
    assert_int_equal(tt_recorder_mesh(j.rec[0], &grid, &j.mesh[0]), TT_OK);
    for (int32_t r = 0; r < 2; r++) {
        place(&j, r, TT_SPREAD_SHARD, TT_SPREAD_COUNT_);
        put_rows(&j, r, r * 5, r * 5 + 5, 0);
    }
    assert_int_equal(tt_run_points(join(&j), 0, 0), 0);
    assert_int_equal(tt_run_joined(j.run, 0)->incomplete, 1);
    free(all);
    end(&j);
}

static void a_run_without_placements_is_not_joined(void **state)
{
    (void)state;
    job j = begin(2, 1, "x");
    for (int32_t r = 0; r < 2; r++) {
        assert_int_equal(tt_recorder_scalar(j.rec[r], j.site[r], 0, 1), TT_OK);
        assert_int_equal(tt_recorder_close(j.rec[r], 30, &err), TT_OK);
    }
    assert_int_equal(tt_run_open(j.folder, &j.parts, &err), TT_OK);
    assert_int_equal(tt_run_join(j.parts, &j.run, &err), TT_EMISMATCH);
    tt_run_close(j.parts);
    run_folder_remove(j.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_of_any_size_make_the_whole),
        cmocka_unit_test(replicas_count_once),
        cmocka_unit_test(footers_tell_which_replicas_are_equal),
        cmocka_unit_test(replicas_that_differ_are_counted),
        cmocka_unit_test(a_split_batch_is_pooled),
        cmocka_unit_test(a_missing_part_claims_nothing),
        cmocka_unit_test(a_placement_that_lies_is_caught_by_the_counts),
        cmocka_unit_test(addends_are_not_joined),
        cmocka_unit_test(the_norm_of_the_gradients_is_that_of_the_whole),
        cmocka_unit_test(ranks_that_speak_of_other_grids_claim_nothing),
        cmocka_unit_test(a_run_without_placements_is_not_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
