/* hist_kernel.c -- counts a tile of floats by their highest eleven bits.
 *
 * Sign, exponent and two mantissa bits of an f32 are its bits 21..31, so the
 * bin costs one shift.  Neighbours often fall into the same bin; counting them
 * in different tables saves waiting for the store before.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#include <string.h>

enum { SHIFT = 21, EXPONENTS = TT_HIST_TABLE / 2 };

static uint32_t bits_of(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits;
}

/* Takes out what the bins of the exponents 0 and 255 have counted: these bits
 * do not tell a zero from a denormal or a NaN from Inf. */
static uint32_t take_edges(uint32_t *table)
{
    static const size_t edges[] = { 0, EXPONENTS - 4, EXPONENTS, 2 * EXPONENTS - 4 };
    uint32_t sum = 0;
    for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
        for (size_t i = edges[e]; i < edges[e] + 4; i++) {
            sum += table[i];
            table[i] = 0;
        }
    return sum;
}

static void count_edges(const float *x, size_t n, uint32_t taken, tt_hist_edges *out)
{
    uint32_t zeros = 0, nan = 0, posinf = 0, neginf = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(x + i), magnitude = bits & 0x7fffffffu;
        zeros += magnitude == 0;
        nan += (int32_t)magnitude > 0x7f800000;
        posinf += bits == 0x7f800000u;
        neginf += bits == 0xff800000u;
    }
    out->zeros = zeros;
    out->nan = nan;
    out->posinf = posinf;
    out->neginf = neginf;
    out->denormals = taken - zeros - nan - posinf - neginf;
}

void TT_KERNEL(hist_f32)(const float *x, size_t n, uint32_t *tables, tt_hist_edges *out)
{
    uint32_t *first = tables, *second = tables + TT_HIST_TABLE;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint64_t low, high; /* two elements each */
        memcpy(&low, x + i, sizeof low);
        memcpy(&high, x + i + 2, sizeof high);
        __builtin_prefetch((const char *)(x + i) + 2048);
        first[(uint32_t)low >> SHIFT]++;
        second[low >> (SHIFT + 32)]++;
        first[(uint32_t)high >> SHIFT]++;
        second[high >> (SHIFT + 32)]++;
    }
    for (; i < n; i++)
        first[bits_of(x + i) >> SHIFT]++;
    uint32_t taken = take_edges(first) + take_edges(second);
    if (taken > 0)
        count_edges(x, n, taken, out);
    else
        *out = (tt_hist_edges){ 0 };
}
