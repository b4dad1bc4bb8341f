/* test_npy.c -- .npy and .safetensors files as their specifications want them.
 *
 * That NumPy and safetensors read them is a test of the command's exports.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include "run_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static tt_error err;

static size_t read_all(const char *path, char *out, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(out, 1, room, file);
    fclose(file);
    return n;
}

static const char *new_path(void)
{
    static char path[300];
    const char *folder = run_folder_new();
    assert_int_equal(mkdir(folder, 0777), 0);
    (void)snprintf(path, sizeof path, "%s/file", folder);
    return path;
}

static void remove_path(const char *path)
{
    char folder[300];
    (void)snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    run_folder_remove(folder);
}

/* The elements of a transposed tensor are in logical order behind an aligned header. */
static void npy_holds_the_elements_in_logical_order(void **state)
{
    (void)state;
    const float data[6] = { 1, 2, 3, 4, 5, 6 };
    tt_tensor t;
    assert_int_equal(
        tt_tensor_describe(&t, data, TT_F32, 2, (int64_t[]){ 3, 2 }, (int64_t[]){ 4, 12 }, &err), 0);
    const char *path = new_path();
    assert_int_equal(tt_file_save(path, TT_FORMAT_NPY, &t, NULL, &err), 0);
    char bytes[512];
    size_t n = read_all(path, bytes, sizeof bytes);
    size_t header = 10 + (unsigned char)bytes[8] + 256u * (unsigned char)bytes[9];
    assert_memory_equal(bytes, "\x93NUMPY\x01\x00", 8);
    assert_int_equal(header % 64, 0);
    assert_int_equal(n, header + sizeof data);
    static const char words[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
    assert_memory_equal(bytes + 10, words, sizeof words - 1);
    assert_int_equal(bytes[header - 1], '\n');
    assert_memory_equal(bytes + header, ((float[]){ 1, 4, 2, 5, 3, 6 }), sizeof data);
    remove_path(path);
}

static void bfloat16_becomes_float32(void **state)
{
    (void)state;
    const uint16_t data[2] = { 0x3f80, 0xc000 }; /* 1, -2 */
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, TT_BF16, 1, (int64_t[]){ 2 }, NULL, &err), 0);
    const char *path = new_path();
    assert_int_equal(tt_file_save(path, TT_FORMAT_NPY, &t, NULL, &err), 0);
    char bytes[512];
    size_t n = read_all(path, bytes, sizeof bytes);
    assert_non_null(strstr(bytes + 10, "'<f4'"));
    assert_memory_equal(bytes + n - 8, ((float[]){ 1, -2 }), 8);
    remove_path(path);
}

static void safetensors_is_length_header_data(void **state)
{
    (void)state;
    const int16_t data[2] = { 7, -7 };
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, TT_I16, 1, (int64_t[]){ 2 }, NULL, &err), 0);
    tt_entry entries[2] = { { .name = "a", .dtype = TT_I16, .ndim = 1, .shape = t.shape },
                            { .name = "b", .dtype = TT_I16, .ndim = 1, .shape = t.shape } };
    tt_safetensors *file;
    const char *path = new_path();
    assert_int_equal(tt_safetensors_create(path, entries, 2, &file, &err), 0);
    assert_int_equal(tt_safetensors_put(file, &t, &err), 0);
    assert_int_equal(tt_safetensors_put(file, &t, &err), 0);
    assert_int_equal(tt_safetensors_close(file, &err), 0);
    char bytes[512];
    size_t n = read_all(path, bytes, sizeof bytes), header = (unsigned char)bytes[0];
    static const char words[] = "{\"a\": {\"dtype\": \"I16\", \"shape\": [2], \"data_offsets\": [0, 4]}, "
                                "\"b\": {\"dtype\": \"I16\", \"shape\": [2], \"data_offsets\": [4, 8]}}";
    assert_memory_equal(bytes + 8, words, sizeof words - 1);
    assert_int_equal(header % 8, 0);
    assert_int_equal(n, 8 + header + 8);
    assert_memory_equal(bytes + 8 + header, data, 4);
    remove_path(path);
}

static void an_unfinished_file_does_not_appear(void **state)
{
    (void)state;
    tt_entry entry = { .name = "a", .dtype = TT_F32, .ndim = 0 };
    tt_safetensors *file;
    const char *path = new_path();
    assert_int_equal(tt_safetensors_create(path, &entry, 1, &file, &err), 0);
    assert_int_equal(tt_safetensors_close(file, &err), TT_EMISMATCH);
    assert_int_not_equal(access(path, F_OK), 0);
    remove_path(path);
}

static void a_device_is_written_to_and_never_replaced(void **state)
{
    (void)state;
    tt_tensor t;
    struct stat about;
    assert_int_equal(tt_tensor_describe(&t, "", TT_F32, 1, (int64_t[]){ 0 }, NULL, &err), 0);
    assert_int_equal(tt_file_save("/dev/full", TT_FORMAT_NPY, &t, NULL, &err), TT_EIO);
    assert_int_equal(stat("/dev/full", &about), 0);
    assert_true(S_ISCHR(about.st_mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_holds_the_elements_in_logical_order),
        cmocka_unit_test(bfloat16_becomes_float32),
        cmocka_unit_test(safetensors_is_length_header_data),
        cmocka_unit_test(an_unfinished_file_does_not_appear),
        cmocka_unit_test(a_device_is_written_to_and_never_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
