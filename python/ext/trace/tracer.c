/* tracer.c -- the class PathTracer: the engine of tensortap.trace.
 *
 * Python says once which names of which code and modules are wanted, and is
 * called only for a value that must be kept and when a gather is due.
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
    self->indices = PyList_New(count);
    if (self->groups == NULL || self->indices == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        int mode, keep, direct;
        long long every, gather_every;
        PyObject *index = PyDict_New(); /* owned by the list */
        if (index == NULL)
            return -1;
        PyList_SET_ITEM(self->indices, i, index);
        if (!PyArg_ParseTuple(PyList_GET_ITEM(groups, i), "iiLLp", &mode, &keep, &every, &gather_every,
                              &direct))
            return -1;
        self->groups[i] = (trace_group){ .mode = (trace_mode)mode,
                                         .keep = (trace_keep)keep,
                                         .every = every > 0 ? every : 1,
                                         .is_direct = direct != 0,
                                         .gather_every = gather_every > 0 ? gather_every : 1 };
    }
    self->group_count = (size_t)count;
    return 0;
}

static PyObject *tracer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "keep",   "gather", "lists", "copies", "runs",
                             "groups", "paths",  "wide",  "scoped", NULL };
    PyObject *keep, *gather, *lists, *copies, *runs, *groups; /* borrowed */
    Py_ssize_t paths;
    int wide, scoped;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!O!O!npp:PathTracer", names, &keep, &gather,
                                     &lists, &PyDict_Type, &copies, &PyList_Type, &runs, &PyList_Type,
                                     &groups, &paths, &wide, &scoped))
        return NULL;
    trace_tracer *self = (trace_tracer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    self->module = Py_NewRef(PyType_GetModule(type));
    self->keep = Py_NewRef(keep);
    self->gather = Py_NewRef(gather);
    self->lists = Py_NewRef(lists);
    self->copies = Py_NewRef(copies);
    self->runs = Py_NewRef(runs);
    self->line_id = -1;
    self->last_thread = UINT64_MAX;
    self->is_wide = wide != 0;
    self->is_scoped = scoped != 0;
    calls_consumer_init(&self->consumer, &trace_calls, &self->iteration, CALLS_DEPTH | CALLS_ERRORS);
    self->path_count = (size_t)paths;
    self->is_matched = PyMem_Calloc((size_t)paths + 1, sizeof *self->is_matched);
    bool has_torch = tensor_torch_find(&self->state->torch);
    if (!has_torch)
        PyErr_SetString(PyExc_RuntimeError, "torch has not been imported");
    if (!has_torch || self->is_matched == NULL || read_groups(self, groups) < 0) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int tracer_traverse(PyObject *op, visitproc visit, void *arg)
{
    trace_tracer *self = tracer_of(op);
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(self->module);
    Py_VISIT(self->keep);
    Py_VISIT(self->gather);
    Py_VISIT(self->lists);
    Py_VISIT(self->runs);
    Py_VISIT(self->copies);
    Py_VISIT(self->error);
    Py_VISIT(self->own_error);
    for (size_t i = 0; i < self->place_count; i++)
        Py_VISIT(self->places[i]->module);
    for (int i = 0; i < self->replica_count; i++) {
        Py_VISIT(self->replicas[i].replica);
        Py_VISIT(self->replicas[i].original);
    }
    Py_VISIT(self->consumer.links);
    return 0;
}

static void free_place(trace_place *place)
{
    if (place == NULL)
        return;
    Py_XDECREF(place->code);
    Py_XDECREF(place->module);
    Py_XDECREF(place->self_name);
    trace_free_targets(&place->targets);
    PyMem_Free(place);
}

static void free_places(trace_tracer *self)
{
    size_t count = self->place_count;
    self->place_count = 0;
    for (size_t i = 0; i < count; i++)
        free_place(self->places[i]);
    PyMem_Free(self->places);
    PyMem_Free(self->table);
    self->places = self->table = NULL;
}

static int tracer_clear(PyObject *op)
{
    trace_tracer *self = tracer_of(op);
    trace_detach(self);
    calls_consumer_clear(&self->consumer);
    trace_forget_replicas(self);
    free_places(self);
    Py_CLEAR(self->keep);
    Py_CLEAR(self->gather);
    Py_CLEAR(self->lists);
    Py_CLEAR(self->runs);
    Py_CLEAR(self->copies);
    Py_CLEAR(self->error);
    Py_CLEAR(self->own_error);
    return 0;
}

static void tracer_dealloc(PyObject *op)
{
    trace_tracer *self = tracer_of(op);
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    (void)tracer_clear(op);
    for (size_t i = 0; i < self->state_count; i++) {
        trace_state_clear(self->states[i]);
        Py_CLEAR(self->states[i]->iterations);
        Py_CLEAR(self->states[i]->values);
        PyMem_Free(self->states[i]);
    }
    PyMem_Free(self->states);
    PyMem_Free(self->groups);
    PyMem_Free(self->is_matched);
    Py_CLEAR(self->indices);
    Py_CLEAR(self->module);
    type->tp_free(op);
    Py_DECREF(type);
}

/* ---- methods -------------------------------------------------------------------- */

static PyObject *tracer_add_module(PyObject *op, PyObject *args)
{
    trace_tracer *self = tracer_of(op);
    PyObject *module, *name, *targets; /* borrowed */
    int is_root, by_hook, has_places;
    if (!PyArg_ParseTuple(args, "OUpppO:add_module", &module, &name, &is_root, &by_hook, &has_places,
                          &targets))
        return NULL;
    trace_link *mine = PyMem_Calloc(1, sizeof *mine);
    if (mine == NULL)
        return PyErr_NoMemory();
    mine->is_root = is_root != 0;
    mine->has_places = has_places != 0;
    if (trace_read_targets(self, targets, &mine->targets) < 0 ||
        calls_source_add(self->state, &self->consumer, module, name, by_hook != 0) < 0) {
        trace_calls.free_data(mine);
        return NULL;
    }
    PyObject *links = self->consumer.links; /* borrowed; ours is the last */
    calls_link *link = (calls_link *)PyList_GET_ITEM(links, PyList_GET_SIZE(links) - 1);
    link->data = mine;
    Py_RETURN_NONE;
}

static PyObject *tracer_add_place(PyObject *op, PyObject *args)
{
    trace_tracer *self = tracer_of(op);
    PyObject *code, *module, *self_name, *targets; /* borrowed */
    int self_slot, is_packed, is_hidden;
    if (!PyArg_ParseTuple(args, "O!OUippO:add_place", &PyCode_Type, &code, &module, &self_name,
                          &self_slot, &is_packed, &is_hidden, &targets))
        return NULL;
    trace_place *place = PyMem_Calloc(1, sizeof *place);
    trace_place **places = PyMem_Realloc(self->places, (self->place_count + 1) * sizeof *places);
    if (places != NULL)
        self->places = places;
    if (place == NULL || places == NULL) {
        PyMem_Free(place);
        return PyErr_NoMemory();
    }
    place->code = Py_NewRef(code);
    place->module = Py_NewRef(module);
    place->self_name = Py_NewRef(self_name);
    place->self_slot = self_slot;
    place->is_packed = is_packed != 0;
    place->is_hidden = is_hidden != 0;
    if (trace_read_targets(self, targets, &place->targets) < 0) {
        free_place(place);
        return NULL;
    }
    self->places[self->place_count++] = place;
    Py_RETURN_NONE;
}

static PyObject *tracer_start(PyObject *op, PyObject *is_training)
{
    trace_tracer *self = tracer_of(op);
    PyThreadState *at = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    uint64_t newest = 0;
    for (; at != NULL; at = PyThreadState_Next(at))
        if (PyThreadState_GetID(at) > newest)
            newest = PyThreadState_GetID(at);
    self->thread = PyThreadState_GetID(PyThreadState_Get());
    self->last_thread = newest;
    /* Attached once in any case: what is wrong with it is said now. */
    if (trace_index_places(self) < 0 || trace_attach(self) < 0)
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
    self->thread = 0; /* nobody's business any more */
    self->last_thread = UINT64_MAX;
    self->is_tracing = false;
    trace_detach(self);
    calls_source_remove_all(self->state, &self->consumer);
    trace_forget_replicas(self);
    if (self->error != NULL) { /* of a thread whose iteration has not ended */
        self->errors++;
        if (self->own_error == NULL)
            self->own_error = Py_NewRef(self->error);
        Py_CLEAR(self->error);
    }
    Py_RETURN_NONE; /* places stay: another thread may be looking at one */
}

/* The lists were taken: the next value of a name asks for new ones. */
static PyObject *tracer_forget_lists(PyObject *op, PyObject *Py_UNUSED(none))
{
    tracer_of(op)->gathers++;
    for (size_t i = 0; i < tracer_of(op)->state_count; i++) {
        Py_CLEAR(tracer_of(op)->states[i]->iterations);
        Py_CLEAR(tracer_of(op)->states[i]->values);
    }
    Py_RETURN_NONE;
}

static PyObject *get_matched(PyObject *op, void *Py_UNUSED(closure))
{
    trace_tracer *self = tracer_of(op);
    PyObject *out = PyList_New((Py_ssize_t)self->path_count); /* owned */
    for (size_t i = 0; out != NULL && i < self->path_count; i++)
        PyList_SET_ITEM(out, (Py_ssize_t)i, PyBool_FromLong(self->is_matched[i]));
    return out;
}

static PyMethodDef methods[] = {
    { "add_module", tracer_add_module, METH_VARARGS,
      "add_module($self, module, name, is_root, by_hook, has_places, targets, /)\n--\n\nListen to a "
      "module." },
    { "add_place", tracer_add_place, METH_VARARGS,
      "add_place($self, code, module, self_name, self_slot, is_packed, is_hidden, targets, /)\n--\n\n"
      "Look at locals of a function when it runs with this module." },
    { "start", tracer_start, METH_O, "start($self, is_training, /)\n--\n\nBegin." },
    { "stop", tracer_stop, METH_NOARGS, "Leave modules and threads as they were." },
    { "forget_lists", tracer_forget_lists, METH_NOARGS, "Ask for the lists of every name anew." },
    { 0 },
};

static PyGetSetDef getters[] = {
    { .name = "matched", .get = get_matched, .doc = "for each path: did anything match?" },
    { 0 },
};

static PyMemberDef members[] = {
    { "iteration", T_LONGLONG, offsetof(trace_tracer, iteration), READONLY, "begun so far" },
    { "training", T_LONGLONG, offsetof(trace_tracer, training), READONLY, "of them in training" },
    { "evaluation", T_LONGLONG, offsetof(trace_tracer, evaluation), READONLY, "and in evaluation" },
    { "errors", T_LONGLONG, offsetof(trace_tracer, errors), READONLY, "errors of our own" },
    { "error", T_OBJECT, offsetof(trace_tracer, own_error), READONLY, "the first of them" },
    { 0 },
};

BINDING_CLASS(
    trace_tracer, "tensortap._core.PathTracer", trace_tracer, BINDING_GC,
    { Py_tp_doc,
      "PathTracer(keep, gather, lists, copies, runs, groups, paths, wide, scoped)\n--\n\nTell which "
      "values changed." },
    { Py_tp_new, tracer_new }, { Py_tp_dealloc, tracer_dealloc }, BINDING_GC_SLOTS(tracer),
    { Py_tp_methods, methods }, { Py_tp_getset, getters }, { Py_tp_members, members });
