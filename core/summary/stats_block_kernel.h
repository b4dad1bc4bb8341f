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
 * a mean far larger than the spread costs no digits.  Two vectors are added to
 * each other and then to the sum, which halves the time that an addition waits
 * for the one before.  Sixteen such pairs are added in T before their sum is
 * added to the outer one: the rounding of a block's sum is then below 1 + 16 + 8
 * half units in the worst case.  Where the pivot proves bad, or T over- or
 * underflows, `finish` says so and the caller does the block again in a wider
 * way.  All of this depends on the values alone, not on the instruction set.
 * SPDX-License-Identifier: Apache-2.0 */

enum {
    NAME(FIRST) = 4 * LANES, /* for the pivot */
    NAME(STEP) = 2 * LANES,
    NAME(INNER) = 16 * NAME(STEP) /* added in T */
};

typedef struct NAME(sums) {
    T sum[LANES], square[LANES], magnitude[LANES]; /* of d, d*d and |x|, d = x - pivot */
    T low[LANES], high[LANES];
    counter zeros[LANES];
    counter finite[LANES], posinf[LANES], neginf[LANES];
    T pivot;
} NAME(sums);

/* The mean of the first elements, whose lanes are added up in `lanes`; a power of two of them,
 * added in pairs: exact for a constant block. */
static T NAME(mean)(vec lanes)
{
    T lane[LANES];
    V(store)(lane, lanes);
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0] * (T)(1.0 / NAME(FIRST));
}

static T NAME(choose_pivot)(const T *x)
{
    vec a = V(add)(V(load)(x), V(load)(x + LANES));
    vec b = V(add)(V(load)(x + 2 * LANES), V(load)(x + 3 * LANES));
    return NAME(mean)(V(add)(a, b));
}

/* The same where elements may be missing: another finite one stands in. */
static T NAME(choose_finite_pivot)(const T *x, size_t n)
{
    T first[NAME(FIRST)], other = 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i] - x[i] == 0) {
            other = x[i];
            break;
        }
    }
    if (n < NAME(FIRST))
        return other;
    for (size_t i = 0; i < NAME(FIRST); i++)
        first[i] = x[i] - x[i] == 0 ? x[i] : other;
    return NAME(choose_pivot)(first);
}

/* Adds the last elements, fewer than a step, each to its lane. */
static void NAME(add_tail)(NAME(sums) * s, const T *x, size_t n, bool is_masked)
{
    for (size_t i = 0; i < n; i++) {
        size_t lane = i % LANES;
        T magnitude = x[i] < 0 ? -x[i] : x[i];
        bool is_finite = magnitude < (T)INFINITY;
        if (is_masked && !is_finite) {
            s->posinf[lane] += x[i] > 0;
            s->neginf[lane] += x[i] < 0;
            continue;
        }
        T d = x[i] - s->pivot;
        s->sum[lane] += d;
        s->square[lane] += d * d;
        s->magnitude[lane] += magnitude;
        s->low[lane] = x[i] < s->low[lane] ? x[i] : s->low[lane];
        s->high[lane] = x[i] > s->high[lane] ? x[i] : s->high[lane];
        s->zeros[lane] += x[i] == 0;
        s->finite[lane] += is_finite;
    }
}

/* What comparing finds out. */
typedef struct NAME(marks) {
    vec low, high;
    counters zeros, finite, posinf, neginf;
} NAME(marks);

static inline void NAME(mark)(NAME(marks) * m, vec v, vec is_finite)
{
    vec infinity = V(set)((T)INFINITY), minus_infinity = V(set)((T)-INFINITY);
    vec kept = V(and)(is_finite, v);
    m->low = V(min)(V(or)(kept, V(andnot)(is_finite, infinity)), m->low);
    m->high = V(max)(V(or)(kept, V(andnot)(is_finite, minus_infinity)), m->high);
    m->zeros = C(count)(m->zeros, V(eq)(v, V(set)(0)));
    m->finite = C(count)(m->finite, is_finite);
    m->posinf = C(count)(m->posinf, V(eq)(v, infinity));
    m->neginf = C(count)(m->neginf, V(eq)(v, minus_infinity));
}

typedef struct NAME(totals) {
    vec sum, square, magnitude; /* as in sums */
} NAME(totals);

/* Adds two vectors of distances from the pivot, and their sum of magnitudes. */
static inline void NAME(add_pair)(NAME(totals) * t, vec v, vec w, vec magnitude)
{
    t->magnitude = V(add)(t->magnitude, magnitude);
    t->sum = V(add)(t->sum, V(add)(v, w));
    t->square = V(add)(t->square, V(add)(V(mul)(v, v), V(mul)(w, w)));
}

static inline void NAME(add_totals)(NAME(totals) * t, const NAME(totals) * inner)
{
    t->sum = V(add)(t->sum, inner->sum);
    t->square = V(add)(t->square, inner->square);
    t->magnitude = V(add)(t->magnitude, inner->magnitude);
}

static inline void NAME(store_totals)(NAME(sums) * s, const NAME(totals) * t)
{
    V(store)(s->sum, t->sum);
    V(store)(s->square, t->square);
    V(store)(s->magnitude, t->magnitude);
}

static inline __attribute__((always_inline)) void NAME(add)(NAME(sums) * s, const T *x, size_t n,
                                                            bool is_masked)
{
    vec pivot = V(set)(s->pivot), nothing = V(set)(0), infinity = V(set)((T)INFINITY);
    NAME(totals) outer = { nothing, nothing, nothing };
    NAME(marks) m = { infinity, V(set)((T)-INFINITY), C(set)(0), C(set)(0), C(set)(0), C(set)(0) };
    size_t whole = n - n % NAME(STEP);
    const T *at = x, *end = x + whole;
    while (at < end) {
        const T *stop = end - at < NAME(INNER) ? end : at + NAME(INNER);
        NAME(totals) inner = { nothing, nothing, nothing };
        tt_ahead_page(at);
#pragma GCC unroll 2
        for (; at < stop; at += NAME(STEP)) {
            tt_ahead_line(at);
            vec v = V(load)(at), w = V(load)(at + LANES);
            vec v_size = V(abs)(v), w_size = V(abs)(w);
            if (is_masked) {
                vec v_finite = V(lt)(v_size, infinity), w_finite = V(lt)(w_size, infinity);
                NAME(mark)(&m, v, v_finite);
                NAME(mark)(&m, w, w_finite);
                NAME(add_pair)
                (&inner, V(and)(v_finite, V(sub)(v, pivot)), V(and)(w_finite, V(sub)(w, pivot)),
                 V(add)(V(and)(v_finite, v_size), V(and)(w_finite, w_size)));
            } else {
                m.low = V(min)(V(min)(v, w), m.low);
                m.high = V(max)(V(max)(v, w), m.high);
                m.zeros = C(count)(C(count)(m.zeros, V(eq)(v, nothing)), V(eq)(w, nothing));
                NAME(add_pair)(&inner, V(sub)(v, pivot), V(sub)(w, pivot), V(add)(v_size, w_size));
            }
        }
        NAME(add_totals)(&outer, &inner);
    }
    NAME(store_totals)(s, &outer);
    V(store)(s->low, m.low);
    V(store)(s->high, m.high);
    C(store)(s->zeros, m.zeros);
    C(store)(s->finite, is_masked ? m.finite : C(set)((counter)(whole / LANES)));
    C(store)(s->posinf, m.posinf);
    C(store)(s->neginf, m.neginf);
    NAME(add_tail)(s, x + whole, n - whole, is_masked);
}

/* Takes every element as finite.  If one is not, the sum of magnitudes is not, and the caller
 * takes the masked loop instead. */
static void NAME(add_finite)(NAME(sums) * s, const T *x, size_t n)
{
    NAME(add)(s, x, n, false);
}

/* Leaves out and counts what is not finite; finite elements give the bits of the finite loop. */
static void NAME(add_masked)(NAME(sums) * s, const T *x, size_t n)
{
    NAME(add)(s, x, n, true);
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
