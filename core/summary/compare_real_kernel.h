/* compare_real_kernel.h -- compares a block of f32 or f64; included once for each.
 *
 * Expects REAL, BITS and UBITS (the integers of the same size), REAL_MAX, INFINITE (the bits of
 * Inf), NAME(x), and the function ulp_place.
 *
 * A block that is equal bit by bit is only read.  Otherwise one pass finds all maxima and
 * counts; which element has the largest difference is looked up only if it beats those of the
 * blocks before.  Pairs whose difference is no number, or none of this type (NaN, Inf against
 * something else, an overflow), are left out and then taken alone.
 *
 * The loops are plain: no step depends on the one before but by a maximum, a sum or an "or", which
 * compilers make vectors of.  Maxima are those of bits, which order like positive numbers.
 * SPDX-License-Identifier: Apache-2.0 */

static inline BITS NAME(bits)(REAL x)
{
    BITS bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline REAL NAME(real)(BITS bits)
{
    REAL x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline BITS NAME(magnitude)(REAL x)
{
    return NAME(bits)(x) & (BITS)((UBITS)-1 >> 1);
}

/* The bits of |a - b|; 0 for equal infinities. */
static inline BITS NAME(gap)(REAL a, REAL b)
{
    return NAME(magnitude)(a - b) & -(BITS)(a != b);
}

/* All ones if the pair can be judged together with the others, else 0. */
static inline BITS NAME(kept)(REAL a, REAL b)
{
    return -(BITS)(NAME(gap)(a, b) < INFINITE);
}

/* Numbers in the order of the values, one apart where the values are neighbours; both zeros
 * are 0. */
static inline BITS NAME(rank)(REAL x)
{
    BITS sign = -(BITS)(NAME(bits)(x) < 0);
    return (NAME(magnitude)(x) ^ sign) - sign;
}

static inline UBITS NAME(distance)(REAL a, REAL b)
{
    BITS x = NAME(rank)(a), y = NAME(rank)(b);
    return x > y ? (UBITS)x - (UBITS)y : (UBITS)y - (UBITS)x;
}

/* Bit by bit equal, and no NaN, unless NaN are equal too. */
static bool NAME(is_same)(const REAL *a, const REAL *b, size_t n, bool equal_nan)
{
    BITS nan = 0;
    if (memcmp(a, b, n * sizeof *a) != 0)
        return false;
    for (size_t i = 0; !equal_nan && i < n; i++)
        nan |= (BITS)(a[i] != a[i]);
    return nan == 0;
}

static void NAME(add_pair)(REAL a, REAL b, int64_t at, tt_compare_state *state)
{
    if (a != a || b != b) {
        tt_compare_add_nan(state, at, a != a && b != b, state->has_ulps);
        return;
    }
    if (state->has_ulps)
        tt_compare_add_ulps(state, NAME(distance)(a, b) >> state->ulp_shift);
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
    BITS gap, rel; /* maxima, as bits */
    UBITS ulps;
    BITS differing, far; /* minus a count; not zero: not close */
    BITS kept;           /* minus a count */
} NAME(sums);

/* is_clean: no pair is left out, which is quicker; if there was one after all, gap is INFINITE or more. */
static inline NAME(sums)
    NAME(add_block)(const REAL *a, const REAL *b, size_t n, bool is_clean, const tt_compare_state *state)
{
    REAL rtol = (REAL)state->rtol, atol = (REAL)state->atol;
    BITS most_gap = 0, most_rel = 0, differing = 0, far = 0, count = 0;
    UBITS most_ulps = 0;
    for (size_t i = 0; i < n; i++) {
        BITS kept = is_clean ? -1 : NAME(kept)(a[i], b[i]), gap = NAME(gap)(a[i], b[i]) & kept;
        REAL size = NAME(real)(NAME(magnitude)(b[i]));
        BITS rel = NAME(bits)(NAME(real)(gap) / size) & -(BITS)(b[i] != 0) & kept;
        BITS differ = -(BITS)(a[i] != b[i]) & kept;
        UBITS ulps = NAME(distance)(a[i], b[i]) & (UBITS)kept;
        most_gap = gap > most_gap ? gap : most_gap;
        most_rel = rel > most_rel ? rel : most_rel;
        most_ulps = ulps > most_ulps ? ulps : most_ulps;
        differing += differ;
        far |= differ & ((BITS)(NAME(real)(gap) <= atol + rtol * size) - 1);
        count += kept;
    }
    return (NAME(sums)){ most_gap, most_rel, most_ulps, differing, far, count };
}

static size_t NAME(find)(const REAL *a, const REAL *b, size_t n, BITS gap)
{
    size_t i = 0;
    while (i < n && NAME(gap)(a[i], b[i]) != gap)
        i++;
    assert(i < n);
    return i;
}

/* Several tables, so that neighbours do not wait for each other's store. */
static void NAME(count_ulps)(const REAL *a, const REAL *b, size_t n, int shift, int64_t *hist)
{
    enum { TABLES = 4 };
    uint32_t counts[TABLES][NAME(PLACES)] = { 0 };
    UBITS place[TT_TILE + TABLES];
    for (size_t i = 0; i < n; i++)
        place[i] = (NAME(distance)(a[i], b[i]) & (UBITS)NAME(kept)(a[i], b[i])) >> shift;
    for (size_t i = 0; i < n; i++)
        place[i] = NAME(ulp_place)(place[i]);
    memset(place + n, 0, (TABLES - 1) * sizeof *place);
    for (size_t i = 0; i < n; i += TABLES)
        for (size_t t = 0; t < TABLES; t++)
            counts[t][place[i + t]]++;
    hist[0] -= (int64_t)((TABLES - n % TABLES) % TABLES); /* what filled up the last ones */
    for (size_t t = 0; t < TABLES; t++) {
        hist[0] += counts[t][0];
        for (size_t bin = 1; bin < NAME(PLACES) - NAME(FIRST_PLACE); bin++)
            hist[bin] += counts[t][NAME(FIRST_PLACE) + bin];
    }
}

/* What a pass over the pairs from index at on has found. */
static void NAME(take_sums)(const REAL *a, const REAL *b, size_t n, int64_t at, const NAME(sums) * sums,
                            tt_compare_state *state)
{
    double gap = (double)NAME(real)(sums->gap), rel = (double)NAME(real)(sums->rel);
    state->differing -= sums->differing;
    state->is_close = state->is_close && sums->far == 0;
    if (gap > state->max_abs) {
        state->max_abs = gap;
        state->argmax = at + (int64_t)NAME(find)(a, b, n, sums->gap);
    }
    state->max_rel = rel > state->max_rel ? rel : state->max_rel;
    if (state->has_ulps) {
        uint64_t ulps = sums->ulps >> state->ulp_shift;
        state->ulp_max = ulps > state->ulp_max ? ulps : state->ulp_max;
        if (state->ulp_hist != NULL)
            NAME(count_ulps)(a, b, n, state->ulp_shift, state->ulp_hist);
    }
}

/* Takes the pairs that the pass left out. */
static void NAME(add_others)(const REAL *a, const REAL *b, size_t n, int64_t at, tt_compare_state *state)
{
    uint8_t is_other[TT_TILE + sizeof(uint64_t)] = { 0 };
    uint64_t word;
    for (size_t i = 0; i < n; i++)
        is_other[i] = NAME(kept)(a[i], b[i]) == 0;
    for (size_t i = 0; i < n; i += sizeof word) {
        memcpy(&word, is_other + i, sizeof word);
        for (size_t j = i; word != 0; j++, word >>= 8)
            if (is_other[j])
                NAME(add_pair)(a[j], b[j], at + (int64_t)j, state);
    }
}

void TT_KERNEL(NAME(compare))(const REAL *a, const REAL *b, size_t n, tt_compare_state *state)
{
    assert(n <= TT_TILE);
    int64_t at = state->at;
    state->at += (int64_t)n;
    for (size_t i = 0; i < n; i += TT_AHEAD_PAGE / sizeof *a) { /* those of the next block */
        tt_ahead_page(a + i + n - 1);
        tt_ahead_page(b + i + n - 1);
    }
    if (NAME(is_same)(a, b, n, state->equal_nan)) {
        if (state->has_ulps && state->ulp_hist != NULL)
            state->ulp_hist[0] += (int64_t)n;
        return;
    }
    NAME(sums) sums = { .gap = INFINITE };
    if (!state->has_others) /* in the block before */
        sums = NAME(add_block)(a, b, n, true, state);
    if (sums.gap >= INFINITE)
        sums = NAME(add_block)(a, b, n, false, state);
    if (sums.rel >= INFINITE) { /* a quotient beyond the type's range */
        for (size_t i = 0; i < n; i++)
            NAME(add_pair)(a[i], b[i], at + (int64_t)i, state);
        return;
    }
    NAME(take_sums)(a, b, n, at, &sums, state);
    int64_t others = (int64_t)n + sums.kept;
    state->has_others = others > 0;
    if (others > 0)
        NAME(add_others)(a, b, n, at, state);
    if (state->has_ulps && state->ulp_hist != NULL)
        state->ulp_hist[0] -= others; /* counted there for want of a distance */
}

#undef REAL
#undef BITS
#undef UBITS
#undef REAL_MAX
#undef INFINITE
#undef NAME
