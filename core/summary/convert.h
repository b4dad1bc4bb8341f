/* convert.h -- which type a summary computes in, and how an element gets there.
 *
 * f32 tiles: f32 f16 bf16 and the fp8 types (all exact).  f64 tiles: f64, the
 * integers up to 32 bits and bool (all exact).  i64 and u64 have their own
 * way where more than 53 bits matter.  Complex types are pairs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_CONVERT_H
#define TT_SUMMARY_CONVERT_H

#include "summary/kernels.h"
#include "tensor/walk.h"

typedef enum tt_lane { TT_LANE_F32, TT_LANE_F64, TT_LANE_INTEGER, TT_LANE_COMPLEX } tt_lane;

tt_lane tt_lane_of(tt_dtype dtype);

/* n elements of a contiguous run as floats (TT_LANE_F32) or doubles (every
 * lane but complex; i64 and u64 are rounded).  Gives `from` itself where it is
 * already of that type, else `to`. */
const float *tt_tile_f32(tt_dtype dtype, const void *from, float *to, size_t n);
const double *tt_tile_f64(tt_dtype dtype, const void *from, double *to, size_t n);

typedef struct tt_number {
    double re, im;
} tt_number;

/* Elements of any type as complex numbers. */
const tt_number *tt_tile_complex(tt_dtype dtype, const void *from, tt_number *to, size_t n);

#endif
