/* compat.h -- names of newer Pythons, for the older ones we support.
 *
 * Exists so that no other file asks for the version of Python.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_COMPAT_H
#define TT_EXT_BASE_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#if PY_VERSION_HEX < 0x030D0000
/* 1 and a new reference, 0 and NULL where there is no such attribute, or -1. */
static inline int PyObject_GetOptionalAttr(PyObject *obj, PyObject *name, PyObject **out)
{
    *out = PyObject_GetAttr(obj, name);
    if (*out != NULL)
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
        return -1;
    PyErr_Clear();
    return 0;
}

static inline int PyObject_GetOptionalAttrString(PyObject *obj, const char *text, PyObject **out)
{
    PyObject *name = PyUnicode_FromString(text); /* owned */
    *out = NULL;
    int found = name != NULL ? PyObject_GetOptionalAttr(obj, name, out) : -1;
    Py_XDECREF(name);
    return found;
}

/* 1 and a new reference, 0 and NULL where there is no such key, or -1. */
static inline int PyDict_GetItemStringRef(PyObject *dict, const char *key, PyObject **out)
{
    PyObject *name = PyUnicode_FromString(key); /* owned */
    *out = name != NULL ? Py_XNewRef(PyDict_GetItemWithError(dict, name)) : NULL;
    Py_XDECREF(name);
    return *out != NULL ? 1 : PyErr_Occurred() != NULL ? -1 : 0;
}

/* 1 and a new reference, 0 and NULL where the object is gone, or -1. */
static inline int PyWeakref_GetRef(PyObject *ref, PyObject **out)
{
    PyObject *found = PyWeakref_GetObject(ref); /* borrowed */
    *out = found != NULL && found != Py_None ? Py_NewRef(found) : NULL;
    return found == NULL ? -1 : *out != NULL;
}

#define TT_LONG_FROM_BYTES(bytes, n) _PyLong_FromByteArray((const unsigned char *)(bytes), (n), 1, 1)
#else
#define TT_LONG_FROM_BYTES(bytes, n) PyLong_FromNativeBytes((bytes), (n), Py_ASNATIVEBYTES_LITTLE_ENDIAN)
#endif

/* Is this what a weak reference refers to; NULL: is it gone?  Only for references that we made. */
static inline bool base_weakref_is(PyObject *ref, const PyObject *obj)
{
    PyObject *found = NULL; /* owned */
    (void)PyWeakref_GetRef(ref, &found);
    bool is_it = found == obj;
    Py_XDECREF(found);
    return is_it;
}

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra

/* The pending exception as one object, as from 3.12 on. */
static inline PyObject *PyErr_GetRaisedException(void)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (type == NULL)
        return NULL;
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != NULL)
        PyException_SetTraceback(value, trace);
    Py_DECREF(type);
    Py_XDECREF(trace);
    return value;
}

static inline void PyErr_SetRaisedException(PyObject *value)
{
    if (value == NULL)
        PyErr_Clear();
    else
        PyErr_Restore(Py_NewRef(Py_TYPE(value)), value, PyException_GetTraceback(value));
}
#endif

#endif
