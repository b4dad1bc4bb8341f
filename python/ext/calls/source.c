/* source.c -- puts consumers on modules, and takes them off again.
 *
 * Exists apart from the call itself because it has the rules: the slot is ours
 * only while it holds our object, a module is held weakly, a copy or a pickle
 * of a module has nothing of us in it, and the last consumer to go leaves the
 * module as it was.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/source.h"
#include "base/error.h"
#include "binding/state.h"
#include "binding/type.h"

#include <string.h>

static const struct {
    size_t at;
    const char *text;
} interned[] = {
    { offsetof(calls_state, slot), "_compiled_call_impl" },
    { offsetof(calls_state, training), "training" },
    { offsetof(calls_state, self), "self" },
    { offsetof(calls_state, parameters), "_parameters" },
    { offsetof(calls_state, buffers), "_buffers" },
    { offsetof(calls_state, modules), "_modules" },
    { offsetof(calls_state, dynamo), "torch._dynamo" },
    { offsetof(calls_state, pipelining), "torch.distributed.pipelining" },
    { offsetof(calls_state, forward.call_impl), "_call_impl" },
    { offsetof(calls_state, forward.forward), "forward" },
    { offsetof(calls_state, forward.getattribute), "__getattribute__" },
    { offsetof(calls_state, forward.hooks[0]), "_backward_hooks" },
    { offsetof(calls_state, forward.hooks[1]), "_backward_pre_hooks" },
    { offsetof(calls_state, forward.hooks[2]), "_forward_hooks" },
    { offsetof(calls_state, forward.hooks[3]), "_forward_pre_hooks" },
    { offsetof(calls_state, forward.globals[0]), "_global_backward_pre_hooks" },
    { offsetof(calls_state, forward.globals[1]), "_global_backward_hooks" },
    { offsetof(calls_state, forward.globals[2]), "_global_forward_hooks" },
    { offsetof(calls_state, forward.globals[3]), "_global_forward_pre_hooks" },
};

void calls_state_clear(calls_state *calls)
{
    binding_clear(calls, offsetof(calls_state, slot), offsetof(calls_state, callbacks));
    calls->tap_count = calls->probe_count = 0;
    calls_paths_clear(&calls->paths);
}

void calls_state_free(calls_state *calls)
{
    if (calls != NULL) {
        calls_state_clear(calls);
        PyMem_Free(calls->taps);
    }
    PyMem_Free(calls);
}

calls_state *calls_state_create(void)
{
    calls_state *calls = PyMem_Calloc(1, sizeof *calls);
    if (calls == NULL)
        PyErr_NoMemory();
    for (size_t i = 0; calls != NULL && i < sizeof interned / sizeof *interned; i++) {
        PyObject *name = PyUnicode_InternFromString(interned[i].text); /* owned, then the state's */
        if (name != NULL) {
            memcpy((char *)calls + interned[i].at, &name, sizeof name);
        } else {
            calls_state_free(calls);
            calls = NULL;
        }
    }
    if (calls != NULL && (calls->no_args = PyTuple_New(0)) == NULL) {
        calls_state_free(calls);
        calls = NULL;
    }
    return calls;
}

/* ---- consumers ----------------------------------------------------------- */

void calls_consumer_init(calls_consumer *self, const calls_table *calls, const int64_t *step,
                         uint32_t wants)
{
    self->calls = calls;
    self->step = step;
    self->wants = wants;
    self->roles = calls->tensor != NULL ? CALLS_OUTPUTS : 0;
}

void calls_consumer_take_error(calls_consumer *self)
{
    PyObject *error = base_error_take(); /* owned */
    if (error == NULL)
        return;
    self->errors++;
    if (self->error == NULL) {
        PyException_SetTraceback(error, Py_None); /* its frames would keep tensors alive */
        self->error = Py_NewRef(error);
    }
    Py_DECREF(error);
}

/* A link that has lost its consumer delivers nothing, wherever it still hangs. */
static void link_cut(calls_link *link)
{
    Py_CLEAR(link->consumer);
}

PyObject *calls_consumer_unseen(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *links = ((calls_consumer *)self)->links; /* borrowed */
    PyObject *names = PyList_New(0);                   /* owned */
    for (Py_ssize_t i = 0; names != NULL && links != NULL && i < PyList_GET_SIZE(links); i++) {
        const calls_link *link = (calls_link *)PyList_GET_ITEM(links, i);
        if (link->calls_ever == 0 && PyList_Append(names, link->name) < 0)
            Py_CLEAR(names);
    }
    return names;
}

PyObject *calls_consumer_add(PyObject *self, PyObject *args)
{
    PyObject *module, *name; /* borrowed */
    if (!PyArg_ParseTuple(args, "OU:add", &module, &name) ||
        calls_source_add(PyType_GetModuleState(Py_TYPE(self)), (calls_consumer *)self, module, name) < 0)
        return NULL;
    Py_RETURN_NONE;
}

void calls_consumer_clear(calls_consumer *self)
{
    PyObject *links = self->links; /* owned now */
    self->links = NULL;
    if (links == NULL)
        return;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(links); i++)
        link_cut((calls_link *)PyList_GET_ITEM(links, i));
    Py_DECREF(links);
}

/* ---- links --------------------------------------------------------------- */

BINDING_OWNS(link, calls_link, consumer, consumer)

static void link_dealloc(PyObject *self)
{
    calls_link *link = (calls_link *)self;
    PyObject_GC_UnTrack(self);
    if (link->data != NULL && link->free_data != NULL)
        link->free_data(link->data);
    Py_CLEAR(link->module);
    Py_CLEAR(link->name);
    PyMem_Free(link->awaited);
    binding_dealloc(self);
}

static calls_link *link_make(binding_state *state, calls_consumer *consumer, PyObject *module,
                             PyObject *name)
{
    calls_link *link = (calls_link *)state->calls_link_type->tp_alloc(state->calls_link_type, 0);
    if (link == NULL)
        return NULL;
    link->consumer = (calls_consumer *)Py_NewRef((PyObject *)consumer);
    link->module = PyWeakref_NewRef(module, NULL);
    link->name = Py_NewRef(name);
    link->free_data = consumer->calls->free_data;
    if (link->module == NULL)
        Py_CLEAR(link);
    return link;
}

BINDING_CLASS(calls_link, "tensortap._core.ModuleLink", calls_link, BINDING_GC | BINDING_NO_NEW,
              { Py_tp_doc, "One consumer on one module." }, { Py_tp_dealloc, link_dealloc },
              BINDING_GC_SLOTS(link));

/* ---- add and remove ------------------------------------------------------ */

static bool is_last(PyObject *link)
{
    const calls_consumer *consumer = ((calls_link *)link)->consumer;
    return consumer != NULL && consumer->wants & CALLS_LAST;
}

/* The tuple with a link: those of consumers that are told last stay behind it.  NULL with an exception. */
static PyObject *tuple_with(PyObject *links, calls_link *link)
{
    PyObject *list = PySequence_List(links); /* owned */
    Py_ssize_t place = PyTuple_GET_SIZE(links);
    while (!is_last((PyObject *)link) && place > 0 && is_last(PyTuple_GET_ITEM(links, place - 1)))
        place--;
    PyObject *out =
        list != NULL && PyList_Insert(list, place, (PyObject *)link) == 0 ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return out;
}

/* The tuple without a link; NULL with an exception if it is not there. */
static PyObject *tuple_without(PyObject *links, calls_link *link)
{
    PyObject *list = PySequence_List(links); /* owned */
    Py_ssize_t place = list != NULL ? PySequence_Index(list, (PyObject *)link) : -1;
    PyObject *out =
        place >= 0 && PyList_SetSlice(list, place, place + 1, NULL) == 0 ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return out;
}

/* The index in consumer->links of its link on this module; -1: none. */
static Py_ssize_t link_find(const calls_consumer *consumer, PyObject *module)
{
    Py_ssize_t i = consumer->links != NULL ? PyList_GET_SIZE(consumer->links) : 0;
    while (--i >= 0)
        if (base_weakref_is(((calls_link *)PyList_GET_ITEM(consumer->links, i))->module, module))
            break;
    return i;
}

calls_tap *calls_tap_of(binding_state *state, PyObject *module, bool makes)
{
    if (makes)
        calls_forward_find(&state->calls->forward);                       /* first: it runs Python code */
    PyObject *none = _PyType_Lookup(Py_TYPE(module), state->calls->slot); /* borrowed */
    PyObject *dict = PyObject_GenericGetDict(module, NULL);               /* owned */
    calls_tap *tap = NULL;
    if (dict == NULL)
        goto out;
    PyObject *held = PyDict_GetItemWithError(dict, state->calls->slot); /* borrowed */
    if (held == NULL && PyErr_Occurred())
        goto out;
    if (held != NULL && Py_IS_TYPE(held, state->calls_tap_type)) {
        if (base_weakref_is(((calls_tap *)held)->module, module)) {
            tap = (calls_tap *)Py_NewRef(held);
            goto out;
        }
        held = ((calls_tap *)held)->inner; /* another module's, in a copy of its __dict__ */
    }
    if (!makes || none != Py_None)
        goto out;
    tap = (calls_tap *)state->calls_tap_type->tp_alloc(state->calls_tap_type, 0);
    if (tap == NULL)
        goto out;
    tap->core = Py_XNewRef(PyType_GetModule(state->calls_tap_type));
    tap->state = state;
    tap->module = PyWeakref_NewRef(module, NULL);
    tap->links = PyTuple_New(0);
    tap->inner = held != Py_None ? Py_XNewRef(held) : NULL;
    if (tap->core == NULL || tap->module == NULL || tap->links == NULL ||
        calls_pickle_add(state, Py_TYPE(module), &tap->pickled) < 0 ||
        PyDict_SetItem(dict, state->calls->slot, (PyObject *)tap) < 0 || !calls_traced_add(state, tap))
        Py_CLEAR(tap);
out:
    Py_XDECREF(dict);
    return tap;
}

/* Takes a tap that nobody needs any more out of its module's slot. */
static void tap_take_out_if_idle(binding_state *state, calls_tap *tap, PyObject *module)
{
    if (tap->announce != NULL || PyTuple_GET_SIZE(tap->links) != 0 || tap->is_traced)
        return; /* without it, what is compiled would be compiled again */
    calls_traced_take_forward(state, tap, module);
    Py_CLEAR(tap->forward);
    PyObject *dict = calls_dict_with(module, state->calls->slot, (PyObject *)tap); /* owned */
    if (dict != NULL && tap->inner != NULL)
        PyDict_SetItem(dict, state->calls->slot, tap->inner);
    else if (dict != NULL)
        PyDict_DelItem(dict, state->calls->slot);
    Py_XDECREF(dict);
}

/* _announce(module, function, evaluation=False) */
BINDING_FUNCTION(calls_announce)
{
    binding_state *state = binding_state_of(module);
    bool has_evaluation = false;
    const binding_option options[] = { { "evaluation", OPTION_BOOL, &has_evaluation }, { 0 } };
    if (binding_read_arguments("_announce", 2, options, args, nargs, kwnames) < 0)
        return NULL;
    PyObject *function = args[1] != Py_None ? args[1] : NULL;        /* borrowed */
    calls_tap *tap = calls_tap_of(state, args[0], function != NULL); /* owned */
    if (tap != NULL) {
        tap->announces_all = has_evaluation;
        Py_XSETREF(tap->announce, Py_XNewRef(function));
        tap_take_out_if_idle(state, tap, args[0]);
        Py_DECREF(tap);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* _set_traced_call(function, listen, make_slots, make_forward, make_tensor): function is what Dynamo finds when
 * it looks a tap's __call__ up, to trace it.  Calls themselves do not: they go through tp_call, which stays
 * ours.  The others are traced.c's. */
BINDING_FUNCTION(calls_set_traced_call)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("_set_traced_call", 5, NULL, args, nargs, kwnames) < 0 ||
        calls_traced_set_call(state->calls_tap_type, args[0]) < 0)
        return NULL;
    Py_XSETREF(state->calls->listen, Py_NewRef(args[1]));
    Py_XSETREF(state->calls->make_slots, Py_NewRef(args[2]));
    Py_XSETREF(state->calls->make_forward, Py_NewRef(args[3]));
    Py_XSETREF(state->calls->make_tensor, Py_NewRef(args[4]));
    calls_traced_init(state);
    Py_RETURN_NONE;
}

int calls_source_add(binding_state *state, calls_consumer *consumer, PyObject *module, PyObject *name)
{
    if (link_find(consumer, module) >= 0)
        return 0;
    (void)tensor_torch_find(&state->torch); /* the first call has tensors to find already */
    if (consumer->links == NULL && (consumer->links = PyList_New(0)) == NULL)
        return -1;
    calls_link *link = link_make(state, consumer, module, name);              /* owned */
    calls_tap *tap = link != NULL ? calls_tap_of(state, module, true) : NULL; /* owned */
    PyObject *links = tap != NULL ? tuple_with(tap->links, link) : NULL;      /* owned */
    bool is_added = links != NULL && PyList_Append(consumer->links, (PyObject *)link) == 0;
    if (is_added) {
        Py_SETREF(tap->links, Py_NewRef(links));
        link->tap = tap;
        calls_traced_update(state, tap);
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError,
                     "calls of %s cannot be seen: it is no nn.Module of torch 2.6 or later",
                     Py_TYPE(module)->tp_name);
    }
    if (!is_added && link != NULL)
        link_cut(link);
    Py_XDECREF(links);
    Py_XDECREF(tap);
    Py_XDECREF(link);
    return is_added ? 0 : -1;
}

/* Takes a link off its module; errors are nobody's business here. */
static void link_take_off(binding_state *state, calls_link *link)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    PyObject *module = NULL;                        /* owned; NULL: gone */
    (void)PyWeakref_GetRef(link->module, &module);
    calls_tap *tap = module != NULL ? (calls_tap *)Py_XNewRef((PyObject *)link->tap) : NULL; /* owned */
    PyObject *links = tap != NULL ? tuple_without(tap->links, link) : NULL;
    if (links != NULL) {
        Py_SETREF(tap->links, links);
        calls_traced_update(state, tap);
        tap_take_out_if_idle(state, tap, module);
    }
    Py_XDECREF(tap);
    link_cut(link);
    PyErr_Clear();
    PyErr_SetRaisedException(pending);
    Py_XDECREF(module);
}

void calls_source_remove_all(binding_state *state, calls_consumer *consumer)
{
    PyObject *links = consumer->links; /* owned now */
    consumer->links = NULL;
    if (links == NULL)
        return;
    Py_INCREF(consumer);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(links); i++)
        link_take_off(state, (calls_link *)PyList_GET_ITEM(links, i));
    Py_DECREF(links);
    Py_DECREF(consumer);
}

/* remove(module=None); one that never had this consumer, or is gone, is fine. */
PyObject *calls_consumer_remove(PyObject *self, PyObject *args)
{
    binding_state *state = PyType_GetModuleState(Py_TYPE(self));
    calls_consumer *consumer = (calls_consumer *)self;
    PyObject *module = Py_None; /* borrowed */
    if (!PyArg_ParseTuple(args, "|O:remove", &module))
        return NULL;
    if (module == Py_None) {
        calls_source_remove_all(state, consumer);
        Py_RETURN_NONE;
    }
    Py_ssize_t at = link_find(consumer, module);
    if (at < 0)
        Py_RETURN_NONE;
    PyObject *link = Py_NewRef(PyList_GET_ITEM(consumer->links, at)); /* owned */
    int result = PySequence_DelItem(consumer->links, at);
    link_take_off(state, (calls_link *)link);
    Py_DECREF(link);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- the object in the slot ---------------------------------------------- */

static int tap_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((calls_tap *)self)->core);
    return binding_visit(self, offsetof(calls_tap, links), offsetof(calls_tap, pickled), visit, arg);
}

static int tap_clear(PyObject *self)
{
    PyObject *links = ((calls_tap *)self)->links; /* borrowed */
    for (Py_ssize_t i = 0; links != NULL && i < PyTuple_GET_SIZE(links); i++) {
        calls_link *link = (calls_link *)PyTuple_GET_ITEM(links, i);
        if (link->tap == (calls_tap *)self)
            link->tap = NULL;
    }
    return binding_clear(self, offsetof(calls_tap, links), offsetof(calls_tap, announce));
}

/* module.compile() has just put a function in our place: puts an object of ours around it. */
static void tap_return(const calls_tap *old)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    PyObject *module = NULL;                        /* owned */
    calls_tap *tap = NULL;                          /* owned */
    bool is_needed = old->links != NULL && (PyTuple_GET_SIZE(old->links) > 0 || old->announce != NULL);
    if (is_needed && PyWeakref_GetRef(old->module, &module) > 0)
        tap = calls_tap_of(old->state, module, true);
    if (tap != NULL) {
        Py_SETREF(tap->links, Py_NewRef(old->links));
        tap->announces_all = old->announces_all;
        Py_XSETREF(tap->announce, Py_XNewRef(old->announce));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tap->links); i++)
            ((calls_link *)PyTuple_GET_ITEM(tap->links, i))->tap = tap;
        calls_traced_update(old->state, tap);
    }
    PyErr_Clear();
    Py_XDECREF(tap);
    Py_XDECREF(module);
    PyErr_SetRaisedException(pending);
}

static void tap_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    tap_return((calls_tap *)self);
    calls_traced_remove((calls_tap *)self);
    tap_clear(self);
    for (int k = 0; k < CALLS_SLOTS_; k++)
        Py_CLEAR(((calls_tap *)self)->slots[k].tensor);
    Py_CLEAR(((calls_tap *)self)->module);
    PyMem_Free(((calls_tap *)self)->spare);
    for (int role = CALLS_INPUT; role <= CALLS_OUTPUT; role++)
        calls_cache_clear(&((calls_tap *)self)->found[role], NULL);
    calls_pickle_remove(((calls_tap *)self)->state, ((calls_tap *)self)->pickled);
    Py_CLEAR(((calls_tap *)self)->pickled);
    Py_CLEAR(((calls_tap *)self)->core);
    binding_dealloc(self);
}

/* For those who copy or pickle a module's __dict__ itself: the slot is empty then. */
static PyObject *tap_deepcopy(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(memo))
{
    Py_RETURN_NONE;
}

static PyObject *tap_reduce(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args))
{
    return Py_BuildValue("(O())", (PyObject *)Py_TYPE(Py_None));
}

static PyMethodDef tap_methods[] = {
    { "__deepcopy__", tap_deepcopy, METH_O, NULL },
    { "__copy__", tap_deepcopy, METH_NOARGS, NULL },
    { "__reduce__", tap_reduce, METH_NOARGS, NULL },
    { "__reduce_ex__", tap_reduce, METH_O, NULL },
    { 0 },
};

static PyMemberDef tap_members[] = {
    { "module", T_OBJECT, offsetof(calls_tap, module), READONLY, "weak reference" },
    { "inner", T_OBJECT, offsetof(calls_tap, inner), READONLY, "what module.compile() had put here" },
    { "traced", T_BOOL, offsetof(calls_tap, is_traced), READONLY, "a compiled graph has called it" },
    { 0 },
};

static PyGetSetDef tap_getset[] = {
    { "probes", calls_traced_probes, NULL, "which probes torch.compile is to put into a graph", NULL },
    { "slots", calls_traced_tensor, NULL, "the tensor that its probes write to", (void *)CALLS_OWN },
    { "shared", calls_traced_tensor, NULL, "the one of all modules that are watched with it, or None",
      (void *)CALLS_SHARED },
    { "row", calls_traced_row, NULL, "its row of that tensor", NULL },
    { 0 },
};

BINDING_CLASS(calls_tap, "tensortap._core.ModuleTap", calls_tap, BINDING_GC | BINDING_NO_NEW,
              { Py_tp_doc, "Calls a module and tells tensortap's consumers." },
              { Py_tp_call, calls_tap_call }, { Py_tp_dealloc, tap_dealloc }, BINDING_GC_SLOTS(tap),
              { Py_tp_methods, tap_methods }, { Py_tp_members, tap_members },
              { Py_tp_getset, tap_getset });
