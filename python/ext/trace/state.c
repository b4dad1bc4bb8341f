/* state.c -- tells whether a value is the one that was kept last.
 *
 * A tensor is the same if it is the same object with the same memory and
 * version.  A weak reference stands for the object, because addresses are used
 * again at once.  Where nobody counts versions (NumPy, inference tensors, the
 * running statistics of a batch norm) contents are digested.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

trace_kind trace_kind_of(const trace_tracer *self, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (tensor_torch_is_tensor(&self->state->torch, value))
        return KIND_TENSOR;
    if (value == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
        type == &PyUnicode_Type || type == &PyComplex_Type || type == &PyBytes_Type)
        return KIND_PLAIN;
    if (self->array != NULL && PyType_IsSubtype(type, self->array))
        return KIND_ARRAY;
    if (self->scalar != NULL && PyType_IsSubtype(type, self->scalar))
        return KIND_PLAIN;
    return KIND_OTHER;
}

/* ---- what a tensor says ---------------------------------------------------- */

/* A subclass, or a mode, would see us asking. */
static PyObject *enter_guard(const trace_tracer *self, PyObject *tensor)
{
    const tensor_torch *torch = &self->state->torch;
    bool is_plain = Py_IS_TYPE(tensor, torch->tensor) || Py_IS_TYPE(tensor, torch->parameter);
    return is_plain && !tensor_has_function_mode(torch) ? NULL : tensor_quiet_enter(torch);
}

bool trace_version(const trace_tracer *self, PyObject *tensor, uint32_t *out)
{
    PyObject *guard = enter_guard(self, tensor); /* owned or NULL */
    /* Asking an inference tensor for its version costs torch a C++ exception. */
    PyObject *answer = PyObject_CallOneArg(self->is_inference, tensor); /* owned */
    long value = -1;
    if (answer == Py_False) {
        const PyGetSetDef *def = ((PyGetSetDescrObject *)self->version)->d_getset;
        PyObject *number = def->get(tensor, def->closure); /* owned */
        value = number != NULL ? PyLong_AsLong(number) : -1;
        Py_XDECREF(number);
    }
    PyErr_Clear();
    Py_XDECREF(answer);
    tensor_quiet_leave(guard);
    if (value < 0)
        return false;
    *out = (uint32_t)value;
    return true;
}

bool trace_digest(const trace_tracer *self, PyObject *value, tt_digest *out)
{
    tensor_view view;
    if (tensor_view_open(&self->state->torch, value, &view) != VIEW_OK)
        return false;
    tt_digest_compute(&view.tensor, out);
    tensor_view_close(&view);
    return true;
}

const void *trace_memory(const trace_tracer *self, PyObject *tensor)
{
    tensor_view view;
    if (tensor_view_open(&self->state->torch, tensor, &view) != VIEW_OK)
        return NULL;
    const void *data = view.temporary == NULL ? view.tensor.data : NULL;
    tensor_view_close(&view);
    return data;
}

/* ---- states ----------------------------------------------------------------- */

/* Is whole again before anything goes: that may run code of the program's. */
void trace_state_clear(trace_state *state)
{
    PyObject *gone[] = { state->ref, state->value, state->refs }; /* owned now */
    *state = (trace_state){ .iteration = state->iteration,
                            .iterations = state->iterations,
                            .values = state->values,
                            .gathers = state->gathers };
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        Py_XDECREF(gone[i]);
}

/* NaN is the same as NaN here: it is the same value again. */
static bool same_plain(PyObject *a, PyObject *b)
{
    if (a == b)
        return true;
    if (Py_TYPE(a) != Py_TYPE(b))
        return false;
    int is_equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (is_equal == 0 && PyFloat_Check(a))
        is_equal =
            PyFloat_AS_DOUBLE(a) != PyFloat_AS_DOUBLE(a) && PyFloat_AS_DOUBLE(b) != PyFloat_AS_DOUBLE(b);
    PyErr_Clear();
    return is_equal > 0;
}

static bool are_alive(PyObject *refs)
{
    for (Py_ssize_t i = 0; refs != NULL && i < PyList_GET_SIZE(refs); i++)
        if (base_weakref_is(PyList_GET_ITEM(refs, i), NULL))
            return false;
    return true;
}

static bool has_digest(const trace_state *state, trace_kind kind, const tt_digest *digest)
{
    return state->kind == kind && state->has_digest && state->digest.low == digest->low &&
           state->digest.high == digest->high;
}

/* Of tensors and arrays. */
static bool take_memory(trace_tracer *self, trace_state *state, PyObject *value, trace_kind kind,
                        trace_keep keep, bool is_doubtful, bool *is_forced)
{
    trace_state now = { .kind = (uint8_t)kind, .iteration = state->iteration };
    if (kind == KIND_TENSOR) {
        now.has_version = trace_version(self, value, &now.version);
        now.data = trace_memory(self, value);
    }
    bool is_same = state->kind == kind && state->ref != NULL && base_weakref_is(state->ref, value) &&
                   now.data == state->data && now.has_version == state->has_version &&
                   now.version == state->version;
    if (keep == TRACE_CONTENT || is_doubtful || !now.has_version)
        now.has_digest = trace_digest(self, value, &now.digest);
    if (keep == TRACE_CONTENT && now.has_digest) {
        if (has_digest(state, kind, &now.digest))
            return false;
    } else if (is_same && (!now.has_digest || !state->has_digest)) {
        state->digest = now.digest; /* the first look that needs it */
        state->has_digest = now.has_digest;
        return false;
    } else if (is_same && has_digest(state, kind, &now.digest)) {
        return false;
    }
    *is_forced = is_same;
    PyObject *ref = PyWeakref_NewRef(value, NULL); /* owned */
    PyErr_Clear();
    trace_state_clear(state);
    state->kind = now.kind;
    state->ref = ref;
    state->data = now.data;
    state->version = now.version;
    state->has_version = now.has_version;
    state->digest = now.digest;
    state->has_digest = now.has_digest;
    return true;
}

static bool take_other(trace_tracer *self, trace_state *state, PyObject *value, trace_keep keep)
{
    PyObject *refs = PyList_New(0); /* owned */
    uint64_t signature = trace_signature(self, value, keep == TRACE_CONTENT, refs);
    PyErr_Clear();
    if (state->kind == KIND_OTHER && state->signature == signature && are_alive(state->refs)) {
        Py_XDECREF(refs);
        return false;
    }
    trace_state_clear(state);
    state->kind = KIND_OTHER;
    state->signature = signature;
    state->refs = refs;
    return true;
}

bool trace_state_take(trace_tracer *self, trace_state *state, PyObject *value, trace_keep keep,
                      bool is_doubtful, bool *is_forced)
{
    trace_kind kind = trace_kind_of(self, value);
    bool is_new = state->iteration != self->iteration;
    *is_forced = false;
    state->iteration = self->iteration;
    if (is_new && keep == TRACE_ALWAYS)
        trace_state_clear(state);
    if (kind == KIND_TENSOR || kind == KIND_ARRAY)
        return take_memory(self, state, value, kind, keep, is_doubtful, is_forced);
    if (kind == KIND_OTHER)
        return take_other(self, state, value, keep);
    if (state->kind == KIND_PLAIN && same_plain(state->value, value))
        return false;
    trace_state_clear(state);
    state->kind = KIND_PLAIN;
    state->value = Py_NewRef(value);
    return true;
}
