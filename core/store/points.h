/* points.h -- points of one site as columns in memory.
 *
 * For store and record.  What the columns of the file are made from and read
 * into.  In memory a column holds a cell for each point; in the file, one for
 * each point that has its product.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_POINTS_H
#define TT_STORE_POINTS_H

#include "base/buf.h"
#include "store/event.h"

/* name, type of entry, product it belongs to.  The numbers are part of the
 * format: append only.  INT: 64 bits, signed; FLOAT: f64; BYTES: any. */
#define TT_COLUMN_MAP(X)      \
    X(PRODUCTS, INT, ANY)     \
    X(STEP, INT, ANY)         \
    X(CALL, INT, ANY)         \
    X(TIME, INT, ANY)         \
    X(PHASE, INT, ANY)        \
    X(THREAD, INT, ANY)       \
    X(SCALAR, FLOAT, SCALAR)  \
    X(COUNT, INT, STATS)      \
    X(MIN, FLOAT, STATS)      \
    X(MAX, FLOAT, STATS)      \
    X(ABSMAX, FLOAT, STATS)   \
    X(SUM, FLOAT, STATS)      \
    X(MEAN, FLOAT, STATS)     \
    X(M2, FLOAT, STATS)       \
    X(L1, FLOAT, STATS)       \
    X(SUMSQ, FLOAT, STATS)    \
    X(DTYPE, INT, STATS)      \
    X(SHAPE, BYTES, ANY)      \
    X(NAN, INT, STATS)        \
    X(POSINF, INT, STATS)     \
    X(NEGINF, INT, STATS)     \
    X(ZEROS, INT, STATS)      \
    X(SUM_IMAG, FLOAT, STATS) \
    X(IMIN, INT, STATS)       \
    X(IMAX, INT, STATS)       \
    X(ISUM_LO, INT, STATS)    \
    X(ISUM_HI, INT, STATS)    \
    X(PROPAGATED, INT, STATS) \
    X(DIGEST_LO, INT, DIGEST) \
    X(DIGEST_HI, INT, DIGEST) \
    X(HIST, BYTES, HIST)      \
    X(SAMPLE, BYTES, SAMPLE)  \
    X(VALUE_AT, INT, VALUE)   \
    X(TOKENS, BYTES, TOKENS)  \
    X(PLACED_LO, INT, PLACED) \
    X(PLACED_HI, INT, PLACED)

/* The columns of statistics: name, field of tt_stats, type, how a cell is read.  Readers of whole series
 * need those of the first two maps, and for var, std, l2 and rms the first. */
#define TT_STATS_COLUMN_MAP(X)                   \
    X(COUNT, count, int, tt_count_of)            \
    X(NAN, nan, int, tt_count_of)                \
    X(POSINF, posinf, int, tt_count_of)          \
    X(NEGINF, neginf, int, tt_count_of)          \
    X(M2, m2, float, tt_f64_of)                  \
    X(SUMSQ, sumsq, float, tt_f64_of)            \
    X(PROPAGATED, is_propagated, int, (int32_t)) \
    X(DTYPE, dtype, int, (int32_t))              \
    X(MEAN, mean, float, tt_f64_of)
#define TT_STATS_MORE_MAP(X)          \
    X(ZEROS, zeros, int, tt_count_of) \
    X(MIN, min, float, tt_f64_of)     \
    X(MAX, max, float, tt_f64_of)
#define TT_STATS_REST_MAP(X)                \
    X(ABSMAX, absmax, float, tt_f64_of)     \
    X(SUM, sum, float, tt_f64_of)           \
    X(L1, l1, float, tt_f64_of)             \
    X(SUM_IMAG, sum_imag, float, tt_f64_of) \
    X(IMIN, imin, int, (int64_t))           \
    X(IMAX, imax, int, (int64_t))           \
    X(ISUM_LO, isum_lo, bits, (uint64_t))   \
    X(ISUM_HI, isum_hi, int, (int64_t))

#define X(name, type, product) TT_COLUMN_##name,
typedef enum tt_column { TT_COLUMN_MAP(X) TT_COLUMN_COUNT_ } tt_column;
#undef X

typedef enum tt_column_type { TT_COLUMN_INT, TT_COLUMN_FLOAT, TT_COLUMN_BYTES } tt_column_type;

typedef struct tt_column_kind {
    tt_column_type type;
    uint32_t product; /* tt_product; 0: every point has it */
} tt_column_kind;
extern const tt_column_kind tt_column_kinds[TT_COLUMN_COUNT_];

enum {
    TT_CHUNK_POINTS_MAX = 1 << 16,  /* points of one chunk; more is not ours */
    TT_COLUMN_BYTES_MAX = 16 << 20, /* of one BYTES column, unpacked */
    TT_PHASE_SKIPPED = 1 << 8,      /* added to the phase */
};

/* A number of elements as a file gives it, cut to what a tensor can have: sums of a
 * few of them do not overflow. */
static inline int64_t tt_count_of(uint64_t cell)
{
    return (int64_t)cell < 0 ? 0 : cell > UINT64_C(1) << 60 ? INT64_C(1) << 60 : (int64_t)cell;
}

/* { 0 } is empty and valid. */
typedef struct tt_points {
    uint32_t n;
    uint32_t products; /* that any of them has: only their columns are there */
    size_t cap[TT_COLUMN_COUNT_];
    /* owned; bits of the number, 0 where a point does not have it; of BYTES where the point's end */
    uint64_t *cells[TT_COLUMN_COUNT_];
    tt_buf bytes[TT_COLUMN_COUNT_]; /* of BYTES, one behind the other */
    tt_buf scratch;                 /* of chunk.c */
} tt_points;

void tt_points_free(tt_points *points);
void tt_points_clear(tt_points *points); /* keeps the memory */
/* Does a point of these products have an entry in this column? */
static inline bool tt_points_have(uint32_t products, size_t column)
{
    uint32_t product = tt_column_kinds[column].product;
    return product == 0 || (products & product) != 0;
}
/* Room for n points in all columns of these products. */
tt_status tt_points_reserve(tt_points *points, uint32_t n, uint32_t products);
/* Adds a point of the queue; there must be room. */
tt_status tt_points_add(tt_points *points, const tt_record *record);
/* Puts the points in the order of their steps, those of a step in the order of their times. */
tt_status tt_points_sort(tt_points *points);
/* Drops all points but the last. */
void tt_points_keep_last(tt_points *points);
/* Reads point i back. */
void tt_points_get(const tt_points *points, uint32_t i, tt_point *out);
/* The bytes of a BYTES column for point i; NULL: it has none. */
const char *tt_points_bytes(const tt_points *points, tt_column column, uint32_t i, size_t *len);

/* Adds what the points say (steps, calls, sums, extremes, digests; not times) to a chain: two files whose chains are
 * equal hold the same. */
uint64_t tt_points_chain(const tt_points *points, uint64_t chain);

/* The first point with a NaN or an infinity; -1: none. */
int64_t tt_points_nonfinite(const tt_points *points);

#endif
