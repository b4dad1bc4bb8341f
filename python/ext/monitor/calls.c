/* calls.c -- passes what a monitored module returned to the metrics.
 *
 * Keeps for each module the rows of the tensors that it returned so far, so that Python is asked once
 * for each path which metrics it wants.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

/* What is wanted of one tensor of a module. */
typedef struct path_metrics {
    calls_cached cached; /* by path */
    PyObject *name;      /* owned; of the module and the path */
    int32_t row;         /* -1: none */
    bool has_functions;  /* functions of the user are called with its tensors */
} path_metrics;

/* What a link of ours carries. */
typedef struct link_rows {
    calls_cache paths;   /* of path_metrics */
    uint64_t generation; /* of the rows */
} link_rows;

static void free_path(calls_cached *entry)
{
    Py_DECREF(((path_metrics *)entry)->name);
}

static void free_rows(void *data)
{
    calls_cache_clear(&((link_rows *)data)->paths, free_path);
    PyMem_Free(data);
}

/* What is known of a link's tensors; NULL with MemoryError. */
static link_rows *rows_of(const monitor_metrics *self, calls_link *link)
{
    if (link->data == NULL && (link->data = PyMem_Calloc(1, sizeof(link_rows))) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    link_rows *known = link->data;
    if (known->generation != self->generation) {
        calls_cache_clear(&known->paths, free_path);
        known->generation = self->generation;
    }
    return known;
}

/* Asks Python what is wanted of a new path.  NULL: with an exception, or without one if what was known is
 * gone. */
static path_metrics *ask(const monitor_metrics *self, calls_link *link, const calls_path *path)
{
    uint64_t generation = self->generation;
    PyObject *name = PyUnicode_Concat(link->name, path->text);                         /* owned */
    PyObject *answer = name != NULL ? PyObject_CallOneArg(self->resolve, name) : NULL; /* owned */
    long code = answer != NULL ? PyLong_AsLong(answer) : -1;
    path_metrics *found = PyErr_Occurred() ? NULL : PyMem_Calloc(1, sizeof *found);
    bool is_known = generation == self->generation && link->data != NULL;
    Py_XDECREF(answer);
    if (found != NULL && is_known) {
        long row = (code - (code & 1)) / 2;
        found->cached.key = calls_path_key(path);
        found->name = name;
        found->has_functions = (code & 1) != 0;
        found->row = row < self->row_count ? (int32_t)row : -1;
        if (calls_cache_add(&((link_rows *)link->data)->paths, &found->cached))
            return found;
    }
    if (!PyErr_Occurred() && is_known)
        PyErr_NoMemory();
    PyMem_Free(found);
    Py_XDECREF(name);
    return NULL;
}

/* What is wanted of a tensor; NULL as above.  *is_new: Python was asked. */
static const path_metrics *metrics_at(const monitor_metrics *self, calls_link *link,
                                      const calls_path *path, bool *is_new)
{
    link_rows *known = rows_of(self, link);
    const path_metrics *found =
        known != NULL ? calls_cache_find(&known->paths, calls_path_key(path)) : NULL;
    *is_new = found == NULL && known != NULL;
    return *is_new ? ask(self, link, path) : found;
}

/* Calls the user's functions with a tensor.  0, or -1 with an exception. */
static int tell(const monitor_metrics *self, PyObject *name, const calls_observation *seen)
{
    PyObject *tensor = calls_observation_value(seen); /* owned */
    PyObject *answer =
        tensor != NULL ? PyObject_CallFunctionObjArgs(self->tell, name, tensor, NULL) : NULL; /* owned */
    Py_XDECREF(tensor);
    Py_XDECREF(answer);
    return PyErr_Occurred() ? -1 : 0;
}

static int metric_tensor(calls_consumer *consumer, calls_link *link, const calls_event *event,
                         const calls_path *path, const calls_observation *seen)
{
    monitor_metrics *self = (monitor_metrics *)consumer;
    bool is_new;
    const path_metrics *wanted = metrics_at(self, link, path, &is_new);
    (void)event;
    if (is_new && seen->looks != NULL)
        tensor_looks_clear(seen->looks); /* Python code ran */
    if (wanted == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *name = wanted->has_functions ? Py_NewRef(wanted->name) : NULL; /* owned: it may go */
    int result = wanted->row >= 0 ? monitor_row_read(self, wanted->row, seen) : 0;
    if (result == 0 && name != NULL) {
        result = tell(self, name, seen);
        if (seen->looks != NULL)
            tensor_looks_clear(seen->looks);
    }
    Py_XDECREF(name);
    return result;
}

static uint32_t metric_wants(calls_consumer *consumer, calls_link *link, const calls_path *path)
{
    const monitor_metrics *self = (monitor_metrics *)consumer;
    bool is_new;
    const path_metrics *wanted = consumer->is_off ? NULL : metrics_at(self, link, path, &is_new);
    PyErr_Clear(); /* nobody is there who could be told */
    if (wanted == NULL)
        return 0;
    uint32_t products = wanted->has_functions ? TT_PRODUCT_VALUE : 0;
    if (wanted->row >= 0)
        products |= TT_PRODUCT_STATS | (self->rows[wanted->row]->hist != NULL ? TT_PRODUCT_HIST : 0);
    return products;
}

const calls_table monitor_calls = { .tensor = metric_tensor,
                                    .wants = metric_wants,
                                    .free_data = free_rows };
