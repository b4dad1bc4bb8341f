/* map.h -- from an address to what we know about it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_MAP_H
#define TT_EXT_BASE_MAP_H

#include "base/compat.h"

typedef struct base_map { /* address -> address, which is not NULL; open addressing */
    const void **keys;
    void **values;
    size_t cap, used;
} base_map;

static inline size_t base_map_start(const base_map *map, const void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) & (map->cap - 1);
}

static inline size_t base_map_slot(const base_map *map, const void *key)
{
    size_t i = base_map_start(map, key);
    while (map->keys[i] != NULL && map->keys[i] != key)
        i = (i + 1) & (map->cap - 1);
    return i;
}

/* NULL: not there.  Inline, because events look up frames and code objects. */
static inline void *base_map_find(const base_map *map, const void *key)
{
    if (map->used == 0)
        return NULL;
    size_t i = base_map_slot(map, key);
    return map->keys[i] != NULL ? map->values[i] : NULL;
}

/* The next value from *at on, which moves behind it; NULL: there is none.  Start with *at = 0. */
static inline void *base_map_next(const base_map *map, size_t *at)
{
    while (*at < map->cap && map->keys[*at] == NULL)
        ++*at;
    return *at < map->cap ? map->values[(*at)++] : NULL;
}

int base_map_put(base_map *map, const void *key, void *value);
void base_map_remove(base_map *map, const void *key);
void base_map_free(base_map *map);

#endif
