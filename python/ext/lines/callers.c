/* callers.c -- the statement that called a frame, and the names that it has for the arguments.
 *
 * A frame is known by its address, and some end without an event: a record
 * counts only if a frame with its code is on a stack now.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <stdlib.h>

enum { MOST_BELOW = 1000, MOST_SEARCHED = 32 }; /* frames that are looked at */

lines_record *lines_source_below(lines_source *source, base_frame *at)
{
    lines_record *found = NULL;
    for (int depth = 0; found == NULL && depth < MOST_BELOW && (at = base_frame_back(at)) != NULL;
         depth++)
        found = base_map_find(&source->frames, at);
    return found;
}

static int by_site(const void *wanted, const void *one)
{
    return *(const int *)wanted - ((const lines_site *)one)->site;
}

bool lines_frame_below(lines_source *source, int id, base_frame *at, lines_caller *out)
{
    const lines_record *below = lines_source_below(source, at);
    bool is_heard = below != NULL && below->mask & (uint32_t)1 << id;
    *out = (lines_caller){ 0 };
    if (!is_heard || below->is_bare || below->statement < 0)
        return false;
    const lines_table *table = below->code->table;
    int unit = base_frame_instruction(below->at);
    if (unit < 0 || unit >= table->instruction_count)
        return false;
    int site = table->begin_at[unit];
    out->call = (lines_call){ .frame = below->number, .run = below->run, .site = site };
    out->record = below;
    out->given = bsearch(&site, table->sites, (size_t)table->site_count, sizeof *table->sites, by_site);
    return true;
}

/* ---- what a call is given ------------------------------------------------------ */

enum { NO_ARGUMENT = -1, ANY_ARGUMENT = -2 };

static bool is_self(PyObject *name)
{
    return PyUnicode_CompareWithASCIIString(name, "self") == 0 ||
           PyUnicode_CompareWithASCIIString(name, "cls") == 0;
}

PyObject *lines_frame_receiver(base_frame *at)
{
    PyCodeObject *code = base_frame_code(at);
    if (code->co_argcount == 0)
        return NULL;
    PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, 0); /* borrowed */
    PyObject *object = base_frame_slot(at, 0, name);                /* borrowed */
    if (object == NULL || is_self(name))
        return object;
    PyObject *method = _PyType_Lookup(Py_TYPE(object), code->co_name); /* borrowed */
    bool is_it =
        method != NULL && PyFunction_Check(method) && PyFunction_GET_CODE(method) == (PyObject *)code;
    return is_it ? object : NULL;
}

/* Does the frame hand on what it is given as it is: (self, *args, **kwargs)? */
static bool is_transparent(base_frame *at)
{
    PyCodeObject *code = base_frame_code(at);
    if (!(code->co_flags & CO_VARARGS) || code->co_argcount > 1)
        return false;
    if (code->co_argcount == 0)
        return true;
    PyObject *name = PyTuple_GetItem(code->co_localsplusnames, 0); /* borrowed */
    return name != NULL && is_self(name);
}

/* Which argument of its frame the read is: its slot; or one of those above. */
static int argument_of(lines_source *source, const lines_caller *caller, base_frame *at,
                       const lines_name *read)
{
    const lines_record *record = base_map_find(&source->frames, at);
    int slot = 0;
    const int suspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if (record == NULL || record->is_bare || read->kind != LINES_LOCAL ||
        base_frame_code(at)->co_flags & suspends) /* who resumes it need not be who called it */
        return NO_ARGUMENT;
    while (slot < record->slot_count && slot < record->code->table->argument_count &&
           record->slots[slot].key != read->key)
        slot++;
    if (slot == record->slot_count || slot == record->code->table->argument_count)
        return NO_ARGUMENT;
    for (at = base_frame_back(at); at != NULL && at != caller->record->at; at = base_frame_back(at))
        if (!is_transparent(at))
            return ANY_ARGUMENT; /* it may have changed their order */
    return slot;
}

/* Returns the next path that goes into an argument of a call, after `part` (-1 at first); NULL: no more.  If
 * the arguments are not known one by one, those that go into the call. */
static const lines_write *next_source(const lines_caller *caller, base_frame *at, int argument, int *part)
{
    const lines_table *table = caller->record->code->table;
    const lines_write *given = caller->given != NULL ? &caller->given->given : NULL;
    if (given == NULL || argument == NO_ARGUMENT)
        return NULL;
    if (argument == ANY_ARGUMENT || given->part_count == 0)
        return (*part)++ < 0 ? given : NULL;
    PyCodeObject *code = base_frame_code(at);
    PyObject *names = code->co_localsplusnames; /* borrowed */
    bool is_method = lines_frame_receiver(at) != NULL;
    while (++*part < given->part_count) {
        PyObject *key = PyList_GET_ITEM(table->part_keys, given->parts + *part); /* borrowed */
        if (key == Py_None ||
            (PyLong_Check(key) && PyLong_AsLong(key) + is_method == argument &&
             argument < code->co_argcount) ||
            (PyUnicode_Check(key) && PyUnicode_Compare(key, PyTuple_GET_ITEM(names, argument)) == 0))
            return &table->parts[given->parts + *part];
    }
    return NULL;
}

bool lines_frame_receives(lines_source *source, const lines_caller *caller, base_frame *at,
                          const lines_name *read, int site, bool is_made)
{
    if (caller->given != NULL && caller->call.site == site)
        return !is_made;
    const int *calls = caller->record->code->table->write_calls;
    int argument = is_made ? argument_of(source, caller, at, read) : ANY_ARGUMENT, part = -1;
    const lines_write *given;
    while ((given = next_source(caller, at, argument, &part)) != NULL)
        for (int i = 0; i < (is_made ? given->call_count : given->direct_count); i++)
            if (calls[given->calls + i] == site)
                return true;
    return false;
}

size_t lines_frame_argument(lines_source *source, const lines_caller *caller, base_frame *at,
                            const lines_name *read, uint64_t *keys, size_t most)
{
    const lines_record *below = caller->record;
    if (below == NULL || !below->has_reads)
        return 0;
    const int *numbers = below->code->table->write_reads;
    int argument = argument_of(source, caller, at, read), part = -1;
    const lines_write *given;
    size_t count = 0;
    while ((given = next_source(caller, at, argument, &part)) != NULL) {
        for (int i = 0; i < given->read_count; i++) {
            int number = numbers[given->reads + i];
            for (int k = 0; k < below->read_count && count < most; k++) {
                const lines_saved_read *one = &below->reads[k];
                bool is_it = one->item == NULL ? k == number : one->parent == number;
                if (is_it && one->target.path >= 0 &&
                    tensor_kind_has_elements((tensor_kind)one->state.seen.kind))
                    keys[count++] = one->state.key;
            }
        }
    }
    return count;
}

uint64_t lines_frame_passed(const lines_caller *caller, const lines_name *read)
{
    const lines_record *below = caller->record;
    if (below == NULL || !below->has_reads || read->object == NULL)
        return 0;
    for (int i = 0; i < below->read_count; i++) {
        const lines_saved_read *one = &below->reads[i];
        if (one->target.path >= 0 && one->state.seen.object == read->object &&
            one->state.seen.version == read->version)
            return one->state.key;
    }
    return 0;
}

/* ---- names that hold a tensor -------------------------------------------------- */

static bool is_state_of(const lines_state *state, const lines_name *read)
{
    return tensor_kind_has_elements((tensor_kind)state->seen.kind) &&
           state->seen.object == read->object && state->seen.version == read->version;
}

/* The oldest name of the frame for the tensor, a local or a name of a module; 0: none. */
static uint64_t key_in_frame(lines_source *source, const lines_record *record, const lines_name *read)
{
    const lines_table *table = record->code->table;
    PyObject *names = base_frame_names(record->at), *name = NULL, *value = NULL; /* borrowed */
    Py_ssize_t at = 0;
    uint64_t oldest = 0;
    for (int i = 0; i < record->slot_count; i++) {
        const lines_state *state = &record->slots[i];
        if (is_state_of(state, read) && (oldest == 0 || state->key < oldest) &&
            base_frame_slot(record->at, i, table->paths[table->slot_path[i]].detail) == read->object)
            oldest = state->key;
    }
    while (names != NULL && PyDict_Check(names) && PyDict_Next(names, &at, &name, &value)) {
        if (value != read->object || !PyUnicode_CheckExact(name))
            continue;
        const lines_state *state =
            lines_shared_state(source, names, lines_path_member(PyObject_Hash(name), PATH_GLOBAL));
        if (state != NULL && is_state_of(state, read) && (oldest == 0 || state->key < oldest))
            oldest = state->key;
    }
    return oldest;
}

/* The same of the nearest frame from `at` on that has one. */
static uint64_t key_on_stack(lines_source *source, int id, base_frame *at, const lines_name *read)
{
    uint64_t key = 0;
    for (int depth = 0; at != NULL && key == 0 && depth < MOST_SEARCHED; depth++) {
        const lines_record *record = base_map_find(&source->frames, at);
        bool is_heard = record != NULL && record->mask & (uint32_t)1 << id && !record->is_bare;
        if (is_heard && record->code->code == base_frame_code(at))
            key = key_in_frame(source, record, read);
        at = base_frame_back(at);
    }
    return key;
}

uint64_t lines_frame_named(lines_source *source, int id, base_frame *at, const lines_name *read)
{
    if (read->object == NULL || Py_REFCNT(read->object) < 2) /* no other name has it */
        return 0;
    uint64_t key = key_on_stack(source, id, base_frame_back(at), read);
    PyThreadState *thread = base_first_thread();
    for (; thread != NULL && key == 0; thread = PyThreadState_Next(thread))
        if (thread != PyThreadState_Get()) /* one of them has started this one */
            key = key_on_stack(source, id, base_frame_top(thread), read);
    return key;
}
