/* hook.c -- what all hooks of ours have in common: to be called, and to be freed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/hook.h"

#include <stddef.h>

calls_hook *calls_hook_make(PyTypeObject *type, vectorcallfunc call, PyObject *owner)
{
    calls_hook *hook = PyObject_GC_New(calls_hook, type);
    if (hook == NULL)
        return NULL;
    hook->call = call;
    hook->owner = Py_XNewRef(owner);
    PyObject_GC_Track((PyObject *)hook);
    return hook;
}

int calls_hook_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((calls_hook *)self)->owner);
    return 0;
}

int calls_hook_clear(PyObject *self)
{
    Py_CLEAR(((calls_hook *)self)->owner);
    return 0;
}

void calls_hook_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    calls_hook_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyMemberDef calls_hook_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(calls_hook, call), READONLY, NULL },
    { 0 },
};
