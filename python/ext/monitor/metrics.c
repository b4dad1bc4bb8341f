/* metrics.c -- the class Metrics, behind tensortap.monitor.
 *
 * Python decides which metrics under which keys; what happens then is in the other
 * files of this folder.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

#include "summary/functions.h"
#include "summary/stats.h"

/* ---- life ---------------------------------------------------------------- */

static PyObject *metrics_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "resolve", "tell", "unread", NULL };
    binding_state *state = PyType_GetModuleState(type);
    PyObject *resolve, *tell, *unread; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:Metrics", names, &resolve, &tell, &unread))
        return NULL;
    if (!tensor_torch_find(&state->torch))
        return PyErr_Format(PyExc_RuntimeError, "torch has not been imported");
    monitor_metrics *self = (monitor_metrics *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state;
    self->resolve = Py_NewRef(resolve);
    self->tell = Py_NewRef(tell);
    self->unread = Py_NewRef(unread);
    self->generation = 1;
    calls_consumer_init(&self->consumer, &monitor_calls, &self->step, 0);
    return (PyObject *)self;
}

static int metrics_traverse(PyObject *self, visitproc visit, void *arg)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    for (Py_ssize_t i = 0; i < metrics->parameters.count; i++)
        Py_VISIT(((calls_parameter *)calls_parameters_at(&metrics->parameters, i))->tensor);
    return binding_visit(self, offsetof(monitor_metrics, consumer.links),
                         offsetof(monitor_metrics, unread), visit, arg);
}

static int metrics_clear(PyObject *self)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    metrics->consumer.is_off = true;
    calls_consumer_clear(&metrics->consumer);
    calls_parameters_free(&metrics->parameters);
    return binding_clear(self, offsetof(monitor_metrics, resolve), offsetof(monitor_metrics, unread));
}

static void metrics_dealloc(PyObject *self)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    PyObject_GC_UnTrack(self);
    monitor_rows_free(metrics);
    binding_dealloc(self);
}

/* ---- methods ------------------------------------------------------------- */

/* forget(): rows and parameters are void; Python will be asked again */
static PyObject *metrics_forget(PyObject *self, PyObject *Py_UNUSED(none))
{
    calls_parameters_free(&((monitor_metrics *)self)->parameters);
    monitor_rows_free((monitor_metrics *)self);
    Py_RETURN_NONE;
}

/* The row of this number, or NULL with an exception. */
static monitor_row **row_at(monitor_metrics *self, int number)
{
    if (number >= 0 && number < self->row_count)
        return &self->rows[number];
    PyErr_SetString(PyExc_ValueError, "no such row");
    return NULL;
}

static PyObject *metrics_read(PyObject *self, PyObject *args)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    int row;
    PyObject *tensor; /* borrowed */
    if (!PyArg_ParseTuple(args, "iO:read", &row, &tensor) || row_at(metrics, row) == NULL)
        return NULL;
    tensor_looks looks = { .torch = &metrics->state->torch };
    int result =
        monitor_row_read(metrics, row, &(calls_observation){ .state = metrics->state, tensor, &looks });
    tensor_looks_clear(&looks);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

/* add_stats(row, stats, histogram): summaries of a tensor that was not read here; histogram: or None */
static PyObject *metrics_add_stats(PyObject *self, PyObject *args)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    int number;
    PyObject *stats, *histogram; /* borrowed */
    if (!PyArg_ParseTuple(args, "iO!O:add_stats", &number, metrics->state->summary_stats_type, &stats,
                          &histogram))
        return NULL;
    monitor_row **row = row_at(metrics, number);
    if (row == NULL)
        return NULL;
    if ((*row)->hist != NULL && Py_IS_TYPE(histogram, metrics->state->summary_histogram_type))
        tt_hist_merge(summary_hist_of((*row)->hist), summary_hist_of(histogram));
    return monitor_row_add(row, ((summary_stats_object *)stats)->stats) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *get_fields(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure))
{
    return monitor_field_names();
}

/* ---- the type ------------------------------------------------------------ */

static PyMethodDef methods[] = {
    CALLS_CONSUMER_METHODS,
    { "forget", metrics_forget, METH_NOARGS, "Drop all rows and parameters." },
    { "row", monitor_metrics_row, METH_O, "Make a row of (kind, key, is_listed); return its number." },
    { "read", metrics_read, METH_VARARGS, "Add a tensor to a row." },
    { "add_stats", metrics_add_stats, METH_VARARGS, "Add statistics that a device computed." },
    { "collect", monitor_metrics_collect, METH_VARARGS, "Return the numbers of the step." },
    { "numbers", monitor_metrics_numbers, METH_O,
      "Read tensors of one element; None: cannot be read here." },
    { "histograms", monitor_metrics_histograms, METH_NOARGS, "Return the histograms of the step." },
    { "set_parameters", monitor_metrics_set_parameters, METH_O,
      "Prepare a list of (tensor, row, row, row)." },
    { "read_parameters", monitor_metrics_read_parameters, METH_O,
      "Measure parameters (0) or gradients (1, before clipping 2); return those without one." },
    { "signature", monitor_metrics_signature, METH_O,
      "Return a number that changes with the model's parts." },
    { 0 },
};

static PyGetSetDef getters[] = {
    { .name = "fields", .get = get_fields, .doc = "names of the kinds of fields" },
    { 0 },
};

static PyMemberDef members[] = {
    { "off", T_BOOL, offsetof(monitor_metrics, consumer.is_off), 0, "nothing is measured" },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(monitor_metrics, weakrefs), READONLY, NULL },
    { 0 },
};

BINDING_CLASS(
    monitor_metrics, "tensortap._core.Metrics", monitor_metrics, BINDING_GC,
    { Py_tp_doc,
      "Metrics(resolve, tell, unread)\n--\n\nMeasure outputs of modules, parameters and gradients." },
    { Py_tp_new, metrics_new }, { Py_tp_dealloc, metrics_dealloc }, BINDING_GC_SLOTS(metrics),
    { Py_tp_methods, methods }, { Py_tp_getset, getters }, { Py_tp_members, members });
