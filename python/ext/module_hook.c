/* module_hook.c -- sees a module through forward hooks, where the slot is not ours.
 *
 * Exists for a torch without the slot, and for modules whose parent makes
 * replicas of them (DataParallel copies the slot, but calls hooks with the
 * replica).  Twenty times dearer than the slot, and it switches off fused paths:
 * never the first choice.
 * SPDX-License-Identifier: Apache-2.0 */
#include "module.h"

#include <structmember.h>

typedef struct hook_object {
    PyObject_HEAD vectorcallfunc call;
    core_state *state;
    module_link *link; /* owned */
} hook_object;

/* hook(module, args, kwargs), before forward. */
static PyObject *hook_before(PyObject *self, PyObject *const *args, size_t nargsf,
                             PyObject *Py_UNUSED(kwnames))
{
    hook_object *hook = (hook_object *)self;
    if (PyVectorcall_NARGS(nargsf) != 3 || module_source_is_inside() || hook->link == NULL)
        Py_RETURN_NONE;
    module_frame *frame = PyMem_Calloc(1, sizeof *frame);
    if (frame == NULL)
        return PyErr_NoMemory();
    frame->links = PyTuple_Pack(1, (PyObject *)hook->link);
    frame->module = args[0];
    frame->args = args[1];
    frame->kwargs = args[2];
    frame->is_heap = true;
    if (frame->links == NULL || module_frame_enter(hook->state, frame) < 0) {
        Py_XDECREF(frame->links);
        PyMem_Free(frame);
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
    hook_object *hook = (hook_object *)self;
    if (PyVectorcall_NARGS(nargsf) != 4 || module_source_is_inside() || hook->link == NULL)
        Py_RETURN_NONE;
    module_frame *frame = module_frame_of_hook((PyObject *)hook->link);
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
    output = module_frame_leave(hook->state, frame, raised == NULL ? Py_NewRef(args[3]) : NULL);
    if (raised != NULL)
        PyErr_Clear(); /* torch raises it again itself */
    Py_DECREF(frame->links);
    PyMem_Free(frame);
    bool is_fine = raised != NULL || output != NULL;
    Py_XDECREF(output);
    Py_XDECREF(raised);
    return is_fine ? Py_NewRef(Py_None) : NULL;
}

static PyObject *hook_make(core_state *state, module_link *link, vectorcallfunc call)
{
    hook_object *hook = PyObject_GC_New(hook_object, state->module_hook_type);
    if (hook == NULL)
        return NULL;
    hook->call = call;
    hook->state = state;
    hook->link = (module_link *)Py_NewRef((PyObject *)link);
    PyObject_GC_Track((PyObject *)hook);
    return (PyObject *)hook;
}

/* module.<method>(hook, with_kwargs=True[, always_call=True]) */
static PyObject *hook_register(core_state *state, module_link *link, PyObject *module, const char *method,
                               vectorcallfunc call, bool is_always)
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

int module_hook_add(core_state *state, module_link *link, PyObject *module)
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

void module_hook_remove(module_link *link)
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

static int hook_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((hook_object *)self)->link);
    return 0;
}

static int hook_clear(PyObject *self)
{
    Py_CLEAR(((hook_object *)self)->link);
    return 0;
}

static void hook_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    hook_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* What a copy or a pickle of the module gets: a hook that does nothing. */
CORE_FUNCTION(core_deaf_hook)
{
    if (read_arguments("_deaf_hook", 0, (const option[]){ { 0 } }, args, nargs, kwnames) < 0)
        return NULL;
    core_state *state = core_state_of(module);
    hook_object *hook = PyObject_GC_New(hook_object, state->module_hook_type);
    if (hook == NULL)
        return NULL;
    *hook = (hook_object){ .ob_base = hook->ob_base, .call = hook_before, .state = state };
    PyObject_GC_Track((PyObject *)hook);
    return (PyObject *)hook;
}

static PyObject *hook_deepcopy(PyObject *self, PyObject *Py_UNUSED(memo))
{
    return core_deaf_hook(PyType_GetModule(Py_TYPE(self)), NULL, 0, NULL);
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

static PyMemberDef hook_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(hook_object, call), READONLY, NULL },
    { 0 },
};

static PyType_Slot hook_slots[] = {
    { Py_tp_doc, "Tells tensortap's consumers of a call, as a forward hook." },
    { Py_tp_call, PyVectorcall_Call },
    { Py_tp_dealloc, hook_dealloc },
    { Py_tp_traverse, hook_traverse },
    { Py_tp_clear, hook_clear },
    { Py_tp_methods, hook_methods },
    { Py_tp_members, hook_members },
    { 0, NULL },
};

PyType_Spec module_hook_spec = {
    .name = "tensortap._core.ModuleHook",
    .basicsize = sizeof(hook_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = hook_slots,
};
