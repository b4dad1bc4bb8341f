/* list.h -- a list that allocates nothing while it is short.
 *
 * The first entries are inside the struct, so on the stack of the function that fills it:
 *
 *     BASE_LIST(uint64_t, 32) ids;
 *     BASE_LIST_OPEN(&ids);
 *     uint64_t *all = BASE_LIST_GROW(&ids, ids.count + 1); // NULL: no memory, ids is as it was
 *     ...
 *     BASE_LIST_CLOSE(&ids);
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_LIST_H
#define TT_EXT_BASE_LIST_H

#include "base/compat.h"

#include <string.h>

#define BASE_LIST(type, few_count)         \
    struct {                               \
        type *all; /* few, or allocated */ \
        size_t count, cap;                 \
        type few[few_count];               \
    }
#define BASE_LIST_OPEN(list) \
    ((list)->all = (list)->few, (list)->count = 0, (list)->cap = sizeof(list)->few / sizeof *(list)->few)
#define BASE_LIST_CLOSE(list) PyMem_Free((list)->all != (list)->few ? (list)->all : NULL)
/* The memory of at least `needed` entries, to be stored in `all`. */
#define BASE_LIST_GROW(list, needed) \
    base_list_grow((list)->all, (list)->few, &(list)->cap, (needed), sizeof *(list)->all)

static inline void *base_list_grow(void *all, const void *few, size_t *cap, size_t needed, size_t size)
{
    if (needed <= *cap)
        return all;
    size_t larger = 4 * *cap > needed ? 4 * *cap : needed;
    void *more = PyMem_Realloc(all != few ? all : NULL, larger * size);
    if (more == NULL)
        return NULL;
    if (all == few)
        memcpy(more, few, *cap * size);
    *cap = larger;
    return more;
}

#endif
