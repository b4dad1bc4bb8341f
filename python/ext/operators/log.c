/* log.c -- OperatorLog: notes every operator that torch dispatches while it is on.
 *
 * Before an operator runs, its operands are read; after it, its results.  Nothing is kept but numbers.
 * An error of our own is counted, and never reaches the program.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operators/log.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"

void operators_take_error(operators_log *self)
{
    PyObject *error = base_error_take(); /* owned */
    self->errors += error != NULL;
    if (self->error == NULL)
        self->error = Py_XNewRef(error);
    Py_XDECREF(error);
}

/* ---- rows --------------------------------------------------------------------------- */

/* What is known of an operator: asked once.  One that describe() cannot describe is not logged. */
static int32_t kind_of(operators_log *self, PyObject *func)
{
    bool is_new;
    if (!base_array_grow(&self->kinds, &self->kind_cap, self->kind_count + 1, sizeof *self->kinds))
        return -1;
    int32_t number = operators_number(&self->kind_of, self->operators, func, &is_new);
    if (number < 0 || !is_new)
        return number;
    operators_kind kind = { 0 };
    unsigned long long written = 0;
    PyObject *answer = PyObject_CallOneArg(self->describe, func); /* owned */
    if (answer == NULL ||
        !PyArg_ParseTuple(answer, "IKO!", &kind.flags, &written, &PyTuple_Type, &kind.names) ||
        PyList_Append(self->answers, answer) < 0)
        kind = (operators_kind){ .flags = OPERATOR_IGNORED };
    kind.written = written;
    self->kinds[self->kind_count++] = kind;
    Py_XDECREF(answer);
    return number;
}

static bool needs_gradient(operators_log *self, PyObject *args)
{
    PyObject *enabled = PyObject_CallNoArgs(self->is_grad_enabled); /* owned */
    bool needs = false;
    for (Py_ssize_t i = 0; enabled == Py_True && !needs && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *value = PyTuple_GET_ITEM(args, i), *flag = NULL; /* borrowed; owned */
        if ((PyList_Check(value) || PyTuple_Check(value)) && PySequence_Fast_GET_SIZE(value) > 0)
            value = PySequence_Fast_GET_ITEM(value, 0);
        (void)PyObject_GetOptionalAttrString(value, "requires_grad", &flag);
        needs = flag == Py_True;
        Py_XDECREF(flag);
    }
    Py_XDECREF(enabled);
    return needs;
}

static void number_node(operators_log *self, operators_row *row, PyObject *args)
{
    PyObject *next =
        self->sequence_number != NULL ? PyObject_CallNoArgs(self->sequence_number) : NULL; /* owned */
    uint64_t newest = next != NULL ? PyLong_AsUnsignedLongLong(next) : 0;
    row->made = newest - 1;
    if (newest > self->newest && needs_gradient(self, args))
        row->flags |= ROW_MAKES_NODE;
    self->newest = newest;
    Py_XDECREF(next);
}

/* The number of the new row; -1: it is not logged. */
static int32_t begin(operators_log *self, int32_t kind, PyObject *args, PyObject *kwargs)
{
    if ((long long)self->row_count >= self->limit) {
        self->unlogged++;
        return -1;
    }
    operators_row row = { .operator=(uint32_t) kind, .thread = PyThread_get_thread_ident() };
    operators_find_line(self, &row);
    number_node(self, &row, args);
    operators_take_error(self);
    if (!base_array_grow(&self->rows, &self->row_cap, self->row_count + 1, sizeof *self->rows))
        return -1;
    int32_t number = (int32_t)self->row_count++;
    row.operands_at = self->tensor_count;
    self->rows[number] = row;
    operators_spot where = { .self = self, .row = number, .item = -1 };
    (void)operators_visit_arguments(&where, args, kwargs, false);
    self->rows[number].operands = where.count;
    self->rows[number].start = base_clock(CLOCK_MONOTONIC);
    return number;
}

static void end(operators_log *self, int32_t number, PyObject *args, PyObject *kwargs, PyObject *result)
{
    operators_row *row = &self->rows[number];
    row->end = base_clock(CLOCK_MONOTONIC);
    row->results_at = self->tensor_count;
    if (result == NULL) {
        row->flags |= ROW_RAISED;
        return;
    }
    operators_spot where = { .self = self, .row = number, .item = -1, .purpose = OPERATORS_RESULT };
    if (operators_visit_arguments(&where, args, kwargs, true) == 0) {
        where.argument = -1;
        where.flags = 0;
        (void)operators_visit(&where, result, 0);
    }
    PyMem_Free(where.written);
    self->rows[number].results = where.count;
    if (where.has_created) {
        operators_spot again = { .self = self, .row = number, .item = -1, .purpose = OPERATORS_AGAIN };
        (void)operators_visit_arguments(&again, args, kwargs, false);
    }
}

/* Is a tensor of a class among the arguments that has operators of its own?  Those call ours with
 * the tensors inside.  Fake and functional tensors have a mode of their own below ours. */
static bool has_own_operators(operators_log *self, PyObject *types)
{
    bool has = false;
    PyObject *all = PySequence_Fast(types, ""); /* owned */
    for (Py_ssize_t i = 0; all != NULL && !has && i < PySequence_Fast_GET_SIZE(all); i++) {
        PyObject *type = PySequence_Fast_GET_ITEM(all, i), *dispatch = NULL; /* borrowed; owned */
        if (type == (PyObject *)self->state->torch.tensor)
            continue;
        const char *name = PyType_Check(type) ? ((PyTypeObject *)type)->tp_name : "";
        if (strcmp(name, "FakeTensor") == 0 || strcmp(name, "FunctionalTensor") == 0)
            continue;
        (void)PyObject_GetOptionalAttrString(type, "__torch_dispatch__", &dispatch);
        has = dispatch != NULL && dispatch != self->disabled_dispatch;
        Py_XDECREF(dispatch);
    }
    PyErr_Clear();
    Py_XDECREF(all);
    return has;
}

/* __torch_dispatch__(func, types, args=(), kwargs=None) */
static PyObject *log_dispatch(PyObject *obj, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "func", "types", "args", "kwargs", NULL };
    operators_log *self = (operators_log *)obj;
    PyObject *func = NULL, *types = NULL, *given = NULL, *kwargs = NULL; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O!O:__torch_dispatch__", names, &func, &types,
                                     &PyTuple_Type, &given, &kwargs))
        return NULL;
    if (has_own_operators(self, types))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *all = given != NULL ? Py_NewRef(given) : PyTuple_New(0); /* owned */
    kwargs = kwargs != NULL && PyDict_Check(kwargs) ? kwargs : NULL;
    if (all == NULL)
        return NULL;
    int32_t row = -1, kind = self->describe != NULL ? kind_of(self, func) : -1;
    PyObject *guard = NULL; /* owned */
    if (kind >= 0 && !(self->kinds[kind].flags & OPERATOR_IGNORED)) {
        guard = tensor_quiet_enter(&self->state->torch);
        row = begin(self, kind, all, kwargs);
        operators_take_error(self);
        tensor_quiet_leave(guard);
    }
    operators_take_error(self);
    PyObject *result = PyObject_Call(func, all, kwargs);
    if (row >= 0) {
        PyObject *pending = PyErr_GetRaisedException(); /* owned; the operator's */
        guard = tensor_quiet_enter(&self->state->torch);
        end(self, row, all, kwargs, result);
        operators_take_error(self);
        tensor_quiet_leave(guard);
        if (pending != NULL)
            PyErr_SetRaisedException(pending);
    }
    Py_DECREF(all);
    return result;
}

/* ---- life ---------------------------------------------------------------------------- */

static PyObject *log_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    operators_log *self = (operators_log *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    PyObject **lists[] = { &self->operators, &self->answers, &self->codes,
                           &self->modules,   &self->names,   &self->node_types };
    bool is_fine = (self->self_name = PyUnicode_InternFromString("self")) != NULL;
    for (size_t i = 0; is_fine && i < sizeof lists / sizeof *lists; i++)
        is_fine = (*lists[i] = PyList_New(0)) != NULL;
    PyObject *module = is_fine ? PyType_GetModuleByDef(type, &binding_module) : NULL; /* borrowed */
    self->state = module != NULL ? binding_state_of(module) : NULL;
    if (self->state == NULL)
        Py_CLEAR(self);
    else
        (void)tensor_torch_find(&self->state->torch);
    return (PyObject *)self;
}

/* _ask(describe, classify, name_module, limit): what Python answers, and torch. */
static PyObject *log_ask(PyObject *obj, PyObject *args)
{
    operators_log *self = (operators_log *)obj;
    PyObject *describe, *classify, *name_module; /* borrowed */
    if (!PyArg_ParseTuple(args, "OOOL:_ask", &describe, &classify, &name_module, &self->limit))
        return NULL;
    Py_XSETREF(self->current_node, binding_import("torch._C", "_current_autograd_node"));
    Py_XSETREF(self->sequence_number, binding_import("torch._C._autograd", "_get_sequence_nr"));
    PyErr_Clear(); /* private names: without them backward is not linked to forward */
    Py_XSETREF(self->is_grad_enabled, binding_import("torch", "is_grad_enabled"));
    Py_XSETREF(self->disabled_dispatch, binding_import("torch._C", "_disabled_torch_dispatch_impl"));
    Py_XSETREF(self->free_weak_ref, binding_import("torch", "UntypedStorage._free_weak_ref"));
    if (PyErr_Occurred())
        return NULL;
    Py_XSETREF(self->classify, Py_NewRef(classify));
    Py_XSETREF(self->name_module, Py_NewRef(name_module));
    Py_XSETREF(self->describe, Py_NewRef(describe));
    Py_RETURN_NONE;
}

/* _release(): modules and storages, whose addresses may be used again from now on. */
static PyObject *log_release(PyObject *obj, PyObject *Py_UNUSED(none))
{
    operators_log *self = (operators_log *)obj;
    operators_memory_release(self);
    base_map_free(&self->module_of);
    PyObject *modules = self->modules; /* owned now */
    self->modules = PyList_New(0);
    Py_XDECREF(modules);
    return self->modules != NULL ? Py_NewRef(Py_None) : NULL;
}

static Py_ssize_t log_length(PyObject *self)
{
    return (Py_ssize_t)((operators_log *)self)->row_count;
}

BINDING_OWNS(log, operators_log, describe, node_types)

static void log_dealloc(PyObject *obj)
{
    operators_log *self = (operators_log *)obj;
    PyObject_GC_UnTrack(obj);
    operators_memory_release(self);
    base_map *maps[] = { &self->kind_of, &self->code_of, &self->module_of, &self->memory_of,
                         &self->node_type_of };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        base_map_free(maps[i]);
    PyMem_Free(self->kinds);
    PyMem_Free(self->rows);
    PyMem_Free(self->tensors);
    PyMem_Free(self->shapes);
    PyMem_Free(self->memories);
    binding_dealloc(obj);
}

static PyMethodDef log_methods[] = {
    { "__torch_dispatch__", (PyCFunction)(void (*)(void))log_dispatch, METH_VARARGS | METH_KEYWORDS,
      "Run an operator, and note it." },
    { "_ask", log_ask, METH_VARARGS, "Set the functions that are asked." },
    { "_release", log_release, METH_NOARGS, "Release modules and storages; rows stay." },
    { "read", operators_log_read, METH_O, "Return one row as a tuple." },
    { 0 },
};

static PyMemberDef log_members[] = {
    { "operators", T_OBJECT, offsetof(operators_log, operators), READONLY, "operators, by number" },
    { "names", T_OBJECT, offsetof(operators_log, names), READONLY, "names of modules, by number" },
    { "unlogged", T_LONGLONG, offsetof(operators_log, unlogged), READONLY,
      "operators that ran after the limit was reached" },
    { "errors", T_LONGLONG, offsetof(operators_log, errors), READONLY,
      "errors that were kept from the program" },
    { "error", T_OBJECT, offsetof(operators_log, error), READONLY, "the first of them" },
    { 0 },
};

BINDING_CLASS(operators_log, "tensortap._core.OperatorLog", operators_log,
              BINDING_GC | Py_TPFLAGS_BASETYPE,
              { Py_tp_doc, "OperatorLog()\n--\n\nNote every operator that torch dispatches." },
              { Py_tp_new, log_new }, { Py_tp_dealloc, log_dealloc }, BINDING_GC_SLOTS(log),
              { Py_sq_length, log_length }, { Py_tp_methods, log_methods },
              { Py_tp_members, log_members });
