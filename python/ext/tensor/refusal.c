/* refusal.c -- says why an object's values cannot be read, and what to do.
 *
 * Exists because "BufferError" helps nobody: whoever hands us a sparse tensor
 * should read that it is sparse.  Runs only after a failure, so it may ask
 * slowly; it runs no code of a tensor subclass's author (the caller holds the
 * guard) and leaves no exception but the one it is asked for.
 * SPDX-License-Identifier: Apache-2.0 */
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

/* The text of obj.name, or NULL; no exception. */
static PyObject *attribute_text(PyObject *obj, const char *name)
{
    PyObject *value = NULL, *text = NULL; /* owned */
    if (PyObject_GetOptionalAttrString(obj, name, &value) > 0)
        text = PyObject_Str(value);
    PyErr_Clear();
    Py_XDECREF(value);
    return text;
}

/* Is obj.name true?  No such attribute, or an error: no. */
static bool has_true(PyObject *obj, const char *name)
{
    PyObject *value = NULL; /* owned */
    PyObject_GetOptionalAttrString(obj, name, &value);
    PyErr_Clear();
    bool is_true = value == Py_True;
    Py_XDECREF(value);
    return is_true;
}

static bool has_class_named(PyObject *obj, const char *name, const char *module)
{
    PyObject *mro = Py_TYPE(obj)->tp_mro; /* borrowed */
    for (Py_ssize_t i = 0; mro != NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyObject *base = PyTuple_GET_ITEM(mro, i); /* borrowed */
        if (strcmp(((PyTypeObject *)base)->tp_name, name) != 0)
            continue;
        PyObject *where = PyObject_GetAttrString(base, "__module__"); /* owned */
        const char *text = where != NULL && PyUnicode_Check(where) ? PyUnicode_AsUTF8(where) : NULL;
        bool is_there = text != NULL && strncmp(text, module, strlen(module)) == 0;
        PyErr_Clear();
        Py_XDECREF(where);
        if (is_there)
            return true;
    }
    return false;
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
    PyObject *answer = torch->is_batched != NULL ? PyObject_CallOneArg(torch->is_batched, obj) : NULL;
    PyErr_Clear();
    bool is_true = answer == Py_True;
    Py_XDECREF(answer);
    return is_true;
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
    PyObject *dtype = attribute_text(obj, "dtype"); /* owned */
    const char *name = dtype != NULL ? PyUnicode_AsUTF8(dtype) : NULL;
    bool is_known = false;
    for (int d = 0; name != NULL && d < TT_DTYPE_COUNT_ && !is_known; d++)
        is_known = strncmp(name, "torch.", 6) == 0 && strcmp(name + 6, tt_dtype_name((tt_dtype)d)) == 0;
    PyErr_Clear();
    Py_XDECREF(dtype);
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
    if (has_no_memory(obj)) {
        bool is_plain = Py_IS_TYPE(obj, torch->tensor) || Py_IS_TYPE(obj, torch->parameter);
        return is_plain ? VIEW_FREED : VIEW_WRAPPER;
    }
    return has_true(obj, "is_cpu") ? VIEW_OK : VIEW_DEVICE;
}

static void refuse_dtype(const tensor_view *view, PyObject *obj)
{
    static const char accepted[] =
#define X(name, text, bytes, kind) " " text
        TT_DTYPE_MAP(X);
#undef X
    PyObject *dtype = attribute_text(obj, "dtype"); /* owned */
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
    const char *word = results[why].word, *advice = results[why].advice;
    switch (why) {
    case VIEW_NOT_TENSOR:
        PyErr_Format(PyExc_TypeError, "a tensor or an array is needed, not %s: %s", Py_TYPE(obj)->tp_name,
                     advice);
        break;
    case VIEW_DTYPE:
        refuse_dtype(view, obj);
        break;
    case VIEW_DEVICE: {
        PyObject *device = attribute_text(obj, "device"); /* owned */
        if (device != NULL)
            PyErr_Format(PyExc_TypeError, "tensor in the memory of %U: %s", device, advice);
        else
            PyErr_Format(PyExc_TypeError, "%s: %s", view->error.text, advice);
        Py_XDECREF(device);
        break;
    }
    case VIEW_MASKED:
        PyErr_Format(PyExc_TypeError, "masked array: %s", advice);
        break;
    case VIEW_FUNCTORCH:
        PyErr_Format(PyExc_TypeError, "tensor %s: %s", word, advice);
        break;
    case VIEW_LAYOUT:
        PyErr_Format(PyExc_TypeError, "the memory of this %s cannot be read%s%s", Py_TYPE(obj)->tp_name,
                     view->error.text[0] != '\0' ? ": " : "", view->error.text);
        break;
    case VIEW_META:
    case VIEW_FAKE:
    case VIEW_SPARSE:
    case VIEW_MKLDNN:
    case VIEW_QUANTIZED:
    case VIEW_NESTED:
    case VIEW_DTENSOR:
    case VIEW_WRAPPER:
    case VIEW_FREED:
    case VIEW_UNINITIALIZED:
        PyErr_Format(PyExc_TypeError, "%s tensor: %s", word, advice);
        break;
    case VIEW_OK:
    case VIEW_RESULT_COUNT_:
        PyErr_SetString(PyExc_SystemError, "nothing to refuse");
        break;
    }
    return NULL;
}
