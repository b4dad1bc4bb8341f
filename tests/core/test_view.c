/* test_view.c -- foreign descriptions of memory are checked, every one of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/walk.h"

#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double memory[1000];

static void every_element_type_has_name_size_and_kind(void **state)
{
    (void)state;
    static const struct {
        tt_dtype dtype;
        const char *name;
        size_t size;
        tt_kind kind;
    } want[] = {
        { TT_F64, "float64", 8, TT_KIND_FLOAT },
        { TT_F32, "float32", 4, TT_KIND_FLOAT },
        { TT_F16, "float16", 2, TT_KIND_FLOAT },
        { TT_BF16, "bfloat16", 2, TT_KIND_FLOAT },
        { TT_F8_E4M3FN, "float8_e4m3fn", 1, TT_KIND_FLOAT },
        { TT_F8_E5M2, "float8_e5m2", 1, TT_KIND_FLOAT },
        { TT_F8_E4M3FNUZ, "float8_e4m3fnuz", 1, TT_KIND_FLOAT },
        { TT_F8_E5M2FNUZ, "float8_e5m2fnuz", 1, TT_KIND_FLOAT },
        { TT_I8, "int8", 1, TT_KIND_INT },
        { TT_I16, "int16", 2, TT_KIND_INT },
        { TT_I32, "int32", 4, TT_KIND_INT },
        { TT_I64, "int64", 8, TT_KIND_INT },
        { TT_U8, "uint8", 1, TT_KIND_UINT },
        { TT_U16, "uint16", 2, TT_KIND_UINT },
        { TT_U32, "uint32", 4, TT_KIND_UINT },
        { TT_U64, "uint64", 8, TT_KIND_UINT },
        { TT_BOOL, "bool", 1, TT_KIND_BOOL },
        { TT_C64, "complex64", 8, TT_KIND_COMPLEX },
        { TT_C128, "complex128", 16, TT_KIND_COMPLEX },
    };
    assert_int_equal(sizeof want / sizeof *want, TT_DTYPE_COUNT_);
    for (int i = 0; i < TT_DTYPE_COUNT_; i++) {
        assert_int_equal(want[i].dtype, i); /* part of the file format */
        assert_string_equal(tt_dtype_name((tt_dtype)i), want[i].name);
        assert_int_equal(tt_dtype_size((tt_dtype)i), want[i].size);
        assert_int_equal(tt_dtype_kind((tt_dtype)i), want[i].kind);
    }
    assert_string_equal(tt_dtype_name((tt_dtype)99), "?");
    assert_int_equal(tt_dtype_size((tt_dtype)-1), 0);
}

static void a_description_without_strides_is_contiguous(void **state)
{
    (void)state;
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, memory, TT_F32, 3, (int64_t[]){ 2, 3, 4 }, NULL, NULL), 0);
    assert_int_equal(t.count, 24);
    assert_ptr_equal(t.data, memory);
    assert_int_equal(t.stride[0], 48);
    assert_int_equal(t.stride[1], 16);
    assert_int_equal(t.stride[2], 4);
    assert_true(tt_tensor_is_contiguous(&t));
    assert_int_equal(tt_tensor_describe(&t, memory, TT_F32, 0, NULL, NULL, NULL), 0);
    assert_int_equal(t.count, 1);
    assert_true(tt_tensor_is_contiguous(&t));
}

static void is_contiguous_tells_layouts_apart(void **state)
{
    (void)state;
    static const struct {
        int64_t shape[2], stride[2];
        bool want;
    } cases[] = {
        { { 3, 4 }, { 16, 4 }, true },   { { 3, 4 }, { 4, 12 }, false }, { { 3, 4 }, { 32, 4 }, false },
        { { 3, 4 }, { 16, -4 }, false }, { { 3, 4 }, { 0, 4 }, false },  { { 1, 4 }, { 999, 4 }, true },
        { { 3, 1 }, { 4, -77 }, true },  { { 0, 4 }, { 1, 1 }, true },   { { 3, 1 }, { 8, 4 }, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_tensor t;
        assert_int_equal(
            tt_tensor_describe(&t, memory + 500, TT_F32, 2, cases[i].shape, cases[i].stride, NULL), 0);
        assert_int_equal(tt_tensor_is_contiguous(&t), cases[i].want);
    }
}

/* Refuses, says why, and leaves the out-parameter alone. */
static void check_refused(const void *data, tt_dtype dtype, int32_t ndim, const int64_t *shape,
                          const int64_t *stride, tt_status want, const char *why)
{
    tt_tensor t, before;
    memset(&t, 0x5A, sizeof t);
    memcpy(&before, &t, sizeof t);
    tt_error err = { "" };
    assert_int_equal(tt_tensor_describe(&t, data, dtype, ndim, shape, stride, &err), want);
    assert_memory_equal(&t, &before, sizeof t);
    if (strstr(err.text, why) == NULL)
        assert_string_equal(err.text, why);
    assert_int_equal(tt_tensor_describe(&t, data, dtype, ndim, shape, stride, NULL), want);
}

static void senseless_descriptions_are_refused_and_say_why(void **state)
{
    (void)state;
    const int64_t two[] = { 2, 2 }, big[] = { INT64_MAX, 3 }, minus[] = { 2, -1 };
    const int64_t ones[TT_MAX_DIM + 1] = { 1 };
    check_refused(memory, (tt_dtype)99, 1, two, NULL, TT_EDTYPE, "type number 99");
    check_refused(memory, (tt_dtype)-1, 1, two, NULL, TT_EDTYPE, "type number");
    check_refused(memory, TT_F32, -1, two, NULL, TT_ESHAPE, "-1 dimensions");
    check_refused(memory, TT_F32, TT_MAX_DIM + 1, ones, NULL, TT_ESHAPE, "65 dimensions");
    check_refused(memory, TT_F32, INT32_MAX, ones, NULL, TT_ESHAPE, "2147483647 dimensions");
    check_refused(memory, TT_F32, 2, NULL, NULL, TT_ESHAPE, "no sizes");
    check_refused(memory, TT_F32, 2, minus, NULL, TT_ESHAPE, "size -1 of dimension 1");
    check_refused(memory, TT_F32, 2, big, NULL, TT_ESHAPE, "more than 2^63");
    check_refused(memory, TT_F32, 3, (int64_t[]){ INT64_MAX, 3, 0 }, NULL, TT_ESHAPE, "more than 2^63");
    check_refused(memory, TT_F32, 1, (int64_t[]){ INT64_MAX / 2 }, NULL, TT_ESHAPE, "address space");
    check_refused(NULL, TT_F32, 2, two, NULL, TT_EDEVICE, "4 elements but no memory");
}

static void extents_beyond_the_address_space_are_refused(void **state)
{
    (void)state;
    const int64_t two[] = { 2, 2 };
    const char *why = "address space";
    check_refused(memory, TT_F32, 2, two, (int64_t[]){ INT64_MAX, 4 }, TT_ESHAPE, why);
    check_refused(memory, TT_F32, 2, two, (int64_t[]){ INT64_MIN, 4 }, TT_ESHAPE, why);
    check_refused(memory, TT_F32, 1, two, (int64_t[]){ -((int64_t)1 << 62) }, TT_ESHAPE, why);
    check_refused(memory, TT_F32, 2, (int64_t[]){ 3, 3 },
                  (int64_t[]){ (int64_t)1 << 61, (int64_t)1 << 61 }, TT_ESHAPE, why);
    /* The highest address fits, the size times its stride does not. */
    check_refused(memory, TT_U8, 1, two, (int64_t[]){ (int64_t)1 << 62 }, TT_ESHAPE, why);
    uintptr_t top = (uintptr_t)INT64_MAX + 6;
    const void *high;
    memcpy(&high, &top, sizeof high);
    check_refused(high, TT_U8, 1, two, (int64_t[]){ INT64_MIN }, TT_ESHAPE, why);
    top = UINTPTR_MAX - 6;
    memcpy(&high, &top, sizeof high);
    check_refused(high, TT_F64, 0, NULL, NULL, TT_ESHAPE, why);
}

static void an_empty_tensor_needs_no_memory_and_no_sensible_strides(void **state)
{
    (void)state;
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, NULL, TT_F32, 2, (int64_t[]){ 0, 5 }, NULL, NULL), 0);
    assert_int_equal(t.count, 0);
    assert_int_equal(tt_tensor_describe(&t, NULL, TT_F32, 2, (int64_t[]){ 5, 0 },
                                        (int64_t[]){ INT64_MAX, INT64_MIN }, NULL),
                     0);
    assert_int_equal(t.count, 0);
}

static void a_huge_expanded_tensor_is_fine(void **state)
{
    (void)state;
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, memory, TT_F64, 2, (int64_t[]){ (int64_t)1 << 31, 1 << 30 },
                                        (int64_t[]){ 0, 0 }, NULL),
                     0);
    assert_int_equal(t.count, (int64_t)1 << 61);
}

static tt_dltensor contiguous_f32(int64_t *shape, int32_t ndim)
{
    return (tt_dltensor){
        .data = memory, .device_type = 1, .ndim = ndim, .code = 2, .bits = 32, .lanes = 1, .shape = shape
    };
}

static void dlpack_codes_become_our_types(void **state)
{
    (void)state;
    static const struct {
        uint8_t code, bits;
        tt_dtype dtype;
    } want[] = {
        { 2, 64, TT_F64 },         { 2, 32, TT_F32 },         { 2, 16, TT_F16 },
        { 4, 16, TT_BF16 },        { 10, 8, TT_F8_E4M3FN },   { 12, 8, TT_F8_E5M2 },
        { 11, 8, TT_F8_E4M3FNUZ }, { 13, 8, TT_F8_E5M2FNUZ }, { 0, 8, TT_I8 },
        { 0, 16, TT_I16 },         { 0, 32, TT_I32 },         { 0, 64, TT_I64 },
        { 1, 8, TT_U8 },           { 1, 16, TT_U16 },         { 1, 32, TT_U32 },
        { 1, 64, TT_U64 },         { 6, 8, TT_BOOL },         { 5, 64, TT_C64 },
        { 5, 128, TT_C128 },
    };
    int known = 0;
    for (unsigned code = 0; code < 256; code++) {
        for (unsigned bits = 0; bits < 256; bits++) {
            tt_dltensor dl = contiguous_f32((int64_t[]){ 3 }, 1);
            dl.code = (uint8_t)code;
            dl.bits = (uint8_t)bits;
            tt_tensor t;
            tt_status st = tt_tensor_from_dlpack(&t, &dl, NULL), expected = TT_EDTYPE;
            for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
                if (want[i].code == code && want[i].bits == bits) {
                    expected = TT_OK;
                    assert_int_equal(t.dtype, want[i].dtype);
                    known++;
                }
            }
            assert_int_equal(st, expected);
        }
    }
    assert_int_equal(known, TT_DTYPE_COUNT_);
}

static void dlpack_strides_are_elements_and_the_offset_bytes(void **state)
{
    (void)state;
    tt_dltensor dl = contiguous_f32((int64_t[]){ 2, 3 }, 2);
    dl.strides = (int64_t[]){ -1, 2 };
    dl.byte_offset = 20;
    tt_tensor t;
    assert_int_equal(tt_tensor_from_dlpack(&t, &dl, NULL), TT_OK);
    assert_ptr_equal(t.data, (char *)memory + 20);
    assert_int_equal(t.stride[0], -4);
    assert_int_equal(t.stride[1], 8);
    assert_false(t.is_swapped);
}

static void check_dlpack(const tt_dltensor *dl, tt_status want, const char *why)
{
    tt_tensor t, before;
    memset(&t, 0x5A, sizeof t);
    memcpy(&before, &t, sizeof t);
    tt_error err = { "" };
    assert_int_equal(tt_tensor_from_dlpack(&t, dl, &err), want);
    assert_memory_equal(&t, &before, sizeof t);
    if (strstr(err.text, why) == NULL)
        assert_string_equal(err.text, why);
}

static void hostile_dlpack_is_refused_and_says_why(void **state)
{
    (void)state;
    int64_t shape[] = { 2, 3 };
    tt_dltensor dl = contiguous_f32(shape, 2);
    dl.lanes = 4;
    check_dlpack(&dl, TT_EDTYPE, "4 lanes");
    dl = contiguous_f32(shape, 2);
    dl.device_type = 2;
    check_dlpack(&dl, TT_EDEVICE, "device type 2");
    dl = contiguous_f32(shape, -1);
    check_dlpack(&dl, TT_ESHAPE, "-1 dimensions");
    dl = contiguous_f32(shape, TT_MAX_DIM + 1);
    dl.strides = shape; /* must not be read that far */
    check_dlpack(&dl, TT_ESHAPE, "65 dimensions");
    dl = contiguous_f32(NULL, 2);
    check_dlpack(&dl, TT_ESHAPE, "no sizes");
    dl.strides = shape;
    check_dlpack(&dl, TT_ESHAPE, "no sizes");
    dl = contiguous_f32(shape, 2);
    dl.strides = (int64_t[]){ INT64_MAX / 2, 1 };
    check_dlpack(&dl, TT_ESHAPE, "stride 4611686018427387903 of dimension 0");
    dl = contiguous_f32(shape, 2);
    dl.byte_offset = UINT64_MAX;
    check_dlpack(&dl, TT_ESHAPE, "byte offset 18446744073709551615");
    dl = contiguous_f32(shape, 2);
    dl.data = NULL;
    dl.byte_offset = 64; /* nothing plus something is still no memory */
    check_dlpack(&dl, TT_EDEVICE, "6 elements but no memory");
}

static void host_memory_of_other_devices_is_read(void **state)
{
    (void)state;
    const int32_t readable[] = { 1, 3, 11, 13 }; /* CPU, CUDA host, ROCm host, CUDA managed */
    for (int32_t device = -2; device < 40; device++) {
        bool is_host = false;
        for (size_t i = 0; i < 4; i++)
            is_host = is_host || readable[i] == device;
        tt_dltensor dl = contiguous_f32((int64_t[]){ 2 }, 1);
        dl.device_type = device;
        tt_tensor t;
        assert_int_equal(tt_tensor_from_dlpack(&t, &dl, NULL), is_host ? TT_OK : TT_EDEVICE);
    }
}

static void the_stride_of_a_single_element_may_be_anything(void **state)
{
    (void)state;
    tt_dltensor dl = contiguous_f32((int64_t[]){ 1, 3 }, 2);
    dl.strides = (int64_t[]){ INT64_MAX, 1 };
    tt_tensor t;
    assert_int_equal(tt_tensor_from_dlpack(&t, &dl, NULL), TT_OK);
    assert_int_equal(t.count, 3);
    assert_true(tt_tensor_is_contiguous(&t));
}

static void describing_allocates_nothing(void **state)
{
    (void)state;
    long before = alloc_count();
    tt_dltensor dl = contiguous_f32((int64_t[]){ 2, 3 }, 2);
    tt_tensor t;
    tt_error err;
    assert_int_equal(tt_tensor_from_dlpack(&t, &dl, &err), TT_OK);
    dl.lanes = 2;
    assert_int_equal(tt_tensor_from_dlpack(&t, &dl, &err), TT_EDTYPE);
    assert_int_equal(alloc_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_type_has_name_size_and_kind),
        cmocka_unit_test(a_description_without_strides_is_contiguous),
        cmocka_unit_test(is_contiguous_tells_layouts_apart),
        cmocka_unit_test(senseless_descriptions_are_refused_and_say_why),
        cmocka_unit_test(extents_beyond_the_address_space_are_refused),
        cmocka_unit_test(an_empty_tensor_needs_no_memory_and_no_sensible_strides),
        cmocka_unit_test(a_huge_expanded_tensor_is_fine),
        cmocka_unit_test(dlpack_codes_become_our_types),
        cmocka_unit_test(dlpack_strides_are_elements_and_the_offset_bytes),
        cmocka_unit_test(hostile_dlpack_is_refused_and_says_why),
        cmocka_unit_test(host_memory_of_other_devices_is_read),
        cmocka_unit_test(the_stride_of_a_single_element_may_be_anything),
        cmocka_unit_test(describing_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
