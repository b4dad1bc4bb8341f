/* arguments.c -- reads the arguments of a vectorcall, and raises.
 *
 * Exists because PyArg_ParseTupleAndKeywords costs as much as the statistics
 * of a small tensor: a call without keywords costs one comparison here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"

#include <string.h>

/* -1, with a TypeError that names the argument where Python's own does not. */
static int refuse(const char *function, const binding_option *opt, const char *accepted, PyObject *value)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s(): %s must be %s, not %R", function, opt->name, accepted,
                     value);
    return -1;
}

static int read_value(const char *function, const binding_option *opt, PyObject *value)
{
    switch (opt->kind) {
    case OPTION_BOOL: {
        int is_true = PyObject_IsTrue(value);
        if (is_true < 0)
            return -1;
        *(bool *)opt->to = is_true != 0;
        return 0;
    }
    case OPTION_INT: {
        int64_t number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred())
            return refuse(function, opt, "a whole number", value);
        *(int64_t *)opt->to = number;
        return 0;
    }
    case OPTION_DOUBLE: {
        double number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred())
            return refuse(function, opt, "a number", value);
        *(double *)opt->to = number;
        return 0;
    }
    case OPTION_OBJECT:
        *(PyObject **)opt->to = value;
        return 0;
    }
    return 0;
}

int binding_read_arguments(const char *function, Py_ssize_t wanted, const binding_option *options,
                           PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs != wanted) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd positional argument%s (%zd given)", function,
                     wanted, wanted == 1 ? "" : "s", nargs);
        return -1;
    }
    if (kwnames == NULL)
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i); /* borrowed */
        const binding_option *opt = options;
        while (opt != NULL && opt->name != NULL && PyUnicode_CompareWithASCIIString(name, opt->name) != 0)
            opt++;
        if (opt == NULL || opt->name == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
            return -1;
        }
        if (read_value(function, opt, args[nargs + i]) < 0)
            return -1;
    }
    return 0;
}

PyObject *binding_import(const char *module, const char *attributes)
{
    PyObject *found = PyImport_ImportModule(module); /* owned */
    while (found != NULL && *attributes != '\0') {
        size_t len = strcspn(attributes, ".");
        PyObject *name = PyUnicode_FromStringAndSize(attributes, (Py_ssize_t)len); /* owned */
        Py_SETREF(found, name != NULL ? PyObject_GetAttr(found, name) : NULL);
        Py_XDECREF(name);
        attributes += len + (attributes[len] == '.');
    }
    return found;
}

int binding_open_view(binding_state *state, PyObject *obj, tensor_view *out)
{
    tensor_view_result why = tensor_view_open(&state->torch, obj, out);
    if (why == VIEW_OK)
        return 0;
    tensor_view_refuse(out, obj, why);
    return -1;
}

PyObject *binding_raise_status(tt_status st, const tt_error *err)
{
    PyObject *type = PyExc_ValueError;
    if (st == TT_ENOMEM)
        return PyErr_NoMemory();
    if (st == TT_EDTYPE || st == TT_EDEVICE)
        type = PyExc_TypeError;
    else if (st == TT_EIO)
        type = PyExc_OSError;
    /* A text that was cut in the middle of a character is no UTF-8: only this replaces it. */
    PyErr_Format(type, "%s", err != NULL && err->text[0] != '\0' ? err->text : tt_status_text(st));
    return NULL;
}
