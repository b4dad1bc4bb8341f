/* parameters.c -- metrics of parameters and gradients, all in one call.
 *
 * Over a list that was prepared once: a loop in Python would cost more than the
 * statistics of a small layer.  The list holds the parameters themselves; whether it is
 * still that of the model is told by a signature of the model's parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

#include "base/hash.h"

enum { AHEAD = 2 };   /* parameters, to be fetched */
#define MAX_DEPTH 200 /* modules in modules; deeper ones do not count */

void monitor_parameters_free(monitor_metrics *self)
{
    monitor_parameter *all = self->parameters; /* owned now */
    Py_ssize_t count = self->parameter_count;
    self->parameters = NULL;
    self->parameter_count = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(all[i].tensor);
    PyMem_Free(all);
}

/* list of (tensor, row, row of its gradient, row of its gradient before clipping) */
PyObject *monitor_metrics_set_parameters(PyObject *self, PyObject *list)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "set_parameters() takes a list of (tensor, row, row, row)");
        return NULL;
    }
    monitor_parameters_free(metrics);
    Py_ssize_t count = PyList_GET_SIZE(list);
    metrics->parameters = PyMem_Calloc((size_t)count + 1, sizeof *metrics->parameters);
    if (metrics->parameters == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        monitor_parameter *at = &metrics->parameters[i];
        PyObject *tensor; /* borrowed */
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "Oiii", &tensor, &at->rows[0], &at->rows[1],
                              &at->rows[2]))
            return NULL;
        for (int which = 0; which < 3; which++) {
            if (at->rows[which] >= metrics->row_count) {
                PyErr_SetString(PyExc_ValueError, "no such row");
                return NULL;
            }
        }
        at->tensor = Py_NewRef(tensor);
        metrics->parameter_count = i + 1; /* from here on it is freed */
    }
    Py_RETURN_NONE;
}

static int add_index(PyObject *list, Py_ssize_t index)
{
    PyObject *number = PyLong_FromSsize_t(index); /* owned */
    int result = number != NULL ? PyList_Append(list, number) : -1;
    Py_XDECREF(number);
    return result;
}

/* Reads one; appends its index to `without` if it has no gradient. */
static int read_one(monitor_metrics *self, Py_ssize_t index, int which, PyObject *without)
{
    monitor_parameter *at = &self->parameters[index];
    bool is_gradient = which != METRIC_OF_PARAMETER;
    PyObject *tensor = is_gradient ? tensor_torch_grad(&self->state->torch, at->tensor)
                                   : Py_NewRef(at->tensor); /* owned */
    tensor_looks looks = { .torch = &self->state->torch };
    int result = 0;
    if (tensor == NULL)
        return add_index(without, index);
    if (at->rows[which] >= 0)
        result = monitor_row_read(self, &looks, at->rows[which], tensor,
                                  is_gradient ? &at->gradient_trust : &at->trust);
    tensor_looks_clear(&looks);
    Py_DECREF(tensor);
    return result;
}

/* read_parameters(which): gives the indices of parameters without a gradient */
PyObject *monitor_metrics_read_parameters(PyObject *self, PyObject *which)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    long number = PyLong_AsLong(which);
    if (number < METRIC_OF_PARAMETER || number > METRIC_OF_GRADIENT_BEFORE_CLIP) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "which must be 0, 1 or 2");
        return NULL;
    }
    uint64_t generation = metrics->generation;
    PyObject *without = PyList_New(0); /* owned */
    for (Py_ssize_t i = 0; without != NULL && i < metrics->parameter_count; i++) {
        if (metrics->generation != generation)
            break; /* unread() changed what is wanted: the rows are gone */
        if (i + AHEAD < metrics->parameter_count)
            __builtin_prefetch(metrics->parameters[i + AHEAD].tensor);
        if (read_one(metrics, i, (int)number, without) < 0)
            Py_CLEAR(without);
    }
    return without;
}

/* ---- the model's parts --------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *part)
{
    return base_hash_mix(hash, (uint64_t)(uintptr_t)part);
}

static uint64_t mix_module(const monitor_metrics *self, PyObject *module, uint64_t hash, int depth)
{
    PyObject *dict = PyObject_GenericGetDict(module, NULL); /* owned */
    PyObject *key, *value;                                  /* borrowed */
    Py_ssize_t at = 0;
    hash = mix(hash, module);
    PyObject *parameters = dict != NULL ? PyDict_GetItemWithError(dict, self->parameters_key) : NULL;
    if (parameters != NULL && PyDict_Check(parameters))
        while (PyDict_Next(parameters, &at, &key, &value))
            hash = mix(mix(hash, key), value);
    PyObject *children = dict != NULL ? PyDict_GetItemWithError(dict, self->modules_key) : NULL;
    at = 0;
    if (children != NULL && PyDict_Check(children) && depth < MAX_DEPTH)
        while (PyDict_Next(children, &at, &key, &value))
            hash = value == Py_None ? mix(mix(hash, key), NULL)
                                    : mix_module(self, value, mix(hash, key), depth + 1);
    PyErr_Clear();
    Py_XDECREF(dict);
    return hash;
}

/* signature(module): a number that changes when a module or parameter is added, taken
 * away or replaced */
PyObject *monitor_metrics_signature(PyObject *self, PyObject *module)
{
    return PyLong_FromUnsignedLongLong(mix_module((monitor_metrics *)self, module, 0, 0));
}
