/* convert.c -- which type a summary computes in, and how an element gets there.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/convert.h"

#include "base/float_mode.h"

#include <math.h>
#include <string.h>

tt_lane tt_lane_of(tt_dtype dtype)
{
    tt_kind kind = tt_dtype_kind(dtype);
    if (kind == TT_KIND_COMPLEX)
        return TT_LANE_COMPLEX;
    if (kind == TT_KIND_FLOAT)
        return dtype == TT_F64 ? TT_LANE_F64 : TT_LANE_F32;
    return dtype == TT_I64 || dtype == TT_U64 ? TT_LANE_INTEGER : TT_LANE_F64;
}

const float *tt_tile_f32(tt_dtype dtype, const void *from, float *to, size_t n)
{
    if (dtype == TT_F32)
        return from;
    tt_kernels_get()->convert_f32(dtype, from, to, n);
    return to;
}

const double *tt_tile_f64(tt_dtype dtype, const void *from, double *to, size_t n)
{
    if (dtype == TT_F64)
        return from;
    tt_kernels_get()->convert_f64(dtype, from, to, n);
    return to;
}

const tt_number *tt_tile_complex(tt_dtype dtype, const void *from, tt_number *to, size_t n)
{
    const float *parts = from;
    double tile[TT_TILE];
    if (dtype == TT_C128)
        return from;
    const double *x = dtype != TT_C64 ? tt_tile_f64(dtype, from, tile, n) : NULL;
    for (size_t i = 0; i < n; i++)
        to[i] = x != NULL ? (tt_number){ x[i], 0 }
                          : (tt_number){ (double)parts[2 * i], (double)parts[2 * i + 1] };
    return to;
}

double tt_element_f64(tt_dtype dtype, const void *element)
{
    double aligned, wide; /* large enough for every type but complex128 */
    float narrow;
    if ((unsigned)dtype >= TT_DTYPE_COUNT_ || tt_lane_of(dtype) == TT_LANE_COMPLEX)
        return (double)NAN;
    memcpy(&aligned, element, tt_dtype_size(dtype));
    uint64_t mode = tt_float_mode_begin();
    double x = tt_lane_of(dtype) == TT_LANE_F32 ? (double)*tt_tile_f32(dtype, &aligned, &narrow, 1)
                                                : *tt_tile_f64(dtype, &aligned, &wide, 1);
    x = tt_float_mode_keep(x);
    tt_float_mode_end(mode);
    return x;
}
