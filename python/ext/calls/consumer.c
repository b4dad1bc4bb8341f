/* consumer.c -- ModuleConsumer: Python functions that get the events of module calls.
 *
 * For the black box, monitor's reference and the tests: each brings one function for before and one for
 * after, which get a ModuleEvent, or one that gets each tensor that a module returns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "calls/source.h"

/* ---- ModuleEvent --------------------------------------------------------- */

typedef struct event_object {
    PyObject_HEAD PyObject *name; /* owned */
    calls_event event;            /* its references are owned; NULL is None */
} event_object;

static PyObject *event_make(binding_state *state, const calls_link *link, const calls_event *event)
{
    event_object *self = PyObject_GC_New(event_object, state->calls_event_type);
    if (self == NULL)
        return NULL;
    self->name = Py_NewRef(link->name);
    self->event = *event;
    self->event.looks = NULL; /* they end with the event */
    Py_INCREF(event->module);
    Py_INCREF(event->args);
    Py_XINCREF(event->kwargs);
    Py_XINCREF(event->output);
    Py_XINCREF(event->exception);
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}

BINDING_OWNS(event, event_object, name, event.exception)

static PyMemberDef event_members[] = {
    { "name", T_OBJECT, offsetof(event_object, name), READONLY, NULL },
    { "module", T_OBJECT, offsetof(event_object, event.module), READONLY, NULL },
    { "args", T_OBJECT, offsetof(event_object, event.args), READONLY, NULL },
    { "kwargs", T_OBJECT, offsetof(event_object, event.kwargs), READONLY, NULL },
    { "output", T_OBJECT, offsetof(event_object, event.output), READONLY, NULL },
    { "exception", T_OBJECT, offsetof(event_object, event.exception), READONLY, NULL },
    { "call", T_UINT, offsetof(event_object, event.call), READONLY, NULL },
    { "depth", T_UINT, offsetof(event_object, event.depth), READONLY, NULL },
    { "thread", T_UINT, offsetof(event_object, event.thread), READONLY, NULL },
    { "start", T_LONGLONG, offsetof(event_object, event.start), READONLY, NULL },
    { "end", T_LONGLONG, offsetof(event_object, event.end), READONLY, NULL },
    { "training", T_BOOL, offsetof(event_object, event.is_training), READONLY, NULL },
    { "outermost", T_BOOL, offsetof(event_object, event.is_outermost), READONLY, NULL },
    { 0 },
};

BINDING_CLASS(calls_event, "tensortap._core.ModuleEvent", event_object, BINDING_GC | BINDING_NO_NEW,
              { Py_tp_doc, "One call of one module." }, { Py_tp_dealloc, binding_dealloc },
              BINDING_GC_SLOTS(event), { Py_tp_members, event_members });

/* ---- ModuleConsumer ------------------------------------------------------ */

typedef struct consumer_object {
    calls_consumer consumer;
    PyObject *before, *after, *tensor; /* owned or NULL */
    binding_state *state;
    int64_t step;
    bool raises; /* errors of the functions are the user's to see */
} consumer_object;

/* What a function returned, a new reference or NULL.  It may have changed any tensor. */
static int take_result(consumer_object *self, PyObject *result, tensor_looks *looks)
{
    if (looks != NULL)
        tensor_looks_clear(looks);
    Py_XDECREF(result);
    if (result != NULL)
        return 0;
    if (self->raises)
        return PyErr_Occurred() ? -1 : 0;
    calls_consumer_take_error(&self->consumer);
    return 0;
}

static int tell(consumer_object *self, PyObject *function, calls_link *link, const calls_event *event)
{
    PyObject *object = event_make(self->state, link, event); /* owned */
    PyObject *kept = Py_XNewRef(function);                   /* owned: it may remove itself */
    PyObject *result = object != NULL && kept != NULL ? PyObject_CallOneArg(kept, object) : NULL;
    Py_XDECREF(kept);
    Py_XDECREF(object);
    return take_result(self, result, event->looks);
}

static int tell_before(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    consumer_object *self = (consumer_object *)consumer;
    return self->before != NULL ? tell(self, self->before, link, event) : 0;
}

static int tell_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    consumer_object *self = (consumer_object *)consumer;
    return self->after != NULL ? tell(self, self->after, link, event) : 0;
}

static int tell_tensor(calls_consumer *consumer, calls_link *link, const calls_event *event,
                       const calls_path *path, const calls_observation *seen)
{
    consumer_object *self = (consumer_object *)consumer;
    PyObject *function = Py_XNewRef(self->tensor);             /* owned: it may remove itself */
    PyObject *name = PyUnicode_Concat(link->name, path->text); /* owned */
    PyObject *tensor = name != NULL ? calls_observation_value(seen) : NULL; /* owned */
    PyObject *result = NULL;
    if (tensor != NULL && function != NULL)
        result = PyObject_CallFunctionObjArgs(function, name, tensor, NULL);
    Py_XDECREF(tensor);
    Py_XDECREF(name);
    Py_XDECREF(function);
    return take_result(self, result, event->looks);
}

static uint32_t wants(calls_consumer *consumer, calls_link *Py_UNUSED(link),
                      const calls_path *Py_UNUSED(path))
{
    return consumer->is_off ? 0 : TT_PRODUCT_VALUE;
}

/* Consumers of arguments or whole outputs do not hear of modules inside compiled graphs. */
static const calls_table event_calls = { .before = tell_before, .after = tell_after };
static const calls_table tensor_calls = { .tensor = tell_tensor, .wants = wants };

static PyObject *consumer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "before", "after", "tensor", "times", "depth", "errors", "raises", NULL };
    PyObject *before = Py_None, *after = Py_None, *tensor = Py_None; /* borrowed */
    int times = 0, depth = 0, errors = 0, raises = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO$Opppp:ModuleConsumer", names, &before, &after,
                                     &tensor, &times, &depth, &errors, &raises))
        return NULL;
    PyObject *functions[] = { before, after, tensor };
    for (int i = 0; i < 3; i++) {
        if (functions[i] != Py_None && !PyCallable_Check(functions[i])) {
            PyErr_Format(PyExc_TypeError, "%s must be a function or None, not %s", names[i],
                         Py_TYPE(functions[i])->tp_name);
            return NULL;
        }
    }
    if (tensor != Py_None && (before != Py_None || after != Py_None))
        return PyErr_Format(PyExc_TypeError, "tensor cannot be given together with before or after");
    consumer_object *self = (consumer_object *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    self->before = before != Py_None ? Py_NewRef(before) : NULL;
    self->after = after != Py_None ? Py_NewRef(after) : NULL;
    self->tensor = tensor != Py_None ? Py_NewRef(tensor) : NULL;
    self->raises = raises != 0;
    uint32_t asks = CALLS_PHASE | (times ? CALLS_TIME : 0u) | (depth ? CALLS_DEPTH : 0u) |
                    (errors ? CALLS_ERRORS : 0u);
    calls_consumer_init(&self->consumer, self->tensor != NULL ? &tensor_calls : &event_calls, &self->step,
                        asks);
    return (PyObject *)self;
}

CALLS_CONSUMER_OWNS(consumer, consumer_object, tensor)

static PyMethodDef consumer_methods[] = {
    CALLS_CONSUMER_METHODS,
    { 0 },
};

static PyMemberDef consumer_members[] = {
    { "step", T_LONGLONG, offsetof(consumer_object, step), 0,
      "calls of a module are counted from 0 again when this changes" },
    CALLS_CONSUMER_MEMBERS(consumer_object),
    { 0 },
};

BINDING_CLASS(
    calls_consumer, "tensortap._core.ModuleConsumer", consumer_object, BINDING_GC,
    { Py_tp_doc,
      "ModuleConsumer(before=None, after=None, *, tensor=None, times=False, depth=False, "
      "errors=False, raises=True)\n--\n\n"
      "Tell functions when modules are called, or one function what they return.\n\n"
      "before and after get a ModuleEvent; tensor gets the name and each tensor that a module\n"
      "returns, also inside compiled graphs.  errors=True: after is also called where forward raised.\n"
      "raises=False: what the functions raise is counted and kept from the program." },
    { Py_tp_new, consumer_new }, { Py_tp_dealloc, binding_dealloc }, BINDING_GC_SLOTS(consumer),
    { Py_tp_methods, consumer_methods }, { Py_tp_members, consumer_members });
