/* test_stream.c -- a streaming copy is a copy, wherever it begins and ends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/stream_kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 20000 };

static void every_alignment_and_length_is_copied_and_nothing_else(void **state)
{
    (void)state;
    static const size_t lengths[] = { 0, 1, 63, 64, 4095, 4096, 4097, 4159, 5000, 8192, 16384 + 17 };
    static char from[ROOM], to[ROOM], want[ROOM];
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t a = 0; a < 70; a += 3) {
            for (size_t b = 0; b < 70; b += 11) {
                memset(to, 'x', ROOM);
                memset(want, 'x', ROOM);
                memcpy(want + a, from + b, lengths[i]);
                tt_stream_copy(to + a, from + b, lengths[i]);
                assert_memory_equal(to, want, ROOM);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_alignment_and_length_is_copied_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
