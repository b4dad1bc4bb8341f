/* save.c -- spy_save: saves a tensor where somebody asked for it.
 *
 * Exists in C because it stays in the user's forward for good: outside of a
 * DebugContext, which is nearly always, it reads one context variable.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "spy/functions.h"

int spy_init(PyObject *module, binding_state *state)
{
    state->spy_entered = PyContextVar_New("tensortap_spy_entered", NULL);
    state->spy_method = PyUnicode_InternFromString("_save");
    if (state->spy_entered == NULL || state->spy_method == NULL)
        return -1;
    return PyModule_AddObjectRef(module, "_spy_entered", state->spy_entered);
}

/* spy_save(name, tensor, module=None, *, norm_only=False, stats_only=False) */
BINDING_FUNCTION(spy_save)
{
    binding_state *state = binding_state_of(module);
    PyObject *entered = NULL; /* owned; a tuple of contexts, or NULL */
    PyObject *result = NULL;
    if (PyContextVar_Get(state->spy_entered, NULL, &entered) < 0)
        return NULL;
    if (nargs + (kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0) < 2) {
        PyErr_SetString(PyExc_TypeError, "spy_save() needs a name and a tensor");
        goto out;
    }
    if (entered == NULL || !PyTuple_Check(entered) || PyTuple_GET_SIZE(entered) == 0) {
        result = Py_NewRef(Py_None);
        goto out;
    }
    PyObject *innermost = PyTuple_GET_ITEM(entered, PyTuple_GET_SIZE(entered) - 1); /* borrowed */
    PyObject *save = PyObject_GetAttr(innermost, state->spy_method);                /* owned */
    PyObject *saved =
        save != NULL ? PyObject_Vectorcall(save, args, (size_t)nargs, kwnames) : NULL; /* owned */
    if (saved != NULL)
        result = Py_NewRef(Py_None);
    Py_XDECREF(saved);
    Py_XDECREF(save);
out:
    Py_XDECREF(entered);
    return result;
}
