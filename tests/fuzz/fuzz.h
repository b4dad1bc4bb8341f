/* fuzz.h -- what every fuzz target offers; libFuzzer and replay.c call it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_TEST_FUZZ_H
#define TT_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: release builds must find the same. */
#define MUST(claim)                                                                   \
    do {                                                                              \
        if (!(claim)) {                                                               \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

#endif
