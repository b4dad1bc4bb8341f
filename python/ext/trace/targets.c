/* targets.c -- the paths in a method, the values they lead to, and keeping those.
 *
 * A tensor is the same as before if it is the same object with the same memory and version.  A weak
 * reference stands for the object, because addresses are used again at once.  Where changes are not
 * counted (NumPy, inference tensors, the running statistics of a batch norm), contents are digested.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/open_run.h"
#include "trace/engine.h"

#include "tensor/copy.h"
#include "tensor/walk.h"

/* ---- errors and threads ------------------------------------------------------ */

_Thread_local int trace_paused;

bool trace_is_here(const trace_tracer *self)
{
    uint64_t here = PyThreadState_GetID(PyThreadState_Get());
    return (here == self->thread || here > self->last_thread) && trace_paused == 0;
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

/* Counts and clears the error that is set; Ctrl-C and the like are the program's. */
static void take_error(trace_tracer *self)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        trace_set_error(self, PyErr_GetRaisedException());
    calls_consumer_take_error(&self->consumer);
}

/* ---- states ------------------------------------------------------------------- */

/* The state of a name, made if it is not there; NULL with an exception. */
static trace_state *state_of(trace_tracer *self, uint32_t group, PyObject *name)
{
    PyObject *index = PyList_GET_ITEM(self->indices, (Py_ssize_t)group); /* borrowed */
    PyObject *found = PyDict_GetItemWithError(index, name);              /* borrowed */
    if (found != NULL || PyErr_Occurred())
        return found != NULL ? PyLong_AsVoidPtr(found) : NULL;
    trace_state *state = PyMem_Calloc(1, sizeof *state);
    PyObject *address = state != NULL ? PyLong_FromVoidPtr(state) : PyErr_NoMemory(); /* owned */
    if (address == NULL || PyDict_SetItem(index, name, address) < 0) {
        PyMem_Free(state);
        state = NULL;
    } else {
        *state = (trace_state){ .next = self->states, .iteration = -1 };
        self->states = state;
    }
    Py_XDECREF(address);
    return state;
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

/* The view that the consumers of this event share; NULL: the tensor cannot be read. */
static const tensor_view *view_of(tensor_looks *looks, PyObject *tensor)
{
    const tensor_look *look = tensor_look_at(looks, tensor);
    return look != NULL && look->why == VIEW_OK ? &look->view : NULL;
}

/* Tensors and arrays.  *is_forced: the contents changed and the version did not. */
static bool tensor_changed(trace_tracer *self, tensor_looks *looks, trace_state *state, PyObject *value,
                           tensor_kind kind, bool by_content, bool is_doubtful, bool *is_forced)
{
    tensor_fingerprint now;
    bool is_object = state->ref != NULL && base_weakref_is(state->ref, value);
    unsigned digest = by_content || is_doubtful ? LOOK_DIGEST : LOOK_UNCOUNTED;
    const tensor_view *view = kind == KIND_TORCH ? view_of(looks, value) : NULL;
    tensor_fingerprint_take(&self->state->torch, value, kind, LOOK_VERSION | digest,
                            is_object ? &state->seen : NULL, &now);
    now.data = view != NULL && view->temporary == NULL ? view->tensor.data : NULL;
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

/* ---- keeping --------------------------------------------------------------------- */

/* Appends a copy to the lists of its name, which Python is asked for once after each gather. */
static bool append(trace_tracer *self, trace_state *state, const trace_target *target, PyObject *name,
                   PyObject *copy)
{
    PyObject *lists = Py_XNewRef(state->lists); /* owned: another thread may gather */
    if (lists == NULL) {
        lists = PyObject_CallFunction(self->lists, "IO", (unsigned int)target->group, name);
        Py_XSETREF(state->lists, Py_XNewRef(lists));
    }
    PyObject *iteration =
        PyLong_FromLongLong(trace_count(self, self->groups[target->group].mode)); /* owned */
    bool is_done =
        lists != NULL && iteration != NULL && PyList_Append(PyTuple_GET_ITEM(lists, 0), iteration) == 0;
    if (is_done && PyList_Append(PyTuple_GET_ITEM(lists, 1), copy) < 0) {
        Py_ssize_t end = PyList_GET_SIZE(PyTuple_GET_ITEM(lists, 0));
        (void)PyList_SetSlice(PyTuple_GET_ITEM(lists, 0), end - 1, end, NULL);
        is_done = false;
    }
    Py_XDECREF(iteration);
    Py_XDECREF(lists);
    return is_done;
}

/* Keeps a plain tensor without calling Python; false: it is not one, or that failed. */
static bool keep_copy(trace_tracer *self, tensor_looks *looks, trace_state *state,
                      const trace_target *target, PyObject *name, PyObject *value, bool is_forced)
{
    tensor_torch *torch = &self->state->torch;
    if (!self->groups[target->group].is_direct || !tensor_torch_is_tensor(torch, value) ||
        runs_open_run(self->state) != NULL) /* which gets it too */
        return false;
    PyObject *copy = tensor_copy(torch, self->copies, value, NULL, &state->seen, view_of(looks, value),
                                 is_forced); /* owned */
    bool is_kept = copy != NULL && append(self, state, target, name, copy);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear(); /* then Python tries, and says what is wrong */
    Py_XDECREF(copy);
    return is_kept;
}

static bool changed(trace_tracer *self, tensor_looks *looks, trace_state *state, PyObject *value,
                    int keep, bool is_doubtful, bool *is_forced)
{
    tensor_kind kind = tensor_kind_of(&self->state->torch, value);
    bool is_new = state->iteration != self->counts[TRACE_BOTH], by_content = keep == TRACE_CONTENT;
    state->iteration = self->counts[TRACE_BOTH];
    if (is_new && keep == TRACE_ALWAYS)
        trace_state_clear(state);
    return tensor_kind_has_elements(kind)
               ? tensor_changed(self, looks, state, value, kind, by_content, is_doubtful, is_forced)
               : value_changed(self, state, value, kind, by_content);
}

static void consider(trace_tracer *self, tensor_looks *looks, const trace_target *target,
                     trace_state *state, PyObject *name, PyObject *value, bool is_doubtful)
{
    bool is_forced = false;
    const trace_group *group = &self->groups[target->group];
    PyByteArray_AS_STRING(self->matched)[target->path] = 1;
    if (!group->is_on || self->error != NULL ||
        !changed(self, looks, state, value, group->keep, is_doubtful, &is_forced))
        return;
    trace_paused++;
    if (!keep_copy(self, looks, state, target, name, value, is_forced) && !PyErr_Occurred()) {
        PyObject *done = PyObject_CallFunction(self->keep, "IOOLO", (unsigned int)target->group, name,
                                               value, (long long)trace_count(self, group->mode),
                                               is_forced ? Py_True : Py_False); /* owned */
        if (done == NULL)
            trace_set_error(self, PyErr_GetRaisedException()); /* raised when the iteration ends */
        Py_XDECREF(done);
    }
    trace_paused--;
    tensor_looks_clear(looks); /* other threads ran, or Python code */
}

/* ---- inside a value --------------------------------------------------------------- */

typedef struct walking {
    trace_tracer *tracer;
    tensor_looks *looks;
    const trace_target *target;
    Py_ssize_t part;  /* of the target's inner that comes next */
    bool is_doubtful; /* it is a parameter or buffer: its version does not show all changes */
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
        trace_state *state = state_of(at.tracer, at.target->group, name);
        if (state != NULL)
            consider(at.tracer, at.looks, at.target, state, name, value, at.is_doubtful);
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

void trace_look(trace_tracer *self, tensor_looks *looks, const trace_target *target, PyObject *value,
                bool is_doubtful)
{
    if (self->error != NULL)
        return;
    Py_INCREF(value);
    if (target->state != NULL) {
        consider(self, looks, target, target->state, target->name, value, is_doubtful);
    } else {
        walking at = { self, looks, target, .is_doubtful = is_doubtful };
        walk(at, value, target->name);
    }
    if (PyErr_Occurred())
        take_error(self);
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
    int origin;
    PyObject *name, *variable, *inner; /* borrowed */
    if (!PyArg_ParseTuple(tuple, "iIIUOiO!", &origin, &out->group, &out->path, &name, &variable,
                          &out->slot, &PyTuple_Type, &inner))
        return -1;
    if (out->group >= self->group_count || out->path >= (size_t)PyByteArray_GET_SIZE(self->matched)) {
        PyErr_SetString(PyExc_ValueError, "a target of an unknown group or path");
        return -1;
    }
    out->origin = (trace_origin)origin;
    out->name = Py_NewRef(name);
    out->variable = Py_NewRef(variable);
    out->inner = Py_NewRef(inner);
    if (PyTuple_GET_SIZE(inner) == 0)
        out->state = state_of(self, out->group, name);
    return PyErr_Occurred() ? -1 : 0;
}

int trace_read_targets(trace_tracer *self, PyObject *list, trace_targets *out)
{
    size_t count = (size_t)PyList_GET_SIZE(list);
    out->all = PyMem_Calloc(count + 1, sizeof *out->all);
    if (out->all == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (out->count < count) {
        PyObject *tuple = PyList_GET_ITEM(list, (Py_ssize_t)out->count);
        if (read_target(self, tuple, &out->all[out->count++]) < 0)
            return -1;
    }
    return 0;
}
