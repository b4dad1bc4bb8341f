/* stats_integer_kernel.c -- the statistics of one block of 64-bit integers.
 *
 * Exists because integers must come out exact and AVX2 can neither convert nor
 * order them.  Both ways here make the digits of a f64 of them, which then is
 * ordered, subtracted and squared as a f64 and added up as an integer, exactly:
 *   near  the distance from a pivot, where all are below 2^51.  Token ids,
 *         counters and time stamps all are of that kind.
 *   far   the upper 52 bits.  The lower 12 are nothing to numbers that are spread
 *         over 2^51 and more, but for the sum, which is taken of all bits, and for
 *         the smallest and the largest: they are looked for among those whose upper
 *         bits could be it, which few blocks after the first ones have.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/ahead_kernel.h"
#include "summary/kernels.h"
#include "summary/lanes_kernel.h"
#include "tensor/walk.h"

#include <assert.h>
#include <math.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

enum { LANES = 4, STEP = 2 * LANES, FIRST = 16, PAGE_PART = 128, FAR_SHIFT = 12 };

/* The bits of the f64 2^52, whose digits are all zero. */
#define DIGITS_BITS 0x4330000000000000
/* The bits of the f64 2^52 + 2^51, from which digits reach as far down as up. */
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

/* ---- one loop for both ways ------------------------------------------------ */

typedef struct encoding {
    i64v change;      /* what makes a f64 of an integer: added if near, xored to its upper bits if far */
    f64v pivot, zero; /* as such a f64; zero: at or below all others if it cannot be among them */
} encoding;

typedef struct sums {
    f64v square[2], low, high;
    i64v digits, above, zeros; /* above: as digits, but zero's for what is less */
    i64v raw;                  /* of the integers themselves; far only */
} sums;

static inline __attribute__((always_inline)) void add_vector(sums *s, const encoding *at, i64v x,
                                                             int turn, bool is_far)
{
    i64v digits = is_far ? i64v_xor(i64v_upper(x, FAR_SHIFT), at->change) : i64v_add(x, at->change);
    f64v v = f64v_of_bits(digits);
    f64v d = f64v_sub(v, at->pivot);
    s->digits = i64v_add(s->digits, digits);
    if (is_far)
        s->raw = i64v_add(s->raw, x);
    s->square[turn] = f64v_add(s->square[turn], f64v_mul(d, d));
    s->low = f64v_min(v, s->low);
    s->high = f64v_max(v, s->high);
    s->above = i64v_add(s->above, i64v_of_bits(f64v_max(v, at->zero)));
    /* SSE2 has no comparison of 64-bit integers; AVX2's is quicker than that of f64. */
    bool by_integer = is_far || TT_REGISTER == 32;
    s->zeros = i64v_count(s->zeros, by_integer ? i64v_is_zero(x, x) : f64v_eq(v, at->zero));
}

/* Returns how many pivots have been added to fill the last vector. */
static inline __attribute__((always_inline)) size_t add_all(sums *s, const encoding *at, const int64_t *x,
                                                            size_t n, int64_t pivot, bool is_far)
{
    *s = (sums){ .square = { f64v_set(0), f64v_set(0) },
                 .low = f64v_set((double)INFINITY),
                 .high = f64v_set((double)-INFINITY),
                 .digits = i64v_set(0),
                 .above = i64v_set(0),
                 .zeros = i64v_set(0),
                 .raw = i64v_set(0) };
    size_t i = 0, whole = n - n % STEP, fill = 0;
    while (i < whole) {
        size_t stop = whole - i < PAGE_PART ? whole : i + PAGE_PART;
        tt_ahead_page(x + i);
        for (; i < stop; i += STEP) {
            tt_ahead_line(x + i);
            add_vector(s, at, i64v_load(x + i), 0, is_far);
            add_vector(s, at, i64v_load(x + i + LANES), 1, is_far);
        }
    }
    for (; i < n; i += LANES) {
        int64_t last[LANES];
        for (size_t k = 0; k < LANES; k++) {
            last[k] = i + k < n ? x[i + k] : pivot;
            fill += i + k >= n;
        }
        add_vector(s, at, i64v_load(last), 0, is_far);
    }
    return fill;
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

static double add_squares(const sums *s)
{
    double lane[LANES];
    f64v_store(lane, f64v_add(s->square[0], s->square[1]));
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static double least(f64v lanes)
{
    double lane[LANES];
    f64v_store(lane, lanes);
    double a = lane[0] < lane[1] ? lane[0] : lane[1], b = lane[2] < lane[3] ? lane[2] : lane[3];
    return a < b ? a : b;
}

static double most(f64v lanes)
{
    double lane[LANES];
    f64v_store(lane, lanes);
    double a = lane[0] > lane[1] ? lane[0] : lane[1], b = lane[2] > lane[3] ? lane[2] : lane[3];
    return a > b ? a : b;
}

/* What both ways have to say of a block.  away: the sum of the distances from the pivot
 * of which square is the sum of squares; unit: what 1 in them stands for. */
static void finish(size_t n, int64_t zeros, int128 sum, double away, double square, double unit,
                   tt_block *out, tt_exact *exact)
{
    double count = (double)n, m2 = (square - away * (away / count)) * (unit * unit);
    exact->sum_lo = (uint64_t)(uint128)sum;
    exact->sum_hi = (int64_t)(sum >> 64);
    *out = (tt_block){ .count = (int64_t)n, .zeros = zeros };
    out->sum = (double)sum;
    out->mean = out->sum / count;
    out->m2 = m2 > 0 ? m2 : 0;
    out->sumsq = out->m2 + count * out->mean * out->mean;
}

/* ---- all within 2^51 of the pivot ----------------------------------------- */

/* False: an element is further away; nothing was written. */
static bool add_near(const int64_t *x, size_t n, int64_t pivot_bits, bool is_unsigned, tt_block *out,
                     tt_exact *exact)
{
    int128 pivot = widen(pivot_bits, is_unsigned);
    bool has_zero = pivot > -REACH && pivot < REACH; /* else it cannot be among the elements */
    int64_t zero_distance = has_zero ? (int64_t)-pivot : 0;
    encoding at = { i64v_set((int64_t)(MIDDLE_BITS - (uint64_t)pivot_bits)), f64v_set(MIDDLE),
                    f64v_set(has_zero ? MIDDLE + (double)zero_distance : 0.0) };
    sums s;
    size_t fill = add_all(&s, &at, x, n, pivot_bits, false);
    double low = least(s.low) - MIDDLE, high = most(s.high) - MIDDLE;
    double square = add_squares(&s); /* NaN if an element made one */
    if (!(square >= 0 && low > -0x1p51 && high < 0x1p51))
        return false;
    int128 smallest = pivot + (int64_t)low, largest = pivot + (int64_t)high;
    if (smallest < (is_unsigned ? 0 : INT64_MIN) ||
        largest > (is_unsigned ? (int128)UINT64_MAX : INT64_MAX))
        return false; /* near only because distances begin anew after 2^64 */
    uint64_t terms = (uint64_t)n + fill;
    int64_t away = (int64_t)(add_lanes(s.digits) - terms * MIDDLE_BITS);
    int128 sum = pivot * (int128)n + away;
    int64_t zeros = (int64_t)add_lanes(s.zeros) - (pivot == 0 ? (int64_t)fill : 0);
    finish(n, zeros, sum, (double)away, square, 1, out, exact);
    if (smallest < widen(exact->low, is_unsigned))
        exact->low = (int64_t)(uint64_t)smallest;
    if (largest > widen(exact->high, is_unsigned))
        exact->high = (int64_t)(uint64_t)largest;
    if (has_zero && !is_unsigned) {
        uint64_t above = add_lanes(s.above) - terms * (MIDDLE_BITS + (uint64_t)zero_distance);
        int128 positive = (int128)above - (pivot > 0 ? pivot * (int128)fill : 0);
        out->l1 = (double)(2 * positive - sum);
    } else {
        out->l1 = fabs(out->sum); /* all on one side */
    }
    return true;
}

/* ---- any integers ----------------------------------------------------------- */

/* Of y = x ^ flip, which orders either type as signed numbers, the smallest or *end. */
static void lower_end(const int64_t *x, size_t n, int64_t flip, int64_t *end)
{
    int64_t low = *end ^ flip;
    for (size_t i = 0; i < n; i++)
        low = (x[i] ^ flip) < low ? x[i] ^ flip : low;
    *end = low ^ flip;
}

static void raise_end(const int64_t *x, size_t n, int64_t flip, int64_t *end)
{
    int64_t high = *end ^ flip;
    for (size_t i = 0; i < n; i++)
        high = (x[i] ^ flip) > high ? x[i] ^ flip : high;
    *end = high ^ flip;
}

/* True: all may be within 2^51 of the pivot. */
static bool add_far(const int64_t *x, size_t n, int64_t pivot_bits, bool is_unsigned, tt_block *out,
                    tt_exact *exact)
{
    /* Digits count from the smallest number of the type. */
    const uint64_t change = is_unsigned ? DIGITS_BITS : MIDDLE_BITS;
    const int64_t flip = is_unsigned ? INT64_MIN : 0;
    const int128 start = is_unsigned ? 0 : (int128)INT64_MIN;
#define DIGITS_OF(x) ((int64_t)((((uint64_t)(x) >> FAR_SHIFT) ^ change) - DIGITS_BITS))
    int64_t pivot = DIGITS_OF(pivot_bits), zero = DIGITS_OF(0);
    encoding at = { i64v_set((int64_t)change), f64v_set(0x1p52 + (double)pivot),
                    f64v_set(0x1p52 + (double)zero) };
    sums s;
    size_t fill = add_all(&s, &at, x, n, pivot_bits, true);
    int64_t low = (int64_t)(least(s.low) - 0x1p52), high = (int64_t)(most(s.high) - 0x1p52);
    if (low <= DIGITS_OF(exact->low))
        lower_end(x, n, flip, &exact->low);
    if (high >= DIGITS_OF(exact->high))
        raise_end(x, n, flip, &exact->high);
#undef DIGITS_OF
    uint64_t terms = (uint64_t)n + fill;
    int64_t digits = (int64_t)(add_lanes(s.digits) - terms * DIGITS_BITS) - (int64_t)fill * pivot;
    uint64_t raw = add_lanes(s.raw) - fill * (uint64_t)pivot_bits;
    int128 sum = ((int128)digits << FAR_SHIFT) + (int128)n * start;
    sum += (int128)(raw - (uint64_t)(uint128)sum); /* the lower bits: far below 2^64 */
    int64_t zeros = (int64_t)add_lanes(s.zeros) - (pivot_bits == 0 ? (int64_t)fill : 0);
    const double unit = 1 << FAR_SHIFT;
    finish(n, zeros, sum, (double)(digits - (int64_t)n * pivot), add_squares(&s), unit, out, exact);
    int64_t above = (int64_t)(add_lanes(s.above) - terms * (DIGITS_BITS + (uint64_t)zero));
    above -= (int64_t)fill * (pivot > zero ? pivot - zero : 0);
    out->l1 = is_unsigned ? out->sum : 2 * unit * (double)above - out->sum;
    const int64_t reach = ((int64_t)1 << (51 - FAR_SHIFT)) + 1;
    return low > pivot - reach && high < pivot + reach;
}

bool TT_KERNEL(stats_i64)(bool is_unsigned, const int64_t *x, size_t n, bool is_doubtful, tt_block *out,
                          tt_exact *exact)
{
    assert(n > 0 && n <= TT_TILE);
    int64_t pivot = choose_pivot(x, n, is_unsigned);
    if (!is_doubtful && add_near(x, n, pivot, is_unsigned, out, exact))
        return true;
    bool may_be_near = add_far(x, n, pivot, is_unsigned, out, exact);
    return is_doubtful && may_be_near && add_near(x, n, pivot, is_unsigned, out, exact);
}
