/* compare.h -- how far two tensors are apart.  For summaries and their tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_COMPARE_H
#define TT_SUMMARY_COMPARE_H

#include "summary/kernels.h"

/* What is known after some pairs.  Every field after `at` is the
 * maximum, the sum or the first of something over pairs, and each pair is
 * judged alone: neither tiles nor lanes can show in the answer. */
typedef struct tt_compare_state {
    double rtol, atol;
    bool equal_nan;
    bool has_ulps;   /* the kernels for f32 and f64 count ulps ...           */
    int ulp_shift;   /* ... of a type with that many fewer bits: 16 for bf16 */
    bool has_others; /* the block before had pairs that are judged alone: probably this one too */
    int64_t at;      /* logical index of the next pair */
    int64_t differing;
    double max_abs, max_rel;
    int64_t argmax;    /* of max_abs; -1: no difference yet */
    int64_t first_nan; /* first pair that differs by a NaN; -1: none */
    uint64_t ulp_max;
    int64_t *ulp_hist; /* borrowed; NULL: not wanted */
    bool is_close;
} tt_compare_state;

enum { TT_ULP_NAN = 65 }; /* the place in ulp_hist for pairs with a NaN */

/* [0]: 0, [i]: 2^(i-1) <= distance < 2^i. */
static inline int tt_ulp_bin(uint64_t distance)
{
    return distance == 0 ? 0 : 64 - __builtin_clzll(distance);
}

/* The distance of two floats by their bits; sign: the sign bit of their type.  Both zeros are 0. */
static inline uint64_t tt_ulps_between(uint64_t a, uint64_t b, uint64_t sign)
{
    uint64_t a_size = a & (sign - 1), b_size = b & (sign - 1);
    if ((a & sign) != (b & sign))
        return a_size + b_size;
    return a_size > b_size ? a_size - b_size : b_size - a_size;
}

static inline void tt_compare_add_ulps(tt_compare_state *state, uint64_t ulps)
{
    state->ulp_max = ulps > state->ulp_max ? ulps : state->ulp_max;
    if (state->ulp_hist != NULL)
        state->ulp_hist[tt_ulp_bin(ulps)]++;
}

/* A pair with a NaN, or two. */
static inline void tt_compare_add_nan(tt_compare_state *state, int64_t at, bool are_both, bool has_ulps)
{
    bool is_equal = state->equal_nan && are_both;
    if (has_ulps && state->ulp_hist != NULL)
        state->ulp_hist[is_equal ? 0 : TT_ULP_NAN]++;
    if (is_equal)
        return;
    state->differing++;
    state->is_close = false;
    state->first_nan = state->first_nan < 0 ? at : state->first_nan;
}

#endif
