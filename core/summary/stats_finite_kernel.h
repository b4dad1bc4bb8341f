/* stats_finite_kernel.h -- the loop that takes every element as finite.
 *
 * Included by stats_kernel.c once for each type of element in memory, after
 * stats_block_kernel.h, with that header's names and
 *   SOURCE       the element type in memory
 *   LOAD(p)      a vector from LANES elements at p
 *   FINITE(f)    this inclusion's name of a function
 *
 * If an element is not finite, the sum of magnitudes is not, and the caller
 * takes the masked loop instead.
 * SPDX-License-Identifier: Apache-2.0 */

/* The mean of the first elements, a power of two of them, added in pairs: exact
 * for a constant block. */
static T FINITE(choose_pivot)(const SOURCE *x)
{
    vec v = V(add)(V(add)(LOAD(x), LOAD(x + LANES)), V(add)(LOAD(x + 2 * LANES), LOAD(x + 3 * LANES)));
    T lane[LANES];
    V(store)(lane, v);
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0] * (T)(1.0 / NAME(FIRST));
}

static void FINITE(add)(NAME(sums) * s, const SOURCE *x, size_t n)
{
    vec pivot = V(set)(s->pivot), nothing = V(set)(0);
    vec sum = nothing, square = nothing, magnitude = nothing;
    vec low = V(set)((T)INFINITY), high = V(set)((T)-INFINITY);
    counters zeros = C(zero)();
    size_t whole = n - n % LANES;
    for (size_t at = 0; at < whole;) {
        size_t stop = whole - at < NAME(INNER) ? whole : at + NAME(INNER);
        vec sum_in = nothing, square_in = nothing, magnitude_in = nothing;
        for (; at < stop; at += LANES) {
            __builtin_prefetch((const char *)(x + at) + PREFETCH_BYTES);
            vec v = LOAD(x + at);
            vec d = V(sub)(v, pivot);
            sum_in = V(add)(sum_in, d);
            square_in = V(add)(square_in, V(mul)(d, d));
            magnitude_in = V(add)(magnitude_in, V(abs)(v));
            low = V(min)(v, low);
            high = V(max)(v, high);
            zeros = C(count)(zeros, V(eq)(v, nothing));
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
    for (size_t i = 0; i < LANES; i++) {
        s->finite[i] = (counter)(whole / LANES);
        s->posinf[i] = s->neginf[i] = 0;
    }
    if (whole < n) {
        SOURCE last[LANES] = { 0 };
        memcpy(last, x + whole, (n - whole) * sizeof *last);
        T lane[LANES];
        V(store)(lane, LOAD(last));
        NAME(add_tail)(s, lane, n - whole, false);
    }
}

#undef SOURCE
#undef LOAD
#undef FINITE
