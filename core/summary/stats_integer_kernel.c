/* stats_integer_kernel.c -- the statistics of one block of 64-bit integers.
 *
 * Exists because integers must come out exact and AVX2 can neither convert nor
 * order them.  Every element is taken as its distance from a pivot.  Where all
 * distances are below 2^51, adding the bits of 2^52 + 2^51 to one makes a f64 of
 * the same value but for that constant: it is ordered, subtracted and squared as
 * a f64 and added up as an integer, exactly.  Token ids, counters and time stamps
 * all are of that kind.  What is spread wider is converted and compared in full.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"
#include "summary/lanes_kernel.h"
#include "tensor/walk.h"

#include <assert.h>
#include <math.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

enum { LANES = 4, FIRST = 16, PREFETCH_BYTES = 2048 };

/* The bits of the f64 2^52 + 2^51, which stands for a distance of 0. */
#define MIDDLE_BITS 0x4338000000000000
#define MIDDLE 0x1.8p52
#define REACH ((int128)1 << 51)

/* A number of either type as itself. */
static int128 widen(int64_t bits, bool is_unsigned)
{
    return is_unsigned ? (int128)(uint64_t)bits : (int128)bits;
}

/* The mean of the first elements, rounded down: it lies between the smallest and
 * the largest, and is exact for a constant block. */
static int64_t choose_pivot(const int64_t *x, size_t n, bool is_unsigned)
{
    if (n < FIRST)
        return x[0];
    int128 sum = 0;
    for (size_t i = 0; i < FIRST; i++)
        sum += widen(x[i], is_unsigned);
    return (int64_t)(uint64_t)(sum >> 4);
}

static uint64_t add_lanes(i64v lanes)
{
    int64_t lane[LANES];
    uint64_t sum = 0;
    i64v_store(lane, lanes);
    for (size_t i = 0; i < LANES; i++)
        sum += (uint64_t)lane[i];
    return sum;
}

static double add_f64_lanes(f64v lanes)
{
    double lane[LANES];
    f64v_store(lane, lanes);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* What both ways have to say of a block: the rest follows from the sums. */
static void finish(int64_t zeros, size_t n, int128 pivot, int128 sum, double square, bool is_unsigned,
                   tt_block *out, tt_exact *exact)
{
    double count = (double)n;
    double away = (double)(sum - pivot * (int128)n); /* sum of the distances */
    double m2 = square - away * (away / count);
    double low = (double)widen(exact->low, is_unsigned), high = (double)widen(exact->high, is_unsigned);
    exact->sum_lo = (uint64_t)(uint128)sum;
    exact->sum_hi = (int64_t)(sum >> 64);
    *out = (tt_block){ .count = (int64_t)n, .zeros = zeros, .min = low, .max = high };
    out->sum = (double)sum;
    out->mean = out->sum / count;
    out->m2 = m2 > 0 ? m2 : 0;
    out->sumsq = out->m2 + count * out->mean * out->mean;
}

/* ---- all within 2^51 of the pivot ----------------------------------------- */

typedef struct near_sums {
    f64v square[2], low, high;
    i64v total, above, zeros; /* above: of what is larger than 0, and 0 for the others */
} near_sums;

typedef struct near_place {
    i64v shift; /* from an integer to its bits as a f64 */
    f64v middle, zero;
} near_place;

static inline void near_add(near_sums *s, const near_place *at, i64v x, int turn)
{
    i64v bits = i64v_add(x, at->shift);
    f64v v = f64v_of_bits(bits);
    f64v d = f64v_sub(v, at->middle);
    s->total = i64v_add(s->total, bits);
    s->square[turn] = f64v_add(s->square[turn], f64v_mul(d, d));
    s->low = f64v_min(v, s->low);
    s->high = f64v_max(v, s->high);
    s->above = i64v_add(s->above, i64v_of_bits(f64v_max(v, at->zero)));
    s->zeros = i64v_count_equal(s->zeros, bits, i64v_of_bits(at->zero));
}

/* The smallest or largest distance. */
static double near_end(f64v lanes, bool is_low)
{
    double lane[LANES];
    f64v_store(lane, lanes);
    double end = lane[0];
    for (size_t i = 1; i < LANES; i++)
        end = (is_low ? lane[i] < end : lane[i] > end) ? lane[i] : end;
    return end - MIDDLE;
}

/* False: an element is further away; nothing was written. */
static bool add_near(const int64_t *x, size_t n, int64_t pivot_bits, bool is_unsigned, tt_block *out,
                     tt_exact *exact)
{
    int128 pivot = widen(pivot_bits, is_unsigned);
    /* Zero as a distance, if it can be among the elements. */
    bool has_zero = pivot > -REACH && pivot < REACH;
    int64_t zero_distance = has_zero ? (int64_t)-pivot : 0;
    double zero = has_zero ? MIDDLE + (double)zero_distance : 0.0;
    near_place at = { i64v_set((int64_t)(MIDDLE_BITS - (uint64_t)pivot_bits)), f64v_set(MIDDLE),
                      f64v_set(zero) };
    near_sums s = { { f64v_set(0), f64v_set(0) },
                    f64v_set((double)INFINITY),
                    f64v_set((double)-INFINITY),
                    i64v_zero(),
                    i64v_zero(),
                    i64v_zero() };
    size_t whole = n - n % LANES, pairs = n - n % (2 * LANES), i = 0;
    for (; i < pairs; i += 2 * LANES) {
        __builtin_prefetch((const char *)(x + i) + PREFETCH_BYTES);
        near_add(&s, &at, i64v_load(x + i), 0);
        near_add(&s, &at, i64v_load(x + i + LANES), 1);
    }
    if (i < whole)
        near_add(&s, &at, i64v_load(x + i), 0);
    size_t fill = 0; /* pivots that fill the last vector */
    if (whole < n) {
        int64_t last[LANES];
        fill = LANES - (n - whole);
        for (size_t k = 0; k < LANES; k++)
            last[k] = whole + k < n ? x[whole + k] : pivot_bits;
        near_add(&s, &at, i64v_load(last), 1);
    }
    double low = near_end(s.low, true), high = near_end(s.high, false);
    double square = add_f64_lanes(f64v_add(s.square[0], s.square[1])); /* NaN if an element made one */
    if (!(square >= 0 && low > -0x1p51 && high < 0x1p51))
        return false;
    int128 least = pivot + (int64_t)low, most = pivot + (int64_t)high;
    if (least < (is_unsigned ? 0 : INT64_MIN) || most > (is_unsigned ? (int128)UINT64_MAX : INT64_MAX))
        return false; /* near only because distances begin anew after 2^64 */
    uint64_t terms = (uint64_t)n + fill;
    int64_t away = (int64_t)(add_lanes(s.total) - terms * MIDDLE_BITS);
    int128 sum = pivot * (int128)n + away;
    int64_t zeros = (int64_t)add_lanes(s.zeros) - (pivot == 0 ? (int64_t)fill : 0);
    exact->low = (int64_t)(uint64_t)least;
    exact->high = (int64_t)(uint64_t)most;
    finish(zeros, n, pivot, sum, square, is_unsigned, out, exact);
    if (has_zero && !is_unsigned) {
        uint64_t above = add_lanes(s.above) - terms * (MIDDLE_BITS + (uint64_t)zero_distance);
        int128 positive = (int128)above - (pivot > 0 ? pivot * (int128)fill : 0);
        out->l1 = (double)(2 * positive - sum);
    } else {
        out->l1 = (double)(sum < 0 ? -sum : sum); /* all on one side */
    }
    return true;
}

/* ---- any integers ----------------------------------------------------------- */

typedef struct far_sums {
    f64v square, above;
    i64v total, upper, low, high, zeros;
} far_sums;

/* Unsigned numbers are moved down by 2^63 and are then as signed ones. */
typedef struct far_place {
    i64v down;
    f64v origin, zero_distance;
} far_place;

/* The upper half on 2^84 and the lower half on 2^52, added up: rounded once, as a
 * conversion of the distance would be. */
static inline void far_add(far_sums *s, const far_place *at, i64v x)
{
    i64v y = i64v_xor(x, at->down);
    i64v upper = i64v_xor(i64v_shift_32(y), i64v_set(0x4530000080000000));
    i64v lower = i64v_lower(y, i64v_set(0x4330000000000000));
    f64v d = f64v_add(f64v_sub(f64v_of_bits(upper), at->origin), f64v_of_bits(lower));
    s->total = i64v_add(s->total, y);
    s->upper = i64v_add(s->upper, upper);
    s->square = f64v_add(s->square, f64v_mul(d, d));
    s->above = f64v_add(s->above, f64v_max(d, at->zero_distance));
    s->low = i64v_min(y, s->low);
    s->high = i64v_max(y, s->high);
    s->zeros = i64v_count_equal(s->zeros, y, at->down);
}

static int64_t far_end(i64v lanes, bool is_low)
{
    int64_t lane[LANES];
    i64v_store(lane, lanes);
    int64_t end = lane[0];
    for (size_t i = 1; i < LANES; i++)
        end = (is_low ? lane[i] < end : lane[i] > end) ? lane[i] : end;
    return end;
}

static void add_far(const int64_t *x, size_t n, int64_t pivot_bits, bool is_unsigned, tt_block *out,
                    tt_exact *exact)
{
    const int64_t down = is_unsigned ? INT64_MIN : 0;
    const int128 up = is_unsigned ? (int128)1 << 63 : 0;
    /* A multiple of 2^32, so that the first subtraction is exact. */
    int128 pivot = (int128)((pivot_bits ^ down) >> 32) * ((int64_t)1 << 32);
    double zero = (double)-(pivot + up);
    far_place at = { i64v_set(down), f64v_set(0x1p84 + 0x1p63 + 0x1p52 + (double)pivot), f64v_set(zero) };
    far_sums s = { f64v_set(0),         f64v_set(0),         i64v_zero(), i64v_zero(),
                   i64v_set(INT64_MAX), i64v_set(INT64_MIN), i64v_zero() };
    size_t whole = n - n % LANES, pairs = n - n % (2 * LANES), i = 0;
    for (; i < pairs; i += 2 * LANES) {
        __builtin_prefetch((const char *)(x + i) + PREFETCH_BYTES);
        far_add(&s, &at, i64v_load(x + i));
        far_add(&s, &at, i64v_load(x + i + LANES));
    }
    if (i < whole)
        far_add(&s, &at, i64v_load(x + i));
    double square = add_f64_lanes(s.square);
    double above = add_f64_lanes(s.above);
    int64_t low = far_end(s.low, true), high = far_end(s.high, false);
    int64_t zeros = (int64_t)add_lanes(s.zeros);
    /* The upper halves, and the lower halves from the total: both far below 2^64. */
    uint64_t upper = add_lanes(s.upper) - (uint64_t)whole * 0x4530000000000000;
    int128 sum = ((int128)upper << 32) - ((int128)whole << 63);
    sum += (int128)(add_lanes(s.total) - (uint64_t)(uint128)sum);
    for (i = whole; i < n; i++) {
        int64_t y = x[i] ^ down;
        double d = (double)(y - pivot);
        sum += y;
        square += d * d;
        above += d > zero ? d : zero;
        low = y < low ? y : low;
        high = y > high ? y : high;
        zeros += y == down;
    }
    sum += up * (int128)n;
    exact->low = low ^ down;
    exact->high = high ^ down;
    finish(zeros, n, pivot + up, sum, square, is_unsigned, out, exact);
    out->l1 = 2 * (above - (double)n * zero) - out->sum;
}

bool TT_KERNEL(stats_i64)(bool is_unsigned, const int64_t *x, size_t n, bool is_doubtful, tt_block *out,
                          tt_exact *exact)
{
    assert(n > 0 && n <= TT_TILE);
    int64_t pivot_bits = choose_pivot(x, n, is_unsigned);
    if (!is_doubtful && add_near(x, n, pivot_bits, is_unsigned, out, exact))
        return true;
    add_far(x, n, pivot_bits, is_unsigned, out, exact);
    int128 pivot = widen(pivot_bits, is_unsigned);
    bool is_near =
        widen(exact->low, is_unsigned) > pivot - REACH && widen(exact->high, is_unsigned) < pivot + REACH;
    return is_near && is_doubtful && add_near(x, n, pivot_bits, is_unsigned, out, exact);
}
