/* sketch.h -- what is kept of each token: its size and a few sums that tell tokens apart.
 *
 * A token is a row of the flattened leading dimensions; the last dimension holds its features.  Its sketch is
 * its l2 norm and eight complex numbers,
 *
 *     S_j = sum of s[i mod 64] q(i) x_i exp(1i theta_j floor(i / 64))   over the i with i mod 8 = j
 *
 * with signs s, and q(i) = 1 where floor(i / 8) is even, else 1i.  Each feature adds to one of them, with a factor of size 1,
 * so that the expected |S|^2 is |x|^2, and |S(x) - S(y)| estimates |x - y|.  It is linear: S(x + y) = S(x) + S(y).
 * Widths that are multiples of 64 can be joined afterwards:
 * S_j(x, y) = S_j(x) + exp(1i theta_j width(x) / 64) S_j(y).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_SKETCH_H
#define TT_SUMMARY_SKETCH_H

#include "tensortap_tools.h"

enum { TT_SKETCH_LANES = 8, TT_SKETCH_BLOCK = 64 };

/* What the blocks of one token so far add up to; the sums have turned by -theta at each block. */
typedef struct tt_sketch_sums {
    double re[TT_SKETCH_LANES], im[TT_SKETCH_LANES];
    double square[TT_SKETCH_LANES];
} tt_sketch_sums;

enum { TT_SKETCH_GROUP = 8 }; /* blocks that are added up in f32 */

/* theta_0 is 0: a change that all features share does not cancel there. */
extern const double tt_sketch_cos[TT_SKETCH_LANES], tt_sketch_sin[TT_SKETCH_LANES];
extern const double tt_sketch_cos_group[TT_SKETCH_LANES],
    tt_sketch_sin_group[TT_SKETCH_LANES]; /* of 8 theta */
extern const float tt_sketch_signs[TT_SKETCH_BLOCK];

#endif
