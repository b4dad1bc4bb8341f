/* test_two_ends.c -- a file in memory that two threads write is that of one.
 * The files are memfd_create's, which are as those on tmpfs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/two_ends.h"

#include "format/checksum.h"
#include "format/zip.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEAD = 192, BYTES = (9 << 20) + 1000, PIECE = 256 << 10 };
static char data[BYTES], back[HEAD + BYTES];

static int fill_data(void **state)
{
    (void)state;
    uint32_t number = 1;
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)((number = number * 1664525u + 1013904223u) >> 24);
    return 0;
}

static int make_file(void)
{
    int fd = memfd_create("two ends", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static tt_ends_content content_of(int fd)
{
    return (tt_ends_content){ .fd = fd, .head = HEAD, .data = data, .bytes = BYTES, .has_sum = true };
}

/* Writes what the writer is given; gives where it ended. */
static size_t write_front(tt_ends *ends, int fd)
{
    size_t at, n, done = 0;
    while (tt_ends_claim(ends, &at, &n)) {
        assert_int_equal(at, done); /* in order, without a gap */
        assert_int_equal(pwrite(fd, data + at, n, (off_t)(HEAD + at)), n);
        done = at + n;
    }
    return done;
}

static void assert_whole(int fd)
{
    assert_int_equal(lseek(fd, 0, SEEK_END), HEAD + BYTES);
    assert_int_equal(pread(fd, back, HEAD + BYTES, 0), HEAD + BYTES);
    assert_memory_equal(back + HEAD, data, BYTES);
    for (size_t i = 0; i < HEAD; i++) /* is the writer's */
        assert_int_equal(back[i], 0);
}

static void a_writer_alone_writes_it_all(void **state)
{
    (void)state;
    int fd = make_file();
    tt_ends ends = { 0 };
    assert_false(tt_ends_is_begun(&ends));
    tt_ends_help(&ends); /* not open: nothing to do */
    tt_ends_open(&ends, &(tt_ends_content){ .fd = fd, .head = HEAD, .data = data, .bytes = BYTES });
    assert_true(tt_ends_is_open(&ends));
    assert_int_equal(write_front(&ends, fd), BYTES);
    tt_ends_help(&ends); /* too late */
    tt_ends_close(&ends);
    assert_false(tt_ends_is_open(&ends));
    assert_true(tt_ends_is_begun(&ends));
    assert_whole(fd);
    close(fd);
}

static void a_helper_writes_all_but_the_first_piece(void **state)
{
    (void)state;
    int fd = make_file();
    tt_ends ends = { 0 };
    tt_ends_content about = content_of(fd);
    tt_ends_open(&ends, &about);
    tt_ends_help(&ends);
    size_t done = write_front(&ends, fd);
    if (done == BYTES)
        skip(); /* Linux before 5.14 cannot */
    assert_int_equal(done, PIECE - HEAD);
    assert_int_equal(ends.crc, tt_crc32(0, data + done, BYTES - done));
    tt_ends_close(&ends);
    assert_whole(fd);
    close(fd);
}

static void *help(void *argument)
{
    tt_ends *ends = argument;
    while (!tt_ends_is_begun(ends))
        ;
    tt_ends_help(ends);
    return NULL;
}

static void both_together_write_the_same_bytes(void **state)
{
    (void)state;
    uint32_t whole = tt_crc32(0, data, BYTES);
    for (int turn = 0; turn < 20; turn++) {
        int fd = make_file();
        tt_ends ends = { 0 };
        tt_ends_content about = content_of(fd);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, help, &ends), 0);
        tt_ends_open(&ends, &about);
        size_t done = write_front(&ends, fd);
        tt_ends_close(&ends);
        assert_whole(fd);
        assert_int_equal(tt_checksum_join(tt_crc32(0, data, done), ends.crc, BYTES - done), whole);
        assert_int_equal(pthread_join(thread, NULL), 0);
        close(fd);
    }
}

static void a_helper_waits_for_what_is_still_being_filled_in(void **state)
{
    (void)state;
    int fd = make_file();
    tt_ends ends = { 0 };
    tt_ends_content about = content_of(fd);
    _Atomic size_t filled = PIECE;
    about.filled = &filled;
    char last = data[BYTES - 1];
    data[BYTES - 1] = (char)~last;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, help, &ends), 0);
    tt_ends_open(&ends, &about);
    (void)usleep(20000); /* long enough to do it wrong */
    data[BYTES - 1] = last;
    atomic_store_explicit(&filled, BYTES, memory_order_release);
    (void)write_front(&ends, fd);
    tt_ends_close(&ends);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_whole(fd);
    close(fd);
}

static void a_piece_that_cannot_be_had_is_given_back(void **state)
{
    (void)state;
    int fd = make_file();
    tt_ends ends = { 0 };
    tt_ends_content about = content_of(fd);
    tt_ends_open(&ends, &about);
    /* No page can be had behind the end: as where memory is full.  A copy would be a signal. */
    assert_int_equal(ftruncate(fd, HEAD + BYTES / 2), 0);
    tt_ends_help(&ends);
    assert_int_equal(write_front(&ends, fd), BYTES);
    tt_ends_close(&ends);
    assert_whole(fd);
    close(fd);
}

static void what_has_no_length_is_left_to_the_writer(void **state)
{
    (void)state;
    int ends_of_pipe[2];
    tt_ends ends = { 0 };
    assert_int_equal(pipe(ends_of_pipe), 0);
    tt_ends_content about = content_of(ends_of_pipe[1]);
    tt_ends_open(&ends, &about);
    assert_false(tt_ends_is_open(&ends));
    tt_ends_help(&ends);
    size_t at, n, done = 0;
    while (tt_ends_claim(&ends, &at, &n))
        done += n;
    assert_int_equal(done, BYTES);
    tt_ends_close(&ends);
    close(ends_of_pipe[0]);
    close(ends_of_pipe[1]);
}

static void a_writer_that_fails_leaves_no_helper_behind(void **state)
{
    (void)state;
    int fd = make_file();
    tt_ends ends = { 0 };
    tt_ends_content about = content_of(fd);
    pthread_t thread;
    size_t at, n;
    assert_int_equal(pthread_create(&thread, NULL, help, &ends), 0);
    tt_ends_open(&ends, &about);
    assert_true(tt_ends_claim(&ends, &at, &n)); /* and its write fails */
    tt_ends_close(&ends);
    assert_false(tt_ends_is_open(&ends));
    assert_false(tt_ends_claim(&ends, &at, &n));
    close(fd);
    assert_int_equal(pthread_join(thread, NULL), 0);
    tt_ends_close(&(tt_ends){ 0 }); /* never opened */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_writer_alone_writes_it_all),
        cmocka_unit_test(a_helper_writes_all_but_the_first_piece),
        cmocka_unit_test(both_together_write_the_same_bytes),
        cmocka_unit_test(a_helper_waits_for_what_is_still_being_filled_in),
        cmocka_unit_test(a_piece_that_cannot_be_had_is_given_back),
        cmocka_unit_test(what_has_no_length_is_left_to_the_writer),
        cmocka_unit_test(a_writer_that_fails_leaves_no_helper_behind),
    };
    return cmocka_run_group_tests(tests, fill_data, NULL);
}
