/* hist.h -- the bins of a histogram by number.  For the store, which packs and unpacks them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_HIST_H
#define TT_SUMMARY_HIST_H

#include "tensortap.h"

/* The code of a bin is 0 for the zeros; else 1 + the highest 14 bits (sign, exponent, two of the
 * mantissa) of its edge nearest to zero as f64. */
enum { TT_HIST_CODES = 1 << 14 }; /* the highest */

typedef struct tt_hist_cursor {
    uint32_t position; /* among all bins, from the lowest value to the highest */
    uint32_t code;
    int64_t count;
} tt_hist_cursor;

/* Finds the first bin, from cursor->position on, that holds something; false: there is none. */
bool tt_hist_find(const tt_hist *hist, tt_hist_cursor *cursor);
tt_hist_bin tt_hist_bin_of(uint32_t code, int64_t count);

#endif
