/* facts.c -- what a tensor says of itself, for those whose values we do not read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/facts.h"

#include <string.h>

PyObject *tensor_fact_text(PyObject *obj, const char *name)
{
    PyObject *value = NULL, *text = NULL; /* owned */
    if (PyObject_GetOptionalAttrString(obj, name, &value) > 0)
        text = PyObject_Str(value);
    PyErr_Clear();
    Py_XDECREF(value);
    return text;
}

static const char *utf8_of(PyObject *obj, const char *name, PyObject **owner)
{
    *owner = tensor_fact_text(obj, name);
    const char *text = *owner != NULL ? PyUnicode_AsUTF8(*owner) : NULL;
    PyErr_Clear();
    return text;
}

const char *tensor_fact_device(PyObject *obj, PyObject **owner)
{
    const char *name = utf8_of(obj, "device", owner);
    return name != NULL && strncmp(name, "cpu", 3) == 0 ? NULL : name;
}

const char *tensor_fact_dtype(PyObject *obj, PyObject **owner)
{
    const char *name = utf8_of(obj, "dtype", owner);
    return name != NULL && strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
}

bool tensor_dtype_find(const char *name, tt_dtype *out)
{
    for (int i = 0; name != NULL && i < TT_DTYPE_COUNT_; i++) {
        if (strcmp(name, tt_dtype_name((tt_dtype)i)) == 0) {
            *out = (tt_dtype)i;
            return true;
        }
    }
    return false;
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
