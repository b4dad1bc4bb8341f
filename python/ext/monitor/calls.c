/* calls.c -- what a monitored module gave, on its way to the metrics.
 *
 * Keeps for each module the rows of the tensors that it returned so far, so that Python
 * is asked once for each place which metrics it wants.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

#include "tensor/nest.h"

/* A place in the output of one module. */
typedef struct metric_place {
    uint64_t hash;  /* of its path */
    PyObject *name; /* owned; of the module and the path */
    int32_t row;    /* -1: none */
    bool is_told;
} metric_place;

/* What a link of ours carries. */
typedef struct link_rows {
    metric_place *all; /* owned */
    int count, cap;
    uint64_t generation; /* of the rows */
} link_rows;

static void forget_places(link_rows *known)
{
    for (int i = 0; i < known->count; i++)
        Py_XDECREF(known->all[i].name);
    known->count = 0;
}

static void free_rows(void *data)
{
    link_rows *known = data;
    forget_places(known);
    PyMem_Free(known->all);
    PyMem_Free(known);
}

typedef struct walk_context {
    monitor_metrics *metrics;
    calls_link *link;
    uint64_t generation;
} walk_context;

/* Python code may have run: are the module's places still those we knew? */
static link_rows *known_of(const walk_context *walk)
{
    link_rows *known = walk->link->data;
    return known != NULL && known->generation == walk->generation &&
                   walk->metrics->generation == walk->generation
               ? known
               : NULL;
}

/* Asks Python; -1 with an exception. */
static int resolve_place(const walk_context *walk, const tensor_nest_place *path, metric_place *out)
{
    PyObject *name = tensor_nest_name(walk->link->name, path); /* owned */
    PyObject *answer =
        name != NULL ? PyObject_CallOneArg(walk->metrics->resolve, name) : NULL; /* owned */
    long code = answer != NULL ? PyLong_AsLong(answer) : -1;
    Py_XDECREF(answer);
    if (name == NULL || PyErr_Occurred()) {
        Py_XDECREF(name);
        return -1;
    }
    long row = (code - (code & 1)) / 2;
    *out = (metric_place){ .hash = path->hash,
                           .name = name,
                           .is_told = (code & 1) != 0,
                           .row = row < walk->metrics->row_count ? (int32_t)row : -1 };
    return 0;
}

/* The place, or NULL: with an exception, or without one if there is none any more. */
static const metric_place *find_place(const walk_context *walk, const tensor_nest_place *path)
{
    link_rows *known = known_of(walk);
    int next = path->found - 1;
    if (known == NULL)
        return NULL;
    if (next < known->count && known->all[next].hash == path->hash)
        return &known->all[next];
    for (int i = 0; i < known->count; i++)
        if (known->all[i].hash == path->hash)
            return &known->all[i];
    metric_place place;
    if (resolve_place(walk, path, &place) < 0)
        return NULL;
    known = known_of(walk);
    if (known != NULL && known->count == known->cap) {
        int cap = known->cap > 0 ? known->cap * 2 : 1;
        metric_place *grown = PyMem_Realloc(known->all, (size_t)cap * sizeof *grown);
        if (grown == NULL) {
            PyErr_NoMemory();
            known = NULL;
        } else {
            known->all = grown;
            known->cap = cap;
        }
    }
    if (known == NULL) {
        Py_DECREF(place.name);
        return NULL;
    }
    known->all[known->count] = place;
    return &known->all[known->count++];
}

static int found_tensor(void *context, PyObject *tensor, const tensor_nest_place *path)
{
    const walk_context *walk = context;
    const metric_place *place = find_place(walk, path);
    if (place == NULL)
        return PyErr_Occurred() ? -1 : 0;
    bool is_told = place->is_told;
    PyObject *name = Py_NewRef(place->name); /* owned: Python code may remove the place */
    int result = place->row >= 0 ? monitor_row_read(walk->metrics, place->row, tensor) : 0;
    if (result == 0 && is_told) {
        PyObject *args[] = { name, tensor };
        PyObject *answer = PyObject_Vectorcall(walk->metrics->tell, args, 2, NULL); /* owned */
        result = answer != NULL ? 0 : -1;
        Py_XDECREF(answer);
    }
    Py_DECREF(name);
    return result;
}

static int metric_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    monitor_metrics *self = (monitor_metrics *)consumer;
    if (link->data == NULL && (link->data = PyMem_Calloc(1, sizeof(link_rows))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    link_rows *known = link->data;
    if (known->generation != self->generation) {
        forget_places(known);
        known->generation = self->generation;
    }
    walk_context walk = { .metrics = self, .link = link, .generation = self->generation };
    tensor_nest_place path;
    path.depth = path.found = 0;
    path.hash = 0;
    return tensor_nest_walk(&self->state->torch, event->output, &path, found_tensor, &walk);
}

const calls_table monitor_calls = { .after = metric_after, .free_data = free_rows };
