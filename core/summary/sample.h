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
    tt_sample_slice *slices; /* in the same piece of memory, as all they point to */
};

#endif
