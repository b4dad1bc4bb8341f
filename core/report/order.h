/* order.h -- in which order things happen within a step.
 *
 * For nan and diff.  Parameters are recorded when the optimizer is about to step,
 * yet the forward pass has already used them: they come first.  Gradients of parameters
 * are recorded all at once; backward reached the last layer first.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_ORDER_H
#define TT_REPORT_ORDER_H

#include "tensortap_tools.h"

typedef enum tt_rank_in_step {
    TT_ORDER_PARAMETER,
    TT_ORDER_FORWARD,  /* activations, lines, what the user named: as recorded */
    TT_ORDER_LOSS,     /* what backward() was called on: recorded when it has run */
    TT_ORDER_BACKWARD, /* gradients of activations: as recorded */
    TT_ORDER_GRADIENT, /* gradients of parameters: the last parameter's first */
    TT_ORDER_NORM,     /* of those */
} tt_rank_in_step;

bool tt_name_begins(const char *name, const char *word);
bool tt_name_ends(const char *name, const char *word);
tt_rank_in_step tt_order_kind(const char *name);
/* A point in the course of a run. */
typedef struct tt_moment {
    int64_t step, time;
    tt_rank_in_step kind;
    int32_t place; /* tt_order_place */
    bool is_eval;
} tt_moment;
/* Did a happen before b?  Evaluation has no place in the order of a training step: its
 * time counts. */
bool tt_order_is_before(const tt_moment *a, const tt_moment *b);
/* Where a tensor of this kind becomes NaN or Inf.  has_updates: weights change in the run. */
tt_birth tt_order_birth(const tt_moment *moment, bool has_updates);
const char *tt_birth_phrase(tt_birth birth); /* "born in the forward pass" */
/* Returns a number that grows in the order of execution within its kind: the site's own; for a
 * gradient, the later its parameter is in the model, the lower. */
int32_t tt_order_place(const tt_run *run, int32_t site);
/* Finds the site whose name is these three texts; -1: none. */
int32_t tt_order_find(const tt_run *run, const char *kind, const char *module, const char *tail);

#endif
