/* calls.c -- passes what a monitored module returned to the metrics.
 *
 * Keeps for each module the rows of the tensors that it returned so far, so that Python is asked once
 * for each place which metrics it wants.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

#include "calls/places.h"
#include "probe/log.h"
#include "summary/functions.h"

#include <string.h>

/* A place in the output of one module. */
typedef struct metric_place {
    calls_place place;
    PyObject *name;     /* owned; of the module and the path */
    int32_t row;        /* -1: none */
    bool has_functions; /* functions of the user are called with its tensors */
} metric_place;

/* What a link of ours carries. */
typedef struct link_rows {
    calls_places places;
    uint64_t generation;        /* of the rows */
    int32_t codes[PROBE_SLOTS]; /* what resolve said of places in compiled graphs, plus UNKNOWN */
} link_rows;
enum { UNKNOWN = 3 }; /* resolve returns -2 or more: 0 is not known yet */

static void free_place(calls_place *place)
{
    Py_DECREF(((metric_place *)place)->name);
}

static void free_rows(void *data)
{
    calls_places_clear(&((link_rows *)data)->places, free_place);
    PyMem_Free(data);
}

typedef struct walk_context {
    monitor_metrics *metrics;
    calls_link *link;
    tensor_looks *looks;
    uint64_t generation;
} walk_context;

/* The places that this walk knows; NULL: Python code ran and they are gone. */
static calls_places *places_of(const walk_context *walk)
{
    link_rows *known = walk->link->data;
    return known->generation == walk->generation && walk->metrics->generation == walk->generation
               ? &known->places
               : NULL;
}

/* Asks Python what is wanted of a new place.  NULL: with an exception, or without one if places are
 * gone. */
static metric_place *make_place(const walk_context *walk, const tensor_place *path)
{
    PyObject *name = tensor_place_name(walk->link->name, path); /* owned */
    PyObject *answer =
        name != NULL ? PyObject_CallOneArg(walk->metrics->resolve, name) : NULL; /* owned */
    long code = answer != NULL ? PyLong_AsLong(answer) : -1;
    metric_place *place = PyErr_Occurred() ? NULL : PyMem_Calloc(1, sizeof *place);
    calls_places *known = places_of(walk);
    tensor_looks_clear(walk->looks); /* that was Python code */
    Py_XDECREF(answer);
    if (place != NULL && known != NULL) {
        long row = (code - (code & 1)) / 2;
        place->name = name;
        place->has_functions = (code & 1) != 0;
        place->row = row < walk->metrics->row_count ? (int32_t)row : -1;
        if (calls_places_add(known, path, &place->place))
            return place;
    }
    if (!PyErr_Occurred() && known != NULL)
        PyErr_NoMemory();
    PyMem_Free(place);
    Py_XDECREF(name);
    return NULL;
}

static int found_tensor(void *context, PyObject *tensor, const tensor_place *path)
{
    const walk_context *walk = context;
    monitor_metrics *metrics = walk->metrics;
    const calls_places *known = places_of(walk);
    metric_place *place = known != NULL ? calls_places_find(known, path) : NULL;
    if (known == NULL || (place == NULL && (place = make_place(walk, path)) == NULL))
        return PyErr_Occurred() ? -1 : 0;
    PyObject *name = place->has_functions ? Py_NewRef(place->name) : NULL; /* owned: the place may go */
    int result = 0;
    if (place->row >= 0)
        result = monitor_row_read(metrics, walk->looks, place->row, tensor);
    if (result == 0 && name != NULL) {
        PyObject *args[] = { name, tensor };
        PyObject *answer = PyObject_Vectorcall(metrics->tell, args, 2, NULL); /* owned */
        tensor_looks_clear(walk->looks);
        result = answer != NULL ? 0 : -1;
        Py_XDECREF(answer);
    }
    Py_XDECREF(name);
    return result;
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
        calls_places_clear(&known->places, free_place);
        memset(known->codes, 0, sizeof known->codes);
        known->generation = self->generation;
    }
    return known;
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

/* The row of a tensor and whether functions want it, as Python says; -2: nothing is wanted. */
static long wanted(monitor_metrics *self, calls_link *link, const calls_probe_place *place)
{
    link_rows *known = rows_of(self, link);
    if (known != NULL && known->codes[place->slot] != 0)
        return known->codes[place->slot] - UNKNOWN;
    PyObject *name = place->is_input ? NULL : PyUnicode_Concat(link->name, place->text); /* owned */
    PyObject *answer = name != NULL ? PyObject_CallOneArg(self->resolve, name) : NULL;   /* owned */
    long code = answer != NULL ? PyLong_AsLong(answer) : -2;
    if (PyErr_Occurred()) {
        PyErr_Clear();
        code = -2;
    }
    Py_XDECREF(answer);
    Py_XDECREF(name);
    known = rows_of(self, link); /* resolve may have changed the generation */
    if (known != NULL)
        known->codes[place->slot] = (int32_t)code + UNKNOWN;
    PyErr_Clear();
    return code;
}

static uint32_t metric_products(calls_consumer *consumer, calls_link *link,
                                const calls_probe_place *place)
{
    monitor_metrics *self = (monitor_metrics *)consumer;
    long code = consumer->is_off ? -2 : wanted(self, link, place);
    long row = (code - (code & 1)) / 2;
    uint32_t products = code & 1 ? TT_PRODUCT_VALUE : 0;
    if (row >= 0 && row < self->row_count)
        products |= TT_PRODUCT_STATS | (self->rows[row]->hist != NULL ? TT_PRODUCT_HIST : 0);
    return products;
}

static int metric_probed(calls_consumer *consumer, calls_link *link, const calls_event *event,
                         const calls_probe_place *place, const probe_row *seen)
{
    monitor_metrics *self = (monitor_metrics *)consumer;
    long code = wanted(self, link, place), number = (code - (code & 1)) / 2;
    (void)event;
    if (number >= 0 && number < self->row_count && seen->pending != 0) {
        PyObject *told = PyObject_CallFunction(self->unread, "lKs", number, seen->pending,
                                               tensor_view_result_word(VIEW_DEVICE)); /* owned */
        Py_XDECREF(told);
        return told != NULL ? 0 : -1;
    }
    if (number >= 0 && number < self->row_count && seen->products & TT_PRODUCT_STATS) {
        monitor_row **row = &self->rows[number];
        if ((*row)->hist != NULL && seen->hist != NULL)
            tt_hist_merge(summary_hist_of((*row)->hist), seen->hist);
        if (monitor_row_add(row, seen->stats) < 0)
            return -1;
    }
    if (!(code & 1) || seen->value == NULL)
        return 0;
    PyObject *name = PyUnicode_Concat(link->name, place->text);         /* owned */
    PyObject *tensor = calls_traced_put(self->state, NULL, NULL, seen); /* owned */
    PyObject *answer = name != NULL && tensor != NULL
                           ? PyObject_CallFunctionObjArgs(self->tell, name, tensor, NULL)
                           : NULL; /* owned */
    Py_XDECREF(name);
    Py_XDECREF(tensor);
    Py_XDECREF(answer);
    return answer != NULL ? 0 : -1;
}

const calls_table monitor_calls = {
    .after = metric_after, .products = metric_products, .probed = metric_probed, .free_data = free_rows
};
