/* stats.c -- stats() and the class Stats.
 *
 * A Stats is one allocation: the struct of the core and the shape.  What Python
 * sees is made when it is asked for, because most of it never is.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/stats.h"
#include "binding/type.h"
#include "summary/docs.h"
#include "summary/functions.h"
#include "tensortap_tools.h"

#include <string.h>

static const tt_stats *stats_of(PyObject *self)
{
    return &((summary_stats_object *)self)->stats;
}

static tt_kind kind_of(const tt_stats *s)
{
    return tt_dtype_kind((tt_dtype)s->dtype);
}

static bool is_exact(const tt_stats *s)
{
    tt_kind kind = kind_of(s);
    return kind == TT_KIND_INT || kind == TT_KIND_UINT || kind == TT_KIND_BOOL;
}

PyObject *summary_stats_make(binding_state *state, const tt_stats *s, const int64_t *shape,
                             Py_ssize_t ndim)
{
    summary_stats_object *self = PyObject_NewVar(summary_stats_object, state->summary_stats_type, ndim);
    if (self == NULL)
        return NULL;
    self->stats = *s;
    for (Py_ssize_t d = 0; d < ndim; d++)
        self->shape[d] = shape[d];
    return (PyObject *)self;
}

/* ---- fields -------------------------------------------------------------- */

static PyObject *get_count(PyObject *self, void *offset)
{
    return PyLong_FromLongLong(*(const int64_t *)((const char *)stats_of(self) + (size_t)offset));
}

PyObject *summary_exact_value(const tt_stats *s, int64_t value)
{
    if (s->count == 0)
        Py_RETURN_NONE;
    return s->dtype == TT_U64 ? PyLong_FromUnsignedLongLong((uint64_t)value) : PyLong_FromLongLong(value);
}

static PyObject *get_min(PyObject *self, void *Py_UNUSED(closure))
{
    const tt_stats *s = stats_of(self);
    return is_exact(s) ? summary_exact_value(s, s->imin) : PyFloat_FromDouble(s->min);
}

static PyObject *get_max(PyObject *self, void *Py_UNUSED(closure))
{
    const tt_stats *s = stats_of(self);
    return is_exact(s) ? summary_exact_value(s, s->imax) : PyFloat_FromDouble(s->max);
}

static PyObject *get_absmax(PyObject *self, void *Py_UNUSED(closure))
{
    const tt_stats *s = stats_of(self);
    if (!is_exact(s))
        return PyFloat_FromDouble(s->absmax);
    if (s->count == 0 || kind_of(s) != TT_KIND_INT)
        return summary_exact_value(s, s->imax);
    uint64_t low = s->imin < 0 ? 0 - (uint64_t)s->imin : (uint64_t)s->imin;
    uint64_t high = s->imax < 0 ? 0 - (uint64_t)s->imax : (uint64_t)s->imax;
    return PyLong_FromUnsignedLongLong(low > high ? low : high);
}

static PyObject *get_sum(PyObject *self, void *Py_UNUSED(closure))
{
    const tt_stats *s = stats_of(self);
    if (is_exact(s)) {
        uint64_t words[2] = { s->isum_lo, (uint64_t)s->isum_hi };
        return TT_LONG_FROM_BYTES(words, sizeof words);
    }
    if (kind_of(s) == TT_KIND_COMPLEX)
        return PyComplex_FromDoubles(s->sum, s->sum_imag);
    return PyFloat_FromDouble(s->sum);
}

static PyObject *get_mean(PyObject *self, void *Py_UNUSED(closure))
{
    const tt_stats *s = stats_of(self);
    if (kind_of(s) == TT_KIND_COMPLEX)
        return PyComplex_FromDoubles(s->mean, tt_stats_mean_imag(s));
    return PyFloat_FromDouble(s->mean);
}

static PyObject *get_var(PyObject *self, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(tt_stats_var(stats_of(self)));
}

static PyObject *get_std(PyObject *self, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(tt_stats_std(stats_of(self)));
}

static PyObject *get_l1(PyObject *self, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(stats_of(self)->l1);
}

static PyObject *get_l2(PyObject *self, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(tt_stats_l2(stats_of(self)));
}

static PyObject *get_rms(PyObject *self, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(tt_stats_rms(stats_of(self)));
}

static PyObject *get_shape(PyObject *self, void *Py_UNUSED(closure))
{
    return binding_shape_tuple(((summary_stats_object *)self)->shape, Py_SIZE(self));
}

static PyObject *get_dtype(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_InternFromString(tt_dtype_name((tt_dtype)stats_of(self)->dtype));
}

#define COUNTER(name, doc)                                            \
    {                                                                 \
#name, get_count, NULL, doc, (void *)offsetof(tt_stats, name) \
    }

static PyGetSetDef getters[] = {
    { "shape", get_shape, NULL, "sizes, a tuple", NULL },
    { "dtype", get_dtype, NULL, "element type: 'float32'", NULL },
    COUNTER(count, "number of elements, NaN and Inf among them"),
    COUNTER(nan, "number of NaN"),
    COUNTER(posinf, "number of +Inf (complex: of infinite |z|)"),
    COUNTER(neginf, "number of -Inf"),
    COUNTER(zeros, "number of zeros"),
    { "min", get_min, NULL, "smallest finite value; of |z| for complex types", NULL },
    { "max", get_max, NULL, "largest finite value; of |z| for complex types", NULL },
    { "absmax", get_absmax, NULL, "largest |x| of the finite values", NULL },
    { "sum", get_sum, NULL, "sum of the finite values; exact for integer types", NULL },
    { "mean", get_mean, NULL, "mean of the finite values", NULL },
    { "var", get_var, NULL, "unbiased variance; NaN below two values", NULL },
    { "std", get_std, NULL, "root of var", NULL },
    { "l1", get_l1, NULL, "sum of |x|", NULL },
    { "l2", get_l2, NULL, "root of the sum of squares", NULL },
    { "rms", get_rms, NULL, "root of the mean of squares", NULL },
    { 0 },
};

/* ---- the object ---------------------------------------------------------- */

static PyObject *stats_as_dict(PyObject *self, PyObject *Py_UNUSED(none))
{
    return binding_fields_as_dict(self, getters);
}

static PyObject *stats_repr(PyObject *self)
{
    static const char *const shown[] = { "min", "max", "mean", "std", "nan", "posinf", "neginf" };
    const summary_stats_object *stats = (summary_stats_object *)self;
    const tt_stats *s = &stats->stats;
    PyObject *text = binding_shape_text((tt_dtype)s->dtype, stats->shape, Py_SIZE(self)); /* owned */
    for (size_t i = 0; text != NULL && i < sizeof shown / sizeof *shown; i++) {
        if ((i == 4 && s->nan == 0) || (i == 5 && s->posinf == 0) || (i == 6 && s->neginf == 0))
            continue;
        PyObject *value = PyObject_GetAttrString(self, shown[i]); /* owned */
        char digits[TT_NUMBER_TEXT];
        PyObject *next = NULL;
        if (value != NULL && PyFloat_Check(value)) {
            tt_number_short(PyFloat_AS_DOUBLE(value), digits);
            next = PyUnicode_FromFormat("%U, %s=%s", text, shown[i], digits);
        } else if (value != NULL) {
            next = PyUnicode_FromFormat("%U, %s=%S", text, shown[i], value);
        }
        Py_XDECREF(value);
        Py_SETREF(text, next);
    }
    if (text != NULL)
        Py_SETREF(text, PyUnicode_FromFormat("Stats(%U)", text));
    return text;
}

/* Same bits in every field: NaN equals NaN. */
static PyObject *stats_compare(PyObject *self, PyObject *other, int op)
{
    if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    const summary_stats_object *a = (summary_stats_object *)self, *b = (summary_stats_object *)other;
    bool is_same = Py_SIZE(self) == Py_SIZE(other) &&
                   memcmp(&a->stats, &b->stats, sizeof a->stats) == 0 &&
                   memcmp(a->shape, b->shape, (size_t)Py_SIZE(self) * sizeof *a->shape) == 0;
    return PyBool_FromLong(is_same == (op == Py_EQ));
}

/* ---- stats() ------------------------------------------------------------- */

static int read_policy(PyObject *policy, bool *propagates)
{
    if (policy == NULL)
        return 0;
    if (PyUnicode_Check(policy)) {
        *propagates = PyUnicode_CompareWithASCIIString(policy, "propagate") == 0;
        if (*propagates || PyUnicode_CompareWithASCIIString(policy, "omit") == 0)
            return 0;
    }
    PyErr_Format(PyExc_ValueError, "nan_policy must be 'omit' or 'propagate', not %R", policy);
    return -1;
}

PyObject *summary_stats_on_device(PyObject *obj, bool propagates)
{
    PyObject *device = PyImport_ImportModule("tensortap.runs.device"); /* owned */
    PyObject *result = NULL;
    if (device != NULL)
        result = PyObject_CallMethod(device, "stats", "Os", obj, propagates ? "propagate" : "omit");
    Py_XDECREF(device);
    return result;
}

BINDING_FUNCTION(summary_stats)
{
    binding_state *state = binding_state_of(module);
    bool propagates = false, is_promised = false;
    if (kwnames != NULL || nargs != 1) {
        PyObject *policy = NULL; /* borrowed */
        const binding_option options[] = { { "nan_policy", OPTION_OBJECT, &policy },
                                           { "release_gil", OPTION_BOOL, &is_promised },
                                           { 0 } };
        if (binding_read_arguments("stats", 1, options, args, nargs, kwnames) < 0 ||
            read_policy(policy, &propagates) < 0)
            return NULL;
    }
    tensor_view view;
    tensor_view_result why = tensor_view_open(&state->torch, args[0], &view);
    bool is_for_torch = state->is_device_forced && tensor_torch_is_tensor(&state->torch, args[0]);
    if (why == VIEW_OK && is_for_torch)
        tensor_view_close(&view);
    if (why == VIEW_OK ? is_for_torch
                       : why == VIEW_DEVICE && tensor_torch_is_tensor(&state->torch, args[0]))
        return summary_stats_on_device(args[0], propagates);
    if (why != VIEW_OK)
        return tensor_view_refuse(&view, args[0], why);
    tt_stats s;
    if (binding_may_release_gil(&view, is_promised)) {
        Py_BEGIN_ALLOW_THREADS tt_stats_compute(&view.tensor, &s);
        Py_END_ALLOW_THREADS
    } else {
        tt_stats_compute(&view.tensor, &s);
    }
    if (propagates)
        tt_stats_propagate(&s);
    PyObject *self = summary_stats_make(state, &s, view.tensor.shape, view.tensor.ndim);
    tensor_view_close(&view);
    return self;
}

/* ---- the type ------------------------------------------------------------ */

static PyMethodDef methods[] = {
    { "as_dict", stats_as_dict, METH_NOARGS, "Give all fields as a dict." },
    { "__reduce__", summary_stats_reduce, METH_NOARGS, NULL },
    { 0 },
};

BINDING_VAR_CLASS(summary_stats, "tensortap.Stats", summary_stats_object, shape,
                  BINDING_NO_NEW | BINDING_FIXED, { Py_tp_doc, SUMMARY_DOC_STATS_TYPE },
                  { Py_tp_dealloc, binding_dealloc }, { Py_tp_repr, stats_repr },
                  { Py_tp_richcompare, stats_compare }, { Py_tp_hash, PyObject_HashNotImplemented },
                  { Py_tp_getset, getters }, { Py_tp_methods, methods });

/* ---- takes a Stats apart and puts it together again --------------------------- */

/* For pickling, and for tensors in a device's memory, whose numbers torch
 * computes (runs/device.py). */

/* The order of the numbers that _stats_from takes and __reduce__ gives. */
#define STATS_INT_MAP(X) X(count) X(nan) X(posinf) X(neginf) X(zeros)
#define STATS_DOUBLE_MAP(X) X(min) X(max) X(absmax) X(sum) X(mean) X(m2) X(l1) X(sumsq) X(sum_imag)

PyObject *summary_stats_reduce(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *module = PyType_GetModule(Py_TYPE(self)); /* borrowed */
    const tt_stats *s = &((summary_stats_object *)self)->stats;
    PyObject *from = NULL, *sum = NULL, *low = NULL, *high = NULL, *result = NULL; /* owned */
    tt_stats exact = *s;
    if (module != NULL)
        from = PyObject_GetAttrString(module, "_stats_from");
    uint64_t words[2] = { s->isum_lo, (uint64_t)s->isum_hi };
    sum = TT_LONG_FROM_BYTES(words, sizeof words);
    exact.count = 1; /* numbers as they are, not None */
    low = summary_exact_value(&exact, s->imin);
    high = summary_exact_value(&exact, s->imax);
    if (from != NULL && sum != NULL && low != NULL && high != NULL)
        result =
            Py_BuildValue("N(sN(LLLLLdddddddddOOOi))", Py_NewRef(from), tt_dtype_name((tt_dtype)s->dtype),
                          binding_shape_tuple(((summary_stats_object *)self)->shape, Py_SIZE(self)),
#define X(name) (long long)s->name,
                          STATS_INT_MAP(X)
#undef X
#define X(name) s->name,
                              STATS_DOUBLE_MAP(X)
#undef X
                                  low,
                          high, sum, (int)s->is_propagated);
    Py_XDECREF(from);
    Py_XDECREF(sum);
    Py_XDECREF(low);
    Py_XDECREF(high);
    return result;
}

static bool find_dtype(const char *name, int32_t *out)
{
    for (int d = 0; d < TT_DTYPE_COUNT_; d++) {
        if (strcmp(name, tt_dtype_name((tt_dtype)d)) == 0) {
            *out = d;
            return true;
        }
    }
    return false;
}

/* value is any int of at most 128 bits. */
static int read_wide(PyObject *value, uint64_t *low, int64_t *high)
{
    PyObject *bits = PyLong_FromLong(64), *top = NULL; /* owned */
    if (bits != NULL)
        top = PyNumber_Rshift(value, bits);
    if (top != NULL) {
        *low = PyLong_AsUnsignedLongLongMask(value);
        *high = PyLong_AsLongLong(top);
    }
    Py_XDECREF(bits);
    Py_XDECREF(top);
    return PyErr_Occurred() != NULL ? -1 : 0;
}

/* _stats_from(dtype, shape, numbers) -> Stats.  The last number: 0 as it is, 1 has
 * been propagated, 2 propagate now. */
BINDING_FUNCTION(summary_stats_from)
{
    static const binding_option none[] = { { 0 } };
    if (binding_read_arguments("_stats_from", 3, none, args, nargs, kwnames) < 0)
        return NULL;
    tt_stats s;
    memset(&s, 0, sizeof s);
    PyObject *low, *high, *sum; /* borrowed */
    long long n[5];
    int is_propagated = 0;
    const char *dtype = PyUnicode_AsUTF8(args[0]);
    if (dtype == NULL)
        return NULL;
    if (!find_dtype(dtype, &s.dtype) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]) ||
        PyTuple_GET_SIZE(args[1]) > TT_MAX_DIM) {
        PyErr_SetString(PyExc_ValueError, "not the parts of a Stats");
        return NULL;
    }
    if (!PyArg_ParseTuple(args[2], "LLLLLdddddddddOOOi", &n[0], &n[1], &n[2], &n[3], &n[4], &s.min,
                          &s.max, &s.absmax, &s.sum, &s.mean, &s.m2, &s.l1, &s.sumsq, &s.sum_imag, &low,
                          &high, &sum, &is_propagated))
        return NULL;
    s.count = n[0], s.nan = n[1], s.posinf = n[2], s.neginf = n[3], s.zeros = n[4];
    s.is_propagated = is_propagated == 1;
    int64_t over = 0;
    uint64_t bits = 0;
    if (read_wide(low, &bits, &over) < 0)
        return NULL;
    s.imin = (int64_t)bits;
    if (read_wide(high, &bits, &over) < 0)
        return NULL;
    s.imax = (int64_t)bits;
    if (read_wide(sum, &s.isum_lo, &s.isum_hi) < 0)
        return NULL;
    int64_t shape[TT_MAX_DIM];
    Py_ssize_t ndim = PyTuple_GET_SIZE(args[1]);
    for (Py_ssize_t d = 0; d < ndim; d++) {
        shape[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[1], d));
        if (shape[d] == -1 && PyErr_Occurred())
            return NULL;
    }
    if (is_propagated == 2)
        tt_stats_propagate(&s);
    return summary_stats_make(binding_state_of(module), &s, shape, ndim);
}
