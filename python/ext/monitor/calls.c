/* calls.c -- passes what a monitored module returned to the metrics.
 *
 * Keeps for each module the rows of the tensors that it returned so far, so that Python is asked once
 * for each place which metrics it wants.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

#include "calls/places.h"
#include "probe/log.h"
#include "summary/functions.h"

/* A place in the output of one module. */
typedef struct metric_place {
    calls_place place;
    PyObject *name;     /* owned; of the module and the path */
    int32_t row;        /* -1: none */
    bool has_functions; /* functions of the user are called with its tensors */
} metric_place;

/* What a link of ours carries. */
typedef struct link_rows {
    calls_places outputs, probed; /* probed: inside compiled graphs */
    uint64_t generation;          /* of the rows */
} link_rows;

static void free_place(calls_place *place)
{
    Py_DECREF(((metric_place *)place)->name);
}

static void clear_rows(link_rows *known)
{
    calls_places_clear(&known->outputs, free_place);
    calls_places_clear(&known->probed, free_place);
}

static void free_rows(void *data)
{
    clear_rows(data);
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
        clear_rows(known);
        known->generation = self->generation;
    }
    return known;
}

/* Asks Python what is wanted of a new place with this name, which it steals (NULL: an exception is set).
 * NULL: with an exception, or without one if the places that are known are gone. */
static metric_place *make_place(const monitor_metrics *self, calls_places *known, uint64_t hash,
                                PyObject *name)
{
    uint64_t generation = self->generation;
    PyObject *answer = name != NULL ? PyObject_CallOneArg(self->resolve, name) : NULL; /* owned */
    long code = answer != NULL ? PyLong_AsLong(answer) : -1;
    metric_place *place = PyErr_Occurred() ? NULL : PyMem_Calloc(1, sizeof *place);
    bool is_known = generation == self->generation;
    Py_XDECREF(answer);
    if (place != NULL && is_known) {
        long row = (code - (code & 1)) / 2;
        place->place.hash = hash;
        place->name = name;
        place->has_functions = (code & 1) != 0;
        place->row = row < self->row_count ? (int32_t)row : -1;
        if (calls_places_add(known, &place->place))
            return place;
    }
    if (!PyErr_Occurred() && is_known)
        PyErr_NoMemory();
    PyMem_Free(place);
    Py_XDECREF(name);
    return NULL;
}

/* Calls the user's functions with a tensor.  0, or -1 with an exception. */
static int tell(const monitor_metrics *self, PyObject *name, PyObject *tensor)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(self->tell, name, tensor, NULL); /* owned */
    Py_XDECREF(answer);
    return answer != NULL ? 0 : -1;
}

typedef struct walk_context {
    monitor_metrics *metrics;
    calls_link *link;
    tensor_looks *looks;
    uint64_t generation;
} walk_context;

static int found_tensor(void *context, PyObject *tensor, const tensor_place *path)
{
    const walk_context *walk = context;
    monitor_metrics *metrics = walk->metrics;
    if (metrics->generation != walk->generation)
        return 0; /* Python code ran, and the places are gone */
    calls_places *known = &((link_rows *)walk->link->data)->outputs;
    const metric_place *place = calls_places_find(known, path->hash, (size_t)path->found - 1);
    if (place == NULL) {
        place = make_place(metrics, known, path->hash, tensor_place_name(walk->link->name, path));
        tensor_looks_clear(walk->looks); /* that was Python code */
    }
    if (place == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *name = place->has_functions ? Py_NewRef(place->name) : NULL; /* owned: the place may go */
    int result = 0;
    if (place->row >= 0)
        result = monitor_row_read(metrics, walk->looks, place->row, tensor);
    if (result == 0 && name != NULL) {
        result = tell(metrics, name, tensor);
        tensor_looks_clear(walk->looks);
    }
    Py_XDECREF(name);
    return result;
}

static int metric_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    monitor_metrics *self = (monitor_metrics *)consumer;
    if (rows_of(self, link) == NULL)
        return -1;
    walk_context walk = {
        .metrics = self, .link = link, .looks = event->looks, .generation = self->generation
    };
    return tensor_walk(&self->state->torch, event->output, found_tensor, &walk);
}

/* ---- inside compiled graphs ------------------------------------------------ */

/* NULL: nothing is wanted there. */
static const metric_place *probed_place(const monitor_metrics *self, calls_link *link,
                                        const calls_probe_place *place)
{
    link_rows *known = rows_of(self, link);
    uint64_t slot = (uint64_t)place->slot;
    const metric_place *found = known != NULL ? calls_places_find(&known->probed, slot, 0) : NULL;
    if (found == NULL && known != NULL)
        found = make_place(self, &known->probed, slot, PyUnicode_Concat(link->name, place->text));
    PyErr_Clear(); /* nobody is there who could be told */
    return found;
}

static uint32_t metric_products(calls_consumer *consumer, calls_link *link,
                                const calls_probe_place *place)
{
    const monitor_metrics *self = (monitor_metrics *)consumer;
    const metric_place *known = consumer->is_off ? NULL : probed_place(self, link, place);
    if (known == NULL)
        return 0;
    uint32_t products = known->has_functions ? TT_PRODUCT_VALUE : 0;
    if (known->row >= 0)
        products |= TT_PRODUCT_STATS | (self->rows[known->row]->hist != NULL ? TT_PRODUCT_HIST : 0);
    return products;
}

static int metric_probed(calls_consumer *consumer, calls_link *link, const calls_event *event,
                         const calls_probe_place *place, const probe_row *seen)
{
    monitor_metrics *self = (monitor_metrics *)consumer;
    const metric_place *known = probed_place(self, link, place);
    (void)event;
    if (known != NULL && known->row >= 0 && seen->pending != 0) {
        PyObject *told = PyObject_CallFunction(self->unread, "iKs", (int)known->row, seen->pending,
                                               tensor_view_result_word(VIEW_DEVICE)); /* owned */
        Py_XDECREF(told);
        return told != NULL ? 0 : -1;
    }
    if (known != NULL && known->row >= 0 && seen->products & TT_PRODUCT_STATS) {
        monitor_row **row = &self->rows[known->row];
        if ((*row)->hist != NULL && seen->hist != NULL)
            tt_hist_merge(summary_hist_of((*row)->hist), seen->hist);
        if (monitor_row_add(row, seen->stats) < 0)
            return -1;
    }
    if (known == NULL || !known->has_functions || seen->value == NULL)
        return 0;
    PyObject *name = Py_NewRef(known->name);                            /* owned: the place may go */
    PyObject *tensor = calls_traced_put(self->state, NULL, NULL, seen); /* owned */
    int result = tensor != NULL ? tell(self, name, tensor) : -1;
    Py_XDECREF(tensor);
    Py_DECREF(name);
    return result;
}

const calls_table monitor_calls = {
    .after = metric_after, .products = metric_products, .probed = metric_probed, .free_data = free_rows
};
