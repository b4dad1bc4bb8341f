/* nest.c -- finds the tensors in what a module takes or gives.
 *
 * Exists because modules return tuples, dicts and dataclasses as often as plain
 * tensors.  The path of each tensor is a hash first, so that a consumer can keep
 * what it knows of a place without building its name at every call.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/nest.h"

#include "base/hash.h"

/* One step down; -1 with an exception. */
static int walk_part(tensor_torch *torch, PyObject *obj, PyObject *key, Py_ssize_t index,
                     tensor_nest_place *path, tensor_nest_found *found, void *context)
{
    uint64_t outer = path->hash;
    Py_hash_t part = (Py_hash_t)index;
    int result = -1;
    if (path->depth == NEST_DEPTH || path->found >= NEST_COUNT)
        return 0;
    Py_INCREF(obj); /* __hash__, and whoever is told, may take both out of their container */
    Py_XINCREF(key);
    if (key != NULL && (part = PyObject_Hash(key)) == -1)
        goto out;
    path->part[path->depth].key = key;
    path->part[path->depth].index = index;
    path->depth++;
    path->hash = base_hash_mix(outer, (uint64_t)part * 2 + (key != NULL));
    result = tensor_nest_walk(torch, obj, path, found, context);
    path->depth--;
    path->hash = outer;
out:
    Py_XDECREF(key);
    Py_DECREF(obj);
    return result;
}

static int walk_dict(tensor_torch *torch, PyObject *dict, tensor_nest_place *path,
                     tensor_nest_found *found, void *context)
{
    PyObject *key, *value; /* borrowed */
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value))
        if (walk_part(torch, value, key, 0, path, found, context) < 0)
            return -1;
    return 0;
}

/* What the instance holds under this name: in its dict, or in a slot of its class.  New
 * reference, or NULL without an exception.  Runs no code of the class's author. */
static PyObject *held_as(PyObject *obj, PyObject *dict, PyObject *name)
{
    PyObject *value = dict != NULL ? Py_XNewRef(PyDict_GetItemWithError(dict, name)) : NULL; /* owned */
    if (value == NULL) {
        PyErr_Clear();
        PyObject *slot = _PyType_Lookup(Py_TYPE(obj), name); /* borrowed */
        if (slot != NULL && Py_IS_TYPE(slot, &PyMemberDescr_Type))
            value = PyMemberDescr_Type.tp_descr_get(slot, obj, (PyObject *)Py_TYPE(obj));
    }
    PyErr_Clear(); /* a field that was never set */
    return value;
}

static int walk_dataclass(tensor_torch *torch, PyObject *obj, tensor_nest_place *path,
                          tensor_nest_found *found, void *context)
{
    PyObject *fields = NULL, *dict = NULL; /* owned */
    PyObject *key, *field;                 /* borrowed */
    Py_ssize_t at = 0;
    int result = 0;
    if (PyObject_GetOptionalAttrString((PyObject *)Py_TYPE(obj), "__dataclass_fields__", &fields) > 0 &&
        PyDict_Check(fields))
        dict = PyObject_GenericGetDict(obj, NULL);
    else
        Py_CLEAR(fields);
    PyErr_Clear(); /* slots=True: it has no dict */
    while (result == 0 && fields != NULL && PyDict_Next(fields, &at, &key, &field)) {
        PyObject *value = held_as(obj, dict, key); /* owned */
        if (value != NULL)
            result = walk_part(torch, value, key, 0, path, found, context);
        Py_XDECREF(value);
    }
    Py_XDECREF(fields);
    Py_XDECREF(dict);
    return result;
}

int tensor_nest_walk(tensor_torch *torch, PyObject *obj, tensor_nest_place *path,
                     tensor_nest_found *found, void *context)
{
    if (tensor_torch_is_tensor(torch, obj)) {
        path->found++;
        return found(context, obj, path);
    }
    if (PyTuple_Check(obj) || PyList_Check(obj)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(obj); i++)
            if (walk_part(torch, PySequence_Fast_GET_ITEM(obj, i), NULL, i, path, found, context) < 0)
                return -1;
        return 0;
    }
    if (PyDict_Check(obj))
        return walk_dict(torch, obj, path, found, context);
    if (obj == Py_None || PyLong_Check(obj) || PyFloat_Check(obj) || PyUnicode_Check(obj))
        return 0;
    return walk_dataclass(torch, obj, path, found, context);
}

PyObject *tensor_nest_name(PyObject *name, const tensor_nest_place *path)
{
    PyObject *text = Py_NewRef(name);
    for (int i = 0; i < path->depth && text != NULL; i++) {
        PyObject *longer = path->part[i].key != NULL
                               ? PyUnicode_FromFormat("%U.%S", text, path->part[i].key)
                               : PyUnicode_FromFormat("%U.%zd", text, path->part[i].index);
        Py_SETREF(text, longer);
    }
    return text;
}
