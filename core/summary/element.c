/* element.c -- one element as a number, for whoever prints a few of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/float_mode.h"
#include "summary/convert.h"

#include <math.h>
#include <string.h>

double tt_element_f64(tt_dtype dtype, const void *element)
{
    const tt_kernels *k = tt_kernels_get();
    double aligned, wide; /* large enough for every type but complex128 */
    float narrow;
    if ((unsigned)dtype >= TT_DTYPE_COUNT_ || tt_lane_of(dtype) == TT_LANE_COMPLEX)
        return (double)NAN;
    memcpy(&aligned, element, tt_dtype_size(dtype));
    uint64_t mode = tt_float_mode_begin();
    double x = tt_lane_of(dtype) == TT_LANE_F32 ? (double)*tt_tile_f32(k, dtype, &aligned, &narrow, 1)
                                                : *tt_tile_f64(k, dtype, &aligned, &wide, 1);
    x = tt_float_mode_keep(x);
    tt_float_mode_end(mode);
    return x;
}
