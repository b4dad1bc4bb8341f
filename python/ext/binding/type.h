/* type.h -- a class in a few lines.
 *
 *     typedef struct event_object {
 *         PyObject_HEAD PyObject *name, *module, *output; // owned
 *         int call;
 *     } event_object;
 *
 *     BINDING_OWNS(event, event_object, name, output)     // event_traverse() and event_clear()
 *     BINDING_CLASS(calls_event, "tensortap._core.ModuleEvent", event_object, BINDING_GC | BINDING_NO_NEW,
 *                   { Py_tp_doc, "One call of one module." }, BINDING_GC_SLOTS(event),
 *                   { Py_tp_dealloc, binding_dealloc }, { Py_tp_members, event_members })
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BINDING_TYPE_H
#define TT_EXT_BINDING_TYPE_H

#include "base/compat.h"

#include <structmember.h>

#define BINDING_GC Py_TPFLAGS_HAVE_GC
#define BINDING_NO_NEW Py_TPFLAGS_DISALLOW_INSTANTIATION
#define BINDING_FIXED Py_TPFLAGS_IMMUTABLETYPE

/* Defines noun_spec of a class, from its slots. */
#define BINDING_CLASS(noun, full_name, object, class_flags, ...)             \
    static PyType_Slot noun##_slots[] = { __VA_ARGS__, { 0, NULL } };        \
    PyType_Spec noun##_spec = { .name = full_name,                           \
                                .basicsize = sizeof(object),                 \
                                .flags = Py_TPFLAGS_DEFAULT | (class_flags), \
                                .slots = noun##_slots }

/* The same of a class whose objects end with an array: object.items[]. */
#define BINDING_VAR_CLASS(noun, full_name, object, items, class_flags, ...)  \
    static PyType_Slot noun##_slots[] = { __VA_ARGS__, { 0, NULL } };        \
    PyType_Spec noun##_spec = { .name = full_name,                           \
                                .basicsize = offsetof(object, items),        \
                                .itemsize = sizeof(*((object *)0)->items),   \
                                .flags = Py_TPFLAGS_DEFAULT | (class_flags), \
                                .slots = noun##_slots }

#define BINDING_GC_SLOTS(noun)           \
    { Py_tp_traverse, noun##_traverse }, \
    {                                    \
        Py_tp_clear, noun##_clear        \
    }

/* Defines noun_traverse() and noun_clear() of an object whose references lie next to each other in its
 * struct, from `first` to `last`. */
#define BINDING_OWNS(noun, object, first, last)                                                  \
    static int noun##_traverse(PyObject *self, visitproc visit, void *arg)                       \
    {                                                                                            \
        return binding_visit(self, offsetof(object, first), offsetof(object, last), visit, arg); \
    }                                                                                            \
    static int noun##_clear(PyObject *self)                                                      \
    {                                                                                            \
        return binding_clear(self, offsetof(object, first), offsetof(object, last));             \
    }

/* Visits the class, and the references between two offsets. */
int binding_visit(PyObject *self, size_t first, size_t last, visitproc visit, void *arg);
/* Drops the references between two offsets; returns 0. */
int binding_clear(void *self, size_t first, size_t last);

/* tp_dealloc: drops weak references and what tp_clear drops, and frees the object.  One that owns more
 * frees that first, after PyObject_GC_UnTrack(). */
void binding_dealloc(PyObject *self);

#endif
