/* room.c -- takes and gives back the room of an event; see emit.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/emit.h"

#include <string.h>

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
