/* found.c -- the list of what a statement changed, while it is being looked for.
 *
 * Mostly one entry.  The first ones are on the stack of who looks; an optimizer's step
 * may change hundreds of names, and all must be told of, for this line and no later one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <string.h>

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
