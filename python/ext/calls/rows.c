/* rows.c -- delivers what probes inside compiled graphs have seen.
 *
 * Their rows lie in a log, which is read before and after each call that is seen eagerly, when an
 * outermost module has run that was compiled whole, and before the optimizer steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "calls/source.h"
#include "probe/log.h"

typedef struct batch {
    binding_state *state;
    calls_thread *thread;
    bool is_eager;    /* a call that is seen eagerly is around it: that one has been entered */
    bool is_training; /* the phase of that call */
    int64_t share;    /* of a row in the time that it took to get them, in ns */
} batch;

/* Calls f for each link on the module of a row that hears of compiled graphs; -1: f returned -1. */
static int for_links(const batch *in, const probe_row *row,
                     int (*f)(const batch *, calls_link *, PyObject *module, const calls_probe_place *,
                              const probe_row *))
{
    const calls_tap *tap = calls_tap_numbered(in->state->calls, row->module);     /* borrowed */
    const calls_probe_place *place = calls_place_at(in->state->calls, row->slot); /* borrowed */
    PyObject *module = NULL, *links;                                              /* owned */
    int result = 0;
    if (tap == NULL || tap->links == NULL || place == NULL || PyWeakref_GetRef(tap->module, &module) <= 0)
        return 0;
    links = Py_NewRef(tap->links);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(links) && result == 0; i++) {
        calls_link *link = calls_link_at(links, i);
        if (!calls_link_hears(link))
            continue;
        calls_consumer *consumer = (calls_consumer *)Py_NewRef((PyObject *)link->consumer); /* owned */
        in->thread->inside++;
        result = f(in, link, module, place, row);
        in->thread->inside--;
        Py_DECREF(consumer);
    }
    Py_DECREF(links);
    Py_DECREF(module);
    return result;
}

/* The time of a row, on the clock of time.perf_counter_ns(). */
static int64_t monotonic_of(int64_t time)
{
    return time + base_clock(CLOCK_MONOTONIC) - base_clock(CLOCK_REALTIME);
}

static bool is_called_eagerly(const batch *in, const calls_link *link)
{
    for (const calls_frame *f = in->thread->top; f != NULL; f = f->outer)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(f->links); i++)
            if (calls_link_at(f->links, i) == link)
                return true;
    return false;
}

/* Calls of the consumer's modules around this one: those that are seen eagerly, and those in compiled code
 * whose names it begins with.  Lists of modules are never called. */
static uint32_t depth_of(const batch *in, const calls_link *link)
{
    const calls_consumer *consumer = link->consumer;
    uint32_t depth = calls_depth(in->thread->top, consumer);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(consumer->links); i++) {
        const calls_link *other = (calls_link *)PyList_GET_ITEM(consumer->links, i); /* borrowed */
        PyObject *name = other->name;                                                /* borrowed */
        Py_ssize_t length = PyUnicode_GET_LENGTH(name);
        bool is_around = i == 0 ? !calls_link_is_root(link)
                                : length < PyUnicode_GET_LENGTH(link->name) &&
                                      PyUnicode_READ_CHAR(link->name, length) == '.' &&
                                      PyUnicode_Tailmatch(link->name, name, 0, length, -1) > 0;
        depth +=
            is_around && other->tap != NULL && other->tap->is_traced && !is_called_eagerly(in, other);
    }
    return depth;
}

/* The phase of a row: that of the eager call around it, or the flag of the outermost module that its
 * consumer observes. */
static bool is_training(const batch *in, const calls_link *link, PyObject *module)
{
    PyObject *links = link->consumer->links, *root = NULL; /* borrowed; owned */
    if (in->is_eager)
        return in->is_training;
    if (links != NULL && PyList_GET_SIZE(links) > 0)
        (void)PyWeakref_GetRef(((calls_link *)PyList_GET_ITEM(links, 0))->module, &root);
    bool result = calls_is_training(in->state, root != NULL ? root : module);
    Py_XDECREF(root);
    return result;
}

static calls_event event_of(const batch *in, const calls_link *link, PyObject *module)
{
    return (calls_event){ .module = module,
                          .args = in->state->calls->no_args,
                          .call = link->probed,
                          .thread = in->thread->number,
                          .depth = link->consumer->wants & CALLS_DEPTH ? depth_of(in, link) : 0,
                          .is_training = is_training(in, link, module) };
}

/* An outermost module is entered before its parts, but its row comes after theirs.  Another consumer may
 * have an eager call around it. */
static int enter_root(const batch *in, calls_link *link, PyObject *module, const calls_probe_place *place,
                      const probe_row *Py_UNUSED(row))
{
    if (place->is_first && calls_link_is_root(link) && !link->is_entered &&
        calls_depth(in->thread->top, link->consumer) == 0) {
        const calls_table *calls = link->consumer->calls;
        link->probed = calls_link_count(link, in->thread, calls_is_training(in->state, module), true);
        link->is_entered = true;
        if (calls->probed != NULL || calls->before == NULL || link->consumer == NULL ||
            link->consumer->is_off)
            return 0;
        calls_event event = event_of(in, link, module);
        return calls->before(link->consumer, link, &event);
    }
    return 0;
}

PyObject *calls_traced_put(binding_state *state, PyObject *output, const calls_probe_place *place,
                           const probe_row *row)
{
    size_t bytes = row->value != NULL ? tt_dtype_size(row->dtype) : 0;
    for (int32_t d = 0; d < row->ndim; d++)
        bytes *= (size_t)row->shape[d];
    PyObject *shape = binding_shape_tuple(row->shape, row->ndim);                       /* owned */
    PyObject *data = PyByteArray_FromStringAndSize(row->value, (Py_ssize_t)bytes);      /* owned */
    PyObject *path = place != NULL ? Py_NewRef(place->text) : PyUnicode_FromString(""); /* owned */
    PyObject *result = NULL;
    if (shape != NULL && data != NULL && path != NULL)
        result =
            PyObject_CallFunction(state->calls->put_tensor, "OOOsO", output != NULL ? output : Py_None,
                                  path, data, tt_dtype_name(row->dtype), shape);
    Py_XDECREF(path);
    Py_XDECREF(data);
    Py_XDECREF(shape);
    Py_XDECREF(output);
    return result;
}

/* Calls after() with copies of what the module returned, when all are there. */
static int replay(const batch *in, calls_link *link, const calls_probe_place *place, const probe_row *row,
                  calls_event *event)
{
    const calls_table *calls = link->consumer->calls;
    if (calls->after == NULL)
        return 0;
    if (row->products & TT_PRODUCT_VALUE)
        link->output = calls_traced_put(in->state, link->output, place, row);
    if (PyErr_Occurred() || !place->is_last)
        return PyErr_Occurred() ? -1 : 0;
    tensor_looks looks = { .torch = &in->state->torch };
    event->output = link->output != NULL ? link->output : Py_None; /* owned now */
    event->looks = &looks;
    link->output = NULL;
    int result = calls->after(link->consumer, link, event);
    tensor_looks_clear(&looks);
    if (event->output != Py_None)
        Py_DECREF(event->output);
    return result;
}

static int tell_row(const batch *in, calls_link *link, PyObject *module, const calls_probe_place *place,
                    const probe_row *row)
{
    if (place->is_first && !link->is_entered)
        link->probed = calls_link_count(link, in->thread, is_training(in, link, module), false);
    if (place->is_first)
        link->is_entered = false;
    if (!calls_link_hears_of(link, place) || link->consumer->is_off)
        return 0;
    calls_event event = event_of(in, link, module);
    event.cost = row->cost != 0 ? row->cost + in->share : 0;
    if (link->consumer->wants & CALLS_TIME) /* when it began is not known */
        event.start = event.end = monotonic_of(row->time);
    if (link->consumer->calls->probed == NULL)
        return replay(in, link, place, row, &event);
    return link->consumer->calls->probed(link->consumer, link, &event, place, row);
}

static bool is_gradient(const calls_state *calls, const probe_row *row)
{
    const calls_probe_place *place = calls_place_at(calls, row->slot);
    return place != NULL && place->is_gradient;
}

int calls_traced_drain(binding_state *state, bool all)
{
    calls_state *calls = state->calls;
    if (calls->objection == NULL && probe_log_count() == 0)
        return 0; /* as nearly always, before a thread is looked up */
    calls_thread *thread = calls_thread_here();
    probe_rows rows = { 0 };
    int result = 0;
    if (thread->inside != 0)
        return 0;
    if (calls->objection != NULL) {
        PyErr_SetRaisedException(calls->objection);
        calls->objection = NULL;
        return -1;
    }
    int64_t start = base_clock(CLOCK_MONOTONIC);
    probe_log_take(all ? 0 : probe_log_thread(), &rows);
    if (rows.count == 0)
        return 0;
    if (thread->number == 0)
        thread->number = ++calls->thread_count;
    batch in = { .state = state,
                 .thread = thread,
                 .is_eager = thread->top != NULL,
                 .is_training = thread->top != NULL && thread->top->is_training,
                 .share = (base_clock(CLOCK_MONOTONIC) - start) / (int64_t)rows.count };
    size_t first = 0; /* before it are gradients of the backward before: they belong to its step */
    for (; first < rows.count && is_gradient(calls, &rows.all[first]) && result == 0; first++)
        result = for_links(&in, &rows.all[first], tell_row);
    for (size_t i = first; i < rows.count; i++) {
        const calls_tap *tap = calls_tap_numbered(calls, rows.all[i].module); /* borrowed */
        if (tap != NULL && calls_tap_is_root(tap))
            (void)for_links(&in, &rows.all[i], enter_root);
    }
    for (size_t i = first; i < rows.count && result == 0; i++)
        result = for_links(&in, &rows.all[i], tell_row);
    probe_rows_free(&rows);
    return result;
}
