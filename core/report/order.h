/* order.h -- in which order things happen within a step.
 *
 * For report and health.  Parameters are recorded when the optimizer is about to step,
 * yet the forward pass has already used them: they come first.  Gradients of parameters
 * are recorded all at once; those of the first step are seen before, as backward makes them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_ORDER_H
#define TT_REPORT_ORDER_H

#include "tensortap_tools.h"

typedef enum tt_rank_in_step {
    TT_ORDER_PARAMETER,
    TT_ORDER_FORWARD,  /* activations, lines, what the user named: as recorded */
    TT_ORDER_LOSS,     /* what backward() was called on: recorded when it has run */
    TT_ORDER_BACKWARD, /* gradients of activations: as recorded */
    TT_ORDER_GRADIENT, /* gradients of parameters: as backward made them, or the last parameter's first */
    TT_ORDER_NORM,     /* of those */
} tt_rank_in_step;

bool tt_name_begins(const char *name, const char *word);
bool tt_name_ends(const char *name, const char *word);
tt_rank_in_step tt_order_kind(const char *name);
/* A point in the course of a run. */
typedef struct tt_moment {
    int64_t step, time;
    int64_t round; /* of the micro-batches of its step, from 0; TT_ROUND_ALL: a gradient sums them up */
    tt_rank_in_step kind;
    int32_t place; /* tt_order_place */
    int32_t file;  /* whose clock made the time */
    bool is_eval;
} tt_moment;
#define TT_ROUND_ALL INT64_MAX
/* Did a happen before b?  Times count within a file only.  Evaluation has no place in the order of a training
 * step: its time counts; of two files, training comes first. */
bool tt_order_is_before(const tt_moment *a, const tt_moment *b);
/* Where a tensor of this kind becomes NaN or Inf.  has_updates: weights change in the run. */
tt_birth tt_order_birth(const tt_moment *moment, bool has_updates);
const char *tt_birth_phrase(tt_birth birth); /* "born in the forward pass" */
/* Returns a number that grows in the order of execution within its kind.  site, of: numbers of the site and, for a
 * gradient, of the output or parameter that it is of (-1: none).  The later an output, the earlier its gradient.
 * A gradient of a parameter whose site is older than the parameter's was seen when backward made it; of others
 * the later its parameter is in the model, the earlier. */
int32_t tt_order_place_of(tt_rank_in_step kind, int32_t site, int32_t of);
int32_t tt_order_place(const tt_run *run, int32_t site);
/* Is it a gradient of which nobody knows when backward made it? */
bool tt_order_is_unknown(const tt_run *run, int32_t site);
/* Finds the site whose name is these three texts; -1: none. */
int32_t tt_order_find(const tt_run *run, const char *kind, const char *module, const char *tail);

#endif
