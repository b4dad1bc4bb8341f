/* frames.c -- what the line source knows of code objects and frames.
 *
 * Which consumers want a code object is asked once and kept; an event then costs one
 * look-up of an address.  Frames have a record from their first event to their end;
 * suspended generators keep theirs, the oldest are dropped when there are too
 * many, because there is no event when one is freed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <limits.h>

enum { MOST_FRAMES = 4096 };

/* ---- code objects ---------------------------------------------------------- */

bool lines_code_is_comprehension(PyCodeObject *code)
{
    static const char *const names[] = { "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (PyUnicode_CompareWithASCIIString(code->co_name, names[i]) == 0)
            return true;
    return false;
}

static void ask_consumers(lines_source *source, lines_code *known)
{
    uint64_t generation = source->generation; /* another thread may change it meanwhile */
    uint32_t mask = 0;
    bool is_open = !known->is_refused && !lines_code_is_comprehension(known->code) &&
                   binding_owner_of(source->core, known->code) != BINDING_OWNER_OURS;
    for (uint32_t left = is_open ? source->mask : 0; left != 0; left &= left - 1) {
        int id = lines_first(left);
        const lines_consumer_slot *slot = &source->consumers[id];
        const lines_consumer *consumer = &slot->consumer;
        known->first[id] = 0;
        known->last[id] = INT_MAX;
        bool is_wanted =
            consumer->selects == NULL ||
            consumer->selects(consumer->context, known->code, &known->first[id], &known->last[id]);
        if (PyErr_Occurred()) {
            lines_source_note_error(source, id);
            is_wanted = false;
        }
        if (is_wanted && slot->roots != NULL)
            is_wanted = lines_names_are_in(known->code, slot->roots);
        mask |= is_wanted ? (uint32_t)1 << id : 0;
    }
    bool is_bare = !(mask & ~source->bare_mask);
    if (!is_bare && known->table == NULL) {
        known->table = lines_table_of(source, known->code);
        known->is_refused = known->table == NULL;
        lines_source_note_error(source, -1);
    }
    known->mask = known->table != NULL || is_bare ? mask : 0;
    known->generation = generation;
    if (known->mask != 0 && known->table != NULL)
        lines_names_find(source, known);
}

lines_code *lines_source_code(lines_source *source, PyCodeObject *code)
{
    lines_code *known = base_map_find(&source->codes, code);
    if (known == NULL) {
        known = PyMem_Calloc(1, sizeof *known);
        if (known == NULL || base_map_put(&source->codes, code, known) < 0) {
            PyMem_Free(known);
            PyErr_Clear();
            return NULL;
        }
        known->code = (PyCodeObject *)Py_NewRef((PyObject *)code);
    }
    if (known->generation != source->generation)
        ask_consumers(source, known);
    return known->mask != 0 ? known : NULL;
}

/* ---- frames ---------------------------------------------------------------- */

/* Does the consumer hear of this thread? */
static bool is_heard(const lines_consumer_slot *slot)
{
    uint64_t here = PyThreadState_GetID(PyThreadState_Get());
    return here == slot->thread || slot->consumer.threads == LINES_THREADS_ALL ||
           (slot->consumer.threads == LINES_THREADS_LATER && here > slot->last_thread);
}

/* Those who want this very frame. */
static uint32_t mask_for_frame(lines_source *source, const lines_code *code, base_frame *at)
{
    uint32_t mask = code->mask;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const lines_consumer_slot *slot = &source->consumers[lines_first(left)];
        const lines_consumer *consumer = &slot->consumer;
        if (!is_heard(slot) ||
            (consumer->accepts != NULL && !consumer->accepts(consumer->context, code->code, at)))
            mask &= ~(left & -left);
        if (PyErr_Occurred())
            lines_source_note_error(source, lines_first(left));
    }
    return mask;
}

static void free_record(lines_record *record)
{
    if (record->reads != NULL)
        lines_reads_clear(record);
    PyMem_Free(record->reads);
    PyMem_Free(record->far_owner);
    PyMem_Free(record->far);
    PyMem_Free(record);
}

static lines_record *make_record(base_frame *at, lines_code *code)
{
    const lines_table *table = code->table;
    size_t slots = table != NULL ? (size_t)table->slot_count : 0;
    size_t paths = table != NULL ? (size_t)table->path_count + 1 : 0;
    lines_record *record = PyMem_Calloc(1, sizeof *record + slots * sizeof(lines_state));
    if (record == NULL)
        return NULL;
    record->at = at;
    record->code = code;
    record->statement = record->line_event = -1;
    record->is_bare = table == NULL;
    if (table == NULL)
        return record;
    record->slot_count = table->slot_count;
    record->reads = PyMem_Calloc((size_t)table->most_reads + MOST_ITEMS + 1, sizeof *record->reads);
    record->far_owner = PyMem_Calloc(paths, sizeof *record->far_owner);
    record->far = PyMem_Calloc(paths, sizeof *record->far);
    if (record->reads == NULL || record->far_owner == NULL || record->far == NULL) {
        free_record(record);
        return NULL;
    }
    return record;
}

/* Drops suspended generators that were not resumed for longest.  If there were few (a
 * deep recursion), the next search is at twice as many frames. */
static void drop_oldest(lines_source *source)
{
    uint64_t limit = source->uses > MOST_FRAMES / 2 ? source->uses - MOST_FRAMES / 2 : 0;
    source->drop_at = MOST_FRAMES;
    if (source->inside > 1)
        return;
    lines_record *record;
    for (size_t i = 0; (record = base_map_next(&source->frames, &i)) != NULL;) {
        const int suspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
        if (record->code->code->co_flags & suspends && record->used < limit) {
            lines_source_forget(source, record);
            i--; /* another may have moved here */
        }
    }
    if (source->frames.used * 2 > MOST_FRAMES)
        source->drop_at = source->frames.used * 2;
}

lines_record *lines_source_find(lines_source *source, base_frame *at)
{
    if (source->last != NULL && source->last->at == at)
        return source->last;
    lines_record *record = base_map_find(&source->frames, at);
    source->last = record != NULL ? record : source->last;
    return record;
}

lines_record *lines_source_frame(lines_source *source, base_frame *at, lines_code *code, bool is_fresh)
{
    lines_record *record = lines_source_find(source, at);
    if (record != NULL && (is_fresh || record->code != code)) { /* of a frame that died unseen */
        lines_source_forget(source, record);
        record = NULL;
    }
    uint32_t mask = mask_for_frame(source, code, at);
    if (record != NULL) {
        record->used = ++source->uses;
        record->mask = mask;
    }
    if (record != NULL || mask == 0)
        return record;
    if (source->frames.used >= MOST_FRAMES && source->frames.used >= source->drop_at)
        drop_oldest(source);
    record = make_record(at, code);
    if (record == NULL || base_map_put(&source->frames, at, record) < 0) {
        PyErr_Clear();
        if (record != NULL)
            free_record(record);
        return NULL;
    }
    record->mask = mask;
    record->number = ++source->next_frame;
    record->used = ++source->uses;
    record->thread = (uint64_t)PyThread_get_thread_ident();
    const lines_record *below = lines_source_below(source, at);
    record->caller = below != NULL ? below->number : 0;
    source->last = record;
    lines_statement_adopt(source, record, NULL);
    return record;
}

void lines_record_enter(lines_source *source, lines_record *record, bool is_fresh)
{
    if (source->masks[LINES_ENTER] & record->mask)
        lines_emit_enter(source, record, !is_fresh);
    if (!is_fresh)
        lines_statement_resume(source, record);
}

void lines_record_leave(lines_source *source, lines_record *record, int instruction, PyObject *value,
                        bool is_yield)
{
    base_frame *at = record->at;
    lines_statement_end(source, record, instruction, value, is_yield);
    record = lines_source_find(source, at); /* a consumer may have removed it */
    if (!is_yield && record != NULL)
        lines_source_forget(source, record);
}

void lines_source_forget(lines_source *source, lines_record *record)
{
    base_map_remove(&source->frames, record->at);
    if (source->last == record)
        source->last = NULL;
    free_record(record);
}

void lines_source_forget_all(lines_source *source)
{
    if (source->inside > 0)
        return; /* a thread is in a callback: at the next start */
    lines_record *record;
    for (size_t i = 0; (record = base_map_next(&source->frames, &i)) != NULL;)
        free_record(record);
    base_map_free(&source->frames);
    source->last = NULL;
    lines_code *code;
    for (size_t i = 0; (code = base_map_next(&source->codes, &i)) != NULL;) {
        lines_names_free(&code->names);
        Py_DECREF(code->code);
        PyMem_Free(code);
    }
    base_map_free(&source->codes);
    lines_shared_clear(source);
}

PyObject *lines_frame_get(base_frame *at, PyObject *name)
{
    PyObject *slots = base_frame_code(at)->co_localsplusnames; /* borrowed, as all here */
    PyObject *spaces[] = { base_frame_names(at), base_frame_globals(at) }, *found = NULL;
    for (int i = 0; i < PyTuple_GET_SIZE(slots) && found == NULL; i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(slots, i), name) == 0)
            found = base_frame_slot(at, i, name);
    bool is_named = found == NULL && PySequence_Contains(base_frame_code(at)->co_names, name) == 1;
    for (int i = 0; i < 2 && is_named && found == NULL; i++)
        if (spaces[i] != NULL && PyDict_Check(spaces[i]))
            found = PyDict_GetItemWithError(spaces[i], name);
    PyErr_Clear();
    return Py_XNewRef(found);
}
