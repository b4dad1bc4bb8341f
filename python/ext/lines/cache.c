/* cache.c -- tables of code objects, kept from one consumer to the next.
 *
 * Analysing a code object takes milliseconds, and a front end may come and go
 * with each call of a function.  So a table stays as long as its code object
 * does; a weak reference without a callback tells, and the dead are swept out
 * when there are twice as many as the last time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

enum { FIRST_SWEEP = 256 };

typedef struct cached_table {
    PyObject *ref;      /* owned; weak, to the code object */
    lines_table *table; /* owned; NULL: it could not be made */
} cached_table;

static void free_cached(cached_table *one)
{
    lines_table_free(one->table);
    Py_XDECREF(one->ref);
    PyMem_Free(one);
}

static bool is_of(const cached_table *one, PyCodeObject *code)
{
    PyObject *now = NULL; /* owned */
    if (PyWeakref_GetRef(one->ref, &now) < 0)
        PyErr_Clear();
    Py_XDECREF(now);
    return now != NULL && (code == NULL || now == (PyObject *)code);
}

static void sweep(lines_source *source)
{
    base_map *map = &source->tables;
    for (size_t i = 0; i < map->cap; i++) {
        cached_table *one = map->keys[i] != NULL ? map->values[i] : NULL;
        if (one == NULL || is_of(one, NULL))
            continue;
        base_map_remove(map, map->keys[i]);
        free_cached(one);
        i--; /* another may have moved here */
    }
    source->sweep_at = map->used * 2 > FIRST_SWEEP ? map->used * 2 : FIRST_SWEEP;
}

/* NULL: not there. */
static cached_table *find_cached(lines_source *source, PyCodeObject *code)
{
    void **found = base_map_find(&source->tables, code);
    cached_table *one = found != NULL ? *found : NULL;
    if (one != NULL && !is_of(one, code)) { /* of another that was at this address */
        base_map_remove(&source->tables, code);
        free_cached(one);
        one = NULL;
    }
    return one;
}

const lines_table *lines_cache_table(lines_source *source, PyCodeObject *code)
{
    cached_table *made = NULL, *one = find_cached(source, code);
    PyObject *error = NULL; /* owned or NULL */
    if (one != NULL)
        return one->table;
    made = PyMem_Calloc(1, sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    made->table = lines_table_create(code, source->analyse);
    error = PyErr_GetRaisedException();
    one = find_cached(source, code); /* another thread may have had its turn */
    if (one != NULL)
        goto out;
    if (source->tables.used >= source->sweep_at)
        sweep(source);
    made->ref = PyWeakref_NewRef((PyObject *)code, NULL);
    if (made->ref == NULL || base_map_put(&source->tables, code, made) < 0)
        goto out;
    one = made;
    made = NULL;
    if (error != NULL)
        PyErr_SetRaisedException(Py_NewRef(error));
out:
    if (made != NULL)
        free_cached(made);
    Py_XDECREF(error);
    return one != NULL ? one->table : NULL;
}

void lines_cache_free(lines_source *source)
{
    for (size_t i = 0; i < source->tables.cap; i++)
        if (source->tables.keys[i] != NULL)
            free_cached(source->tables.values[i]);
    base_map_free(&source->tables);
}
