/* statement.c -- what happened between two events of a frame.
 *
 * A line event comes before the line runs, so each event first settles the
 * statement that ran (which of its names, and of the tensors seen so far, are
 * not what they were), then prepares for the one that will run.  The common
 * case, a line of plain Python, looks at the names it stores and no further.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <string.h>

typedef struct settling {
    const lines_statement *statement;
    bool is_hidden;
    bool is_doubtful;            /* perhaps it did not run, or not to its end */
    const lines_statement *last; /* of those that ran since the last event */
    lines_found_list found;
} settling;

/* A list or dict that is stored by name. */
static void look_into(lines_source *source, lines_record *record, settling *work,
                      const lines_write *write, PyObject *box)
{
    if (!work->is_doubtful && !(write->flags & (WRITE_SAME | WRITE_IN_PLACE)))
        lines_items_stored(source, record, work->statement, write, box, &work->found);
}

static void look_at_write(lines_source *source, lines_record *record, settling *work,
                          const lines_write *write)
{
    const lines_path *path = &record->code->table->paths[write->path];
    lines_place place;
    if (path->kind == PATH_LOCAL && !lines_path_is_wanted(record->code, write->path))
        return;
    if (path->kind == PATH_LOCAL) { /* the quick way out for plain Python */
        PyObject *obj = lines_record_slot(record, path->base, path->detail);
        lines_state *state = &record->slots[path->base];
        if (obj == NULL || lines_state_kind(source, obj) == KIND_NONE) {
            state->kind = KIND_NONE;
            state->object = NULL;
            if (obj != NULL)
                look_into(source, record, work, write, obj);
            return;
        }
    }
    lines_path_find(source, record, write->path, true, &place);
    if (place.kind == KIND_NONE && place.object != NULL && place.path == write->path)
        look_into(source, record, work, write, place.object);
    if (place.kind == KIND_NONE || lines_found_has(&work->found, &place) ||
        !lines_path_is_wanted(record->code, place.path))
        return;
    lines_state *state = lines_place_state(source, record, &place);
    if (state == NULL)
        return;
    bool is_part = place.path != write->path || write->flags & WRITE_IN_PLACE;
    bool is_other = state->object != place.object;
    if (is_part || work->is_doubtful) {
        if (is_other && is_part)
            return; /* seen for the first time: nobody knows */
        if (is_other || (lines_is_tensor(place.kind) &&
                         lines_state_differs(source, state, place.object, work->is_hidden)))
            (void)lines_found_add(&work->found, &place,
                                  is_other ? (state->kind == KIND_NONE ? LINES_BOUND : LINES_REBOUND)
                                           : LINES_INPLACE,
                                  write);
        return;
    }
    if (write->flags & WRITE_SAME)
        return;
    lines_how how = state->kind == KIND_NONE ? LINES_BOUND : LINES_REBOUND;
    if (!is_other && how == LINES_REBOUND && lines_is_tensor(place.kind) &&
        lines_state_differs(source, state, place.object, work->is_hidden))
        how = LINES_INPLACE;
    (void)lines_found_add(&work->found, &place, how, write);
}

/* Is it the business of a later statement of the same line? */
static bool is_written_later(const lines_table *table, const settling *work, int path)
{
    for (const lines_statement *one = work->statement + 1; one <= work->last; one++)
        for (int i = 0; i < one->write_count; i++)
            if (table->writes[one->writes + (uint32_t)i].path == path)
                return true;
    return false;
}

static void look_at_slot(lines_source *source, lines_record *record, settling *work, int slot)
{
    const lines_table *table = record->code->table;
    lines_state *state = &record->slots[slot];
    lines_place place = { .slot = slot, .path = table->slot_path[slot] };
    lines_object_kind kind = (lines_object_kind)state->kind;
    bool is_object = kind == KIND_OBJECT && record->code->has_touches;
    if ((!lines_is_tensor(kind) && !is_object) || lines_found_has(&work->found, &place) ||
        is_written_later(table, work, place.path))
        return;
    place.object = lines_record_slot(record, slot, table->paths[place.path].detail);
    if (place.object == NULL) {
        state->kind = KIND_NONE;
    } else if (place.object != state->object) { /* a cell that another function stored to */
        place.kind = lines_state_kind(source, place.object);
        if (place.kind == KIND_NONE)
            state->kind = KIND_NONE;
        else
            (void)lines_found_add(&work->found, &place, LINES_REBOUND, NULL);
    } else if (is_object) {
        place.kind = kind;
        if (!lines_path_is_plain(place.object))
            (void)lines_found_add(&work->found, &place, LINES_TOUCHED, NULL);
    } else if (lines_state_differs(source, state, place.object, work->is_hidden)) {
        place.kind = kind;
        (void)lines_found_add(&work->found, &place, LINES_INPLACE, NULL);
    }
}

static void look_at_slots(lines_source *source, lines_record *record, settling *work)
{
    const lines_code *code = record->code;
    if (code->is_narrow) {
        for (int i = 0; i < code->named_slot_count; i++)
            look_at_slot(source, record, work, code->named_slots[i]);
        return;
    }
    for (int i = 0; i < record->slot_count; i++)
        if (record->slots[i].kind != KIND_NONE)
            look_at_slot(source, record, work, i);
}

static void look_at_far(lines_source *source, lines_record *record, settling *work)
{
    for (int i = 0; i < record->far_count; i++) {
        lines_place place;
        int path = record->far[i];
        lines_path_find(source, record, path, false, &place);
        bool is_object = place.kind == KIND_OBJECT && record->code->has_touches;
        if ((!lines_is_tensor(place.kind) && !is_object) || lines_found_has(&work->found, &place) ||
            is_written_later(record->code->table, work, path))
            continue;
        lines_state *state = lines_place_state(source, record, &place);
        if (state == NULL)
            continue;
        if (place.path != path || record->far_owner[path] != place.owner || state->kind == KIND_NONE) {
            if (place.slot < 0) { /* another thing by the same name: not a change */
                record->far_owner[path] = place.owner;
                if (state->object != place.object)
                    lines_state_adopt(source, state, place.object, place.kind);
            }
        } else if (state->object != place.object) {
            (void)lines_found_add(&work->found, &place, LINES_REBOUND, NULL);
        } else if (is_object) {
            if (!lines_path_is_plain(place.object))
                (void)lines_found_add(&work->found, &place, LINES_TOUCHED, NULL);
        } else if (lines_state_differs(source, state, place.object, work->is_hidden)) {
            (void)lines_found_add(&work->found, &place, LINES_INPLACE, NULL);
        }
    }
}

/* Was the very tensor that is there assigned again (`x = identity(x)`)?  Its state stays. */
static bool is_same(lines_source *source, const lines_found_change *change, bool is_hidden)
{
    return change->how == LINES_REBOUND && lines_is_tensor(change->place.kind) &&
           lines_is_tensor((lines_object_kind)change->old.kind) &&
           change->old.object == change->place.object &&
           !lines_state_differs(source, &change->old, change->place.object, is_hidden);
}

static void settle(lines_source *source, lines_record *record, const lines_statement *statement,
                   const lines_statement *last, bool is_doubtful, bool compares)
{
    const lines_table *table = record->code->table;
    const lines_write *writes = table->writes + statement->writes;
    settling work;
    work.statement = statement;
    work.is_hidden = lines_statement_hides(record, statement);
    work.is_doubtful = is_doubtful;
    work.last = last;
    lines_found_open(&work.found);
    for (int i = 0; i < statement->write_count; i++)
        look_at_write(source, record, &work, &writes[i]);
    if (compares) {
        look_at_slots(source, record, &work);
        if (record->far_count > 0)
            look_at_far(source, record, &work);
        lines_items_grown(source, record, &work.found);
    }
    if (work.found.count == 0)
        return;
    if (!record->has_reads)
        lines_reads_save(source, record, statement, true);
    for (int i = 0; i < work.found.count; i++) {
        lines_found_change *change = &work.found.all[i];
        lines_state *state = lines_place_state(source, record, &change->place);
        if (state == NULL)
            continue;
        change->old = *state;
        if (change->how != LINES_TOUCHED && !is_same(source, change, work.is_hidden))
            lines_state_update(source, state, change->place.object, change->place.kind, work.is_hidden);
        change->now = *state;
        change->now.is_sampled |= change->old.is_sampled;
        if (change->item == NULL)
            lines_reads_show(record, &change->place);
    }
    lines_emit_changes(source, record, statement, work.found.all, work.found.count);
    lines_found_close(&work.found);
}

/* A statement that may have changed nothing but locals, and these hold no
 * tensor now and held none before: plain Python. */
static bool is_plain(lines_source *source, lines_record *record, const lines_statement *statement)
{
    const lines_table *table = record->code->table;
    const lines_write *writes = table->writes + statement->writes;
    if (record->code->is_narrow && !record->compares) {
        bool stores = record->code->touched[record->statement] & STORES_NAMED;
        if (!stores && !(statement->flags & STATEMENT_IS_FOLLOWED && lines_names_are_live(record)))
            return true;
    }
    if (record->compares || statement->followers > 0)
        return false;
    for (int i = 0; i < statement->write_count; i++) {
        const lines_path *path = &table->paths[writes[i].path];
        if (path->kind != PATH_LOCAL || record->slots[path->base].kind != KIND_NONE)
            return false;
        PyObject *obj = lines_record_slot(record, path->base, path->detail);
        if (obj == NULL)
            continue;
        if (lines_state_kind(source, obj) != KIND_NONE ||
            (lines_is_container(obj) && lines_items_are_tensors(source, obj)))
            return false;
    }
    return true;
}

/* Settles the statement and those after it on the line that had no event of
 * their own.  next: the instruction that the frame goes on with, or the last
 * one it ran if it is left. */
static void finish(lines_source *source, lines_record *record, int next, bool is_interrupted,
                   bool is_left)
{
    const lines_table *table = record->code->table;
    const lines_statement *first = &table->statements[record->statement];
    PyObject *guard = NULL;
    if (is_plain(source, record, first)) {
        record->statement = -1;
        return;
    }
    lines_state_begin(source, &guard);
    for (int i = 0; i <= first->followers; i++) {
        const lines_statement *one = first + i;
        if (i > 0 && is_left && one->start > next)
            break;
        if (one->flags & STATEMENT_LOOPS && (next < one->start || next >= one->exit))
            break; /* there was no further item */
        bool compares =
            i == 0 ? record->compares
                   : (one->flags & (STATEMENT_CALLS | STATEMENT_OPERATES | STATEMENT_AUGMENTS)) != 0;
        settle(source, record, one, first + first->followers,
               is_interrupted || one->flags & STATEMENT_IS_MAYBE, compares);
        record->has_reads = false;
    }
    tensor_quiet_leave(guard);
    record->statement = -1;
}

static inline bool is_number(const PyObject *obj)
{
    return obj == NULL || Py_IS_TYPE(obj, &PyLong_Type) || Py_IS_TYPE(obj, &PyFloat_Type) ||
           Py_IS_TYPE(obj, &PyBool_Type);
}

/* The case of the cases: `last` stored a number where there was none but numbers, `next`
 * reads numbers.  False says nothing. */
static inline bool is_small_step(const lines_source *source, const lines_record *record,
                                 const lines_statement *last, const lines_statement *next)
{
    PyObject *const *locals = record->locals;
    int stored = last->small_slots[0], one = next->small_slots[1], two = next->small_slots[2];
    if (!(last->flags & next->flags & STATEMENT_IS_SMALL) || locals == NULL || record->compares ||
        source->wants & LINES_OBJECTS)
        return false;
    return (stored < 0 || (record->slots[stored].kind == KIND_NONE && is_number(locals[stored]))) &&
           (one < 0 || is_number(locals[one])) && (two < 0 || is_number(locals[two]));
}

bool lines_statement_quick(lines_source *source, lines_record *record, int instruction)
{
    const lines_table *table = record->code->table;
    const uint32_t slow =
        STATEMENT_CALLS | STATEMENT_IS_FAR | STATEMENT_IS_FOLLOWED | STATEMENT_STEPS | STATEMENT_LEADS;
    if (record->is_bare || instruction < 0 || instruction >= table->instruction_count ||
        record->statement < 0 || source->eager_mask & record->mask)
        return false;
    if (record->code->is_narrow)
        return lines_names_quick(record, instruction);
    int number = table->statement_at[instruction];
    if (number == TABLE_NONE)
        return false;
    const lines_statement *next = &table->statements[number];
    const lines_statement *last = &table->statements[record->statement];
    if (next->start == instruction && is_small_step(source, record, last, next)) {
        record->statement = number;
        record->has_reads = false;
        return true;
    }
    if (next->flags & slow || last->flags & STATEMENT_LEADS || next->start != instruction ||
        !is_plain(source, record, last))
        return false;
    uint32_t looks = STATEMENT_OPERATES | STATEMENT_AUGMENTS;
    if (source->before_mask & record->mask)
        looks |= STATEMENT_IS_SELFISH; /* a, b = b, a */
    if (next->flags & looks) {
        const uint16_t *paths = table->reads + next->reads;
        for (int i = 0; i < next->read_count; i++) {
            const lines_path *path = &table->paths[paths[i]];
            if (!lines_path_is_plain(lines_record_slot(record, path->base, path->detail)))
                return false;
        }
    }
    record->statement = number;
    record->compares = false;
    record->has_reads = false;
    return true;
}

void lines_statement_step(lines_source *source, lines_record *record, int instruction)
{
    const lines_table *table = record->code->table;
    int number = table->statement_at[instruction];
    const lines_statement *statement = &table->statements[number];
    if (number == record->statement && instruction != statement->start)
        return; /* a later line of the statement that runs */
    if (record->statement >= 0)
        finish(source, record, instruction, statement->flags & STATEMENT_HANDLES, false);
    lines_statement_begin(source, record, number);
}

void lines_statement_at(lines_source *source, lines_record *record, int instruction)
{
    const lines_table *table = record->code->table;
    if (record->is_bare) {
        lines_emit_line(source, record, instruction);
        return;
    }
    if (instruction < 0 || instruction >= table->instruction_count ||
        table->statement_at[instruction] == TABLE_NONE)
        return;
    lines_statement_step(source, record, instruction);
    if (source->line_mask & record->mask)
        lines_emit_line(source, record, instruction);
}

void lines_statement_end(lines_source *source, lines_record *record, int instruction, PyObject *value,
                         bool is_yield)
{
    const lines_table *table = record->code->table;
    const lines_statement *statement = NULL;
    if (record->is_bare) {
        lines_emit_leave(source, record, NULL, value, is_yield);
        return;
    }
    if (instruction >= 0 && instruction < table->instruction_count &&
        table->statement_at[instruction] != TABLE_NONE)
        statement = &table->statements[table->statement_at[instruction]];
    if (record->statement >= 0 && !is_yield)
        finish(source, record, instruction, value == NULL, true);
    if (source->leave_mask & record->mask) {
        if (statement != NULL && value != NULL)
            lines_reads_save(source, record, statement, true);
        lines_emit_leave(source, record, value != NULL ? statement : NULL, value, is_yield);
    }
}

void lines_statement_adopt(lines_source *source, lines_record *record, bool is_fresh)
{
    const lines_table *table = record->code->table;
    PyObject *guard = NULL;
    bool is_looking = false;
    for (int i = 0; i < record->slot_count; i++) { /* none in a bare one */
        if (table->slot_path[i] < 0 || !lines_path_is_wanted(record->code, table->slot_path[i]))
            continue;
        PyObject *obj = lines_record_slot(record, i, table->paths[table->slot_path[i]].detail);
        lines_object_kind kind = obj != NULL ? lines_state_kind(source, obj) : KIND_NONE;
        if (kind == KIND_NONE)
            continue;
        if (!is_looking)
            lines_state_begin(source, &guard);
        is_looking = true;
        lines_state_adopt(source, &record->slots[i], obj, kind);
    }
    (void)is_fresh;
    tensor_quiet_leave(guard);
}

/* ---- the list of what a statement changed, while it is being looked for ------- */

/* Mostly one entry.  The first ones are on the stack of who looks; an optimizer's step
 * may change hundreds of names, and all must be told of, for this line and no later one. */

void lines_found_open(lines_found_list *list)
{
    list->all = list->few;
    list->count = 0;
    list->cap = FEW_FOUND;
}

void lines_found_close(lines_found_list *list)
{
    for (int i = 0; i < list->count; i++)
        Py_XDECREF(list->all[i].item);
    if (list->all != list->few)
        PyMem_Free(list->all);
}

lines_found_change *lines_found_add(lines_found_list *list, const lines_place *place, lines_how how,
                                    const lines_write *write)
{
    if (list->count == list->cap) {
        bool is_here = list->all == list->few;
        size_t size = (size_t)list->cap * sizeof *list->all;
        lines_found_change *more = PyMem_Realloc(is_here ? NULL : list->all, 4 * size);
        if (more == NULL)
            return NULL;
        if (is_here)
            memcpy(more, list->few, size);
        list->all = more;
        list->cap *= 4;
    }
    lines_found_change *added = &list->all[list->count++];
    *added = (lines_found_change){ .place = *place, .how = how, .write = write };
    return added;
}

bool lines_found_has(const lines_found_list *list, const lines_place *place)
{
    for (int i = 0; i < list->count; i++) {
        const lines_place *other = &list->all[i].place;
        if (place->slot >= 0
                ? other->slot == place->slot
                : other->slot < 0 && other->owner == place->owner && other->member == place->member)
            return true;
    }
    return false;
}
