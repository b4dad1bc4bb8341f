/* emit.c -- tells the consumers, each what it asked for.
 *
 * Everything an event points to is on the stack here or borrowed; names are
 * made only when somebody is told.  A consumer may let another thread run:
 * the record stays, because its frame is in the middle of our event.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/emit.h"

#include <string.h>

static bool is_wanted(const lines_consumer_slot *slot, unsigned kind)
{
    return kind == KIND_TORCH || (kind == KIND_ARRAY && slot->consumer.wants & LINES_ARRAYS) ||
           (kind == KIND_OBJECT && slot->consumer.wants & LINES_OBJECTS);
}

static bool is_named(const lines_consumer_slot *slot, const lines_code *code, int id, int path,
                     PyObject *name)
{
    if (code->named != NULL && !(code->named[path] & (uint32_t)1 << id))
        return false;
    if (slot->names == NULL)
        return true;
    int found = PySet_Contains(slot->names, name);
    if (found < 0)
        PyErr_Clear();
    return found > 0;
}

static bool has_line(const lines_record *record, int id, int line)
{
    return record->code->first[id] <= line && line <= record->code->last[id];
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

static void tell(lines_source *source, int id, lines_fn *function, const lines_event *event)
{
    function(source->consumers[id].consumer.context, event);
    if (PyErr_Occurred())
        lines_source_note_error(source, id);
}

/* The reads that a consumer wants, each state once. */
static void list_reads(const lines_record *record, const lines_consumer_slot *slot, lines_room *room)
{
    room->read_count = 0;
    for (int i = 0; i < room->name_count; i++) {
        const lines_saved_read *read = &record->reads[i];
        int *position = &room->position[i];
        *position = -1;
        if (read->path < 0 || room->read_name[i] == NULL || !is_wanted(slot, read->state.kind))
            continue;
        for (size_t k = 0; k < room->read_count && *position < 0; k++)
            if (room->reads[k].key == read->state.key)
                *position = (int)k;
        if (*position < 0) {
            lines_name *to = &room->reads[room->read_count];
            *to = lines_name_of(record, read->path, room->read_name[i], read->object, &read->state);
            if (read->item != NULL)
                to->kind = LINES_ITEM;
            *position = (int)room->read_count++;
        }
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

/* Room for the reads of the statement that runs, with their names, and for changes. */
static bool open_room(lines_source *source, lines_record *record, int changes, lines_room *room)
{
    if (!lines_room_open(room, record->read_count, changes))
        return false;
    for (int i = 0; i < room->name_count; i++)
        room->read_name[i] = text_of(source, record, record->reads[i].path, record->reads[i].item);
    for (int i = 0; i < changes; i++)
        room->change_name[i] = NULL;
    return true;
}

/* From now on these keys were heard of. */
static void mark_seen(lines_source *source, lines_record *record, const lines_statement *statement)
{
    const uint16_t *paths = record->code->table->reads + statement->reads;
    for (int i = 0; i < record->read_count; i++) {
        const lines_saved_read *read = &record->reads[i];
        lines_place place;
        lines_state *state = NULL;
        if (read->path < 0 || read->state.is_seen)
            continue;
        if (read->item != NULL) {
            state = lines_shared_state(source, read->owner, read->member);
        } else {
            lines_path_find(source, record, paths[i], false, &place);
            state = place.object != NULL ? lines_place_state(source, record, &place) : NULL;
        }
        if (state != NULL && state->key == read->state.key)
            state->is_seen = true;
    }
}

/* A change without its arrows. */
static lines_change change_of(const lines_record *record, const lines_found_change *found, PyObject *name)
{
    lines_change change = { .how = found->how,
                            .old_key = found->old.kind != KIND_NONE ? found->old.key : 0,
                            .is_sampled = found->now.is_sampled };
    change.now = lines_name_of(record, found->place.path, name, found->place.object, &found->now);
    if (found->item != NULL)
        change.now.kind = LINES_ITEM;
    if (found->write != NULL) {
        change.calls = record->code->table->write_calls + found->write->calls;
        change.call_count = found->write->call_count;
        change.direct_count = found->write->direct_count;
    }
    return change;
}

static void tell_changes(lines_source *source, lines_record *record, const lines_statement *statement,
                         const lines_found_change *found, int id, lines_room *room)
{
    const lines_consumer_slot *slot = &source->consumers[id];
    list_reads(record, slot, room);
    room->change_count = room->arrow_count = 0;
    for (int i = 0; i < room->change_name_count; i++) {
        const lines_found_change *one = &found[i];
        PyObject *name = room->change_name[i]; /* borrowed */
        if (name == NULL || !is_wanted(slot, one->place.kind) ||
            (one->how == LINES_TOUCHED && !(slot->consumer.wants & LINES_TOUCHES)) ||
            !is_named(slot, record->code, id, one->place.path, name))
            continue;
        room->changes[room->change_count++] = change_of(record, one, name);
        lines_list_arrows(record, one, name, room);
    }
    if (room->change_count == 0)
        return;
    const uint16_t *arrows = room->arrows; /* they stay where they are from now on */
    for (size_t i = 0; i < room->change_count; arrows += room->changes[i++].read_count)
        room->changes[i].reads = arrows;
    lines_event event = event_of_statement(record, statement);
    event.reads = room->reads;
    event.read_count = room->read_count;
    event.changes = room->changes;
    event.change_count = room->change_count;
    tell(source, id, slot->consumer.change, &event);
}

/* The consumers of mask, one after the other; the list may shrink meanwhile. */
#define FOR_EACH_CONSUMER(source, record, function, id)            \
    for (int id = 0; id < LINES_MAX_CONSUMERS; id++)               \
        if ((source)->mask & (record)->mask & (uint32_t)1 << id && \
            (source)->consumers[id].consumer.function != NULL && !(source)->consumers[id].is_muted)

void lines_emit_changes(lines_source *source, lines_record *record, const lines_statement *statement,
                        const lines_found_change *found, int count)
{
    lines_room room;
    if (!open_room(source, record, count, &room))
        return;
    for (int i = 0; i < count; i++)
        room.change_name[i] = text_of(source, record, found[i].place.path, found[i].item);
    /* Reads are told as they were before: what is gone has no object. */
    for (int i = 0; i < room.name_count; i++) {
        lines_place place;
        lines_saved_read *read = &record->reads[i];
        if (read->path < 0)
            continue;
        if (read->item != NULL)
            place.object = lines_reads_item(source, record, read);
        else
            lines_path_find(source, record, read->path, false, &place);
        read->object = place.object == read->state.object ? place.object : NULL;
        for (int k = 0; k < count && read->object != NULL; k++)
            if (found[k].old.key == read->state.key && found[k].now.key != found[k].old.key)
                read->object = NULL; /* its state is over */
    }
    FOR_EACH_CONSUMER(source, record, change, id)
    if (has_line(record, id, statement->line))
        tell_changes(source, record, statement, found, id, &room);
    mark_seen(source, record, statement);
    lines_room_close(&room);
}

void lines_emit_reads(lines_source *source, lines_record *record, const lines_statement *statement,
                      uint32_t mask)
{
    lines_room room;
    if (!open_room(source, record, 0, &room))
        return;
    FOR_EACH_CONSUMER(source, record, before, id)
    {
        lines_event event = event_of_statement(record, statement);
        list_reads(record, &source->consumers[id], &room);
        event.reads = room.reads;
        event.read_count = room.read_count;
        if (event.read_count > 0 && mask & (uint32_t)1 << id && has_line(record, id, statement->line))
            tell(source, id, source->consumers[id].consumer.before, &event);
    }
    mark_seen(source, record, statement);
    lines_room_close(&room);
}

void lines_emit_line(lines_source *source, lines_record *record, int instruction)
{
    int line = record->is_bare ? PyCode_Addr2Line(record->code->code, instruction * CODE_UNIT)
                               : record->code->table->line_at[instruction];
    FOR_EACH_CONSUMER(source, record, line, id)
    {
        lines_event event = event_of(record, line);
        if (has_line(record, id, line))
            tell(source, id, source->consumers[id].consumer.line, &event);
    }
}

void lines_emit_enter(lines_source *source, lines_record *record, bool is_resumed)
{
    FOR_EACH_CONSUMER(source, record, enter, id)
    {
        lines_event event = event_of(record, record->code->code->co_firstlineno);
        event.is_resumed = is_resumed;
        tell(source, id, source->consumers[id].consumer.enter, &event);
    }
}

void lines_emit_sent(lines_source *source, lines_record *record)
{
    PyObject *value = base_frame_sent(record->at), *guard = NULL;
    lines_object_kind kind = value != NULL ? lines_state_kind(source, value) : KIND_NONE;
    int unit = base_frame_yield(record->at);
    lines_state state = { 0 };
    if (!lines_is_tensor(kind) || unit < 0 || unit >= record->code->table->instruction_count)
        return;
    lines_state_begin(source, &guard);
    lines_state_adopt(source, &state, value, kind);
    tensor_quiet_leave(guard);
    lines_name sent = { .kind = LINES_ITEM, .object = value, .key = state.key, .version = state.version };
    FOR_EACH_CONSUMER(source, record, sent, id)
    {
        lines_event event = event_of(record, record->code->table->line_at[unit]);
        event.first_site = record->code->table->begin_at[unit];
        event.end_site = event.first_site + 1;
        event.value = value;
        event.reads = &sent;
        event.read_count = 1;
        if (is_wanted(&source->consumers[id], kind))
            tell(source, id, source->consumers[id].consumer.sent, &event);
    }
}

void lines_emit_leave(lines_source *source, lines_record *record, const lines_statement *statement,
                      PyObject *value, bool is_yield)
{
    lines_room room;
    if (statement != NULL ? !open_room(source, record, 0, &room) : !lines_room_open(&room, 0, 0))
        return;
    FOR_EACH_CONSUMER(source, record, leave, id)
    {
        lines_event event =
            statement != NULL ? event_of_statement(record, statement) : event_of(record, 0);
        list_reads(record, &source->consumers[id], &room);
        event.reads = room.reads;
        event.read_count = room.read_count;
        event.value = value;
        event.is_yield = is_yield;
        event.is_return = true;
        tell(source, id, source->consumers[id].consumer.leave, &event);
    }
    lines_room_close(&room);
}

/* ---- takes and gives back the room of an event -------------------------------- */

static size_t rounded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* One piece of memory for all lists. */
static bool take_more(lines_room *room, size_t names, size_t changes)
{
    size_t sizes[] = { rounded((names + changes) * sizeof *room->read_name),
                       rounded((names + changes) * sizeof *room->reads),
                       rounded(names * sizeof *room->position),
                       rounded(changes * sizeof *room->changes) };
    char *memory = PyMem_Malloc(sizes[0] + sizes[1] + sizes[2] + sizes[3]);
    if (memory == NULL)
        return false;
    room->more = memory;
    room->read_name = (PyObject **)(void *)memory;
    room->reads = (lines_name *)(void *)(memory + sizes[0]);
    room->position = (int *)(void *)(memory + sizes[0] + sizes[1]);
    room->changes = (lines_change *)(void *)(memory + sizes[0] + sizes[1] + sizes[2]);
    return true;
}

bool lines_room_open(lines_room *room, int names, int changes)
{
    room->more = NULL;
    room->read_name = room->few_names;
    room->reads = room->few_reads;
    room->position = room->few_positions;
    room->changes = room->few_changes;
    if ((names > FEW_READS || changes > FEW_CHANGES) && !take_more(room, (size_t)names, (size_t)changes))
        return false;
    room->change_name = room->read_name + names;
    room->name_count = names;
    room->change_name_count = changes;
    room->read_count = room->change_count = room->arrow_count = 0;
    room->arrows = room->few_arrows;
    room->arrow_cap = FEW_ARROWS;
    return true;
}

void lines_room_close(lines_room *room)
{
    for (int i = 0; i < room->name_count + room->change_name_count; i++)
        Py_XDECREF(room->read_name[i]);
    PyMem_Free(room->more);
    if (room->arrows != room->few_arrows)
        PyMem_Free(room->arrows);
}

bool lines_room_add_arrow(lines_room *room, int position)
{
    if (room->arrow_count == room->arrow_cap) {
        bool is_here = room->arrows == room->few_arrows;
        uint16_t *more = PyMem_Realloc(is_here ? NULL : room->arrows, 4 * room->arrow_cap * sizeof *more);
        if (more == NULL)
            return false;
        if (is_here)
            memcpy(more, room->few_arrows, sizeof room->few_arrows);
        room->arrows = more;
        room->arrow_cap *= 4;
    }
    room->arrows[room->arrow_count++] = (uint16_t)position;
    return true;
}
