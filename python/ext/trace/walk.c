/* walk.c -- from a variable to what lies inside it: cache.*.key.
 *
 * Dicts by key, lists and tuples by position, dataclasses and objects by what
 * their instances hold, modules by parameter, buffer and submodule.  Properties
 * are not asked: they would run code of the user's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

typedef struct walking {
    trace_tracer *tracer;
    const trace_target *target;
    Py_ssize_t part;  /* of the target's inner that comes next */
    bool is_doubtful; /* it is a module's own: its version does not always tell */
} walking;

static void walk(walking at, PyObject *value, PyObject *name);

static bool is_star(PyObject *part)
{
    return PyUnicode_GET_LENGTH(part) == 1 && PyUnicode_READ_CHAR(part, 0) == '*';
}

static bool is_private(PyObject *key)
{
    return PyUnicode_Check(key) && PyUnicode_GET_LENGTH(key) > 0 && PyUnicode_READ_CHAR(key, 0) == '_';
}

static void step_to(walking at, PyObject *value, PyObject *name, PyObject *key)
{
    PyObject *longer = PyUnicode_GET_LENGTH(name) > 0 ? PyUnicode_FromFormat("%U.%S", name, key)
                                                      : PyObject_Str(key); /* owned */
    at.part++;
    Py_INCREF(value);
    if (longer != NULL)
        walk(at, value, longer);
    Py_DECREF(value);
    Py_XDECREF(longer);
}

/* The index that a part means; -1: none. */
static Py_ssize_t index_of(PyObject *part)
{
    Py_ssize_t index = 0, length = PyUnicode_GET_LENGTH(part);
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 digit = PyUnicode_READ_CHAR(part, i);
        if (digit < '0' || digit > '9' || i > 8)
            return -1;
        index = index * 10 + (Py_ssize_t)(digit - '0');
    }
    return length > 0 ? index : -1;
}

static void walk_sequence(walking at, PyObject *value, PyObject *name, PyObject *part)
{
    Py_ssize_t index = is_star(part) ? -1 : index_of(part);
    Py_ssize_t i = index >= 0 ? index : 0;
    for (; (is_star(part) || i == index) && i < PySequence_Fast_GET_SIZE(value); i++) {
        PyObject *key = PyLong_FromSsize_t(i); /* owned */
        if (key != NULL)
            step_to(at, PySequence_Fast_GET_ITEM(value, i), name, key);
        Py_XDECREF(key);
    }
    if (is_star(part) || index >= 0 || PyTuple_CheckExact(value) || PyList_Check(value))
        return;
    PyObject *field = NULL; /* owned; of a named tuple */
    if (PyObject_GetOptionalAttr(value, part, &field) > 0)
        step_to(at, field, name, part);
    Py_XDECREF(field);
}

/* False: it has no such key. */
static bool walk_dict(walking at, PyObject *dict, PyObject *name, PyObject *part)
{
    PyObject *key, *value; /* borrowed */
    if (is_star(part)) {
        PyObject *items = PyDict_Items(dict); /* owned: the dict may change meanwhile */
        for (Py_ssize_t i = 0; items != NULL && i < PyList_GET_SIZE(items); i++) {
            key = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 0);
            value = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 1);
            if ((PyUnicode_Check(key) || PyLong_Check(key)) && !is_private(key))
                step_to(at, value, name, key);
        }
        Py_XDECREF(items);
        return true;
    }
    value = PyDict_GetItemWithError(dict, part);
    if (value == NULL && index_of(part) >= 0) {
        PyObject *number = PyLong_FromSsize_t(index_of(part)); /* owned */
        value = number != NULL ? PyDict_GetItemWithError(dict, number) : NULL;
        Py_XDECREF(number);
    }
    PyErr_Clear();
    if (value == NULL)
        return false;
    step_to(at, value, name, part);
    return true;
}

static void walk_module(walking at, PyObject *dict, PyObject *name, PyObject *part)
{
    static const char *const tables[] = { "_parameters", "_buffers", "_modules" };
    bool is_found = false;
    for (int i = 0; i < 3 && !is_found; i++) {
        PyObject *table = NULL; /* owned */
        walking inside = at;
        inside.is_doubtful = i < 2 || at.is_doubtful;
        if (PyDict_GetItemStringRef(dict, tables[i], &table) > 0 && PyDict_Check(table))
            is_found = walk_dict(inside, table, name, part) && !is_star(part);
        Py_XDECREF(table);
        PyErr_Clear();
    }
    if (!is_found)
        walk_dict(at, dict, name, part);
}

/* Fields of a dataclass, and slots: those have no dict. */
static void walk_fields(walking at, PyObject *value, PyObject *name, PyObject *part)
{
    PyTypeObject *type = Py_TYPE(value);
    PyObject *fields = NULL, *found = NULL; /* owned */
    if (!is_star(part)) {
        PyObject *descriptor = _PyType_Lookup(type, part); /* borrowed */
        if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
            found = PyObject_GetAttr(value, part);
        if (found != NULL)
            step_to(at, found, name, part);
    } else if (PyObject_GetOptionalAttrString((PyObject *)type, "__dataclass_fields__", &fields) > 0 &&
               PyDict_Check(fields)) {
        PyObject *key, *field; /* borrowed */
        Py_ssize_t i = 0;
        while (PyDict_Next(fields, &i, &key, &field)) {
            found = is_private(key) ? NULL : PyObject_GetAttr(value, key);
            PyErr_Clear();
            if (found != NULL)
                step_to(at, found, name, key);
            Py_CLEAR(found);
        }
    }
    PyErr_Clear();
    Py_XDECREF(found);
    Py_XDECREF(fields);
}

static void walk_object(walking at, PyObject *value, PyObject *name, PyObject *part)
{
    PyObject *dict = PyObject_GenericGetDict(value, NULL); /* owned */
    PyErr_Clear();
    if (dict == NULL)
        walk_fields(at, value, name, part);
    else if (PyType_IsSubtype(Py_TYPE(value), at.tracer->torch_module))
        walk_module(at, dict, name, part);
    else if (!walk_dict(at, dict, name, part))
        walk_fields(at, value, name, part);
    Py_XDECREF(dict);
}

static void walk(walking at, PyObject *value, PyObject *name)
{
    PyObject *inner = at.target->inner; /* borrowed */
    Py_ssize_t count = PyTuple_GET_SIZE(inner);
    if (at.part == count) {
        /* A whole module must be named: a star would copy the model. */
        if (is_star(PyTuple_GET_ITEM(inner, count - 1)) &&
            PyType_IsSubtype(Py_TYPE(value), at.tracer->torch_module))
            return;
        size_t state = trace_state_of(at.tracer, at.target->group, name);
        if (state != SIZE_MAX)
            trace_consider(at.tracer, at.target, state, name, value, at.is_doubtful);
        return;
    }
    PyObject *part = PyTuple_GET_ITEM(inner, at.part); /* borrowed */
    trace_kind kind = trace_kind_of(at.tracer, value);
    if (kind != KIND_OTHER || PyType_Check(value))
        return;
    if (PyList_Check(value) || PyTuple_Check(value))
        walk_sequence(at, value, name, part);
    else if (!PyDict_Check(value) || !walk_dict(at, value, name, part))
        walk_object(at, value, name, part);
}

void trace_look(trace_tracer *self, const trace_target *target, PyObject *value, bool is_doubtful)
{
    if (self->error != NULL)
        return;
    Py_INCREF(value);
    if (PyTuple_GET_SIZE(target->inner) == 0) {
        trace_consider(self, target, target->state, target->name, value, is_doubtful);
    } else {
        walking at = { .tracer = self, .target = target, .is_doubtful = is_doubtful };
        walk(at, value, target->name);
    }
    if (PyErr_Occurred())
        trace_take_error(self);
    Py_DECREF(value);
}
