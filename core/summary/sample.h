/* sample.h -- what a sample is made of.  For the store, which packs and unpacks
 * samples; everyone else uses tensortap.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_SAMPLE_H
#define TT_SUMMARY_SAMPLE_H

#include "tensortap.h"

/* One piece of memory from malloc, freed as one. */
struct tt_sample {
    size_t count;
    bool is_partial;
    size_t others;           /* that will free it too */
    tt_sample_slice *slices; /* in the same piece of memory, as all that follows */
    int64_t *row, *col;      /* indices, which all slices share */
    char *values;            /* of all slices, value_bytes each */
    size_t value_bytes;
    char *labels;
};

/* A sample of so many tables of elements of `item` bytes; the caller fills in the indices, the
 * values and the labels, which have so many bytes together.  NULL: out of memory. */
tt_sample *tt_sample_alloc(size_t slices, size_t rows, size_t cols, size_t item, size_t label_bytes);

#endif
