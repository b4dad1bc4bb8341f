/* array.c -- reads NumPy arrays and all else that lends its memory.
 *
 * The buffer protocol has all that a tt_tensor needs, negative strides, swapped
 * bytes and unaligned fields of structured arrays among it.  Types that NumPy
 * does not know itself (bfloat16 and the fp8 types of ml_dtypes) cannot be
 * lent; they are read as the unsigned integers that they are made of.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/facts.h"
#include "tensor/view.h"

#include <string.h>

#if PY_LITTLE_ENDIAN
enum { FOREIGN_ORDER = '>' };
#else
enum { FOREIGN_ORDER = '<' };
#endif

/* One element type for each letter of the struct module's language and size in
 * bytes; sizes of letters differ between '@' and '=', so both are asked. */
static const struct {
    const char *letters;
    Py_ssize_t size;
    tt_dtype dtype;
} formats[] = {
    { "d", 8, TT_F64 },   { "f", 4, TT_F32 },    { "e", 2, TT_F16 },    { "b", 1, TT_I8 },
    { "hil", 2, TT_I16 }, { "hil", 4, TT_I32 },  { "ilqn", 8, TT_I64 }, { "Bc", 1, TT_U8 },
    { "HIL", 2, TT_U16 }, { "HIL", 4, TT_U32 },  { "ILQN", 8, TT_U64 }, { "?", 1, TT_BOOL },
    { "Zf", 8, TT_C64 },  { "Zd", 16, TT_C128 },
};

static bool is_match(const char *format, const char *letters)
{
    if (letters[0] == 'Z')
        return strcmp(format, letters) == 0;
    return format[0] != '\0' && format[1] == '\0' && strchr(letters, format[0]) != NULL;
}

static bool find_format(const Py_buffer *buffer, tt_dtype *dtype, bool *is_swapped)
{
    const char *format = buffer->format != NULL ? buffer->format : "B";
    char order = '@';
    if (strchr("@=<>!", format[0]) != NULL && format[0] != '\0')
        order = *format++ == '!' ? '>' : format[-1];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].size == buffer->itemsize && is_match(format, formats[i].letters)) {
            *dtype = formats[i].dtype;
            *is_swapped = order == FOREIGN_ORDER && buffer->itemsize > 1;
            return true;
        }
    }
    return false;
}

/* Bytes never change; a chain of read-only views of bytes does not either. */
static bool is_immutable(PyObject *obj)
{
    PyObject *at = Py_NewRef(obj); /* owned */
    for (int depth = 0; depth < 32 && !PyBytes_CheckExact(at); depth++) {
        PyObject *next = NULL; /* owned */
        const char *name = PyMemoryView_Check(at) ? "obj" : "base";
        if (PyObject_GetOptionalAttrString(at, name, &next) <= 0 || next == Py_None) {
            PyErr_Clear();
            Py_XDECREF(next);
            break;
        }
        Py_SETREF(at, next);
    }
    bool is_bytes = PyBytes_CheckExact(at);
    Py_DECREF(at);
    return is_bytes;
}

static tensor_view_result describe(tensor_view *out, tt_dtype dtype, bool is_swapped)
{
    const Py_buffer *b = &out->buffer;
    if (b->suboffsets != NULL)
        for (int d = 0; d < b->ndim; d++)
            if (b->suboffsets[d] >= 0)
                return VIEW_LAYOUT;
    if (b->ndim > TT_MAX_DIM)
        return VIEW_LAYOUT;
    int64_t shape[TT_MAX_DIM], stride[TT_MAX_DIM], dense = b->itemsize;
    for (int d = b->ndim - 1; d >= 0; d--) {
        shape[d] = b->shape[d];
        stride[d] = b->strides != NULL ? b->strides[d] : dense;
        if (b->strides == NULL)
            dense *= b->shape[d]; /* fits: the memory is there */
    }
    if (tt_tensor_describe(&out->tensor, b->buf, dtype, b->ndim, shape, stride, &out->error) < 0)
        return VIEW_LAYOUT;
    out->tensor.is_swapped = is_swapped;
    return VIEW_OK;
}

/* NumPy's dates lend their bytes, of which it says no more than that they are bytes. */
static bool is_date(PyObject *obj, const Py_buffer *buffer)
{
    return buffer->strides == NULL && buffer->ndim > 0 && PyObject_HasAttrString(obj, "dtype");
}

static tensor_view_result open_buffer(PyObject *obj, const tt_dtype *known, tensor_view *out)
{
    out->buffer = (Py_buffer){ 0 }; /* ctypes and NumPy's dates leave strides out, though asked for */
    if (PyObject_GetBuffer(obj, &out->buffer, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return VIEW_DTYPE;
    }
    out->has_buffer = true;
    tt_dtype dtype = TT_U8;
    bool is_swapped = false;
    tensor_view_result why = VIEW_DTYPE;
    if (!is_date(obj, &out->buffer) && find_format(&out->buffer, &dtype, &is_swapped))
        why = describe(out, known != NULL ? *known : dtype, is_swapped);
    if (why != VIEW_OK)
        tensor_view_close(out);
    else if (out->buffer.readonly && out->buffer.len > 4096)
        out->is_private = is_immutable(obj);
    return why;
}

/* An array of a type that NumPy knows only by name: bfloat16, or one of 8 bits. */
static tensor_view_result open_named(PyObject *obj, tensor_view *out)
{
    PyObject *owner = NULL; /* owned */
    tt_dtype dtype = TT_BF16;
    bool is_known =
        tensor_dtype_find(tensor_fact_dtype(obj, &owner), &dtype) && tt_dtype_size(dtype) <= 2;
    Py_XDECREF(owner);
    if (!is_known)
        return VIEW_DTYPE;
    const char *raw = tt_dtype_size(dtype) == 2 ? "uint16" : "uint8";
    PyObject *bits = PyObject_CallMethod(obj, "view", "s", raw); /* owned */
    tensor_view_result why = bits != NULL ? open_buffer(bits, &dtype, out) : VIEW_DTYPE;
    PyErr_Clear();
    Py_XDECREF(bits); /* the buffer keeps it */
    return why;
}

tensor_view_result tensor_array_open(PyObject *obj, tensor_view *out)
{
    PyTypeObject *type =
        Py_TYPE(obj); /* a masked array lends its memory with the masked elements in it */
    if (tensor_base_named(type, "MaskedArray") != NULL ||
        tensor_base_named(type, "numpy.ma.MaskedArray") != NULL)
        return VIEW_MASKED;
    tensor_view_result why = open_buffer(obj, NULL, out);
    return why == VIEW_DTYPE ? open_named(obj, out) : why;
}
