/* view.c -- reads torch tensors, and everything else that speaks DLPack.
 *
 * Exists because torch's own way (`__dlpack__`) is a Python function that takes
 * longer than the statistics of a small tensor, and refuses tensors that require
 * grad; and torch's C way (the exchange table) says yes to tensors
 * whose values it gets wrong: conj and neg views are read as if the bit were
 * not set, fake and wrapper tensors come without memory.  The checks that make
 * the C way safe are here.
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

/* In elements; -1: there is none. */
static int64_t storage_offset(tensor_torch *torch, PyObject *obj)
{
    return tensor_symbols_can_tell(torch, obj) ? tensor_torch_storage_offset(torch, obj)
                                               : ask_number(obj, "storage_offset");
}

/* Torch gives "NULL plus the offset" for a view of a storage that was freed, and for
 * wrappers whose values are elsewhere (DTensor).  Most memory is not so low; for a Python that is not
 * position-independent, such as Debian's, all small tensors are, and the offset tells. */
static bool has_no_memory(tensor_torch *torch, PyObject *obj, const tt_tensor *t)
{
    bool is_low = (uintptr_t)t->data >> 40 == 0;
    int64_t offset = is_low && t->count > 0 ? storage_offset(torch, obj) : -1;
    return offset >= 0 && (uintptr_t)t->data == (uint64_t)offset * tt_dtype_size(t->dtype);
}

/* Does the storage reach as far as the tensor?  Strides of torch are not negative. */
static bool is_held(tensor_torch *torch, PyObject *obj, const tt_tensor *t)
{
    int64_t item = (int64_t)tt_dtype_size(t->dtype), bytes = item;
    if (t->count == 0)
        return true;
    for (int32_t d = 0; d < t->ndim; d++)
        bytes += (t->shape[d] - 1) * t->stride[d];
    int64_t size = -1, offset = storage_offset(torch, obj);
    if (tensor_symbols_can_tell(torch, obj)) {
        size = tensor_torch_storage_size(torch, obj);
    } else {
        PyObject *storage = PyObject_CallMethod(obj, "untyped_storage", NULL); /* owned */
        size = ask_number(storage, "nbytes");
        PyErr_Clear();
        Py_XDECREF(storage);
    }
    return size >= 0 && offset >= 0 && offset * item + bytes <= size;
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
    if (why == VIEW_OK && has_no_memory(torch, obj, &out->tensor)) {
        tensor_view_close(out);
        why = VIEW_LAYOUT;
    }
    if (why == VIEW_OK && !is_held(torch, obj, &out->tensor)) {
        tensor_view_close(out);
        why = VIEW_FREED;
    }
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
    return tensor_symbols_can_tell(torch, obj) ? tensor_is_negated(torch, obj)
                                               : tensor_torch_ask(torch->is_neg, obj);
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

/* The common case, at once: a contiguous tensor in CPU memory.  Functions of torch's own tell without
 * Python whether it is one.  False says nothing. */
static bool open_quick(tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    tt_dltensor dl;
    if (torch->view == NULL || !tensor_symbols_can_tell(torch, obj) || tensor_is_negated(torch, obj) ||
        !tensor_is_dense_on_cpu(torch, obj))
        return false;
    if (torch->view(obj, &dl) != 0) {
        PyErr_Clear();
        return false;
    }
    enum { DL_INT = 0, DL_FLOAT = 2, DL_BFLOAT = 4 }; /* types of which nothing else has to be asked */
    bool is_usual = dl.code == DL_FLOAT || (dl.code == DL_INT && dl.bits > 8) || dl.code == DL_BFLOAT;
    return is_usual && from_dltensor(&dl, out) == VIEW_OK && !has_no_memory(torch, obj, &out->tensor) &&
           is_held(torch, obj, &out->tensor);
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
