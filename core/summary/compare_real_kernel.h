/* compare_real_kernel.h -- compares a block of f32 or f64; included once for each.
 *
 * Expects REAL, BITS and UBITS (the integers of the same size), REAL_MAX,
 * INFINITE (the bits of Inf), NAME(x), VECTOR bytes, and the functions on whole
 * vectors larger, smaller, ularger, is_any and ulp_places.
 *
 * A block that is equal bit by bit is only read.  Otherwise one pass over whole
 * vectors finds all maxima and counts; which element has the largest difference
 * is looked up only if it beats those of the blocks before.  A pass that meets
 * NaN, Inf against something else, or an overflow is thrown away: such pairs are
 * taken alone, and the pass is made again over the others.
 * SPDX-License-Identifier: Apache-2.0 */

typedef REAL NAME(reals) __attribute__((vector_size(VECTOR)));
typedef BITS NAME(bits) __attribute__((vector_size(VECTOR)));
typedef UBITS NAME(ubits) __attribute__((vector_size(VECTOR)));
/* The same in memory, which may be aligned for one element only. */
typedef NAME(reals) NAME(unaligned) __attribute__((aligned(sizeof(REAL)), may_alias));

enum { NAME(LANES) = VECTOR / sizeof(REAL), NAME(SIGN_SHIFT) = 8 * sizeof(REAL) - 1 };

static inline NAME(reals) NAME(load)(const REAL *x)
{
    return *(const NAME(unaligned) *)(const void *)x;
}

static inline NAME(bits) NAME(spread)(BITS x)
{
    return x - (NAME(bits)){ 0 };
}

static inline NAME(reals) NAME(spread_real)(REAL x)
{
    return x - (NAME(reals)){ 0 };
}

static inline NAME(bits) NAME(magnitude)(NAME(reals) x)
{
    return (NAME(bits))x & NAME(spread)((BITS)((UBITS)-1 >> 1));
}

/* Numbers in the order of the values, one apart where the values are
 * neighbours; both zeros are 0. */
static inline NAME(bits) NAME(rank)(NAME(reals) x)
{
    NAME(bits) sign = (NAME(bits))((NAME(bits))x < NAME(spread)(0));
    return (NAME(magnitude)(x) ^ sign) - sign;
}

static inline NAME(ubits) NAME(distance)(NAME(reals) a, NAME(reals) b)
{
    NAME(bits) x = NAME(rank)(a), y = NAME(rank)(b);
    return (NAME(ubits))NAME(larger)(x, y) - (NAME(ubits))NAME(smaller)(x, y);
}

static BITS NAME(lane_max)(NAME(bits) x)
{
    BITS most = x[0];
    for (int i = 1; i < NAME(LANES); i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

static UBITS NAME(lane_umax)(NAME(ubits) x)
{
    UBITS most = x[0];
    for (int i = 1; i < NAME(LANES); i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* Bit by bit equal, and no NaN, unless NaN are equal too. */
static bool NAME(is_same)(const REAL *a, const REAL *b, size_t n, bool equal_nan)
{
    enum { STEP = 4 * NAME(LANES) };
    NAME(bits) most = { 0 };
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        NAME(bits) change = { 0 };
        for (size_t j = i; j < i + STEP; j += NAME(LANES)) {
            NAME(reals) x = NAME(load)(a + j);
            change |= (NAME(bits))x ^ (NAME(bits))NAME(load)(b + j);
            most = NAME(larger)(most, NAME(magnitude)(x));
        }
        PREFETCH(a + i);
        PREFETCH(b + i);
        PREFETCH((const char *)(a + i) + 64);
        PREFETCH((const char *)(b + i) + 64);
        if (NAME(is_any)(change))
            return false;
    }
    bool has_nan = NAME(lane_max)(most) > INFINITE;
    for (; i < n; i++)
        has_nan = has_nan || a[i] != a[i];
    size_t rest = n % STEP;
    return (equal_nan || !has_nan) && memcmp(a + n - rest, b + n - rest, rest * sizeof *a) == 0;
}

static void NAME(add_pair)(REAL a, REAL b, int64_t at, tt_compare_state *state)
{
    if (a != a || b != b) {
        tt_compare_add_nan(state, at, a != a && b != b, state->has_ulps);
        return;
    }
    if (state->has_ulps) {
        uint64_t ulps = NAME(distance)(NAME(spread_real)(a), NAME(spread_real)(b))[0] >> state->ulp_shift;
        state->ulp_max = ulps > state->ulp_max ? ulps : state->ulp_max;
        if (state->ulp_hist != NULL)
            state->ulp_hist[tt_ulp_bin(ulps)]++;
    }
    if (a == b)
        return;
    state->differing++;
    REAL gap = a > b ? a - b : b - a, size = b < 0 ? -b : b;
    if (!(gap <= REAL_MAX && gap <= (REAL)state->atol + (REAL)state->rtol * size))
        state->is_close = false;
    /* In f64 where the type's own range is too small. */
    double gap_abs = gap <= REAL_MAX ? (double)gap : fabs((double)a - (double)b);
    double gap_rel = gap <= REAL_MAX && gap / size <= REAL_MAX ? (double)(gap / size)
                     : gap_abs < (double)INFINITY              ? gap_abs / (double)size
                                                               : (double)INFINITY;
    if (gap_abs > state->max_abs) {
        state->max_abs = gap_abs;
        state->argmax = at;
    }
    if (b != 0 && gap_rel > state->max_rel)
        state->max_rel = gap_rel;
}

typedef struct NAME(sums) {
    NAME(bits) gap, rel; /* maxima, as the bits of positive numbers */
    NAME(ubits) ulps;
    NAME(bits) differing, far; /* minus a count; not zero: not close */
} NAME(sums);

static inline void NAME(add_lanes)(NAME(sums) * sums, NAME(reals) a, NAME(reals) b, NAME(reals) rtol,
                                   NAME(reals) atol)
{
    NAME(bits) differ = (NAME(bits))(a != b);
    /* Equal infinities have the difference 0, not NaN. */
    NAME(bits) gap = NAME(magnitude)(a - b) & differ;
    NAME(reals) size = (NAME(reals))NAME(magnitude)(b);
    NAME(bits) rel = (NAME(bits))((NAME(reals))gap / size) & (NAME(bits))(b != NAME(spread_real)(0));
    sums->gap = NAME(larger)(sums->gap, gap);
    sums->rel = NAME(larger)(sums->rel, rel);
    sums->differing += differ;
    sums->far |= differ & ~(NAME(bits))((NAME(reals))gap <= atol + rtol * size);
    sums->ulps = NAME(ularger)(sums->ulps, NAME(distance)(a, b));
}

static size_t NAME(find)(const REAL *a, const REAL *b, size_t n, REAL gap)
{
    size_t i = 0;
    for (; i + NAME(LANES) <= n; i += NAME(LANES)) {
        NAME(bits) found = NAME(magnitude)(NAME(load)(a + i) - NAME(load)(b + i));
        if (NAME(is_any)((NAME(bits))((NAME(reals))found == NAME(spread_real)(gap))))
            break;
    }
    while (i < n && !((a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]) == gap))
        i++;
    assert(i < n);
    return i;
}

/* A table for each lane, so that neighbours do not wait for each other's store. */
static void NAME(count_ulps)(const REAL *a, const REAL *b, size_t n, int shift, int64_t *hist)
{
    uint32_t counts[NAME(LANES)][NAME(PLACES)] = { 0 };
    size_t i = 0;
    for (; i + NAME(LANES) <= n; i += NAME(LANES)) {
        NAME(ubits) ulps = NAME(distance)(NAME(load)(a + i), NAME(load)(b + i)) >> (UBITS)shift;
        NAME(ubits) places = NAME(ulp_places)(ulps);
        UBITS each[NAME(LANES)];
        memcpy(each, &places, sizeof each);
        for (size_t j = 0; j < NAME(LANES); j++)
            counts[j][each[j]]++;
    }
    for (; i < n; i++) {
        UBITS ulps = NAME(distance)(NAME(spread_real)(a[i]), NAME(spread_real)(b[i]))[0];
        hist[tt_ulp_bin(ulps >> shift)]++;
    }
    for (size_t j = 0; j < NAME(LANES); j++) {
        hist[0] += counts[j][0];
        for (size_t bin = 1; bin < NAME(PLACES) - NAME(FIRST_PLACE); bin++)
            hist[bin] += counts[j][NAME(FIRST_PLACE) + bin];
    }
}

/* One pass over whole vectors. */
static NAME(sums) NAME(add_block)(const REAL *a, const REAL *b, size_t n, const tt_compare_state *state)
{
    NAME(reals) rtol = NAME(spread_real)((REAL)state->rtol), atol = NAME(spread_real)((REAL)state->atol);
    NAME(sums) sums = { 0 };
    size_t i = 0;
    for (; i + 2 * NAME(LANES) <= n; i += 2 * NAME(LANES)) {
        size_t j = i + NAME(LANES);
        PREFETCH(a + i);
        PREFETCH(b + i);
        NAME(add_lanes)(&sums, NAME(load)(a + i), NAME(load)(b + i), rtol, atol);
        NAME(add_lanes)(&sums, NAME(load)(a + j), NAME(load)(b + j), rtol, atol);
    }
    for (; i < n; i += NAME(LANES)) { /* the rest, filled up with equal zeros */
        size_t some = n - i < NAME(LANES) ? n - i : NAME(LANES);
        REAL x[NAME(LANES)] = { 0 }, y[NAME(LANES)] = { 0 };
        memcpy(x, a + i, some * sizeof *a);
        memcpy(y, b + i, some * sizeof *b);
        NAME(add_lanes)(&sums, NAME(load)(x), NAME(load)(y), rtol, atol);
    }
    return sums;
}

static bool NAME(is_spoilt)(const NAME(sums) * sums)
{
    return NAME(lane_max)(sums->gap) >= INFINITE || NAME(lane_max)(sums->rel) >= INFINITE;
}

/* What a pass over the pairs from index at on has found; it is not spoilt. */
static void NAME(take_sums)(const REAL *a, const REAL *b, size_t n, int64_t at, const NAME(sums) * sums,
                            tt_compare_state *state)
{
    for (size_t i = 0; i < NAME(LANES); i++)
        state->differing -= sums->differing[i];
    state->is_close = state->is_close && !NAME(is_any)(sums->far);
    BITS gap_bits = NAME(lane_max)(sums->gap), rel_bits = NAME(lane_max)(sums->rel);
    REAL gap, rel;
    memcpy(&gap, &gap_bits, sizeof gap);
    memcpy(&rel, &rel_bits, sizeof rel);
    if ((double)gap > state->max_abs) {
        state->max_abs = (double)gap;
        state->argmax = at + (int64_t)NAME(find)(a, b, n, gap);
    }
    state->max_rel = (double)rel > state->max_rel ? (double)rel : state->max_rel;
    if (state->has_ulps) {
        uint64_t ulps = NAME(lane_umax)(sums->ulps) >> state->ulp_shift;
        state->ulp_max = ulps > state->ulp_max ? ulps : state->ulp_max;
        if (state->ulp_hist != NULL)
            NAME(count_ulps)(a, b, n, state->ulp_shift, state->ulp_hist);
    }
}

/* Takes the pairs whose difference is no number, or none of this type, and copies the
 * others; equal zeros stand in for those taken.  x and y have room for another vector.
 * Returns how many it took. */
static int64_t NAME(set_apart)(const REAL *a, const REAL *b, size_t n, int64_t at, REAL *x, REAL *y,
                               tt_compare_state *state)
{
    int64_t count = 0;
    size_t whole = n - n % NAME(LANES);
    memcpy(x + whole, a + whole, (n - whole) * sizeof *a);
    memcpy(y + whole, b + whole, (n - whole) * sizeof *b);
    for (size_t i = 0; i < n; i += NAME(LANES)) {
        PREFETCH(a + i);
        PREFETCH(b + i);
        NAME(reals) v = NAME(load)(i < whole ? a + i : x + i), w = NAME(load)(i < whole ? b + i : y + i);
        NAME(bits) gap = NAME(magnitude)(v - w) & (NAME(bits))(v != w);
        NAME(bits) apart = (NAME(bits))(gap >= NAME(spread)(INFINITE));
        memcpy(x + i, &v, sizeof v);
        memcpy(y + i, &w, sizeof w);
        if (!NAME(is_any)(apart))
            continue;
        for (size_t j = i; j < n && j < i + NAME(LANES); j++) {
            if (apart[j - i] == 0)
                continue;
            NAME(add_pair)(a[j], b[j], at + (int64_t)j, state);
            x[j] = y[j] = 0;
            count++;
        }
    }
    return count;
}

/* A block of which some pairs cannot be judged together with the others.  Those cannot tie
 * for the largest difference: theirs is none, or beyond the type's. */
static void NAME(compare_spoilt)(const REAL *a, const REAL *b, size_t n, int64_t at,
                                 tt_compare_state *state)
{
    REAL x[TT_TILE + NAME(LANES)], y[TT_TILE + NAME(LANES)];
    memset(x + n, 0, NAME(LANES) * sizeof *x);
    memset(y + n, 0, NAME(LANES) * sizeof *y);
    int64_t apart = NAME(set_apart)(a, b, n, at, x, y, state);
    NAME(sums) sums = NAME(add_block)(x, y, n, state);
    if (!NAME(is_spoilt)(&sums)) {
        NAME(take_sums)(x, y, n, at, &sums, state);
    } else { /* a quotient beyond the type's range */
        for (size_t i = 0; i < n; i++)
            NAME(add_pair)(x[i], y[i], at + (int64_t)i, state);
    }
    if (state->has_ulps && state->ulp_hist != NULL)
        state->ulp_hist[0] -= apart; /* the zeros */
    state->is_spoilt = apart > 0;
}

void TT_KERNEL(NAME(compare))(const REAL *a, const REAL *b, size_t n, tt_compare_state *state)
{
    assert(n <= TT_TILE);
    int64_t at = state->at;
    state->at += (int64_t)n;
    if ((!state->is_spoilt || state->equal_nan) && NAME(is_same)(a, b, n, state->equal_nan)) {
        if (state->has_ulps && state->ulp_hist != NULL)
            state->ulp_hist[0] += (int64_t)n;
        return;
    }
    if (!state->is_spoilt) {
        NAME(sums) sums = NAME(add_block)(a, b, n, state);
        if (!NAME(is_spoilt)(&sums)) {
            NAME(take_sums)(a, b, n, at, &sums, state);
            return;
        }
    }
    NAME(compare_spoilt)(a, b, n, at, state);
}

#undef REAL
#undef BITS
#undef UBITS
#undef REAL_MAX
#undef INFINITE
#undef NAME
