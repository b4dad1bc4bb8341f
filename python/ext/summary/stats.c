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

/* A number of an integer type; None where there is no element. */
static PyObject *exact_value(const tt_stats *s, int64_t value)
{
    if (s->count == 0)
        Py_RETURN_NONE;
    return s->dtype == TT_U64 ? PyLong_FromUnsignedLongLong((uint64_t)value) : PyLong_FromLongLong(value);
}

static PyObject *get_bound(PyObject *self, void *is_max)
{
    const tt_stats *s = stats_of(self);
    if (is_exact(s))
        return exact_value(s, is_max != NULL ? s->imax : s->imin);
    return PyFloat_FromDouble(is_max != NULL ? s->max : s->min);
}

static PyObject *get_absmax(PyObject *self, void *Py_UNUSED(closure))
{
    const tt_stats *s = stats_of(self);
    if (!is_exact(s))
        return PyFloat_FromDouble(s->absmax);
    if (s->count == 0 || kind_of(s) != TT_KIND_INT)
        return exact_value(s, s->imax);
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

enum { VAR, STD, L2, RMS };
static double (*const derived[])(const tt_stats *s) = {
    [VAR] = tt_stats_var, [STD] = tt_stats_std, [L2] = tt_stats_l2, [RMS] = tt_stats_rms
};

static PyObject *get_derived(PyObject *self, void *which)
{
    return PyFloat_FromDouble(derived[(size_t)which](stats_of(self)));
}

#define AT(field) BINDING_AT(summary_stats_object, field)

static PyGetSetDef getters[] = {
    { "shape", binding_get_shape, NULL, "sizes, a tuple", AT(shape) },
    { "dtype", binding_get_dtype, NULL, "element type: 'float32'", AT(stats.dtype) },
    { "count", binding_get_int, NULL, "number of elements, NaN and Inf among them", AT(stats.count) },
    { "nan", binding_get_int, NULL, "number of NaN", AT(stats.nan) },
    { "posinf", binding_get_int, NULL, "number of +Inf (complex: of infinite |z|)", AT(stats.posinf) },
    { "neginf", binding_get_int, NULL, "number of -Inf", AT(stats.neginf) },
    { "zeros", binding_get_int, NULL, "number of zeros", AT(stats.zeros) },
    { "min", get_bound, NULL, "smallest finite value; of |z| for complex types", NULL },
    { "max", get_bound, NULL, "largest finite value; of |z| for complex types", (void *)1 },
    { "absmax", get_absmax, NULL, "largest |x| of the finite values", NULL },
    { "sum", get_sum, NULL, "sum of the finite values; exact for integer types", NULL },
    { "mean", get_mean, NULL, "mean of the finite values", NULL },
    { "var", get_derived, NULL, "unbiased variance; NaN below two values", (void *)VAR },
    { "std", get_derived, NULL, "root of var", (void *)STD },
    { "l1", binding_get_double, NULL, "sum of |x|", AT(stats.l1) },
    { "l2", get_derived, NULL, "root of the sum of squares", (void *)L2 },
    { "rms", get_derived, NULL, "root of the mean of squares", (void *)RMS },
    { 0 },
};

/* ---- the object ---------------------------------------------------------- */

static PyObject *stats_repr(PyObject *self)
{
    static const char *const shown[] = { "min", "max", "mean", "std", "nan", "posinf", "neginf" };
    const summary_stats_object *stats = (summary_stats_object *)self;
    const tt_stats *s = &stats->stats;
    bool has_std =
        s->nan + s->posinf + s->neginf > 0 || !isnan(tt_stats_std(s)); /* of one element: none */
    PyObject *text = binding_shape_text((tt_dtype)s->dtype, stats->shape, Py_SIZE(self)); /* owned */
    for (size_t i = 0; text != NULL && i < sizeof shown / sizeof *shown; i++) {
        if ((i == 3 && !has_std) || (i == 4 && s->nan == 0) || (i == 5 && s->posinf == 0) ||
            (i == 6 && s->neginf == 0))
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
    PyObject *function = binding_import("tensortap.devices.statistics", "stats"); /* owned */
    PyObject *result = NULL;
    if (function != NULL)
        result = PyObject_CallFunction(function, "Os", obj, propagates ? "propagate" : "omit");
    Py_XDECREF(function);
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
    PyThreadState *released = binding_release_gil(binding_may_release_gil(&view, is_promised));
    tt_stats_compute(&view.tensor, &s);
    binding_take_gil(released);
    if (propagates)
        tt_stats_propagate(&s);
    PyObject *self = summary_stats_make(state, &s, view.tensor.shape, view.tensor.ndim);
    tensor_view_close(&view);
    return self;
}

/* ---- takes a Stats apart and puts it together again --------------------------- */

/* For pickling, and for tensors in a device's memory, whose numbers torch
 * computes (devices/statistics.py). */

static PyObject *stats_reduce(PyObject *self, PyObject *Py_UNUSED(none))
{
    const tt_stats *s = stats_of(self);
    return Py_BuildValue("N(NN(LLLLLdddddddddKKKLi))",
                         PyObject_GetAttrString(PyType_GetModule(Py_TYPE(self)), "_stats_from"),
                         binding_get_dtype(self, AT(stats.dtype)), binding_get_shape(self, AT(shape)),
                         (long long)s->count, (long long)s->nan, (long long)s->posinf,
                         (long long)s->neginf, (long long)s->zeros, s->min, s->max, s->absmax, s->sum,
                         s->mean, s->m2, s->l1, s->sumsq, s->sum_imag, (unsigned long long)s->imin,
                         (unsigned long long)s->imax, (unsigned long long)s->isum_lo,
                         (long long)s->isum_hi, (int)s->is_propagated);
}

/* _stats_from(dtype, shape, numbers) -> Stats; numbers as above.  Of whole numbers the lowest 64 bits
 * count.  The last number: 0 as it is, 1 has been propagated, 2 propagate now. */
BINDING_FUNCTION(summary_stats_from)
{
    if (binding_read_arguments("_stats_from", 3, NULL, args, nargs, kwnames) < 0)
        return NULL;
    tt_stats s;
    memset(&s, 0, sizeof s);
    long long n[5], sum_high;
    unsigned long long low, high, sum_low;
    int is_propagated = 0;
    tt_dtype dtype;
    int64_t shape[TT_MAX_DIM];
    int32_t ndim;
    if (binding_read_shape(args[0], args[1], &dtype, shape, &ndim) < 0)
        return NULL;
    if (!PyTuple_Check(args[2]))
        return PyErr_Format(PyExc_ValueError, "not the numbers of a Stats");
    if (!PyArg_ParseTuple(args[2], "LLLLLdddddddddKKKLi", &n[0], &n[1], &n[2], &n[3], &n[4], &s.min,
                          &s.max, &s.absmax, &s.sum, &s.mean, &s.m2, &s.l1, &s.sumsq, &s.sum_imag, &low,
                          &high, &sum_low, &sum_high, &is_propagated))
        return NULL;
    s.dtype = (int32_t)dtype;
    s.count = n[0], s.nan = n[1], s.posinf = n[2], s.neginf = n[3], s.zeros = n[4];
    s.imin = (int64_t)low;
    s.imax = (int64_t)high;
    s.isum_lo = sum_low;
    s.isum_hi = sum_high;
    s.is_propagated = is_propagated == 1;
    if (is_propagated == 2)
        tt_stats_propagate(&s);
    return summary_stats_make(binding_state_of(module), &s, shape, ndim);
}

/* _stats_here(t): of a tensor in the CPU's memory, also where TENSORTAP_DEVICE_PATH sends all
 * tensors to the devices' way, whose copies this reads. */
BINDING_FUNCTION(summary_stats_here)
{
    binding_state *state = binding_state_of(module);
    tensor_view view;
    tt_stats s;
    if (binding_read_arguments("_stats_here", 1, NULL, args, nargs, kwnames) < 0 ||
        binding_open_view(state, args[0], &view) < 0)
        return NULL;
    tt_stats_compute(&view.tensor, &s);
    PyObject *self = summary_stats_make(state, &s, view.tensor.shape, view.tensor.ndim);
    tensor_view_close(&view);
    return self;
}

/* ---- the type ------------------------------------------------------------ */

static PyMethodDef methods[] = {
    { "as_dict", binding_as_dict, METH_NOARGS, "Return all fields as a dict." },
    { "__reduce__", stats_reduce, METH_NOARGS, NULL },
    { 0 },
};

BINDING_VAR_CLASS(summary_stats, "tensortap.Stats", summary_stats_object, shape,
                  BINDING_NO_NEW | BINDING_FIXED, { Py_tp_doc, SUMMARY_DOC_STATS_TYPE },
                  { Py_tp_dealloc, binding_dealloc }, { Py_tp_repr, stats_repr },
                  { Py_tp_richcompare, stats_compare }, { Py_tp_hash, PyObject_HashNotImplemented },
                  { Py_tp_getset, getters }, { Py_tp_methods, methods });
