/* forward.c -- runs a module as nn.Module._call_impl does.
 *
 * Exists because _call_impl, in Python, takes longer to find out that a module has no hooks than
 * watching takes in all (bench_watch_call.py).  If the source of the function that is running begins
 * with the statements that we know (models/call_impl.py), forward.c evaluates their condition and calls
 * forward() directly.  Everything else goes to _call_impl itself: a hook, torch.jit.trace, a `forward`
 * set on the instance, a class with its own _call_impl or __getattribute__, another function.
 *
 * Attributes of a class are looked up again only when the class has changed (its version); those of the
 * module at every call.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "calls/source.h"

void calls_forward_find(calls_forward_names *names)
{
    if (names->known != NULL)
        return;
    PyObject *function = binding_import("tensortap.models.call_impl", "known_code"); /* owned */
    names->known = function != NULL ? PyObject_CallNoArgs(function) : NULL;
    if (names->known == NULL) {
        PyErr_Clear(); /* then every module is called through _call_impl */
        names->known = Py_NewRef(Py_None);
    }
    Py_XDECREF(function);
}

/* What a class has, if Python can tell us when that changes. */
static void read_class(calls_forward_names *names, PyTypeObject *type, calls_forward_class *out)
{
    PyObject *impl = _PyType_Lookup(type, names->call_impl); /* borrowed, like the others */
    PyObject *forward = _PyType_Lookup(type, names->forward);
    PyObject *usual = _PyType_Lookup(&PyBaseObject_Type, names->getattribute);
    *out = (calls_forward_class){ .type = type };
    if (impl != NULL && PyFunction_Check(impl) && forward != NULL && PyFunction_Check(forward) &&
        _PyType_Lookup(type, names->getattribute) == usual && PyFunction_GET_CODE(impl) == names->known) {
        out->impl = impl;
        out->forward = forward;
    }
    /* Looking up gave the class its version. */
    out->version = PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

static bool is_current(const calls_forward_class *class, const PyTypeObject *type)
{
    return class->type == type && class->version != 0 && class->version == type->tp_version_tag &&
           PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_VALID_VERSION_TAG);
}

/* Are these dicts, under these names, all there and empty? */
static bool are_empty(PyObject *dict, PyObject *const *names)
{
    for (int i = 0; i < FORWARD_HOOKS; i++) {
        PyObject *hooks = PyDict_GetItemWithError(dict, names[i]); /* borrowed */
        if (hooks == NULL || !(PyODict_CheckExact(hooks) || PyDict_CheckExact(hooks)) ||
            PyDict_GET_SIZE(hooks) != 0)
            return false;
    }
    return true;
}

/* What is to be called with the module and its arguments: forward, where there are no hooks,
 * or _call_impl; borrowed.  NULL: the module has a _call_impl of its own. */
static PyObject *function_of(const calls_tap *tap, const calls_forward_class *class, PyObject *module)
{
    const binding_state *state = tap->state;
    const calls_forward_names *names = &state->calls->forward;
    PyObject *dict = PyObject_GenericGetDict(module, NULL); /* owned */
    PyObject *function = NULL;
    if (dict != NULL && PyDict_GetItemWithError(dict, names->call_impl) == NULL && !PyErr_Occurred())
        function = class->impl;
    PyObject *own = dict != NULL ? PyDict_GetItemWithError(dict, names->forward) : NULL; /* borrowed */
    if (function != NULL && *tensor_symbols_get()->tracing_state() == NULL &&
        are_empty(dict, names->hooks) && are_empty(PyFunction_GET_GLOBALS(class->impl), names->globals) &&
        (own == NULL || own == tap->forward) && !PyErr_Occurred())
        function = class->forward;
    Py_XDECREF(dict);
    PyErr_Clear();
    return function;
}

/* function(module, *args, **kwargs) */
static PyObject *call_function(PyObject *function, PyObject *module, PyObject *args, PyObject *kwargs)
{
    PyObject *few[8]; /* [0] is the module */
    PyObject **all = few;
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count >= (Py_ssize_t)(sizeof few / sizeof *few)) {
        all = PyMem_Malloc(((size_t)count + 1) * sizeof *all);
        if (all == NULL)
            return PyErr_NoMemory();
    }
    all[0] = module;
    for (Py_ssize_t i = 0; i < count; i++)
        all[i + 1] = PyTuple_GET_ITEM(args, i);
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) == 0)
        kwargs = NULL;
    Py_INCREF(function); /* it may replace itself */
    PyObject *result = PyObject_VectorcallDict(function, all, (size_t)count + 1, kwargs);
    Py_DECREF(function);
    if (all != few)
        PyMem_Free(all);
    return result;
}

PyObject *calls_forward(calls_tap *tap, PyObject *module, PyObject *args, PyObject *kwargs)
{
    const binding_state *state = tap->state;
    calls_forward_class *class = &tap->class;
    calls_forward_names *names = &state->calls->forward;
    if (!is_current(class, Py_TYPE(module)))
        read_class(names, Py_TYPE(module), class);
    PyObject *function = NULL; /* borrowed */
    if (class->forward != NULL && tensor_symbols_get()->tracing_state != NULL &&
        PyFunction_GET_CODE(class->impl) == names->known)
        function = function_of(tap, class, module);
    if (function != NULL)
        return call_function(function, module, args, kwargs);
    PyObject *bound = PyObject_GetAttr(module, names->call_impl); /* owned */
    PyObject *result = bound != NULL ? PyObject_Call(bound, args, kwargs) : NULL;
    Py_XDECREF(bound);
    return result;
}
