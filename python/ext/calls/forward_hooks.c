/* forward_hooks.c -- sees a module through forward hooks, where the slot is not ours.
 *
 * Exists for a torch without the slot, and for modules whose parent makes
 * replicas of them (DataParallel copies the slot, but calls hooks with the
 * replica).  Much dearer than the slot, and it switches off fused paths:
 * never the first choice.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "calls/hook.h"
#include "calls/source.h"

typedef struct module_hook {
    calls_hook base; /* owns the link */
    binding_state *state;
} module_hook;

/* hook(module, args, kwargs), before forward. */
static PyObject *hook_before(PyObject *self, PyObject *const *args, size_t nargsf,
                             PyObject *Py_UNUSED(kwnames))
{
    const module_hook *hook = (module_hook *)self;
    if (PyVectorcall_NARGS(nargsf) != 3 || calls_source_is_inside() || hook->base.owner == NULL)
        Py_RETURN_NONE;
    calls_frame *frame = calls_frame_take(hook->state);
    if (frame == NULL)
        return PyErr_NoMemory();
    frame->links = PyTuple_Pack(1, hook->base.owner);
    frame->module = args[0];
    frame->args = args[1];
    frame->kwargs = args[2];
    frame->thread = calls_thread_here();
    frame->is_hook = true;
    if (frame->links == NULL || calls_frame_enter(hook->state, frame) < 0) {
        Py_XDECREF(frame->links);
        calls_frame_give(hook->state, frame);
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Torch calls the hook with None where forward raised; then that exception is
 * the one being handled. */
static PyObject *failure(PyObject *output)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL; /* owned */
    if (output != Py_None)
        return NULL;
    PyErr_GetExcInfo(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    if (value == Py_None)
        Py_CLEAR(value);
    return value;
}

/* hook(module, args, kwargs, output), after forward. */
static PyObject *hook_after(PyObject *self, PyObject *const *args, size_t nargsf,
                            PyObject *Py_UNUSED(kwnames))
{
    const module_hook *hook = (module_hook *)self;
    if (PyVectorcall_NARGS(nargsf) != 4 || calls_source_is_inside() || hook->base.owner == NULL)
        Py_RETURN_NONE;
    calls_frame *frame = calls_frame_of_hook(hook->base.owner);
    if (frame == NULL)
        Py_RETURN_NONE;
    /* The arguments as forward got them, not as they were before other hooks. */
    frame->module = args[0];
    frame->args = args[1];
    frame->kwargs = args[2];
    PyObject *raised = failure(args[3]); /* owned */
    PyObject *output = NULL;             /* owned */
    if (raised != NULL)
        PyErr_SetRaisedException(Py_NewRef(raised));
    output = calls_frame_leave(hook->state, frame, raised == NULL ? Py_NewRef(args[3]) : NULL);
    if (raised != NULL)
        PyErr_Clear(); /* torch raises it again itself */
    Py_DECREF(frame->links);
    calls_frame_give(hook->state, frame);
    bool is_fine = raised != NULL || output != NULL;
    Py_XDECREF(output);
    Py_XDECREF(raised);
    return is_fine ? Py_NewRef(Py_None) : NULL;
}

/* link NULL: a hook that tells nobody. */
static PyObject *hook_make(binding_state *state, calls_link *link, vectorcallfunc call)
{
    module_hook *hook =
        (module_hook *)calls_hook_make(state->calls_forward_hook_type, call, (PyObject *)link);
    if (hook != NULL)
        hook->state = state;
    return (PyObject *)hook;
}

/* module.<method>(hook, with_kwargs=True[, always_call=True]) */
static PyObject *hook_register(binding_state *state, calls_link *link, PyObject *module,
                               const char *method, vectorcallfunc call, bool is_always)
{
    PyObject *function = PyObject_GetAttrString(module, method); /* owned */
    PyObject *args = NULL, *kwargs = NULL, *handle = NULL;       /* owned */
    PyObject *hook = function != NULL ? hook_make(state, link, call) : NULL;
    if (hook == NULL)
        goto out;
    args = PyTuple_Pack(1, hook);
    kwargs = is_always ? Py_BuildValue("{sOsO}", "with_kwargs", Py_True, "always_call", Py_True)
                       : Py_BuildValue("{sO}", "with_kwargs", Py_True);
    if (args == NULL || kwargs == NULL)
        goto out;
    handle = PyObject_Call(function, args, kwargs);
out:
    Py_XDECREF(hook);
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(function);
    return handle;
}

int calls_forward_hook_add(binding_state *state, calls_link *link, PyObject *module)
{
    PyObject *before = NULL, *after = NULL; /* owned */
    before = hook_register(state, link, module, "register_forward_pre_hook", hook_before, false);
    if (before != NULL)
        after = hook_register(state, link, module, "register_forward_hook", hook_after, true);
    if (before != NULL && after != NULL)
        link->handles = PyTuple_Pack(2, before, after);
    else if (before != NULL)
        Py_XDECREF(PyObject_CallMethod(before, "remove", NULL));
    Py_XDECREF(before);
    Py_XDECREF(after);
    return link->handles != NULL ? 0 : -1;
}

void calls_forward_hook_remove(calls_link *link)
{
    PyObject *handles = link->handles; /* owned now */
    PyObject *pending = PyErr_GetRaisedException();
    link->handles = NULL;
    for (Py_ssize_t i = 0; handles != NULL && i < PyTuple_GET_SIZE(handles); i++) {
        Py_XDECREF(PyObject_CallMethod(PyTuple_GET_ITEM(handles, i), "remove", NULL));
        PyErr_Clear();
    }
    Py_XDECREF(handles);
    PyErr_SetRaisedException(pending);
}

/* ---- the type ------------------------------------------------------------ */

/* What a copy or a pickle of the module gets: a hook that does nothing. */
BINDING_FUNCTION(calls_deaf_hook)
{
    if (binding_read_arguments("_deaf_hook", 0, (const binding_option[]){ { 0 } }, args, nargs, kwnames) <
        0)
        return NULL;
    return hook_make(binding_state_of(module), NULL, hook_before);
}

static PyObject *hook_deepcopy(PyObject *self, PyObject *Py_UNUSED(memo))
{
    return calls_deaf_hook(PyType_GetModule(Py_TYPE(self)), NULL, 0, NULL);
}

static PyObject *hook_reduce(PyObject *self, PyObject *Py_UNUSED(args))
{
    PyObject *make = PyObject_GetAttrString(PyType_GetModule(Py_TYPE(self)), "_deaf_hook");
    return make != NULL ? Py_BuildValue("(N())", make) : NULL;
}

static PyMethodDef hook_methods[] = {
    { "__deepcopy__", hook_deepcopy, METH_O, NULL },
    { "__reduce__", hook_reduce, METH_NOARGS, NULL },
    { 0 },
};

CALLS_HOOK_CLASS(calls_forward_hook, "tensortap._core.ModuleHook", module_hook,
                 { Py_tp_doc, "Tells tensortap's consumers of a call, as a forward hook." },
                 { Py_tp_methods, hook_methods });
