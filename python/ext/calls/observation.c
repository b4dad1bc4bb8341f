/* observation.c -- one tensor of a module's call, as a consumer gets it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/observation.h"

#include "calls/source.h"

bool calls_observation_shape(const calls_observation *seen, tt_dtype *dtype, const int64_t **sizes,
                             int32_t *ndim)
{
    if (seen->row != NULL) {
        *dtype = seen->row->dtype;
        *sizes = seen->row->shape;
        *ndim = seen->row->ndim;
        return true;
    }
    tensor_torch *torch = &seen->state->torch;
    tensor_handle handle =
        tensor_torch_is_plain(torch, seen->tensor) ? tensor_torch_handle(torch, seen->tensor) : NULL;
    return handle != NULL && tensor_describe_shape(handle, dtype, sizes, ndim);
}

PyObject *calls_observation_value(const calls_observation *seen)
{
    const probe_row *row = seen->row;
    if (row == NULL)
        return Py_NewRef(seen->tensor);
    if (row->value == NULL || seen->state->calls->make_tensor == NULL)
        return NULL;
    size_t bytes = tt_dtype_size(row->dtype);
    for (int32_t d = 0; d < row->ndim; d++)
        bytes *= (size_t)row->shape[d];
    PyObject *shape = binding_shape_tuple(row->shape, row->ndim);                  /* owned */
    PyObject *data = PyByteArray_FromStringAndSize(row->value, (Py_ssize_t)bytes); /* owned */
    PyObject *tensor = NULL;
    if (shape != NULL && data != NULL)
        tensor = PyObject_CallFunction(seen->state->calls->make_tensor, "OsO", data,
                                       tt_dtype_name(row->dtype), shape);
    Py_XDECREF(data);
    Py_XDECREF(shape);
    return tensor;
}
