/* sketch.c -- a sketch of each token of a tensor.
 *
 * Exists so that two runs can be compared token by token, in any layout, without the values.  sketch.h has
 * the definition.  Most tokens are summed up by the kernel; one whose squares do not fit f32, and all of f64, are
 * summed up again in f64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/sketch.h"

#include "base/float_mode.h"
#include "summary/convert.h"

#include <math.h>
#include <string.h>

enum { LANES = TT_SKETCH_LANES, BLOCK = TT_SKETCH_BLOCK };
_Static_assert(TT_TILE % TT_SKETCH_BLOCK == 0, "a tile holds whole blocks");
_Static_assert(TT_SKETCH_FLOATS == 1 + 2 * TT_SKETCH_LANES, "l2, then pairs");

/* Found among 150 random ones: with these, also changes that are smooth over the features, or the same for all, are seen
 * (bench/bench_tokens.py). */
const float tt_sketch_signs[TT_SKETCH_BLOCK] = {
    -1, 1,  1, 1,  1, -1, 1, -1, 1,  -1, -1, -1, -1, 1,  -1, -1, 1,  -1, -1, 1,  1,  1,
    1,  1,  1, -1, 1, -1, 1, 1,  -1, 1,  -1, 1,  -1, -1, -1, 1,  -1, -1, -1, -1, -1, -1,
    -1, -1, 1, -1, 1, -1, 1, 1,  -1, -1, 1,  -1, -1, -1, 1,  -1, 1,  -1, -1, -1,
};
/* Of the angles 0, 1.2961, 5.0969, 1.6862, 5.0298, 2.7769, 4.2147 and 6.1215. */
const double tt_sketch_cos[TT_SKETCH_LANES] = {
    0x1.0000000000000p+0, 0x1.15be791f55640p-2,  0x1.801cd27de629dp-2,  -0x1.d78f7093e38e6p-4,
    0x1.3f97e340637b6p-2, -0x1.de51a625ba074p-1, -0x1.e8d62cc228cbfp-2, 0x1.f952ff5dbbe84p-1,
};
const double tt_sketch_sin[TT_SKETCH_LANES] = {
    0x0.0p+0,
    0x1.ecce8bcf696a4p-1,
    -0x1.da9d2a59e7244p-1,
    0x1.fc98791d98ef2p-1,
    -0x1.e66cbbd69edd0p-1,
    0x1.6d44584a0fa27p-2,
    -0x1.c1e49a0ef3a54p-1,
    -0x1.49a40fb137f42p-3,
};

const double tt_sketch_cos_group[TT_SKETCH_LANES] = {
    0x1.0000000000000p+0,  -0x1.2c3c79d0f991ap-1, -0x1.fee7320249b89p-1, 0x1.34ee459b5ef03p-1,
    -0x1.a5e45a00c801bp-1, -0x1.f33ed229399cdp-1, -0x1.55d45b4b7b17fp-1, 0x1.1889a8e66a9b8p-2,
};
const double tt_sketch_sin_group[TT_SKETCH_LANES] = {
    0x0.0p+0,
    -0x1.9ebb428b511a9p-1,
    0x1.0bf8d4649f669p-4,
    0x1.984bd42a3d394p-1,
    0x1.221691c918846p-1,
    -0x1.c64730b4b936bp-3,
    0x1.7d2d89ebc6a73p-1,
    -0x1.ec693ac36de38p-1,
};

/* What is below may have lost squares to f32's least number. */
static const double least_square = 0x1p-100;

int64_t tt_sketch_tokens(const tt_tensor *t)
{
    bool is_float = tt_dtype_kind(t->dtype) == TT_KIND_FLOAT;
    return is_float && t->ndim >= 2 && t->count > 0 ? t->count / t->shape[t->ndim - 1] : 0;
}

static void add_f64(const double *x, size_t n, tt_sketch_sums *sums)
{
    for (size_t start = 0; start < n; start += BLOCK) {
        double re[LANES] = { 0 }, im[LANES] = { 0 };
        for (size_t i = 0; i < BLOCK && start + i < n; i++) {
            double y = x[start + i];
            (i / LANES % 2 == 0 ? re : im)[i % LANES] += y * (double)tt_sketch_signs[i];
            sums->square[i % LANES] += y * y;
        }
        for (size_t j = 0; j < LANES; j++) {
            double a = sums->re[j], b = sums->im[j];
            sums->re[j] = a * tt_sketch_cos[j] + b * tt_sketch_sin[j] + re[j];
            sums->im[j] = b * tt_sketch_cos[j] - a * tt_sketch_sin[j] + im[j];
        }
    }
}

static void add_f32(const float *x, size_t n, tt_sketch_sums *sums)
{
    size_t blocks = n / BLOCK, rest = n % BLOCK;
    tt_kernels_get()->sketch_f32(x, blocks, sums);
    if (rest > 0) {
        float last[BLOCK] = { 0 };
        memcpy(last, x + blocks * BLOCK, rest * sizeof *x);
        tt_kernels_get()->sketch_f32(last, 1, sums);
    }
}

void tt_sketch_turn(int64_t blocks, double out[16])
{
    for (size_t j = 0; j < LANES; j++) {
        double re = 1, im = 0, c = tt_sketch_cos[j], s = tt_sketch_sin[j];
        for (int64_t left = blocks; left > 0; left >>= 1) { /* a power, by squaring */
            double x = re, y = c;
            if (left & 1) {
                re = x * c - im * s;
                im = x * s + im * c;
            }
            c = y * y - s * s;
            s = 2 * y * s;
        }
        out[2 * j] = re;
        out[2 * j + 1] = im;
    }
}

/* The sums have turned by -theta at each block but the first; *turn* is as much back.  Returns the square of
 * the size. */
static double finish(const tt_sketch_sums *sums, const double *turn, float *out)
{
    double square = 0;
    for (size_t j = 0; j < LANES; j++) {
        double re = sums->re[j], im = sums->im[j], c = turn[2 * j], s = turn[2 * j + 1];
        out[1 + 2 * j] = (float)(re * c - im * s);
        out[2 + 2 * j] = (float)(re * s + im * c);
        square += sums->square[j];
    }
    out[0] = (float)sqrt(square);
    return square;
}

/* Do the squares fit f32? */
static bool fits_f32(double square)
{
    return square >= least_square && square < (double)INFINITY;
}

/* Sums up one token, of which the walk gives the features. */
static double sketch_f32(tt_walk *walk, tt_dtype dtype, int64_t width, void *buffer, const double *turn,
                         float *out)
{
    tt_sketch_sums sums = { 0 };
    for (int64_t left = width; left > 0;) {
        float tile[TT_TILE];
        const void *run;
        size_t n = tt_walk_next(walk, buffer, left < TT_TILE ? (size_t)left : TT_TILE, &run);
        add_f32(tt_tile_f32(dtype, run, tile, n), n, &sums);
        left -= (int64_t)n;
    }
    return finish(&sums, turn, out);
}

static void sketch_f64(tt_walk *walk, tt_dtype dtype, int64_t width, void *buffer, const double *turn,
                       float *out)
{
    tt_sketch_sums sums = { 0 };
    for (int64_t left = width; left > 0;) {
        double tile[TT_TILE];
        const void *run;
        size_t n = tt_walk_next(walk, buffer, left < TT_TILE ? (size_t)left : TT_TILE, &run);
        add_f64(tt_tile_f64(dtype, run, tile, n), n, &sums);
        left -= (int64_t)n;
    }
    (void)finish(&sums, turn, out);
}

/* One token as a tensor of its own. */
static tt_tensor token_of(const tt_tensor *t, int64_t i)
{
    int32_t last = t->ndim - 1;
    tt_tensor row = *t;
    const char *at = t->data;
    for (int32_t d = last; d-- > 0; i /= t->shape[d])
        at += i % t->shape[d] * t->stride[d];
    row.data = at;
    row.ndim = 1;
    row.count = row.shape[0] = t->shape[last];
    row.stride[0] = t->stride[last];
    return row;
}

static void sketch_again(const tt_tensor *t, int64_t i, int64_t width, void *buffer, const double *turn,
                         float *out)
{
    tt_tensor token = token_of(t, i);
    tt_walk walk;
    tt_walk_begin(&walk, &token, TT_ORDER_LOGICAL);
    sketch_f64(&walk, t->dtype, width, buffer, turn, out);
}

void tt_sketch_compute(const tt_tensor *t, float *out)
{
    int64_t tokens = tt_sketch_tokens(t), width = tokens > 0 ? t->count / tokens : 1;
    int64_t together = width <= TT_TILE ? TT_TILE / width : 1; /* tokens of a tile */
    uint64_t mode = tt_float_mode_begin();
    double turn[2 * LANES];
    _Alignas(32) char buffer[TT_TILE_BYTES];
    float tile[TT_TILE];
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    tt_sketch_turn((width - 1) / BLOCK, turn);
    for (int64_t i = 0; i < tokens; i += together) {
        int64_t rows = together < tokens - i ? together : tokens - i;
        const float *x = NULL;
        if (t->dtype != TT_F64 && width <= TT_TILE) {
            const void *run;
            size_t n = tt_walk_next(&walk, buffer, (size_t)(rows * width), &run);
            x = tt_tile_f32(t->dtype, run, tile, n);
        }
        for (int64_t k = 0; k < rows; k++, out += TT_SKETCH_FLOATS) {
            double square = 0;
            if (t->dtype == TT_F64) {
                sketch_f64(&walk, t->dtype, width, buffer, turn, out);
                continue;
            }
            if (x != NULL) {
                tt_sketch_sums sums = { 0 };
                add_f32(x + k * width, (size_t)width, &sums);
                square = finish(&sums, turn, out);
            } else {
                square = sketch_f32(&walk, t->dtype, width, buffer, turn, out);
            }
            if (!fits_f32(square))
                sketch_again(t, i + k, width, buffer, turn, out);
        }
    }
    tt_float_mode_end(mode);
}
