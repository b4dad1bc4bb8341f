/* type.c -- functions that all classes of the extension share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/type.h"

#include <string.h>

int binding_visit(PyObject *self, size_t first, size_t last, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (size_t at = first; at <= last; at += sizeof(PyObject *)) {
        PyObject *owned; /* the field may be a pointer to a struct that begins with PyObject_HEAD */
        memcpy(&owned, (char *)self + at, sizeof owned);
        Py_VISIT(owned);
    }
    return 0;
}

int binding_clear(void *self, size_t first, size_t last)
{
    for (size_t at = first; at <= last; at += sizeof(PyObject *)) {
        PyObject *owned;
        memcpy(&owned, (char *)self + at, sizeof owned);
        memset((char *)self + at, 0, sizeof owned);
        Py_XDECREF(owned);
    }
    return 0;
}

void binding_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (PyType_IS_GC(type))
        PyObject_GC_UnTrack(self);
    if (type->tp_weaklistoffset > 0)
        PyObject_ClearWeakRefs(self);
    if (type->tp_clear != NULL)
        type->tp_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}
