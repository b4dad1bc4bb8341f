/* nest.h -- finds the tensors in what a module takes or gives.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_NEST_H
#define TT_EXT_TENSOR_NEST_H

#include "tensor/view.h"

#define NEST_DEPTH 8   /* containers in containers; what lies deeper is not looked at */
#define NEST_COUNT 256 /* tensors of one call */

/* Where in the nest: by index in tuples and lists, by key in dicts, by field in
 * dataclasses.  { 0 }: the object itself. */
typedef struct tensor_nest_place {
    int depth;
    int found;     /* tensors so far */
    uint64_t hash; /* of the whole path; 0 for the object itself */
    struct {
        PyObject *key; /* borrowed, or NULL: index */
        Py_ssize_t index;
    } part[NEST_DEPTH];
} tensor_nest_place;

/* Gives 0, or -1 with an exception, which ends the walk. */
typedef int tensor_nest_found(void *context, PyObject *tensor, const tensor_nest_place *path);

int tensor_nest_walk(tensor_torch *torch, PyObject *obj, tensor_nest_place *path,
                     tensor_nest_found *found, void *context);
/* `name` with the path behind it: "attn.0", "encoder.hidden.2".  New reference. */
PyObject *tensor_nest_name(PyObject *name, const tensor_nest_place *path);

#endif
