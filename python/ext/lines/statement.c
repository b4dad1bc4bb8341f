/* statement.c -- what happened between two events of a frame.
 *
 * A line event comes before the line runs, so each event first reports what the
 * statement that ran has changed (which of its names, and of the tensors seen so far, are
 * not what they were), then prepares for the one that will run.  The common
 * case, a line of plain Python, looks at the names it stores and no further.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "lines/engine.h"

/* ---- before a statement runs ---------------------------------------------------- */

/* Can these operators run Python code, or change an operand? */
static bool has_risky_operand(lines_source *source, lines_record *record,
                              const lines_statement *statement)
{
    const lines_table *table = record->code->table;
    const int *paths = table->reads + statement->reads;
    for (int i = 0; i < statement->read_count; i++) {
        const lines_path *path = &table->paths[paths[i]];
        lines_target target;
        if (path->kind == PATH_LOCAL &&
            lines_path_is_plain(base_frame_slot(record->at, path->base, path->detail)))
            continue;
        while (path->kind >= PATH_ATTRIBUTE)
            path = &table->paths[path->base];
        lines_path_find(source, record, (int)(path - table->paths), false, &target);
        if (lines_path_is_plain(target.object))
            continue;
        if (statement->flags & STATEMENT_AUGMENTS)
            return true;
        if (!tensor_kind_has_elements(target.kind) && !PyList_CheckExact(target.object) &&
            !PyTuple_CheckExact(target.object) && !PyDict_CheckExact(target.object))
            return true;
    }
    return false;
}

/* Digests what a name holds, if only that tells whether it changes. */
static void digest_if_needed(lines_source *source, lines_state *state, PyObject *obj, bool is_hidden)
{
    if (!state->seen.has_digest && obj != NULL && obj == state->seen.object &&
        tensor_fingerprint_needs_digest(&state->seen, is_hidden))
        lines_state_digest(source, state, obj);
}

static void digest_all(lines_source *source, lines_record *record, bool is_hidden)
{
    const lines_table *table = record->code->table;
    for (int i = 0; i < record->slot_count; i++) {
        int path = table->slot_path[i];
        if (path < 0 || record->slots[i].seen.kind == KIND_NONE ||
            !lines_path_is_wanted(record->code, path))
            continue;
        digest_if_needed(source, &record->slots[i],
                         base_frame_slot(record->at, i, table->paths[path].detail), is_hidden);
    }
    for (int i = 0; i < record->far_count; i++) {
        lines_target target;
        lines_path_find(source, record, record->far[i], false, &target);
        lines_state *state =
            tensor_kind_has_elements(target.kind) ? lines_target_state(source, record, &target) : NULL;
        if (state != NULL)
            digest_if_needed(source, state, target.object, is_hidden);
    }
}

/* Do versions tell too little of what the statement does? */
static bool versions_are_unreliable(const lines_record *record, const lines_statement *statement)
{
    return record->code->table->is_hidden || statement->flags & STATEMENT_DIGESTS;
}

static void begin(lines_source *source, lines_record *record, int number)
{
    const lines_code *code = record->code;
    const lines_statement *statement = &code->table->statements[number];
    const uint32_t busy = STATEMENT_CALLS | STATEMENT_OPERATES | STATEMENT_AUGMENTS;
    uint32_t mask = source->masks[LINES_BEFORE] & record->mask;
    bool is_touched = code->names.is_narrow && code->names.touched[number] != 0;
    bool is_live = !code->names.is_narrow || lines_names_are_live(record);
    bool compares = statement->flags & busy && is_live;
    record->statement = number;
    record->run++;
    if (compares && !(statement->flags & STATEMENT_CALLS))
        compares = has_risky_operand(source, record, statement);
    record->compares = compares;
    record->has_reads = false;
    record->box_count = 0;
    if (!compares &&
        !(statement->flags & (STATEMENT_IS_SELFISH | STATEMENT_RETURNS | STATEMENT_IS_FOLLOWED)))
        mask = 0;
    if (mask || is_touched || (compares && statement->flags & STATEMENT_AUGMENTS) ||
        (statement->flags & STATEMENT_IS_FAR && (compares || !code->names.is_narrow)))
        lines_reads_save(source, record, statement, false);
    if (compares || (statement->flags & STATEMENT_IS_FOLLOWED && is_live))
        digest_all(source, record, versions_are_unreliable(record, statement));
    if (mask)
        lines_emit_reads(source, record, statement, mask);
}

void lines_statement_resume(lines_source *source, lines_record *record)
{
    if (record->is_bare)
        return;
    const lines_statement *statement = lines_statement_of(record, base_frame_instruction(record->at));
    if (record->statement < 0 && statement != NULL)
        begin(source, record, (int)(statement - record->code->table->statements));
    if (source->masks[LINES_SENT] & record->mask)
        lines_emit_sent(source, record);
}

/* ---- after it ran --------------------------------------------------------------- */

typedef struct change_search {
    const lines_statement *statement;
    bool is_hidden;
    bool is_doubtful;            /* perhaps it did not run, or not to its end */
    const lines_statement *last; /* of those that ran since the last event */
    lines_found_list found;
} change_search;

/* A list or dict that is stored by name. */
static void look_into(lines_source *source, lines_record *record, change_search *work,
                      const lines_write *write, PyObject *box)
{
    if (!work->is_doubtful && !(write->flags & (WRITE_SAME | WRITE_IN_PLACE)))
        lines_items_stored(source, record, work->statement, write, box, &work->found);
}

static void look_at_write(lines_source *source, lines_record *record, change_search *work,
                          const lines_write *write)
{
    lines_target target;
    lines_path_find(source, record, write->path, true, &target);
    if (!lines_path_is_wanted(record->code, target.path))
        return;
    if (target.kind == KIND_NONE) {
        if (target.slot >= 0) {
            record->slots[target.slot].seen.kind = KIND_NONE;
            record->slots[target.slot].seen.object = NULL;
        }
        if (target.object != NULL && target.path == write->path)
            look_into(source, record, work, write, target.object);
        return;
    }
    if (lines_found_has(&work->found, &target))
        return;
    lines_state *state = lines_target_state(source, record, &target);
    if (state == NULL)
        return;
    bool is_part = target.path != write->path || write->flags & WRITE_IN_PLACE;
    bool is_other = state->seen.object != target.object;
    if (is_part || work->is_doubtful) {
        if (is_other && is_part)
            return; /* seen for the first time: not known */
        if (is_other || (tensor_kind_has_elements(target.kind) &&
                         lines_state_differs(source, state, target.object, work->is_hidden)))
            (void)lines_found_add(&work->found, &target,
                                  is_other ? (state->seen.kind == KIND_NONE ? LINES_BOUND : LINES_REBOUND)
                                           : LINES_INPLACE,
                                  write);
        return;
    }
    if (write->flags & WRITE_SAME)
        return;
    lines_how how = state->seen.kind == KIND_NONE ? LINES_BOUND : LINES_REBOUND;
    if (!is_other && how == LINES_REBOUND && tensor_kind_has_elements(target.kind) &&
        lines_state_differs(source, state, target.object, work->is_hidden))
        how = LINES_INPLACE;
    (void)lines_found_add(&work->found, &target, how, write);
}

/* Is it the business of a later statement of the same line? */
static bool is_written_later(const lines_table *table, const change_search *work, int path)
{
    for (const lines_statement *one = work->statement + 1; one <= work->last; one++)
        for (int i = 0; i < one->write_count; i++)
            if (table->writes[one->writes + i].path == path)
                return true;
    return false;
}

/* Adds a change of what a name holds that the statement does not write. */
static void compare(lines_source *source, change_search *work, const lines_target *target,
                    const lines_state *state)
{
    if (state->seen.object != target->object) /* of a local: a cell that another function stored to */
        (void)lines_found_add(&work->found, target, LINES_REBOUND, NULL);
    else if (tensor_kind_has_elements(target->kind)
                 ? lines_state_differs(source, state, target->object, work->is_hidden)
                 : !lines_path_is_plain(target->object))
        (void)lines_found_add(&work->found, target,
                              tensor_kind_has_elements(target->kind) ? LINES_INPLACE : LINES_TOUCHED,
                              NULL);
}

/* May it have changed although no write names it? */
static bool is_compared(const lines_record *record, const change_search *work, const lines_target *target,
                        tensor_kind kind, int path)
{
    bool is_object = kind == KIND_OBJECT && record->code->names.has_touches;
    return (tensor_kind_has_elements(kind) || is_object) && !lines_found_has(&work->found, target) &&
           !is_written_later(record->code->table, work, path);
}

static void look_at_slot(lines_source *source, lines_record *record, change_search *work, int slot)
{
    lines_state *state = &record->slots[slot];
    const lines_table *table = record->code->table;
    lines_target target = { .slot = slot,
                            .path = table->slot_path[slot],
                            .kind = (tensor_kind)state->seen.kind };
    if (!is_compared(record, work, &target, target.kind, target.path))
        return;
    target.object = base_frame_slot(record->at, slot, table->paths[target.path].detail);
    if (target.object != state->seen.object)
        target.kind = target.object != NULL ? lines_state_kind(source, target.object) : KIND_NONE;
    if (target.kind == KIND_NONE)
        state->seen.kind = KIND_NONE;
    else
        compare(source, work, &target, state);
}

static void look_at_slots(lines_source *source, lines_record *record, change_search *work)
{
    const lines_code *code = record->code;
    if (code->names.is_narrow) {
        for (int i = 0; i < code->names.slot_count; i++)
            look_at_slot(source, record, work, code->names.slots[i]);
        return;
    }
    for (int i = 0; i < record->slot_count; i++)
        if (record->slots[i].seen.kind != KIND_NONE)
            look_at_slot(source, record, work, i);
}

static void look_at_far(lines_source *source, lines_record *record, change_search *work)
{
    for (int i = 0; i < record->far_count; i++) {
        lines_target target;
        int path = record->far[i];
        lines_path_find(source, record, path, false, &target);
        lines_state *state = is_compared(record, work, &target, target.kind, path)
                                 ? lines_target_state(source, record, &target)
                                 : NULL;
        if (state == NULL)
            continue;
        if (target.path == path && record->far_owner[path] == target.owner &&
            state->seen.kind != KIND_NONE) {
            compare(source, work, &target, state);
        } else if (target.slot < 0) { /* another thing by the same name: not a change */
            record->far_owner[path] = target.owner;
            if (state->seen.object != target.object)
                lines_state_adopt(source, state, target.object, target.kind);
        }
    }
}

/* Was the very tensor that is there assigned again (`x = identity(x)`)?  Its state stays. */
static bool is_same(lines_source *source, const lines_found_change *change, bool is_hidden)
{
    return change->how == LINES_REBOUND && tensor_kind_has_elements(change->target.kind) &&
           tensor_kind_has_elements((tensor_kind)change->old.seen.kind) &&
           change->old.seen.object == change->target.object &&
           !lines_state_differs(source, &change->old, change->target.object, is_hidden);
}

static void report_changes(lines_source *source, lines_record *record, const lines_statement *statement,
                           const lines_statement *last, bool is_doubtful, bool compares)
{
    const lines_table *table = record->code->table;
    const lines_write *writes = table->writes + statement->writes;
    change_search work = { .statement = statement,
                           .is_hidden = versions_are_unreliable(record, statement),
                           .is_doubtful = is_doubtful,
                           .last = last };
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
    for (size_t i = 0; i < work.found.count; i++) {
        lines_found_change *change = &work.found.all[i];
        lines_state *state = lines_target_state(source, record, &change->target);
        if (state == NULL)
            continue;
        change->old = *state;
        if (change->how != LINES_TOUCHED && !is_same(source, change, work.is_hidden))
            lines_state_update(source, state, change->target.object, change->target.kind, work.is_hidden);
        change->now = *state;
        change->now.seen.is_sampled |= change->old.seen.is_sampled;
        if (change->item == NULL)
            lines_reads_show(record, &change->target);
    }
    lines_emit_changes(source, record, statement, work.found.all, (int)work.found.count);
    for (size_t i = 0; i < work.found.count; i++)
        Py_XDECREF(work.found.all[i].item);
    PyMem_Free(work.found.all);
}

/* A statement that may have changed nothing but locals, and these hold no
 * tensor now and held none before: plain Python. */
static bool is_plain(lines_source *source, lines_record *record, const lines_statement *statement)
{
    const lines_table *table = record->code->table;
    const lines_write *writes = table->writes + statement->writes;
    if (record->code->names.is_narrow && !record->compares) {
        bool stores = record->code->names.touched[record->statement] & STORES_NAMED;
        if (!stores && !(statement->flags & STATEMENT_IS_FOLLOWED && lines_names_are_live(record)))
            return true;
    }
    if (record->compares || statement->followers > 0)
        return false;
    for (int i = 0; i < statement->write_count; i++) {
        const lines_path *path = &table->paths[writes[i].path];
        if (path->kind != PATH_LOCAL || record->slots[path->base].seen.kind != KIND_NONE)
            return false;
        PyObject *obj = base_frame_slot(record->at, path->base, path->detail);
        if (obj == NULL)
            continue;
        if (lines_state_kind(source, obj) != KIND_NONE ||
            (lines_is_container(obj) && lines_items_are_tensors(source, obj)))
            return false;
    }
    return true;
}

/* Reports the changes of the statement and of those after it on the line that had no event of
 * their own.  next: the instruction that the frame goes on with, or the last
 * one it ran if it is left. */
static void finish(lines_source *source, lines_record *record, int next, bool is_interrupted,
                   bool is_left)
{
    const lines_table *table = record->code->table;
    const lines_statement *first = &table->statements[record->statement];
    if (is_plain(source, record, first)) {
        record->statement = -1;
        return;
    }
    PyObject *guard = lines_state_begin(source);
    for (int i = 0; i <= first->followers; i++) {
        const lines_statement *one = first + i;
        if (i > 0 && is_left && one->start > next)
            break;
        if (one->flags & STATEMENT_LOOPS && (next < one->start || next >= one->exit))
            break; /* there was no further item */
        bool compares =
            i == 0 ? record->compares
                   : (one->flags & (STATEMENT_CALLS | STATEMENT_OPERATES | STATEMENT_AUGMENTS)) != 0;
        report_changes(source, record, one, first + first->followers,
                       is_interrupted || one->flags & STATEMENT_IS_MAYBE, compares);
        record->has_reads = false;
    }
    tensor_quiet_leave(guard);
    record->statement = -1;
}

bool lines_statement_quick(lines_source *source, lines_record *record, int instruction)
{
    const lines_table *table = record->code->table;
    const uint32_t slow =
        STATEMENT_CALLS | STATEMENT_IS_FAR | STATEMENT_IS_FOLLOWED | STATEMENT_STEPS | STATEMENT_LEADS;
    if (record->is_bare || instruction < 0 || instruction >= table->instruction_count ||
        record->statement < 0 || source->masks[LINES_LINE] & record->mask)
        return false;
    int number = table->statement_at[instruction];
    if (number < 0 || (record->code->names.is_narrow && record->code->names.touched[number] != 0))
        return false;
    const lines_statement *next = &table->statements[number];
    const lines_statement *last = &table->statements[record->statement];
    if (next->flags & slow || last->flags & STATEMENT_LEADS || next->start != instruction ||
        !is_plain(source, record, last))
        return false;
    uint32_t looks = STATEMENT_OPERATES | STATEMENT_AUGMENTS;
    if (source->masks[LINES_BEFORE] & record->mask)
        looks |= STATEMENT_IS_SELFISH; /* a, b = b, a */
    if (next->flags & looks && !lines_statement_is_plain(record, next))
        return false;
    record->statement = number;
    record->compares = false;
    record->has_reads = false;
    return true;
}

static void next_statement(lines_source *source, lines_record *record, const lines_statement *statement,
                           int instruction)
{
    int number = (int)(statement - record->code->table->statements);
    if (number == record->statement && instruction != statement->start)
        return; /* a later line of the statement that runs */
    if (record->statement >= 0)
        finish(source, record, instruction, statement->flags & STATEMENT_HANDLES, false);
    begin(source, record, number);
}

void lines_statement_step(lines_source *source, lines_record *record, int instruction)
{
    bool had_line_event = record->line_event == instruction;
    record->line_event = -1;
    if (!had_line_event && lines_statement_steps(record, instruction))
        next_statement(source, record, lines_statement_of(record, instruction), instruction);
}

void lines_statement_at(lines_source *source, lines_record *record, int instruction)
{
    const lines_statement *statement = lines_statement_of(record, instruction);
    if (!record->is_bare && statement == NULL)
        return;
    if (!record->is_bare)
        next_statement(source, record, statement, instruction);
    if (record->is_bare || source->masks[LINES_LINE] & record->mask)
        lines_emit_line(source, record, instruction);
}

void lines_statement_end(lines_source *source, lines_record *record, int instruction, PyObject *value,
                         bool is_yield)
{
    const lines_statement *statement =
        value != NULL && !record->is_bare ? lines_statement_of(record, instruction) : NULL;
    if (record->statement >= 0 && !is_yield)
        finish(source, record, instruction, value == NULL, true);
    if (!record->is_bare && !(source->masks[LINES_LEAVE] & record->mask))
        return;
    if (statement != NULL)
        lines_reads_save(source, record, statement, true);
    lines_emit_leave(source, record, statement, value, is_yield);
}

void lines_statement_adopt(lines_source *source, lines_record *record, const uint32_t *before)
{
    const lines_table *table = record->code->table;
    PyObject *guard = NULL;
    bool is_looking = false;
    for (int i = 0; i < record->slot_count; i++) { /* none in a bare one */
        int path = table->slot_path[i];
        if (path < 0 || !lines_path_is_wanted(record->code, path) ||
            (before != NULL && before[path] != 0))
            continue;
        PyObject *obj = base_frame_slot(record->at, i, table->paths[path].detail);
        tensor_kind kind = obj != NULL ? lines_state_kind(source, obj) : KIND_NONE;
        const tensor_fingerprint *seen = &record->slots[i].seen;
        if (kind == seen->kind && (kind == KIND_NONE || obj == seen->object))
            continue;
        if (!is_looking)
            guard = lines_state_begin(source);
        is_looking = true;
        lines_state_adopt(source, &record->slots[i], obj, kind);
    }
    tensor_quiet_leave(guard);
}

/* ---- what a statement changed --------------------------------------------------- */

lines_found_change *lines_found_add(lines_found_list *list, const lines_target *target, lines_how how,
                                    const lines_write *write)
{
    if (!base_array_grow(&list->all, &list->cap, list->count + 1, sizeof *list->all))
        return NULL;
    list->all[list->count] = (lines_found_change){ .target = *target, .how = how, .write = write };
    return &list->all[list->count++];
}

bool lines_found_has(const lines_found_list *list, const lines_target *target)
{
    for (size_t i = 0; i < list->count; i++) {
        const lines_target *other = &list->all[i].target;
        if (target->slot >= 0
                ? other->slot == target->slot
                : other->slot < 0 && other->owner == target->owner && other->member == target->member)
            return true;
    }
    return false;
}
