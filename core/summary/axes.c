/* axes.c -- a digest of every row and every column of a matrix.
 *
 * Exists so that a weight is found again in another model: under another name, transposed, as a part of a fused one, rounded
 * to bfloat16.  The digest of a row is a sum over its elements, each mixed and times an odd number that belongs to its place, so
 * that rows and columns come out of one pass.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/float_mode.h"
#include "summary/convert.h"
#include "tensortap_tools.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

/* The odd number of a place; splitmix64. */
static uint64_t factor(uint64_t place)
{
    uint64_t z = (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) | 1;
}

/* Rounds to bfloat16, half to even; all NaN are one. */
static uint64_t rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fc0;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* What is mixed of each element: a bfloat16, or a whole number. */
static void read_run(tt_dtype dtype, const void *run, uint64_t *out, size_t n)
{
    double wide[TT_TILE];
    float tile[TT_TILE];
    if (tt_lane_of(dtype) == TT_LANE_INTEGER) {
        memcpy(out, run, n * sizeof *out);
        return;
    }
    if (tt_lane_of(dtype) == TT_LANE_F32) {
        const float *x = tt_tile_f32(dtype, run, tile, n);
        for (size_t i = 0; i < n; i++)
            out[i] = rounded(x[i]);
        return;
    }
    const double *x = tt_tile_f64(dtype, run, wide, n);
    for (size_t i = 0; i < n; i++)
        out[i] = dtype == TT_F64 ? rounded((float)x[i]) : (uint64_t)(int64_t)x[i];
}

/* The lowest bit says that it is not constant. */
static uint64_t finish(uint64_t sum, bool is_constant)
{
    return (mix(sum) & ~UINT64_C(1)) | (is_constant ? 0 : 1);
}

void tt_axes_sizes(const tt_tensor *t, int64_t *rows, int64_t *columns)
{
    *rows = t->count == 0 ? 0 : t->ndim > 1 ? t->shape[0] : 1;
    *columns = *rows > 0 ? t->count / *rows : 0;
}

tt_status tt_axes_compute(const tt_tensor *t, uint64_t *rows, uint64_t *columns)
{
    int64_t height, width, row = 0, column = 0;
    tt_axes_sizes(t, &height, &width);
    if (tt_lane_of(t->dtype) == TT_LANE_COMPLEX)
        return TT_EDTYPE;
    /* Of each column its factor, its first element, and whether it is constant so far. */
    uint64_t *memory = malloc((size_t)(width > 0 ? width : 1) * 3 * sizeof *memory);
    if (memory == NULL)
        return TT_ENOMEM;
    uint64_t *factors = memory, *first = memory + width, *varies = first + width;
    for (int64_t c = 0; c < width; c++) {
        factors[c] = factor((uint64_t)c);
        varies[c] = columns[c] = 0;
    }
    uint64_t mode = tt_float_mode_begin(), sum = 0, start = 0, changes = 0;
    _Alignas(32) char buffer[TT_TILE_BYTES];
    uint64_t bits[TT_TILE];
    const void *run;
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0;) {
        read_run(t->dtype, run, bits, n);
        for (size_t i = 0; i < n;) {
            size_t now = (size_t)(width - column) < n - i ? (size_t)(width - column) : n - i;
            uint64_t of_row = factor((uint64_t)row);
            if (column == 0)
                start = bits[i], sum = changes = 0;
            if (row == 0)
                memcpy(first + column, bits + i, now * sizeof *bits);
            for (size_t k = 0; k < now; k++) {
                uint64_t x = bits[i + k], mixed = mix(x + 1);
                sum += mixed * factors[(size_t)column + k];
                columns[(size_t)column + k] += mixed * of_row;
                changes |= x ^ start;
                varies[(size_t)column + k] |= x ^ first[(size_t)column + k];
            }
            i += now;
            column += (int64_t)now;
            if (column == width) {
                rows[row++] = finish(sum, changes == 0);
                column = 0;
            }
        }
    }
    for (int64_t c = 0; c < width; c++)
        columns[c] = finish(columns[c], varies[c] == 0);
    if (t->ndim < 2) /* one row, of which each element is a column */
        for (int64_t c = 0; c < width; c++)
            columns[c] = mix(first[c] + 1) | 1;
    tt_float_mode_end(mode);
    free(memory);
    return TT_OK;
}
