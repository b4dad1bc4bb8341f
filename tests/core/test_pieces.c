/* test_pieces.c -- a value that is larger than the queue is written in pieces, and whole again when read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "run_folder.h"
#include "store/block.h"
#include "store/store.h"
#include "store/value.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { VALUES = 2, COUNT = 20000, PIECES_MAX = 64 };
static float data[VALUES][COUNT], out[COUNT];
static tt_error err;

/* Two values of one size, at steps 0 and 1. */
static void record_two(const char *folder)
{
    tt_recorder *rec = begin_run(folder, &(tt_recorder_options){ .queue_bytes = 64 << 10 });
    int32_t site = site_of(rec, "x");
    for (int64_t step = 0; step < VALUES; step++) {
        for (int i = 0; i < COUNT; i++)
            data[step][i] = (float)(i + step * COUNT);
        tt_tensor t;
        tt_tensor_describe(&t, data[step], TT_F32, 1, (int64_t[]){ COUNT }, NULL, NULL);
        assert_int_equal(
            tt_recorder_add(rec,
                            &(tt_event){ .site = site, .step = step, .tensor = &t, .has_value = true }),
            TT_OK);
    }
    finish_run(rec);
}

static tt_status read_value(tt_run *run, int64_t step)
{
    tt_point point;
    tt_value value;
    assert_int_equal(tt_run_point(run, 0, tt_run_find(run, "x"), step, &point, &err), TT_OK);
    tt_status st = tt_run_value_find(run, 0, point.value_at, &value, &err);
    if (st < 0)
        return st;
    assert_int_equal(value.bytes, sizeof out);
    return tt_run_value_read(run, &value, out, &err);
}

typedef struct place {
    int64_t at;
    tt_block_head block;
    tt_value_head head;
} place;

/* The blocks that hold pieces, in order. */
static int find_pieces(int fd, place *found)
{
    unsigned char bytes[TT_BLOCK_HEADER], body[512];
    int count = 0;
    tt_block_head block;
    for (int64_t at = 0; pread(fd, bytes, sizeof bytes, at) == sizeof bytes; at += block.length) {
        assert_true(tt_block_parse(bytes, at, &block));
        if (block.kind != TT_BLOCK_VALUE)
            continue;
        assert_true(block.body <= sizeof body && count < PIECES_MAX);
        assert_int_equal(pread(fd, body, block.body, at + TT_BLOCK_HEADER), block.body);
        found[count] = (place){ .at = at, .block = block };
        assert_int_equal(tt_value_parse(&found[count++].head, body, block.body), TT_OK);
    }
    return count;
}

static void pieces_are_read_as_one_value(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    record_two(folder);
    tt_run *run = read_run(folder);
    assert_whole(run);
    for (int64_t step = 0; step < VALUES; step++) {
        assert_int_equal(read_value(run, step), TT_OK);
        assert_memory_equal(out, data[step], sizeof out);
    }
    tt_run_close(run);
    run_folder_remove(folder);
}

/* Every checksum is right, and yet the last piece names one of another value. */
static void a_piece_of_another_value_is_no_piece_of_this_one(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    record_two(folder);
    char path[320];
    place pieces[PIECES_MAX];
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    int fd = open(path, O_RDWR), count = find_pieces(fd, pieces), each = count / VALUES;
    assert_true(each > 1 && count == each * VALUES);
    place *last = &pieces[count - 1];
    assert_int_equal(last->head.before, pieces[count - 2].at);
    last->head.before = pieces[each - 2].at;
    tt_buf body = { 0 };
    unsigned char header[TT_BLOCK_HEADER];
    tt_value_pack(&body, &last->head);
    assert_int_equal(body.len, last->block.body);
    tt_block_seal(&last->block, last->at, body.data, header);
    assert_int_equal(pwrite(fd, header, sizeof header, last->at), sizeof header);
    assert_int_equal(pwrite(fd, body.data, body.len, last->at + TT_BLOCK_HEADER), (ssize_t)body.len);
    tt_buf_free(&body);
    close(fd);
    tt_run *run = read_run(folder);
    assert_int_equal(read_value(run, 0), TT_OK);
    assert_int_equal(read_value(run, 1), TT_EFORMAT);
    tt_run_close(run);
    run_folder_remove(folder);
}

/* Earlier versions evicted some pieces of a value and left others. */
static void a_value_with_an_evicted_piece_is_an_evicted_value(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    record_two(folder);
    char path[320];
    place pieces[PIECES_MAX];
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    int fd = open(path, O_RDONLY);
    assert_true(find_pieces(fd, pieces) > VALUES);
    close(fd);
    tt_store store;
    tt_sites *sites;
    assert_int_equal(tt_sites_create(&sites), TT_OK);
    assert_int_equal(tt_store_open(&store, path, sites, &(tt_recorder_options){ .resumes = true }, &err),
                     TT_OK);
    assert_int_equal(tt_store_flush(&store, &err), TT_OK);
    tt_store_put_pair(&store, TT_SECTION_HOLES, pieces[0].at, pieces[1].at);
    assert_int_equal(tt_offsets_add(&store.index.holes, pieces[0].at), TT_OK);
    assert_int_equal(tt_offsets_add(&store.index.holes, pieces[1].at), TT_OK);
    assert_int_equal(tt_store_close(&store, &err), TT_OK);
    tt_sites_free(sites);
    tt_run *run = read_run(folder);
    assert_whole(run);
    tt_point point;
    tt_value value;
    assert_int_equal(tt_run_point(run, 0, tt_run_find(run, "x"), 0, &point, &err), TT_OK);
    assert_int_equal(tt_run_value_find(run, 0, point.value_at, &value, &err), TT_EMISMATCH);
    assert_string_equal(err.text, "this value was evicted to stay within max_bytes");
    assert_int_equal(read_value(run, 1), TT_OK);
    assert_memory_equal(out, data[1], sizeof out);
    tt_run_close(run);
    run_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_read_as_one_value),
        cmocka_unit_test(a_piece_of_another_value_is_no_piece_of_this_one),
        cmocka_unit_test(a_value_with_an_evicted_piece_is_an_evicted_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
