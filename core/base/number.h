/* number.h -- the decimal digits of a floating-point number, for layouts that the texts of
 * tensortap_tools.h do not have.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_NUMBER_H
#define TT_BASE_NUMBER_H

#include "tensortap_tools.h"

enum { TT_DECIMAL_DIGITS = 17 }; /* no f64 needs more */

/* 0.d1 d2 d3 ... times 10 to the point; the first and the last digit are not 0. */
typedef struct tt_decimal {
    int32_t count; /* of digits; 0: the number is zero */
    int32_t point;
    bool is_negative;
    char digits[TT_DECIMAL_DIGITS]; /* '0' to '9' */
} tt_decimal;

/* The fewest digits that read back as x, and of those the nearest to x. */
tt_decimal tt_decimal_f64(double x); /* x must be finite */
tt_decimal tt_decimal_f32(float x);

size_t tt_number_f32(float x, char out[TT_NUMBER_TEXT]); /* as tt_number_f64 */

#endif
