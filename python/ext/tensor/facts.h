/* facts.h -- what a tensor says of itself, for those whose values we do not read.
 *
 * Asks Python attributes, so it may run code of a tensor's class; no exception
 * is left.  A name lives as long as *owner, which the caller gives up.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_FACTS_H
#define TT_EXT_TENSOR_FACTS_H

#include "base/compat.h"
#include "tensortap.h"

/* str(obj.name), or NULL; new reference. */
PyObject *tensor_fact_text(PyObject *obj, const char *name);
/* A device's name; NULL for the CPU. */
const char *tensor_fact_device(PyObject *obj, PyObject **owner);
/* str(obj.dtype) without "torch."; NULL: there is none. */
const char *tensor_fact_dtype(PyObject *obj, PyObject **owner);
/* The element type of this name, as tt_dtype_name() has it; false: none that we read, or NULL. */
bool tensor_dtype_find(const char *name, tt_dtype *out);
/* obj.shape into shape, which has TT_MAX_DIM; -1: it has none that makes sense. */
int32_t tensor_fact_shape(PyObject *obj, int64_t *shape);

#endif
