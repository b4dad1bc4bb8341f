/* test_chunk.c -- a chunk whose checksum is right may still not be one of ours.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/chunk.h"

#include "store/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { POINTS = 4 };

/* Four points of one column, whose data are these bytes. */
static tt_buf chunk_of(uint32_t products, tt_column column, tt_packing packing, const tt_buf *data)
{
    tt_buf out = { 0 };
    (void)tt_wire_room(&out, 4);
    tt_buf_varint(&out, 0); /* site */
    tt_buf_varint(&out, 0); /* first */
    tt_buf_varint(&out, POINTS);
    tt_wire_signed(&out, 0); /* steps */
    tt_buf_varint(&out, 0);
    tt_buf_varint(&out, (uint64_t)TT_COLUMN_PRODUCTS << 3 | TT_PACK_SAME);
    tt_wire_signed(&out, products);
    tt_buf_varint(&out, (uint64_t)column << 3 | packing);
    tt_buf_append(&out, data->data, data->len);
    assert_int_equal(out.st, TT_OK);
    uint64_t check = tt_block_hash(out.data + 4, out.len - 4);
    tt_put_u32((unsigned char *)out.data, (uint32_t)check);
    return out;
}

static tt_status unpack(uint32_t products, tt_column column, tt_packing packing, tt_buf *data,
                        tt_points *points)
{
    tt_buf bytes = chunk_of(products, column, packing, data);
    tt_chunk chunk;
    tt_status st = tt_chunk_parse(&chunk, bytes.data, bytes.len);
    if (st == TT_OK)
        st = tt_chunk_unpack(&chunk, 0, points);
    tt_buf_free(&bytes);
    tt_buf_free(data);
    return st;
}

/* So many scalars, each of so many bytes. */
static tt_buf numbers(size_t count, size_t size)
{
    tt_buf data = { 0 };
    tt_buf_varint(&data, count * size);
    for (size_t i = 0; i < count; i++)
        tt_buf_append(&data, "\1\2\3\4\5\6\7\10", size);
    return data;
}

static void as_many_numbers_as_points_are_read(void **state)
{
    (void)state;
    tt_points points = { 0 };
    tt_buf data = numbers(POINTS, 8);
    assert_int_equal(unpack(TT_PRODUCT_SCALAR, TT_COLUMN_SCALAR, TT_PACK_RAW, &data, &points), TT_OK);
    assert_int_equal(points.n, POINTS);
    assert_true(points.cells[TT_COLUMN_SCALAR][POINTS - 1] == 0x0807060504030201);
    tt_points_free(&points);
}

static void fewer_or_more_numbers_than_points_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tt_points points = { 0 };
        bool is_narrow = i % 2 != 0;
        tt_buf data = numbers(i < 2 ? POINTS - 1 : POINTS + 1, is_narrow ? 4 : 8);
        assert_int_equal(unpack(TT_PRODUCT_SCALAR, TT_COLUMN_SCALAR,
                                is_narrow ? TT_PACK_F32 : TT_PACK_RAW, &data, &points),
                         TT_EFORMAT);
        tt_points_free(&points);
    }
}

/* Four texts of one byte, and `extra` bytes behind them. */
static tt_buf texts(size_t extra)
{
    tt_buf data = { 0 };
    tt_buf_varint(&data, 2 * POINTS + extra);
    tt_buf_append(&data, "\1\1\1\1abcdxyz", 2 * POINTS + extra);
    return data;
}

static void texts_with_bytes_left_over_are_refused(void **state)
{
    (void)state;
    tt_points points = { 0 };
    tt_buf data = texts(0);
    assert_int_equal(unpack(TT_PRODUCT_HIST, TT_COLUMN_HIST, TT_PACK_BYTES, &data, &points), TT_OK);
    assert_memory_equal(points.bytes[TT_COLUMN_HIST].data, "abcd", POINTS);
    tt_points_clear(&points);
    data = texts(3);
    assert_int_equal(unpack(TT_PRODUCT_HIST, TT_COLUMN_HIST, TT_PACK_BYTES, &data, &points), TT_EFORMAT);
    tt_points_free(&points);
}

static void a_promise_of_more_than_a_column_holds_takes_no_memory(void **state)
{
    (void)state;
    tt_points points = { 0 };
    tt_buf data = { 0 };
    tt_buf_varint(&data, INT64_MAX); /* unpacked; malloc would say no */
    tt_buf_varint(&data, 1);
    tt_buf_append(&data, "x", 1);
    assert_int_equal(unpack(TT_PRODUCT_HIST, TT_COLUMN_HIST, TT_PACK_ZSTD, &data, &points), TT_EFORMAT);
    tt_points_free(&points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_numbers_as_points_are_read),
        cmocka_unit_test(fewer_or_more_numbers_than_points_are_refused),
        cmocka_unit_test(texts_with_bytes_left_over_are_refused),
        cmocka_unit_test(a_promise_of_more_than_a_column_holds_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
