/* prepare.c -- what must be known before a statement runs.
 *
 * Whether it may change more than it stores, what it reads that may be gone
 * afterwards, and what is in the tensors whose version will not tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

/* Can these operators run somebody's code, or change an operand? */
static bool has_risky_operand(lines_source *source, lines_record *record,
                              const lines_statement *statement)
{
    const lines_table *table = record->code->table;
    const uint16_t *paths = table->reads + statement->reads;
    for (int i = 0; i < statement->read_count; i++) {
        const lines_path *path = &table->paths[paths[i]];
        lines_place place;
        if (path->kind == PATH_LOCAL &&
            lines_path_is_plain(lines_record_slot(record, path->base, path->detail)))
            continue;
        while (path->kind >= PATH_ATTRIBUTE)
            path = &table->paths[path->base];
        lines_path_find(source, record, (int)(path - table->paths), false, &place);
        if (lines_path_is_plain(place.object))
            continue;
        if (statement->flags & STATEMENT_AUGMENTS)
            return true;
        if (!lines_is_tensor(place.kind) && !PyList_CheckExact(place.object) &&
            !PyTuple_CheckExact(place.object) && !PyDict_CheckExact(place.object))
            return true;
    }
    return false;
}

static void digest_slots(lines_source *source, lines_record *record, bool is_hidden)
{
    const lines_table *table = record->code->table;
    for (int i = 0; i < record->slot_count; i++) {
        lines_state *state = &record->slots[i];
        if (state->has_digest || table->slot_path[i] < 0 ||
            !lines_path_is_wanted(record->code, table->slot_path[i]) ||
            !lines_state_needs_digest(source, state, is_hidden))
            continue;
        PyObject *obj = lines_record_slot(record, i, table->paths[table->slot_path[i]].detail);
        if (obj != NULL && obj == state->object)
            lines_state_digest(source, state, obj);
    }
}

static void digest_far(lines_source *source, lines_record *record, bool is_hidden)
{
    for (int i = 0; i < record->far_count; i++) {
        lines_place place;
        lines_path_find(source, record, record->far[i], false, &place);
        lines_state *state =
            lines_is_tensor(place.kind) ? lines_place_state(source, record, &place) : NULL;
        if (state == NULL || state->has_digest || !lines_state_needs_digest(source, state, is_hidden))
            continue;
        if (state->object == place.object)
            lines_state_digest(source, state, place.object);
    }
}

void lines_statement_begin(lines_source *source, lines_record *record, int number)
{
    const lines_code *code = record->code;
    const lines_statement *statement = &code->table->statements[number];
    const uint32_t busy = STATEMENT_CALLS | STATEMENT_OPERATES | STATEMENT_AUGMENTS;
    uint32_t heard = source->before_mask & record->mask;
    bool is_touched = code->is_narrow && code->touched[number] != 0;
    bool is_live = !code->is_narrow || lines_names_are_live(record);
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
        heard &= ~source->lazy_mask;
    if (heard || is_touched || (compares && statement->flags & STATEMENT_AUGMENTS) ||
        (statement->flags & STATEMENT_IS_FAR && (compares || !code->is_narrow)))
        lines_reads_save(source, record, statement, false);
    if (compares || (statement->flags & STATEMENT_IS_FOLLOWED && is_live)) {
        digest_slots(source, record, lines_statement_hides(record, statement));
        digest_far(source, record, lines_statement_hides(record, statement));
    }
    if (heard)
        lines_emit_reads(source, record, statement, heard);
}

void lines_statement_resume(lines_source *source, lines_record *record)
{
    if (record->is_bare)
        return;
    const lines_table *table = record->code->table;
    int instruction = base_frame_instruction(record->at);
    if (instruction < 0 || instruction >= table->instruction_count)
        return;
    int number = table->statement_at[instruction];
    if (record->statement < 0 && number != TABLE_NONE)
        lines_statement_begin(source, record, number);
    if (source->sent_mask & record->mask)
        lines_emit_sent(source, record);
}
