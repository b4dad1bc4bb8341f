/* modules.c -- iterations, and what the wanted modules return.
 *
 * The outermost call of the model is an iteration.  When it begins, it is decided which groups are
 * traced in it, and the line source is attached only if one of them needs it; an iteration that is not
 * traced costs a few comparisons.  When it ends, the groups that are due are gathered.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

static trace_mode mode_of(bool is_training)
{
    return is_training ? TRACE_TRAINING : TRACE_EVALUATION;
}

int64_t trace_count(const trace_tracer *self, int mode)
{
    return self->counts[mode] > 0 ? self->counts[mode] : 1; /* before the first forward: as in it */
}

/* Is it the turn of a group that does something every so many iterations of its mode? */
static bool is_due(const trace_tracer *self, const trace_group *group, bool is_training, long long every)
{
    return (group->mode == TRACE_BOTH || group->mode == (int)mode_of(is_training)) &&
           trace_count(self, group->mode) % every == 0;
}

void trace_choose(trace_tracer *self, bool is_training)
{
    self->is_tracing = false;
    for (size_t i = 0; i < self->group_count; i++) {
        trace_group *group = &self->groups[i];
        group->is_on = is_due(self, group, is_training, group->every);
        self->is_tracing |= group->is_on;
    }
}

static int begin(trace_tracer *self, bool is_training)
{
    PyDict_Clear(self->copies);
    self->counts[TRACE_BOTH]++;
    self->counts[mode_of(is_training)]++;
    trace_choose(self, is_training);
    if (self->is_tracing)
        return trace_attach(self);
    trace_detach(self);
    return 0;
}

/* Has Python gather the groups that are due.  0, or -1 with an exception. */
static int gather(trace_tracer *self, bool is_training)
{
    PyObject *due = PyList_New(0), *done = NULL; /* owned */
    for (size_t i = 0; due != NULL && i < self->group_count; i++)
        if (is_due(self, &self->groups[i], is_training, self->groups[i].gather_every))
            binding_list_add(&due, PyLong_FromSize_t(i));
    if (due != NULL && PyList_GET_SIZE(due) > 0) {
        trace_paused++;
        done = PyObject_CallOneArg(self->gather, due);
        trace_paused--;
    }
    Py_XDECREF(due);
    Py_XDECREF(done);
    return PyErr_Occurred() ? -1 : 0;
}

/* 0, or -1 with an exception for the user. */
static int end(trace_tracer *self, bool is_training, bool has_raised)
{
    if (!self->is_wide)
        trace_detach(self);
    PyDict_Clear(self->copies);
    if (self->error != NULL && self->error_thread == PyThreadState_GetID(PyThreadState_Get())) {
        PyObject *error = self->error; /* owned now */
        self->error = NULL;
        PyErr_SetRaisedException(error);
        return -1;
    }
    return has_raised ? 0 : gather(self, is_training);
}

/* ---- events -------------------------------------------------------------------- */

static bool is_replica(const calls_link *link, const calls_event *event)
{
    return !base_weakref_is(link->module, event->module);
}

static void add_replica(trace_tracer *self, const calls_link *link, const calls_event *event)
{
    PyObject *original = NULL; /* owned */
    if (PyWeakref_GetRef(link->module, &original) > 0)
        (void)PyDict_SetItem(self->replicas, event->module, original);
    PyErr_Clear();
    Py_XDECREF(original);
}

static int on_before(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    trace_tracer *self = (trace_tracer *)consumer;
    const trace_link *mine = link->data;
    if (mine == NULL || !trace_is_here(self))
        return 0;
    if (is_replica(link, event))
        add_replica(self, link, event);
    else if (mine->is_root && event->depth == 0 &&
             begin(self, calls_is_training(self->state, event->module)) < 0)
        return -1;
    return 0;
}

/* dict[key], or a new dict under this key: borrowed; NULL with an exception. */
static PyObject *dict_inside(PyObject *dict, PyObject *key)
{
    PyObject *inner = PyDict_GetItemWithError(dict, key);                      /* borrowed */
    PyObject *made = inner == NULL && !PyErr_Occurred() ? PyDict_New() : NULL; /* owned */
    if (made != NULL)
        inner = PyDict_SetDefault(dict, key, made);
    Py_XDECREF(made);
    return inner;
}

/* A part of a path, as what it is called by: a number or a text.  Owned; NULL with an exception. */
static PyObject *key_of(PyObject *part)
{
    PyObject *number = PyLong_FromUnicodeObject(part, 10); /* owned */
    if (number == NULL && PyErr_ExceptionMatches(PyExc_ValueError))
        PyErr_Clear();
    return number != NULL || PyErr_Occurred() ? number : Py_NewRef(part);
}

/* Puts a value where the path leads, into dicts for all containers on the way.  0, or -1 with an exception. */
static int put_at(PyObject **collected, PyObject *path, PyObject *value)
{
    PyObject *dot = PyUnicode_FromString(".");                             /* owned */
    PyObject *parts = dot != NULL ? PyUnicode_Split(path, dot, -1) : NULL; /* owned; "", "0" */
    PyObject *dict;                                                        /* borrowed */
    Py_ssize_t count = parts != NULL ? PyList_GET_SIZE(parts) : 0;
    if (count == 1) {
        Py_XSETREF(*collected, Py_NewRef(value)); /* the output itself */
    } else if (count > 1) {
        if (*collected == NULL || !PyDict_Check(*collected))
            Py_XSETREF(*collected, PyDict_New());
        dict = *collected;
        for (Py_ssize_t i = 1; i < count && dict != NULL; i++) {
            PyObject *key = key_of(PyList_GET_ITEM(parts, i)); /* owned */
            if (key == NULL || (i == count - 1 && PyDict_SetItem(dict, key, value) < 0))
                dict = NULL;
            else if (i < count - 1)
                dict = dict_inside(dict, key);
            Py_XDECREF(key);
        }
    }
    Py_XDECREF(parts);
    Py_XDECREF(dot);
    return PyErr_Occurred() ? -1 : 0;
}

/* Of an eager call on_after() has the whole output, with what is no tensor. */
static int on_tensor(calls_consumer *consumer, calls_link *link, const calls_event *Py_UNUSED(event),
                     const calls_path *path, const calls_observation *seen)
{
    trace_tracer *self = (trace_tracer *)consumer;
    trace_link *mine = link->data;
    if (seen->row == NULL || mine == NULL || mine->targets.count == 0 || !trace_is_here(self))
        return 0;
    PyObject *value = calls_observation_value(seen); /* owned */
    int result = value != NULL ? put_at(&mine->collected, path->text, value) : 0;
    Py_XDECREF(value);
    return result < 0 || PyErr_Occurred() ? -1 : 0;
}

static int on_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    trace_tracer *self = (trace_tracer *)consumer;
    trace_link *mine = link->data;
    if (mine == NULL || !trace_is_here(self))
        return 0;
    tensor_looks own = { .torch = &self->state->torch };
    tensor_looks *looks = event->looks != NULL ? event->looks : &own;
    PyObject *output = Py_XNewRef(event->output != NULL ? event->output : mine->collected); /* owned */
    Py_CLEAR(mine->collected);
    for (size_t i = 0; self->is_tracing && output != NULL && i < mine->targets.count; i++) {
        const trace_target *target = &mine->targets.all[i];
        if (self->groups[target->group].is_on)
            trace_look(self, looks, target, target->origin == ORIGIN_OUTPUT ? output : event->module,
                       false);
    }
    Py_XDECREF(output);
    tensor_looks_clear(&own);
    if (is_replica(link, event)) {
        (void)PyDict_DelItem(self->replicas, event->module);
        PyErr_Clear(); /* it was not there */
    } else if (mine->is_root && event->depth == 0) {
        if (event->looks != NULL)
            tensor_looks_clear(event->looks);
        return end(self, calls_is_training(self->state, event->module), event->exception != NULL);
    }
    return 0;
}

static void free_link(void *data)
{
    trace_free_targets(&((trace_link *)data)->targets);
    Py_CLEAR(((trace_link *)data)->collected);
    PyMem_Free(data);
}

/* Inside compiled graphs: what is returned, where somebody wants it. */
static uint32_t wants(calls_consumer *Py_UNUSED(consumer), calls_link *link,
                      const calls_path *Py_UNUSED(path))
{
    const trace_link *mine = link->data;
    if (mine == NULL)
        return 0;
    return mine->targets.count > 0 ? TT_PRODUCT_VALUE : mine->is_root ? PROBE_SEEN : 0;
}

const calls_table trace_calls = {
    .before = on_before, .tensor = on_tensor, .after = on_after, .wants = wants, .free_data = free_link
};
