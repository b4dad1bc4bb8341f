/* test_placement.c -- meshes and placements come back from the file as they were recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/placement.h"
#include "tensortap_tools.h"

#include "run_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tt_error err;
static const int32_t ranks[] = { 0, 1, 2, 3, 8, 9, 10, 11 };
static const tt_mesh mesh = {
    .ndim = 2, .name = { "dp", "tp" }, .size = { 4, 2 }, .coordinate = { 2, 1 }, .ranks = ranks
};
static const tt_box boxes[] = { { .offset = { 4, 0 }, .size = { 2, 6 } },
                                { .offset = { 8, 0 }, .size = { 1, 6 } } };

static tt_placement strided(uint64_t id, int64_t step)
{
    return (tt_placement){ .step = step,
                           .mesh = id,
                           .source = TT_PLACED_BY_CHUNKS,
                           .mesh_ndim = 2,
                           .on = { { TT_SPREAD_SHARD, .dim = 0, .factor = 2 },
                                   { TT_SPREAD_SHARD, .dim = 0, .factor = 1 } },
                           .ndim = 2,
                           .shape = { 10, 6 },
                           .box_count = 2,
                           .boxes = boxes };
}

static void a_mesh_and_a_placement_come_back(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t other = site_of(rec, "loss"), site = site_of(rec, "parameter/fc.weight");
    uint64_t id = 0;
    assert_int_equal(tt_recorder_mesh(rec, &mesh, &id), TT_OK);
    tt_placement p = strided(id, 5);
    assert_int_equal(tt_recorder_place(rec, site, &p), TT_OK);
    assert_int_equal(tt_recorder_scalar(rec, other, 0, 1), TT_OK);
    assert_int_equal(tt_recorder_scalar(rec, site, 0, 1), TT_OK);
    tt_run *run = finish_and_read(rec, folder);
    const tt_mesh *back = tt_run_mesh(run, 0, id);
    assert_non_null(back);
    assert_int_equal(back->ndim, 2);
    assert_string_equal(back->name[0], "dp");
    assert_int_equal(back->size[0], 4);
    assert_int_equal(back->coordinate[1], 1);
    assert_memory_equal(back->ranks, ranks, sizeof ranks);
    assert_null(tt_run_mesh(run, 0, id + 1));

    int32_t at = tt_run_find(run, "parameter/fc.weight");
    assert_null(tt_run_placement(run, 0, at, 4)); /* before its first step */
    const tt_placement *q = tt_run_placement(run, 0, at, 7);
    assert_non_null(q);
    assert_int_equal(q->mesh, id);
    assert_int_equal(q->on[0].spread, TT_SPREAD_SHARD);
    assert_int_equal(q->on[0].factor, 2);
    assert_int_equal(q->shape[0], 10);
    assert_int_equal(q->box_count, 2);
    assert_memory_equal(q->boxes[1].offset, boxes[1].offset, 2 * sizeof(int64_t));
    assert_null(tt_run_placement(run, 0, tt_run_find(run, "loss"), 7));
    tt_run_close(run);
    run_folder_remove(folder);
}

static void the_latest_placement_before_a_step_counts(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t sites[3];
    uint64_t id = 0;
    char name[16];
    assert_int_equal(tt_recorder_mesh(rec, &mesh, &id), TT_OK);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        sites[i] = site_of(rec, name);
        assert_int_equal(tt_recorder_scalar(rec, sites[i], 0, 1), TT_OK);
    }
    for (int64_t step = 0; step < 30; step += 10)
        for (int i = 2; i >= 0; i--) {
            tt_placement p = strided(id, step);
            p.box_count = 1;
            p.on[1].dim = (int32_t)(step / 10);
            assert_int_equal(tt_recorder_place(rec, sites[i], &p), TT_OK);
            assert_int_equal(tt_recorder_flush(rec, &err), TT_OK);
        }
    tt_run *run = finish_and_read(rec, folder);
    int32_t at = tt_run_find(run, "s1");
    for (int64_t step = 0; step < 40; step++)
        assert_int_equal(tt_run_placement(run, 0, at, step)->on[1].dim, step < 30 ? step / 10 : 2);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void what_cannot_be_is_refused_when_written(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t site = site_of(rec, "x");
    uint64_t id;
    tt_mesh wrong = mesh;
    wrong.coordinate[0] = 4;
    assert_int_equal(tt_recorder_mesh(rec, &wrong, &id), TT_EINVAL);
    wrong = mesh;
    wrong.ndim = 0;
    assert_int_equal(tt_recorder_mesh(rec, &wrong, &id), TT_EINVAL);
    tt_placement p = strided(1, 0);
    p.box_count = TT_PLACEMENT_BOXES + 1;
    assert_int_equal(tt_recorder_place(rec, site, &p), TT_EINVAL);
    p = strided(1, 0);
    assert_int_equal(tt_recorder_place(rec, site + 1, &p), TT_EINVAL);
    assert_int_equal(tt_recorder_close(rec, 30, &err), TT_OK);
    run_folder_remove(folder);
}

/* Every byte of a section, changed and cut: an error or a placement inside its tensor. */
static void hostile_bytes_are_rejected(void **state)
{
    (void)state;
    tt_buf good = { 0 };
    tt_placement p = strided(7, 3);
    assert_int_equal(tt_placement_put(1, &p, &good), TT_OK);
    for (size_t cut = 0; cut <= good.len; cut++)
        for (int by = 0; by < 256; by += 17) {
            tt_tap tap = { 0 };
            char bytes[512];
            memcpy(bytes, good.data, good.len);
            if (cut < good.len)
                bytes[cut] = (char)(bytes[cut] ^ by);
            tt_cursor cursor = tt_cursor_over(bytes, by % 2 == 0 ? good.len : cut);
            tt_status st = tt_placement_read(&tap, &cursor);
            assert_true(st == TT_OK || st == TT_EFORMAT);
            for (int32_t i = 0; st == TT_OK && i < tap.placements[0].known->placement.box_count; i++)
                for (int32_t d = 0; d < tap.placements[0].known->placement.ndim; d++) {
                    const tt_placement *q = &tap.placements[0].known->placement;
                    assert_true(q->boxes[i].offset[d] + q->boxes[i].size[d] <= q->shape[d]);
                }
            free(tap.placements);
            free((void *)tap.known);
            tt_arena_free(&tap.texts);
        }
    tt_buf_free(&good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mesh_and_a_placement_come_back),
        cmocka_unit_test(the_latest_placement_before_a_step_counts),
        cmocka_unit_test(what_cannot_be_is_refused_when_written),
        cmocka_unit_test(hostile_bytes_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
