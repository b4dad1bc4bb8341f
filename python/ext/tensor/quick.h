/* quick.h -- the quick way to a tensor, where plain ones have been seen.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_QUICK_H
#define TT_EXT_TENSOR_QUICK_H

#include "tensor/view.h"

/* What has come from one place so far; { 0 } at first. */
typedef struct tensor_trust {
    bool is_quick; /* the quick way may be tried */
    bool is_odd;   /* never again: something other than a plain tensor came */
} tensor_trust;

/* As tensor_view_open(), for the tensors of one place; trust NULL: just that. */
tensor_view_result tensor_quick_open(tensor_torch *torch, PyObject *obj, tensor_trust *trust,
                                     tensor_view *out);

#endif
