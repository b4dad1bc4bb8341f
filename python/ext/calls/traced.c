/* traced.c -- modules that run inside compiled graphs.
 *
 * Dynamo traces past our object in the slot: where a module has no hooks, it goes to forward() at
 * once.  Unless the module has a `forward` of its own in its __dict__; then it traces nn.Module.__call__,
 * which finds our object and the Python function that stands for it (models/probes.py).  So
 * each watched module gets one, which calls that of its class.  Dynamo
 * guards on that key, so that watched and unwatched modules of one class never share a graph.  It is
 * put there when the first compilation of the process begins, never before.
 *
 * The function calls the operator tensortap::probe_v1 on what the module returns.  Its
 * rows lie in a log, which is read here: before and after each call that is seen eagerly, when an outermost
 * module has run that was compiled whole, and before the optimizer steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "binding/state.h"
#include "calls/source.h"
#include "probe/log.h"
#include "probe/operator.h"

#include <string.h>
#include <time.h>

/* ---- taps ---------------------------------------------------------------- */

/* The operator knows neither the extension nor its state, only numbers of modules. */
static binding_state *the_state;

static calls_tap *tap_numbered(const calls_state *calls, uint64_t number)
{
    return number > 0 && number <= calls->tap_count ? calls->taps[number - 1] : NULL;
}

static bool add_to_table(calls_state *calls, calls_tap *tap)
{
    if (!base_array_grow(&calls->taps, &calls->tap_cap, calls->tap_count + 1, sizeof *calls->taps))
        return false;
    calls->taps[calls->tap_count++] = tap;
    tap->number = calls->tap_count;
    return true;
}

/* Does the class change its own forward at any time?  Dynamo calls such a module by another way. */
static bool is_graph(PyTypeObject *type)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++)
        if (strcmp(((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i))->tp_name, "GraphModule") == 0)
            return true;
    return false;
}

bool calls_traced_is_forward(const binding_state *state, PyObject *method)
{
    PyObject *function = method != NULL && PyMethod_Check(method) ? PyMethod_GET_FUNCTION(method) : NULL;
    return function != NULL && PyFunction_Check(function) &&
           PyFunction_GET_CODE(function) == state->calls->forward_code;
}

/* A forward that calls that of the class; NULL: that is not a plain function, or the program has set one
 * on the module. */
static PyObject *make_forward(calls_state *calls, PyObject *module, PyObject *dict)
{
    PyObject *function = _PyType_Lookup(Py_TYPE(module), calls->forward.forward); /* borrowed */
    if (calls->make_forward == NULL || function == NULL || !PyFunction_Check(function) ||
        is_graph(Py_TYPE(module)) || PyDict_GetItemWithError(dict, calls->forward.forward) != NULL ||
        PyErr_Occurred())
        return NULL;
    PyObject *method = PyObject_CallOneArg(calls->make_forward, module); /* owned */
    if (method != NULL && calls->forward_code == NULL && PyMethod_Check(method))
        calls->forward_code = Py_NewRef(PyFunction_GET_CODE(PyMethod_GET_FUNCTION(method)));
    return method;
}

/* Puts the module's forward into its __dict__.  Errors are nobody's business: the module then is not
 * seen where it is compiled. */
static void put_forward(binding_state *state, calls_tap *tap)
{
    PyObject *module = NULL, *dict = NULL, *method = NULL; /* owned */
    if (PyWeakref_GetRef(tap->module, &module) <= 0)
        goto out;
    dict = PyObject_GenericGetDict(module, NULL);
    method = dict != NULL ? make_forward(state->calls, module, dict) : NULL;
    if (method == NULL ||
        (tap->pickled == NULL && calls_pickle_add(state, Py_TYPE(module), true, &tap->pickled) < 0) ||
        PyDict_SetItem(dict, state->calls->forward.forward, method) < 0)
        goto out;
    Py_XSETREF(tap->forward, Py_NewRef(method));
out:
    PyErr_Clear();
    Py_XDECREF(method);
    Py_XDECREF(dict);
    Py_XDECREF(module);
}

/* module: the tap's, or a replica that has a copy of its __dict__ */
void calls_traced_take_forward(binding_state *state, const calls_tap *tap, PyObject *module)
{
    PyObject *dict = tap->forward != NULL ? PyObject_GenericGetDict(module, NULL) : NULL; /* owned */
    if (dict != NULL && PyDict_GetItemWithError(dict, state->calls->forward.forward) == tap->forward)
        PyDict_DelItem(dict, state->calls->forward.forward);
    PyErr_Clear();
    Py_XDECREF(dict);
}

/* Has torch._dynamo been imported?  Then Python asks it to tell us of compilations. */
void calls_traced_listen(binding_state *state)
{
    calls_state *calls = state->calls;
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    bool is_reset = calls->callbacks != NULL && PyList_GET_SIZE(calls->callbacks) == 0;
    if (is_reset) /* by torch._dynamo.reset(): nothing is compiled any more */
        calls->is_compiling = false;
    if (calls->is_compiling || calls->listen == NULL || modules == NULL ||
        (calls->callbacks != NULL && !is_reset) ||
        PyDict_GetItemWithError(modules, calls->dynamo) == NULL)
        return;
    calls_thread *thread = calls_thread_here();
    thread->inside++;
    PyObject *callbacks = PyObject_CallNoArgs(calls->listen); /* owned */
    thread->inside--;
    if (callbacks != NULL && PyList_Check(callbacks))
        Py_XSETREF(calls->callbacks, Py_NewRef(callbacks));
    PyErr_Clear();
    Py_XDECREF(callbacks);
}

bool calls_traced_add(binding_state *state, calls_tap *tap)
{
    if (!add_to_table(state->calls, tap))
        return false;
    calls_traced_listen(state);
    if (state->calls->is_compiling)
        put_forward(state, tap);
    return true;
}

void calls_traced_remove(calls_tap *tap)
{
    calls_state *calls = tap->state->calls;
    if (calls != NULL && tap_numbered(calls, tap->number) == tap)
        calls->taps[tap->number - 1] = NULL;
}

/* A module that announces itself may be watched later, with its parts.  They get probes now, which
 * are off: then nothing is compiled again. */
static void prepare_parts(calls_tap *tap)
{
    PyObject *module = NULL, *parts = NULL; /* owned */
    PyObject *key, *part;                   /* borrowed */
    Py_ssize_t at = 0;
    if (tap->is_prepared)
        return;
    tap->is_prepared = true;
    if (PyWeakref_GetRef(tap->module, &module) > 0)
        parts = PyObject_GetAttrString(module, "_modules");
    tap->probes |= CALLS_PROBE_OUTPUTS;
    while (parts != NULL && PyDict_Check(parts) && PyDict_Next(parts, &at, &key, &part)) {
        calls_tap *found = part != Py_None ? calls_tap_of(tap->state, part, true) : NULL; /* owned */
        if (found != NULL)
            prepare_parts(found);
        Py_XDECREF(found);
    }
    PyErr_Clear();
    Py_XDECREF(parts);
    Py_XDECREF(module);
}

void calls_traced_prepare(calls_tap *tap)
{
    calls_state *calls = tap->state->calls;
    if (!calls->is_compiling)
        calls_traced_listen(tap->state);
    if (calls->is_compiling && tap->announce != NULL)
        prepare_parts(tap);
}

/* _begin_compiling(): Dynamo is about to trace, maybe modules of ours. */
BINDING_FUNCTION(calls_begin_compiling)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("_begin_compiling", 0, (const binding_option[]){ { 0 } }, args, nargs,
                               kwnames) < 0)
        return NULL;
    state->calls->is_compiling = true;
    for (size_t i = 0; i < state->calls->tap_count; i++) { /* more are added meanwhile */
        calls_tap *tap = state->calls->taps[i];
        if (tap == NULL)
            continue;
        Py_INCREF(tap);
        put_forward(state, tap);
        if (tap->announce != NULL)
            prepare_parts(tap);
        Py_DECREF(tap);
    }
    Py_RETURN_NONE;
}

/* ---- places -------------------------------------------------------------- */

/* _place(kind, text, is_first, is_last) -> int: the slot of a tensor: "output", "input" or "gradient" (of
 * an output), its path in what the module returns or gets, whether it is the first or last that is probed
 * in a call; -1: too many. */
BINDING_FUNCTION(calls_place_number)
{
    calls_state *calls = binding_state_of(module)->calls;
    PyObject *key = NULL, *number = NULL; /* owned */
    PyObject *known = NULL;               /* borrowed */
    if (binding_read_arguments("_place", 4, (const binding_option[]){ { 0 } }, args, nargs, kwnames) < 0)
        return NULL;
    if (calls->places == NULL)
        calls->places = PyList_New(0);
    if (calls->place_numbers == NULL)
        calls->place_numbers = PyDict_New();
    key = PyTuple_Pack(4, args[0], args[1], args[2], args[3]);
    if (calls->places == NULL || calls->place_numbers == NULL || key == NULL)
        goto out;
    known = PyDict_GetItemWithError(calls->place_numbers, key);
    if (known != NULL || PyErr_Occurred()) {
        number = Py_XNewRef(known);
        goto out;
    }
    bool is_full = PyList_GET_SIZE(calls->places) >= PROBE_SLOTS;
    number = PyLong_FromSsize_t(is_full ? -1 : PyList_GET_SIZE(calls->places));
    if (number == NULL || is_full)
        goto out;
    if (PyDict_SetItem(calls->place_numbers, key, number) < 0 || PyList_Append(calls->places, key) < 0)
        Py_CLEAR(number);
out:
    Py_XDECREF(key);
    return number;
}

static bool place_of(const calls_state *calls, int32_t slot, calls_probe_place *out)
{
    if (calls->places == NULL || slot < 0 || slot >= PyList_GET_SIZE(calls->places))
        return false;
    PyObject *key = PyList_GET_ITEM(calls->places, slot); /* borrowed, like the next */
    PyObject *kind = PyTuple_GET_ITEM(key, 0);
    *out = (calls_probe_place){ .slot = slot,
                                .is_input = PyUnicode_CompareWithASCIIString(kind, "input") == 0,
                                .is_gradient = PyUnicode_CompareWithASCIIString(kind, "gradient") == 0,
                                .text = PyTuple_GET_ITEM(key, 1),
                                .is_first = PyTuple_GET_ITEM(key, 2) == Py_True,
                                .is_last = PyTuple_GET_ITEM(key, 3) == Py_True };
    return true;
}

/* ---- what is wanted ------------------------------------------------------ */

static bool hears(const calls_link *link)
{
    return link->consumer != NULL && link->consumer->calls->products != NULL;
}

static bool hears_of(const calls_link *link, const calls_probe_place *place)
{
    return hears(link) && (!place->is_gradient || link->consumer->probes & CALLS_PROBE_GRADIENTS);
}

static calls_link *link_at(PyObject *links, Py_ssize_t i)
{
    return (calls_link *)PyTuple_GET_ITEM(links, i);
}

static bool is_root(const calls_link *link)
{
    PyObject *links = link->consumer->links; /* borrowed */
    return links != NULL && PyList_GET_SIZE(links) > 0 &&
           PyList_GET_ITEM(links, 0) == (const PyObject *)link;
}

static uint8_t products_at(const calls_state *calls, const calls_tap *tap, int32_t slot)
{
    calls_probe_place place;
    uint32_t products = 0;
    if (!place_of(calls, slot, &place))
        return 0;
    for (Py_ssize_t i = 0; tap->links != NULL && i < PyTuple_GET_SIZE(tap->links); i++) {
        calls_link *link = link_at(tap->links, i);
        if (hears_of(link, &place))
            products |= link->consumer->calls->products(link->consumer, link, &place);
    }
    return (uint8_t)products;
}

/* Sets the bytes that the operator reads, for every slot that it has met. */
static void set_products(const calls_state *calls, calls_tap *tap)
{
    probe_slots *slots = tap->control;
    if (slots == NULL)
        return;
    Py_ssize_t count = calls->places != NULL ? PyList_GET_SIZE(calls->places) : 0;
    slots->is_root = false;
    for (Py_ssize_t i = 0; tap->links != NULL && i < PyTuple_GET_SIZE(tap->links); i++)
        if (hears(link_at(tap->links, i)) && is_root(link_at(tap->links, i)))
            slots->is_root = true;
    for (Py_ssize_t slot = 0; slot < count; slot++)
        if (slots->products[slot] != PROBE_UNKNOWN)
            slots->products[slot] = products_at(calls, tap, (int32_t)slot);
}

void calls_traced_set_products(binding_state *state, const calls_consumer *consumer)
{
    for (Py_ssize_t i = 0; consumer->links != NULL && i < PyList_GET_SIZE(consumer->links); i++) {
        calls_tap *tap = ((calls_link *)PyList_GET_ITEM(consumer->links, i))->tap; /* borrowed */
        if (tap != NULL && tap->control != NULL)
            set_products(state->calls, tap);
    }
}

void calls_traced_update(binding_state *state, calls_tap *tap)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tap->links); i++)
        if (hears(link_at(tap->links, i)))
            tap->probes |=
                link_at(tap->links, i)->consumer->probes; /* never less: compiled code has them */
    /* The operator asks again, so that new consumers hear of places in the order in which they run. */
    if (tap->control != NULL)
        memset(((probe_slots *)tap->control)->products, PROBE_UNKNOWN, PROBE_SLOTS);
    set_products(state->calls, tap);
}

/* listener: what is wanted of a slot that the operator meets for the first time */
static uint8_t on_unknown(uint64_t number, int32_t slot)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    calls_tap *tap = tap_numbered(the_state->calls, number);
    uint8_t products = 0;
    if (tap != NULL && tap->control != NULL) {
        products = products_at(the_state->calls, tap, slot);
        ((probe_slots *)tap->control)->products[slot] = products;
    }
    PyErr_SetRaisedException(pending);
    return products;
}

/* ---- rows ---------------------------------------------------------------- */

typedef struct batch {
    binding_state *state;
    calls_thread *thread;
    bool is_eager; /* a call that is seen eagerly is around it: that one has been entered */
    bool is_training;
    int64_t share; /* of a row in the time that it took to get them, in ns */
    int64_t spent; /* on the row that is delivered; only if that is timed */
} batch;

/* Calls f for each link on the module of a row that hears of it; -1: f returned -1. */
static int for_links(const batch *in, const probe_row *row,
                     int (*f)(const batch *, calls_link *, PyObject *module, const calls_probe_place *,
                              const probe_row *))
{
    calls_tap *tap = tap_numbered(in->state->calls, row->module); /* borrowed */
    calls_probe_place place;
    PyObject *module = NULL, *links; /* owned */
    int result = 0;
    if (tap == NULL || tap->links == NULL || !place_of(in->state->calls, row->slot, &place) ||
        PyWeakref_GetRef(tap->module, &module) <= 0)
        return 0;
    links = Py_NewRef(tap->links);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(links) && result == 0; i++) {
        calls_link *link = link_at(links, i);
        if (!hears_of(link, &place))
            continue;
        calls_consumer *consumer = (calls_consumer *)Py_NewRef((PyObject *)link->consumer); /* owned */
        in->thread->inside++;
        result = f(in, link, module, &place, row);
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
    struct timespec here, there;
    clock_gettime(CLOCK_MONOTONIC, &here);
    clock_gettime(CLOCK_REALTIME, &there);
    return time + (here.tv_sec - there.tv_sec) * (int64_t)1000000000 + here.tv_nsec - there.tv_nsec;
}

/* Calls of the consumer's modules around this one: those that are seen eagerly, and those whose names
 * it begins with. */
static uint32_t depth_of(const batch *in, const calls_link *link)
{
    const calls_consumer *consumer = link->consumer;
    uint32_t depth = 0;
    for (const calls_frame *f = in->thread->top; f != NULL; f = f->outer)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(f->links); i++)
            depth += link_at(f->links, i)->consumer == consumer;
    for (Py_ssize_t i = in->is_eager; i < PyList_GET_SIZE(consumer->links); i++) {
        PyObject *name = ((calls_link *)PyList_GET_ITEM(consumer->links, i))->name; /* borrowed */
        Py_ssize_t length = PyUnicode_GET_LENGTH(name);
        bool is_around = i == 0 ? !is_root(link)
                                : length < PyUnicode_GET_LENGTH(link->name) &&
                                      PyUnicode_READ_CHAR(link->name, length) == '.' &&
                                      PyUnicode_Tailmatch(link->name, name, 0, length, -1) > 0;
        depth += is_around;
    }
    return depth;
}

static calls_event event_of(const batch *in, const calls_link *link, PyObject *module)
{
    return (calls_event){ .module = module,
                          .args = in->state->calls->no_args,
                          .call = link->probed,
                          .thread = in->thread->number,
                          .depth = link->consumer->wants & CALLS_DEPTH ? depth_of(in, link) : 0,
                          .is_training = in->is_training };
}

/* An outermost module is entered before its parts, but its row comes after theirs. */
static int enter_root(const batch *in, calls_link *link, PyObject *module, const calls_probe_place *place,
                      const probe_row *Py_UNUSED(row))
{
    if (place->is_first && is_root(link) && !link->is_entered) {
        const calls_table *calls = link->consumer->calls;
        link->probed = calls_link_count(link, in->thread, calls_is_training(in->state, module), true);
        link->is_entered = true;
        calls_event event = event_of(in, link, module);
        if (calls->probed == NULL && calls->before != NULL && !link->consumer->is_off)
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
    if (place->is_input || calls->after == NULL)
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
        link->probed = calls_link_count(link, in->thread, in->is_training, false);
    if (place->is_first)
        link->is_entered = false;
    if (!hears(link) || link->consumer->is_off)
        return 0;
    calls_event event = event_of(in, link, module);
    if (link->consumer->wants & CALLS_TIME) /* when it began is not known */
        event.start = event.end = monotonic_of(row->time);
    if (link->consumer->calls->probed == NULL)
        return replay(in, link, place, row, &event);
    return link->consumer->calls->probed(link->consumer, link, &event, place, row);
}

/* The phase of rows that no eager call is around: the flag of the outermost module that is watched. */
static int read_phase(const batch *in, calls_link *link, PyObject *module,
                      const calls_probe_place *Py_UNUSED(place), const probe_row *Py_UNUSED(row))
{
    PyObject *links = link->consumer->links, *root = NULL; /* borrowed; owned */
    calls_link *first = links != NULL ? (calls_link *)PyList_GET_ITEM(links, 0) : link;
    (void)PyWeakref_GetRef(first->module, &root);
    ((batch *)in)->is_training = calls_is_training(in->state, root != NULL ? root : module);
    Py_XDECREF(root);
    return 0;
}

static int charge_row(const batch *in, calls_link *link, PyObject *Py_UNUSED(module),
                      const calls_probe_place *place, const probe_row *Py_UNUSED(row))
{
    if (link->consumer->calls->spent != NULL)
        link->consumer->calls->spent(link->consumer, link, place, in->spent);
    return 0;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Delivers a row, and what it has taken if that is known. */
static int deliver(batch *in, const probe_row *row)
{
    int64_t start = row->cost != 0 ? now() : 0;
    int result = for_links(in, row, tell_row);
    if (start == 0)
        return result;
    PyObject *raised = PyErr_GetRaisedException(); /* owned */
    in->spent = row->cost + in->share + now() - start;
    (void)for_links(in, row, charge_row);
    PyErr_SetRaisedException(raised);
    return result;
}

static bool is_gradient(const calls_state *calls, const probe_row *row)
{
    calls_probe_place place;
    return place_of(calls, row->slot, &place) && place.is_gradient;
}

int calls_traced_drain(binding_state *state, bool all)
{
    calls_state *calls = state->calls;
    if (calls->objection == NULL && probe_log_is_empty())
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
    if (probe_log_is_empty())
        return 0;
    int64_t start = now();
    probe_log_take(all ? 0 : probe_log_thread(), &rows);
    if (rows.count == 0)
        return 0;
    if (thread->number == 0)
        thread->number = ++calls->thread_count;
    batch in = { .state = state,
                 .thread = thread,
                 .is_eager = thread->top != NULL,
                 .share = (now() - start) / (int64_t)rows.count };
    if (in.is_eager)
        in.is_training = thread->top->is_training;
    size_t first = 0; /* before it are gradients of the backward before: they belong to its step */
    for (; first < rows.count && is_gradient(calls, &rows.all[first]) && result == 0; first++)
        result = deliver(&in, &rows.all[first]);
    for (size_t i = first; i < rows.count && !in.is_eager; i++) {
        (void)for_links(&in, &rows.all[i], read_phase);
        (void)for_links(&in, &rows.all[i], enter_root);
    }
    for (size_t i = first; i < rows.count && result == 0; i++)
        result = deliver(&in, &rows.all[i]);
    probe_rows_free(&rows);
    return result;
}

/* listener: an outermost module has run inside compiled code, with nothing eager around it */
static void on_root(uint64_t Py_UNUSED(number))
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    if (calls_traced_drain(the_state, false) < 0)
        the_state->calls->objection = PyErr_GetRaisedException(); /* raised where Python can be told */
    PyErr_SetRaisedException(pending);
}

void calls_traced_init(binding_state *state)
{
    static const probe_listener listener = { .products = on_unknown, .root_ran = on_root };
    the_state = state;
    probe_listen(&listener);
}

/* ---- what Dynamo sees of our objects -------------------------------------- */

int calls_traced_set_call(PyTypeObject *type, PyObject *function)
{
    int result = PyDict_SetItemString(type->tp_dict, "__call__", function);
    PyType_Modified(type);
    return result;
}

/* A function that Dynamo does not trace, but another in its place. */
typedef struct hidden_object {
    PyObject_HEAD vectorcallfunc call;
    PyObject *function, *traced;      /* owned */
    _PyCFunctionFastWithKeywords run; /* of a function of this extension: one call less; else NULL */
} hidden_object;

static PyObject *hidden_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    hidden_object *hidden = (hidden_object *)self;
    if (hidden->run == NULL)
        return PyObject_Vectorcall(hidden->function, args, nargsf, kwnames);
    return hidden->run(PyCFunction_GET_SELF(hidden->function), args, PyVectorcall_NARGS(nargsf), kwnames);
}

static PyObject *hidden_doc(PyObject *self, void *Py_UNUSED(closure))
{
    return PyObject_GetAttrString(((hidden_object *)self)->function, "__doc__");
}

static PyGetSetDef hidden_getset[] = { { "__doc__", hidden_doc, NULL, NULL, NULL }, { 0 } };

static PyMemberDef hidden_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(hidden_object, call), READONLY, NULL },
    { "__wrapped__", T_OBJECT, offsetof(hidden_object, function), READONLY, NULL },
    { "traced", T_OBJECT, offsetof(hidden_object, traced), READONLY, NULL },
    { 0 },
};

BINDING_OWNS(hidden, hidden_object, function, traced)
BINDING_CLASS(calls_hidden, "tensortap._core.Hidden", hidden_object,
              BINDING_GC | BINDING_NO_NEW | Py_TPFLAGS_HAVE_VECTORCALL, { Py_tp_call, PyVectorcall_Call },
              { Py_tp_dealloc, binding_dealloc }, BINDING_GC_SLOTS(hidden),
              { Py_tp_members, hidden_members }, { Py_tp_getset, hidden_getset });

/* _hidden(function, traced, call): call(self, …) is what Dynamo finds as its __call__ */
BINDING_FUNCTION(calls_hidden)
{
    PyTypeObject *type = binding_state_of(module)->calls_hidden_type;
    if (binding_read_arguments("_hidden", 3, NULL, args, nargs, kwnames) < 0 ||
        calls_traced_set_call(type, args[2]) < 0)
        return NULL;
    hidden_object *made = (hidden_object *)type->tp_alloc(type, 0);
    if (made == NULL)
        return NULL;
    made->call = hidden_call;
    if (PyCFunction_CheckExact(args[0]) &&
        PyCFunction_GET_FLAGS(args[0]) == (METH_FASTCALL | METH_KEYWORDS))
        made->run = (_PyCFunctionFastWithKeywords)(void (*)(void))PyCFunction_GET_FUNCTION(args[0]);
    made->function = Py_NewRef(args[0]);
    made->traced = Py_NewRef(args[1]);
    return (PyObject *)made;
}

/* ModuleTap.probes: which probes the graph is to have.  Only Dynamo asks, while it traces and whenever
 * it checks its guards: so the module is compiled from now on. */
PyObject *calls_traced_probes(PyObject *self, void *Py_UNUSED(closure))
{
    calls_tap *tap = (calls_tap *)self;
    PyObject *module = NULL; /* owned */
    tap->is_traced = true;
    if (tap->announce != NULL && PyWeakref_GetRef(tap->module, &module) > 0) {
        prepare_parts(tap);
        if (calls_tap_announce(tap, module, calls_thread_here()) < 0)
            PyErr_Clear(); /* as if it had not been there */
    }
    Py_XDECREF(module);
    return PyLong_FromUnsignedLong(tap->probes);
}

/* ModuleTap.slots: the tensor that the probes of this module share; made when first asked for. */
PyObject *calls_traced_slots(PyObject *self, void *Py_UNUSED(closure))
{
    calls_tap *tap = (calls_tap *)self;
    calls_state *calls = tap->state->calls;
    tensor_view view;
    if (tap->slots != NULL || calls->make_slots == NULL)
        return Py_NewRef(tap->slots != NULL ? tap->slots : Py_None);
    PyObject *made = PyObject_CallFunction(calls->make_slots, "i", PROBE_BYTES); /* owned */
    PyObject *tensor = NULL;                                                     /* borrowed */
    int is_again = 0;
    if (made == NULL || !PyArg_ParseTuple(made, "Op", &tensor, &is_again) ||
        binding_open_view(tap->state, tensor, &view) < 0)
        goto out;
    if (view.tensor.count >= PROBE_BYTES && view.temporary == NULL) {
        tap->control = (void *)view.tensor.data;
        probe_slots_init(tap->control, tap->number);
        tap->slots = Py_NewRef(tensor);
        calls->has_slots = true;
    }
    tensor_view_close(&view);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tap->links); i++)
        if (is_again && hears(link_at(tap->links, i)))
            link_at(tap->links, i)->consumer->is_compiled_again = true;
    set_products(calls, tap);
out:
    Py_XDECREF(made);
    return tap->slots != NULL ? Py_NewRef(tap->slots) : NULL;
}
