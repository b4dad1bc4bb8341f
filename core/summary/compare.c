/* compare.c -- how far two tensors are apart, in one pass.
 *
 * Exists to answer "are these the same, and if not, where and how badly?" at
 * the speed of reading both.  The pairs are judged
 *   - in f32, if both types are floats of at most 32 bits (as torch does),
 *   - as integers, if both are integers and f64 would not hold them,
 *   - as complex numbers of two f64, if one is complex,
 *   - in f64 otherwise: exact for everything but 64-bit integers that meet a
 *     float.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/compare.h"

#include "base/float_mode.h"
#include "base/wire.h"
#include "summary/convert.h"
#include "summary/magnitude.h"
#include "tensortap_tools.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* A pair that differs and holds no NaN: size is |b|. */
static void add_gap(tt_compare_state *state, int64_t at, double gap, double size)
{
    state->differing++;
    if (!(gap < (double)INFINITY && gap <= state->atol + state->rtol * size))
        state->is_close = false;
    if (gap > state->max_abs) {
        state->max_abs = gap;
        state->argmax = at;
    }
    double rel = gap < (double)INFINITY ? gap / size : gap;
    if (size > 0 && rel > state->max_rel)
        state->max_rel = rel;
}

/* n pairs of two types; each function below adds them to what the calls before have found. */
typedef struct tile {
    tt_dtype a_type, b_type;
    const void *a, *b;
    size_t n;
} tile;

typedef void compare_fn(const tile *t, tt_compare_state *state);

static bool is_one_type(const tile *t)
{
    return t->a_type == t->b_type;
}

/* ---- floats ------------------------------------------------------------- */

static void compare_floats(const tile *t, tt_compare_state *state)
{
    float a_tile[TT_TILE], b_tile[TT_TILE];
    bool is_narrow = is_one_type(t) && t->a_type != TT_F32;
    bool is_same = is_narrow && memcmp(t->a, t->b, t->n * tt_dtype_size(t->a_type)) == 0;
    const float *x = tt_tile_f32(t->a_type, t->a, a_tile, t->n), *y = x;
    if (!is_same) /* else only NaN can differ */
        y = tt_tile_f32(t->b_type, t->b, b_tile, t->n);
    tt_kernels_get()->compare_f32(x, y, t->n, state);
    if (is_narrow && !state->has_ulps && (!is_same || state->ulp_hist != NULL))
        tt_kernels_get()->compare_narrow(t->a_type, t->a, t->b, t->n, state);
}

static void compare_doubles(const tile *t, tt_compare_state *state)
{
    double a_tile[TT_TILE], b_tile[TT_TILE];
    const double *x = tt_tile_f64(t->a_type, t->a, a_tile, t->n);
    const double *y = tt_tile_f64(t->b_type, t->b, b_tile, t->n);
    tt_kernels_get()->compare_f64(x, y, t->n, state);
    if (is_one_type(t) && t->a_type != TT_F64) /* integers of one type */
        state->ulp_max = (uint64_t)state->max_abs;
}

/* ---- integers ----------------------------------------------------------- */

/* The elements as the bits of int64_t, or of uint64_t for TT_U64. */
static void read_integers(tt_dtype dtype, const void *from, uint64_t *to, size_t n)
{
#define EACH(dtype_, type)                       \
    case dtype_: {                               \
        const type *items = from;                \
        for (size_t i = 0; i < n; i++)           \
            to[i] = (uint64_t)(int64_t)items[i]; \
        return;                                  \
    }

    switch ((int)dtype) {
        EACH(TT_I8, int8_t)
        EACH(TT_I16, int16_t)
        EACH(TT_I32, int32_t)
        EACH(TT_U8, uint8_t)
        EACH(TT_U16, uint16_t)
        EACH(TT_U32, uint32_t)
    case TT_BOOL:
        for (size_t i = 0; i < n; i++)
            to[i] = ((const uint8_t *)from)[i] != 0;
        return;
    default:
        assert(dtype == TT_I64 || dtype == TT_U64);
        memcpy(to, from, n * sizeof *to);
    }
#undef EACH
}

__extension__ typedef __int128 int128;

static int128 integer_of(tt_dtype dtype, uint64_t bits)
{
    return dtype == TT_U64 ? (int128)bits : (int128)(int64_t)bits;
}

static void add_integers(int128 a, int128 b, int64_t at, bool has_ulps, tt_compare_state *state)
{
    int128 gap = a > b ? a - b : b - a;
    if (has_ulps) /* of one type, so that 64 bits hold it */
        tt_compare_add_ulps(state, (uint64_t)gap);
    if (gap != 0)
        add_gap(state, at, (double)gap, fabs((double)b));
}

static void compare_integers(const tile *t, tt_compare_state *state)
{
    uint64_t x[TT_TILE], y[TT_TILE];
    read_integers(t->a_type, t->a, x, t->n);
    read_integers(t->b_type, t->b, y, t->n);
    for (size_t i = 0; i < t->n; i++)
        add_integers(integer_of(t->a_type, x[i]), integer_of(t->b_type, y[i]), state->at + (int64_t)i,
                     is_one_type(t), state);
    state->at += (int64_t)t->n;
}

/* ---- complex ------------------------------------------------------------ */

static bool has_nan(tt_number z)
{
    return isnan(z.re) || isnan(z.im);
}

static bool has_inf(tt_number z)
{
    return isinf(z.re) || isinf(z.im);
}

/* How many representable numbers apart; neither is NaN. */
static uint64_t part_ulps(tt_dtype dtype, double a, double b)
{
    if (dtype != TT_C64)
        return tt_ulps_between(tt_bits_of(a), tt_bits_of(b), (uint64_t)1 << 63);
    float parts[] = { (float)a, (float)b };
    uint32_t bits[2];
    memcpy(bits, parts, sizeof bits);
    return tt_ulps_between(bits[0], bits[1], (uint64_t)1 << 31);
}

static void add_numbers(tt_number a, tt_number b, int64_t at, tt_dtype ulp_type, tt_compare_state *state)
{
    bool is_complex = tt_dtype_kind(ulp_type) == TT_KIND_COMPLEX; /* both of one type */
    if (has_nan(a) || has_nan(b)) {
        tt_compare_add_nan(state, at, has_nan(a) && has_nan(b), is_complex);
        return;
    }
    if (is_complex) {
        uint64_t re = part_ulps(ulp_type, a.re, b.re), im = part_ulps(ulp_type, a.im, b.im);
        tt_compare_add_ulps(state, re > im ? re : im);
    }
    if (a.re == b.re && a.im == b.im)
        return;
    double gap = has_inf(a) || has_inf(b) ? (double)INFINITY : tt_magnitude(a.re - b.re, a.im - b.im);
    add_gap(state, at, gap, tt_magnitude(b.re, b.im));
}

static void compare_numbers(const tile *t, tt_compare_state *state)
{
    tt_number a_tile[TT_TILE], b_tile[TT_TILE];
    const tt_number *x = tt_tile_complex(t->a_type, t->a, a_tile, t->n);
    const tt_number *y = tt_tile_complex(t->b_type, t->b, b_tile, t->n);
    for (size_t i = 0; i < t->n; i++)
        add_numbers(x[i], y[i], state->at + (int64_t)i, is_one_type(t) ? t->a_type : TT_F64, state);
    state->at += (int64_t)t->n;
}

/* ---- the whole ---------------------------------------------------------- */

static bool is_integer(tt_dtype dtype)
{
    tt_kind kind = tt_dtype_kind(dtype);
    return kind == TT_KIND_INT || kind == TT_KIND_UINT || kind == TT_KIND_BOOL;
}

static compare_fn *choose(tt_dtype a, tt_dtype b, const tt_compare_state *state)
{
    tt_lane a_lane = tt_lane_of(a), b_lane = tt_lane_of(b);
    if (a_lane == TT_LANE_COMPLEX || b_lane == TT_LANE_COMPLEX)
        return compare_numbers;
    if (a_lane == TT_LANE_F32 && b_lane == TT_LANE_F32)
        return compare_floats;
    bool is_long = a_lane == TT_LANE_INTEGER || b_lane == TT_LANE_INTEGER;
    if (is_integer(a) && is_integer(b) && (is_long || state->ulp_hist != NULL))
        return compare_integers;
    return compare_doubles;
}

static void compare_all(const tt_tensor *a, const tt_tensor *b, tt_compare_state *state)
{
    _Alignas(32) char a_buffer[TT_TILE_BYTES], b_buffer[TT_TILE_BYTES];
    compare_fn *compare = choose(a->dtype, b->dtype, state);
    bool may_skip = a->dtype == b->dtype && is_integer(a->dtype);
    tt_walk a_walk, b_walk;
    tt_walk_begin(&a_walk, a, TT_ORDER_LOGICAL);
    tt_walk_begin(&b_walk, b, TT_ORDER_LOGICAL);
    tile t = { .a_type = a->dtype, .b_type = b->dtype };
    while ((t.n = tt_walk_next(&a_walk, a_buffer, TT_TILE, &t.a)) > 0) {
        (void)tt_walk_next(&b_walk, b_buffer, TT_TILE, &t.b);
        if (!may_skip || memcmp(t.a, t.b, t.n * a_walk.item) != 0) {
            compare(&t, state);
            continue;
        }
        state->at += (int64_t)t.n;
        if (state->ulp_hist != NULL)
            state->ulp_hist[0] += (int64_t)t.n;
    }
}

static tt_status check(const tt_tensor *a, const tt_tensor *b, const tt_compare_options *options,
                       tt_error *err)
{
    if (a->ndim != b->ndim)
        return tt_fail(err, TT_EMISMATCH, "shapes differ: %" PRId32 " dimensions against %" PRId32,
                       a->ndim, b->ndim);
    for (int32_t d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d])
            return tt_fail(err, TT_EMISMATCH,
                           "shapes differ: size %" PRId64 " against %" PRId64 " in dimension %" PRId32,
                           a->shape[d], b->shape[d], d);
    if (!(options->rtol >= 0) || !(options->atol >= 0))
        return tt_fail(err, TT_EINVAL, "rtol %g and atol %g must not be negative", options->rtol,
                       options->atol);
    return TT_OK;
}

tt_status tt_compare_compute(const tt_tensor *a, const tt_tensor *b, const tt_compare_options *options,
                             tt_compare *out, tt_error *err)
{
    tt_status st = check(a, b, options, err);
    if (st < 0)
        return st;
    memset(out->ulp_hist, 0, sizeof out->ulp_hist);
    bool is_one = a->dtype == b->dtype;
    tt_compare_state state = {
        .rtol = options->rtol,
        .atol = options->atol,
        .equal_nan = options->equal_nan,
        .has_ulps = is_one && (a->dtype == TT_F32 || a->dtype == TT_F64 || a->dtype == TT_BF16),
        .ulp_shift = a->dtype == TT_BF16 ? 16 : 0,
        .argmax = -1,
        .first_nan = -1,
        .ulp_hist = is_one && options->wants_ulps ? out->ulp_hist : NULL,
        .is_close = true,
    };
    uint64_t mode = tt_float_mode_begin();
    compare_all(a, b, &state);
    out->count = a->count;
    out->differing = state.differing;
    bool has_nan = state.first_nan >= 0; /* no largest difference: as torch, NaN */
    out->max_abs = has_nan ? (double)NAN : state.max_abs;
    /* Differences there are, but each where b is 0. */
    out->max_rel = has_nan                                   ? (double)NAN
                   : state.max_abs > 0 && state.max_rel == 0 ? (double)INFINITY
                                                             : state.max_rel;
    out->argmax = has_nan ? state.first_nan : state.argmax;
    out->ulp_max = state.ulp_max;
    out->equal = state.differing == 0;
    out->allclose = state.is_close;
    tt_float_mode_end(mode);
    return TT_OK;
}
