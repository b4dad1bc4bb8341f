/* results.c -- methods that all result objects share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "tensor/facts.h"
#include "tensortap_tools.h"

#include <string.h>

static const void *field(PyObject *self, void *at)
{
    return (const char *)self + (size_t)at;
}

PyObject *binding_get_bool(PyObject *self, void *at)
{
    return PyBool_FromLong(*(const bool *)field(self, at));
}

PyObject *binding_get_int(PyObject *self, void *at)
{
    return PyLong_FromLongLong(*(const int64_t *)field(self, at));
}

PyObject *binding_get_double(PyObject *self, void *at)
{
    return PyFloat_FromDouble(*(const double *)field(self, at));
}

PyObject *binding_get_dtype(PyObject *self, void *at)
{
    int32_t dtype;
    memcpy(&dtype, field(self, at), sizeof dtype);
    return PyUnicode_InternFromString(tt_dtype_name((tt_dtype)dtype));
}

PyObject *binding_get_shape(PyObject *self, void *at)
{
    return binding_shape_tuple(field(self, at), Py_SIZE(self));
}

PyObject *binding_as_dict(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *dict = PyDict_New(); /* owned */
    for (const PyGetSetDef *def = Py_TYPE(self)->tp_getset; dict != NULL && def->name != NULL; def++)
        binding_dict_add(&dict, PyUnicode_InternFromString(def->name), def->get(self, def->closure));
    return dict;
}

PyMethodDef binding_result_methods[] = {
    { "as_dict", binding_as_dict, METH_NOARGS, "Return all fields as a dict." },
    { 0 },
};

PyObject *binding_text(const char *text, size_t len)
{
    return PyUnicode_DecodeUTF8(len > 0 ? text : "", (Py_ssize_t)len, "replace");
}

PyObject *binding_take_text(tt_status st, tt_buf *text)
{
    PyObject *result = st < 0 ? binding_raise_status(st, NULL) : binding_text(text->data, text->len);
    tt_buf_free(text);
    return result;
}

void binding_list_add(PyObject **list, PyObject *item)
{
    if (*list != NULL && (item == NULL || PyList_Append(*list, item) < 0))
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

void binding_dict_add(PyObject **dict, PyObject *key, PyObject *value)
{
    if (*dict != NULL && (key == NULL || value == NULL || PyDict_SetItem(*dict, key, value) < 0))
        Py_CLEAR(*dict);
    Py_XDECREF(key);
    Py_XDECREF(value);
}

int binding_read_shape(PyObject *name, PyObject *tuple, tt_dtype *dtype, int64_t *sizes, int32_t *ndim)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > TT_MAX_DIM ||
        !tensor_dtype_find(text, dtype)) {
        PyErr_Format(PyExc_ValueError, "not the type and shape of a tensor: %R, %R", name, tuple);
        return -1;
    }
    *ndim = (int32_t)PyTuple_GET_SIZE(tuple);
    for (int32_t d = 0; d < *ndim; d++)
        sizes[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, d));
    return PyErr_Occurred() != NULL ? -1 : 0;
}

PyObject *binding_shape_tuple(const int64_t *shape, Py_ssize_t ndim)
{
    PyObject *tuple = PyTuple_New(ndim); /* owned */
    for (Py_ssize_t d = 0; tuple != NULL && d < ndim; d++) {
        PyObject *size = PyLong_FromLongLong(shape[d]);
        if (size == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, d, size);
    }
    return tuple;
}

PyObject *binding_shape_text(tt_dtype dtype, const int64_t *shape, Py_ssize_t ndim)
{
    char text[TT_MAX_DIM * 22 + 1];
    size_t at = 0;
    text[0] = '\0';
    for (Py_ssize_t d = 0; d < ndim; d++)
        at += (size_t)PyOS_snprintf(text + at, sizeof text - at, "%s%lld", d > 0 ? ", " : "",
                                    (long long)shape[d]);
    return PyUnicode_FromFormat("%s[%s]", tt_dtype_name(dtype), text);
}
