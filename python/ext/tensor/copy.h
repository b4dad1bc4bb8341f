/* copy.h -- a tensor as it is now, copied once.
 *
 * Several names show the same tensor, and what one module returns is mostly what the
 * next one takes: they share a copy, if nothing was written to the tensor in between.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_COPY_H
#define TT_EXT_TENSOR_COPY_H

#include "tensor/change.h"

/* A detached copy of a tensor.  New reference, or NULL with an exception.
 * cache: a dict that knows the copies that somebody still holds, or NULL: make a new one.
 * make: makes the copy where a plain clone would not do (a subclass, a device, a mode of torch);
 * NULL: then NULL is returned without an exception.
 * seen: a fingerprint of the tensor that has just been taken with LOOK_VERSION, or NULL.
 * view: an open view of the tensor, or NULL.
 * is_fresh: the contents changed and the version did not: copies that are known are old. */
PyObject *tensor_copy(tensor_torch *torch, PyObject *cache, PyObject *tensor, PyObject *make,
                      const tensor_fingerprint *seen, const tensor_view *view, bool is_fresh);

#endif
