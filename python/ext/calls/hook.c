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
    return binding_visit(self, offsetof(calls_hook, owner), offsetof(calls_hook, owner), visit, arg);
}

int calls_hook_clear(PyObject *self)
{
    Py_CLEAR(((calls_hook *)self)->owner);
    return 0;
}

PyMemberDef calls_hook_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(calls_hook, call), READONLY, NULL },
    { 0 },
};
