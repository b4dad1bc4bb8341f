/* digest.c -- digest() and the class Digest.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "summary/docs.h"
#include "summary/functions.h"
#include "tensor/change.h"

#include <stdlib.h>
#include <string.h>

typedef struct digest_object {
    PyObject_HEAD tt_digest digest;
} digest_object;

static tt_digest digest_of(PyObject *self)
{
    return ((digest_object *)self)->digest;
}

static PyObject *make(PyTypeObject *type, tt_digest digest)
{
    digest_object *self = PyObject_New(digest_object, type);
    if (self != NULL)
        self->digest = digest;
    return (PyObject *)self;
}

PyObject *summary_digest_make(binding_state *state, tt_digest digest)
{
    return make(state->summary_digest_type, digest);
}

/* Exactly 32 hexadecimal digits. */
static bool parse(const char *text, Py_ssize_t len, tt_digest *out)
{
    if (len != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
        return false;
    char high[17] = "";
    memcpy(high, text, 16);
    *out = (tt_digest){ .high = strtoull(high, NULL, 16), .low = strtoull(text + 16, NULL, 16) };
    return true;
}

static PyObject *digest_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *text = NULL;
    Py_ssize_t len = 0;
    tt_digest digest;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)
        return PyErr_Format(PyExc_TypeError, "Digest() takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "s#:Digest", &text, &len))
        return NULL;
    if (!parse(text, len, &digest))
        return PyErr_Format(PyExc_ValueError, "a digest is 32 hexadecimal digits");
    return make(type, digest);
}

static PyObject *hex_of(tt_digest d)
{
    char text[33];
    PyOS_snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)d.high,
                  (unsigned long long)d.low);
    return PyUnicode_FromString(text);
}

static PyObject *digest_hex(PyObject *self, PyObject *Py_UNUSED(none))
{
    return hex_of(digest_of(self));
}

static PyObject *digest_as_dict(PyObject *self, PyObject *none)
{
    return Py_BuildValue("{sN}", "hex", digest_hex(self, none));
}

static PyObject *digest_reduce(PyObject *self, PyObject *none)
{
    return Py_BuildValue("O(N)", Py_TYPE(self), digest_hex(self, none));
}

static PyObject *digest_repr(PyObject *self)
{
    PyObject *hex = digest_hex(self, NULL); /* owned */
    PyObject *text = hex != NULL ? PyUnicode_FromFormat("Digest('%U')", hex) : NULL;
    Py_XDECREF(hex);
    return text;
}

static Py_hash_t digest_hash(PyObject *self)
{
    Py_hash_t hash = (Py_hash_t)digest_of(self).low;
    return hash == -1 ? -2 : hash;
}

static PyObject *digest_compare(PyObject *self, PyObject *other, int op)
{
    if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    tt_digest a = digest_of(self), b = digest_of(other);
    return PyBool_FromLong((a.low == b.low && a.high == b.high) == (op == Py_EQ));
}

BINDING_FUNCTION(summary_digest)
{
    binding_state *state = binding_state_of(module);
    bool is_promised = false;
    const binding_option options[] = { { "release_gil", OPTION_BOOL, &is_promised }, { 0 } };
    tensor_view view;
    tt_digest digest;
    if (binding_read_arguments("digest", 1, options, args, nargs, kwnames) < 0 ||
        binding_open_view(state, args[0], &view) < 0)
        return NULL;
    PyThreadState *released = binding_release_gil(binding_may_release_gil(&view, is_promised));
    tt_digest_compute(&view.tensor, &digest);
    binding_take_gil(released);
    tensor_view_close(&view);
    return summary_digest_make(state, digest);
}

BINDING_FUNCTION(summary_digests)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("_digests", 2, NULL, args, nargs, kwnames) < 0)
        return NULL;
    int64_t limit = PyLong_AsLongLong(args[1]);
    if (limit == -1 && PyErr_Occurred())
        return NULL;
    if (!PyList_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "_digests() takes a list of tensors and a number of bytes");
    PyObject *found = PyList_New(0); /* owned */
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(args[0]); i++) {
        tensor_view view;
        tt_digest digest;
        if (tensor_view_open(&state->torch, PyList_GET_ITEM(args[0], i), &view) != VIEW_OK) {
            binding_list_add(&found, Py_NewRef(Py_None));
            continue;
        }
        if (limit > 0)
            tensor_thin_out(&view.tensor, limit);
        tt_digest_compute(&view.tensor, &digest);
        tensor_view_close(&view);
        binding_list_add(&found, hex_of(digest));
    }
    return found;
}

static PyMethodDef methods[] = {
    { "hex", digest_hex, METH_NOARGS, "Return the digest as 32 hexadecimal digits." },
    { "as_dict", digest_as_dict, METH_NOARGS, "Return all fields as a dict." },
    { "__reduce__", digest_reduce, METH_NOARGS, NULL },
    { 0 },
};

BINDING_CLASS(summary_digest, "tensortap.Digest", digest_object, BINDING_FIXED,
              { Py_tp_doc, "Digest(hex)\n--\n\n" SUMMARY_DOC_DIGEST_TYPE }, { Py_tp_new, digest_new },
              { Py_tp_dealloc, binding_dealloc }, { Py_tp_repr, digest_repr },
              { Py_tp_hash, digest_hash }, { Py_tp_richcompare, digest_compare },
              { Py_tp_methods, methods });
