/* collect.h -- the points of a run in bins over the steps, as the page draws them.
 *
 * A bin keeps the least and the largest value and every NaN and Inf of its steps, so that a
 * spike of one step stays visible whatever the number of steps.
 * For page only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_PAGE_COLLECT_H
#define TT_PAGE_COLLECT_H

#include "base/buf.h"

/* name; how two bins become one.  A number that was logged has VALUE, LOW and HIGH; a tensor
 * has the rest.  NaN: the bin has no such point. */
#define TT_PAGE_COLUMN_MAP(X)    \
    X(VALUE, "value", MEAN)      \
    X(LOW, "low", LEAST)         \
    X(HIGH, "high", MOST)        \
    X(MIN, "min", LEAST)         \
    X(MAX, "max", MOST)          \
    X(MEAN, "mean", MEAN)        \
    X(STD, "std", MEAN)          \
    X(RMS, "rms", MOST)          \
    X(RMS_LOW, "rms_low", LEAST) \
    X(ZEROS, "zeros", MOST)

#define X(name, text, how) TT_PAGE_##name,
typedef enum tt_page_column { TT_PAGE_COLUMN_MAP(X) TT_PAGE_COLUMN_COUNT_ } tt_page_column;
#undef X

/* The distinct steps of all runs of the page, ascending. */
typedef struct tt_page_axis {
    int64_t *steps; /* owned */
    size_t count;
} tt_page_axis;

void tt_page_axis_free(tt_page_axis *axis);
/* Adds the steps of a run. */
tt_status tt_page_axis_add(tt_page_axis *axis, tt_run *run, tt_error *err);

/* One site of one file in training or in evaluation. */
typedef struct tt_page_series {
    int32_t site, file;
    bool is_eval;
    int64_t points;
    size_t first; /* of its bins in the cells */
} tt_page_series;

/* Series of one sort: numbers, or tensors. */
typedef struct tt_page_bins {
    bool has_tensors;
    size_t width;           /* steps of the axis in a bin */
    size_t bins;            /* of each series */
    tt_page_series *series; /* owned */
    size_t count, cap;
    float *cells[TT_PAGE_COLUMN_COUNT_]; /* owned; a bin for each series */
    size_t cells_cap[TT_PAGE_COLUMN_COUNT_];
    uint8_t *bad; /* owned; bits of tt_page_bad */
    size_t bad_cap;
} tt_page_bins;

typedef enum tt_page_bad { TT_PAGE_NAN = 1, TT_PAGE_INF = 2 } tt_page_bad;

void tt_page_bins_init(tt_page_bins *bins, const tt_page_axis *axis, bool has_tensors, size_t most);
void tt_page_bins_free(tt_page_bins *bins);
/* Adds a site of a file.  Points that cannot be read because the file is damaged are counted in
 * *lost. */
tt_status tt_page_bins_add(tt_page_bins *bins, const tt_page_axis *axis, tt_run *run, int32_t file,
                           int32_t site, int64_t *lost);
/* Joins neighbours: half as many bins. */
void tt_page_bins_halve(tt_page_bins *bins);
bool tt_page_column_is_of(tt_page_column column, bool has_tensors);
const char *tt_page_column_name(tt_page_column column);

#endif
