/* hook.h -- an object of C that torch calls as a hook.
 *
 * For forward_hooks.c and runs/watch_gradient.c.  Exists because a hook owns whom it tells, and so
 * may be part of a cycle: a bare C function could not be collected.  A hook with more to
 * know begins with a calls_hook, and sets the rest after calls_hook_make.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_CALLS_HOOK_H
#define TT_EXT_CALLS_HOOK_H

#include "binding/type.h"

typedef struct calls_hook {
    PyObject_HEAD vectorcallfunc call;
    PyObject *owner; /* owned; NULL: it tells nobody */
} calls_hook;

/* A hook of this type, as large as its spec says; or NULL with an exception.  Takes a
 * reference of its own to the owner, which may be NULL. */
calls_hook *calls_hook_make(PyTypeObject *type, vectorcallfunc call, PyObject *owner);

int calls_hook_traverse(PyObject *self, visitproc visit, void *arg);
int calls_hook_clear(PyObject *self);
extern PyMemberDef calls_hook_members[];

/* Defines noun_spec of a class of hooks. */
#define CALLS_HOOK_CLASS(noun, full_name, object, ...)                                               \
    BINDING_CLASS(noun, full_name, object, BINDING_GC | BINDING_NO_NEW | Py_TPFLAGS_HAVE_VECTORCALL, \
                  { Py_tp_call, PyVectorcall_Call }, { Py_tp_dealloc, binding_dealloc },             \
                  BINDING_GC_SLOTS(calls_hook), { Py_tp_members, calls_hook_members }, __VA_ARGS__)

#endif
