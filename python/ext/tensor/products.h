/* products.h -- the summaries of one tensor that a point may hold.
 *
 * One function computes them, for live tensors (runs/recorder_add.c) and for tensors inside compiled
 * graphs (probe/operator.c).  Needs no GIL.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_PRODUCTS_H
#define TT_EXT_TENSOR_PRODUCTS_H

#include "tensortap.h"

typedef struct tensor_products {
    uint32_t has; /* of TT_PRODUCT_: which of these are set */
    tt_stats stats;
    tt_digest digest;
    tt_hist *hist;     /* owned */
    tt_sample *sample; /* owned */
    float *tokens;     /* owned, from malloc */
} tensor_products;

/* Computes those that are wanted.  What there is no memory for is left out. */
void tensor_products_compute(const tt_tensor *t, uint32_t wanted, tensor_products *out);
void tensor_products_free(tensor_products *products);
/* Sets the fields of an event, which borrows them. */
void tensor_products_put(const tensor_products *products, uint32_t wanted, tt_event *event);

#endif
