/* test_checksum.c -- a CRC-32 that two threads share is that of one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/checksum.h"

#include "format/zip.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { BYTES = 5 << 20, PIECE = 100000 };
static char data[BYTES];

static void fill_data(void)
{
    uint32_t number = 1;
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)((number = number * 1664525u + 1013904223u) >> 24);
}

/* The check value that every description of CRC-32 gives. */
static void the_known_check_value_comes_out_of_every_split(void **state)
{
    (void)state;
    static const char text[] = "123456789";
    for (size_t n = 0; n <= 9; n++)
        assert_int_equal(tt_checksum_join(tt_crc32(0, text, n), tt_crc32(0, text + n, 9 - n), 9 - n),
                         0xcbf43926u);
}

static void long_pieces_are_joined(void **state)
{
    (void)state;
    uint32_t whole = tt_crc32(0, data, BYTES);
    for (size_t n = 1; n < BYTES; n = n * 3 + 1)
        assert_int_equal(
            tt_checksum_join(tt_crc32(0, data, n), tt_crc32(0, data + n, BYTES - n), BYTES - n), whole);
}

typedef struct shared {
    tt_checksum sum;
    _Atomic size_t filled;
    _Atomic size_t after; /* the helper comes when so much is filled */
} shared;

static void *help(void *argument)
{
    shared *s = argument;
    tt_checksum_wait_filled(&s->filled, atomic_load(&s->after));
    tt_checksum_help(&s->sum, data, BYTES, &s->filled);
    return NULL;
}

static void a_helper_may_come_at_any_time(void **state)
{
    (void)state;
    uint32_t whole = tt_crc32(0, data, BYTES);
    for (size_t after = 0; after <= BYTES; after += 700000) {
        shared s = { .after = after };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, help, &s), 0);
        for (size_t at = 0; at < BYTES; at += PIECE) {
            size_t n = BYTES - at < PIECE ? BYTES - at : PIECE;
            atomic_store(&s.filled, at + n);
            tt_checksum_add(&s.sum, data + at, n);
        }
        assert_int_equal(tt_checksum_end(&s.sum), whole);
        assert_false(tt_checksum_is_alone(&s.sum));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(tt_checksum_end(&s.sum), whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_check_value_comes_out_of_every_split),
        cmocka_unit_test(long_pieces_are_joined),
        cmocka_unit_test(a_helper_may_come_at_any_time),
    };
    fill_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
