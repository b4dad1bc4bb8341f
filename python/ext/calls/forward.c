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

/* The forward of the module's class, if _call_impl would call nothing else; borrowed, or NULL. */
static PyObject *forward_of(const calls_tap *tap, PyObject *module)
{
    const calls_forward_names *names = &tap->state->calls->forward;
    const tensor_symbols *symbols = tensor_symbols_get();
    PyTypeObject *type = Py_TYPE(module);
    PyObject *impl = _PyType_Lookup(type, names->call_impl); /* borrowed, like the others */
    PyObject *forward = _PyType_Lookup(type, names->forward);
    PyObject *usual = _PyType_Lookup(&PyBaseObject_Type, names->getattribute);
    if (impl == NULL || !PyFunction_Check(impl) || PyFunction_GET_CODE(impl) != names->known ||
        forward == NULL || !PyFunction_Check(forward) ||
        _PyType_Lookup(type, names->getattribute) != usual || symbols->tracing_state == NULL ||
        *symbols->tracing_state() != NULL)
        return NULL;
    PyObject *dict = PyObject_GenericGetDict(module, NULL); /* owned */
    PyObject *own = dict != NULL ? PyDict_GetItemWithError(dict, names->forward) : NULL;
    bool is_plain = dict != NULL && PyDict_GetItemWithError(dict, names->call_impl) == NULL &&
                    (own == NULL || own == tap->forward) && are_empty(dict, names->hooks) &&
                    are_empty(PyFunction_GET_GLOBALS(impl), names->globals) && !PyErr_Occurred();
    Py_XDECREF(dict);
    PyErr_Clear();
    return is_plain ? forward : NULL;
}

PyObject *calls_forward(const calls_tap *tap, PyObject *module, PyObject *args, PyObject *kwargs)
{
    enum { MOST = 8 };
    PyObject *all[MOST]; /* the module and its arguments; who has more can wait for _call_impl */
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    PyObject *forward = count < MOST ? forward_of(tap, module) : NULL; /* borrowed */
    if (forward == NULL) {
        PyObject *bound = PyObject_GetAttr(module, tap->state->calls->forward.call_impl); /* owned */
        PyObject *result = bound != NULL ? PyObject_Call(bound, args, kwargs) : NULL;
        Py_XDECREF(bound);
        return result;
    }
    all[0] = module;
    for (Py_ssize_t i = 0; i < count; i++)
        all[i + 1] = PyTuple_GET_ITEM(args, i);
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) == 0)
        kwargs = NULL;
    Py_INCREF(forward); /* it may replace itself */
    PyObject *result = PyObject_VectorcallDict(forward, all, (size_t)count + 1, kwargs);
    Py_DECREF(forward);
    return result;
}
