/* path.c -- which tensor of a module's call, and what a consumer knows of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/path.h"

#include "base/array.h"

/* ---- paths ---------------------------------------------------------------- */

static calls_path *make_path(calls_paths *paths, calls_role role, PyObject *text)
{
    calls_path *path = PyMem_Calloc(1, sizeof *path);
    PyObject *address = path != NULL ? PyLong_FromVoidPtr(path) : PyErr_NoMemory(); /* owned */
    if (address != NULL && PyDict_SetItem(paths->known[role], text, address) == 0) {
        *path = (calls_path){ .role = role, .text = Py_NewRef(text), .next = paths->all };
        paths->all = path;
    } else {
        PyMem_Free(path);
        path = NULL;
    }
    Py_XDECREF(address);
    return path;
}

calls_path *calls_path_of(calls_paths *paths, calls_role role, PyObject *text)
{
    if (paths->known[role] == NULL && (paths->known[role] = PyDict_New()) == NULL)
        return NULL;
    PyObject *address = PyDict_GetItemWithError(paths->known[role], text); /* borrowed */
    if (address != NULL || PyErr_Occurred())
        return address != NULL ? PyLong_AsVoidPtr(address) : NULL;
    calls_path *path = make_path(paths, role, text);
    if (path != NULL && role == CALLS_OUTPUT)
        path->gradient = calls_path_of(paths, CALLS_GRADIENT, text);
    return PyErr_Occurred() ? NULL : path;
}

void calls_paths_clear(calls_paths *paths)
{
    calls_path *all = paths->all;
    paths->all = NULL;
    for (int role = 0; role < CALLS_ROLES_; role++)
        Py_CLEAR(paths->known[role]);
    while (all != NULL) {
        calls_path *path = all;
        all = path->next;
        Py_DECREF(path->text);
        PyMem_Free(path);
    }
}

/* ---- what somebody knows of each path -------------------------------------- */

void *calls_cache_find(calls_cache *cache, uint64_t key)
{
    for (size_t i = 0; i < cache->count; i++) {
        size_t at = cache->next + i < cache->count ? cache->next + i : cache->next + i - cache->count;
        if (cache->all[at]->key == key) {
            cache->next = at + 1 < cache->count ? at + 1 : 0;
            return cache->all[at];
        }
    }
    return NULL;
}

bool calls_cache_add(calls_cache *cache, calls_cached *entry)
{
    if (!base_array_grow(&cache->all, &cache->cap, cache->count + 1, sizeof(calls_cached *)))
        return false;
    cache->all[cache->count++] = entry;
    return true;
}

void calls_cache_clear(calls_cache *cache, void (*free_one)(calls_cached *entry))
{
    calls_cache old = *cache;
    *cache = (calls_cache){ 0 }; /* freeing may run any code */
    for (size_t i = 0; i < old.count; i++) {
        if (free_one != NULL)
            free_one(old.all[i]);
        PyMem_Free(old.all[i]);
    }
    PyMem_Free(old.all);
}
