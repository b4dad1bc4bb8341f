/* memory.c -- which operator wrote a storage last, and which one left a bad value there.
 *
 * A tensor is known by its storage, because views, detached tensors and what autograd saves are
 * other objects with the same memory.  A write behind torch's back (NumPy, a C extension) shows as
 * memory that was finite when an operator last saw it, and is not any more.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "operators/log.h"

/* The bytes between a tensor's first element and its last. */
static void extent_of(const tt_tensor *view, const char **begin, const char **end)
{
    *begin = view->data;
    *end = *begin + (view->count > 0 ? tt_dtype_size(view->dtype) : 0);
    for (int32_t i = 0; i < view->ndim && view->count > 0; i++)
        *end += (view->shape[i] - 1) * view->stride[i]; /* torch has no negative strides */
}

operators_memory *operators_memory_of(operators_log *self, PyObject *tensor)
{
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);               /* owned */
    PyObject *address = storage != NULL ? PyObject_GetAttrString(storage, "_cdata") : NULL; /* owned */
    void *key = address != NULL ? PyLong_AsVoidPtr(address) : NULL;
    operators_memory *memory = NULL;
    void *known = key != NULL ? base_map_find(&self->memory_of, key) : NULL;
    if (known != NULL) {
        memory = &self->memories[(size_t)known - 1];
    } else if (key != NULL && base_array_grow(&self->memories, &self->memory_cap, self->memory_count + 1,
                                              sizeof *self->memories)) {
        PyObject *weak = PyObject_CallMethod(storage, "_weak_ref", NULL); /* owned; released by address */
        if (weak != NULL && base_map_put(&self->memory_of, key, (void *)(self->memory_count + 1)) == 0) {
            memory = &self->memories[self->memory_count++];
            *memory = (operators_memory){ .storage = (uintptr_t)key,
                                          .writer = OPERATORS_NONE,
                                          .bad_writer = OPERATORS_NONE,
                                          .seen = OPERATORS_NONE };
        }
        Py_XDECREF(weak);
    }
    PyErr_Clear();
    Py_XDECREF(address);
    Py_XDECREF(storage);
    return memory;
}

/* All of it was finite at this row. */
static void note_finite(operators_memory *memory, int32_t row, const char *begin, const char *end)
{
    bool is_inside = memory->seen_begin != NULL && memory->seen_begin <= begin && end <= memory->seen_end;
    if (!is_inside) {
        memory->seen_begin = begin;
        memory->seen_end = end;
    }
    memory->seen = row;
}

void operators_memory_read(operators_memory *memory, int32_t row, const tt_tensor *view,
                           operators_tensor *out)
{
    out->storage = memory->storage;
    out->writer = memory->writer;
    if (view == NULL) { /* of another device */
        out->bad_writer = memory->bad_writer;
        return;
    }
    const char *begin, *end;
    extent_of(view, &begin, &end);
    if (begin < memory->bad_end && memory->bad_begin < end)
        out->bad_writer = memory->bad_writer;
    if (memory->seen_begin != NULL && memory->seen_begin <= begin && end <= memory->seen_end)
        out->seen = memory->seen;
    if (begin < memory->end && memory->begin < end)
        out->flags |= TENSOR_UNWRITTEN;
    if (out->has_stats && !operators_is_bad(out))
        note_finite(memory, row, begin, end);
}

void operators_memory_write(operators_memory *memory, int32_t row, const tt_tensor *view, bool is_empty,
                            operators_tensor *out)
{
    const char *begin = NULL, *end = NULL;
    out->storage = memory->storage;
    memory->writer = row;
    if (view != NULL)
        extent_of(view, &begin, &end);
    bool is_whole =
        view == NULL || end - begin <= view->count * (int64_t)tt_dtype_size(view->dtype); /* no gaps */
    if (is_empty) {
        memory->begin = begin;
        memory->end = end;
        memory->bad_writer = memory->seen = OPERATORS_NONE;
        memory->seen_begin = memory->bad_end = NULL;
        return;
    }
    if (is_whole && begin <= memory->begin && memory->end <= end)
        memory->begin = memory->end = NULL;
    if (operators_is_bad(out)) {
        memory->bad_writer = row;
        memory->bad_begin = begin;
        memory->bad_end = end;
        memory->seen_begin = NULL;
        memory->seen = OPERATORS_NONE;
    } else if (out->has_stats) {
        if (is_whole && begin <= memory->bad_begin && memory->bad_end <= end) {
            memory->bad_writer = OPERATORS_NONE;
            memory->bad_end = NULL;
        }
        note_finite(memory, row, begin, end);
    }
}

void operators_memory_release(operators_log *self)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned; of whoever drops the log */
    for (size_t i = 0; self->free_weak_ref != NULL && i < self->memory_count; i++) {
        PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)self->memories[i].storage); /* owned */
        PyObject *done =
            address != NULL ? PyObject_CallOneArg(self->free_weak_ref, address) : NULL; /* owned */
        if (done == NULL)
            PyErr_Clear();
        Py_XDECREF(done);
        Py_XDECREF(address);
    }
    PyErr_SetRaisedException(pending);
    self->memory_count = 0;
    base_map_free(&self->memory_of);
}
