/* walk.h -- what a value holds, and the tensors in it.
 *
 * The only file that knows how containers, dataclasses, objects and modules are
 * looked into.  No code of the program runs: properties are not read, instance
 * dicts and slots are.
 *
 *     tensor_children it;
 *     for (tensor_children_open(&it, torch, obj, 0); tensor_children_next(&it);)
 *         use(it.key, it.index, it.value);     // valid until the next call
 *     tensor_children_close(&it);
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_WALK_H
#define TT_EXT_TENSOR_WALK_H

#include "tensor/view.h"

/* ---- one level ------------------------------------------------------------- */

/* What else has children, besides lists, tuples and dicts. */
enum {
    CHILDREN_FIELDS = 1 << 0,  /* dataclasses: their fields */
    CHILDREN_SETS = 1 << 1,    /* sets and deques */
    CHILDREN_OBJECTS = 1 << 2, /* any object: what its instance dict and its slots hold */
    CHILDREN_MODULES = 1 << 3, /* nn.Module: its parameters, buffers and modules */
};

typedef struct tensor_children {
    PyObject *key;      /* owned; NULL: by index */
    PyObject *value;    /* owned */
    Py_ssize_t index;   /* in a list, tuple or set */
    bool is_registered; /* it is a parameter or buffer of a module */
    /* private */
    PyObject *owner;             /* borrowed */
    PyObject *dict, *table;      /* owned or NULL; of the instance; that is gone through now */
    PyObject *iterator, *fields; /* owned or NULL */
    Py_ssize_t at, type_at;
    unsigned which;
    int stage;
} tensor_children;

/* torch: NULL without CHILDREN_MODULES. */
void tensor_children_open(tensor_children *it, tensor_torch *torch, PyObject *obj, unsigned which);
bool tensor_children_has_any(const tensor_children *it); /* is it a value that can have children? */
bool tensor_children_next(tensor_children *it);          /* leaves no exception */
void tensor_children_close(tensor_children *it);
PyObject *tensor_children_key(
    const tensor_children *it); /* or the index; new reference, NULL: no memory */
/* The child that a part of a name means: a key, an index, a field, an attribute.  New reference,
 * or NULL without an exception. */
PyObject *tensor_child_named(tensor_torch *torch, PyObject *obj, PyObject *name, bool *is_registered);

/* ---- all levels ------------------------------------------------------------ */

#define WALK_DEPTH 8   /* containers in containers; what lies deeper is not looked at */
#define WALK_COUNT 256 /* tensors of one value */

/* Where a tensor is: by index in tuples and lists, by key in dicts, by field in
 * dataclasses.  { 0 }: the value itself. */
typedef struct tensor_path {
    int depth;
    int found;     /* tensors so far */
    uint64_t hash; /* of the whole path; 0 for the value itself */
    struct {
        PyObject *key; /* borrowed, or NULL: index */
        Py_ssize_t index;
    } step[WALK_DEPTH];
} tensor_path;

/* Returns 0, or -1 with an exception, which ends the walk. */
typedef int tensor_found(void *context, PyObject *tensor, const tensor_path *path);

/* Calls found for each tensor in tuples, lists, dicts and dataclasses. */
int tensor_walk(tensor_torch *torch, PyObject *obj, tensor_found *found, void *context);
/* `name` with the path appended: "attn.0", "encoder.hidden.2".  New reference. */
PyObject *tensor_path_name(PyObject *name, const tensor_path *path);

#endif
