/* arrows.c -- which of a statement's reads are in what it changed.
 *
 * The table of the code says what flows into each name that is stored; what it cannot
 * say (which item a loop took) is told by the tensors themselves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/emit.h"

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
static void add_arrow(lines_room *room, size_t first, int position)
{
    if (position < 0)
        return;
    for (size_t k = first; k < room->arrow_count; k++)
        if (room->arrows[k] == position)
            return;
    (void)lines_room_add_arrow(room, position); /* no memory: one is missing */
}

/* Is what was read in what the write got?  NULL: all is. */
static bool is_own(const lines_table *table, const lines_write *write, int read)
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
static bool list_item_arrows(const lines_record *record, const lines_found_change *found,
                             lines_room *room)
{
    const lines_table *table = record->code->table;
    size_t first = room->arrow_count;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < room->name_count; k++) {
            const lines_saved_read *read = &record->reads[k];
            bool is_inside = read->item != NULL && read->owner == found->place.owner;
            int own = read->item != NULL ? read->parent : k;
            if (!is_inside && is_own(table, found->write, own) &&
                (pass == 1 || read->state.object == found->place.object))
                add_arrow(room, first, room->position[k]);
        }
        if (room->arrow_count > first)
            return pass == 0;
    }
    return false;
}

/* Reads of the write's own, or of the statement; all, or those of the very tensor. */
static void list_own_arrows(const lines_record *record, const lines_found_change *found, bool is_same,
                            lines_room *room)
{
    const lines_table *table = record->code->table;
    const lines_write *write = found->write;
    const uint16_t *own = write != NULL ? table->write_reads + write->reads : NULL;
    int count = write != NULL ? write->read_count : room->name_count;
    size_t first = room->arrow_count;
    for (int i = 0; i < count; i++) {
        int at = own != NULL ? own[i] : i;
        if (at < room->name_count && (!is_same || record->reads[at].object == found->place.object))
            add_arrow(room, first, room->position[at]);
        for (int k = 0; own != NULL && k < room->name_count; k++) { /* the container's tensors */
            const lines_saved_read *read = &record->reads[k];
            if (read->item != NULL && read->parent == at && !is_base(table, read->path, write->path) &&
                (!is_same || read->object == found->place.object))
                add_arrow(room, first, room->position[k]);
        }
    }
}

/* The state of a name before it was changed in place by nobody who named it. */
static void add_old_state(const lines_record *record, const lines_found_change *found, PyObject *name,
                          lines_room *room, size_t first)
{
    size_t at = 0;
    while (at < room->read_count && room->reads[at].key != found->old.key)
        at++;
    if (at == room->read_count) /* there is room for one of each change */
        room->reads[room->read_count++] =
            lines_name_of(record, found->place.path, name, NULL, &found->old);
    add_arrow(room, first, (int)at);
}

void lines_list_arrows(const lines_record *record, const lines_found_change *found, PyObject *name,
                       lines_room *room)
{
    lines_change *to = &room->changes[room->change_count - 1];
    size_t first = room->arrow_count;
    if (found->item != NULL) {
        if (list_item_arrows(record, found, room)) {
            to->calls = record->code->table->write_calls; /* and from no call */
            to->call_count = to->direct_count = 0;
        }
    } else {
        /* What was taken out of something as it is comes from itself, if it has a name there. */
        if (found->write != NULL && found->write->flags & WRITE_PART)
            list_own_arrows(record, found, true, room);
        if (room->arrow_count == first)
            list_own_arrows(record, found, false, room);
        if (found->write == NULL && found->how == LINES_INPLACE && found->old.key != 0)
            add_old_state(record, found, name, room, first);
    }
    to->read_count = room->arrow_count - first;
}
