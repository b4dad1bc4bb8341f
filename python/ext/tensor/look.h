/* look.h -- one look at each tensor of an event, shared by all who consume the event.
 *
 * A source makes a tensor_looks for each event.  The first consumer that asks for a tensor
 * opens its view, the first that asks for its statistics computes them, and the others get
 * what is there.
 *
 *     tensor_look *look = tensor_look_at(event->looks, tensor);
 *     if (look->why == VIEW_OK)
 *         use(&look->view.tensor, tensor_look_stats(look));
 *
 * What a look holds is true until Python code runs or the GIL is released: the program may
 * then change the tensor or free its memory.  A consumer that did either calls
 * tensor_looks_clear(), which closes all views.
 * Allocates nothing once as many looks have been needed before.  Needs the GIL.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_LOOK_H
#define TT_EXT_TENSOR_LOOK_H

#include "tensor/view.h"

typedef struct tensor_look {
    struct tensor_look *next;
    PyObject *tensor;       /* owned */
    tensor_view_result why; /* the values cannot be read; VIEW_OK: they can */
    tensor_view view;       /* open if VIEW_OK */
    bool has_stats;
    tt_stats stats; /* if has_stats */
} tensor_look;

/* The looks of one event.  Begins as { .torch = ... }. */
typedef struct tensor_looks {
    tensor_torch *torch;
    tensor_look *all; /* the newest first */
} tensor_looks;

/* The look at this tensor, valid until the next tensor_looks_clear().  NULL: out of memory, without
 * an exception. */
tensor_look *tensor_look_at(tensor_looks *looks, PyObject *tensor);
/* Its statistics; only if its values can be read. */
const tt_stats *tensor_look_stats(tensor_look *look);
/* Closes all views.  A tensor that is asked for again is opened again. */
void tensor_looks_clear(tensor_looks *looks);

#endif
