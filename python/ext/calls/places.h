/* places.h -- what a consumer knows of the tensors that one module returns.
 *
 * A place is the path of a tensor in a module's output: the output itself, an item of a tuple, a value of a
 * dict.  A consumer builds a name and looks up its site or metrics once for each place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_CALLS_PLACES_H
#define TT_EXT_CALLS_PLACES_H

#include "tensor/view.h"
#include "tensor/walk.h"

/* First member of what a consumer knows of one place; memory of PyMem_. */
typedef struct calls_place {
    uint64_t hash; /* of its path; inside a compiled graph its slot */
} calls_place;

/* { 0 } at first.  Each place is an allocation of its own: another thread may add one
 * while a consumer uses another. */
typedef struct calls_places {
    calls_place **all; /* owned, as what is in it */
    size_t count, cap;
} calls_places;

/* The place with this hash, or NULL; it most likely is the one with this index. */
void *calls_places_find(const calls_places *known, uint64_t hash, size_t likely);
/* Adds a place, of which hash is set.  False: out of memory, without an exception, and it is not added. */
bool calls_places_add(calls_places *known, calls_place *place);
/* Frees all places, after free_one (or NULL) has freed what is in each. */
void calls_places_clear(calls_places *known, void (*free_one)(calls_place *place));

#endif
