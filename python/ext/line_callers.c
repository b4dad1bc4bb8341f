/* line_callers.c -- who a frame runs for: the statement below it, and the names it has for what it gave.
 *
 * A frame is known by its address, and nobody tells us of the death of some: a record
 * counts only if a frame with its code is on a stack just now.
 * SPDX-License-Identifier: Apache-2.0 */
#include "line_engine.h"

enum { MOST_BELOW = 1000, MOST_HOLDERS = 32 }; /* frames that are looked at */

frame_record *source_below(line_source *source, line_frame *at)
{
    int depth = 0;
    for (line_frame *up = locals_back(at); up != NULL && depth < MOST_BELOW;
         up = locals_back(up), depth++) {
        void **found = pointer_map_find(&source->frames, up);
        if (found != NULL)
            return *found;
    }
    return NULL;
}

/* The same, if the consumer hears of it and a statement runs there. */
static const frame_record *caller_of(line_source *source, int id, line_frame *at)
{
    const frame_record *below = source_below(source, at);
    bool is_heard = below != NULL && below->mask & (uint32_t)1 << id;
    return is_heard && !below->is_bare && below->statement >= 0 ? below : NULL;
}

bool line_frame_below(line_source *source, int id, line_frame *at, line_call *call)
{
    const frame_record *below = caller_of(source, id, at);
    int unit = below != NULL ? locals_instruction(below->at) : -1;
    if (unit < 0 || unit >= below->code->table->instruction_count)
        return false;
    *call = (line_call){ .frame = below->number,
                         .run = below->run,
                         .site = below->code->table->begin_at[unit] };
    return true;
}

bool line_frame_takes(line_source *source, int id, line_frame *at, int site)
{
    line_call call;
    if (!line_frame_below(source, id, at, &call))
        return false;
    const line_table *table = caller_of(source, id, at)->code->table;
    for (int i = 0; i < table->take_count; i++)
        if (table->takes[i].site == call.site && table->takes[i].result_of == site)
            return true;
    return false;
}

uint64_t line_frame_passed(line_source *source, int id, line_frame *at, const line_name *read)
{
    const frame_record *below = caller_of(source, id, at);
    if (below == NULL || !below->has_reads || read->object == NULL)
        return 0;
    for (int i = 0; i < below->read_count; i++) {
        const saved_read *one = &below->reads[i];
        if (one->path >= 0 && one->state.object == read->object && one->state.version == read->version)
            return one->state.key;
    }
    return 0;
}

/* ---- names that hold a tensor -------------------------------------------------- */

static bool is_state_of(const line_state *state, const line_name *read)
{
    return is_tensor((object_kind)state->kind) && state->object == read->object &&
           state->version == read->version;
}

/* The oldest name of the frame for the tensor, a local or a name of a module; 0: none. */
static uint64_t key_in_frame(line_source *source, const frame_record *record, const line_name *read)
{
    const line_table *table = record->code->table;
    PyObject *names = locals_names(record->at), *name = NULL, *value = NULL; /* borrowed */
    Py_ssize_t at = 0;
    uint64_t oldest = 0;
    for (int i = 0; i < record->slot_count; i++) {
        const line_state *state = &record->slots[i];
        if (is_state_of(state, read) && (oldest == 0 || state->key < oldest) &&
            record_slot(record, i, table->paths[table->slot_path[i]].detail) == read->object)
            oldest = state->key;
    }
    while (names != NULL && PyDict_Check(names) && PyDict_Next(names, &at, &name, &value)) {
        if (value != read->object || !PyUnicode_CheckExact(name))
            continue;
        const line_state *state =
            shared_state(source, names, path_member(PyObject_Hash(name), PATH_GLOBAL));
        if (state != NULL && is_state_of(state, read) && (oldest == 0 || state->key < oldest))
            oldest = state->key;
    }
    return oldest;
}

/* The same of the nearest frame from `at` on that has one. */
static uint64_t key_on_stack(line_source *source, int id, line_frame *at, const line_name *read)
{
    uint64_t key = 0;
    for (int depth = 0; at != NULL && key == 0 && depth < MOST_HOLDERS; depth++) {
        void **found = pointer_map_find(&source->frames, at);
        const frame_record *record = found != NULL ? *found : NULL;
        bool is_heard = record != NULL && record->mask & (uint32_t)1 << id && !record->is_bare;
        if (is_heard && record->code->code == locals_code(at))
            key = key_in_frame(source, record, read);
        at = locals_back(at);
    }
    return key;
}

uint64_t line_frame_holder(line_source *source, int id, line_frame *at, const line_name *read)
{
    if (read->object == NULL || Py_REFCNT(read->object) < 2) /* nobody else has it */
        return 0;
    uint64_t key = key_on_stack(source, id, locals_back(at), read);
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL && key == 0; thread = PyThreadState_Next(thread))
        if (thread != PyThreadState_Get()) /* one of them has started this one */
            key = key_on_stack(source, id, locals_top(thread), read);
    return key;
}
