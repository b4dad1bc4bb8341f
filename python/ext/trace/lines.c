/* lines.c -- looks at the wanted locals of the wanted frames, line by line.
 *
 * A consumer of the line source that needs no analysis: it knows which slots to read.  All modules of a
 * class share its code: the first argument of a frame tells which one it is.  What the last line did is
 * seen when the frame is left.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

#include "base/hash.h"

/* ---- methods by code and module -------------------------------------------------- */

static const void *owner_key(const void *code, const void *module)
{
    return (const void *)(uintptr_t)base_hash_mix((uintptr_t)code, (uintptr_t)module);
}

/* module NULL: any method of the code. */
static const trace_method *find_method(const trace_tracer *self, const void *code, const void *module)
{
    const trace_method *method = base_map_find(&self->by_owner, owner_key(code, module));
    return method != NULL && method->code == code && (module == NULL || method->module == module) ? method
                                                                                                  : NULL;
}

void trace_free_method(trace_method *method)
{
    Py_XDECREF(method->code);
    Py_XDECREF(method->module);
    Py_XDECREF(method->self_name);
    trace_free_targets(&method->targets);
    PyMem_Free(method);
}

int trace_add_method(trace_tracer *self, trace_method *method)
{
    method->next = self->methods;
    self->methods = method;
    int st = base_map_put(&self->by_owner, owner_key(method->code, NULL), method);
    return st < 0 ? st : base_map_put(&self->by_owner, owner_key(method->code, method->module), method);
}

/* ---- frames ---------------------------------------------------------------------- */

/* The method of the module whose method runs in this frame; NULL: none of ours. */
static const trace_method *method_of_frame(const trace_tracer *self, const void *code, base_frame *at)
{
    const trace_method *any = find_method(self, code, NULL);
    PyObject *owner = any != NULL ? base_frame_slot(at, any->self_slot, any->self_name) : NULL;
    if (owner != NULL && any->is_packed)
        owner = PyTuple_Check(owner) && PyTuple_GET_SIZE(owner) > 0 ? PyTuple_GET_ITEM(owner, 0) : NULL;
    if (owner != NULL && PyDict_GET_SIZE(self->replicas) > 0) {
        PyObject *original = PyDict_GetItemWithError(self->replicas, owner); /* borrowed */
        PyErr_Clear(); /* not hashable: not a module */
        owner = original != NULL ? original : owner;
    }
    return owner != NULL ? find_method(self, code, owner) : NULL;
}

/* ---- events ------------------------------------------------------------------------ */

/* Looks at the locals and, if returned is not NULL, at what the function returns or yields. */
static void look(trace_tracer *self, const trace_method *method, base_frame *at, PyObject *returned)
{
    tensor_looks looks = { .torch = &self->state->torch };
    Py_INCREF(self); /* and with it its methods: another thread may end the trace meanwhile */
    for (size_t i = 0; i < method->targets.count; i++) {
        const trace_target *target = &method->targets.all[i];
        if (!self->groups[target->group].is_on)
            continue;
        PyObject *value = target->origin == ORIGIN_LOCAL
                              ? base_frame_slot(at, target->slot, target->variable)
                              : returned; /* borrowed */
        if (value != NULL)
            trace_look(self, &looks, target, value, method->is_hidden);
    }
    tensor_looks_clear(&looks);
    Py_DECREF(self);
}

static const trace_method *method_of(const trace_tracer *self, const lines_event *event)
{
    return self->is_tracing && trace_is_here(self) ? method_of_frame(self, event->code, event->at) : NULL;
}

static void on_line(void *context, const lines_event *event)
{
    const trace_method *method = method_of(context, event);
    if (method != NULL)
        look(context, method, event->at, NULL);
}

static void on_leave(void *context, const lines_event *event)
{
    const trace_method *method = method_of(context, event);
    if (method == NULL)
        return;
    bool is_end = (((PyCodeObject *)method->code)->co_flags & CO_GENERATOR) != 0 && !event->is_yield;
    look(context, method, event->at, is_end ? NULL : event->value);
}

static bool selects(void *context, PyCodeObject *code, int *Py_UNUSED(first), int *Py_UNUSED(last))
{
    return find_method(context, code, NULL) != NULL;
}

static bool accepts(void *context, PyCodeObject *code, base_frame *at)
{
    return method_of_frame(context, code, at) != NULL;
}

/* ---- on and off ---------------------------------------------------------------------- */

int trace_attach(trace_tracer *self)
{
    lines_consumer consumer = { .context = self,
                                .wants = LINES_BARE,
                                .threads = LINES_THREADS_ALL,
                                .selects = selects,
                                .accepts = accepts,
                                .line = on_line,
                                .leave = on_leave };
    if (self->line_id >= 0 || self->methods == NULL)
        return 0;
    if (lines_source_of(self->state) == NULL)
        return -1;
    self->line_id = lines_source_add(self->state->lines, &consumer);
    return self->line_id < 0 ? -1 : 0;
}

void trace_detach(trace_tracer *self)
{
    if (self->state->lines != NULL)
        lines_source_stop(self->state->lines, &self->line_id, &self->consumer.errors,
                          &self->consumer.error);
}
