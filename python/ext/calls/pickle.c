/* pickle.c -- keeps our object out of the pickles and copies of a module.
 *
 * nn.Module.__getstate__ leaves the slot out, but not the forward that traced.c puts beside it.  A class
 * with its own __getstate__ or __reduce__ (nn.LSTM, fx.GraphModule) may pickle the whole __dict__, and
 * nothing can remove a key from that later.  So copyreg has a reducer for such a class as long as one of its
 * modules is watched: it calls the class's own and removes our object.
 * Picklers below protocol 2 then write copyreg.__newobj__ where they wrote
 * copyreg._reconstructor; both load the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "calls/source.h"

/* The __dict__ of a module without us.  New reference. */
static PyObject *dict_without_us(const binding_state *state, PyObject *dict)
{
    PyObject *slot = state->calls->slot, *forward = state->calls->forward.forward; /* borrowed */
    PyObject *held = PyDict_GetItemWithError(dict, slot);                          /* borrowed */
    bool has_tap = held != NULL && Py_IS_TYPE(held, state->calls_tap_type);
    bool has_forward = calls_traced_is_forward(state, PyDict_GetItemWithError(dict, forward));
    if (PyErr_Occurred() || (!has_tap && !has_forward))
        return PyErr_Occurred() ? NULL : Py_NewRef(dict);
    PyObject *inner = has_tap ? ((calls_tap *)held)->inner : NULL; /* borrowed */
    PyObject *out = PyDict_Copy(dict);
    if (out != NULL &&
        ((has_forward && PyDict_DelItem(out, forward) < 0) ||
         (has_tap && (inner != NULL ? PyDict_SetItem(out, slot, inner) : PyDict_DelItem(out, slot)) < 0)))
        Py_CLEAR(out);
    return out;
}

/* obj without us, in dicts that lie at most `depth` tuples deep.  New reference. */
static PyObject *without_us(const binding_state *state, PyObject *obj, int depth)
{
    if (PyDict_CheckExact(obj))
        return dict_without_us(state, obj);
    if (!PyTuple_CheckExact(obj) || depth == 0)
        return Py_NewRef(obj);
    Py_ssize_t count = PyTuple_GET_SIZE(obj);
    PyObject *out = PyTuple_New(count);
    for (Py_ssize_t i = 0; out != NULL && i < count; i++) {
        PyObject *item = without_us(state, PyTuple_GET_ITEM(obj, i), depth - 1);
        if (item == NULL)
            Py_CLEAR(out);
        else
            PyTuple_SET_ITEM(out, i, item);
    }
    return out;
}

/* The reducer: (how to make it, arguments, state, …), as object.__reduce_ex__ gives it. */
PyObject *calls_reduce_module(PyObject *core, PyObject *module)
{
    PyObject *found = PyObject_CallMethod(module, "__reduce_ex__", "i", 2); /* owned; 2 to 5 are alike */
    PyObject *out = found != NULL ? without_us(binding_state_of(core), found, 2) : NULL;
    Py_XDECREF(found);
    return out;
}

/* Changes the number of our objects on modules of this class.  New number, or -1. */
static Py_ssize_t count_change(PyObject *counts, PyTypeObject *type, int change)
{
    PyObject *old = PyDict_GetItemWithError(counts, (PyObject *)type); /* borrowed */
    Py_ssize_t count = (old != NULL ? PyLong_AsSsize_t(old) : 0) + change;
    PyObject *number = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(count); /* owned */
    int result = number == NULL ? -1
                 : count != 0   ? PyDict_SetItem(counts, (PyObject *)type, number)
                                : PyDict_DelItem(counts, (PyObject *)type);
    Py_XDECREF(number);
    return result < 0 ? -1 : count;
}

int calls_pickle_add(binding_state *state, PyTypeObject *type, PyTypeObject **out)
{
    PyObject *reduce = NULL; /* owned */
    int result = -1;
    *out = NULL;
    if (state->calls->pickled == NULL) {
        state->calls->pickled = PyDict_New();
        state->calls->dispatch_table = binding_import("copyreg", "dispatch_table");
    }
    PyObject *counts = state->calls->pickled, *table = state->calls->dispatch_table; /* borrowed */
    if (counts == NULL || table == NULL || !PyDict_Check(table))
        goto out;
    if (PyDict_GetItemWithError(counts, (PyObject *)type) == NULL) {
        if (PyDict_GetItemWithError(table, (PyObject *)type) != NULL) {
            result = 0; /* the program's own */
            goto out;
        }
        PyObject *core = PyType_GetModule(state->calls_tap_type); /* borrowed */
        reduce = core != NULL ? PyObject_GetAttrString(core, "_reduce_module") : NULL;
        if (reduce == NULL || PyDict_SetItem(table, (PyObject *)type, reduce) < 0)
            goto out;
    }
    if (count_change(counts, type, 1) < 0)
        goto out;
    *out = (PyTypeObject *)Py_NewRef((PyObject *)type);
    result = 0;
out:
    Py_XDECREF(reduce);
    return result;
}

void calls_pickle_remove(binding_state *state, PyTypeObject *type)
{
    PyObject *counts = state->calls->pickled, *table = state->calls->dispatch_table; /* borrowed */
    if (type == NULL || counts == NULL || table == NULL) /* NULL at the end of the interpreter */
        return;
    PyObject *pending = PyErr_GetRaisedException();                      /* owned */
    PyObject *reduce = PyDict_GetItemWithError(table, (PyObject *)type); /* borrowed */
    if (count_change(counts, type, -1) == 0 && reduce != NULL && PyCFunction_Check(reduce) &&
        PyCFunction_GET_FUNCTION(reduce) == calls_reduce_module)
        PyDict_DelItem(table, (PyObject *)type);
    PyErr_Clear();
    PyErr_SetRaisedException(pending);
}
