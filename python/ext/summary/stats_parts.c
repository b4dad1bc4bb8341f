/* stats_parts.c -- takes a Stats apart and puts it together again.
 *
 * For pickling, and for tensors in a device's memory, whose numbers torch
 * computes (tensortap/device.py).
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/stats.h"

#include <string.h>

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
