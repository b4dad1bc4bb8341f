/* array.h -- arrays that grow.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_ARRAY_H
#define TT_EXT_BASE_ARRAY_H

#include "base/compat.h"

#include <string.h>

/* Makes room for `needed` items of `size` bytes.  all: the address of the pointer to the array, which
 * is memory of PyMem_ or NULL.
 * False: out of memory, without an exception, and nothing has changed. */
static inline bool base_array_grow(void *all, size_t *cap, size_t needed, size_t size)
{
    if (needed <= *cap)
        return true;
    size_t larger = *cap < 8 ? 8 : *cap + *cap / 2;
    if (larger < needed)
        larger = needed;
    void *old, *grown = NULL;
    memcpy(&old, all, sizeof old); /* a pointer to any type */
    if (larger <= (size_t)PY_SSIZE_T_MAX / size)
        grown = PyMem_Realloc(old, larger * size);
    if (grown == NULL)
        return false;
    memcpy(all, &grown, sizeof grown);
    *cap = larger;
    return true;
}

#endif
