/* traced.c -- modules that run inside compiled graphs.
 *
 * Where a module has no hooks, Dynamo goes to forward() at once, past our object in the slot.  If the
 * module has a `forward` of its own in its __dict__, it traces nn.Module.__call__ instead, which finds our
 * object and the Python function that stands for it (compiled/module_call.py).  So each watched module gets
 * such a `forward`, which calls that of its class.  Dynamo
 * guards on that key, so that watched and unwatched modules of one class never share a graph.  It is
 * put there when the first compilation of the process begins, never before.
 *
 * That function calls the operator tensortap::probe_v1 on what the module returns: slots.c says
 * what it computes, rows.c delivers what it has seen.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "binding/state.h"
#include "calls/source.h"

#include <string.h>

calls_tap *calls_tap_numbered(const calls_state *calls, uint64_t number)
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

/* A forward that calls that of the class; NULL: that is not a plain function, the program has set one
 * on the module, or this torch would not use it. */
static PyObject *make_forward(calls_state *calls, PyObject *module, PyObject *dict)
{
    PyObject *function = _PyType_Lookup(Py_TYPE(module), calls->forward.forward); /* borrowed */
    if (calls->make_forward == NULL || function == NULL || !PyFunction_Check(function) ||
        is_graph(Py_TYPE(module)) || PyDict_GetItemWithError(dict, calls->forward.forward) != NULL ||
        PyErr_Occurred())
        return NULL;
    PyObject *method = PyObject_CallOneArg(calls->make_forward, module); /* owned */
    if (method == Py_None)
        Py_CLEAR(method);
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
    if (method == NULL || PyDict_SetItem(dict, state->calls->forward.forward, method) < 0)
        goto out;
    Py_XSETREF(tap->forward, Py_NewRef(method));
out:
    PyErr_Clear();
    Py_XDECREF(method);
    Py_XDECREF(dict);
    Py_XDECREF(module);
}

PyObject *calls_dict_with(PyObject *module, PyObject *key, const PyObject *object)
{
    PyObject *dict = object != NULL ? PyObject_GenericGetDict(module, NULL) : NULL; /* owned */
    if (dict != NULL && PyDict_GetItemWithError(dict, key) != object)
        Py_CLEAR(dict);
    PyErr_Clear();
    return dict;
}

/* module: the tap's, or a replica that has a copy of its __dict__ */
void calls_traced_take_forward(binding_state *state, const calls_tap *tap, PyObject *module)
{
    PyObject *key = state->calls->forward.forward;               /* borrowed */
    PyObject *dict = calls_dict_with(module, key, tap->forward); /* owned */
    if (dict != NULL && PyDict_DelItem(dict, key) < 0)
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
        (calls->callbacks != NULL && !is_reset) || PyDict_GET_SIZE(modules) == calls->module_count)
        return;
    if (PyDict_GetItemWithError(modules, calls->dynamo) == NULL) {
        calls->module_count = PyDict_GET_SIZE(modules);
        return;
    }
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
    if (calls != NULL && calls_tap_numbered(calls, tap->number) == tap)
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
        parts = PyObject_GetAttr(module, tap->state->calls->modules);
    tap->probes |= CALLS_OUTPUTS;
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

/* _dynamo_imported(): torch._dynamo has been imported, after a module was watched. */
BINDING_FUNCTION(calls_dynamo_imported)
{
    if (binding_read_arguments("_dynamo_imported", 0, NULL, args, nargs, kwnames) < 0)
        return NULL;
    calls_traced_listen(binding_state_of(module));
    Py_RETURN_NONE;
}

/* _begin_compiling(): Dynamo is about to trace, maybe modules of ours. */
BINDING_FUNCTION(calls_begin_compiling)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("_begin_compiling", 0, NULL, args, nargs, kwnames) < 0)
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

/* Does the module have the forward that we made, and does that only call a function of its class? */
static bool has_plain_forward(const calls_tap *tap, PyObject *module)
{
    PyObject *name = tap->state->calls->forward.forward;          /* borrowed */
    PyObject *function = _PyType_Lookup(Py_TYPE(module), name);   /* borrowed */
    PyObject *dict = calls_dict_with(module, name, tap->forward); /* owned */
    Py_XDECREF(dict);
    return dict != NULL && function != NULL && PyFunction_Check(function);
}

/* ModuleTap.probes: which probes the graph is to have, and how the module is called in it: one number, so
 * that it takes one guard.  Only Dynamo asks, while it traces and whenever
 * it checks its guards: so the module is compiled from now on. */
PyObject *calls_traced_probes(PyObject *self, void *Py_UNUSED(closure))
{
    calls_tap *tap = (calls_tap *)self;
    PyObject *module = NULL; /* owned */
    tap->is_traced = true;
    tap->state->calls->asked = tap->number;
    (void)PyWeakref_GetRef(tap->module, &module);
    if (tap->announce != NULL && module != NULL) {
        prepare_parts(tap);
        if (calls_tap_announce(tap, module, calls_thread_here()) < 0)
            PyErr_Clear(); /* as if it had not been there */
    }
    uint32_t probes = tap->probes | (tap->inner != NULL ? CALLS_IS_INNER : 0) |
                      (module != NULL && has_plain_forward(tap, module) ? CALLS_IS_PLAIN : 0);
    Py_XDECREF(module);
    return PyLong_FromUnsignedLong(probes);
}
