/* results.c -- what all result objects do alike.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"

PyObject *binding_fields_as_dict(PyObject *self, const PyGetSetDef *getters)
{
    PyObject *dict = PyDict_New(); /* owned */
    for (const PyGetSetDef *def = getters; dict != NULL && def->name != NULL; def++) {
        PyObject *value = def->get(self, def->closure); /* owned */
        if (value == NULL || PyDict_SetItemString(dict, def->name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
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
