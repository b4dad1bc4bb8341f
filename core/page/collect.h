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
    size_t count, cap;
    bool is_late; /* a step came that belongs between those that were there */
} tt_page_axis;

void tt_page_axis_free(tt_page_axis *axis);
/* Adds the steps of a run. */
tt_status tt_page_axis_add(tt_page_axis *axis, tt_run *run, tt_error *err);

/* What has been read of one site of one file. */
typedef struct tt_page_progress {
    int64_t points;
    int32_t series[2]; /* 1 + its number, of training and of evaluation; 0: none yet */
    bool has_sort, is_tensor;
} tt_page_progress;

/* Adds the steps of the points that have not been read. */
tt_status tt_page_axis_follow(tt_page_axis *axis, tt_run *run, int32_t file, int32_t site,
                              const tt_page_progress *progress);

/* One site of one file in training or in evaluation. */
typedef struct tt_page_series {
    int32_t site, file;
    bool is_eval;
    size_t bin;   /* of the points that were added last ... */
    float points; /* ... and their number, for the mean */
} tt_page_series;

enum { TT_PAGE_MARKS = 64 };

/* Series of one sort: numbers, or tensors.  Series i has the cells from i * room on. */
typedef struct tt_page_bins {
    bool has_tensors;
    size_t width;           /* steps of the axis in a bin */
    size_t bins, room;      /* of each series: how many there are, and may be */
    tt_page_series *series; /* owned */
    size_t count, cap;
    float *cells[TT_PAGE_COLUMN_COUNT_]; /* owned */
    size_t cells_cap[TT_PAGE_COLUMN_COUNT_];
    uint8_t *bad; /* owned; bits of tt_page_bad */
    size_t bad_cap;
    int64_t *times; /* owned; ns of the first number in each bin; INT64_MAX: none */
    size_t times_cap;
    int64_t started; /* ns of the first of all */
    int64_t alarms;  /* points with NaN or Inf */
    size_t lowest;   /* place on the axis of the first point added since the last mark ... */
    size_t marked;   /* ... and series that were there then */
    struct {
        size_t lowest, count; /* of the points that came with a generation; series before it */
    } marks[TT_PAGE_MARKS];
} tt_page_bins;

typedef enum tt_page_bad { TT_PAGE_NAN = 1, TT_PAGE_INF = 2 } tt_page_bad;

/* most: as many bins as there may be; room for all of them is kept if the run may grow. */
void tt_page_bins_init(tt_page_bins *bins, const tt_page_axis *axis, bool has_tensors, size_t most,
                       bool may_grow);
void tt_page_bins_free(tt_page_bins *bins);
/* Makes bins for all steps of the axis; joins neighbours if there are too many. */
void tt_page_bins_fit(tt_page_bins *bins, const tt_page_axis *axis);
/* Adds the points of a site of a file that have not been read.  Those that cannot be read because
 * the file is damaged are counted in *lost. */
tt_status tt_page_bins_add(tt_page_bins *bins, const tt_page_axis *axis, tt_run *run, int32_t file,
                           int32_t site, tt_page_progress *progress, int64_t *lost);
/* Joins neighbours: half as many bins. */
void tt_page_bins_halve(tt_page_bins *bins);
/* Remembers under this number what was added since the last mark. */
void tt_page_bins_mark(tt_page_bins *bins, uint64_t generation);
bool tt_page_column_is_of(tt_page_column column, bool has_tensors);
const char *tt_page_column_name(tt_page_column column);

#endif
