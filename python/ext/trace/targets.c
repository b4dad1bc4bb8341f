/* targets.c -- the paths at a place, the states of their names, and keeping.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

#include <string.h>

/* ---- errors and threads ------------------------------------------------------ */

void trace_take_error(trace_tracer *self)
{
    bool is_ours = PyErr_ExceptionMatches(PyExc_Exception); /* Ctrl-C and the like are the program's */
    PyObject *error = PyErr_GetRaisedException();           /* owned */
    if (!is_ours) {
        trace_set_error(self, error);
        return;
    }
    self->errors++;
    if (self->own_error == NULL)
        self->own_error = Py_NewRef(error);
    Py_DECREF(error);
}

void trace_set_error(trace_tracer *self, PyObject *error)
{
    if (self->error == NULL && error != NULL) {
        self->error = error;
        self->error_thread = PyThreadState_GetID(PyThreadState_Get());
    } else {
        Py_XDECREF(error);
    }
}

static _Thread_local int paused;

void trace_pause(void)
{
    paused++;
}

void trace_go_on(void)
{
    paused--;
}

bool trace_is_here(const trace_tracer *self)
{
    uint64_t here = PyThreadState_GetID(PyThreadState_Get());
    return (here == self->thread || here > self->last_thread) && paused == 0;
}

/* ---- states ------------------------------------------------------------------- */

static bool grow_states(trace_tracer *self)
{
    size_t cap = self->state_cap > 0 ? self->state_cap * 2 : 16;
    trace_state **grown = PyMem_Realloc(self->states, cap * sizeof *grown);
    if (grown == NULL) {
        PyErr_NoMemory();
        return false;
    }
    self->states = grown;
    self->state_cap = cap;
    return true;
}

size_t trace_state_of(trace_tracer *self, uint32_t group, PyObject *name)
{
    PyObject *index = PyList_GET_ITEM(self->indices, (Py_ssize_t)group); /* borrowed */
    PyObject *found = PyDict_GetItemWithError(index, name);              /* borrowed */
    if (found != NULL)
        return PyLong_AsSize_t(found);
    if (PyErr_Occurred() || (self->state_count == self->state_cap && !grow_states(self)))
        return SIZE_MAX;
    trace_state *state = PyMem_Calloc(1, sizeof *state);
    PyObject *number =
        state != NULL ? PyLong_FromSize_t(self->state_count) : PyErr_NoMemory(); /* owned */
    if (number == NULL || PyDict_SetItem(index, name, number) < 0) {
        Py_XDECREF(number);
        PyMem_Free(state);
        return SIZE_MAX;
    }
    Py_DECREF(number);
    state->iteration = -1;
    self->states[self->state_count] = state;
    return self->state_count++;
}

void trace_consider(trace_tracer *self, const trace_target *target, size_t state, PyObject *name,
                    PyObject *value, bool is_doubtful)
{
    bool is_forced = false;
    const trace_group *group = &self->groups[target->group];
    self->is_matched[target->path] = true;
    if (!group->is_on || self->error != NULL ||
        !trace_state_take(self, self->states[state], value, group->keep, is_doubtful, &is_forced))
        return;
    trace_pause();
    bool is_done = trace_copy_keep(self, self->states[state], target->group, name, value, is_forced);
    if (is_done || PyErr_Occurred()) {
        trace_go_on();
        return;
    }
    PyObject *number = PyLong_FromUnsignedLong(target->group); /* owned */
    PyObject *done = number != NULL ? PyObject_CallFunctionObjArgs(self->keep, number, name, value,
                                                                   is_forced ? Py_True : Py_False, NULL)
                                    : NULL; /* owned */
    trace_go_on();
    if (done == NULL)
        trace_set_error(self, PyErr_GetRaisedException()); /* raised when the iteration ends */
    Py_XDECREF(done);
    Py_XDECREF(number);
}

/* ---- targets -------------------------------------------------------------------- */

void trace_free_targets(trace_targets *targets)
{
    for (size_t i = 0; i < targets->count; i++) {
        Py_XDECREF(targets->all[i].name);
        Py_XDECREF(targets->all[i].variable);
        Py_XDECREF(targets->all[i].inner);
    }
    PyMem_Free(targets->all);
    *targets = (trace_targets){ 0 };
}

/* (origin, group, path, name, variable, slot, inner) */
static int read_target(trace_tracer *self, PyObject *tuple, trace_target *out)
{
    int origin, slot;
    unsigned int group, path;
    PyObject *name, *variable, *inner; /* borrowed */
    if (!PyArg_ParseTuple(tuple, "iIIUOiO!", &origin, &group, &path, &name, &variable, &slot,
                          &PyTuple_Type, &inner))
        return -1;
    if (group >= self->group_count || path >= self->path_count) {
        PyErr_SetString(PyExc_ValueError, "a target of an unknown group or path");
        return -1;
    }
    *out = (trace_target){ .origin = (trace_origin)origin, .group = group, .path = path, .slot = slot };
    out->name = Py_NewRef(name);
    out->variable = Py_NewRef(variable);
    out->inner = Py_NewRef(inner);
    if (PyTuple_GET_SIZE(inner) > 0)
        return 0;
    out->state = trace_state_of(self, group, name);
    return out->state == SIZE_MAX ? -1 : 0;
}

int trace_read_targets(trace_tracer *self, PyObject *list, trace_targets *out)
{
    trace_targets read = { 0 };
    Py_ssize_t count = PyList_Check(list) ? PyList_GET_SIZE(list) : -1;
    int result = -1;
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "targets must be a list");
        goto out;
    }
    read.all = PyMem_Calloc((size_t)count + 1, sizeof *read.all);
    if (read.all == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        read.count++;
        if (read_target(self, PyList_GET_ITEM(list, i), &read.all[i]) < 0)
            goto out;
    }
    *out = read;
    read = (trace_targets){ 0 };
    result = 0;
out:
    trace_free_targets(&read);
    return result;
}
