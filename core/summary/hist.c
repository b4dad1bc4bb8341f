/* hist.c -- counts in fixed logarithmic bins.
 *
 * Exists so that histograms of any two tensors, steps or ranks can be added up.
 * A bin is the highest 14 bits of the value as f64: sign, eleven bits of
 * exponent, two of mantissa.  Of 16384 bins a tensor fills a few dozen, so they
 * are kept in pages of 64 that get memory when first needed:
 *
 *     bin  s eeeeeeeeeee mm          pages            bins
 *          └─page─┘└─slot─┘  ──►  [ 0 0 2 1 0 … ] ──► page 1, page 2, (unused …)
 *
 * The memory for all pages is there from the start, because adding a tensor
 * must not fail, but nobody touches it before it is used.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/hist.h"

#include "base/float_mode.h"
#include "base/wire.h"
#include "summary/convert.h"
#include "summary/magnitude.h"
#include "tensortap_tools.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINS = TT_HIST_CODES,
    HALF = BINS / 2,     /* from here on the bins are of negative values */
    MANTISSA_SHIFT = 50, /* 64 - 14 */
    PAGE = 64,
    PAGES = BINS / PAGE,
    SMALL = 1024,          /* elements from which the tables pay */
    FLUSH_TILES = 1 << 20, /* the tables' 32 bits cannot overflow before */
};

struct tt_hist {
    int64_t nan, posinf, neginf, zeros;
    int64_t binned;       /* elements that are none of these */
    uint16_t page[PAGES]; /* 1 + where the page lies; 0: nothing counted yet */
    uint16_t used;        /* pages that have memory */
    int64_t bins[BINS];   /* the first used * PAGE of them are set */
};

tt_status tt_hist_create(tt_hist **out)
{
    tt_hist *hist = malloc(sizeof *hist);
    if (hist == NULL)
        return TT_ENOMEM;
    memset(hist, 0, offsetof(tt_hist, bins));
    *out = hist;
    return TT_OK;
}

void tt_hist_free(tt_hist *hist)
{
    free(hist);
}

static inline int64_t *bin_at(tt_hist *hist, uint32_t bin)
{
    uint32_t page = bin / PAGE;
    if (__builtin_expect(hist->page[page] == 0, 0)) {
        memset(hist->bins + hist->used * PAGE, 0, PAGE * sizeof *hist->bins);
        hist->page[page] = ++hist->used;
    }
    return &hist->bins[(hist->page[page] - 1u) * PAGE + bin % PAGE];
}

static int64_t count_at(const tt_hist *hist, uint32_t bin)
{
    uint16_t page = hist->page[bin / PAGE];
    return page == 0 ? 0 : hist->bins[(page - 1u) * PAGE + bin % PAGE];
}

static inline void add_value(tt_hist *hist, double x, int64_t count)
{
    uint64_t bits = tt_bits_of(x), infinity = (uint64_t)0x7ff << 52;
    uint64_t magnitude = bits << 1 >> 1;
    if (__builtin_expect(magnitude == 0, 0))
        hist->zeros += count;
    else if (__builtin_expect(magnitude < infinity, 1))
        *bin_at(hist, (uint32_t)(bits >> MANTISSA_SHIFT)) += count;
    else if (magnitude > infinity)
        hist->nan += count;
    else if (x > 0)
        hist->posinf += count;
    else
        hist->neginf += count;
}

/* ---- many floats ------------------------------------------------------------
 * Sign, exponent and two mantissa bits of an f32 are its highest eleven bits, so the bin costs one shift.
 * Neighbours often fall into the same bin; counting them in different tables saves waiting for the store
 * before. */

enum { TABLE = 2048, SHIFT = 21, SIGN = TABLE / 2, BIAS = (1023 - 127) * 4 };

typedef struct tables {
    uint32_t first[TABLE], second[TABLE];
} tables;

static void flush_tables(tt_hist *hist, tables *counts)
{
    enum { STEP = 16 }; /* most of the bins are empty */
    for (uint32_t start = 0; start < TABLE; start += STEP) {
        uint32_t any = 0;
        for (uint32_t i = start; i < start + STEP; i++)
            any |= counts->first[i] | counts->second[i];
        for (uint32_t i = start; any != 0 && i < start + STEP; i++) {
            int64_t count = (int64_t)counts->first[i] + counts->second[i];
            if (count > 0)
                *bin_at(hist, (i < SIGN ? i : i - SIGN + HALF) + BIAS) += count;
        }
    }
    *counts = (tables){ 0 };
}

/* Takes out what the bins of the exponents 0 and 255 have counted: these bits do not tell a zero from a
 * denormal or a NaN from Inf. */
static uint32_t take_edges(uint32_t *table)
{
    static const size_t edges[] = { 0, SIGN - 4, SIGN, 2 * SIGN - 4 };
    uint32_t sum = 0;
    for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
        for (size_t i = edges[e]; i < edges[e] + 4; i++) {
            sum += table[i];
            table[i] = 0;
        }
    return sum;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void add_tile(tt_hist *hist, const float *x, size_t n, tables *counts)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint64_t low, high; /* two elements each */
        memcpy(&low, x + i, sizeof low);
        memcpy(&high, x + i + 2, sizeof high);
        __builtin_prefetch((const char *)(x + i) + 2048);
        counts->first[(uint32_t)low >> SHIFT]++;
        counts->second[low >> (SHIFT + 32)]++;
        counts->first[(uint32_t)high >> SHIFT]++;
        counts->second[high >> (SHIFT + 32)]++;
    }
    for (; i < n; i++)
        counts->first[bits_of(x[i]) >> SHIFT]++;
    uint32_t edges = take_edges(counts->first) + take_edges(counts->second), zeros = 0;
    if (edges == 0)
        return;
    for (i = 0; i < n; i++) /* often half of the elements */
        zeros += x[i] == 0;
    hist->zeros += zeros;
    for (i = 0; i < n && edges > zeros; i++) { /* n: another thread may write to the tensor meanwhile */
        uint32_t exponent = bits_of(x[i]) >> 23 & 0xff;
        if ((exponent == 0 || exponent == 0xff) && x[i] != 0) {
            add_value(hist, (double)x[i], 1);
            edges--;
        }
    }
}

static void add_many_floats(tt_hist *hist, const tt_tensor *t)
{
    _Alignas(32) char buffer[TT_TILE_BYTES];
    float converted[TT_TILE];
    tables counts = { 0 };
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_MEMORY);
    const void *run;
    int64_t tiles = 0;
    for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0; tiles++) {
        add_tile(hist, tt_tile_f32(t->dtype, run, converted, n), n, &counts);
        if (tiles % FLUSH_TILES == FLUSH_TILES - 1)
            flush_tables(hist, &counts);
    }
    flush_tables(hist, &counts);
}

static void add_few(tt_hist *hist, const tt_tensor *t)
{
    _Alignas(32) char buffer[TT_TILE_BYTES];
    double values[TT_TILE];
    tt_number numbers[TT_TILE];
    bool is_complex = tt_lane_of(t->dtype) == TT_LANE_COMPLEX;
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_MEMORY);
    const void *run;
    for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0;) {
        const double *x = is_complex ? values : tt_tile_f64(t->dtype, run, values, n);
        const tt_number *z = is_complex ? tt_tile_complex(t->dtype, run, numbers, n) : NULL;
        for (size_t i = 0; is_complex && i < n; i++)
            values[i] = tt_magnitude(z[i].re, z[i].im);
        for (size_t i = 0; i < n; i++)
            add_value(hist, x[i], 1);
    }
}

static int64_t beside_bins(const tt_hist *hist)
{
    return hist->nan + hist->posinf + hist->neginf + hist->zeros;
}

void tt_hist_add_value(tt_hist *hist, double x, int64_t count)
{
    int64_t before = beside_bins(hist);
    add_value(hist, x, count);
    hist->binned += count - (beside_bins(hist) - before);
}

void tt_hist_add(tt_hist *hist, const tt_tensor *t)
{
    uint64_t mode = tt_float_mode_begin();
    int64_t before = beside_bins(hist);
    if (tt_lane_of(t->dtype) == TT_LANE_F32 && t->count >= SMALL)
        add_many_floats(hist, t);
    else
        add_few(hist, t);
    hist->binned += t->count - (beside_bins(hist) - before);
    tt_float_mode_end(mode);
}

void tt_hist_merge(tt_hist *into, const tt_hist *from)
{
    for (uint32_t page = 0; page < PAGES; page++)
        for (uint32_t bin = page * PAGE; from->page[page] > 0 && bin < (page + 1) * PAGE; bin++)
            if (count_at(from, bin) > 0)
                *bin_at(into, bin) += count_at(from, bin);
    into->nan += from->nan;
    into->posinf += from->posinf;
    into->neginf += from->neginf;
    into->zeros += from->zeros;
    into->binned += from->binned;
}

int64_t tt_hist_count(const tt_hist *hist)
{
    return hist->binned + beside_bins(hist);
}

#define COUNT(name)                             \
    int64_t tt_hist_##name(const tt_hist *hist) \
    {                                           \
        return hist->name;                      \
    }
COUNT(nan)
COUNT(posinf)
COUNT(neginf)
COUNT(zeros)
#undef COUNT

/* ---- the bins in the order of their values ------------------------------ */

enum { POSITIONS = BINS + 1 };

bool tt_hist_find(const tt_hist *hist, tt_hist_cursor *c)
{
    for (; c->position < POSITIONS; c->position++) {
        uint32_t bin = c->position < HALF ? BINS - 1 - c->position : c->position - HALF - 1;
        if (c->position == HALF) { /* between those of negative and of positive values */
            c->code = 0;
            c->count = hist->zeros;
        } else if (hist->page[bin / PAGE] == 0) {
            c->position += (c->position < HALF ? bin % PAGE : PAGE - 1 - bin % PAGE);
            continue;
        } else {
            c->code = bin + 1;
            c->count = count_at(hist, bin);
        }
        if (c->count > 0)
            return true;
    }
    return false;
}

/* The edges of the highest bins come out as Inf, which is right. */
tt_hist_bin tt_hist_bin_of(uint32_t code, int64_t count)
{
    if (code == 0)
        return (tt_hist_bin){ .count = count };
    uint64_t bin = code - 1;
    double near_zero = tt_f64_of((bin % HALF) << MANTISSA_SHIFT);
    double far = tt_f64_of((bin % HALF + 1) << MANTISSA_SHIFT);
    if (bin >= HALF)
        return (tt_hist_bin){ .low = -far, .high = 0 - near_zero, .count = count }; /* no minus zero */
    return (tt_hist_bin){ .low = near_zero, .high = far, .count = count };
}

size_t tt_hist_bins(const tt_hist *hist, tt_hist_bin *out, size_t cap)
{
    size_t n = 0;
    for (tt_hist_cursor c = { 0 }; tt_hist_find(hist, &c); c.position++, n++)
        if (n < cap)
            out[n] = tt_hist_bin_of(c.code, c.count);
    return n;
}

/* Where the value number `rank` (from 0) of the finite ones lies, if those of
 * its bin lie evenly. */
static double value_of_rank(const tt_hist *hist, int64_t rank)
{
    tt_hist_cursor c = { 0 };
    for (; tt_hist_find(hist, &c) && rank >= c.count; c.position++)
        rank -= c.count;
    tt_hist_bin bin = tt_hist_bin_of(c.code, c.count);
    double share = ((double)rank + 0.5) / (double)c.count;
    if (share > 1 - 0x1p-20)
        share = 1 - 0x1p-20; /* stay inside, also after rounding */
    if (share < 0x1p-20)
        share = 0x1p-20;
    /* Halves, because the width of the highest bin is not a finite number. */
    double low = isinf(bin.low) ? -0x1p1023 : bin.low / 2,
           high = isinf(bin.high) ? 0x1p1023 : bin.high / 2;
    return 2 * (low + (high - low) * share);
}

static double quantile(const tt_hist *hist, double q)
{
    int64_t finite = hist->binned + hist->zeros;
    if (finite == 0 || !(q >= 0 && q <= 1))
        return NAN;
    double at = q * (double)(finite - 1);
    int64_t rank = (int64_t)at;
    if (rank > finite - 1)
        rank = finite - 1; /* more values than a double counts */
    double part = at - (double)rank, value = value_of_rank(hist, rank);
    if (part > 0 && rank < finite - 1) {
        double next = value_of_rank(hist, rank + 1);
        value = value * (1 - part) + next * part; /* next - value might overflow */
    }
    return value;
}

double tt_hist_quantile(const tt_hist *hist, double q)
{
    uint64_t mode = tt_float_mode_begin();
    double value = tt_float_mode_keep(quantile(hist, q));
    tt_float_mode_end(mode);
    return value;
}
