/* tracer.c -- the class PathTracer: the engine of tensortap.trace.
 *
 * Python says once which names of which code and modules are wanted, and is called only for a value
 * that must be kept and when a gather is due.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/type.h"
#include "trace/engine.h"

static trace_tracer *tracer_of(PyObject *self)
{
    return (trace_tracer *)self;
}

/* ---- life ---------------------------------------------------------------------- */

/* groups: a list of (mode, keep, every, gather_every, is_direct) */
static int read_groups(trace_tracer *self, PyObject *groups)
{
    Py_ssize_t count = PyList_GET_SIZE(groups);
    self->groups = PyMem_Calloc((size_t)count + 1, sizeof *self->groups);
    self->indices = PyList_New(0);
    if (self->groups == NULL)
        PyErr_NoMemory();
    if (self->groups == NULL || self->indices == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        trace_group *group = &self->groups[i];
        binding_list_add(&self->indices, PyDict_New());
        if (self->indices == NULL ||
            !PyArg_ParseTuple(PyList_GET_ITEM(groups, i), "iiLLp", &group->mode, &group->keep,
                              &group->every, &group->gather_every, &group->is_direct))
            return -1;
    }
    self->group_count = (size_t)count;
    return 0;
}

static PyObject *tracer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "keep", "gather", "lists", "copies", "groups", "paths", "wide", NULL };
    binding_state *state = PyType_GetModuleState(type);
    trace_tracer read = { 0 };
    PyObject *groups; /* borrowed */
    Py_ssize_t paths;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!O!np:PathTracer", names, &read.keep,
                                     &read.gather, &read.lists, &PyDict_Type, &read.copies, &PyList_Type,
                                     &groups, &paths, &read.is_wide))
        return NULL;
    if (!tensor_torch_find(&state->torch))
        return PyErr_Format(PyExc_RuntimeError, "torch has not been imported");
    trace_tracer *self = (trace_tracer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->keep = Py_NewRef(read.keep);
    self->gather = Py_NewRef(read.gather);
    self->lists = Py_NewRef(read.lists);
    self->copies = Py_NewRef(read.copies);
    self->is_wide = read.is_wide;
    self->state = state;
    self->core = Py_NewRef(PyType_GetModule(type));
    self->line_id = -1;
    self->last_thread = UINT64_MAX;
    calls_consumer_init(&self->consumer, &trace_calls, &self->counts[TRACE_BOTH],
                        CALLS_DEPTH | CALLS_ERRORS | CALLS_LAST);
    self->replicas = PyDict_New();
    PyObject *size = PyLong_FromSsize_t(paths); /* owned */
    if (size != NULL)                           /* bytearray(paths): zeros */
        self->matched = PyObject_CallOneArg((PyObject *)&PyByteArray_Type, size);
    Py_XDECREF(size);
    if (self->replicas == NULL || self->matched == NULL || read_groups(self, groups) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int tracer_traverse(PyObject *op, visitproc visit, void *arg)
{
    for (const trace_method *method = tracer_of(op)->methods; method != NULL; method = method->next)
        Py_VISIT(method->module);
    return binding_visit(op, offsetof(trace_tracer, consumer.links), offsetof(trace_tracer, indices),
                         visit, arg);
}

static int tracer_clear(PyObject *op)
{
    trace_tracer *self = tracer_of(op);
    trace_detach(self);
    calls_consumer_clear(&self->consumer);
    base_map_free(&self->by_owner);
    while (self->methods != NULL) {
        trace_method *method = self->methods;
        self->methods = method->next;
        trace_free_method(method);
    }
    return binding_clear(op, offsetof(trace_tracer, consumer.error), offsetof(trace_tracer, error));
}

/* The lists were gathered: the next value of a name asks for new ones. */
static PyObject *tracer_forget_lists(PyObject *op, PyObject *Py_UNUSED(none))
{
    for (trace_state *state = tracer_of(op)->states; state != NULL; state = state->next)
        Py_CLEAR(state->lists);
    Py_RETURN_NONE;
}

static void tracer_dealloc(PyObject *op)
{
    trace_tracer *self = tracer_of(op);
    PyObject_GC_UnTrack(op);
    (void)tracer_clear(op);
    while (self->states != NULL) {
        trace_state *state = self->states;
        self->states = state->next;
        trace_state_clear(state);
        Py_XDECREF(state->lists);
        PyMem_Free(state);
    }
    PyMem_Free(self->groups);
    Py_CLEAR(self->matched);
    Py_CLEAR(self->indices);
    Py_CLEAR(self->core);
    binding_dealloc(op);
}

/* ---- methods -------------------------------------------------------------------- */

static PyObject *tracer_add_module(PyObject *op, PyObject *args)
{
    trace_tracer *self = tracer_of(op);
    PyObject *module, *name, *targets;                /* borrowed */
    trace_link *mine = PyMem_Calloc(1, sizeof *mine); /* handed over */
    if (mine == NULL)
        return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "OUpO!:add_module", &module, &name, &mine->is_root, &PyList_Type,
                          &targets) ||
        trace_read_targets(self, targets, &mine->targets) < 0 ||
        calls_source_add(self->state, &self->consumer, module, name) < 0) {
        trace_calls.free_data(mine);
        return NULL;
    }
    PyObject *links = self->consumer.links; /* borrowed; ours is the last */
    ((calls_link *)PyList_GET_ITEM(links, PyList_GET_SIZE(links) - 1))->data = mine;
    Py_RETURN_NONE;
}

static PyObject *tracer_add_method(PyObject *op, PyObject *args)
{
    PyObject *targets;                                      /* borrowed */
    trace_method *method = PyMem_Calloc(1, sizeof *method); /* handed over */
    if (method == NULL)
        return PyErr_NoMemory();
    bool is_read = PyArg_ParseTuple(args, "O!OUippO!:add_method", &PyCode_Type, &method->code,
                                    &method->module, &method->self_name, &method->self_slot,
                                    &method->is_packed, &method->is_hidden, &PyList_Type, &targets);
    Py_XINCREF(method->code);
    Py_XINCREF(method->module);
    Py_XINCREF(method->self_name);
    if (!is_read || trace_read_targets(tracer_of(op), targets, &method->targets) < 0) {
        trace_free_method(method);
        return NULL;
    }
    return trace_add_method(tracer_of(op), method) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *tracer_start(PyObject *op, PyObject *is_training)
{
    trace_tracer *self = tracer_of(op);
    self->thread = PyThreadState_GetID(PyThreadState_Get());
    self->last_thread = lines_newest_thread();
    if (trace_attach(self) < 0) /* once in any case: an error is raised now */
        return NULL;
    if (self->is_wide)
        trace_choose(self, PyObject_IsTrue(is_training) > 0);
    if (!self->is_wide || !self->is_tracing)
        trace_detach(self);
    Py_RETURN_NONE;
}

static PyObject *tracer_stop(PyObject *op, PyObject *Py_UNUSED(none))
{
    trace_tracer *self = tracer_of(op);
    self->thread = 0; /* no thread is traced any more */
    self->last_thread = UINT64_MAX;
    self->is_tracing = false;
    trace_detach(self);
    calls_source_remove_all(self->state, &self->consumer);
    PyDict_Clear(self->replicas);
    PyErr_SetRaisedException(self->error); /* of a thread whose iteration has not ended, or NULL */
    self->error = NULL;
    calls_consumer_take_error(&self->consumer);
    Py_RETURN_NONE; /* methods stay: another thread may be looking at one */
}

static PyMethodDef methods[] = {
    { "add_module", tracer_add_module, METH_VARARGS, "Listen to a module." },
    { "add_method", tracer_add_method, METH_VARARGS,
      "Look at locals of a function when it runs with this module." },
    { "start", tracer_start, METH_O, "Start tracing." },
    { "stop", tracer_stop, METH_NOARGS, "Leave modules and threads as they were." },
    { "forget_lists", tracer_forget_lists, METH_NOARGS, "Ask for the lists of every name again." },
    { 0 },
};

static PyMemberDef members[] = {
    { "iteration", T_LONGLONG, offsetof(trace_tracer, counts[TRACE_BOTH]), READONLY, "begun so far" },
    { "training", T_LONGLONG, offsetof(trace_tracer, counts[TRACE_TRAINING]), READONLY,
      "of them in training" },
    { "evaluation", T_LONGLONG, offsetof(trace_tracer, counts[TRACE_EVALUATION]), READONLY,
      "and in evaluation" },
    { "matched", T_OBJECT, offsetof(trace_tracer, matched), READONLY,
      "for each path: did anything match?" },
    CALLS_CONSUMER_MEMBERS(trace_tracer),
    { 0 },
};

BINDING_CLASS(trace_tracer, "tensortap._core.PathTracer", trace_tracer, BINDING_GC,
              { Py_tp_doc, "PathTracer(keep, gather, lists, copies, groups, paths, wide)\n--\n\nFind the "
                           "values that changed." },
              { Py_tp_new, tracer_new }, { Py_tp_dealloc, tracer_dealloc }, BINDING_GC_SLOTS(tracer),
              { Py_tp_methods, methods }, { Py_tp_members, members });
