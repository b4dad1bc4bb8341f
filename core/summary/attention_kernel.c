/* attention_kernel.c -- scores of queries against keys, folded into softmax sums.
 *
 * Exists so that no length x length matrix is ever held: a few rows of scores
 * are computed, folded into their sums while they are in L1, and forgotten.
 *
 * Same bits everywhere: a score is one chain of additions over head_dim, and a
 * row is summed in 8 lanes (key i goes to lane i mod 8), then in f64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/attention.h"
#include "summary/exponential.h"
#include "summary/lanes_kernel.h"

#include <math.h>
#include <string.h>

enum {
    ROWS = TT_ATTENTION_ROWS,
    PANEL = TT_ATTENTION_PANEL,
    KEYS = TT_ATTENTION_KEYS,
    LANES = 8,
    WIDTH = TT_REGISTER / sizeof(float),
};

#define EXP_LOWEST (-87.0f) /* below: 0.  Keeps 2^n and the result normal numbers */

/* e^x for x <= 0; NaN for NaN.  e^x = 2^n e^r with |r| <= ln 2 / 2; e^r is
 * 1 + r + r^2 P(r), P of degree 4 made by Remez' method for the least relative
 * error (3.1e-9).  n comes out of the low bits of a sum with 1.5 * 2^23, with
 * the bias of the exponent already in it.  ln 2 is in two parts, the first of
 * 9 bits, so that n times it is exact.  Error below 1 ulp (0.98, every third
 * float tried). */
static inline f32v exp_negative(f32v x)
{
    const float bias = 0x1.8p23f + 127.0f;
    f32v t = f32v_add(f32v_mul(x, f32v_set(0x1.715476p+0f)), f32v_set(bias));
    f32v n = f32v_sub(t, f32v_set(bias));
    f32v r =
        f32v_sub(f32v_sub(x, f32v_mul(n, f32v_set(0x1.63p-1f))), f32v_mul(n, f32v_set(-0x1.bd0106p-13f)));
    f32v p = f32v_add(f32v_mul(r, f32v_set(0x1.6a2430p-10f)), f32v_set(0x1.1239e2p-7f));
    p = f32v_add(f32v_mul(p, r), f32v_set(0x1.5558f2p-5f));
    p = f32v_add(f32v_mul(p, r), f32v_set(0x1.555492p-3f));
    p = f32v_add(f32v_mul(p, r), f32v_set(0x1.fffffcp-2f));
    p = f32v_add(f32v_mul(p, f32v_mul(r, r)), r);
    p = f32v_add(p, f32v_set(1.0f));
    return f32v_mul(p, f32v_exponent(t, t));
}

/* rows[n][dim] to out[dim][width], so that a vector holds neighbours of the
 * same depth; zeros where there is no row. */
#define PACK(type)                                               \
    do {                                                         \
        const type *in = rows;                                   \
        type *to = out;                                          \
        for (size_t d = 0; d < dim; d++)                         \
            for (size_t i = 0; i < width; i++)                   \
                to[d * width + i] = i < n ? in[i * dim + d] : 0; \
    } while (0)

void TT_KERNEL(attention_pack_f32)(const void *rows, size_t n, size_t dim, size_t width, void *out)
{
    PACK(float);
}

void TT_KERNEL(attention_pack_f64)(const void *rows, size_t n, size_t dim, size_t width, void *out)
{
    PACK(double);
}

/* Two vectors of keys by six queries: 12 sums, 2 vectors of keys, one query and
 * one product are the 16 registers of x86. */
void TT_KERNEL(attention_score_f32)(const void *q, const void *k, size_t dim, size_t panels, double scale,
                                    void *scores)
{
    for (size_t key = 0; key < panels * PANEL; key += 2 * WIDTH) {
        const float *query = q;
        const float *keys = (const float *)k + key / PANEL * PANEL * dim + key % PANEL;
        f32r sum[ROWS][2] = { 0 }, left, right;
        for (size_t d = 0; d < dim; d++, query += ROWS, keys += PANEL) {
            memcpy(&left, keys, sizeof left);
            memcpy(&right, keys + WIDTH, sizeof right);
            for (size_t r = 0; r < ROWS; r++) {
                sum[r][0] += query[r] * left;
                sum[r][1] += query[r] * right;
            }
        }
        float *to = (float *)scores + key;
        for (size_t r = 0; r < ROWS; r++, to += KEYS) {
            left = sum[r][0] * (float)scale;
            right = sum[r][1] * (float)scale;
            memcpy(to, &left, sizeof left);
            memcpy(to + WIDTH, &right, sizeof right);
        }
    }
}

void TT_KERNEL(attention_score_f64)(const void *q, const void *k, size_t dim, size_t panels, double scale,
                                    void *scores)
{
    for (size_t panel = 0; panel < panels; panel++)
        for (size_t r = 0; r < ROWS; r++) {
            const double *query = (const double *)q + r, *keys = (const double *)k + panel * PANEL * dim;
            double sum[PANEL] = { 0 };
            for (size_t d = 0; d < dim; d++, query += ROWS, keys += PANEL)
                for (size_t i = 0; i < PANEL; i++)
                    sum[i] += *query * keys[i];
            double *to = (double *)scores + r * KEYS + panel * PANEL;
            for (size_t i = 0; i < PANEL; i++)
                to[i] = sum[i] * scale;
        }
}

/* A score hidden by a bool mask is -Inf whatever it was, as masked_fill has it;
 * any other mask is added.  Through f64, which rounds an f32 sum rightly. */
#define APPLY_MASK(type)                                      \
    do {                                                      \
        if (kind == TT_ATTENTION_HIDE)                        \
            for (size_t i = 0; i < n; i++)                    \
                s[i] = mask[i] != 0 ? s[i] : -(type)INFINITY; \
        else if (kind == TT_ATTENTION_ADD)                    \
            for (size_t i = 0; i < n; i++)                    \
                s[i] = (type)((double)s[i] + mask[i]);        \
    } while (0)

static void begin_row(struct tt_attention_row *row, double first)
{
    if (row->is_begun)
        return;
    row->is_begun = true;
    row->first = first;
}

/* Makes the sums relative to max, if it is larger than the one they have.  By
 * -Inf (no key seen yet, or +Inf now) they become 0; z stays NaN. */
static void raise_max(struct tt_attention_row *row, double max)
{
    if (!(max > row->max))
        return;
    double by = row->max - max, factor = tt_exp_negative(by);
    row->w = factor > 0.0 ? factor * (row->w + by * row->z) : 0.0;
    row->z *= factor;
    row->max = max;
}

static double add_lanes(f32v lanes)
{
    float lane[LANES];
    f32v_store(lane, lanes);
    double low = ((double)lane[0] + (double)lane[1]) + ((double)lane[2] + (double)lane[3]);
    double high = ((double)lane[4] + (double)lane[5]) + ((double)lane[6] + (double)lane[7]);
    return low + high;
}

static float max_of_row(const float *s, size_t n)
{
    f32v max = f32v_set(-INFINITY);
    for (size_t i = 0; i < n; i += LANES)
        max = f32v_max(f32v_load(s + i), max); /* passes over NaN */
    float lane[LANES], most = -INFINITY;
    f32v_store(lane, max);
    for (size_t i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

void TT_KERNEL(attention_fold_f32)(void *scores, size_t n, tt_attention_mask kind, const double *mask,
                                   struct tt_attention_row *row)
{
    float *s = scores;
    APPLY_MASK(float);
    begin_row(row, (double)s[0]);
    while (n % LANES != 0)
        s[n++] = -INFINITY;
    raise_max(row, (double)max_of_row(s, n));

    /* All hidden so far: any finite number will do, and -Inf - -Inf is none. */
    f32v max = f32v_set(row->max > -(double)INFINITY ? (float)row->max : 0.0f);
    f32v z = f32v_set(0), w = z, lowest = f32v_set(EXP_LOWEST);
    for (size_t i = 0; i < n; i += LANES) {
        f32v x = f32v_sub(f32v_load(s + i), max), is_nothing = f32v_lt(x, lowest);
        x = f32v_max(lowest, x); /* keeps NaN; makes 0 * -Inf impossible */
        f32v e = f32v_andnot(is_nothing, exp_negative(x));
        z = f32v_add(z, e);
        w = f32v_add(w, f32v_mul(e, x));
    }
    double some = add_lanes(z);
    row->z += some;
    row->w += add_lanes(w);
    if (some != some) /* rare: +Inf - +Inf, or a NaN among the scores */
        for (size_t i = 0; i < n; i++)
            row->has_nan |= s[i] != s[i];
}

void TT_KERNEL(attention_fold_f64)(void *scores, size_t n, tt_attention_mask kind, const double *mask,
                                   struct tt_attention_row *row)
{
    double *s = scores;
    APPLY_MASK(double);
    begin_row(row, s[0]);
    double max = -(double)INFINITY;
    for (size_t i = 0; i < n; i++) {
        max = s[i] > max ? s[i] : max;
        row->has_nan |= s[i] != s[i];
    }
    raise_max(row, max);
    max = row->max > -(double)INFINITY ? row->max : 0.0;
    double z = 0.0, w = 0.0;
    for (size_t i = 0; i < n; i++) {
        double x = s[i] - max, e = tt_exp_negative(x);
        z += e;
        w += e > 0.0 ? e * x : e; /* 0 * -Inf is 0 here; NaN stays */
    }
    row->z += z;
    row->w += w;
}
