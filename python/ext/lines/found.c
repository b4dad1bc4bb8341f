/* found.c -- the list of what a statement changed, while it is being looked for.
 *
 * Mostly one entry.  The first ones are on the stack of who looks; an optimizer's step
 * may change hundreds of names, and all must be told of, for this line and no later one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <string.h>

void found_open(found_list *list)
{
    list->all = list->few;
    list->count = 0;
    list->cap = FEW_FOUND;
}

void found_close(found_list *list)
{
    for (int i = 0; i < list->count; i++)
        Py_XDECREF(list->all[i].item);
    if (list->all != list->few)
        PyMem_Free(list->all);
}

found_change *found_add(found_list *list, const line_place *place, line_how how, const line_write *write)
{
    if (list->count == list->cap) {
        bool is_here = list->all == list->few;
        size_t size = (size_t)list->cap * sizeof *list->all;
        found_change *more = PyMem_Realloc(is_here ? NULL : list->all, 4 * size);
        if (more == NULL)
            return NULL;
        if (is_here)
            memcpy(more, list->few, size);
        list->all = more;
        list->cap *= 4;
    }
    found_change *added = &list->all[list->count++];
    *added = (found_change){ .place = *place, .how = how, .write = write };
    return added;
}

bool found_has(const found_list *list, const line_place *place)
{
    for (int i = 0; i < list->count; i++) {
        const line_place *other = &list->all[i].place;
        if (place->slot >= 0
                ? other->slot == place->slot
                : other->slot < 0 && other->owner == place->owner && other->member == place->member)
            return true;
    }
    return false;
}
