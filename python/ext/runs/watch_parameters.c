/* watch_parameters.c -- parameters and gradients, when the optimizer is about to step.
 *
 * One call reads them all, over a list that was prepared once: a loop in Python
 * would cost more than the statistics of a small layer.  A parameter is looked
 * up in its module each time, because programs replace them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

#include <math.h>

void runs_watch_free_parameters(runs_watch *self)
{
    runs_watch_parameter *all = self->parameters; /* owned now */
    Py_ssize_t count = self->parameter_count;
    self->parameters = NULL;
    self->parameter_count = 0;
    self->noted_count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(all[i].module);
        Py_XDECREF(all[i].key);
        Py_XDECREF(all[i].name);
    }
    PyMem_Free(all);
}

/* list of (name, module, key) */
PyObject *runs_watch_set_parameters(PyObject *self, PyObject *list)
{
    runs_watch *watch = (runs_watch *)self;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "set_parameters() takes a list of (name, module, key)");
        return NULL;
    }
    if (watch->parameters != NULL) {
        PyErr_SetString(PyExc_ValueError, "the parameters are set already");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(list);
    watch->parameters = PyMem_Calloc((size_t)count + 1, sizeof *watch->parameters);
    if (watch->parameters == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        runs_watch_parameter *at = &watch->parameters[i];
        PyObject *name, *module, *key; /* borrowed */
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "UOU", &name, &module, &key))
            return NULL;
        watch->parameter_count = i + 1; /* from here on it is freed */
        at->site = at->gradient_site = -1;
        at->name = Py_NewRef(name);
        at->key = Py_NewRef(key);
        at->module = PyWeakref_NewRef(module, NULL);
        if (at->module == NULL)
            return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *runs_watch_parameter_get(runs_watch *self, runs_watch_parameter *parameter)
{
    PyObject *module = NULL, *dict = NULL; /* owned */
    PyObject *found = NULL;
    if (PyWeakref_GetRef(parameter->module, &module) <= 0)
        return NULL; /* gone */
    dict = PyObject_GenericGetDict(module, NULL);
    PyObject *table = dict != NULL ? PyDict_GetItemWithError(dict, self->parameters_key) : NULL;
    if (table != NULL && PyDict_Check(table))
        found = Py_XNewRef(PyDict_GetItemWithError(table, parameter->key));
    if (found != NULL && !tensor_torch_is_tensor(&self->state->torch, found))
        Py_CLEAR(found); /* None: registered, but not there */
    PyErr_Clear();
    Py_XDECREF(dict);
    Py_DECREF(module);
    return found;
}

/* id() of each parameter as it is now; 0: gone */
PyObject *runs_watch_parameter_ids(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_watch *watch = (runs_watch *)self;
    PyObject *ids = PyList_New(watch->parameter_count); /* owned */
    for (Py_ssize_t i = 0; ids != NULL && i < watch->parameter_count; i++) {
        PyObject *parameter = runs_watch_parameter_get(watch, &watch->parameters[i]); /* owned */
        PyObject *id = PyLong_FromVoidPtr(parameter);
        Py_XDECREF(parameter);
        if (id == NULL)
            Py_CLEAR(ids);
        else
            PyList_SET_ITEM(ids, i, id);
    }
    return ids;
}

typedef struct norm {
    double sumsq;
    int64_t nan, infinite;
    bool has_any, is_wanted;
} norm;

static void norm_add(norm *total, const tt_stats *stats)
{
    total->has_any = true;
    total->sumsq += stats->sumsq;
    total->nan += stats->nan;
    total->infinite += stats->posinf + stats->neginf;
}

/* Records a gradient as backward left it: it was changed since.  1: done; 0: it is not known; -1: with
 * the exception of on_nonfinite. */
static int record_arrived(runs_watch *self, runs_watch_parameter *parameter, PyObject *gradient,
                          const runs_watch_tag *tag)
{
    runs_recorder *recorder = self->recorder;
    tensor_view view;
    if (!parameter->has_stats || self->is_scaled || recorder->rec == NULL)
        return 0;
    uint32_t products = tt_recorder_wants(recorder->rec, tag->site, recorder->step);
    if ((products & (uint32_t)~TT_PRODUCT_STATS) != 0 ||
        tensor_quick_open(&self->state->torch, gradient, tag->trust, &view) != VIEW_OK)
        return 0;
    tt_stats now;
    tt_stats_compute(&view.tensor, &now);
    if (runs_watch_is_finite(&parameter->noted) &&
        !runs_watch_is_finite(&now)) { /* the change made it so: that is the news */
        tensor_view_close(&view);
        return 0;
    }
    if (products != 0)
        runs_watch_record_stats(self, &parameter->noted, view.tensor.shape, view.tensor.ndim, tag, -1,
                                runs_clock_coarse());
    tensor_view_close(&view);
    return runs_watch_tell_nonfinite(self, &parameter->noted, tag, recorder->step) < 0 ? -1 : 1;
}

static bool is_wanted(const runs_watch *self, const runs_watch_tag *tag)
{
    const runs_recorder *recorder = self->recorder;
    return tag->is_for_norm ||
           (recorder->rec != NULL && tt_recorder_wants(recorder->rec, tag->site, recorder->step) != 0);
}

static int read_one(runs_watch *self, runs_watch_parameter *parameter, norm *total)
{
    PyObject *tensor = runs_watch_parameter_get(self, parameter); /* owned */
    PyObject *gradient = NULL;                                    /* owned */
    runs_watch_tag tag = { .phase = TT_PHASE_TRAIN };
    tt_stats stats;
    int result = 0;
    if (tensor == NULL)
        goto out;
    if (parameter->site < 0)
        parameter->site = runs_watch_site(self, "parameter", parameter->name);
    tag.site = parameter->site;
    tag.trust = &parameter->trust;
    if (runs_watch_record_alone(self, tensor, &tag, NULL) < 0) {
        result = -1;
        goto out;
    }
    if (!self->has_gradients || (gradient = tensor_torch_grad(&self->state->torch, tensor)) == NULL)
        goto out;
    if (parameter->gradient_site < 0)
        parameter->gradient_site = runs_watch_site(self, "gradient", parameter->name);
    tag.site = parameter->gradient_site;
    tag.trust = &parameter->gradient_trust;
    tag.is_for_norm = total->is_wanted;
    bool is_changed = parameter->is_arrived && runs_watch_version(self, gradient) != parameter->version;
    if (is_changed && (result = record_arrived(self, parameter, gradient, &tag)) != 0) {
        stats = parameter->noted;
    } else {
        result = runs_watch_record_alone(self, gradient, &tag, &stats);
        self->is_clipped |= is_changed && is_wanted(self, &tag);
    }
    self->is_changed |= is_changed;
    if (result > 0)
        norm_add(total, &stats);
out:
    parameter->is_arrived = parameter->has_stats = false;
    parameter->is_fresh = false; /* the step does happen */
    if (parameter->is_noted) {
        parameter->is_noted = false;
        self->noted_count--;
    }
    Py_XDECREF(gradient);
    Py_XDECREF(tensor);
    return result < 0 ? -1 : 0;
}

/* read_parameters((which, wants_norm)): which is None for all, or bytes of int32
 * indices.  Gives the norm of the gradients that were read here, or None. */
PyObject *runs_watch_read_parameters(PyObject *self, PyObject *arguments)
{
    runs_watch *watch = (runs_watch *)self;
    PyObject *which; /* borrowed */
    int wants_norm;
    norm total = { 0 };
    if (!PyArg_ParseTuple(arguments, "Op:read_parameters", &which, &wants_norm))
        return NULL;
    if (calls_traced_drain(watch->state, true) < 0)
        return NULL;
    total.is_wanted = wants_norm != 0;
    const int32_t *indices = NULL;
    Py_ssize_t count = watch->parameter_count;
    if (which != Py_None) {
        if (!PyBytes_Check(which)) {
            PyErr_SetString(PyExc_TypeError, "which must be None or bytes");
            return NULL;
        }
        indices = (const int32_t *)(const void *)PyBytes_AS_STRING(which);
        count = PyBytes_GET_SIZE(which) / (Py_ssize_t)sizeof *indices;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t at = indices != NULL ? indices[i] : i;
        if (at < 0 || at >= watch->parameter_count)
            continue;
        if (read_one(watch, &watch->parameters[at], &total) < 0)
            return NULL;
    }
    if (indices == NULL)
        watch->has_fresh = false;
    watch->is_ahead = true; /* compiled code may run next with nothing eager around it */
    if (watch->state->calls->has_slots)
        calls_traced_set_products(watch->state, &watch->consumer);
    watch->is_ahead = false;
    if (!total.has_any || !total.is_wanted)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(total.nan > 0 ? NAN : total.infinite > 0 ? INFINITY : sqrt(total.sumsq));
}
