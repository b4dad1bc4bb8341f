/* parameters.c -- metrics of parameters and gradients, all in one call.
 *
 * Over a list that was prepared once: a loop in Python would cost more than the
 * statistics of a small layer.  The list holds the parameters themselves; whether it is
 * still that of the model is told by a signature of the model's parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

#include "base/hash.h"

#define MAX_DEPTH 200 /* modules in modules; deeper ones do not count */

/* (tensor, row, row of its gradient, row of its gradient before clipping) */
static int read_parameter(void *context, void *parameter, PyObject *item)
{
    const monitor_metrics *self = context;
    monitor_parameter *at = parameter;
    PyObject *tensor; /* borrowed */
    if (!PyArg_ParseTuple(item, "Oiii", &tensor, &at->rows[0], &at->rows[1], &at->rows[2]))
        return -1;
    for (int which = 0; which < 3; which++) {
        if (at->rows[which] >= self->row_count) {
            PyErr_SetString(PyExc_ValueError, "no such row");
            return -1;
        }
    }
    at->base.tensor = Py_NewRef(tensor);
    return 0;
}

PyObject *monitor_metrics_set_parameters(PyObject *self, PyObject *list)
{
    int result = calls_parameters_set(&((monitor_metrics *)self)->parameters, list,
                                      sizeof(monitor_parameter), read_parameter, self);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

typedef struct reading {
    monitor_metrics *metrics;
    uint64_t generation;
    int which;         /* of METRIC_OF_ */
    PyObject *without; /* owned; list of the indices of those without a gradient */
} reading;

static int read_one(void *context, void *parameter, Py_ssize_t index, PyObject *tensor)
{
    reading *work = context;
    monitor_metrics *self = work->metrics;
    monitor_parameter *at = parameter;
    bool is_gradient = work->which != METRIC_OF_PARAMETER;
    tensor_looks looks = { .torch = &self->state->torch };
    PyObject *read = is_gradient ? tensor_torch_grad(looks.torch, tensor) : Py_NewRef(tensor); /* owned */
    int result = 0;
    if (read == NULL)
        binding_list_add(&work->without, PyLong_FromSsize_t(index));
    else if (at->rows[work->which] >= 0)
        result = monitor_row_read(self, at->rows[work->which],
                                  &(calls_observation){ .state = self->state, read, &looks });
    tensor_looks_clear(&looks);
    Py_XDECREF(read);
    if (result < 0)
        Py_CLEAR(work->without);
    /* unread() may change what is wanted: then the rows are gone. */
    return work->without == NULL || self->generation != work->generation;
}

/* read_parameters(which): returns the indices of parameters without a gradient */
PyObject *monitor_metrics_read_parameters(PyObject *self, PyObject *which)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    long number = PyLong_AsLong(which);
    if (number < METRIC_OF_PARAMETER || number > METRIC_OF_GRADIENT_BEFORE_CLIP) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "which must be 0, 1 or 2");
        return NULL;
    }
    reading work = { .metrics = metrics, .generation = metrics->generation, .which = (int)number };
    work.without = PyList_New(0);
    if (work.without != NULL)
        (void)calls_parameters_each(metrics->state, &metrics->parameters, NULL, metrics->parameters.count,
                                    read_one, &work);
    return work.without;
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
    PyObject *parameters =
        dict != NULL ? PyDict_GetItemWithError(dict, self->state->calls->parameters) : NULL;
    if (parameters != NULL && PyDict_Check(parameters))
        while (PyDict_Next(parameters, &at, &key, &value))
            hash = mix(mix(hash, key), value);
    PyObject *children = dict != NULL ? PyDict_GetItemWithError(dict, self->state->calls->modules) : NULL;
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
