/* slots.c -- what probes inside compiled graphs are to compute.
 *
 * Each watched module that was traced has a small tensor, which its probes share: one byte for each
 * place says what is wanted there (probe/operator.h).  The operator reads its byte, and asks here where
 * nothing is decided yet.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "calls/source.h"
#include "probe/operator.h"

#include <string.h>

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

bool calls_place_of(const calls_state *calls, int32_t slot, calls_probe_place *out)
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

bool calls_link_hears(const calls_link *link)
{
    return link->consumer != NULL && link->consumer->calls->products != NULL;
}

bool calls_link_hears_of(const calls_link *link, const calls_probe_place *place)
{
    return calls_link_hears(link) &&
           (!place->is_gradient || link->consumer->probes & CALLS_PROBE_GRADIENTS);
}

bool calls_link_is_root(const calls_link *link)
{
    PyObject *links = link->consumer->links; /* borrowed */
    return links != NULL && PyList_GET_SIZE(links) > 0 &&
           PyList_GET_ITEM(links, 0) == (const PyObject *)link;
}

static uint8_t products_at(const calls_state *calls, const calls_tap *tap, int32_t slot)
{
    calls_probe_place place;
    uint32_t products = 0;
    if (!calls_place_of(calls, slot, &place))
        return 0;
    for (Py_ssize_t i = 0; tap->links != NULL && i < PyTuple_GET_SIZE(tap->links); i++) {
        calls_link *link = calls_link_at(tap->links, i);
        if (calls_link_hears_of(link, &place))
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
        if (calls_link_hears(calls_link_at(tap->links, i)) &&
            calls_link_is_root(calls_link_at(tap->links, i)))
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
        if (calls_link_hears(calls_link_at(tap->links, i)))
            tap->probes |=
                calls_link_at(tap->links, i)->consumer->probes; /* never less: compiled code has them */
    /* The operator asks again, so that new consumers hear of places in the order in which they run. */
    if (tap->control != NULL)
        memset(((probe_slots *)tap->control)->products, PROBE_UNKNOWN, PROBE_SLOTS);
    set_products(state->calls, tap);
}

/* The operator knows neither the extension nor its state, only numbers of modules. */
static binding_state *the_state;

/* listener: what is wanted of a slot that the operator meets for the first time */
static uint8_t on_unknown(uint64_t number, int32_t slot)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    calls_tap *tap = calls_tap_numbered(the_state->calls, number);
    uint8_t products = 0;
    if (tap != NULL && tap->control != NULL) {
        products = products_at(the_state->calls, tap, slot);
        ((probe_slots *)tap->control)->products[slot] = products;
    }
    PyErr_SetRaisedException(pending);
    return products;
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
        if (is_again && calls_link_hears(calls_link_at(tap->links, i)))
            calls_link_at(tap->links, i)->consumer->is_compiled_again = true;
    set_products(calls, tap);
out:
    Py_XDECREF(made);
    return tap->slots != NULL ? Py_NewRef(tap->slots) : NULL;
}
