/* slots.c -- what probes inside compiled graphs are to compute.
 *
 * Each watched module that was traced has a row in a small tensor: one byte for each place says what is
 * wanted there (probe/operator.h).  The operator reads its byte, and asks here where nothing is decided
 * yet.  In a graph of the whole watched model, all modules use the rows of one tensor, because each
 * input of a graph takes guards and checks at every call.  In other graphs each module has its own,
 * because modules of one class may share such a graph.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/source.h"

#include <string.h>

/* ---- slots ----------------------------------------------------------------- */

/* false: there is no such role */
static bool read_role(PyObject *text, calls_role *out)
{
    static const char *const words[] = {
        [CALLS_INPUT] = "input", [CALLS_OUTPUT] = "output", [CALLS_GRADIENT] = "gradient"
    };
    for (int role = 0; role < CALLS_ROLES_; role++)
        if (PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, words[role]) == 0) {
            *out = (calls_role)role;
            return true;
        }
    return false;
}

/* _place(role, text, is_first, is_last) -> int: the slot of a tensor: "output", "input" or "gradient" (of
 * an output), its path in what the module returns or takes, whether it is the first or last that is probed
 * in a call; -1: too many. */
BINDING_FUNCTION(calls_probe_number)
{
    calls_state *calls = binding_state_of(module)->calls;
    PyObject *key = NULL, *number = NULL; /* owned */
    calls_role role;
    if (binding_read_arguments("_place", 4, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!read_role(args[0], &role))
        return PyErr_Format(PyExc_ValueError, "_place(): the role must be input, output or gradient");
    if (calls->probe_numbers == NULL)
        calls->probe_numbers = PyDict_New();
    key = PyTuple_Pack(4, args[0], args[1], args[2], args[3]);
    if (calls->probe_numbers != NULL && key != NULL)
        number = Py_XNewRef(PyDict_GetItemWithError(calls->probe_numbers, key));
    if (number != NULL || PyErr_Occurred())
        goto out;
    size_t slot = calls->probe_count;
    const calls_path *path = calls_path_of(&calls->paths, role, args[1]);
    if (path != NULL)
        number = slot < PROBE_SLOTS ? PyLong_FromSize_t(slot) : PyLong_FromLong(-1);
    if (number == NULL || slot == PROBE_SLOTS)
        goto out;
    if (PyDict_SetItem(calls->probe_numbers, key, number) < 0) {
        Py_CLEAR(number);
        goto out;
    }
    calls->probes[slot] =
        (calls_probe){ .path = path, .is_first = args[2] == Py_True, .is_last = args[3] == Py_True };
    calls->probe_count++;
out:
    Py_XDECREF(key);
    return number;
}

const calls_probe *calls_probe_at(const calls_state *calls, int32_t slot)
{
    return slot >= 0 && (size_t)slot < calls->probe_count ? &calls->probes[slot] : NULL;
}

/* ---- what is wanted ------------------------------------------------------ */

bool calls_link_hears(const calls_link *link)
{
    return link->consumer != NULL && link->consumer->calls->wants != NULL;
}

bool calls_link_hears_of(const calls_link *link, const calls_path *path)
{
    return calls_link_hears(link) && (link->consumer->roles & 1u << path->role) != 0;
}

bool calls_link_is_root(const calls_link *link)
{
    PyObject *links = link->consumer->links; /* borrowed */
    return links != NULL && PyList_GET_SIZE(links) > 0 &&
           PyList_GET_ITEM(links, 0) == (const PyObject *)link;
}

/* What one consumer wants of a slot.  Calls whose gradients or depths it wants are logged. */
static uint32_t wanted_by(calls_link *link, const calls_probe *probe)
{
    calls_consumer *consumer = link->consumer;
    uint32_t products = 0;
    if (!calls_link_hears(link))
        return 0;
    if (calls_link_hears_of(link, probe->path))
        products = consumer->calls->wants(consumer, link, probe->path);
    if (probe->path->role == CALLS_OUTPUT && consumer->roles & CALLS_GRADIENTS &&
        consumer->calls->wants(consumer, link, probe->path->gradient) != 0)
        products |= PROBE_SEEN;
    if (probe->is_first && consumer->wants & CALLS_ENTRY && !consumer->is_off)
        products |= PROBE_SEEN;
    return products;
}

static uint8_t products_at(const calls_state *calls, const calls_tap *tap, int32_t slot)
{
    const calls_probe *probe = calls_probe_at(calls, slot);
    uint32_t products = 0;
    for (Py_ssize_t i = 0; probe != NULL && tap->links != NULL && i < PyTuple_GET_SIZE(tap->links); i++)
        products |= wanted_by(calls_link_at(tap->links, i), probe);
    return (uint8_t)products;
}

static bool has_root(PyObject *links)
{
    for (Py_ssize_t i = 0; links != NULL && i < PyTuple_GET_SIZE(links); i++)
        if (calls_link_hears(calls_link_at(links, i)) && calls_link_is_root(calls_link_at(links, i)))
            return true;
    return false;
}

bool calls_tap_is_root(const calls_tap *tap)
{
    return has_root(tap->links);
}

/* Sets the bytes that the operator reads, for every slot that it has met. */
static void set_products(const calls_state *calls, calls_tap *tap)
{
    for (int k = 0; k < CALLS_SLOTS_; k++) {
        probe_slots *slots = tap->slots[k].control;
        if (slots == NULL)
            continue;
        slots->is_root = calls_tap_is_root(tap);
        for (size_t slot = 0; slot < calls->probe_count; slot++)
            if (slots->products[slot] != PROBE_UNKNOWN)
                slots->products[slot] = products_at(calls, tap, (int32_t)slot);
    }
}

void calls_traced_set_products(binding_state *state, const calls_consumer *consumer)
{
    for (Py_ssize_t i = 0; consumer->links != NULL && i < PyList_GET_SIZE(consumer->links); i++) {
        calls_tap *tap = ((calls_link *)PyList_GET_ITEM(consumer->links, i))->tap; /* borrowed */
        if (tap != NULL)
            set_products(state->calls, tap);
    }
}

void calls_traced_update(binding_state *state, calls_tap *tap)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tap->links); i++) {
        const calls_link *link = calls_link_at(tap->links, i);
        if (calls_link_hears(link)) /* never less: compiled code has them */
            tap->probes |=
                link->consumer->roles | (link->consumer->wants & CALLS_ENTRY ? CALLS_INPUTS : 0u);
    }
    /* The operator asks again, so that new consumers hear of places in the order in which they run. */
    for (int k = 0; k < CALLS_SLOTS_; k++)
        if (tap->slots[k].control != NULL)
            memset(tap->slots[k].control->products, PROBE_UNKNOWN, PROBE_SLOTS);
    set_products(state->calls, tap);
}

/* The operator knows neither the extension nor its state, only numbers of modules. */
static binding_state *extension_state;

/* listener: what is wanted of a slot that the operator meets for the first time */
static uint8_t on_unknown(uint64_t number, int32_t slot)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    calls_tap *tap = calls_tap_numbered(extension_state->calls, number);
    uint8_t products = tap != NULL ? products_at(extension_state->calls, tap, slot) : 0;
    for (int k = 0; tap != NULL && k < CALLS_SLOTS_; k++)
        if (tap->slots[k].control != NULL)
            tap->slots[k].control->products[slot] = products;
    PyErr_SetRaisedException(pending);
    return products;
}

/* listener: compiled code has run, with nothing eager around it */
static void on_read(bool is_all)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    if (calls_traced_drain(extension_state, is_all) < 0)
        extension_state->calls->objection =
            PyErr_GetRaisedException(); /* raised where Python can be told */
    PyErr_SetRaisedException(pending);
}

void calls_traced_init(binding_state *state)
{
    static const probe_listener listener = { .products = on_unknown, .read = on_read };
    extension_state = state;
    probe_listen(&listener);
}

/* ---- their tensors ------------------------------------------------------- */

/* A tensor with so many rows, owned; NULL without an exception: there is none, and a note of Python's says
 * why.  Dynamo asks for it while it traces the program, which must not see an error of ours. */
static PyObject *make_tensor(const calls_tap *tap, Py_ssize_t rows, char **data)
{
    calls_state *calls = tap->state->calls;
    PyObject *made = NULL, *tensor = NULL; /* owned; borrowed, then owned */
    int is_again;                          /* the code that is compiled now was compiled before */
    tensor_view view;
    if (calls->make_slots != NULL)
        made = PyObject_CallFunction(calls->make_slots, "n", rows * PROBE_BYTES);
    if (made == NULL || made == Py_None || !PyArg_ParseTuple(made, "Op", &tensor, &is_again) ||
        binding_open_view(tap->state, tensor, &view) < 0) {
        PyErr_Clear();
        Py_XDECREF(made);
        return NULL;
    }
    bool is_fine = view.tensor.count >= rows * PROBE_BYTES && view.temporary == NULL;
    *data = (char *)view.tensor.data;
    calls->has_slots |= is_fine;
    Py_INCREF(tensor);
    tensor_view_close(&view);
    Py_DECREF(made);
    /* Not because of us, if the module announced itself and had its probes then: another phase, say. */
    is_again &= !tap->is_prepared;
    for (Py_ssize_t i = 0; is_again && i < PyTuple_GET_SIZE(tap->links); i++)
        if (calls_link_hears(calls_link_at(tap->links, i)))
            calls_link_at(tap->links, i)->consumer->is_compiled_again = true;
    if (!is_fine)
        Py_CLEAR(tensor);
    return tensor;
}

static void take_row(calls_tap *tap, int which, PyObject *tensor, char *data, Py_ssize_t row)
{
    tap->slots[which] = (calls_slots){ .tensor = Py_NewRef(tensor),
                                       .control = (probe_slots *)(void *)(data + row * PROBE_BYTES),
                                       .row = (int32_t)row };
    probe_slots_init(tap->slots[which].control, tap->number);
    set_products(tap->state->calls, tap);
}

/* Makes the tensor of a module's slots: its own, or one with a row for each module that the first of its
 * consumers observes.  Rows are in the order of the modules in the model, so models of a class may share a
 * graph. */
static void make_slots(calls_tap *tap, int which)
{
    const calls_consumer *consumer = NULL; /* borrowed */
    char *data = NULL;
    for (Py_ssize_t i = 0; consumer == NULL && i < PyTuple_GET_SIZE(tap->links); i++)
        if (calls_link_hears(calls_link_at(tap->links, i)))
            consumer = calls_link_at(tap->links, i)->consumer;
    if (which == CALLS_SHARED && consumer == NULL)
        return;
    Py_ssize_t count = which == CALLS_SHARED ? PyList_GET_SIZE(consumer->links) : 1;
    PyObject *tensor = make_tensor(tap, count, &data); /* owned */
    if (tensor != NULL && which == CALLS_OWN)
        take_row(tap, which, tensor, data, 0);
    else if (tensor != NULL)
        for (Py_ssize_t i = 0; i < count && i < PyList_GET_SIZE(consumer->links); i++) {
            calls_tap *one = ((calls_link *)PyList_GET_ITEM(consumer->links, i))->tap; /* borrowed */
            if (one != NULL && one->slots[which].tensor == NULL)
                take_row(one, which, tensor, data, i);
        }
    Py_XDECREF(tensor);
}

/* ModuleTap.slots, ModuleTap.shared: the tensor that the probes of this module write to; made when first
 * asked for, or None. */
PyObject *calls_traced_tensor(PyObject *self, void *which)
{
    calls_tap *tap = (calls_tap *)self;
    const calls_slots *slots = &tap->slots[(intptr_t)which];
    if (slots->tensor == NULL)
        make_slots(tap, (int)(intptr_t)which);
    return Py_NewRef(slots->tensor != NULL ? slots->tensor : Py_None);
}

/* ModuleTap.row: Dynamo's guards ask for it before they ask for the tensor. */
PyObject *calls_traced_row(PyObject *self, void *Py_UNUSED(closure))
{
    PyObject *shared = calls_traced_tensor(self, (void *)CALLS_SHARED); /* owned */
    Py_XDECREF(shared);
    return shared != NULL ? PyLong_FromLong(((calls_tap *)self)->slots[CALLS_SHARED].row) : NULL;
}

/* Does an eager call of an outermost module go on in this thread, and is this the code of its forward? */
static bool is_forward_of_root(const calls_state *calls, const PyObject *code)
{
    const calls_frame *frame = calls_thread_here()->top;
    PyObject *function = frame != NULL && has_root(frame->links)
                             ? _PyType_Lookup(Py_TYPE(frame->module), calls->forward.forward)
                             : NULL; /* borrowed */
    return function != NULL && PyFunction_Check(function) && PyFunction_GET_CODE(function) == code;
}

/* _begins_whole(code) -> bool: is a whole watched model traced, from the module whose probes Dynamo has read
 * last, or in a frame with this code? */
BINDING_FUNCTION(calls_begins_whole)
{
    calls_state *calls = binding_state_of(module)->calls;
    if (binding_read_arguments("_begins_whole", 1, NULL, args, nargs, kwnames) < 0)
        return NULL;
    const calls_tap *tap = calls_tap_numbered(calls, calls->asked);
    return PyBool_FromLong((tap != NULL && calls_tap_is_root(tap)) || is_forward_of_root(calls, args[0]));
}
