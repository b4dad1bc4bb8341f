/* forward.c -- runs a module as nn.Module._call_impl does.
 *
 * Exists because _call_impl, in Python, takes longer to find out that a module has no hooks than
 * watching takes in all (bench_watch_call.py).  If the source of the function that is running begins
 * with the statements that we know (models/call_impl.py), forward.c evaluates their condition and calls
 * forward() directly.  Everything else goes to _call_impl itself: a hook, torch.jit.trace, a `forward`
 * set on the instance, a class with its own _call_impl or __getattribute__, another function.
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
 * or _call_impl; borrowed.  NULL: the module has a way of its own. */
static PyObject *way_of(const calls_tap *tap, PyObject *module)
{
    const calls_forward_names *names = &tap->state->calls->forward;
    const tensor_symbols *symbols = tensor_symbols_get();
    PyTypeObject *type = Py_TYPE(module);
    PyObject *impl = _PyType_Lookup(type, names->call_impl); /* borrowed, like the others */
    PyObject *forward = _PyType_Lookup(type, names->forward);
    PyObject *usual = _PyType_Lookup(&PyBaseObject_Type, names->getattribute);
    PyObject *way = NULL;
    if (impl == NULL || !PyFunction_Check(impl) || PyFunction_GET_CODE(impl) != names->known ||
        forward == NULL || !PyFunction_Check(forward) ||
        _PyType_Lookup(type, names->getattribute) != usual || symbols->tracing_state == NULL)
        return NULL;
    PyObject *dict = PyObject_GenericGetDict(module, NULL); /* owned */
    if (dict != NULL && PyDict_GetItemWithError(dict, names->call_impl) == NULL && !PyErr_Occurred())
        way = impl;
    PyObject *own = dict != NULL ? PyDict_GetItemWithError(dict, names->forward) : NULL;
    if (way != NULL && *symbols->tracing_state() == NULL && are_empty(dict, names->hooks) &&
        are_empty(PyFunction_GET_GLOBALS(impl), names->globals) && (own == NULL || own == tap->forward) &&
        !PyErr_Occurred())
        way = forward;
    Py_XDECREF(dict);
    PyErr_Clear();
    return way;
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

PyObject *calls_forward(const calls_tap *tap, PyObject *module, PyObject *args, PyObject *kwargs)
{
    PyObject *way = way_of(tap, module); /* borrowed */
    if (way != NULL)
        return call_function(way, module, args, kwargs);
    PyObject *bound = PyObject_GetAttr(module, tap->state->calls->forward.call_impl); /* owned */
    PyObject *result = bound != NULL ? PyObject_Call(bound, args, kwargs) : NULL;
    Py_XDECREF(bound);
    return result;
}
