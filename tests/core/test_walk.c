/* test_walk.c -- a walk gives every element once, in the order asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static _Alignas(32) char buffer[TT_TILE_BYTES];

/* Reads a view of int32 in logical order with index arithmetic alone. */
static void read_by_index(const tt_tensor *t, int32_t *out)
{
    for (int64_t flat = 0; flat < t->count; flat++) {
        const char *at = t->data;
        int64_t rest = flat;
        for (int32_t d = t->ndim - 1; d >= 0; d--) {
            at += rest % t->shape[d] * t->stride[d];
            rest /= t->shape[d];
        }
        memcpy(&out[flat], at, sizeof *out);
    }
}

static int compare_ints(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void check_both_orders(const tt_tensor *t, size_t max)
{
    size_t count = (size_t)t->count;
    int32_t *want = malloc((count + 1) * sizeof *want), *got = malloc((count + 1) * sizeof *got);
    read_by_index(t, want);
    for (int order = TT_ORDER_LOGICAL; order <= TT_ORDER_MEMORY; order++) {
        tt_walk walk;
        tt_walk_begin(&walk, t, (tt_order)order);
        size_t have = 0;
        const void *run;
        for (size_t n; (n = tt_walk_next(&walk, buffer, max, &run)) > 0; have += n) {
            assert_true(n == max || have + n == count);
            assert_true((uintptr_t)run % sizeof *got == 0);
            memcpy(got + have, run, n * sizeof *got);
        }
        assert_int_equal(have, count);
        if (order == TT_ORDER_MEMORY) { /* any order, but every element as often */
            qsort(want, count, sizeof *want, compare_ints);
            qsort(got, count, sizeof *got, compare_ints);
        }
        assert_memory_equal(got, want, count * sizeof *got);
    }
    free(want);
    free(got);
}

static void a_walk_equals_index_arithmetic_for_every_layout(void **state)
{
    (void)state;
    enum { ELEMENTS = 40000 };
    int32_t *data = malloc(ELEMENTS * sizeof *data);
    for (int32_t i = 0; i < ELEMENTS; i++)
        data[i] = i;
    srand(1);
    for (int round = 0; round < 400; round++) {
        int32_t ndim = rand() % 5;
        int64_t shape[8], stride[8], first = 0, span = 1;
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = rand() % 8 == 0 ? rand() % 2 : 1 + rand() % (ndim > 3 ? 7 : 23);
            int64_t step = rand() % 6 == 0 ? 0 : span * (1 + rand() % 2);
            if (shape[d] > 0)
                span += step * (shape[d] - 1);
            stride[d] = step * (int64_t)sizeof *data;
            if (rand() % 4 == 0 && shape[d] > 0) {
                first += step * (shape[d] - 1);
                stride[d] = -stride[d];
            }
        }
        if (span > ELEMENTS)
            continue;
        for (int32_t d = ndim - 1; d > 0; d--) { /* shuffle the dimensions */
            int32_t e = rand() % (d + 1);
            int64_t s = shape[d], t = stride[d];
            shape[d] = shape[e], stride[d] = stride[e];
            shape[e] = s, stride[e] = t;
        }
        tt_tensor t;
        assert_int_equal(tt_tensor_describe(&t, data + first, TT_I32, ndim, shape, stride, NULL), 0);
        check_both_orders(&t, 1 + (size_t)(rand() % TT_TILE));
        check_both_orders(&t, TT_TILE);
    }
    free(data);
}

static void a_contiguous_tensor_is_not_copied(void **state)
{
    (void)state;
    static float data[5000];
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, TT_F32, 2, (int64_t[]){ 50, 100 }, NULL, NULL), 0);
    tt_walk walk;
    tt_walk_begin(&walk, &t, TT_ORDER_LOGICAL);
    const void *run;
    for (size_t have = 0, n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0; have += n)
        assert_ptr_equal(run, data + have);
}

static void a_transposed_tensor_is_not_copied_in_memory_order(void **state)
{
    (void)state;
    static float data[6000];
    tt_tensor t;
    int64_t stride[] = { -4, 400 };
    assert_int_equal(tt_tensor_describe(&t, data + 99, TT_F32, 2, (int64_t[]){ 100, 60 }, stride, NULL),
                     0);
    tt_walk walk;
    tt_walk_begin(&walk, &t, TT_ORDER_MEMORY);
    const void *run;
    for (size_t have = 0, n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0; have += n)
        assert_ptr_equal(run, data + have);
}

static void unaligned_and_swapped_elements_come_out_native(void **state)
{
    (void)state;
    unsigned char bytes[1 + 5 * 7] = { 0 };
    for (size_t i = 0; i < 5; i++) { /* big-endian 0x01020300 + i, seven bytes apart */
        unsigned char *at = bytes + 1 + i * 7;
        at[0] = 1, at[1] = 2, at[2] = 3, at[3] = (unsigned char)i;
    }
    tt_tensor t;
    assert_int_equal(
        tt_tensor_describe(&t, bytes + 1, TT_I32, 1, (int64_t[]){ 5 }, (int64_t[]){ 7 }, NULL), 0);
    t.is_swapped = true;
    tt_walk walk;
    tt_walk_begin(&walk, &t, TT_ORDER_LOGICAL);
    const void *run;
    assert_int_equal(tt_walk_next(&walk, buffer, TT_TILE, &run), 5);
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(((const int32_t *)run)[i], 0x01020300 + i);
}

static void a_copy_fills_its_place_and_nothing_else(void **state)
{
    (void)state;
    enum { MOST = (1 << 16) + 200, ROOM = MOST + 128 };
    static unsigned char data[MOST], out[ROOM], want[ROOM];
    for (size_t i = 0; i < MOST; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t place = 0; place < 66; place++) {
        size_t len = place % 2 == 0 ? MOST - place : (1 << 16) - 1; /* large, and just not */
        tt_tensor t;
        assert_int_equal(tt_tensor_describe(&t, data, TT_U8, 1, (int64_t[]){ (int64_t)len }, NULL, NULL),
                         0);
        memset(out, 0xEE, ROOM);
        memset(want, 0xEE, ROOM);
        memcpy(want + place, data, len);
        tt_tensor_copy(&t, out + place);
        assert_memory_equal(out, want, ROOM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_walk_equals_index_arithmetic_for_every_layout),
        cmocka_unit_test(a_contiguous_tensor_is_not_copied),
        cmocka_unit_test(a_transposed_tensor_is_not_copied_in_memory_order),
        cmocka_unit_test(unaligned_and_swapped_elements_come_out_native),
        cmocka_unit_test(a_copy_fills_its_place_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
