/* replicas.h -- ranks that ought to hold the same, and do not.
 *
 * For health.  Placements say which ranks are replicas of each other; whoever is not of the majority is odd.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_REPLICAS_H
#define TT_STORE_REPLICAS_H

#include "store/run.h"

/* Replicas of one part of a tensor that differ. */
typedef struct tt_odd_replica {
    int32_t site;
    int64_t step;     /* the first in which they differ ... */
    bool is_at_first; /* ... and the first that they have at all */
    int32_t *ranks;   /* owned; those that are not of the majority; without one: all */
    size_t count;
    int32_t replicas; /* that the part has */
    bool has_majority;
    bool is_by_digest; /* else by their statistics */
    tt_field field;    /* the statistic that deviates most in that step: */
    double usual, odd; /* equal: no statistic shows it */
} tt_odd_replica;

typedef struct tt_replicas {
    tt_odd_replica *odd; /* owned; by site */
    size_t count, cap;
    int64_t compared; /* tensors that several ranks ought to have alike */
} tt_replicas;

/* Compares the parameters, buffers and reduced gradients of replicas in all files, step by step: by digests where
 * both have one, else by sums and extremes. */
tt_status tt_replicas_find(tt_run *run, tt_replicas *out);
void tt_replicas_free(tt_replicas *replicas);

#endif
