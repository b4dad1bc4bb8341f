/* signature.c -- one number for a container or object and all that is in it.
 *
 * Exists because a list that was appended to is the same object as before.
 * Tensors count by address, memory and version, or by contents; numbers and
 * texts by value; the rest by what they are made of, to a limit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

#include "base/hash.h"

#include <string.h>

enum { MOST_DEPTH = 8, MOST_PARTS = 10000 };

typedef struct signing {
    trace_tracer *tracer;
    uint64_t hash;
    PyObject *refs; /* borrowed list or NULL */
    int depth, parts;
    bool by_content;
} signing;

static void mix(signing *work, uint64_t part)
{
    work->hash = base_hash_mix(work->hash, part);
}

static void sign(signing *work, PyObject *value);

static void sign_memory(signing *work, PyObject *value, trace_kind kind)
{
    tt_digest digest;
    uint32_t version = 0;
    if (kind == KIND_TENSOR && !work->by_content && trace_version(work->tracer, value, &version)) {
        PyObject *ref = PyWeakref_NewRef(value, NULL); /* owned */
        mix(work, (uint64_t)(uintptr_t)value);
        mix(work, (uint64_t)(uintptr_t)trace_memory(work->tracer, value));
        mix(work, version);
        if (ref != NULL && work->refs != NULL)
            PyList_Append(work->refs, ref);
        Py_XDECREF(ref);
    } else if (trace_digest(work->tracer, value, &digest)) {
        mix(work, digest.low);
        mix(work, digest.high);
    } else {
        mix(work, (uint64_t)(uintptr_t)value);
    }
}

static void sign_dict(signing *work, PyObject *dict)
{
    PyObject *key, *value; /* borrowed */
    Py_ssize_t at = 0;
    mix(work, (uint64_t)PyDict_GET_SIZE(dict));
    while (PyDict_Next(dict, &at, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        sign(work, key);
        sign(work, value);
        Py_DECREF(key);
        Py_DECREF(value);
    }
}

/* Numbers by their bits: Python's hash of -1 is that of -2. */
static void sign_plain(signing *work, PyObject *value)
{
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        mix(work, bits);
        return;
    }
    if (PyLong_CheckExact(value))
        mix(work, PyLong_AsUnsignedLongLongMask(value));
    mix(work, (uint64_t)PyObject_Hash(value));
}

/* Hashing runs code of the user's only where the type is the user's. */
static void sign_opaque(signing *work, PyObject *value)
{
    Py_hash_t hash = -1;
    if (!(Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE))
        hash = PyObject_Hash(value);
    mix(work, hash != -1 ? (uint64_t)hash : (uint64_t)(uintptr_t)value);
}

/* Containers that cannot be hashed, and whose iteration is Python's own. */
static bool can_iterate(PyObject *value)
{
    return PyAnySet_CheckExact(value) || PyByteArray_CheckExact(value) ||
           strcmp(Py_TYPE(value)->tp_name, "collections.deque") == 0;
}

static void sign_iterable(signing *work, PyObject *value)
{
    PyObject *items = PySequence_List(value); /* owned: a copy, which nobody changes */
    if (items != NULL)
        sign(work, items);
    Py_XDECREF(items);
}

static void sign_other(signing *work, PyObject *value)
{
    if (PyList_Check(value) || PyTuple_Check(value)) {
        mix(work, (uint64_t)PySequence_Fast_GET_SIZE(value));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++) {
            PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(value, i)); /* owned */
            sign(work, item);
            Py_DECREF(item);
        }
        return;
    }
    if (PyDict_Check(value)) {
        sign_dict(work, value);
        return;
    }
    PyObject *dict = NULL; /* owned */
    if (!PyType_Check(value) && !PyModule_Check(value) && !PyFunction_Check(value))
        dict = PyObject_GenericGetDict(value, NULL);
    PyErr_Clear();
    if (dict != NULL && PyDict_Check(dict))
        sign_dict(work, dict);
    else if (can_iterate(value))
        sign_iterable(work, value);
    else
        sign_opaque(work, value);
    Py_XDECREF(dict);
}

static void sign(signing *work, PyObject *value)
{
    PyErr_Clear();
    if (work->parts++ > MOST_PARTS || work->depth >= MOST_DEPTH)
        return;
    trace_kind kind = trace_kind_of(work->tracer, value);
    mix(work, (uint64_t)(uintptr_t)Py_TYPE(value));
    work->depth++;
    if (kind == KIND_TENSOR || kind == KIND_ARRAY)
        sign_memory(work, value, kind);
    else if (kind == KIND_PLAIN)
        sign_plain(work, value);
    else
        sign_other(work, value);
    work->depth--;
    PyErr_Clear();
}

uint64_t trace_signature(trace_tracer *self, PyObject *value, bool by_content, PyObject *refs)
{
    signing work = { .tracer = self, .refs = refs, .by_content = by_content };
    sign(&work, value);
    return work.hash;
}
