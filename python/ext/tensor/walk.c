/* walk.c -- what a value holds, and the tensors in it.
 *
 * The path of each tensor is a hash first, so that a consumer can keep what it
 * knows of a path without building its name at every call.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/walk.h"

#include "base/hash.h"

#include <string.h>

enum {
    STAGE_SEQUENCE,
    STAGE_DICT,
    STAGE_SET,
    STAGE_FIELDS,
    STAGE_TABLES,
    STAGE_SLOTS = STAGE_TABLES + 4,
    STAGE_END
};

/* ---- what an object holds ---------------------------------------------------- */

/* The instance dict; new reference, or NULL without an exception. */
static PyObject *instance_dict(PyObject *obj)
{
    PyObject *dict = NULL;
    if (!PyType_Check(obj) && !PyModule_Check(obj) && !PyFunction_Check(obj))
        dict = PyObject_GenericGetDict(obj, NULL);
    PyErr_Clear();
    if (dict != NULL && !PyDict_Check(dict))
        Py_CLEAR(dict);
    return dict;
}

/* What the instance holds under this name: in its dict, or in a slot of its class.  New
 * reference, or NULL without an exception. */
static PyObject *attribute_of(PyObject *obj, PyObject *dict, PyObject *name)
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

static bool is_module(const tensor_torch *torch, PyObject *obj)
{
    return torch->module != NULL && PyType_IsSubtype(Py_TYPE(obj), torch->module);
}

static PyObject *dataclass_fields(PyObject *obj)
{
    PyObject *fields = NULL; /* owned */
    if (!(Py_TYPE(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE) ||
        PyObject_GetOptionalAttrString((PyObject *)Py_TYPE(obj), "__dataclass_fields__", &fields) <= 0)
        PyErr_Clear();
    else if (!PyDict_Check(fields))
        Py_CLEAR(fields);
    return fields;
}

static const char *const tables[] = { "_parameters", "_buffers", "_modules" };
enum { TABLES = sizeof tables / sizeof *tables };

/* A dict of a module's by its name; new reference or NULL. */
static PyObject *module_table(PyObject *dict, int number)
{
    PyObject *table = NULL; /* owned */
    if (PyDict_GetItemStringRef(dict, tables[number], &table) > 0 && !PyDict_Check(table))
        Py_CLEAR(table);
    PyErr_Clear();
    return table;
}

/* ---- one level --------------------------------------------------------------- */

static bool is_deque(PyObject *obj)
{
    return strcmp(Py_TYPE(obj)->tp_name, "collections.deque") == 0;
}

void tensor_children_open(tensor_children *it, tensor_torch *torch, PyObject *obj, unsigned which)
{
    *it = (tensor_children){ .owner = obj, .which = which, .stage = STAGE_END };
    if (PyTuple_Check(obj) || PyList_Check(obj)) {
        it->stage = STAGE_SEQUENCE;
    } else if (PyDict_Check(obj)) {
        it->stage = STAGE_DICT;
        it->table = Py_NewRef(obj);
    } else if (which & CHILDREN_SETS && (PyAnySet_Check(obj) || is_deque(obj))) {
        it->stage = STAGE_SET;
        it->iterator = PyAnySet_Check(obj) ? PySet_Type.tp_iter(obj) : PyObject_GetIter(obj);
        PyErr_Clear();
    } else if (which & CHILDREN_FIELDS && (it->fields = dataclass_fields(obj)) != NULL) {
        it->stage = STAGE_FIELDS;
        it->dict = instance_dict(obj);
    } else if (which & (CHILDREN_OBJECTS | CHILDREN_MODULES) && !PyType_Check(obj) &&
               !PyLong_Check(obj) && !PyUnicode_Check(obj) && obj != Py_None) {
        bool has_tables = which & CHILDREN_MODULES && is_module(torch, obj);
        it->dict = instance_dict(obj);
        it->stage = has_tables                 ? STAGE_TABLES
                    : which & CHILDREN_OBJECTS ? STAGE_TABLES + TABLES
                                               : STAGE_END;
    }
}

void tensor_children_close(tensor_children *it)
{
    Py_CLEAR(it->key);
    Py_CLEAR(it->value);
    Py_CLEAR(it->dict);
    Py_CLEAR(it->table);
    Py_CLEAR(it->iterator);
    Py_CLEAR(it->fields);
    it->stage = STAGE_END;
}

bool tensor_children_has_any(const tensor_children *it)
{
    return it->stage != STAGE_END;
}

PyObject *tensor_children_key(const tensor_children *it)
{
    return it->key != NULL ? Py_NewRef(it->key) : PyLong_FromSsize_t(it->index);
}

static bool next_in_table(tensor_children *it)
{
    PyObject *key, *value; /* borrowed */
    if (it->table == NULL || !PyDict_Next(it->table, &it->at, &key, &value))
        return false;
    it->key = Py_NewRef(key);
    it->value = Py_NewRef(value);
    return true;
}

static bool next_field(tensor_children *it)
{
    PyObject *key, *field; /* borrowed */
    while (it->value == NULL && PyDict_Next(it->fields, &it->at, &key, &field))
        if ((it->value = attribute_of(it->owner, it->dict, key)) != NULL)
            it->key = Py_NewRef(key);
    return it->value != NULL;
}

/* Slots are member descriptors in the dicts of the classes. */
static bool next_slot(tensor_children *it)
{
    PyObject *mro = Py_TYPE(it->owner)->tp_mro; /* borrowed */
    PyObject *key, *member;                     /* borrowed */
    for (; mro != NULL && it->type_at < PyTuple_GET_SIZE(mro); it->type_at++, it->at = 0) {
        PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(mro, it->type_at);
        if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_dict == NULL)
            continue;
        while (PyDict_Next(type->tp_dict, &it->at, &key, &member)) {
            if (!Py_IS_TYPE(member, &PyMemberDescr_Type))
                continue;
            it->value = PyMemberDescr_Type.tp_descr_get(member, it->owner, (PyObject *)type);
            PyErr_Clear(); /* never set */
            if (it->value == NULL)
                continue;
            it->key = Py_NewRef(key);
            return true;
        }
    }
    return false;
}

/* The tables of a module one after the other, then the instance dict and slots. */
static bool next_attribute(tensor_children *it)
{
    for (; it->stage < STAGE_SLOTS; it->stage++, it->at = 0) {
        int number = it->stage - STAGE_TABLES;
        if (number == TABLES && !(it->which & CHILDREN_OBJECTS))
            return false;
        if (it->table == NULL && it->dict != NULL)
            it->table = number < TABLES ? module_table(it->dict, number) : Py_NewRef(it->dict);
        it->is_registered = number < 2;
        while (next_in_table(it)) {
            if (number >= TABLES || it->value != Py_None)
                return true;
            Py_CLEAR(it->key); /* registered as None */
            Py_CLEAR(it->value);
        }
        Py_CLEAR(it->table);
    }
    it->is_registered = false;
    return next_slot(it);
}

bool tensor_children_next(tensor_children *it)
{
    Py_CLEAR(it->key);
    Py_CLEAR(it->value);
    switch (it->stage) {
    case STAGE_SEQUENCE:
        if (it->at >= PySequence_Fast_GET_SIZE(it->owner))
            return false;
        it->index = it->at++;
        it->value = Py_NewRef(PySequence_Fast_GET_ITEM(it->owner, it->index));
        return true;
    case STAGE_DICT:
        return next_in_table(it);
    case STAGE_SET:
        it->value = it->iterator != NULL ? PyIter_Next(it->iterator) : NULL;
        it->index = it->at++;
        PyErr_Clear(); /* it changed meanwhile */
        return it->value != NULL;
    case STAGE_FIELDS:
        return next_field(it);
    case STAGE_END:
        return false;
    default:
        return next_attribute(it);
    }
}

/* The index that a text means; -1: none. */
static Py_ssize_t index_of(PyObject *text)
{
    Py_ssize_t index = 0, length = PyUnicode_GET_LENGTH(text);
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 digit = PyUnicode_READ_CHAR(text, i);
        if (digit < '0' || digit > '9' || i > 8)
            return -1;
        index = index * 10 + (Py_ssize_t)(digit - '0');
    }
    return length > 0 ? index : -1;
}

/* By its text, or by the number that the text means. */
static PyObject *in_dict(PyObject *dict, PyObject *name)
{
    PyObject *value = Py_XNewRef(PyDict_GetItemWithError(dict, name)); /* owned */
    Py_ssize_t index = value == NULL ? index_of(name) : -1;
    PyObject *number = index >= 0 ? PyLong_FromSsize_t(index) : NULL; /* owned */
    if (number != NULL)
        value = Py_XNewRef(PyDict_GetItemWithError(dict, number));
    PyErr_Clear();
    Py_XDECREF(number);
    return value;
}

PyObject *tensor_child_named(tensor_torch *torch, PyObject *obj, PyObject *name, bool *is_registered)
{
    PyObject *found = NULL; /* owned */
    if (PyList_Check(obj) || PyTuple_Check(obj)) {
        Py_ssize_t index = index_of(name);
        if (index >= 0)
            return index < PySequence_Fast_GET_SIZE(obj) ? Py_NewRef(PySequence_Fast_GET_ITEM(obj, index))
                                                         : NULL;
        if (!PyTuple_CheckExact(obj) && PyTuple_Check(obj)) /* a field of a named tuple */
            (void)PyObject_GetOptionalAttr(obj, name, &found);
        PyErr_Clear();
        return found;
    }
    if (PyDict_Check(obj) && (found = in_dict(obj, name)) != NULL)
        return found;
    PyObject *dict = instance_dict(obj); /* owned */
    for (int i = 0; dict != NULL && is_module(torch, obj) && i < TABLES && found == NULL; i++) {
        PyObject *table = module_table(dict, i); /* owned */
        found = table != NULL ? in_dict(table, name) : NULL;
        *is_registered = *is_registered || (found != NULL && i < 2);
        Py_XDECREF(table);
    }
    if (found == NULL && dict != NULL)
        found = in_dict(dict, name);
    if (found == NULL)
        found = attribute_of(obj, NULL, name);
    Py_XDECREF(dict);
    return found;
}

/* ---- all levels ---------------------------------------------------------------- */

static int walk(tensor_torch *torch, PyObject *obj, tensor_path *path, tensor_found *found,
                void *context);

/* One step down; -1 with an exception. */
static int walk_child(tensor_torch *torch, const tensor_children *it, tensor_path *path,
                      tensor_found *found, void *context)
{
    uint64_t outer = path->hash;
    Py_hash_t step = it->key != NULL ? PyObject_Hash(it->key) : (Py_hash_t)it->index;
    if (step == -1 && it->key != NULL)
        return -1;
    path->step[path->depth].key = it->key;
    path->step[path->depth].index = it->index;
    path->depth++;
    path->hash = base_hash_mix(outer, (uint64_t)step * 2 + (it->key != NULL));
    int result = walk(torch, it->value, path, found, context);
    path->depth--;
    path->hash = outer;
    return result;
}

static int walk(tensor_torch *torch, PyObject *obj, tensor_path *path, tensor_found *found, void *context)
{
    tensor_children it;
    int result = 0;
    if (tensor_torch_is_tensor(torch, obj)) {
        path->found++;
        return found(context, obj, path);
    }
    if (path->depth == WALK_DEPTH)
        return 0;
    tensor_children_open(&it, torch, obj, CHILDREN_FIELDS);
    while (result == 0 && path->found < WALK_COUNT && tensor_children_next(&it))
        result = walk_child(torch, &it, path, found, context);
    tensor_children_close(&it);
    return result;
}

int tensor_walk(tensor_torch *torch, PyObject *obj, tensor_found *found, void *context)
{
    tensor_path path; /* steps are set before they are read */
    path.depth = path.found = 0;
    path.hash = 0;
    return walk(torch, obj, &path, found, context);
}

PyObject *tensor_path_name(PyObject *name, const tensor_path *path)
{
    PyObject *text = Py_NewRef(name);
    for (int i = 0; i < path->depth && text != NULL; i++) {
        PyObject *longer = path->step[i].key != NULL
                               ? PyUnicode_FromFormat("%U.%S", text, path->step[i].key)
                               : PyUnicode_FromFormat("%U.%zd", text, path->step[i].index);
        Py_SETREF(text, longer);
    }
    return text;
}
