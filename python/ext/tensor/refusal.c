/* refusal.c -- says why an object's values cannot be read, and what to do.
 *
 * Exists because "BufferError" helps nobody: whoever hands us a sparse tensor
 * should read that it is sparse.  Runs only after a failure, so it may ask
 * slowly; it runs no code of a tensor subclass's author (the caller holds the
 * guard) and leaves no exception but the one it is asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/facts.h"
#include "tensor/view.h"

#include <string.h>

static const struct {
    const char *word, *advice;
} results[] = {
#define X(name, word, advice) [VIEW_##name] = { word, advice },
    VIEW_RESULT_MAP(X)
#undef X
};
_Static_assert(sizeof results / sizeof *results == VIEW_RESULT_COUNT_, "explain every result");

const char *tensor_view_result_word(tensor_view_result why)
{
    return results[why].word;
}

/* Is obj.name true?  No such attribute, or an error: no. */
static bool has_true(PyObject *obj, const char *name)
{
    PyObject *value = NULL; /* owned */
    (void)PyObject_GetOptionalAttrString(obj, name, &value);
    return tensor_torch_is(value, Py_True);
}

static bool has_class_named(PyObject *obj, const char *name, const char *module)
{
    PyTypeObject *base = tensor_base_named(Py_TYPE(obj), name); /* borrowed */
    PyObject *where = base != NULL ? tensor_fact_text((PyObject *)base, "__module__") : NULL; /* owned */
    const char *text = where != NULL ? PyUnicode_AsUTF8(where) : NULL;
    bool is_there = text != NULL && strncmp(text, module, strlen(module)) == 0;
    PyErr_Clear();
    Py_XDECREF(where);
    return is_there;
}

static tensor_view_result diagnose_layout(const tensor_torch *torch, PyObject *obj)
{
    PyObject *layout = PyObject_GetAttrString(obj, "layout"); /* owned */
    PyObject *text = layout != NULL ? PyObject_Str(layout) : NULL;
    tensor_view_result why = VIEW_OK;
    if (layout != torch->strided && text != NULL) {
        why = VIEW_SPARSE;
        if (PyUnicode_CompareWithASCIIString(text, "torch.jagged") == 0)
            why = VIEW_NESTED;
        if (PyUnicode_CompareWithASCIIString(text, "torch._mkldnn") == 0)
            why = VIEW_MKLDNN;
    }
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(layout);
    return why;
}

static bool is_in_functorch(const tensor_torch *torch, PyObject *obj)
{
    return torch->is_batched != NULL &&
           tensor_torch_is(PyObject_CallOneArg(torch->is_batched, obj), Py_True);
}

/* The elements are there by count, their memory is not. */
static bool has_no_memory(PyObject *obj)
{
    PyObject *storage = PyObject_CallMethod(obj, "untyped_storage", NULL); /* owned */
    PyObject *address = storage != NULL ? PyObject_CallMethod(storage, "data_ptr", NULL) : NULL;
    PyErr_Clear(); /* a storage that is not there at all raises */
    bool is_nothing = address == NULL || PyObject_Not(address) == 1;
    PyErr_Clear();
    Py_XDECREF(address);
    Py_XDECREF(storage);
    return is_nothing;
}

static bool is_known_dtype(PyObject *obj)
{
    PyObject *owner = NULL; /* owned */
    tt_dtype dtype;
    bool is_known = tensor_dtype_find(tensor_fact_dtype(obj, &owner), &dtype);
    Py_XDECREF(owner);
    return is_known;
}

bool tensor_is_fake(PyObject *obj)
{
    return has_class_named(obj, "FakeTensor", "torch._subclasses");
}

tensor_view_result tensor_diagnose(const tensor_torch *torch, PyObject *obj)
{
    if (PyObject_HasAttrString((PyObject *)Py_TYPE(obj), "cls_to_become"))
        return VIEW_UNINITIALIZED;
    if (has_class_named(obj, "DTensor", "torch.distributed"))
        return VIEW_DTENSOR;
    if (has_class_named(obj, "AsyncCollectiveTensor", "torch.distributed"))
        return VIEW_PENDING;
    if (tensor_is_fake(obj))
        return VIEW_FAKE;
    tensor_view_result why = diagnose_layout(torch, obj);
    if (why != VIEW_OK)
        return why;
    if (has_true(obj, "is_nested"))
        return VIEW_NESTED;
    if (has_true(obj, "is_quantized"))
        return VIEW_QUANTIZED;
    if (is_in_functorch(torch, obj))
        return VIEW_FUNCTORCH;
    if (has_true(obj, "is_meta"))
        return VIEW_META;
    if (!is_known_dtype(obj))
        return VIEW_DTYPE;
    if (has_no_memory(obj))
        return tensor_torch_is_plain(torch, obj) ? VIEW_FREED : VIEW_WRAPPER;
    return has_true(obj, "is_cpu") ? VIEW_OK : VIEW_DEVICE;
}

static void refuse_dtype(const tensor_view *view, PyObject *obj)
{
    static const char accepted[] =
#define X(name, text, bytes, kind) " " text
        TT_DTYPE_MAP(X);
#undef X
    PyObject *dtype = tensor_fact_text(obj, "dtype"); /* owned */
    if (dtype != NULL)
        PyErr_Format(PyExc_TypeError, "element type %U cannot be read; accepted are%s", dtype, accepted);
    else if (view->error.text[0] != '\0')
        PyErr_Format(PyExc_TypeError, "%s; accepted are%s", view->error.text, accepted);
    else
        PyErr_Format(PyExc_TypeError, "the elements of this %s cannot be read; accepted are%s",
                     Py_TYPE(obj)->tp_name, accepted);
    Py_XDECREF(dtype);
}

PyObject *tensor_view_refuse(const tensor_view *view, PyObject *obj, tensor_view_result why)
{
    const char *word = results[why].word, *advice = results[why].advice, *type = Py_TYPE(obj)->tp_name;
    PyObject *device = why == VIEW_DEVICE ? tensor_fact_text(obj, "device") : NULL; /* owned */
    if (why == VIEW_NOT_TENSOR)
        PyErr_Format(PyExc_TypeError, "a tensor or an array is needed, not %s: %s", type, advice);
    else if (why == VIEW_DTYPE)
        refuse_dtype(view, obj);
    else if (device != NULL)
        PyErr_Format(PyExc_TypeError, "tensor in the memory of %U: %s", device, advice);
    else if (why == VIEW_DEVICE)
        PyErr_Format(PyExc_TypeError, "%s: %s", view->error.text, advice);
    else if (why == VIEW_MASKED)
        PyErr_Format(PyExc_TypeError, "masked array: %s", advice);
    else if (why == VIEW_FUNCTORCH)
        PyErr_Format(PyExc_TypeError, "tensor %s: %s", word, advice);
    else if (why == VIEW_LAYOUT)
        PyErr_Format(PyExc_TypeError, "the memory of this %s cannot be read%s%s", type,
                     view->error.text[0] != '\0' ? ": " : "", view->error.text);
    else
        PyErr_Format(PyExc_TypeError, "%s tensor: %s", word, advice);
    Py_XDECREF(device);
    return NULL;
}
