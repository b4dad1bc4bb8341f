/* targets.c -- the paths at a place, the values they lead to, and keeping those.
 *
 * A tensor is the same as before if it is the same object with the same memory and
 * version.  A weak reference stands for the object, because addresses are used
 * again at once.  Where nobody counts versions (NumPy, inference tensors, the
 * running statistics of a batch norm) contents are digested.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

#include "tensor/copy.h"
#include "tensor/walk.h"

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

/* Index of the state of a name; SIZE_MAX: failed. */
static size_t state_of(trace_tracer *self, uint32_t group, PyObject *name)
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

/* Is whole again before anything goes: that may run code of the program's. */
void trace_state_clear(trace_state *state)
{
    PyObject *ref = state->ref, *refs = state->refs; /* owned now */
    state->ref = state->refs = NULL;
    state->seen = (tensor_fingerprint){ 0 };
    Py_XDECREF(ref);
    Py_XDECREF(refs);
}

/* ---- has it changed? ------------------------------------------------------------ */

/* Tensors and arrays.  *is_forced: the contents changed and the version did not. */
static bool tensor_changed(trace_tracer *self, trace_state *state, PyObject *value, tensor_kind kind,
                           bool by_content, bool is_doubtful, bool *is_forced)
{
    tensor_fingerprint now;
    bool is_object = state->ref != NULL && base_weakref_is(state->ref, value);
    tensor_fingerprint_take(&self->state->torch, value, kind,
                            LOOK_VERSION | LOOK_MEMORY |
                                (by_content || is_doubtful ? LOOK_DIGEST : LOOK_UNCOUNTED),
                            is_object ? &state->seen : NULL, &now);
    bool is_other = !is_object || tensor_fingerprint_is_other(&state->seen, &now);
    bool is_same = tensor_fingerprint_is_equal(&state->seen, &now);
    if (!by_content || !now.has_digest)
        is_same = !is_other && (is_same || !now.has_digest || !state->seen.has_digest);
    if (is_same) {
        if (now.has_digest && !state->seen.has_digest)
            state->seen = now; /* the first look that needs it */
        return false;
    }
    *is_forced = !is_other;
    PyObject *ref = PyWeakref_NewRef(value, NULL); /* owned */
    PyErr_Clear();
    trace_state_clear(state);
    state->ref = ref;
    state->seen = now;
    return true;
}

static bool are_alive(PyObject *refs)
{
    for (Py_ssize_t i = 0; refs != NULL && i < PyList_GET_SIZE(refs); i++)
        if (base_weakref_is(PyList_GET_ITEM(refs, i), NULL))
            return false;
    return true;
}

/* Anything else: a list that was appended to is the same object as before. */
static bool value_changed(trace_tracer *self, trace_state *state, PyObject *value, tensor_kind kind,
                          bool by_content)
{
    tensor_fingerprint now = { .object = value, .kind = (uint8_t)kind, .has_digest = true };
    PyObject *refs = kind != KIND_PLAIN ? PyList_New(0) : NULL; /* owned */
    now.digest =
        tensor_digest(&self->state->torch, value, LOOK_OBJECTS | (by_content ? 0 : LOOK_VERSION), refs);
    if (tensor_fingerprint_is_equal(&state->seen, &now) && are_alive(state->refs)) {
        Py_XDECREF(refs);
        return false;
    }
    trace_state_clear(state);
    state->seen = now;
    state->refs = refs;
    return true;
}

static bool changed(trace_tracer *self, trace_state *state, PyObject *value, trace_keep keep,
                    bool is_doubtful, bool *is_forced)
{
    tensor_kind kind = tensor_kind_of(&self->state->torch, value);
    bool is_new = state->iteration != self->iteration, by_content = keep == TRACE_CONTENT;
    state->iteration = self->iteration;
    if (is_new && keep == TRACE_ALWAYS)
        trace_state_clear(state);
    return tensor_kind_has_elements(kind)
               ? tensor_changed(self, state, value, kind, by_content, is_doubtful, is_forced)
               : value_changed(self, state, value, kind, by_content);
}

/* ---- keeping --------------------------------------------------------------------- */

/* Has the lists of the name be there; asked for once after each gather. */
static bool find_lists(trace_tracer *self, trace_state *state, uint32_t group, PyObject *name)
{
    if (state->iterations != NULL && state->gathers == self->gathers)
        return true;
    PyObject *pair = PyObject_CallFunction(self->lists, "IO", (unsigned int)group, name); /* owned */
    if (pair == NULL || !PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 ||
        !PyList_Check(PyTuple_GET_ITEM(pair, 0)) || !PyList_Check(PyTuple_GET_ITEM(pair, 1))) {
        Py_XDECREF(pair);
        return false;
    }
    Py_XSETREF(state->iterations, Py_NewRef(PyTuple_GET_ITEM(pair, 0)));
    Py_XSETREF(state->values, Py_NewRef(PyTuple_GET_ITEM(pair, 1)));
    state->gathers = self->gathers;
    Py_DECREF(pair);
    return true;
}

static bool append(trace_tracer *self, const trace_state *state, const trace_group *group, PyObject *copy)
{
    PyObject *iterations = Py_XNewRef(state->iterations), *values = Py_XNewRef(state->values); /* owned */
    PyObject *number = PyLong_FromLongLong(trace_count(self, group->mode));                    /* owned */
    bool is_done = number != NULL && iterations != NULL && values != NULL && /* NULL: just gathered */
                   PyList_Append(iterations, number) == 0;
    if (is_done && PyList_Append(values, copy) < 0) {
        Py_ssize_t end = PyList_GET_SIZE(iterations);
        (void)PyList_SetSlice(iterations, end - 1, end, NULL);
        is_done = false;
    }
    Py_XDECREF(number);
    Py_XDECREF(iterations);
    Py_XDECREF(values);
    return is_done;
}

/* Keeps a plain tensor without a detour through Python; false: it is none, or that failed. */
static bool keep_copy(trace_tracer *self, trace_state *state, uint32_t number, PyObject *name,
                      PyObject *value, bool is_forced)
{
    const trace_group *group = &self->groups[number];
    tensor_torch *torch = &self->state->torch;
    if (!group->is_direct || !tensor_torch_is_tensor(torch, value) || PyList_GET_SIZE(self->runs) > 0)
        return false;
    PyObject *copy = tensor_copy(torch, self->copies, value, NULL, &state->seen, is_forced); /* owned */
    bool is_kept =
        copy != NULL && find_lists(self, state, number, name) && append(self, state, group, copy);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear(); /* then Python tries, and says what is wrong */
    Py_XDECREF(copy);
    return is_kept;
}

static void consider(trace_tracer *self, const trace_target *target, size_t state, PyObject *name,
                     PyObject *value, bool is_doubtful)
{
    bool is_forced = false;
    const trace_group *group = &self->groups[target->group];
    self->is_matched[target->path] = true;
    if (!group->is_on || self->error != NULL ||
        !changed(self, self->states[state], value, group->keep, is_doubtful, &is_forced))
        return;
    trace_pause();
    bool is_done = keep_copy(self, self->states[state], target->group, name, value, is_forced);
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

/* ---- inside a value --------------------------------------------------------------- */

typedef struct walking {
    trace_tracer *tracer;
    const trace_target *target;
    Py_ssize_t part;  /* of the target's inner that comes next */
    bool is_doubtful; /* it is a parameter or buffer: its version does not always tell */
} walking;

static bool is_star(PyObject *part)
{
    return PyUnicode_GET_LENGTH(part) == 1 && PyUnicode_READ_CHAR(part, 0) == '*';
}

/* A star means public names and numbers. */
static bool is_public(PyObject *key)
{
    return PyLong_Check(key) || (PyUnicode_Check(key) &&
                                 (PyUnicode_GET_LENGTH(key) == 0 || PyUnicode_READ_CHAR(key, 0) != '_'));
}

static void walk(walking at, PyObject *value, PyObject *name);

/* key NULL: by index */
static void step_to(walking at, PyObject *value, PyObject *name, PyObject *key, Py_ssize_t index)
{
    const char *dot = PyUnicode_GET_LENGTH(name) > 0 ? "." : "";
    PyObject *longer = key != NULL ? PyUnicode_FromFormat("%U%s%S", name, dot, key)
                                   : PyUnicode_FromFormat("%U%s%zd", name, dot, index); /* owned */
    at.part++;
    if (longer != NULL)
        walk(at, value, longer);
    Py_XDECREF(longer);
}

static void walk_children(walking at, PyObject *value, PyObject *name)
{
    tensor_children it;
    tensor_children_open(&it, &at.tracer->state->torch, value, CHILDREN_OBJECTS | CHILDREN_MODULES);
    while (tensor_children_next(&it)) {
        walking inside = at;
        inside.is_doubtful |= it.is_registered;
        if (it.key == NULL || is_public(it.key))
            step_to(inside, it.value, name, it.key, it.index);
    }
    tensor_children_close(&it);
}

static void walk(walking at, PyObject *value, PyObject *name)
{
    tensor_torch *torch = &at.tracer->state->torch;
    PyObject *inner = at.target->inner; /* borrowed */
    Py_ssize_t count = PyTuple_GET_SIZE(inner);
    if (at.part == count) {
        /* A whole module must be named: a star would copy the model. */
        if (is_star(PyTuple_GET_ITEM(inner, count - 1)) &&
            PyType_IsSubtype(Py_TYPE(value), torch->module))
            return;
        size_t state = state_of(at.tracer, at.target->group, name);
        if (state != SIZE_MAX)
            consider(at.tracer, at.target, state, name, value, at.is_doubtful);
        return;
    }
    PyObject *part = PyTuple_GET_ITEM(inner, at.part); /* borrowed */
    if (tensor_kind_of(torch, value) < KIND_CONTAINER || PyType_Check(value))
        return;
    if (is_star(part)) {
        walk_children(at, value, name);
        return;
    }
    PyObject *found = tensor_child_named(torch, value, part, &at.is_doubtful); /* owned */
    if (found != NULL)
        step_to(at, found, name, part, 0);
    Py_XDECREF(found);
}

void trace_look(trace_tracer *self, const trace_target *target, PyObject *value, bool is_doubtful)
{
    if (self->error != NULL)
        return;
    Py_INCREF(value);
    if (PyTuple_GET_SIZE(target->inner) == 0) {
        consider(self, target, target->state, target->name, value, is_doubtful);
    } else {
        walking at = { .tracer = self, .target = target, .is_doubtful = is_doubtful };
        walk(at, value, target->name);
    }
    if (PyErr_Occurred())
        trace_take_error(self);
    Py_DECREF(value);
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
    out->state = state_of(self, group, name);
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
