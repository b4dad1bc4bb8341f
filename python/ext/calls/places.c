/* places.c -- what a consumer knows of the tensors that one module returns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/places.h"

#include "base/array.h"

void *calls_places_find(const calls_places *known, uint64_t hash, size_t likely)
{
    if (likely < known->count && known->all[likely]->hash == hash)
        return known->all[likely];
    for (size_t i = 0; i < known->count; i++)
        if (known->all[i]->hash == hash)
            return known->all[i];
    return NULL;
}

bool calls_places_add(calls_places *known, calls_place *place)
{
    if (!base_array_grow(&known->all, &known->cap, known->count + 1, sizeof(calls_place *)))
        return false;
    known->all[known->count++] = place;
    return true;
}

void calls_places_clear(calls_places *known, void (*free_one)(calls_place *place))
{
    calls_places old = *known;
    *known = (calls_places){ 0 }; /* freeing may run any code */
    for (size_t i = 0; i < old.count; i++) {
        if (free_one != NULL)
            free_one(old.all[i]);
        PyMem_Free(old.all[i]);
    }
    PyMem_Free(old.all);
}
