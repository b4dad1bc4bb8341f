/* order.h -- which of two things of one step happened first.
 *
 * For nan and diff.  Parameters are recorded when the optimizer is about to step,
 * yet the forward has already used them: they come first.  Gradients of parameters
 * are recorded all at once; backward came to the last layer first.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_ORDER_H
#define TT_REPORT_ORDER_H

#include "base/status.h"

typedef enum tt_rank_in_step {
    TT_ORDER_PARAMETER,
    TT_ORDER_FORWARD,  /* activations, lines, what the user named: as recorded */
    TT_ORDER_LOSS,     /* what backward() was called on: recorded when it has run */
    TT_ORDER_BACKWARD, /* gradients of activations: as recorded */
    TT_ORDER_GRADIENT, /* gradients of parameters: the last parameter's first */
    TT_ORDER_NORM,     /* of those */
} tt_rank_in_step;

typedef struct tt_moment {
    int64_t step;
    tt_rank_in_step kind;
    int64_t time;
    int32_t file, site;
    int32_t place; /* of tt_order_place */
} tt_moment;

tt_rank_in_step tt_order_kind(const char *name);
/* A number that grows in the order of execution within its kind: the site's own; of a
 * gradient, the less the later its parameter stands in the model. */
int32_t tt_order_place(const tt_run *run, int32_t site);
bool tt_order_before(const tt_moment *a, const tt_moment *b);

typedef struct tt_order_count {
    int64_t first_time; /* of its points in the step */
    int64_t points;     /* 0: none */
    int64_t before;     /* points of an earlier time than asked about */
} tt_order_count;

/* Looks at the points of a site in a step, by reading two columns of one chunk. */
tt_status tt_order_look(tt_run *run, int32_t file, int32_t site, int64_t step, int64_t time,
                        tt_order_count *out);

#endif
