/* copy.c -- a tensor as it is now, copied once.
 *
 * A cache entry is address -> (weak reference to the tensor, to the copy, a number that
 * stands for version and layout).  While the tensor lives, nobody else has its memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/copy.h"

#include "base/hash.h"
#include "tensor/view.h"

/* ---- the cache ------------------------------------------------------------------ */

/* New reference, or NULL without an exception. */
static PyObject *find_copy(PyObject *cache, PyObject *key, uint64_t state)
{
    PyObject *entry = PyDict_GetItemWithError(cache, key), *copy = NULL; /* borrowed, owned */
    if (entry != NULL && !base_weakref_is(PyTuple_GET_ITEM(entry, 0), NULL) &&
        PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(entry, 2)) == state)
        (void)PyWeakref_GetRef(PyTuple_GET_ITEM(entry, 1), &copy);
    PyErr_Clear();
    return copy;
}

/* Does nothing if it fails: then the next one is copied again. */
static void remember(PyObject *cache, PyObject *key, PyObject *tensor, PyObject *copy, uint64_t state)
{
    PyObject *parts[] = { PyWeakref_NewRef(tensor, NULL), PyWeakref_NewRef(copy, NULL),
                          PyLong_FromUnsignedLongLong(state) }; /* owned */
    PyObject *entry = parts[0] != NULL && parts[1] != NULL && parts[2] != NULL
                          ? PyTuple_Pack(3, parts[0], parts[1], parts[2])
                          : NULL; /* owned */
    if (entry != NULL)
        (void)PyDict_SetItem(cache, key, entry);
    PyErr_Clear();
    for (int i = 0; i < 3; i++)
        Py_XDECREF(parts[i]);
    Py_XDECREF(entry);
}

static uint64_t layout_of(const tt_tensor *t)
{
    uint64_t hash = (uint64_t)t->dtype + 1;
    for (int32_t d = 0; d < t->ndim; d++)
        hash = base_hash_mix(base_hash_mix(hash, (uint64_t)t->shape[d]), (uint64_t)t->stride[d]);
    return hash;
}

/* ---- cloning --------------------------------------------------------------------- */

static bool is_yes(PyObject *function)
{
    PyObject *answer = function != NULL ? PyObject_CallNoArgs(function) : NULL; /* owned */
    bool is_so = answer == NULL || PyObject_IsTrue(answer) != 0;
    PyErr_Clear();
    Py_XDECREF(answer);
    return is_so;
}

/* Would a plain clone be seen by the program, or be of a kind of its own? */
static bool has_modes(const tensor_torch *torch)
{
    return is_yes(torch->function_modes) || is_yes(torch->dispatch_modes) ||
           is_yes(torch->inference_mode) || is_yes(torch->functorch_level);
}

static PyObject *make_clone(const tensor_torch *torch, PyObject *tensor)
{
    bool has_grad = is_yes(torch->is_grad_enabled);
    PyObject *done = NULL, *copy = NULL; /* owned */
    if (has_grad)
        done = PyObject_CallOneArg(torch->set_grad_enabled, Py_False);
    copy = PyErr_Occurred() ? NULL : PyObject_CallOneArg(torch->clone, tensor);
    PyObject *error = PyErr_GetRaisedException(); /* owned */
    Py_XDECREF(done);
    if (has_grad)
        Py_XDECREF(PyObject_CallOneArg(torch->set_grad_enabled, Py_True));
    PyErr_SetRaisedException(error);
    return copy;
}

PyObject *tensor_copy(tensor_torch *torch, PyObject *cache, PyObject *tensor, PyObject *make,
                      const tensor_fingerprint *seen, const tensor_view *view, bool is_fresh)
{
    tensor_view own;
    bool has_view = view != NULL;
    uint32_t version = 0;
    bool is_usual = tensor_torch_is_plain(torch, tensor) && torch->clone != NULL &&
                    torch->set_grad_enabled != NULL && !has_modes(torch) &&
                    (has_view || tensor_view_open(torch, tensor, &own) == VIEW_OK);
    if (!is_usual && make == NULL)
        return NULL;
    const void *address = tensor; /* of what has no memory that we know */
    uint64_t state = 0;
    if (is_usual) {
        const tensor_view *open = has_view ? view : &own;
        address = open->temporary == NULL ? open->tensor.data : address;
        state = layout_of(&open->tensor);
        if (!has_view)
            tensor_view_close(&own);
    }
    if (seen != NULL)
        version = seen->version;
    if (cache != NULL &&
        !(seen != NULL ? seen->has_version : tensor_version_read(torch, tensor, 0, &version)))
        cache = NULL; /* changes are not counted: it may have changed since */
    state = base_hash_mix(state, version);
    PyObject *key = PyLong_FromVoidPtr((void *)(uintptr_t)address); /* owned */
    PyObject *copy = NULL;                                          /* owned */
    if (key != NULL && cache != NULL && !is_fresh)
        copy = find_copy(cache, key, state);
    if (key != NULL && copy == NULL) {
        copy = is_usual ? make_clone(torch, tensor) : PyObject_CallOneArg(make, tensor);
        if (copy != NULL && cache != NULL)
            remember(cache, key, tensor, copy, state);
    }
    Py_XDECREF(key);
    return copy;
}
