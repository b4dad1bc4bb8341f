/* test_digest.c -- a digest is XXH3 of the contents, whatever the layout.
 *
 * The known answers come from the Python package xxhash, fed with the bytes
 * that core/summary/digest.c describes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tt_digest digest_of(tt_dtype dtype, const void *data, int32_t ndim, const int64_t *shape,
                           const int64_t *stride)
{
    tt_tensor t;
    tt_digest out;
    assert_int_equal(tt_tensor_describe(&t, data, dtype, ndim, shape, stride, NULL), TT_OK);
    tt_digest_compute(&t, &out);
    return out;
}

static bool is_equal(tt_digest a, tt_digest b)
{
    return a.low == b.low && a.high == b.high;
}

static void expect(tt_digest got, uint64_t low, uint64_t high)
{
    assert_int_equal(got.low, low);
    assert_int_equal(got.high, high);
}

static void a_digest_is_xxh3_of_the_documented_bytes(void **state)
{
    (void)state;
    static const float floats[] = { 0, 1, 2, 3, 4, 5 };
    expect(digest_of(TT_F32, floats, 2, (int64_t[]){ 2, 3 }, NULL), 0x7a0bec7a0532cb98,
           0x28236ef4f0a04718);
    expect(digest_of(TT_F32, NULL, 1, (int64_t[]){ 0 }, NULL), 0xd5ebe0a0cee6369d, 0x1c0d7ad4e08680f7);
    expect(digest_of(TT_I64, &(int64_t){ -7 }, 0, NULL, NULL), 0xc42d3d0166f82fef, 0xad958c9def28ad4a);
    static uint8_t bytes[100003];
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(((uint64_t)i * i + i / 7) % 251);
    expect(digest_of(TT_U8, bytes, 1, (int64_t[]){ sizeof bytes }, NULL), 0xbc5a26381e360ab5,
           0xc8e2f79815af3c4b);
    static int32_t ints[3000];
    for (int32_t i = 0; i < 3000; i++)
        ints[i] = i * 977;
    expect(digest_of(TT_I32, ints, 2, (int64_t[]){ 10, 300 }, NULL), 0x2eeefd78c038011c,
           0x54d5fb12d2141103);
}

/* Lays the same elements out in every way that we can think of. */
static void twins_agree(tt_dtype dtype, int64_t rows, int64_t cols)
{
    int64_t item = (int64_t)tt_dtype_size(dtype), shape[] = { rows, cols };
    int64_t unit = tt_dtype_kind(dtype) == TT_KIND_COMPLEX ? item / 2 : item;
    size_t len = (size_t)(rows * cols * item);
    unsigned char *packed = malloc(len), *other = malloc(3 * len + 64);
    for (size_t i = 0; i < len; i++)
        packed[i] = (unsigned char)rand();
    tt_digest want = digest_of(dtype, packed, 2, shape, NULL);

    const struct {
        int64_t offset, stride[2];
    } layouts[] = {
        { 1, { cols * item, item } },                          /* unaligned */
        { 0, { item, rows * item } },                          /* transposed */
        { 0, { cols * item * 3, item * 3 } },                  /* every third */
        { (rows * cols - 1) * item, { -cols * item, -item } }, /* backwards */
        { 0, { (cols + 1) * item, item } },                    /* rows with a gap */
    };
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        const int64_t *stride = layouts[l].stride;
        unsigned char *first = other + layouts[l].offset;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                memcpy(first + r * stride[0] + c * stride[1], packed + (r * cols + c) * item,
                       (size_t)item);
        assert_true(is_equal(digest_of(dtype, first, 2, shape, stride), want));
    }
    for (size_t at = 0; at < len; at++) /* the other byte order */
        other[at - at % (size_t)unit + (size_t)unit - 1 - at % (size_t)unit] = packed[at];
    tt_tensor swapped;
    assert_int_equal(tt_tensor_describe(&swapped, other, dtype, 2, shape, NULL, NULL), TT_OK);
    swapped.is_swapped = true;
    tt_digest got;
    tt_digest_compute(&swapped, &got);
    assert_true(is_equal(got, want));
    free(packed);
    free(other);
}

static void twins_of_other_layout_have_the_same_digest(void **state)
{
    (void)state;
    srand(3);
    for (int dtype = 0; dtype < TT_DTYPE_COUNT_; dtype++) {
        twins_agree((tt_dtype)dtype, 1, 1);
        twins_agree((tt_dtype)dtype, 3, 5);
        twins_agree((tt_dtype)dtype, 2, 2049);
        twins_agree((tt_dtype)dtype, 61, 127);
    }
}

static void shape_and_type_change_the_digest(void **state)
{
    (void)state;
    static const int32_t data[12] = { 1, 2, 3, 4, 5, 6 };
    tt_digest flat = digest_of(TT_I32, data, 1, (int64_t[]){ 12 }, NULL);
    assert_false(is_equal(flat, digest_of(TT_I32, data, 2, (int64_t[]){ 3, 4 }, NULL)));
    assert_false(is_equal(flat, digest_of(TT_I32, data, 2, (int64_t[]){ 1, 12 }, NULL)));
    assert_false(is_equal(flat, digest_of(TT_U32, data, 1, (int64_t[]){ 12 }, NULL)));
    assert_false(is_equal(digest_of(TT_I32, NULL, 2, (int64_t[]){ 0, 4 }, NULL),
                          digest_of(TT_I32, NULL, 2, (int64_t[]){ 0, 5 }, NULL)));
}

static void every_byte_counts(void **state)
{
    (void)state;
    unsigned char bytes[600] = { 0 };
    tt_digest before = digest_of(TT_U8, bytes, 1, (int64_t[]){ 600 }, NULL);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        assert_false(is_equal(before, digest_of(TT_U8, bytes, 1, (int64_t[]){ 600 }, NULL)));
        bytes[i] = 0;
    }
    float zero = 0.0f, minus = -0.0f;
    assert_false(
        is_equal(digest_of(TT_F32, &zero, 0, NULL, NULL), digest_of(TT_F32, &minus, 0, NULL, NULL)));
}

static void instruction_sets_agree(void **state)
{
    (void)state;
    if (tt_kernels_use("base") == NULL || tt_kernels_use("avx2") == NULL)
        skip();
    static unsigned char bytes[70000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)rand();
    for (int64_t n = 0; n < (int64_t)sizeof bytes; n += 1 + n / 3) {
        tt_tensor t;
        tt_digest a, b;
        assert_int_equal(tt_tensor_describe(&t, bytes, TT_U8, 1, &n, NULL, NULL), TT_OK);
        (void)tt_kernels_use("base");
        tt_digest_compute(&t, &a);
        (void)tt_kernels_use("avx2");
        tt_digest_compute(&t, &b);
        assert_true(is_equal(a, b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_xxh3_of_the_documented_bytes),
        cmocka_unit_test(twins_of_other_layout_have_the_same_digest),
        cmocka_unit_test(shape_and_type_change_the_digest),
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(instruction_sets_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
