/* line_reads.c -- the names a statement reads, in the state that it sees.
 *
 * What is not local is looked up before the statement runs: afterwards it may
 * be gone.  A local's state cannot change without a store of its own frame, so
 * it may also be taken late, when there is something to tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "line_engine.h"

/* Remembers that the frame has named this place, which is no local. */
void reads_show(frame_record *record, const line_place *place)
{
    if (place->slot >= 0)
        return;
    if (record->far_owner[place->path] == NULL)
        record->far[record->far_count++] = place->path;
    record->far_owner[place->path] = place->owner;
}

static void save_read(line_source *source, frame_record *record, saved_read *to, int path, bool is_late)
{
    line_place place;
    path_find(source, record, path, false, &place);
    *to = (saved_read){ .path = -1 };
    if (place.slot >= 0 && is_late)
        place.kind = (object_kind)record->slots[place.slot].kind;
    if (place.kind == KIND_NONE)
        return;
    line_state *state = place_state(source, record, &place);
    if (state == NULL)
        return;
    if (state->kind == KIND_NONE || (!is_late && state->object != place.object))
        state_adopt(source, state, place.object, place.kind);
    if ((place.kind == KIND_TORCH || place.kind == KIND_ARRAY))
        reads_show(record, &place);
    *to = (saved_read){ .state = *state,
                        .path = place.path,
                        .object = state->object == place.object ? place.object : NULL };
}

void reads_save(line_source *source, frame_record *record, const line_statement *statement, bool is_late)
{
    const uint16_t *paths = record->code->table->reads + statement->reads;
    for (int i = 0; i < statement->read_count; i++)
        save_read(source, record, &record->reads[i], paths[i], is_late);
    record->has_reads = true;
}
