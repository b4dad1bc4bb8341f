/* quiet.c -- asks a tensor without anybody hearing it.
 *
 * Exists because a tensor subclass, or a TorchFunctionMode, is told of every
 * question that torch's own methods answer, and then runs code of its author.
 * Whoever watches must not be watched: see tensor_has_function_mode() for when to guard.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/view.h"

bool tensor_has_function_mode(const tensor_torch *torch)
{
    if (torch->has_mode == NULL)
        return false;
    PyObject *answer = PyCFunction_GET_FUNCTION(torch->has_mode)(NULL, NULL); /* owned */
    bool is_on = answer == Py_True;
    if (answer == NULL)
        PyErr_Clear();
    Py_XDECREF(answer);
    return is_on;
}

PyObject *tensor_quiet_enter(const tensor_torch *torch)
{
    PyObject *guard = PyObject_CallNoArgs(torch->disable_function); /* owned */
    PyObject *entered = guard != NULL ? PyObject_CallMethod(guard, "__enter__", NULL) : NULL;
    if (entered == NULL) {
        PyErr_Clear();
        Py_CLEAR(guard);
    }
    Py_XDECREF(entered);
    return guard;
}

void tensor_quiet_leave(PyObject *guard)
{
    if (guard == NULL)
        return;
    PyObject *left = PyObject_CallMethod(guard, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (left == NULL)
        PyErr_Clear();
    Py_XDECREF(left);
    Py_DECREF(guard);
}
