/* sketch_kernel.c -- adds whole blocks of 64 features to the sketch of a token.
 *
 * Eight blocks are summed in f32, 32 features a lane, and what these come to in f64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/ahead_kernel.h"
#include "summary/lanes_kernel.h"
#include "summary/sketch.h"

enum { LANES = TT_SKETCH_LANES, BLOCK = TT_SKETCH_BLOCK, GROUP = TT_SKETCH_GROUP };

static const float cos_f32[LANES] = {
    0x1.000000p+0f, 0x1.15be7ap-2f,  0x1.801cd2p-2f,  -0x1.d78f70p-4f,
    0x1.3f97e4p-2f, -0x1.de51a6p-1f, -0x1.e8d62cp-2f, 0x1.f95300p-1f,
};
static const float sin_f32[LANES] = {
    0x0.0p+0f,       0x1.ecce8cp-1f, -0x1.da9d2ap-1f, 0x1.fc987ap-1f,
    -0x1.e66cbcp-1f, 0x1.6d4458p-2f, -0x1.c1e49ap-1f, -0x1.49a410p-3f,
};

/* Adds a few blocks to sums that have turned by as many times -theta. */
static inline void add_blocks(tt_sketch_sums *sums, const float *x, size_t blocks, const double *turn_re,
                              const double *turn_im)
{
    f32v c = f32v_load(cos_f32), s = f32v_load(sin_f32);
    f32v re = f32v_set(0), im = re, square = re;
    for (size_t b = 0; b < blocks; b++, x += BLOCK) {
        f32v turned = f32v_add(f32v_mul(re, c), f32v_mul(im, s));
        im = f32v_sub(f32v_mul(im, c), f32v_mul(re, s));
        re = turned;
        for (size_t i = 0; i < BLOCK; i += 2 * LANES) {
            f32v even = f32v_load(x + i), odd = f32v_load(x + i + LANES);
            tt_ahead_line(x + i);
            re = f32v_add(re, f32v_mul(even, f32v_load(tt_sketch_signs + i)));
            im = f32v_add(im, f32v_mul(odd, f32v_load(tt_sketch_signs + i + LANES)));
            square = f32v_add(square, f32v_add(f32v_mul(even, even), f32v_mul(odd, odd)));
        }
        tt_ahead_page(x);
    }
    float of_re[LANES], of_im[LANES], of_square[LANES];
    f32v_store(of_re, re);
    f32v_store(of_im, im);
    f32v_store(of_square, square);
    for (size_t j = 0; j < LANES; j++) {
        double a = sums->re[j], b = sums->im[j];
        sums->re[j] = a * turn_re[j] + b * turn_im[j] + (double)of_re[j];
        sums->im[j] = b * turn_re[j] - a * turn_im[j] + (double)of_im[j];
        sums->square[j] += (double)of_square[j];
    }
}

void TT_KERNEL(sketch_f32)(const float *x, size_t blocks, struct tt_sketch_sums *sums)
{
    tt_sketch_sums all = *sums;
    for (; blocks >= GROUP; blocks -= GROUP, x += GROUP * BLOCK)
        add_blocks(&all, x, GROUP, tt_sketch_cos_group, tt_sketch_sin_group);
    for (; blocks > 0; blocks--, x += BLOCK)
        add_blocks(&all, x, 1, tt_sketch_cos, tt_sketch_sin);
    *sums = all;
}
