/* emit.c -- calls the consumers, each with the events that it asked for.
 *
 * Everything an event points to is on the stack here or borrowed; names are
 * created only when there is an event.  A consumer may let another thread run:
 * the record stays, because its frame is in the middle of our event.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

/* What one event points to, in one piece of memory.  Nearly every statement reads and changes a few
 * names, for which there is room on the stack. */
typedef struct room {
    PyObject **names; /* each owned or NULL: of the reads, items included, then of the changes; made
                         once for all consumers */
    size_t name_count;
    int read_names; /* so many of them are of reads */
    /* For one consumer after the other: */
    lines_name *reads; /* each state once, then old states of what was changed in place */
    size_t read_count;
    int *positions; /* of each named read in reads; -1: it is not wanted */
    lines_change *changes;
    size_t change_count;
    uint16_t *arrows; /* positions in reads, of one change after the other */
    size_t arrow_count;
    void *memory; /* owned; NULL: few is enough */
    _Alignas(16) char few[16 << 10];
} room;

static void close_room(room *at)
{
    for (size_t i = 0; i < at->name_count; i++)
        Py_XDECREF(at->names[i]);
    PyMem_Free(at->memory);
}

/* Room for so many reads and changes, without names.  False: no memory, and nothing to close. */
static bool reserve_room(room *at, int reads, int changes)
{
    size_t names = (size_t)(reads + changes), changed = (size_t)changes;
    size_t bytes = names * (sizeof *at->names + sizeof *at->reads) + changed * sizeof *at->changes +
                   (size_t)reads * sizeof *at->positions +
                   changed * ((size_t)reads + 1) * sizeof *at->arrows; /* each read, and the old state */
    at->memory = bytes > sizeof at->few ? PyMem_Malloc(bytes) : NULL;
    if (bytes > sizeof at->few && at->memory == NULL)
        return false;
    at->reads = at->memory != NULL ? at->memory : (void *)at->few; /* the widest types come first */
    at->changes = (lines_change *)(at->reads + names);
    at->names = (PyObject **)(at->changes + changed);
    at->positions = (int *)(at->names + names);
    at->arrows = (uint16_t *)(at->positions + reads);
    at->name_count = 0;
    at->read_names = reads;
    return true;
}

static lines_name name_of(const lines_record *record, int path, PyObject *name, PyObject *object,
                          const lines_state *state)
{
    return (lines_name){ .kind = lines_path_name_kind(record, path),
                         .name = name,
                         .object = object,
                         .key = state->key,
                         .version = state->seen.version,
                         .is_seen = state->is_seen };
}

static bool is_wanted(const lines_consumer_slot *slot, unsigned kind)
{
    return kind == KIND_TORCH || (kind == KIND_ARRAY && slot->consumer.wants & LINES_ARRAYS) ||
           (kind == KIND_OBJECT && slot->consumer.wants & LINES_OBJECTS);
}

static bool is_named(const lines_consumer_slot *slot, const lines_code *code, int id, int path,
                     PyObject *name)
{
    if (code->names.wanted != NULL && !(code->names.wanted[path] & (uint32_t)1 << id))
        return false;
    if (slot->names == NULL)
        return true;
    int found = PySet_Contains(slot->names, name);
    if (found < 0)
        PyErr_Clear();
    return found > 0;
}

static lines_event event_of(const lines_record *record, int line)
{
    return (lines_event){ .frame = record->number,
                          .caller = record->caller,
                          .thread = record->thread,
                          .code = (PyObject *)record->code->code,
                          .at = record->at,
                          .line = line,
                          .run = record->run };
}

static lines_event event_of_statement(const lines_record *record, const lines_statement *statement)
{
    lines_event event = event_of(record, statement->line);
    event.first_site = statement->start;
    event.end_site = statement->end;
    event.is_return = statement->flags & STATEMENT_RETURNS;
    return event;
}

/* Does the consumer want this event?  Consumers may be removed between two calls. */
static bool is_asked(const lines_source *source, const lines_record *record, lines_function which, int id,
                     const lines_event *event)
{
    bool has_lines = which == LINES_LINE || which == LINES_BEFORE || which == LINES_CHANGE;
    const lines_code *code = record->code;
    return source->masks[which] & record->mask & (uint32_t)1 << id && !source->consumers[id].is_muted &&
           (!has_lines || (code->first[id] <= event->line && event->line <= code->last[id]));
}

static void tell(lines_source *source, int id, lines_function which, const lines_event *event)
{
    const lines_consumer *consumer = &source->consumers[id].consumer;
    consumer->functions[which](consumer->context, event);
    if (PyErr_Occurred())
        lines_source_note_error(source, id);
}

/* The reads that a consumer wants, each state once. */
static void list_reads(const lines_record *record, const lines_consumer_slot *slot, room *at)
{
    at->read_count = 0;
    for (int i = 0; i < at->read_names; i++) {
        const lines_saved_read *read = &record->reads[i];
        int *position = &at->positions[i];
        *position = -1;
        if (read->target.path < 0 || at->names[i] == NULL || !is_wanted(slot, read->state.seen.kind))
            continue;
        for (size_t k = 0; k < at->read_count && *position < 0; k++)
            if (at->reads[k].key == read->state.key)
                *position = (int)k;
        if (*position < 0) {
            lines_name *to = &at->reads[at->read_count];
            *to = name_of(record, read->target.path, at->names[i], read->target.object, &read->state);
            if (read->item != NULL)
                to->kind = LINES_ITEM;
            *position = (int)at->read_count++;
        }
    }
}

/* Calls a function of all consumers of the mask; with a room, the event has the reads that each one
 * wants. */
static void tell_all(lines_source *source, lines_record *record, lines_function which, uint32_t mask,
                     lines_event *event, room *at)
{
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        int id = lines_first(left);
        if (!is_asked(source, record, which, id, event))
            continue;
        if (at != NULL) {
            list_reads(record, &source->consumers[id], at);
            event->reads = at->reads;
            event->read_count = at->read_count;
        }
        if (which != LINES_BEFORE || event->read_count > 0)
            tell(source, id, which, event);
    }
}

/* item: a key in the container at the path, or NULL. */
static PyObject *text_of(lines_source *source, lines_record *record, int path, PyObject *item)
{
    PyObject *text = path >= 0 ? lines_path_text(source, record, path) : NULL; /* owned */
    if (text == NULL || item == NULL)
        return text;
    PyObject *whole = PyUnicode_FromFormat("%U[%R]", text, item);
    Py_DECREF(text);
    return whole;
}

/* Room for the reads of the statement that runs and for changes, with their names. */
static bool open_room(lines_source *source, lines_record *record, const lines_found_change *found,
                      int changes, room *at)
{
    if (!reserve_room(at, record->read_count, changes))
        return false;
    for (int i = 0; i < record->read_count; i++)
        at->names[at->name_count++] =
            text_of(source, record, record->reads[i].target.path, record->reads[i].item);
    for (int i = 0; i < changes; i++)
        at->names[at->name_count++] = text_of(source, record, found[i].target.path, found[i].item);
    return true;
}

/* These keys have been reported from now on. */
static void mark_seen(lines_source *source, lines_record *record)
{
    for (int i = 0; i < record->read_count; i++) {
        const lines_saved_read *read = &record->reads[i];
        if (read->target.path < 0 || read->state.is_seen)
            continue;
        lines_state *state = lines_target_state(source, record, &read->target);
        if (state != NULL && state->key == read->state.key)
            state->is_seen = true;
    }
}

/* ---- arrows --------------------------------------------------------------------- */

/* Is the path the container that the other one stores into? */
static bool is_base(const lines_table *table, int path, int stored)
{
    while (table->paths[stored].kind >= PATH_ATTRIBUTE) {
        stored = table->paths[stored].base;
        if (stored == path)
            return true;
    }
    return false;
}

/* first: the first arrow of the change. */
static void add_arrow(room *at, size_t first, int position)
{
    for (size_t k = first; k < at->arrow_count; k++)
        if (at->arrows[k] == position)
            return;
    if (position >= 0) /* else it is not wanted */
        at->arrows[at->arrow_count++] = (uint16_t)position;
}

/* Is what was read in what the write got?  NULL: all is. */
static bool is_own(const lines_table *table, const lines_write *write, int read)
{
    if (write == NULL)
        return true;
    for (int i = 0; i < write->read_count; i++)
        if (table->write_reads[write->reads + i] == read)
            return true;
    return false;
}

/* An item comes from the name that holds it too, else from all that was read for it;
 * returns whether a name does. */
static bool list_item_arrows(const lines_record *record, const lines_found_change *found, room *at)
{
    const lines_table *table = record->code->table;
    size_t first = at->arrow_count;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < at->read_names; k++) {
            const lines_saved_read *read = &record->reads[k];
            bool is_inside = read->item != NULL && read->target.owner == found->target.owner;
            int own = read->item != NULL ? read->parent : k;
            if (!is_inside && is_own(table, found->write, own) &&
                (pass == 1 || read->state.seen.object == found->target.object))
                add_arrow(at, first, at->positions[k]);
        }
        if (at->arrow_count > first)
            return pass == 0;
    }
    return false;
}

/* Reads of the write's own, or of the statement; all, or those of the very tensor. */
static void list_own_arrows(const lines_record *record, const lines_found_change *found, bool is_same,
                            room *at)
{
    const lines_table *table = record->code->table;
    const lines_write *write = found->write;
    const int *own = write != NULL ? table->write_reads + write->reads : NULL;
    int count = write != NULL ? write->read_count : at->read_names;
    size_t first = at->arrow_count;
    for (int i = 0; i < count; i++) {
        int number = own != NULL ? own[i] : i;
        if (number < at->read_names &&
            (!is_same || record->reads[number].target.object == found->target.object))
            add_arrow(at, first, at->positions[number]);
        for (int k = 0; own != NULL && k < at->read_names; k++) { /* the container's tensors */
            const lines_saved_read *read = &record->reads[k];
            if (read->item != NULL && read->parent == number &&
                !is_base(table, read->target.path, write->path) &&
                (!is_same || read->target.object == found->target.object))
                add_arrow(at, first, at->positions[k]);
        }
    }
}

/* The state before a change in place by a statement that does not name it. */
static void add_old_state(const lines_record *record, const lines_found_change *found, PyObject *name,
                          room *at, size_t first)
{
    size_t i = 0;
    while (i < at->read_count && at->reads[i].key != found->old.key)
        i++;
    if (i == at->read_count) /* there is room for one of each change */
        at->reads[at->read_count++] = name_of(record, found->target.path, name, NULL, &found->old);
    add_arrow(at, first, (int)i);
}

/* Adds the arrows of the room's last change.  name: of what changed. */
static void list_arrows(const lines_record *record, const lines_found_change *found, PyObject *name,
                        room *at)
{
    lines_change *to = &at->changes[at->change_count - 1];
    size_t first = at->arrow_count;
    if (found->item != NULL) {
        if (list_item_arrows(record, found, at)) {
            to->calls = record->code->table->write_calls; /* and from no call */
            to->call_count = to->direct_count = 0;
        }
    } else {
        /* A value that was taken unchanged out of a container comes from itself, if it has a name there. */
        if (found->write != NULL && found->write->flags & WRITE_PART)
            list_own_arrows(record, found, true, at);
        if (at->arrow_count == first)
            list_own_arrows(record, found, false, at);
        if (found->write == NULL && found->how == LINES_INPLACE && found->old.key != 0)
            add_old_state(record, found, name, at, first);
    }
    to->reads = at->arrows + first;
    to->read_count = at->arrow_count - first;
}

/* ---- events --------------------------------------------------------------------- */

/* A change without its arrows. */
static lines_change change_of(const lines_record *record, const lines_found_change *found, PyObject *name)
{
    lines_change change = { .how = found->how,
                            .old_key = found->old.seen.kind != KIND_NONE ? found->old.key : 0,
                            .is_sampled = found->now.seen.is_sampled };
    change.now = name_of(record, found->target.path, name, found->target.object, &found->now);
    if (found->item != NULL)
        change.now.kind = LINES_ITEM;
    if (found->write != NULL) {
        change.calls = record->code->table->write_calls + found->write->calls;
        change.call_count = (size_t)found->write->call_count;
        change.direct_count = (size_t)found->write->direct_count;
    }
    return change;
}

static void tell_changes(lines_source *source, lines_record *record, const lines_found_change *found,
                         int id, lines_event *event, room *at)
{
    const lines_consumer_slot *slot = &source->consumers[id];
    list_reads(record, slot, at);
    at->change_count = at->arrow_count = 0;
    for (size_t i = (size_t)at->read_names; i < at->name_count; i++) {
        const lines_found_change *one = &found[i - (size_t)at->read_names];
        PyObject *name = at->names[i]; /* borrowed */
        if (name == NULL || !is_wanted(slot, one->target.kind) ||
            (one->how == LINES_TOUCHED && slot->names == NULL) ||
            !is_named(slot, record->code, id, one->target.path, name))
            continue;
        at->changes[at->change_count++] = change_of(record, one, name);
        list_arrows(record, one, name, at);
    }
    if (at->change_count == 0)
        return;
    event->reads = at->reads;
    event->read_count = at->read_count;
    event->changes = at->changes;
    event->change_count = at->change_count;
    tell(source, id, LINES_CHANGE, event);
}

void lines_emit_changes(lines_source *source, lines_record *record, const lines_statement *statement,
                        const lines_found_change *found, int count)
{
    room here;
    if (!open_room(source, record, found, count, &here))
        return;
    /* Reads are reported as they were before: what is gone has no object. */
    for (int i = 0; i < here.read_names; i++) {
        lines_target target;
        lines_saved_read *read = &record->reads[i];
        if (read->target.path < 0)
            continue;
        lines_path_find(source, record, read->target.path, false, &target);
        PyObject *now = target.object; /* borrowed */
        if (read->item != NULL)
            now = now == read->target.owner ? lines_path_item(now, read->item) : NULL;
        read->target.object = now == read->state.seen.object ? now : NULL;
        for (int k = 0; k < count && read->target.object != NULL; k++)
            if (found[k].old.key == read->state.key && found[k].now.key != found[k].old.key)
                read->target.object = NULL; /* its state is over */
    }
    lines_event event = event_of_statement(record, statement);
    for (uint32_t left = source->masks[LINES_CHANGE] & record->mask; left != 0; left &= left - 1)
        if (is_asked(source, record, LINES_CHANGE, lines_first(left), &event))
            tell_changes(source, record, found, lines_first(left), &event, &here);
    mark_seen(source, record);
    close_room(&here);
}

void lines_emit_reads(lines_source *source, lines_record *record, const lines_statement *statement,
                      uint32_t mask)
{
    room here;
    if (!open_room(source, record, NULL, 0, &here))
        return;
    lines_event event = event_of_statement(record, statement);
    tell_all(source, record, LINES_BEFORE, mask, &event, &here);
    mark_seen(source, record);
    close_room(&here);
}

void lines_emit_line(lines_source *source, lines_record *record, int instruction)
{
    lines_event event = event_of(record, lines_record_line(record, instruction));
    tell_all(source, record, LINES_LINE, source->mask, &event, NULL);
}

void lines_emit_enter(lines_source *source, lines_record *record, bool is_resumed)
{
    lines_event event = event_of(record, record->code->code->co_firstlineno);
    event.is_resumed = is_resumed;
    tell_all(source, record, LINES_ENTER, source->mask, &event, NULL);
}

void lines_emit_sent(lines_source *source, lines_record *record)
{
    PyObject *value = base_frame_sent(record->at);
    tensor_kind kind = value != NULL ? lines_state_kind(source, value) : KIND_NONE;
    int unit = base_frame_instruction(record->at) - 1; /* of the yield; it resumes at the next one */
    lines_state state = { 0 };
    if (!tensor_kind_has_elements(kind) || unit < 0 || unit >= record->code->table->instruction_count)
        return;
    PyObject *guard = lines_state_begin(source);
    lines_state_adopt(source, &state, value, kind);
    tensor_quiet_leave(guard);
    lines_name sent = {
        .kind = LINES_ITEM, .object = value, .key = state.key, .version = state.seen.version
    };
    uint32_t mask = 0;
    for (uint32_t left = source->masks[LINES_SENT] & record->mask; left != 0; left &= left - 1)
        mask |= is_wanted(&source->consumers[lines_first(left)], kind) ? left & -left : 0;
    lines_event event = event_of(record, record->code->table->line_at[unit]);
    event.first_site = record->code->table->begin_at[unit];
    event.end_site = event.first_site + 1;
    event.value = value;
    event.reads = &sent;
    event.read_count = 1;
    tell_all(source, record, LINES_SENT, mask, &event, NULL);
}

void lines_emit_leave(lines_source *source, lines_record *record, const lines_statement *statement,
                      PyObject *value, bool is_yield)
{
    room here;
    if (statement != NULL && !open_room(source, record, NULL, 0, &here))
        return;
    lines_event event = statement != NULL ? event_of_statement(record, statement) : event_of(record, 0);
    event.value = value;
    event.is_yield = is_yield;
    event.is_return = true;
    tell_all(source, record, LINES_LEAVE, source->mask, &event, statement != NULL ? &here : NULL);
    if (statement != NULL)
        close_room(&here);
}
