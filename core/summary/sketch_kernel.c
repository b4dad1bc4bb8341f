/* sketch_kernel.c -- adds whole blocks of 64 features to the sketch of a token.
 *
 * A block is summed in f32, four features a lane; the blocks are added up in f64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/ahead_kernel.h"
#include "summary/lanes_kernel.h"
#include "summary/sketch.h"

enum { LANES = TT_SKETCH_LANES, BLOCK = TT_SKETCH_BLOCK, LINE = 16 /* floats of a cache line */ };

/* Turns the sums by -theta, and adds those of a block. */
static inline void turn_and_add(tt_sketch_sums *sums, f32v even, f32v odd, f32v square)
{
    float re[LANES], im[LANES], sq[LANES];
    f32v_store(re, even);
    f32v_store(im, odd);
    f32v_store(sq, square);
    for (size_t j = 0; j < LANES; j++) {
        double x = sums->re[j], y = sums->im[j];
        sums->re[j] = x * tt_sketch_cos[j] + y * tt_sketch_sin[j] + (double)re[j];
        sums->im[j] = y * tt_sketch_cos[j] - x * tt_sketch_sin[j] + (double)im[j];
        sums->square[j] += (double)sq[j];
    }
}

void TT_KERNEL(sketch_f32)(const float *x, size_t blocks, struct tt_sketch_sums *sums)
{
    tt_sketch_sums all = *sums;
    for (size_t b = 0; b < blocks; b++, x += BLOCK) {
        f32v even = f32v_set(0), odd = even, square = even;
        for (size_t i = 0; i < BLOCK; i += 2 * LANES) {
            f32v first = f32v_load(x + i), second = f32v_load(x + i + LANES);
            tt_ahead_line(x + i);
            even = f32v_add(even, f32v_mul(first, f32v_load(tt_sketch_signs + i)));
            odd = f32v_add(odd, f32v_mul(second, f32v_load(tt_sketch_signs + i + LANES)));
            square = f32v_add(square, f32v_add(f32v_mul(first, first), f32v_mul(second, second)));
        }
        tt_ahead_page(x);
        turn_and_add(&all, even, odd, square);
    }
    *sums = all;
}
