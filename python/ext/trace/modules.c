/* modules.c -- iterations, and what the wanted modules give.
 *
 * The outermost call of the model is an iteration.  At its beginning it is
 * decided which groups are traced in it, and the line source is attached only if
 * one is and needs it; an iteration that is not traced costs a few comparisons.
 * At its end the groups whose turn it is are gathered.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

static bool is_of_mode(trace_mode mode, bool is_training)
{
    return mode == TRACE_BOTH || (mode == TRACE_TRAINING) == is_training;
}

int64_t trace_count(const trace_tracer *self, trace_mode mode)
{
    int64_t count = mode == TRACE_BOTH       ? self->iteration
                    : mode == TRACE_TRAINING ? self->training
                                             : self->evaluation;
    return count > 0 ? count : 1; /* before the first forward: it is the first's */
}

void trace_choose(trace_tracer *self, bool is_training)
{
    self->is_tracing = false;
    for (size_t i = 0; i < self->group_count; i++) {
        trace_group *group = &self->groups[i];
        group->is_on =
            is_of_mode(group->mode, is_training) && trace_count(self, group->mode) % group->every == 0;
        self->is_tracing |= group->is_on;
    }
}

/* The flag of the very module that is called: its wrapper may say otherwise. */
static bool read_training(PyObject *module)
{
    PyObject *flag = NULL; /* owned */
    bool is_training =
        PyObject_GetOptionalAttrString(module, "training", &flag) <= 0 || PyObject_IsTrue(flag) != 0;
    PyErr_Clear();
    Py_XDECREF(flag);
    return is_training;
}

static int begin(trace_tracer *self, bool is_training)
{
    PyDict_Clear(self->copies);
    self->iteration++;
    if (is_training)
        self->training++;
    else
        self->evaluation++;
    trace_choose(self, is_training);
    self->scope_depth = 0;
    if (self->is_tracing && !self->is_scoped)
        return trace_attach(self);
    trace_detach(self);
    return 0;
}

/* The groups that are to be gathered now, as a list of numbers; NULL: none, or
 * with an exception. */
static PyObject *list_due(const trace_tracer *self, bool is_training)
{
    PyObject *due = NULL; /* owned */
    for (size_t i = 0; i < self->group_count; i++) {
        const trace_group *group = &self->groups[i];
        if (!is_of_mode(group->mode, is_training) ||
            trace_count(self, group->mode) % group->gather_every != 0)
            continue;
        PyObject *number = PyLong_FromSize_t(i); /* owned */
        if (due == NULL)
            due = PyList_New(0);
        if (number == NULL || due == NULL || PyList_Append(due, number) < 0)
            Py_CLEAR(due);
        Py_XDECREF(number);
        if (due == NULL)
            return NULL;
    }
    return due;
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
    PyObject *due = has_raised ? NULL : list_due(self, is_training); /* owned */
    if (due == NULL)
        return PyErr_Occurred() ? -1 : 0;
    trace_pause();
    PyObject *done = PyObject_CallOneArg(self->gather, due); /* owned */
    trace_go_on();
    Py_DECREF(due);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* ---- events -------------------------------------------------------------------- */

static bool is_replica(const calls_link *link, const calls_event *event)
{
    return !base_weakref_is(link->module, event->module);
}

static void add_replica(trace_tracer *self, const calls_link *link, const calls_event *event)
{
    if (self->replica_count == TRACE_REPLICAS)
        return;
    trace_replica *one = &self->replicas[self->replica_count];
    if (PyWeakref_GetRef(link->module, &one->original) <= 0)
        return; /* nobody is left to speak for it */
    one->replica = Py_NewRef(event->module);
    self->replica_count++;
}

static void remove_replica(trace_tracer *self, const PyObject *replica)
{
    for (int i = self->replica_count - 1; i >= 0; i--) {
        if (self->replicas[i].replica != replica)
            continue;
        trace_replica gone = self->replicas[i];
        self->replicas[i] = self->replicas[--self->replica_count];
        Py_DECREF(gone.replica);
        Py_DECREF(gone.original);
        return;
    }
}

void trace_forget_replicas(trace_tracer *self)
{
    while (self->replica_count > 0) {
        trace_replica gone = self->replicas[--self->replica_count];
        Py_DECREF(gone.replica);
        Py_DECREF(gone.original);
    }
}

static int on_before(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    trace_tracer *self = (trace_tracer *)consumer;
    const trace_link *mine = link->data;
    if (mine == NULL || !trace_is_here(self))
        return 0;
    if (is_replica(link, event))
        add_replica(self, link, event);
    else if (mine->is_root && event->depth == 0 && begin(self, read_training(event->module)) < 0)
        return -1;
    if (mine->has_places && self->is_scoped && self->is_tracing && self->scope_depth++ == 0)
        return trace_attach(self);
    return 0;
}

static int on_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    trace_tracer *self = (trace_tracer *)consumer;
    const trace_link *mine = link->data;
    if (mine == NULL || !trace_is_here(self))
        return 0;
    if (mine->has_places && self->scope_depth > 0 && --self->scope_depth == 0)
        trace_detach(self);
    for (size_t i = 0; self->is_tracing && event->output != NULL && i < mine->targets.count; i++) {
        const trace_target *target = &mine->targets.all[i];
        if (self->groups[target->group].is_on)
            trace_look(self, target, target->origin == ORIGIN_OUTPUT ? event->output : event->module,
                       false);
    }
    if (is_replica(link, event))
        remove_replica(self, event->module);
    else if (mine->is_root && event->depth == 0)
        return end(self, read_training(event->module), event->output == NULL);
    return 0;
}

static void free_link(void *data)
{
    trace_free_targets(&((trace_link *)data)->targets);
    PyMem_Free(data);
}

const calls_table trace_calls = { .before = on_before, .after = on_after, .free_data = free_link };
