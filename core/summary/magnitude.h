/* magnitude.h -- |z| of a complex number, the same bits on every machine.
 *
 * Exists because hypot() is left to the C library, and libraries differ.  For
 * hist and compare.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_MAGNITUDE_H
#define TT_SUMMARY_MAGNITUDE_H

#include <math.h>

/* Inf if a part is infinite, else NaN if one is NaN, as hypot().  Where a square
 * might overflow or vanish the parts are scaled by a power of two first. */
static inline double tt_magnitude(double re, double im)
{
    double x = fabs(re), y = fabs(im);
    if (isinf(x) || isinf(y))
        return INFINITY;
    if (isnan(x) || isnan(y))
        return NAN;
    double larger = x > y ? x : y;
    if (x == 0 || y == 0)
        return larger;
    double scale = larger >= 0x1p500 ? 0x1p-600 : larger <= 0x1p-400 ? 0x1p600 : 1;
    x *= scale;
    y *= scale;
    return sqrt(x * x + y * y) / scale;
}

#endif
