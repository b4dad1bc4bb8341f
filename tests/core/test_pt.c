/* test_pt.c -- the .pt file is a zip archive that others read, and always the same.
 *
 * That torch reads it is tests/python/test_spy_files.py; here are the layout and
 * the numbers that no tensor of a test is large enough for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"

#include "run_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t shape_of_two[] = { 2, 3 };

static tt_content small(void)
{
    return (tt_content){ .dtype = TT_F32, .ndim = 2, .shape = shape_of_two, .bytes = 24 };
}

static uint64_t number_at(const char *bytes, size_t n)
{
    uint64_t number = 0;
    for (size_t i = 0; i < n; i++)
        number |= (uint64_t)(uint8_t)bytes[i] << (8 * i);
    return number;
}

static void the_elements_begin_at_a_multiple_of_64(void **state)
{
    (void)state;
    static const int64_t shape[] = { 1, 200, 70000, 1, 1, 3000000000, 1 };
    for (int32_t ndim = 0; ndim <= 7; ndim++) {
        for (int dtype = 0; dtype < TT_DTYPE_COUNT_; dtype++) {
            tt_content content = { .dtype = (tt_dtype)dtype, .ndim = ndim, .shape = shape, .bytes = 1 };
            tt_buf head = { 0 };
            assert_int_equal(tt_pt_head(&content, &head, NULL), TT_OK);
            assert_int_equal(head.len % 64, 0);
            tt_buf_free(&head);
        }
    }
}

static void the_same_tensor_gives_the_same_bytes(void **state)
{
    (void)state;
    tt_content content = small();
    tt_buf a = { 0 }, b = { 0 };
    assert_int_equal(tt_pt_head(&content, &a, NULL), TT_OK);
    assert_int_equal(tt_pt_tail(&content, 7, &a), TT_OK);
    assert_int_equal(tt_pt_head(&content, &b, NULL), TT_OK);
    assert_int_equal(tt_pt_tail(&content, 7, &b), TT_OK);
    assert_true(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    tt_buf_free(&a);
    tt_buf_free(&b);
}

static void a_small_file_has_no_zip64(void **state)
{
    (void)state;
    tt_content content = small();
    tt_buf tail = { 0 };
    assert_int_equal(tt_pt_tail(&content, 7, &tail), TT_OK);
    assert_null(memmem(tail.data, tail.len, "PK\6\6", 4));
    assert_int_equal(number_at(tail.data + tail.len - 12, 2), 7); /* entries */
    tt_buf_free(&tail);
}

/* 2^32 - 1 in a field of four bytes says "look for it elsewhere". */
static void the_first_size_that_needs_zip64_has_it(void **state)
{
    (void)state;
    for (uint64_t bytes = UINT32_MAX - 1; bytes <= UINT32_MAX; bytes++) {
        const int64_t shape[] = { (int64_t)bytes };
        tt_content content = { .dtype = TT_U8, .ndim = 1, .shape = shape, .bytes = bytes };
        tt_buf head = { 0 };
        assert_int_equal(tt_pt_head(&content, &head, NULL), TT_OK);
        const char *wide = memmem(head.data, head.len, "\1\0\20\0", 4);
        assert_int_equal(wide != NULL, bytes == UINT32_MAX);
        if (wide != NULL)
            assert_int_equal(number_at(wide + 4, 8), bytes);
        tt_buf_free(&head);
    }
}

/* One file in a fresh folder, whose path is the state. */
static int name_file(void **state)
{
    *state = (void *)(uintptr_t)run_folder_new();
    return 0;
}

static int remove_file(void **state)
{
    (void)unlink(*state);
    run_folder_remove(*state);
    return 0;
}

/* Python's zipfile is the judge: head, a hole of 5 GB, tail. */
static void zipfile_reads_a_file_beyond_4_gb(void **state)
{
    static const int64_t shape[] = { 5, 1 << 30 };
    tt_content content = { .dtype = TT_U8, .ndim = 2, .shape = shape, .bytes = UINT64_C(5) << 30 };
    const char *path = *state;
    char command[600];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    tt_buf head = { 0 }, tail = { 0 };
    assert_true(fd >= 0);
    assert_int_equal(tt_pt_head(&content, &head, NULL), TT_OK);
    assert_int_equal(tt_pt_tail(&content, 1, &tail), TT_OK);
    assert_non_null(memmem(tail.data, tail.len, "PK\6\6", 4));
    assert_int_equal(pwrite(fd, head.data, head.len, 0), head.len);
    assert_int_equal(pwrite(fd, tail.data, tail.len, (off_t)(head.len + content.bytes)), tail.len);
    close(fd);
    (void)snprintf(
        command, sizeof command,
        "python3 -c \"import zipfile; z = zipfile.ZipFile('%s');"
        " d = z.getinfo('archive/data/0'); assert d.file_size == 5 << 30;"
        " assert z.open(d).read(9) == bytes(9);"
        " assert z.getinfo('archive/version').header_offset > 5 << 30;"
        " assert z.read('archive/version') == b'3\\n'; assert z.read('archive/byteorder') == b'little'\"",
        path);
    int result = system(command);
    tt_buf_free(&head);
    tt_buf_free(&tail);
    assert_int_equal(result, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_elements_begin_at_a_multiple_of_64),
        cmocka_unit_test(the_same_tensor_gives_the_same_bytes),
        cmocka_unit_test(a_small_file_has_no_zip64),
        cmocka_unit_test(the_first_size_that_needs_zip64_has_it),
        cmocka_unit_test_setup_teardown(zipfile_reads_a_file_beyond_4_gb, name_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
