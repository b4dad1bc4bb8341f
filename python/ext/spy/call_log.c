/* call_log.c -- CallLog: records which modules were called, and how.
 *
 * The consumer below tensortap.spy.CallTracer.  It runs after every call of a traced module, so a call is
 * one row of numbers; events() makes Python objects of the rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "calls/source.h"
#include "tensor/facts.h"
#include "tensor/walk.h"

/* One call that has ended.  Its tensors are in the pool: outputs, then inputs. */
typedef struct call_row {
    PyObject *name;  /* owned */
    PyObject *error; /* owned or NULL; the exception's class */
    int64_t start, end;
    uint64_t pool_at;
    uint32_t inputs, outputs;
    uint32_t call, depth, thread;
} call_row;

/* A pool entry of a tensor: its number of dimensions and the number of its type, then its sizes. */
enum { NDIM_SHIFT = 32 };

typedef struct call_log_object {
    calls_consumer consumer;
    PyObject *trace; /* owned; list of names, in order of return */
    PyObject *types; /* owned; list of the names of types that are no tt_dtype, numbered behind those */
    binding_state *state;
    call_row *rows; /* owned */
    size_t row_count, row_cap;
    int64_t *pool; /* owned */
    size_t pool_len, pool_cap;
    uint64_t pending_at; /* in the pool: outputs of the call that ends next */
    uint32_t pending;    /* ... that are there so far */
    int64_t step;        /* calls are counted from 0 when it changes */
} call_log_object;

/* ---- while modules run ------------------------------------------------------ */

static bool pool_put(call_log_object *self, int64_t type, const int64_t *sizes, int32_t ndim)
{
    if (!base_array_grow(&self->pool, &self->pool_cap, self->pool_len + 1 + (size_t)ndim,
                         sizeof *self->pool))
        return false;
    self->pool[self->pool_len++] = type | (int64_t)ndim << NDIM_SHIFT;
    for (int32_t i = 0; i < ndim; i++)
        self->pool[self->pool_len++] = sizes[i];
    return true;
}

/* The number of a type of this name; -1: out of memory. */
static Py_ssize_t type_number(const call_log_object *self, const char *name)
{
    tt_dtype dtype;
    if (tensor_dtype_find(name, &dtype))
        return (Py_ssize_t)dtype;
    PyObject *text = PyUnicode_FromString(name); /* owned */
    Py_ssize_t at = text != NULL ? PySequence_Index(self->types, text) : -1;
    PyErr_Clear();
    if (at < 0 && text != NULL && PyList_Append(self->types, text) == 0)
        at = PyList_GET_SIZE(self->types) - 1;
    Py_XDECREF(text);
    return at < 0 ? -1 : TT_DTYPE_COUNT_ + at;
}

/* Tensors of other classes, sparse ones, those inside vmap ... */
static bool put_slowly(call_log_object *self, PyObject *tensor)
{
    PyObject *owner; /* owned */
    int64_t sizes[TT_MAX_DIM];
    int32_t ndim = tensor_fact_shape(tensor, sizes);
    const char *name = tensor_fact_dtype(tensor, &owner);
    Py_ssize_t type = ndim >= 0 && name != NULL ? type_number(self, name) : -1;
    Py_XDECREF(owner);
    return type >= 0 && pool_put(self, type, sizes, ndim);
}

static bool put_tensor(call_log_object *self, const calls_observation *seen)
{
    const int64_t *sizes;
    int32_t ndim;
    tt_dtype dtype;
    return calls_observation_shape(seen, &dtype, &sizes, &ndim)
               ? pool_put(self, (int64_t)dtype, sizes, ndim)
               : put_slowly(self, seen->tensor);
}

typedef struct finding {
    call_log_object *self;
    uint32_t count;
} finding;

static int found(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    finding *f = context;
    const calls_observation seen = { .state = f->self->state, .tensor = tensor };
    f->count += put_tensor(f->self, &seen);
    return 0;
}

static uint32_t put_all(call_log_object *self, PyObject *obj)
{
    finding f = { .self = self };
    if (obj != NULL && PyTuple_CheckExact(obj) && PyTuple_GET_SIZE(obj) == 1)
        obj = PyTuple_GET_ITEM(obj, 0); /* most calls have one argument: no walk for those */
    if (obj != NULL && tensor_walk(&self->state->torch, obj, found, &f) < 0)
        PyErr_Clear();
    return f.count;
}

/* Adds a row for a call that has ended; NULL: out of memory, and the call is not in the trace. */
static call_row *add_row(call_log_object *self, const calls_link *link, const calls_event *event)
{
    if (!base_array_grow(&self->rows, &self->row_cap, self->row_count + 1, sizeof *self->rows) ||
        (event->exception == NULL && PyList_Append(self->trace, link->name) < 0)) {
        PyErr_Clear();
        return NULL;
    }
    call_row *row = &self->rows[self->row_count++];
    *row = (call_row){ .name = Py_NewRef(link->name),
                       .start = event->start,
                       .end = event->start,
                       .call = event->call,
                       .depth = event->depth,
                       .thread = event->thread };
    if (event->exception != NULL)
        row->error = Py_NewRef((PyObject *)Py_TYPE(event->exception));
    return row;
}

/* The outputs of a call follow each other, and then it ends. */
static int on_tensor(calls_consumer *consumer, calls_link *Py_UNUSED(link),
                     const calls_event *Py_UNUSED(event), const calls_path *Py_UNUSED(path),
                     const calls_observation *seen)
{
    call_log_object *self = (call_log_object *)consumer;
    if (self->pending == 0)
        self->pending_at = self->pool_len;
    self->pending += put_tensor(self, seen);
    return 0;
}

/* Inside compiled graphs the arguments are not known. */
static int on_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    call_log_object *self = (call_log_object *)consumer;
    uint64_t pool_at = self->pending > 0 ? self->pending_at : self->pool_len;
    uint32_t outputs = self->pending;
    self->pending = 0;
    uint32_t inputs = put_all(self, event->args) + put_all(self, event->kwargs);
    call_row *row = add_row(self, link, event);
    if (row != NULL) {
        row->end = event->end;
        row->pool_at = pool_at;
        row->inputs = inputs;
        row->outputs = outputs;
    }
    return 0;
}

static uint32_t wants(calls_consumer *Py_UNUSED(consumer), calls_link *Py_UNUSED(link),
                      const calls_path *Py_UNUSED(path))
{
    return PROBE_SEEN;
}

static const calls_table log_calls = { .tensor = on_tensor, .after = on_after, .wants = wants };

/* ---- asked for ---------------------------------------------------------------- */

static PyObject *type_name(const call_log_object *self, int64_t type)
{
    return type < TT_DTYPE_COUNT_ ? PyUnicode_FromString(tt_dtype_name((tt_dtype)type))
                                  : Py_NewRef(PyList_GET_ITEM(self->types, type - TT_DTYPE_COUNT_));
}

/* (shape, dtype) of the next `count` tensors of the pool, as a tuple. */
static PyObject *read_pool(const call_log_object *self, uint64_t *at, uint32_t count)
{
    PyObject *all = PyList_New(0); /* owned */
    for (uint32_t i = 0; all != NULL && i < count; i++) {
        int64_t word = self->pool[(*at)++];
        int32_t ndim = (int32_t)(word >> NDIM_SHIFT);
        binding_list_add(&all, Py_BuildValue("(NN)", binding_shape_tuple(self->pool + *at, ndim),
                                             type_name(self, word & INT32_MAX)));
        *at += (uint64_t)ndim;
    }
    PyObject *tuple = all != NULL ? PyList_AsTuple(all) : NULL;
    Py_XDECREF(all);
    return tuple;
}

static PyObject *log_events(PyObject *obj, PyObject *Py_UNUSED(none))
{
    call_log_object *self = (call_log_object *)obj;
    if (calls_traced_drain(self->state, true) < 0)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (size_t i = 0; list != NULL && i < self->row_count; i++) {
        call_row row = self->rows[i]; /* the array may move, and the trace be reset */
        uint64_t at = row.pool_at;
        Py_INCREF(row.name);
        Py_XINCREF(row.error);
        PyObject *outputs = read_pool(self, &at, row.outputs); /* given up */
        PyObject *inputs = read_pool(self, &at, row.inputs);   /* given up */
        binding_list_add(&list,
                         Py_BuildValue("(OIINNLLIO)", row.name, row.call, row.depth, inputs, outputs,
                                       (long long)row.start, (long long)(row.end - row.start), row.thread,
                                       row.error != NULL ? row.error : Py_None));
        Py_XDECREF(row.error);
        Py_DECREF(row.name);
    }
    return list;
}

static void drop_rows(call_log_object *self)
{
    size_t count = self->row_count;
    call_row *rows = self->rows; /* owned now */
    self->rows = NULL;           /* what is dropped may run code that looks here */
    self->row_count = self->row_cap = self->pool_len = 0;
    for (size_t i = 0; i < count; i++) {
        Py_DECREF(rows[i].name);
        Py_XDECREF(rows[i].error);
    }
    PyMem_Free(rows);
}

static PyObject *log_trace(PyObject *obj, void *Py_UNUSED(closure))
{
    call_log_object *self = (call_log_object *)obj;
    return calls_traced_drain(self->state, true) < 0 ? NULL : Py_NewRef(self->trace);
}

static PyObject *log_reset(PyObject *obj, PyObject *Py_UNUSED(none))
{
    call_log_object *self = (call_log_object *)obj;
    if (calls_traced_drain(self->state, true) < 0)
        return NULL;
    PyObject *fresh = PyList_New(0);
    if (fresh == NULL)
        return NULL;
    Py_XSETREF(self->trace, fresh);
    drop_rows(self);
    self->step++;
    Py_RETURN_NONE;
}

/* ---- life ----------------------------------------------------------------------- */

static PyObject *log_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { NULL };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":CallLog", names))
        return NULL;
    call_log_object *self = (call_log_object *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    self->trace = PyList_New(0);
    self->types = PyList_New(0);
    calls_consumer_init(&self->consumer, &log_calls, &self->step,
                        CALLS_TIME | CALLS_DEPTH | CALLS_ENTRY | CALLS_ERRORS);
    if (self->trace == NULL || self->types == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

CALLS_CONSUMER_OWNS(log, call_log_object, types)

static void log_dealloc(PyObject *obj)
{
    call_log_object *self = (call_log_object *)obj;
    PyObject_GC_UnTrack(obj);
    drop_rows(self);
    PyMem_Free(self->pool);
    binding_dealloc(obj);
}

static PyMethodDef log_methods[] = {
    CALLS_CONSUMER_METHODS,
    { "reset", log_reset, METH_NOARGS, "reset($self, /)\n--\n\nForget all calls." },
    { "events", log_events, METH_NOARGS,
      "events($self, /)\n--\n\n"
      "Return (name, call, depth, inputs, outputs, start, duration, thread, error) of every call." },
    { 0 },
};

static PyGetSetDef log_getset[] = {
    { "trace", log_trace, NULL, "names of the modules that returned, in this order", NULL },
    { 0 },
};

static PyMemberDef log_members[] = {
    { "off", T_BOOL, offsetof(call_log_object, consumer.is_off), 0, "nothing is remembered" },
    { 0 },
};

BINDING_CLASS(spy_call_log, "tensortap._core.CallLog", call_log_object, BINDING_GC,
              { Py_tp_doc, "CallLog()\n--\n\nRemember which modules were called, and how." },
              { Py_tp_new, log_new }, { Py_tp_dealloc, log_dealloc }, BINDING_GC_SLOTS(log),
              { Py_tp_methods, log_methods }, { Py_tp_members, log_members },
              { Py_tp_getset, log_getset });
