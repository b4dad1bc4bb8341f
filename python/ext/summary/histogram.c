/* histogram.c -- histogram() and the class Histogram.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "summary/docs.h"
#include "summary/functions.h"
#include "tensortap_tools.h"

typedef struct histogram_object {
    PyObject_HEAD tt_hist *hist; /* owned */
} histogram_object;

tt_hist *summary_hist_of(PyObject *histogram)
{
    return ((histogram_object *)histogram)->hist;
}

PyObject *summary_histogram_make(PyTypeObject *type)
{
    tt_hist *hist = NULL;
    if (tt_hist_create(&hist) < 0)
        return PyErr_NoMemory();
    histogram_object *self = PyObject_New(histogram_object, type);
    if (self == NULL)
        tt_hist_free(hist);
    else
        self->hist = hist;
    return (PyObject *)self;
}

static void histogram_dealloc(PyObject *self)
{
    tt_hist_free(summary_hist_of(self));
    binding_dealloc(self);
}

/* ---- fields -------------------------------------------------------------- */

/* A list with the counts of all bins, or their edges. */
static PyObject *get_bins(PyObject *self, void *wants_edges)
{
    size_t count = tt_hist_bins(summary_hist_of(self), NULL, 0);
    tt_hist_bin *bins = PyMem_New(tt_hist_bin, count + 1); /* owned */
    if (bins == NULL)
        return PyErr_NoMemory();
    tt_hist_bins(summary_hist_of(self), bins, count);
    PyObject *list = PyList_New(0); /* owned */
    for (size_t i = 0; list != NULL && i < count; i++)
        binding_list_add(&list, wants_edges != NULL ? Py_BuildValue("(dd)", bins[i].low, bins[i].high)
                                                    : PyLong_FromLongLong(bins[i].count));
    PyMem_Free(bins);
    return list;
}

enum { COUNT, NANS, POSINF, NEGINF, ZEROS };
static int64_t (*const counters[])(const tt_hist *hist) = { [COUNT] = tt_hist_count,
                                                            [NANS] = tt_hist_nan,
                                                            [POSINF] = tt_hist_posinf,
                                                            [NEGINF] = tt_hist_neginf,
                                                            [ZEROS] = tt_hist_zeros };

static PyObject *get_counter(PyObject *self, void *which)
{
    return PyLong_FromLongLong(counters[(size_t)which](summary_hist_of(self)));
}

static PyGetSetDef getters[] = {
    { "count", get_counter, NULL, "number of elements, NaN and Inf among them", (void *)COUNT },
    { "nan", get_counter, NULL, "number of NaN", (void *)NANS },
    { "posinf", get_counter, NULL, "number of +Inf", (void *)POSINF },
    { "neginf", get_counter, NULL, "number of -Inf", (void *)NEGINF },
    { "zeros", get_counter, NULL, "number of zeros", (void *)ZEROS },
    { "counts", get_bins, NULL, "how many elements each bin holds; empty bins are left out", NULL },
    { "edges", get_bins, NULL, "(low, high) of each bin in counts, from the lowest up", (void *)1 },
    { 0 },
};

/* ---- the object ---------------------------------------------------------- */

static PyObject *histogram_quantile(PyObject *self, PyObject *arg)
{
    double q = PyFloat_AsDouble(arg);
    if (q == -1.0 && PyErr_Occurred())
        return NULL;
    if (!(q >= 0.0 && q <= 1.0))
        return PyErr_Format(PyExc_ValueError, "a quantile lies between 0 and 1, not at %S", arg);
    return PyFloat_FromDouble(tt_hist_quantile(summary_hist_of(self), q));
}

static PyObject *histogram_add(PyObject *a, PyObject *b)
{
    /* Ours may be either; no other type's + comes here with both foreign. */
    if (!Py_IS_TYPE(a, Py_TYPE(b)))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *sum = summary_histogram_make(Py_TYPE(a));
    if (sum != NULL) {
        tt_hist_merge(summary_hist_of(sum), summary_hist_of(a));
        tt_hist_merge(summary_hist_of(sum), summary_hist_of(b));
    }
    return sum;
}

static PyObject *histogram_compare(PyObject *self, PyObject *other, int op)
{
    if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *a = binding_as_dict(self, NULL), *b = binding_as_dict(other, NULL); /* owned */
    PyObject *result = a != NULL && b != NULL ? PyObject_RichCompare(a, b, op) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result;
}

static PyObject *histogram_repr(PyObject *self)
{
    const tt_hist *hist = summary_hist_of(self);
    char low[TT_NUMBER_TEXT], middle[TT_NUMBER_TEXT], high[TT_NUMBER_TEXT];
    tt_number_short(tt_hist_quantile(hist, 0.05), low);
    tt_number_short(tt_hist_quantile(hist, 0.5), middle);
    tt_number_short(tt_hist_quantile(hist, 0.95), high);
    int64_t inf = tt_hist_posinf(hist) + tt_hist_neginf(hist);
    return PyUnicode_FromFormat(
        "Histogram(count=%lld, bins=%zu, 5%%=%s, 50%%=%s, 95%%=%s, nan=%lld, inf=%lld)",
        (long long)tt_hist_count(hist), tt_hist_bins(hist, NULL, 0), low, middle, high,
        (long long)tt_hist_nan(hist), (long long)inf);
}

BINDING_FUNCTION(summary_histogram)
{
    binding_state *state = binding_state_of(module);
    bool is_promised = false;
    const binding_option options[] = { { "release_gil", OPTION_BOOL, &is_promised }, { 0 } };
    tensor_view view;
    if (binding_read_arguments("histogram", 1, options, args, nargs, kwnames) < 0 ||
        binding_open_view(state, args[0], &view) < 0)
        return NULL;
    PyObject *self = summary_histogram_make(state->summary_histogram_type);
    if (self != NULL) {
        PyThreadState *released = binding_release_gil(binding_may_release_gil(&view, is_promised));
        tt_hist_add(summary_hist_of(self), &view.tensor);
        binding_take_gil(released);
    }
    tensor_view_close(&view);
    return self;
}

/* _histogram_of(counts) -> Histogram: of a list of (value, how many elements are in its bin), from devices */
BINDING_FUNCTION(summary_histogram_of)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("_histogram_of", 1, NULL, args, nargs, kwnames) < 0)
        return NULL;
    PyObject *counts = PySequence_List(args[0]); /* owned */
    PyObject *self = counts != NULL ? summary_histogram_make(state->summary_histogram_type) : NULL;
    for (Py_ssize_t i = 0; self != NULL && i < PyList_GET_SIZE(counts); i++) {
        double value;
        long long count;
        if (PyArg_ParseTuple(PyList_GET_ITEM(counts, i), "dL", &value, &count))
            tt_hist_add_value(summary_hist_of(self), value, count);
        else
            Py_CLEAR(self);
    }
    Py_XDECREF(counts);
    return self;
}

static PyMethodDef methods[] = {
    { "quantile", histogram_quantile, METH_O,
      "quantile($self, q, /)\n--\n\nReturn the q-quantile of the finite values, right to one bin (a "
      "quarter of itself)." },
    { "as_dict", binding_as_dict, METH_NOARGS, "Return all fields as a dict." },
    { 0 },
};

BINDING_CLASS(summary_histogram, "tensortap.Histogram", histogram_object, BINDING_NO_NEW | BINDING_FIXED,
              { Py_tp_doc, SUMMARY_DOC_HISTOGRAM_TYPE }, { Py_tp_dealloc, histogram_dealloc },
              { Py_tp_repr, histogram_repr }, { Py_tp_hash, PyObject_HashNotImplemented },
              { Py_tp_richcompare, histogram_compare }, { Py_nb_add, histogram_add },
              { Py_tp_getset, getters }, { Py_tp_methods, methods });
