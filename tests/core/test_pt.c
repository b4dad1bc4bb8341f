/* test_pt.c -- the .pt file is a zip archive that others read, and always the same.
 *
 * That torch reads it is tests/python/test_spy_files.py; here are the layout and
 * the numbers that no tensor of a test is large enough for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"

#include "alloc_fail.h"

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

/* Python's zipfile is the judge: head, a hole of 5 GB, tail. */
static void zipfile_reads_a_file_beyond_4_gb(void **state)
{
    (void)state;
    static const int64_t shape[] = { 5, 1 << 30 };
    tt_content content = { .dtype = TT_U8, .ndim = 2, .shape = shape, .bytes = UINT64_C(5) << 30 };
    char path[] = "/tmp/tensortap-zip64-XXXXXX", command[400];
    int fd = mkstemp(path);
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
        " assert z.open(d).read(9) == bytes(9); z.getinfo('archive/version').header_offset > 5 << 30;"
        " assert z.read('archive/version') == b'3\\n'; assert z.read('archive/byteorder') == b'little'\"",
        path);
    int result = system(command);
    unlink(path);
    tt_buf_free(&head);
    tt_buf_free(&tail);
    assert_int_equal(result, 0);
}

static tt_status write_both(const void *nothing, tt_buf *out)
{
    (void)nothing;
    tt_content content = small();
    tt_status st = tt_pt_head(&content, out, NULL);
    return st == TT_OK ? tt_pt_tail(&content, 7, out) : st;
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    alloc_fail_each(write_both, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_elements_begin_at_a_multiple_of_64),
        cmocka_unit_test(the_same_tensor_gives_the_same_bytes),
        cmocka_unit_test(a_small_file_has_no_zip64),
        cmocka_unit_test(zipfile_reads_a_file_beyond_4_gb),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
