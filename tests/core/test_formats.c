/* test_formats.c -- heads of .npy and .safetensors, against what NumPy and safetensors write;
 * what every format has in common.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"
#include "format/zip.h"

#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const int64_t shape[] = { 2, 3 };
static const tt_content content = { .dtype = TT_F32, .ndim = 2, .shape = shape, .bytes = 24 };

static void a_npy_head_is_that_of_numpy(void **state)
{
    (void)state;
    /* numpy.save of zeros((2, 3), 'f4') */
    static const char want[] =
        "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    tt_buf out = { 0 };
    assert_int_equal(tt_npy_head(&content, &out, NULL), TT_OK);
    assert_int_equal(out.len, 128);
    assert_memory_equal(out.data, want, sizeof want - 1);
    assert_int_equal(out.data[127], '\n');
    tt_buf_free(&out);
}

static void a_safetensors_head_is_a_length_and_json(void **state)
{
    (void)state;
    tt_buf out = { 0 };
    assert_int_equal(tt_safetensors_head(&content, &out, NULL), TT_OK);
    assert_int_equal(out.len % 64, 0);
    assert_int_equal((size_t)(uint8_t)out.data[0], out.len - 8);
    static const char want[] =
        "{\"tensor\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}}";
    assert_memory_equal(out.data + 8, want, sizeof want - 1);
    tt_buf_free(&out);
}

static void safetensors_refuses_what_it_has_no_name_for(void **state)
{
    (void)state;
    tt_content complex = content, odd = content;
    tt_buf out = { 0 };
    tt_error err;
    complex.dtype = TT_C128;
    odd.dtype_name = "complex32";
    assert_int_equal(tt_safetensors_head(&complex, &out, &err), TT_EDTYPE);
    assert_non_null(strstr(err.text, "complex128"));
    assert_int_equal(tt_safetensors_head(&odd, &out, &err), TT_EDTYPE);
    assert_non_null(strstr(err.text, "complex32"));
    tt_buf_free(&out);
}

static void formats_are_found_by_name(void **state)
{
    (void)state;
    tt_format format = TT_FORMAT_PT;
    assert_true(tt_format_find("safetensors", &format) && format == TT_FORMAT_SAFETENSORS);
    assert_false(tt_format_find("zip", &format));
}

static tt_status put_pt(const tt_content *of, tt_buf *out, tt_error *err)
{
    tt_status st = tt_pt_head(of, out, err);
    return st == TT_OK ? tt_pt_tail(of, 7, out) : st;
}

static tt_status write_head(const void *head, tt_buf *out)
{
    return (*(tt_head_fn *const *)head)(&content, out, NULL);
}

/* The check value that every description of CRC-32 gives. */
static void a_checksum_in_two_parts_is_the_known_one(void **state)
{
    (void)state;
    static const char text[] = "123456789";
    for (size_t n = 0; n <= 9; n++)
        assert_int_equal(tt_crc32(tt_crc32(0, text, n), text + n, 9 - n), 0xcbf43926u);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    tt_head_fn *heads[] = { tt_npy_head, tt_safetensors_head, put_pt };
    for (int i = 0; i < 3; i++)
        alloc_fail_each(write_head, &heads[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_npy_head_is_that_of_numpy),
        cmocka_unit_test(a_safetensors_head_is_a_length_and_json),
        cmocka_unit_test(safetensors_refuses_what_it_has_no_name_for),
        cmocka_unit_test(formats_are_found_by_name),
        cmocka_unit_test(a_checksum_in_two_parts_is_the_known_one),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
