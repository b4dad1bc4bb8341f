/* attention.c -- attention() and the class Attention.
 *
 * Each output is held as a bytearray and shown as a NumPy array of its memory,
 * or as a memoryview where there is no NumPy.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "summary/docs.h"
#include "summary/functions.h"
#include "tensortap_tools.h"

#include <math.h>

enum { ENTROPY, MAX_LOGIT, SINK, OUTPUTS };

typedef struct attention_object {
    PyObject_VAR_HEAD               /* ob_size is the number of dimensions of an output */
        PyObject *outputs[OUTPUTS]; /* owned; bytearrays of floats */
    int64_t shape[];
} attention_object;

static attention_object *attention_of(PyObject *self)
{
    return (attention_object *)self;
}

static void attention_dealloc(PyObject *self)
{
    for (int i = 0; i < OUTPUTS; i++)
        Py_XDECREF(attention_of(self)->outputs[i]);
    binding_dealloc(self);
}

/* ---- fields -------------------------------------------------------------- */

/* A NumPy array of the bytes.  Without NumPy a memoryview, which may have a size of 0 in one dimension
 * only. */
static PyObject *array_of(PyObject *numpy, PyObject *bytes, PyObject *shape)
{
    PyObject *flat, *array = NULL; /* owned */
    if (numpy != NULL)
        flat = PyObject_CallMethod(numpy, "frombuffer", "Os", bytes, "float32");
    else
        flat = PyMemoryView_FromObject(bytes);
    if (flat != NULL && numpy != NULL)
        array = PyObject_CallMethod(flat, "reshape", "O", shape);
    else if (flat != NULL && PyByteArray_GET_SIZE(bytes) == 0)
        array = PyObject_CallMethod(flat, "cast", "s", "f");
    else if (flat != NULL)
        array = PyObject_CallMethod(flat, "cast", "sO", "f", shape);
    Py_XDECREF(flat);
    return array;
}

static PyObject *get_output(PyObject *self, void *which)
{
    attention_object *a = attention_of(self);
    PyObject *bytes = a->outputs[(size_t)which];                    /* borrowed */
    PyObject *shape = binding_shape_tuple(a->shape, Py_SIZE(self)); /* owned */
    PyObject *numpy = NULL, *result = NULL;                         /* owned */
    if (shape == NULL)
        goto out;
    numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL && !PyErr_ExceptionMatches(PyExc_ImportError))
        goto out;
    PyErr_Clear();
    result = array_of(numpy, bytes, shape);
out:
    Py_XDECREF(shape);
    Py_XDECREF(numpy);
    return result;
}

static PyGetSetDef getters[] = {
    { "shape", binding_get_shape, NULL, "(..., heads, queries)", BINDING_AT(attention_object, shape) },
    { "entropy", get_output, NULL, "entropy in nats of each query's weights", (void *)ENTROPY },
    { "max_logit", get_output, NULL, "largest logit of each query", (void *)MAX_LOGIT },
    { "sink", get_output, NULL, "weight of each query on the first key", (void *)SINK },
    { 0 },
};

/* ---- the object ---------------------------------------------------------- */

static double mean_of(PyObject *bytes)
{
    const float *x = (const float *)(void *)PyByteArray_AS_STRING(bytes);
    size_t count = (size_t)PyByteArray_GET_SIZE(bytes) / sizeof *x;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i];
    return sum / (double)count;
}

static PyObject *attention_repr(PyObject *self)
{
    const attention_object *a = attention_of(self);
    char entropy[TT_NUMBER_TEXT], sink[TT_NUMBER_TEXT];
    PyObject *shape = binding_shape_text(TT_F32, a->shape, Py_SIZE(self)); /* owned */
    PyObject *text = NULL;
    tt_number_short(mean_of(a->outputs[ENTROPY]), entropy);
    tt_number_short(mean_of(a->outputs[SINK]), sink);
    if (shape != NULL)
        text = PyUnicode_FromFormat("Attention(%U, entropy=%s, sink=%s)", shape, entropy, sink);
    Py_XDECREF(shape);
    return text;
}

/* How many (..., head, query) there are; -1: more than can be.  Not count / head_dim: that may be 0. */
static int64_t rows_of(const tt_tensor *q, int32_t ndim)
{
    int64_t rows = q->ndim > 0 ? 1 : 0;
    for (int32_t d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(rows, q->shape[d], &rows))
            return -1;
    return rows <= PY_SSIZE_T_MAX / (int64_t)sizeof(float) ? rows : -1;
}

/* An object with room for one float for each (..., head, query) of q. */
static attention_object *make(binding_state *state, const tt_tensor *q)
{
    int32_t ndim = q->ndim > 0 ? q->ndim - 1 : 0;
    int64_t rows = rows_of(q, ndim);
    if (rows < 0)
        return (attention_object *)PyErr_NoMemory();
    attention_object *self = PyObject_NewVar(attention_object, state->summary_attention_type, ndim);
    if (self == NULL)
        return NULL;
    bool is_made = true;
    for (int i = 0; i < OUTPUTS; i++) {
        self->outputs[i] =
            PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)rows * (Py_ssize_t)sizeof(float));
        is_made = is_made && self->outputs[i] != NULL;
    }
    for (int32_t d = 0; d < ndim; d++)
        self->shape[d] = q->shape[d];
    if (!is_made)
        Py_CLEAR(self);
    return self;
}

static float *floats_of(const attention_object *self, int which)
{
    return (float *)(void *)PyByteArray_AS_STRING(self->outputs[which]);
}

BINDING_FUNCTION(summary_attention)
{
    binding_state *state = binding_state_of(module);
    PyObject *scale = NULL, *mask = NULL; /* borrowed */
    tt_attention_options how = { .scale = (double)NAN };
    bool is_promised = false;
    const binding_option options[] = { { "scale", OPTION_OBJECT, &scale },
                                       { "is_causal", OPTION_BOOL, &how.is_causal },
                                       { "mask", OPTION_OBJECT, &mask },
                                       { "release_gil", OPTION_BOOL, &is_promised },
                                       { 0 } };
    tensor_view views[3]; /* of q, k and the mask */
    int count = 0;        /* that are open */
    tt_error err = { "" };
    attention_object *self = NULL; /* owned */
    if (binding_read_arguments("attention", 2, options, args, nargs, kwnames) < 0)
        return NULL;
    if (scale != NULL && scale != Py_None) {
        how.scale = PyFloat_AsDouble(scale);
        if (how.scale == -1.0 && PyErr_Occurred())
            return PyErr_Format(PyExc_TypeError, "attention(): scale must be a number or None, not %R",
                                scale);
    }
    PyObject *tensors[] = { args[0], args[1], mask != NULL && mask != Py_None ? mask : NULL };
    bool is_safe = true;
    for (; count < 3 && tensors[count] != NULL; count++) {
        if (binding_open_view(state, tensors[count], &views[count]) < 0)
            goto out;
        is_safe = is_safe && (is_promised || views[count].is_private);
    }
    const tt_tensor *q = &views[0].tensor, *k = &views[1].tensor;
    how.mask = count == 3 ? &views[2].tensor : NULL;
    self = make(state, q);
    if (self == NULL)
        goto out;
    /* Work grows with their product. */
    PyThreadState *released = binding_release_gil(is_safe && q->count + k->count > 4096);
    tt_status st = tt_attention_compute(q, k, &how, floats_of(self, ENTROPY), floats_of(self, MAX_LOGIT),
                                        floats_of(self, SINK), &err);
    binding_take_gil(released);
    if (st < 0) {
        Py_CLEAR(self);
        binding_raise_status(st, &err);
    }
out:
    while (count > 0)
        tensor_view_close(&views[--count]);
    return (PyObject *)self;
}

BINDING_VAR_CLASS(summary_attention, "tensortap.Attention", attention_object, shape,
                  BINDING_NO_NEW | BINDING_FIXED, { Py_tp_doc, SUMMARY_DOC_ATTENTION_TYPE },
                  { Py_tp_dealloc, attention_dealloc }, { Py_tp_repr, attention_repr },
                  { Py_tp_getset, getters }, { Py_tp_methods, binding_result_methods });
