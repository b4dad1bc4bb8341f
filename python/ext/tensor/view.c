/* view.c -- reads torch tensors, and everything else that speaks DLPack.
 *
 * Nearly all tensors are dense and lie in CPU memory: symbols.c describes them.  Of the others,
 * torch's own way (`__dlpack__`) is a Python function that takes longer than the statistics of a
 * small tensor, and refuses tensors that require grad; and torch's C way (the exchange table) says yes
 * to tensors whose values it gets wrong: conj and neg views are read as if the bit were not set, fake
 * and wrapper tensors come without memory.  The checks that make the C way safe are here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/view.h"

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

static tensor_view_result from_dltensor(const tt_dltensor *dl, tensor_view *out)
{
    tt_status st = tt_tensor_from_dlpack(&out->tensor, dl, &out->error);
    return st == TT_OK        ? VIEW_OK
           : st == TT_EDTYPE  ? VIEW_DTYPE
           : st == TT_EDEVICE ? VIEW_DEVICE
                              : VIEW_LAYOUT;
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
    if (dl != NULL)
        why = from_dltensor(dl, out);
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

/* Does the storage have memory, and enough of it?  Torch gives "NULL plus the offset" for a view of a
 * storage that was freed, and for wrappers whose values are elsewhere (DTensor). */
static tensor_view_result check_storage(tensor_torch *torch, PyObject *obj, const tt_tensor *t)
{
    int64_t size = -1, offset = -1;
    tensor_handle tensor = tensor_torch_handle(torch, obj);
    const tensor_symbols *symbols = tensor_symbols_get();
    if (tensor != NULL) {
        if (symbols->storage_offset(tensor, &offset) != 0 || symbols->storage_size(tensor, &size) != 0)
            return VIEW_FREED;
    } else {
        PyObject *storage = PyObject_CallMethod(obj, "untyped_storage", NULL); /* owned */
        size = ask_number(storage, "nbytes");
        offset = ask_number(obj, "storage_offset");
        PyErr_Clear();
        Py_XDECREF(storage);
    }
    if (t->count > 0 && offset >= 0 && (uintptr_t)t->data == (uint64_t)offset * tt_dtype_size(t->dtype))
        return VIEW_LAYOUT;
    return t->count == 0 || (size >= 0 && offset >= 0 && tensor_is_held(t, offset, size)) ? VIEW_OK
                                                                                          : VIEW_FREED;
}

/* The plain part: obj is a strided tensor in CPU memory with no lazy bits. */
static tensor_view_result open_strided(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    tensor_view_result why = VIEW_LAYOUT;
    if (torch->view == NULL) {
        PyObject *detached = call_chain(obj, (const char *const[]){ "detach", NULL });
        why = detached != NULL ? open_capsule(detached, out) : VIEW_LAYOUT;
        Py_XDECREF(detached);
    } else {
        tt_dltensor dl;
        if (torch->view(obj, &dl) == 0)
            why = from_dltensor(&dl, out);
        PyErr_Clear();
    }
    if (why == VIEW_OK && (why = check_storage(torch, obj, &out->tensor)) != VIEW_OK)
        tensor_view_close(out);
    return why;
}

/* Makes a copy without the lazy bits; nobody else knows its memory. */
static tensor_view_result open_copy(tensor_torch *torch, PyObject *obj, const char *const *how,
                                    tensor_view *out)
{
    PyObject *copy = call_chain(obj, how); /* owned */
    tensor_view_result why = copy != NULL ? open_strided(torch, copy, out) : VIEW_LAYOUT;
    if (why == VIEW_OK) {
        Py_XSETREF(out->temporary, Py_NewRef(copy));
        out->is_private = true;
    }
    Py_XDECREF(copy);
    return why;
}

static bool is_zero_tensor(PyObject *obj)
{
    return tensor_torch_is(PyObject_CallMethod(obj, "_is_zerotensor", NULL), Py_True);
}

static bool is_negated(tensor_torch *torch, PyObject *obj)
{
    tensor_handle tensor = tensor_torch_handle(torch, obj);
    return tensor != NULL ? tensor_symbols_get()->is_neg(tensor) : tensor_torch_ask(torch->is_neg, obj);
}

static tensor_view_result open_checked(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    if (torch->is_wary && (!tensor_torch_is(tensor_torch_get(torch->layout, obj), torch->strided) ||
                           !tensor_torch_is(tensor_torch_get(torch->is_cpu, obj), Py_True)))
        return VIEW_LAYOUT;
    bool is_lazy =
        is_negated(torch, obj) || (torch->view == NULL && tensor_torch_ask(torch->is_conj, obj));
    tensor_view_result why = VIEW_OK;
    if (!is_lazy) {
        why = open_strided(torch, obj, out);
        if (why != VIEW_OK) {
            if (why == VIEW_DEVICE && is_zero_tensor(obj))
                why = open_copy(torch, obj, (const char *const[]){ "detach", "clone", NULL }, out);
            return why;
        }
        if (tt_dtype_kind(out->tensor.dtype) == TT_KIND_COMPLEX) /* no other type can be */
            is_lazy = tensor_torch_ask(torch->is_conj, obj);
    }
    if (is_lazy) {
        tensor_view_close(out);
        return open_copy(torch, obj,
                         (const char *const[]){ "detach", "resolve_conj", "resolve_neg", NULL }, out);
    }
    /* torch calls its 1 to 7 bit integers int8 and uint8 here. */
    if (out->tensor.dtype == TT_I8 || out->tensor.dtype == TT_U8) {
        PyObject *dtype = PyObject_GetAttrString(obj, "dtype");
        if (!tensor_torch_is(dtype, out->tensor.dtype == TT_I8 ? torch->int8 : torch->uint8)) {
            tensor_view_close(out);
            return VIEW_DTYPE;
        }
    }
    return VIEW_OK;
}

static tensor_view_result open_torch(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    bool is_plain = tensor_torch_is_plain(torch, obj);
    PyObject *guard = NULL; /* owned */
    if (!is_plain && tensor_is_fake(obj))
        return VIEW_FAKE;
    if (!is_plain || tensor_has_function_mode(torch))
        guard = tensor_quiet_enter(torch);
    tensor_view_result why = open_checked(torch, obj, out);
    bool is_empty_shell = why == VIEW_OK && !is_plain && out->tensor.count == 0;
    if (why == VIEW_LAYOUT)
        torch->is_wary = true;
    if (why != VIEW_OK || is_empty_shell) {
        tensor_view_result closer = tensor_diagnose(torch, obj);
        if (why != VIEW_OK && closer != VIEW_OK)
            why = closer;
        if (is_empty_shell && closer == VIEW_UNINITIALIZED) {
            tensor_view_close(out);
            why = closer;
        }
    }
    tensor_quiet_leave(guard);
    return why;
}

/* The common case, at once: a dense tensor in CPU memory.  False says nothing. */
static bool open_quick(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    tensor_handle tensor = tensor_torch_handle(torch, obj);
    return tensor != NULL && tensor_describe(tensor, &out->tensor) &&
           tt_dtype_kind(out->tensor.dtype) != TT_KIND_COMPLEX; /* it may be conjugated */
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
