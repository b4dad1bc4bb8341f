/* facts.c -- what a tensor says of itself, for those whose values we do not read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/facts.h"

#include <string.h>

const char *tensor_fact_device(PyObject *obj, PyObject **owner)
{
    PyObject *device = NULL; /* owned */
    const char *name = NULL;
    if (PyObject_GetOptionalAttrString(obj, "device", &device) > 0)
        *owner = PyObject_Str(device);
    if (*owner != NULL)
        name = PyUnicode_AsUTF8(*owner);
    PyErr_Clear();
    Py_XDECREF(device);
    return name != NULL && name[0] == 'c' && name[1] == 'p' && name[2] == 'u' ? NULL : name;
}

int32_t tensor_fact_shape(PyObject *obj, int64_t *shape)
{
    PyObject *value = NULL, *sizes = NULL; /* owned */
    int32_t ndim = -1;
    if (PyObject_GetOptionalAttrString(obj, "shape", &value) > 0)
        sizes = PySequence_Tuple(value);
    if (sizes != NULL && PyTuple_GET_SIZE(sizes) <= TT_MAX_DIM) {
        ndim = (int32_t)PyTuple_GET_SIZE(sizes);
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, d));
            if (shape[d] == -1 && PyErr_Occurred()) {
                ndim = -1; /* a symbolic or ragged size */
                break;
            }
        }
    }
    PyErr_Clear();
    Py_XDECREF(value);
    Py_XDECREF(sizes);
    return ndim;
}

const char *tensor_fact_dtype(PyObject *obj, PyObject **owner)
{
    PyObject *dtype = NULL; /* owned */
    const char *name = NULL;
    if (PyObject_GetOptionalAttrString(obj, "dtype", &dtype) > 0)
        *owner = PyObject_Str(dtype);
    if (*owner != NULL)
        name = PyUnicode_AsUTF8(*owner);
    PyErr_Clear();
    Py_XDECREF(dtype);
    return name != NULL && strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
}
