/* test_chunk.c -- a chunk whose checksum is right may still not be one of ours.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/chunk.h"

#include "store/block.h"

#include <math.h>
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

/* ---- packing 7 ---- */

/* Packs points of statistics and unpacks them: every bit is the same.  Returns the bytes of the chunk. */
static size_t round_trip(uint32_t n, void (*fill)(uint32_t i, tt_stats *s))
{
    tt_points points = { 0 }, back = { 0 };
    assert_int_equal(tt_points_reserve(&points, n, TT_PRODUCT_STATS), TT_OK);
    for (uint32_t i = 0; i < n; i++) {
        struct {
            tt_record head;
            tt_stats stats;
        } record = { .head = { .ndim = -1, .step = i, .time = 1000000 + 7 * (int64_t)i * i } };
        record.head.products = TT_PRODUCT_STATS;
        fill(i, &record.stats);
        assert_int_equal(tt_points_add(&points, &record.head), TT_OK);
    }
    tt_buf bytes = { 0 };
    tt_chunk chunk;
    tt_chunk_pack(&bytes, 3, 5, &points);
    assert_int_equal(tt_chunk_parse(&chunk, bytes.data, bytes.len), TT_OK);
    assert_int_equal(tt_chunk_unpack(&chunk, 0, &back), TT_OK);
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++)
        if (tt_points_have(TT_PRODUCT_STATS, c))
            assert_memory_equal(points.cells[c], back.cells[c], n * sizeof(uint64_t));
    size_t len = bytes.len;
    tt_buf_free(&bytes);
    tt_points_free(&points);
    tt_points_free(&back);
    return len;
}

static uint64_t random_bits(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    i = (i ^ i >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    i = (i ^ i >> 27) * UINT64_C(0x94d049bb133111eb);
    return i ^ i >> 31;
}

static double noise(uint64_t i)
{
    return (double)(random_bits(i) >> 11) / (double)(UINT64_C(1) << 53);
}

/* What statistics of a tensor of 1000 elements look like. */
static void fill_usual(uint32_t i, tt_stats *s)
{
    *s = (tt_stats){ .count = 1000,
                     .min = (double)(float)-noise(4 * i),
                     .max = (double)(float)noise(4 * i + 1),
                     .sum = noise(4 * i + 2),
                     .sumsq = 100 + noise(4 * i + 3),
                     .l1 = 300 + noise(5 * i) };
    s->absmax = -s->min > s->max ? -s->min : s->max;
    s->mean = s->sum / 1000;
    s->m2 = (s->sumsq - s->mean * s->sum) * (1 + 1e-15);
}

/* Any bits at all: NaN of all kinds, infinities, counts below zero. */
static void fill_with_anything(uint32_t i, tt_stats *s)
{
    uint64_t *at = (uint64_t *)(void *)s;
    for (size_t k = 0; k < sizeof *s / sizeof *at; k++)
        at[k] = random_bits((uint64_t)i * 64 + k);
    if (i % 3 == 0)
        s->min = s->max = s->sum = NAN;
    if (i % 5 == 0)
        s->sum = INFINITY;
    s->nan = s->posinf = s->neginf = s->zeros = 0;
    s->count = i % 7;
    s->dtype = TT_F32;
    s->is_propagated = 0;
}

static void all_packings_keep_every_bit(void **state)
{
    (void)state;
    static const uint32_t counts[] = { 1, 2, 3, 31, 255, 256, 257, 1024, 5000 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        (void)round_trip(counts[i], fill_usual);
        (void)round_trip(counts[i], fill_with_anything);
    }
}

static void what_follows_from_other_columns_takes_no_room(void **state)
{
    (void)state;
    /* min and max of 4 bytes, sum, l1 and sumsq of 8; mean, absmax and m2 follow but for a bit or two */
    double each = (double)(round_trip(2000, fill_usual) - round_trip(1000, fill_usual)) / 1000;
    assert_true(each < 34);
    assert_true(each > 20); /* the rest is noise */
}

/* Four scalars of packing 7 whose data are these. */
static tt_status take_planes(const char *bytes, size_t len)
{
    tt_points points = { 0 };
    tt_buf data = { 0 };
    tt_buf_varint(&data, len);
    tt_buf_append(&data, bytes, len);
    tt_status st = unpack(TT_PRODUCT_SCALAR, TT_COLUMN_SCALAR, TT_PACK_PLANES, &data, &points);
    tt_points_free(&points);
    return st;
}

static void planes_that_nobody_writes_are_refused(void **state)
{
    (void)state;
    static const char varints[] = "\1\2\2\2\2", same[] = "\10\1a\1b\1c\1d\1e\1f\1g\1h";
    assert_int_equal(take_planes(varints, 5), TT_OK);
    assert_int_equal(take_planes("\1", 1), TT_OK);
    assert_int_equal(take_planes(same, 17), TT_OK);
    assert_int_equal(take_planes(varints, 4), TT_EFORMAT); /* one is missing */
    assert_int_equal(take_planes("", 0), TT_EFORMAT);
    assert_int_equal(take_planes("\2\2\2\2\2", 5), TT_EFORMAT); /* a scalar is not guessed */
    assert_int_equal(take_planes("\3\2\2\2\2", 5), TT_EFORMAT);
    assert_int_equal(take_planes("\4\2\2\2\2", 5), TT_EFORMAT); /* f32 as varints */
    assert_int_equal(take_planes("\20\2\2\2\2", 5), TT_EFORMAT);
    assert_int_equal(take_planes(same, 16), TT_EFORMAT);
    assert_int_equal(take_planes("\10\3abc\377\1b\1c\1d\1e\1f\1g\1h", 20), TT_OK); /* of no number: 0 */
    assert_int_equal(take_planes("\10\177a\1b\1c\1d\1e\1f\1g\1h", 17), TT_EFORMAT);
    assert_int_equal(take_planes("\10\0a\1b\1c\1d\1e\1f\1g\1h", 17), TT_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_packings_keep_every_bit),
        cmocka_unit_test(what_follows_from_other_columns_takes_no_room),
        cmocka_unit_test(planes_that_nobody_writes_are_refused),
        cmocka_unit_test(as_many_numbers_as_points_are_read),
        cmocka_unit_test(fewer_or_more_numbers_than_points_are_refused),
        cmocka_unit_test(texts_with_bytes_left_over_are_refused),
        cmocka_unit_test(a_promise_of_more_than_a_column_holds_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
