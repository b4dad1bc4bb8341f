/* gradient.c -- gradients of what modules return.
 *
 * An object on the output of a module, which torch calls with the gradient of that output.  It tells one
 * consumer, with the number that the call had in forward.  Inside compiled graphs a probe does the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/source.h"

/* An object, because a bare C function could not be collected: it owns a link, and may so be part of a
 * cycle. */
typedef struct gradient_hook {
    PyObject_HEAD vectorcallfunc call;
    calls_link *link; /* owned; NULL once collected */
    binding_state *state;
    const calls_path *path;
    uint32_t number, thread; /* of the call */
    bool is_training;
} gradient_hook;

/* hook(gradient); None: nobody has used the output */
static PyObject *gradient_called(PyObject *self, PyObject *const *args, size_t nargsf,
                                 PyObject *Py_UNUSED(kwnames))
{
    const gradient_hook *hook = (gradient_hook *)self;
    calls_link *link = hook->link;
    if (PyVectorcall_NARGS(nargsf) != 1 || args[0] == Py_None || link == NULL || link->consumer == NULL ||
        link->consumer->is_off)
        Py_RETURN_NONE;
    PyObject *module = NULL; /* owned; NULL: gone */
    tensor_looks looks = { .torch = &hook->state->torch };
    (void)PyWeakref_GetRef(link->module, &module);
    const calls_event event = { .module = module,
                                .args = hook->state->calls->no_args,
                                .call = hook->number,
                                .thread = hook->thread,
                                .is_training = hook->is_training,
                                .looks = &looks };
    const calls_observation seen = { .state = hook->state, .tensor = args[0], .looks = &looks };
    calls_consumer *consumer = (calls_consumer *)Py_NewRef((PyObject *)link->consumer); /* owned */
    calls_thread *thread = calls_thread_here();
    thread->inside++;
    int result = consumer->calls->tensor(consumer, link, &event, hook->path, &seen);
    thread->inside--;
    tensor_looks_clear(&looks);
    Py_DECREF(consumer);
    Py_XDECREF(module);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

void calls_gradient_await(binding_state *state, calls_link *link, const calls_event *event,
                          PyObject *output, const calls_path *path)
{
    PyTypeObject *type = state->calls_gradient_hook_type;
    calls_consumer *consumer = link->consumer;
    if (consumer->calls->wants == NULL || consumer->calls->wants(consumer, link, path) == 0)
        return;
    PyObject *needs = PyObject_GetAttrString(output, "requires_grad");                        /* owned */
    gradient_hook *hook = needs == Py_True ? (gradient_hook *)type->tp_alloc(type, 0) : NULL; /* owned */
    if (hook != NULL) {
        hook->call = gradient_called;
        hook->link = (calls_link *)Py_NewRef((PyObject *)link);
        hook->state = state;
        hook->path = path;
        hook->number = event->call;
        hook->thread = event->thread;
        hook->is_training = event->is_training;
        PyObject *handle =
            PyObject_CallMethod(output, "register_hook", "O", (PyObject *)hook); /* owned */
        Py_XDECREF(handle);
    }
    calls_consumer_take_error(consumer);
    Py_XDECREF((PyObject *)hook);
    Py_XDECREF(needs);
}

BINDING_OWNS(hook, gradient_hook, link, link)

static PyMemberDef hook_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(gradient_hook, call), READONLY, NULL },
    { 0 },
};

BINDING_CLASS(calls_gradient_hook, "tensortap._core.OutputHook", gradient_hook,
              BINDING_GC | BINDING_NO_NEW | Py_TPFLAGS_HAVE_VECTORCALL,
              { Py_tp_doc, "Passes the gradient of an output on, as a hook of torch." },
              { Py_tp_call, PyVectorcall_Call }, { Py_tp_dealloc, binding_dealloc },
              BINDING_GC_SLOTS(hook), { Py_tp_members, hook_members });
