/* copy.c -- keeps a plain tensor without a detour through Python.
 *
 * The usual value is a strided tensor on the CPU, in a program without modes of
 * torch: it is cloned by one call and put behind the others of its name.  What
 * several names show in one iteration is cloned once: while the tensor that was
 * cloned lives, nobody else has its memory.  All else goes to `keep`, which is
 * Python's and knows every kind of value.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

/* ---- copies of this iteration ------------------------------------------------- */

void trace_copies_clear(trace_copies *copies)
{
    trace_copy *all = copies->all; /* owned now: other threads may run when a tensor goes */
    size_t count = copies->count, cap = copies->cap;
    *copies = (trace_copies){ 0 };
    for (size_t i = 0; i < count; i++) {
        Py_DECREF(all[i].owner);
        Py_DECREF(all[i].copy);
    }
    if (copies->all == NULL) {
        copies->all = all;
        copies->cap = cap;
    } else {
        PyMem_Free(all);
    }
}

static size_t bucket_of(const void *data)
{
    return (size_t)(((uintptr_t)data >> 6) * 0x9E3779B97F4A7C15u >> 56) % TRACE_BUCKETS;
}

static PyObject *find_copy(const trace_copies *copies, const trace_copy *wanted)
{
    for (size_t i = copies->bucket[bucket_of(wanted->data)]; i > 0; i = copies->all[i - 1].next) {
        const trace_copy *one = &copies->all[i - 1];
        if (one->data == wanted->data && one->version == wanted->version &&
            one->layout == wanted->layout && !base_weakref_is(one->owner, NULL))
            return one->copy;
    }
    return NULL;
}

/* Takes nothing over if it fails: then the next one is cloned again. */
static void add_copy(trace_copies *copies, trace_copy one, PyObject *tensor, PyObject *copy)
{
    if (copies->count == copies->cap) {
        size_t cap = copies->cap > 0 ? copies->cap * 2 : 32;
        trace_copy *grown = PyMem_Realloc(copies->all, cap * sizeof *grown);
        if (grown == NULL)
            return;
        copies->all = grown;
        copies->cap = cap;
    }
    one.owner = PyWeakref_NewRef(tensor, NULL);
    if (one.owner == NULL) {
        PyErr_Clear();
        return;
    }
    one.copy = Py_NewRef(copy);
    size_t *bucket = &copies->bucket[bucket_of(one.data)];
    one.next = *bucket;
    copies->all[copies->count++] = one;
    *bucket = copies->count;
}

/* ---- cloning -------------------------------------------------------------------- */

static uint64_t layout_of(const tt_tensor *t)
{
    uint64_t hash = (uint64_t)t->dtype + 1;
    for (int32_t d = 0; d < t->ndim; d++) {
        hash = (hash ^ (uint64_t)t->shape[d]) * 0x9E3779B97F4A7C15u;
        hash = (hash ^ (uint64_t)t->stride[d]) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 29;
    }
    return hash;
}

static bool is_yes(PyObject *function)
{
    PyObject *answer = PyObject_CallNoArgs(function); /* owned */
    bool is_so = answer == NULL || PyObject_IsTrue(answer) != 0;
    PyErr_Clear();
    Py_XDECREF(answer);
    return is_so;
}

/* Would a plain clone be seen by the program, or be of a kind of its own? */
static bool is_special(const trace_tracer *self)
{
    for (int i = 0; i < TRACE_QUESTIONS; i++)
        if (is_yes(self->questions[i]))
            return true;
    return false;
}

static PyObject *make_clone(const trace_tracer *self, PyObject *tensor)
{
    bool has_grad = is_yes(self->is_grad_enabled);
    PyObject *done = NULL, *copy = NULL; /* owned */
    if (has_grad)
        done = PyObject_CallOneArg(self->set_grad_enabled, Py_False);
    copy = PyErr_Occurred() ? NULL : PyObject_CallOneArg(self->clone, tensor);
    PyObject *error = PyErr_GetRaisedException(); /* owned */
    Py_XDECREF(done);
    if (has_grad)
        Py_XDECREF(PyObject_CallOneArg(self->set_grad_enabled, Py_True));
    PyErr_SetRaisedException(error);
    return copy;
}

/* ---- keeping -------------------------------------------------------------------- */

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

bool trace_copy_keep(trace_tracer *self, trace_state *state, uint32_t number, PyObject *name,
                     PyObject *value, bool is_forced)
{
    const tensor_torch *torch = &self->state->torch;
    const trace_group *group = &self->groups[number];
    tensor_view view;
    bool is_plain = Py_IS_TYPE(value, torch->tensor) || Py_IS_TYPE(value, torch->parameter);
    if (!is_plain || !group->is_direct || !state->has_version || state->data == NULL ||
        (self->runs != NULL && PyList_GET_SIZE(self->runs) > 0) || is_special(self) ||
        tensor_view_open(&self->state->torch, value, &view) != VIEW_OK)
        return false;
    trace_copy one = { .data = state->data,
                       .version = state->version,
                       .layout = layout_of(&view.tensor) };
    tensor_view_close(&view);
    PyObject *copy = is_forced ? NULL : Py_XNewRef(find_copy(&self->copies, &one)); /* owned */
    if (copy == NULL) {
        copy = make_clone(self, value);
        if (copy != NULL)
            add_copy(&self->copies, one, value, copy);
    }
    bool is_kept =
        copy != NULL && find_lists(self, state, number, name) && append(self, state, group, copy);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear(); /* then Python tries, and says what is wrong */
    Py_XDECREF(copy);
    return is_kept;
}
