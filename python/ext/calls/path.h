/* path.h -- which tensor of a module's call: its role, and where it is in what the module takes or returns.
 *
 * Paths are the same for eager calls and for calls inside compiled graphs: two equal ones are one object,
 * so a consumer looks its site or its metrics up once for each path of a module and compares pointers
 * from then on.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_CALLS_PATH_H
#define TT_EXT_CALLS_PATH_H

#include "base/compat.h"

#include <stdint.h>

typedef enum calls_role {
    CALLS_INPUT,
    CALLS_OUTPUT,
    CALLS_GRADIENT, /* of an output */
    CALLS_ROLES_
} calls_role;

typedef struct calls_path {
    calls_role role;
    PyObject *text;                    /* owned; behind the module's name: "", ".0", ".hidden.2" */
    const struct calls_path *gradient; /* of an output: the path of its gradient; else NULL */
    struct calls_path *next;
} calls_path;

/* All paths of the process; { 0 } at first. */
typedef struct calls_paths {
    calls_path *all;               /* owned */
    PyObject *known[CALLS_ROLES_]; /* owned or NULL; dict: text -> address */
} calls_paths;

/* The path with this role and text; NULL with an exception. */
calls_path *calls_path_of(calls_paths *paths, calls_role role, PyObject *text);
void calls_paths_clear(calls_paths *paths);

/* ---- what somebody knows of each path ------------------------------------ */

/* First member of an entry, which is memory of PyMem_. */
typedef struct calls_cached {
    uint64_t key;
} calls_cached;

/* { 0 } at first.  Each entry is an allocation of its own: another thread may add one while a consumer
 * uses another. */
typedef struct calls_cache {
    calls_cached **all; /* owned, as the entries are */
    size_t count, cap;
    size_t next; /* where the next one will be looked for first */
} calls_cache;

static inline uint64_t calls_path_key(const calls_path *path)
{
    return (uint64_t)(uintptr_t)path;
}

/* The entry with this key, or NULL.  Keys that are asked for in the order of the entries are found at once. */
void *calls_cache_find(calls_cache *cache, uint64_t key);
/* Adds an entry, of which key is set.  False: out of memory, without an exception, and it is not added. */
bool calls_cache_add(calls_cache *cache, calls_cached *entry);
/* Frees all entries, after free_one (or NULL) has freed what each owns. */
void calls_cache_clear(calls_cache *cache, void (*free_one)(calls_cached *entry));

#endif
