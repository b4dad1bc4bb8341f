/* ids.c -- a list of nodes that arrows start at; see chart.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"

#include <string.h>

void flow_ids_open(flow_ids *ids)
{
    ids->id = ids->few;
    ids->count = 0;
    ids->cap = sizeof ids->few / sizeof *ids->few;
}

void flow_ids_close(flow_ids *ids)
{
    if (ids->id != ids->few)
        PyMem_Free(ids->id);
}

bool flow_ids_add(flow_ids *ids, uint64_t id)
{
    if (id == 0)
        return false;
    if (ids->count == ids->cap) {
        bool is_here = ids->id == ids->few;
        uint64_t *more = PyMem_Realloc(is_here ? NULL : ids->id, 4 * ids->cap * sizeof *more);
        if (more == NULL)
            return false;
        if (is_here)
            memcpy(more, ids->few, sizeof ids->few);
        ids->id = more;
        ids->cap *= 4;
    }
    ids->id[ids->count++] = id;
    return true;
}
