/* lines.c -- looks at the wanted locals of the wanted frames, line by line.
 *
 * A consumer of the line source that wants no analysis: it knows the slots that
 * it must read.  Code of a class is shared by all modules of that class, so each
 * frame is asked once whose it is.  What the last line did is seen when the
 * frame is left.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/engine.h"

/* ---- places by code and module -------------------------------------------------- */

static size_t hash_of(const void *code, const void *module)
{
    uint64_t hash = (uint64_t)(uintptr_t)code * 0x9E3779B97F4A7C15u ^ (uint64_t)(uintptr_t)module;
    return (size_t)((hash * 0xD6E8FEB86659FD93u) >> 20);
}

/* The entry at which it is or may be put; module NULL: any place of the code. */
static trace_place **entry_of(const trace_tracer *self, const void *code, const void *module,
                              bool *is_there)
{
    size_t i = hash_of(code, module) & (self->table_cap - 1);
    for (;; i = (i + 1) & (self->table_cap - 1)) {
        /* The lower half of the table is for pairs, the upper for code alone. */
        trace_place **entry = &self->table[module != NULL ? i : i + self->table_cap];
        bool is_it =
            *entry != NULL && (*entry)->code == code && (module == NULL || (*entry)->module == module);
        if (is_it || *entry == NULL) {
            *is_there = is_it;
            return entry;
        }
    }
}

static const trace_place *find_place(const trace_tracer *self, const void *code, const void *module)
{
    bool is_there = false;
    if (self->table == NULL)
        return NULL;
    trace_place **entry = entry_of(self, code, module, &is_there);
    return is_there ? *entry : NULL;
}

int trace_index_places(trace_tracer *self)
{
    size_t cap = 16;
    bool is_there;
    while (cap < self->place_count * 2)
        cap *= 2;
    trace_place **table = PyMem_Calloc(cap * 2, sizeof *table);
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(self->table);
    self->table = table;
    self->table_cap = cap;
    for (size_t i = 0; i < self->place_count; i++) {
        trace_place *place = self->places[i];
        *entry_of(self, place->code, place->module, &is_there) = place;
        *entry_of(self, place->code, NULL, &is_there) = place;
    }
    return 0;
}

/* ---- frames ---------------------------------------------------------------------- */

/* The module whose method runs in this frame, and its place; NULL: none of ours. */
static const trace_place *place_of_frame(const trace_tracer *self, const void *code, base_frame *at)
{
    const trace_place *any = find_place(self, code, NULL);
    PyObject *owner = any != NULL ? base_frame_slot(at, any->self_slot, any->self_name) : NULL;
    if (owner != NULL && any->is_packed)
        owner = PyTuple_Check(owner) && PyTuple_GET_SIZE(owner) > 0 ? PyTuple_GET_ITEM(owner, 0) : NULL;
    for (int i = 0; owner != NULL && i < self->replica_count; i++)
        if (self->replicas[i].replica == owner)
            owner = self->replicas[i].original;
    return owner != NULL ? find_place(self, code, owner) : NULL;
}

static const trace_place *place_of(trace_tracer *self, const lines_event *event)
{
    for (int i = self->frame_count - 1; i >= 0; i--)
        if (self->frames[i].number == event->frame)
            return self->frames[i].place;
    const trace_place *place = place_of_frame(self, event->code, event->at);
    if (place != NULL && self->frame_count < TRACE_FRAMES)
        self->frames[self->frame_count++] = (trace_frame){ event->frame, place };
    return place;
}

static void forget_frame(trace_tracer *self, uint64_t number)
{
    for (int i = self->frame_count - 1; i >= 0; i--) {
        if (self->frames[i].number != number)
            continue;
        for (self->frame_count--; i < self->frame_count; i++)
            self->frames[i] = self->frames[i + 1];
        return;
    }
}

/* ---- events ------------------------------------------------------------------------ */

static void look_at_locals(trace_tracer *self, const trace_place *place, base_frame *at)
{
    for (size_t i = 0; i < place->targets.count; i++) {
        const trace_target *target = &place->targets.all[i];
        if (target->origin != ORIGIN_LOCAL || !self->groups[target->group].is_on)
            continue;
        PyObject *value = base_frame_slot(at, target->slot, target->variable); /* borrowed */
        if (value != NULL)
            trace_look(self, target, value, place->is_hidden);
    }
}

static void on_line(void *context, const lines_event *event)
{
    trace_tracer *self = context;
    if (!self->is_tracing || !trace_is_here(self))
        return;
    const trace_place *place = place_of(self, event);
    if (place == NULL)
        return;
    Py_INCREF(self); /* and with it its places: another thread may end the trace meanwhile */
    look_at_locals(self, place, event->at);
    Py_DECREF(self);
}

static void on_leave(void *context, const lines_event *event)
{
    trace_tracer *self = context;
    if (!self->is_tracing || !trace_is_here(self))
        return;
    const trace_place *place = place_of(self, event);
    if (place == NULL)
        return;
    Py_INCREF(self);
    look_at_locals(self, place, event->at);
    for (size_t i = 0; event->value != NULL && i < place->targets.count; i++) {
        const trace_target *target = &place->targets.all[i];
        bool is_end = (((PyCodeObject *)place->code)->co_flags & CO_GENERATOR) != 0 && !event->is_yield;
        if (target->origin == ORIGIN_RETURN && !is_end && self->groups[target->group].is_on)
            trace_look(self, target, event->value, place->is_hidden);
    }
    if (!event->is_yield)
        forget_frame(self, event->frame);
    Py_DECREF(self);
}

static bool selects(void *context, PyCodeObject *code, int *first, int *last)
{
    (void)first;
    (void)last;
    return find_place(context, code, NULL) != NULL;
}

static bool accepts(void *context, PyCodeObject *code, base_frame *at)
{
    return place_of_frame(context, code, at) != NULL;
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
    if (self->line_id >= 0 || self->place_count == 0)
        return 0;
    binding_state *state = self->state;
    if (lines_source_of(state) == NULL)
        return -1;
    self->line_id = lines_source_add(state->lines, &consumer);
    return self->line_id < 0 ? -1 : 0;
}

void trace_detach(trace_tracer *self)
{
    PyObject *text = NULL; /* borrowed */
    int id = self->line_id;
    self->line_id = -1;
    self->frame_count = 0;
    if (id < 0 || self->state->lines == NULL)
        return;
    uint64_t errors = lines_source_errors(self->state->lines, id, &text);
    self->errors += (long long)errors;
    if (errors > 0 && self->own_error == NULL)
        self->own_error = Py_XNewRef(text);
    lines_source_remove(self->state->lines, id);
}
