/* instant.h -- what was recorded in one step of one file, and its micro-batches.
 *
 * For report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_INSTANT_H
#define TT_REPORT_INSTANT_H

#include "tensortap_tools.h"

/* A point of a site in the step, as far as its order needs it. */
typedef struct tt_instant {
    int64_t index, time;
    bool is_eval, has_stats;
} tt_instant;

typedef struct tt_instants {
    tt_instant *items; /* owned */
    size_t count, cap;
    int64_t unread; /* that are damaged, and left out */
} tt_instants;

/* Appends the points of a site in a step.  Reads four columns of a chunk. */
tt_status tt_instants_read(tt_run *run, int32_t file, int32_t site, int64_t step, tt_instants *out);

/* What modules returned and what backward() was called on in a step of training; by time. */
typedef struct tt_rounds {
    tt_instants outputs, losses;
} tt_rounds;

tt_status tt_rounds_read(tt_run *run, int32_t file, int64_t step, tt_rounds *out);
void tt_rounds_free(tt_rounds *rounds);
/* Returns the number of micro-batches that ended before this time; *begin: when the last of them did; INT64_MIN: none. */
int64_t tt_rounds_find(const tt_rounds *rounds, int64_t time, int64_t *begin);

#endif
