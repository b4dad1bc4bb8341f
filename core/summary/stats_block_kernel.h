/* stats_block_kernel.h -- one block of statistics, for f32 or f64 lanes.
 *
 * Included twice by stats_kernel.c, which defines
 *   T      float or double        LANES   how many T a vector holds
 *   V(f)   f32v_##f or f64v_##f   C(f)    the counters' operations
 *   vec, counters, counter        the types of a vector, its counters, one counter
 *   NAME(f)                       this inclusion's name of a function
 *   WORST_RATIO, LEAST_SQUARE     where that begins, see finish
 *
 * Sums are taken around a pivot, the mean of the block's first elements, so that
 * a mean far larger than the spread costs no digits.  Sixteen terms are added in
 * T before the partial sum is added to the outer one: the rounding of a sum is
 * then below 16 + 16 half units in the worst case.  Where the pivot proves bad,
 * or T over- or underflows, `finish` says so and the caller does the block again
 * in a wider way.  All of this depends on the values alone, not on the
 * instruction set.
 * SPDX-License-Identifier: Apache-2.0 */

enum { NAME(FIRST) = 4 * LANES, NAME(INNER) = 16 * LANES }; /* for the pivot; added in T */

typedef struct NAME(sums) {
    T sum[LANES], square[LANES], magnitude[LANES]; /* of d, d*d and |x|, d = x - pivot */
    T low[LANES], high[LANES];
    counter zeros[LANES];
    counter finite[LANES], posinf[LANES], neginf[LANES]; /* masked loop only */
    T pivot;
} NAME(sums);

/* Adds the last elements, fewer than a vector, each to its lane. */
static void NAME(add_tail)(NAME(sums) * s, const T *x, size_t n, bool is_masked)
{
    for (size_t i = 0; i < n; i++) {
        T magnitude = x[i] < 0 ? -x[i] : x[i];
        bool is_finite = magnitude < (T)INFINITY;
        if (is_masked && !is_finite) {
            s->posinf[i] += x[i] > 0;
            s->neginf[i] += x[i] < 0;
            continue;
        }
        T d = x[i] - s->pivot;
        s->sum[i] += d;
        s->square[i] += d * d;
        s->magnitude[i] += magnitude;
        s->low[i] = x[i] < s->low[i] ? x[i] : s->low[i];
        s->high[i] = x[i] > s->high[i] ? x[i] : s->high[i];
        s->zeros[i] += x[i] == 0;
        s->finite[i] += is_finite;
    }
}

/* Leaves out and counts what is not finite; for finite elements it gives the
 * bits of the finite loop. */
static void NAME(add_masked)(NAME(sums) * s, const T *x, size_t n)
{
    vec pivot = V(set)(s->pivot), nothing = V(set)(0);
    vec infinity = V(set)((T)INFINITY), minus_infinity = V(set)((T)-INFINITY);
    vec sum = nothing, square = nothing, magnitude = nothing;
    vec low = infinity, high = minus_infinity;
    counters zeros = C(zero)(), finite = zeros, posinf = zeros, neginf = zeros;
    size_t whole = n - n % LANES;
    for (size_t at = 0; at < whole;) {
        size_t stop = whole - at < NAME(INNER) ? whole : at + NAME(INNER);
        vec sum_in = nothing, square_in = nothing, magnitude_in = nothing;
        for (; at < stop; at += LANES) {
            __builtin_prefetch((const char *)(x + at) + PREFETCH_BYTES);
            vec v = V(load)(x + at);
            vec size = V(abs)(v);
            vec is_finite = V(lt)(size, infinity);
            vec d = V(and)(is_finite, V(sub)(v, pivot));
            sum_in = V(add)(sum_in, d);
            square_in = V(add)(square_in, V(mul)(d, d));
            magnitude_in = V(add)(magnitude_in, V(and)(is_finite, size));
            vec kept = V(and)(is_finite, v);
            low = V(min)(V(or)(kept, V(andnot)(is_finite, infinity)), low);
            high = V(max)(V(or)(kept, V(andnot)(is_finite, minus_infinity)), high);
            zeros = C(count)(zeros, V(eq)(v, nothing));
            finite = C(count)(finite, is_finite);
            posinf = C(count)(posinf, V(eq)(v, infinity));
            neginf = C(count)(neginf, V(eq)(v, minus_infinity));
        }
        sum = V(add)(sum, sum_in);
        square = V(add)(square, square_in);
        magnitude = V(add)(magnitude, magnitude_in);
    }
    V(store)(s->sum, sum);
    V(store)(s->square, square);
    V(store)(s->magnitude, magnitude);
    V(store)(s->low, low);
    V(store)(s->high, high);
    C(store)(s->zeros, zeros);
    C(store)(s->finite, finite);
    C(store)(s->posinf, posinf);
    C(store)(s->neginf, neginf);
    NAME(add_tail)(s, x + whole, n - whole, true);
}

/* Lanes are added in pairs, in f64, always in the same order. */
static double NAME(add_lanes)(const T *lane)
{
    double pair[LANES];
    for (size_t i = 0; i < LANES; i++)
        pair[i] = (double)lane[i];
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            pair[i] += pair[i + width];
    return pair[0];
}

static int64_t NAME(count_lanes)(const counter *lane)
{
    int64_t n = 0;
    for (size_t i = 0; i < LANES; i++)
        n += lane[i];
    return n;
}

/* Fills *out from the sums; false: T was too narrow for the sums in it. */
static bool NAME(finish)(const NAME(sums) * s, size_t n, tt_block *out)
{
    double sum = NAME(add_lanes)(s->sum), square = NAME(add_lanes)(s->square);
    double magnitude = NAME(add_lanes)(s->magnitude), pivot = (double)s->pivot;
    int64_t finite = NAME(count_lanes)(s->finite);
    double count = (double)finite;
    T low = s->low[0], high = s->high[0];
    for (size_t i = 1; i < LANES; i++) {
        low = s->low[i] < low ? s->low[i] : low;
        high = s->high[i] > high ? s->high[i] : high;
    }
    double shift = finite > 0 ? sum / count : 0; /* from the pivot to the mean */
    double m2 = square - sum * shift;
    out->count = finite;
    out->posinf = NAME(count_lanes)(s->posinf);
    out->neginf = NAME(count_lanes)(s->neginf);
    out->nan = (int64_t)n - finite - out->posinf - out->neginf;
    out->zeros = NAME(count_lanes)(s->zeros);
    out->min = (double)low + 0.0; /* one zero only: -0 + 0 is 0 */
    out->max = (double)high + 0.0;
    out->mean = pivot + shift;
    out->m2 = m2 > 0 ? m2 : 0;
    out->sum = pivot * count + sum;
    out->l1 = magnitude;
    out->sumsq = out->m2 + count * out->mean * out->mean;
    return magnitude + square < (double)INFINITY && square <= WORST_RATIO * m2 &&
           fabs(pivot) * count <= WORST_RATIO * magnitude &&
           (square >= count * LEAST_SQUARE || low == high || finite == 0);
}
