/* view.c -- reads torch tensors, and everything else that speaks DLPack.
 *
 * Tensors that are dense and lie in CPU memory are described by symbols.c.  Those that stand for other
 * values (conjugated, negated, all zeros) are copied first.  The rest is refused.  Torch's own way
 * (`__dlpack__`) is a Python function that takes longer than the statistics of a small tensor: it is
 * for a torch without the functions of symbols.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/view.h"

#include "tensor/facts.h"

/* DLPack's owning struct, as far as we look into it; the older one begins with the tensor. */
typedef struct managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(void *);
    uint64_t flags;
    tt_dltensor tensor;
} managed_versioned;

/* A chain of method calls without arguments: detach, resolve_conj, ... */
static PyObject *call_chain(PyObject *obj, const char *const *names)
{
    PyObject *at = Py_NewRef(obj);
    for (; *names != NULL && at != NULL; names++) {
        PyObject *next = PyObject_CallMethod(at, *names, NULL);
        Py_SETREF(at, next);
    }
    if (at == NULL)
        PyErr_Clear();
    return at;
}

/* Borrows from the capsule and keeps it unconsumed: its own destructor calls
 * the deleter, once. */
static tensor_view_result open_capsule(PyObject *obj, tensor_view *out)
{
    PyObject *capsule = PyObject_CallMethod(obj, "__dlpack__", NULL); /* owned */
    const tt_dltensor *dl = NULL;
    tensor_view_result why = VIEW_LAYOUT;
    if (capsule == NULL)
        goto out;
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl = PyCapsule_GetPointer(capsule, "dltensor");
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        const managed_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (m->major == 1)
            dl = &m->tensor;
    }
    if (dl != NULL) {
        tt_status st = tt_tensor_from_dlpack(&out->tensor, dl, &out->error);
        why = st == TT_OK        ? VIEW_OK
              : st == TT_EDTYPE  ? VIEW_DTYPE
              : st == TT_EDEVICE ? VIEW_DEVICE
                                 : VIEW_LAYOUT;
    }
    if (why == VIEW_OK)
        out->temporary = Py_NewRef(capsule);
out:
    PyErr_Clear();
    Py_XDECREF(capsule);
    return why;
}

/* Calls a method without arguments that gives a number; -1: it does not. */
static int64_t ask_number(PyObject *obj, const char *method)
{
    PyObject *number = obj != NULL ? PyObject_CallMethod(obj, method, NULL) : NULL; /* owned */
    long long value = number != NULL ? PyLong_AsLongLong(number) : -1;
    PyErr_Clear();
    Py_XDECREF(number);
    return value;
}

/* Has it memory?  Asking for that of a wrapper in C costs an exception, and a message on stderr. */
static bool has_memory(PyObject *obj)
{
    int64_t address = ask_number(obj, "data_ptr");
    return address > 0 || (address == 0 && ask_number(obj, "numel") == 0);
}

/* Describes a dense tensor in CPU memory, of a torch without the functions of symbols.h. */
static tensor_view_result describe_slowly(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    PyObject *owner = NULL, *storage = NULL; /* owned */
    tensor_view_result why = VIEW_LAYOUT;
    tt_dtype dtype;
    if (!tensor_torch_is(tensor_torch_get(torch->layout, obj), torch->strided) ||
        !tensor_torch_is(tensor_torch_get(torch->is_cpu, obj), Py_True) ||
        tensor_torch_ask(torch->is_neg, obj) || tensor_torch_ask(torch->is_conj, obj) || !has_memory(obj))
        return VIEW_LAYOUT;
    PyObject *detached = call_chain(obj, (const char *const[]){ "detach", NULL }); /* owned */
    if (detached != NULL && open_capsule(detached, out) == VIEW_OK &&
        tensor_dtype_find(tensor_fact_dtype(obj, &owner), &dtype) &&
        dtype == out->tensor.dtype) { /* torch calls its 1 to 7 bit integers int8 and uint8 here */
        storage = PyObject_CallMethod(obj, "untyped_storage", NULL);
        why =
            tensor_is_held(&out->tensor, ask_number(obj, "storage_offset"), ask_number(storage, "nbytes"))
                ? VIEW_OK
                : VIEW_FREED;
    }
    PyErr_Clear();
    Py_XDECREF(owner);
    Py_XDECREF(storage);
    Py_XDECREF(detached);
    return why;
}

/* Describes a dense tensor in CPU memory with no lazy bits.  Says why not only where nothing else is wrong. */
static tensor_view_result describe(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    tensor_handle tensor = tensor_torch_handle(torch, obj);
    tensor_view_result why = tensor == NULL                          ? describe_slowly(torch, obj, out)
                             : tensor_describe(tensor, &out->tensor) ? VIEW_OK
                                                                     : VIEW_FREED;
    if (why == VIEW_OK &&
        tt_dtype_kind(out->tensor.dtype) == TT_KIND_COMPLEX && /* no other type can be */
        tensor_torch_ask(torch->is_conj, obj))
        why = VIEW_LAYOUT;
    if (why != VIEW_OK)
        tensor_view_close(out);
    return why;
}

/* Makes a copy of what stands for other values than its memory has; nobody else knows its memory. */
static bool open_copy(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    if (!tensor_torch_is(tensor_torch_get(torch->is_cpu, obj), Py_True))
        return false;
    bool is_zero = tensor_torch_is(PyObject_CallMethod(obj, "_is_zerotensor", NULL), Py_True);
    if (!is_zero && !tensor_torch_ask(torch->is_neg, obj) && !tensor_torch_ask(torch->is_conj, obj))
        return false;
    PyObject *copy = call_chain(obj, is_zero ? (const char *const[]){ "detach", "clone", NULL }
                                             : (const char *const[]){ "detach", "resolve_conj",
                                                                      "resolve_neg", NULL }); /* owned */
    bool is_read = copy != NULL && describe(torch, copy, out) == VIEW_OK;
    if (is_read) {
        Py_XSETREF(out->temporary, Py_NewRef(copy));
        out->is_private = true;
    }
    Py_XDECREF(copy);
    return is_read;
}

/* The common case, at once.  False says nothing. */
static bool open_quick(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    tensor_handle tensor = tensor_torch_handle(torch, obj);
    return tensor != NULL && tensor_describe(tensor, &out->tensor) &&
           tt_dtype_kind(out->tensor.dtype) != TT_KIND_COMPLEX; /* a mode of torch sees it being asked */
}

static tensor_view_result open_torch(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    bool is_plain = tensor_torch_is_plain(torch, obj);
    PyObject *guard = NULL; /* owned */
    if (!is_plain && tensor_is_fake(obj))
        return VIEW_FAKE;
    if (!is_plain || tensor_has_function_mode(torch))
        guard = tensor_quiet_enter(torch);
    tensor_view_result why = VIEW_FREED;
    if (is_plain || has_memory(obj)) {
        why = describe(torch, obj, out);
        if (why != VIEW_OK && open_copy(torch, obj, out))
            why = VIEW_OK;
    }
    bool is_read = why == VIEW_OK;
    if (!is_read || (!is_plain && out->tensor.count == 0)) { /* a shell without a shape has no elements */
        tensor_view_result closer = tensor_diagnose(torch, obj);
        if (closer == VIEW_UNINITIALIZED || (!is_read && closer != VIEW_OK))
            why = closer;
    }
    if (is_read && why != VIEW_OK)
        tensor_view_close(out);
    tensor_quiet_leave(guard);
    return why;
}

static tensor_view_result open_other(PyObject *obj, tensor_view *out)
{
    if (PyObject_CheckBuffer(obj))
        return tensor_array_open(obj, out);
    PyObject *method = NULL; /* owned */
    PyObject *type = (PyObject *)Py_TYPE(obj);
    bool speaks_dlpack = PyObject_GetOptionalAttrString(type, "__dlpack__", &method) > 0;
    PyErr_Clear();
    Py_XDECREF(method);
    return speaks_dlpack ? open_capsule(obj, out) : VIEW_NOT_TENSOR;
}

tensor_view_result tensor_view_open(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    out->temporary = NULL;
    out->has_buffer = false;
    out->is_private = false;
    out->error.text[0] = '\0';
    if (torch->tensor == NULL && !PyObject_CheckBuffer(obj))
        tensor_torch_find(torch);
    if (torch->tensor != NULL && tensor_torch_is_plain(torch, obj) && open_quick(torch, obj, out))
        return VIEW_OK;
    if (tensor_torch_is_tensor(torch, obj))
        return open_torch(torch, obj, out);
    return open_other(obj, out);
}

void tensor_view_close(tensor_view *view)
{
    Py_CLEAR(view->temporary);
    if (view->has_buffer) {
        PyBuffer_Release(&view->buffer);
        view->has_buffer = false;
    }
    view->is_private = false;
}
