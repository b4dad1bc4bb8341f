/* placed_kernel.c -- the words of a tensor and their places, mixed and summed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

static inline uint64_t mix(uint64_t index)
{
    uint64_t w = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    w = (w ^ w >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return w ^ w >> 32;
}

#define SUM(type)                                                          \
    for (size_t i = 0; i < n; i++) {                                       \
        type bits;                                                         \
        memcpy(&bits, (const char *)words + i * sizeof bits, sizeof bits); \
        uint64_t w = mix(first + i);                                       \
        sum += (wide)(bits ^ w) * (w | 1);                                 \
    }

void TT_KERNEL(placed_add)(const void *words, size_t size, size_t n, uint64_t first, tt_digest *out)
{
    wide sum = (wide)out->high << 64 | out->low;
    if (size == 8)
        SUM(uint64_t)
    else if (size == 4)
        SUM(uint32_t)
    else if (size == 2)
        SUM(uint16_t)
    else
        SUM(uint8_t)
    *out = (tt_digest){ .low = (uint64_t)sum, .high = (uint64_t)(sum >> 64) };
}
