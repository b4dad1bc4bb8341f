/* map.h -- from an address to what we know about it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_MAP_H
#define TT_EXT_BASE_MAP_H

#include "base/compat.h"

typedef struct base_map { /* address -> address; open addressing */
    const void **keys;
    void **values;
    size_t cap, used;
} base_map;

void **base_map_find(const base_map *map, const void *key); /* NULL: not there */
int base_map_put(base_map *map, const void *key, void *value);
void base_map_remove(base_map *map, const void *key);
void base_map_free(base_map *map);

#endif
