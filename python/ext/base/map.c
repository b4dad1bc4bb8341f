/* map.c -- from an address to what we know about it.
 *
 * Exists because code objects compare by value in a dict (two functions of the
 * same text in two files are equal) and hashing them costs a microsecond.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

static int grow(base_map *map)
{
    base_map larger = { .cap = map->cap != 0 ? map->cap * 2 : 256, .used = map->used };
    larger.keys = PyMem_Calloc(larger.cap, sizeof *larger.keys);
    larger.values = PyMem_Calloc(larger.cap, sizeof *larger.values);
    if (larger.keys == NULL || larger.values == NULL) {
        base_map_free(&larger);
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < map->cap; i++) {
        if (map->keys[i] == NULL)
            continue;
        size_t to = base_map_slot(&larger, map->keys[i]);
        larger.keys[to] = map->keys[i];
        larger.values[to] = map->values[i];
    }
    base_map_free(map);
    *map = larger;
    return 0;
}

int base_map_put(base_map *map, const void *key, void *value)
{
    if (map->used * 2 >= map->cap && grow(map) < 0)
        return -1;
    size_t i = base_map_slot(map, key);
    map->used += map->keys[i] == NULL;
    map->keys[i] = key;
    map->values[i] = value;
    return 0;
}

/* Moves the ones behind it forward, so that no search stops at a hole. */
void base_map_remove(base_map *map, const void *key)
{
    if (map->used == 0)
        return;
    size_t hole = base_map_slot(map, key), mask = map->cap - 1;
    if (map->keys[hole] == NULL)
        return;
    map->used--;
    for (size_t i = (hole + 1) & mask; map->keys[i] != NULL; i = (i + 1) & mask) {
        size_t wanted = base_map_start(map, map->keys[i]);
        if (((i - wanted) & mask) < ((i - hole) & mask))
            continue;
        map->keys[hole] = map->keys[i];
        map->values[hole] = map->values[i];
        hole = i;
    }
    map->keys[hole] = NULL;
}

void base_map_free(base_map *map)
{
    PyMem_Free(map->keys);
    PyMem_Free(map->values);
    *map = (base_map){ 0 };
}
