/* state.c -- tells whether a tensor is as we saw it last.
 *
 * torch counts in-place changes; reading the count through the cached
 * descriptor costs tens of nanoseconds.  Where nobody counts (NumPy, inference
 * tensors) or the count is bypassed (.data, .numpy(), fused optimizers) the
 * contents are digested, above 64 MB a part of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE_ABOVE = 64 << 20, SAMPLE_BYTES = 1 << 20 };

/* ---- kinds ---------------------------------------------------------------- */

static bool is_array_type(PyTypeObject *type)
{
    PyObject *mro = type->tp_mro; /* borrowed */
    for (Py_ssize_t i = 0; mro != NULL && i < PyTuple_GET_SIZE(mro); i++)
        if (strcmp(((PyTypeObject *)PyTuple_GET_ITEM(mro, i))->tp_name, "numpy.ndarray") == 0)
            return true;
    return false;
}

static void find_torch(lines_source *source)
{
    tensor_torch *torch = &source->core->torch;
    if (source->version != NULL || !tensor_torch_find(torch))
        return;
    PyObject *version = PyObject_GetAttrString((PyObject *)torch->base, "_version");
    PyObject *inference = PyObject_GetAttrString((PyObject *)torch->base, "is_inference");
    if (version != NULL && inference != NULL && Py_IS_TYPE(version, &PyGetSetDescr_Type)) {
        source->version = Py_NewRef(version);
        if (Py_IS_TYPE(inference, &PyMethodDescr_Type) &&
            ((PyMethodDescrObject *)inference)->d_method->ml_flags == METH_NOARGS)
            source->is_inference = Py_NewRef(inference);
    }
    PyErr_Clear();
    Py_XDECREF(version);
    Py_XDECREF(inference);
}

static lines_object_kind kind_of_type(lines_source *source, PyTypeObject *type)
{
    if (is_array_type(type))
        return KIND_ARRAY;
    find_torch(source);
    const tensor_torch *torch = &source->core->torch;
    return torch->base != NULL && PyType_IsSubtype(type, torch->base) ? KIND_TORCH : KIND_NONE;
}

lines_object_kind lines_state_kind_slow(lines_source *source, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    lines_object_kind kind = KIND_NONE;
    if (!(type->tp_flags & NEVER_TENSOR) && type != &PyFloat_Type && obj != Py_None) {
        size_t at = ((uintptr_t)type >> 5) % TYPE_CACHE;
        if (source->type_of[at] != type) {
            kind = kind_of_type(source, type);
            PyTypeObject *old = source->type_of[at];
            source->type_of[at] = (PyTypeObject *)Py_NewRef(type);
            source->kind_of[at] = (uint8_t)kind;
            Py_XDECREF(old);
        }
        kind = (lines_object_kind)source->kind_of[at];
    }
    if (kind == KIND_ARRAY && !(source->wants & LINES_ARRAYS))
        kind = KIND_NONE;
    if (kind == KIND_NONE && source->wants & LINES_OBJECTS)
        kind = KIND_OBJECT;
    return kind;
}

/* ---- versions ------------------------------------------------------------- */

bool lines_state_begin(lines_source *source, PyObject **guard)
{
    const tensor_torch *torch = &source->core->torch;
    *guard = NULL;
    if (torch->tensor != NULL && tensor_has_function_mode(torch))
        *guard = tensor_quiet_enter(torch); /* or the mode would see us asking */
    return *guard != NULL;
}

/* False: this tensor has no count. */
static bool read_version(lines_source *source, PyObject *obj, uint32_t *out)
{
    const tensor_torch *torch = &source->core->torch;
    if (source->version == NULL)
        return false;
    bool is_plain = Py_IS_TYPE(obj, torch->tensor) || Py_IS_TYPE(obj, torch->parameter);
    PyObject *guard = is_plain ? NULL : tensor_quiet_enter(torch);
    const PyGetSetDef *def = ((PyGetSetDescrObject *)source->version)->d_getset;
    PyObject *number = def->get(obj, def->closure); /* owned */
    long value = number != NULL ? PyLong_AsLong(number) : -1;
    if (number == NULL)
        PyErr_Clear();
    Py_XDECREF(number);
    tensor_quiet_leave(guard);
    *out = (uint32_t)value;
    return value >= 0;
}

/* Asking an inference tensor for its version costs torch a C++ exception. */
static bool is_inference(lines_source *source, PyObject *obj)
{
    if (source->is_inference == NULL)
        return false;
    const PyMethodDef *def = ((PyMethodDescrObject *)source->is_inference)->d_method;
    PyObject *answer = def->ml_meth(obj, NULL); /* owned */
    bool is_so = answer == Py_True;
    if (answer == NULL)
        PyErr_Clear();
    Py_XDECREF(answer);
    return is_so;
}

/* ---- digests -------------------------------------------------------------- */

/* Every nth index of the longest dimensions, until a megabyte is left. */
static void thin_out(tt_tensor *t)
{
    int64_t bytes = t->count * (int64_t)tt_dtype_size(t->dtype);
    for (int32_t d = 0; d < t->ndim && bytes > SAMPLE_BYTES; d++) {
        int64_t step = (bytes + SAMPLE_BYTES - 1) / SAMPLE_BYTES;
        if (step > t->shape[d])
            step = t->shape[d];
        int64_t kept = (t->shape[d] + step - 1) / step;
        bytes = bytes / t->shape[d] * kept;
        t->count = t->count / t->shape[d] * kept;
        t->shape[d] = kept;
        t->stride[d] *= step;
    }
}

static bool compute_digest(lines_source *source, PyObject *obj, tt_digest *out, bool *is_sampled)
{
    tensor_view view;
    if (tensor_view_open(&source->core->torch, obj, &view) != VIEW_OK)
        return false;
    *is_sampled = view.tensor.count > SAMPLE_ABOVE / (int64_t)tt_dtype_size(view.tensor.dtype);
    int64_t count = view.tensor.count;
    if (*is_sampled)
        thin_out(&view.tensor);
    tt_digest_compute(&view.tensor, out);
    if (*is_sampled) /* the shape that was digested is not the tensor's */
        out->low ^= (uint64_t)count * 0x9e3779b97f4a7c15u;
    tensor_view_close(&view);
    return true;
}

bool lines_state_needs_digest(const lines_source *source, const lines_state *state, bool is_hidden)
{
    (void)source;
    if (state->kind == KIND_ARRAY)
        return true;
    return state->kind == KIND_TORCH && (is_hidden || !state->has_version);
}

void lines_state_digest(lines_source *source, lines_state *state, PyObject *obj)
{
    if (!state->has_digest)
        state->has_digest = compute_digest(source, obj, &state->digest, &state->is_sampled);
}

/* ---- states --------------------------------------------------------------- */

void lines_state_adopt(lines_source *source, lines_state *state, PyObject *obj, lines_object_kind kind)
{
    *state = (lines_state){ .object = obj, .kind = (uint8_t)kind };
    if (kind == KIND_NONE)
        return;
    state->key = ++source->next_key;
    if (kind != KIND_TORCH || source->version == NULL)
        return;
    const tensor_torch *torch = &source->core->torch;
    bool is_plain = Py_IS_TYPE(obj, torch->tensor) || Py_IS_TYPE(obj, torch->parameter);
    PyObject *guard = is_plain ? NULL : tensor_quiet_enter(torch);
    if (!is_inference(source, obj))
        state->has_version = read_version(source, obj, &state->version);
    tensor_quiet_leave(guard);
}

bool lines_state_differs(lines_source *source, const lines_state *state, PyObject *obj, bool is_hidden)
{
    uint32_t version = 0;
    tt_digest digest;
    bool is_sampled = false;
    if (state->object != obj)
        return true;
    if (state->kind == KIND_TORCH && state->has_version && read_version(source, obj, &version) &&
        version != state->version)
        return true;
    return lines_state_needs_digest(source, state, is_hidden) && state->has_digest &&
           compute_digest(source, obj, &digest, &is_sampled) &&
           (digest.low != state->digest.low || digest.high != state->digest.high);
}

void lines_state_update(lines_source *source, lines_state *state, PyObject *obj, lines_object_kind kind,
                        bool is_hidden)
{
    bool had_digest = state->has_digest;
    lines_state_adopt(source, state, obj, kind);
    state->is_seen = true;
    if (had_digest && lines_state_needs_digest(source, state, is_hidden))
        lines_state_digest(source, state, obj);
}

/* ---- shared states --------------------------------------------------------- */

enum { SHARED_FIRST = 1024, SHARED_MOST = 1 << 17 };

static lines_shared_entry *shared_slot(lines_shared_entry *entries, size_t cap, const void *owner,
                                       uint64_t member)
{
    uint64_t hash = ((uint64_t)(uintptr_t)owner ^ member * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    for (size_t i = (size_t)(hash >> 32) & (cap - 1);; i = (i + 1) & (cap - 1))
        if (entries[i].owner == NULL || (entries[i].owner == owner && entries[i].member == member))
            return &entries[i];
}

static bool shared_grow(lines_shared_states *shared)
{
    size_t cap = shared->cap != 0 ? shared->cap * 2 : SHARED_FIRST;
    if (cap > SHARED_MOST) { /* names get new keys; nothing else is lost */
        memset(shared->entries, 0, shared->cap * sizeof *shared->entries);
        shared->used = 0;
        return true;
    }
    lines_shared_entry *entries = PyMem_Calloc(cap, sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < shared->cap; i++)
        if (shared->entries[i].owner != NULL)
            *shared_slot(entries, cap, shared->entries[i].owner, shared->entries[i].member) =
                shared->entries[i];
    PyMem_Free(shared->entries);
    shared->entries = entries;
    shared->cap = cap;
    return true;
}

lines_state *lines_shared_state(lines_source *source, const void *owner, uint64_t member)
{
    lines_shared_states *shared = &source->shared;
    if (shared->used * 2 >= shared->cap && !shared_grow(shared))
        return NULL;
    lines_shared_entry *entry = shared_slot(shared->entries, shared->cap, owner, member);
    if (entry->owner == NULL) {
        *entry = (lines_shared_entry){ .owner = owner, .member = member };
        shared->used++;
    }
    return &entry->state;
}
