/* parameters.c -- the parameters of a model, in a list that is prepared once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/parameters.h"

#include "calls/source.h"

enum { AHEAD = 2 }; /* parameters, to be fetched */

void *calls_parameters_at(const calls_parameters *self, Py_ssize_t index)
{
    return self->all + (size_t)index * self->size;
}

void calls_parameters_free(calls_parameters *self)
{
    calls_parameters old = *self; /* owned now */
    *self = (calls_parameters){ 0 };
    for (Py_ssize_t i = 0; i < old.count; i++)
        binding_clear(calls_parameters_at(&old, i), offsetof(calls_parameter, tensor),
                      offsetof(calls_parameter, name));
    PyMem_Free(old.all);
}

int calls_parameters_set(calls_parameters *self, PyObject *list, size_t size, calls_parameter_read *read,
                         void *context)
{
    calls_parameters_free(self);
    if (!PyList_Check(list)) {
        PyErr_Format(PyExc_TypeError, "set_parameters() takes a list of tuples, not %.100s",
                     Py_TYPE(list)->tp_name);
        return -1;
    }
    Py_ssize_t count = PyList_GET_SIZE(list);
    self->size = size;
    self->all = PyMem_Calloc((size_t)count + 1, size);
    if (self->all == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (self->count < count) {
        Py_ssize_t i = self->count++; /* from here on it is freed */
        if (read(context, calls_parameters_at(self, i), PyList_GET_ITEM(list, i)) < 0)
            return -1;
    }
    return 0;
}

PyObject *calls_parameter_get(binding_state *state, const calls_parameter *parameter)
{
    PyObject *module = NULL, *dict = NULL; /* owned */
    PyObject *found = NULL;
    if (parameter->tensor != NULL)
        return Py_NewRef(parameter->tensor);
    if (PyWeakref_GetRef(parameter->module, &module) <= 0)
        return NULL; /* gone */
    dict = PyObject_GenericGetDict(module, NULL);
    PyObject *table = dict != NULL
                          ? PyDict_GetItemWithError(dict, parameter->is_buffer ? state->calls->buffers
                                                                               : state->calls->parameters)
                          : NULL;
    if (table != NULL && PyDict_Check(table))
        found = Py_XNewRef(PyDict_GetItemWithError(table, parameter->key));
    if (found != NULL && !tensor_torch_is_tensor(&state->torch, found))
        Py_CLEAR(found); /* None: registered, but not there */
    PyErr_Clear();
    Py_XDECREF(dict);
    Py_DECREF(module);
    return found;
}

int calls_parameters_each(binding_state *state, const calls_parameters *self, const int32_t *indices,
                          Py_ssize_t count, calls_parameter_visit *visit, void *context)
{
    int result = 0;
    for (Py_ssize_t i = 0; i < count && result == 0; i++) {
        Py_ssize_t at = indices != NULL ? indices[i] : i;
        if (at < 0 || at >= self->count) /* visit may have made the list anew */
            continue;
        if (at + AHEAD < self->count)
            __builtin_prefetch(((calls_parameter *)calls_parameters_at(self, at + AHEAD))->tensor);
        PyObject *tensor = calls_parameter_get(state, calls_parameters_at(self, at)); /* owned */
        result = visit(context, calls_parameters_at(self, at), at, tensor);
        Py_XDECREF(tensor);
    }
    return result;
}
