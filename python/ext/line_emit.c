/* line_emit.c -- tells the consumers, each what it asked for.
 *
 * Everything an event points to is on the stack here or borrowed; names are
 * made only when somebody is told.  A consumer may let another thread run:
 * the record stays, because its frame is in the middle of our event.
 * SPDX-License-Identifier: Apache-2.0 */
#include "line_engine.h"

/* Names of one event, made once for all consumers. */
typedef struct event_names {
    PyObject *read[MOST_READS];     /* owned or NULL */
    PyObject *change[MOST_CHANGES]; /* owned or NULL */
    int read_count, change_count;
} event_names;

static bool is_wanted(const consumer_slot *slot, unsigned kind)
{
    return kind == KIND_TORCH || (kind == KIND_ARRAY && slot->consumer.wants & LINE_ARRAYS) ||
           (kind == KIND_OBJECT && slot->consumer.wants & LINE_OBJECTS);
}

static bool is_named(const consumer_slot *slot, const line_code *code, int id, int path, PyObject *name)
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

static bool has_line(const frame_record *record, int id, int line)
{
    return record->code->first[id] <= line && line <= record->code->last[id];
}

static line_event event_of(const frame_record *record, int line)
{
    return (line_event){ .frame = record->number,
                         .caller = record->caller,
                         .thread = record->thread,
                         .code = (PyObject *)record->code->code,
                         .at = record->at,
                         .line = line,
                         .run = record->run };
}

static line_event event_of_statement(const frame_record *record, const line_statement *statement)
{
    line_event event = event_of(record, statement->line);
    event.first_site = statement->start;
    event.end_site = statement->end;
    event.is_return = statement->flags & STATEMENT_RETURNS;
    return event;
}

static void tell(line_source *source, int id, line_fn *function, const line_event *event)
{
    function(source->consumers[id].consumer.context, event);
    if (PyErr_Occurred())
        source_note_error(source, id);
}

static line_name name_of(const frame_record *record, int path, PyObject *name, PyObject *object,
                         const line_state *state)
{
    return (line_name){ .kind = path_line_kind(record, path),
                        .name = name,
                        .object = object,
                        .key = state->key,
                        .version = state->version,
                        .is_seen = state->is_seen };
}

/* The reads that a consumer wants, each state once; position[i] is where read i
 * went, -1: nowhere. */
static size_t list_reads(const frame_record *record, const consumer_slot *slot, const event_names *names,
                         line_name *out, int *position)
{
    size_t count = 0;
    for (int i = 0; i < names->read_count; i++) {
        const saved_read *read = &record->reads[i];
        position[i] = -1;
        if (read->path < 0 || names->read[i] == NULL || !is_wanted(slot, read->state.kind))
            continue;
        for (size_t k = 0; k < count && position[i] < 0; k++)
            if (out[k].key == read->state.key)
                position[i] = (int)k;
        if (position[i] < 0) {
            out[count] = name_of(record, read->path, names->read[i], read->object, &read->state);
            if (read->item != NULL)
                out[count].kind = LINE_ITEM;
            position[i] = (int)count++;
        }
    }
    return count;
}

/* item: a key in the container at the path, or NULL. */
static PyObject *text_of(line_source *source, frame_record *record, int path, PyObject *item)
{
    PyObject *text = path >= 0 ? path_text(source, record, path) : NULL; /* owned */
    if (text == NULL || item == NULL)
        return text;
    PyObject *whole = PyUnicode_FromFormat("%U[%R]", text, item);
    Py_DECREF(text);
    return whole;
}

static void make_read_names(line_source *source, frame_record *record, event_names *names)
{
    int most = MOST_READS - MOST_CHANGES;
    names->read_count = record->read_count < most ? record->read_count : most;
    for (int i = 0; i < names->read_count; i++)
        names->read[i] = text_of(source, record, record->reads[i].path, record->reads[i].item);
}

static void free_names(event_names *names)
{
    for (int i = 0; i < names->read_count; i++)
        Py_XDECREF(names->read[i]);
    for (int i = 0; i < names->change_count; i++)
        Py_XDECREF(names->change[i]);
}

/* From now on these keys were heard of. */
static void mark_seen(line_source *source, frame_record *record, const line_statement *statement)
{
    const uint16_t *paths = record->code->table->reads + statement->reads;
    for (int i = 0; i < record->read_count; i++) {
        const saved_read *read = &record->reads[i];
        line_place place;
        line_state *state = NULL;
        if (read->path < 0 || read->state.is_seen)
            continue;
        if (read->item != NULL) {
            state = shared_state(source, read->owner, read->member);
        } else {
            path_find(source, record, paths[i], false, &place);
            state = place.object != NULL ? place_state(source, record, &place) : NULL;
        }
        if (state != NULL && state->key == read->state.key)
            state->is_seen = true;
    }
}

typedef struct arrow_list {
    uint16_t index[MOST_ARROWS];
    size_t used;
} arrow_list;

/* Is the path the container that the other one stores into? */
static bool is_base(const line_table *table, int path, int stored)
{
    while (table->paths[stored].kind >= PATH_ATTRIBUTE) {
        stored = table->paths[stored].base;
        if (stored == path)
            return true;
    }
    return false;
}

static void add_arrow(arrow_list *arrows, size_t first, int position)
{
    if (position < 0 || arrows->used == MOST_ARROWS)
        return;
    for (size_t k = first; k < arrows->used; k++)
        if (arrows->index[k] == position)
            return;
    arrows->index[arrows->used++] = (uint16_t)position;
}

/* Is what was read in what the write got?  NULL: all is. */
static bool is_own(const line_table *table, const line_write *write, int read)
{
    if (write == NULL)
        return true;
    for (int i = 0; i < write->read_count; i++)
        if (table->write_reads[write->reads + (uint32_t)i] == read)
            return true;
    return false;
}

/* An item comes from the name that holds it too, else from all that was read for it;
 * gives whether a name does. */
static bool list_item_arrows(const line_table *table, const found_change *found,
                             const frame_record *record, const int *position, int positions,
                             arrow_list *arrows)
{
    size_t first = arrows->used;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < positions; k++) {
            const saved_read *read = &record->reads[k];
            bool is_inside = read->item != NULL && read->owner == found->place.owner;
            int own = read->item != NULL ? read->parent : k;
            if (!is_inside && is_own(table, found->write, own) &&
                (pass == 1 || read->state.object == found->place.object))
                add_arrow(arrows, first, position[k]);
        }
        if (arrows->used > first)
            return pass == 0;
    }
    return false;
}

/* Reads of the write's own, or of the statement; all, or those of the very tensor. */
static void list_own_arrows(const line_table *table, const found_change *found,
                            const frame_record *record, const int *position, int positions,
                            bool is_same, arrow_list *arrows)
{
    const line_write *write = found->write;
    const uint16_t *own = write != NULL ? table->write_reads + write->reads : NULL;
    int count = write != NULL ? write->read_count : positions;
    size_t first = arrows->used;
    for (int i = 0; i < count; i++) {
        int at = own != NULL ? own[i] : i;
        if (at < positions && (!is_same || record->reads[at].object == found->place.object))
            add_arrow(arrows, first, position[at]);
        for (int k = 0; own != NULL && k < positions; k++) { /* the container's tensors */
            const saved_read *read = &record->reads[k];
            if (read->item != NULL && read->parent == at && !is_base(table, read->path, write->path) &&
                (!is_same || read->object == found->place.object))
                add_arrow(arrows, first, position[k]);
        }
    }
}

/* All reads of the write's own, or of the statement and the name's old state. */
static void list_arrows(const line_table *table, const found_change *found, line_change *to,
                        const frame_record *record, PyObject *name, line_name *reads, size_t *read_count,
                        const int *position, int positions, arrow_list *arrows)
{
    size_t first = arrows->used;
    if (found->item != NULL) {
        if (list_item_arrows(table, found, record, position, positions, arrows)) {
            to->calls = table->write_calls; /* and from no call */
            to->call_count = to->direct_count = 0;
        }
        to->reads = arrows->index + first;
        to->read_count = arrows->used - first;
        return;
    }
    /* What was taken out of something as it is comes from itself, if it has a name there. */
    bool is_part = found->write != NULL && found->write->flags & WRITE_PART;
    if (is_part)
        list_own_arrows(table, found, record, position, positions, true, arrows);
    if (arrows->used == first)
        list_own_arrows(table, found, record, position, positions, false, arrows);
    if (found->write == NULL && found->how == LINE_INPLACE && found->old.key != 0) {
        size_t at = 0;
        while (at < *read_count && reads[at].key != found->old.key)
            at++;
        if (at == *read_count && *read_count < MOST_READS)
            reads[(*read_count)++] = name_of(record, found->place.path, name, NULL, &found->old);
        add_arrow(arrows, first, at < *read_count ? (int)at : -1);
    }
    to->reads = arrows->index + first;
    to->read_count = arrows->used - first;
}

static void tell_changes(line_source *source, frame_record *record, const line_statement *statement,
                         const found_change *found, int id, const event_names *names)
{
    const consumer_slot *slot = &source->consumers[id];
    line_name reads[MOST_READS];
    int position[MOST_READS];
    line_change changes[MOST_CHANGES];
    arrow_list arrows; /* large, and only its beginning is used */
    size_t change_count = 0, read_count = list_reads(record, slot, names, reads, position);
    arrows.used = 0;
    for (int i = 0; i < names->change_count; i++) {
        const found_change *one = &found[i];
        if (names->change[i] == NULL || !is_wanted(slot, one->place.kind) ||
            (one->how == LINE_TOUCHED && !(slot->consumer.wants & LINE_TOUCHES)) ||
            !is_named(slot, record->code, id, one->place.path, names->change[i]))
            continue;
        line_change *to = &changes[change_count++];
        *to = (line_change){ .how = one->how,
                             .old_key = one->old.kind != KIND_NONE ? one->old.key : 0,
                             .is_sampled = one->now.is_sampled };
        to->now = name_of(record, one->place.path, names->change[i], one->place.object, &one->now);
        if (one->item != NULL)
            to->now.kind = LINE_ITEM;
        if (one->write != NULL) {
            to->calls = record->code->table->write_calls + one->write->calls;
            to->call_count = one->write->call_count;
            to->direct_count = one->write->direct_count;
        }
        list_arrows(record->code->table, one, to, record, names->change[i], reads, &read_count, position,
                    names->read_count, &arrows);
    }
    if (change_count == 0)
        return;
    line_event event = event_of_statement(record, statement);
    event.reads = reads;
    event.read_count = read_count;
    event.changes = changes;
    event.change_count = change_count;
    tell(source, id, slot->consumer.change, &event);
}

/* The consumers of mask, one after the other; the list may shrink meanwhile. */
#define FOR_EACH_CONSUMER(source, record, function, id)            \
    for (int id = 0; id < LINE_MAX_CONSUMERS; id++)                \
        if ((source)->mask & (record)->mask & (uint32_t)1 << id && \
            (source)->consumers[id].consumer.function != NULL && !(source)->consumers[id].is_muted)

void emit_changes(line_source *source, frame_record *record, const line_statement *statement,
                  const found_change *found, int count)
{
    event_names names;
    make_read_names(source, record, &names);
    names.change_count = count;
    for (int i = 0; i < count; i++)
        names.change[i] = text_of(source, record, found[i].place.path, found[i].item);
    /* Reads are told as they were before: what is gone has no object. */
    for (int i = 0; i < names.read_count; i++) {
        line_place place;
        saved_read *read = &record->reads[i];
        if (read->path < 0)
            continue;
        if (read->item != NULL)
            place.object = reads_item(source, record, read);
        else
            path_find(source, record, read->path, false, &place);
        read->object = place.object == read->state.object ? place.object : NULL;
        for (int k = 0; k < count && read->object != NULL; k++)
            if (found[k].old.key == read->state.key)
                read->object = NULL; /* its state is over */
    }
    FOR_EACH_CONSUMER(source, record, change, id)
    if (has_line(record, id, statement->line))
        tell_changes(source, record, statement, found, id, &names);
    mark_seen(source, record, statement);
    free_names(&names);
}

void emit_reads(line_source *source, frame_record *record, const line_statement *statement, uint32_t mask)
{
    event_names names;
    line_name reads[MOST_READS];
    int position[MOST_READS];
    make_read_names(source, record, &names);
    names.change_count = 0;
    FOR_EACH_CONSUMER(source, record, before, id)
    {
        line_event event = event_of_statement(record, statement);
        event.reads = reads;
        event.read_count = list_reads(record, &source->consumers[id], &names, reads, position);
        if (event.read_count > 0 && mask & (uint32_t)1 << id && has_line(record, id, statement->line))
            tell(source, id, source->consumers[id].consumer.before, &event);
    }
    mark_seen(source, record, statement);
    free_names(&names);
}

void emit_line(line_source *source, frame_record *record, int instruction)
{
    int line = record->is_bare ? PyCode_Addr2Line(record->code->code, instruction * CODE_UNIT)
                               : record->code->table->line_at[instruction];
    FOR_EACH_CONSUMER(source, record, line, id)
    {
        line_event event = event_of(record, line);
        if (has_line(record, id, line))
            tell(source, id, source->consumers[id].consumer.line, &event);
    }
}

void emit_enter(line_source *source, frame_record *record, bool is_resumed)
{
    FOR_EACH_CONSUMER(source, record, enter, id)
    {
        line_event event = event_of(record, record->code->code->co_firstlineno);
        event.is_resumed = is_resumed;
        tell(source, id, source->consumers[id].consumer.enter, &event);
    }
}

void emit_leave(line_source *source, frame_record *record, const line_statement *statement,
                PyObject *value, bool is_yield)
{
    event_names names;
    line_name reads[MOST_READS];
    int position[MOST_READS];
    names.read_count = names.change_count = 0;
    if (statement != NULL)
        make_read_names(source, record, &names);
    FOR_EACH_CONSUMER(source, record, leave, id)
    {
        line_event event =
            statement != NULL ? event_of_statement(record, statement) : event_of(record, 0);
        event.reads = reads;
        event.read_count = list_reads(record, &source->consumers[id], &names, reads, position);
        event.value = value;
        event.is_yield = is_yield;
        event.is_return = true;
        tell(source, id, source->consumers[id].consumer.leave, &event);
    }
    free_names(&names);
}
