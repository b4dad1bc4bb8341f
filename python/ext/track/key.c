/* key.c -- 128 bits that stand for any value, containers and all.
 *
 * Exists so that lists, dicts, sets and tuples are compared with what they held
 * before without a copy of them, and without touching what their elements
 * define: only the types that Python and NumPy bring are looked into, all else
 * counts by its address.
 * SPDX-License-Identifier: Apache-2.0 */
#include "track/engine.h"

#include <string.h>

/* A container is looked into to this depth, and to so many elements in all;
 * beyond, its length counts. */
enum { DEEPEST = 12, MOST_LEAVES = 1 << 16 };
/* A torch tensor above this size is taken by address and version at first. */
enum { QUICK_BYTES = 64 << 10 };

typedef struct key_walk {
    binding_state *state;
    bool is_quick;
    int depth;
    long leaves;
} key_walk;

enum {
    TAG_NONE = 1,
    TAG_INT,
    TAG_FLOAT,
    TAG_TEXT,
    TAG_TENSOR,
    TAG_LIST,
    TAG_TUPLE,
    TAG_DICT,
    TAG_SET,
    TAG_OTHER
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The order matters. */
static track_key join(track_key a, track_key b)
{
    return (track_key){ mix(a.low * 3 + b.low + 0x9e3779b97f4a7c15u),
                        mix(a.high * 5 + b.high + 0xd1b54a32d192ed03u) };
}

static track_key leaf(uint64_t tag, uint64_t low, uint64_t high)
{
    return (track_key){ mix(low + tag * 0x9e3779b97f4a7c15u), mix(high ^ mix(tag + low)) };
}

static track_key walk(key_walk *at, PyObject *obj);

static uint64_t version_of(PyObject *obj)
{
    PyObject *number = PyObject_GetAttrString(obj, "_version"); /* owned */
    uint64_t version = number != NULL ? (uint64_t)PyLong_AsLongLong(number) : UINT64_MAX;
    PyErr_Clear(); /* an inference tensor has none */
    Py_XDECREF(number);
    return version;
}

static track_key tensor_key(key_walk *at, PyObject *obj)
{
    tensor_view view;
    tt_digest digest;
    bool is_torch = tensor_torch_is_tensor(&at->state->torch, obj);
    if (tensor_view_open(&at->state->torch, obj, &view) !=
        VIEW_OK) { /* meta, sparse, a device's: from outside */
        track_sight sight;
        track_sight_take(at->state, obj, false, &sight);
        track_key key = leaf(TAG_TENSOR, is_torch ? version_of(obj) : 0, (uint64_t)sight.ndim);
        for (int32_t d = 0; d < sight.ndim; d++)
            key = join(key, leaf(TAG_INT, (uint64_t)sight.shape[d], 0));
        for (const char *c = sight.dtype; *c != '\0'; c++)
            key = join(key, leaf(TAG_TEXT, (uint64_t)*c, 0));
        for (const char *c = sight.device; *c != '\0'; c++)
            key = join(key, leaf(TAG_TEXT, (uint64_t)*c, 1));
        track_sight_forget(&sight);
        return key;
    }
    bool is_large = view.tensor.count > QUICK_BYTES / (int64_t)tt_dtype_size(view.tensor.dtype);
    if (at->is_quick && is_torch && is_large)
        digest = (tt_digest){ (uint64_t)(uintptr_t)view.tensor.data, version_of(obj) };
    else
        tt_digest_compute(&view.tensor, &digest);
    tensor_view_close(&view);
    return leaf(TAG_TENSOR + (is_torch ? 100u : 0), digest.low, digest.high);
}

static track_key text_key(PyObject *obj)
{
    Py_hash_t hash = PyObject_Hash(obj); /* of an exact str or bytes: cached, runs nobody's code */
    return leaf(TAG_TEXT, (uint64_t)hash, (uint64_t)Py_SIZE(obj) + (uint64_t)PyUnicode_Check(obj));
}

static track_key items_key(key_walk *at, PyObject *items, uint64_t tag)
{
    track_key key = leaf(tag, (uint64_t)Py_SIZE(items), 0);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items) && at->leaves < MOST_LEAVES; i++)
        key = join(key, walk(at, PySequence_Fast_GET_ITEM(items, i)));
    return key;
}

/* Equal dicts and sets may hold their items in another order: a sum. */
static track_key dict_key(key_walk *at, PyObject *dict)
{
    track_key sum = leaf(TAG_DICT, (uint64_t)PyDict_GET_SIZE(dict), 0);
    PyObject *name, *value; /* borrowed */
    Py_ssize_t position = 0;
    while (at->leaves < MOST_LEAVES && PyDict_Next(dict, &position, &name, &value)) {
        track_key one = join(walk(at, name), walk(at, value));
        sum = (track_key){ sum.low + one.low, sum.high + one.high };
    }
    return sum;
}

static track_key set_key(key_walk *at, PyObject *set)
{
    track_key sum = leaf(TAG_SET, (uint64_t)PySet_GET_SIZE(set), 0);
    PyObject *iterator = PySet_Type.tp_iter(set); /* owned; not a subclass's own */
    PyObject *item;                               /* owned */
    while (iterator != NULL && at->leaves < MOST_LEAVES && (item = PyIter_Next(iterator)) != NULL) {
        track_key one = walk(at, item);
        sum = (track_key){ sum.low + one.low, sum.high + one.high };
        Py_DECREF(item);
    }
    PyErr_Clear();
    Py_XDECREF(iterator);
    return sum;
}

static track_key box_key(key_walk *at, PyObject *obj)
{
    track_key key;
    if (at->depth >= DEEPEST)
        return leaf(TAG_OTHER, (uint64_t)(uintptr_t)obj, 0);
    at->depth++;
    if (PyList_Check(obj) || PyTuple_Check(obj))
        key = items_key(at, obj, PyList_Check(obj) ? TAG_LIST : TAG_TUPLE);
    else
        key = PyDict_Check(obj) ? dict_key(at, obj) : set_key(at, obj);
    at->depth--;
    return key;
}

static track_key walk(key_walk *at, PyObject *obj)
{
    at->leaves++;
    if (obj == NULL || obj == Py_None)
        return leaf(TAG_NONE, 0, 0);
    if (PyFloat_CheckExact(obj)) { /* the bits: a NaN that stays is no change */
        uint64_t bits;
        double number = PyFloat_AS_DOUBLE(obj);
        memcpy(&bits, &number, sizeof bits);
        return leaf(TAG_FLOAT, bits, 0);
    }
    if (PyLong_CheckExact(obj) || PyBool_Check(obj)) {
        int overflow = 0;
        long long number = PyLong_AsLongLongAndOverflow(obj, &overflow);
        return leaf(TAG_INT, overflow != 0 ? (uint64_t)PyObject_Hash(obj) : (uint64_t)number,
                    (uint64_t)(overflow + 2 * PyBool_Check(obj)));
    }
    if (PyUnicode_CheckExact(obj) || PyBytes_CheckExact(obj))
        return text_key(obj);
    switch (track_sight_kind_of(at->state, obj)) {
    case SIGHT_TENSOR:
        return tensor_key(at, obj);
    case SIGHT_BOX:
        return box_key(at, obj);
    case SIGHT_PLAIN: {
        Py_hash_t hash = PyObject_Hash(obj);
        PyErr_Clear();
        return leaf(TAG_OTHER, (uint64_t)hash, 1);
    }
    case SIGHT_NONE:
    case SIGHT_OTHER:
        break;
    }
    return leaf(TAG_OTHER, (uint64_t)(uintptr_t)obj, 2);
}

track_key track_key_of(binding_state *state, PyObject *obj, bool is_quick)
{
    key_walk at = { .state = state, .is_quick = is_quick };
    tensor_torch_find(&state->torch);
    return walk(&at, obj);
}

/* track_key(value) -> bytes */
BINDING_FUNCTION(track_key_function)
{
    const binding_option none[] = { { 0 } };
    if (binding_read_arguments("track_key", 1, none, args, nargs, kwnames) < 0)
        return NULL;
    track_key key = track_key_of(binding_state_of(module), args[0], false);
    return PyBytes_FromStringAndSize((const char *)&key, sizeof key);
}
