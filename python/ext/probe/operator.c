/* operator.c -- the kernels of tensortap::probe_v1 and probe_gradient_v1 for CPU tensors, and their
 * registration.
 *
 * Runs inside compiled code, mostly without the GIL, in any thread: no Python object is touched
 * unless the slot is new or a root has run.  A recomputed forward (activation checkpointing runs
 * it again in backward) is not seen twice.
 * SPDX-License-Identifier: Apache-2.0 */
#include "probe/operator.h"

#include "base/clock.h"

#include "probe/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x7470726f62653031)

enum {
    TIMED = 16,      /* one probe in so many, as RECORDER_SAMPLES of runs */
    SMALL = 1 << 15, /* elements: their statistics take less than handing the GIL over may */
    MANY = 1 << 12,  /* rows in the log */
};

static const probe_listener *_Atomic listener; /* set once */
static _Thread_local int eager_depth;          /* eager calls around what runs now */
static _Thread_local uint32_t timer;
static _Atomic uint64_t calls; /* of the operator in forward */

void probe_listen(const probe_listener *to)
{
    listener = to;
}

int *probe_eager_depth(void)
{
    return &eager_depth;
}

void probe_slots_init(probe_slots *slots, uint64_t module)
{
    *slots = (probe_slots){ .magic = MAGIC, .module = module };
    memset(slots->products, PROBE_UNKNOWN, sizeof slots->products);
}

bool probe_is_in_backward(void)
{
    const tensor_symbols *torch = tensor_symbols_get();
    return torch->graph_task != NULL && torch->graph_task() >= 0;
}

/* ---- the kernel ---------------------------------------------------------- */

/* The probe_slots of a slot in this tensor, or NULL with a reason; *slot becomes that in its row. */
static probe_slots *slots_in(const tt_tensor *t, int64_t *slot, char *why, size_t size)
{
    int64_t row = *slot / PROBE_BYTES, rows = t->count / PROBE_BYTES;
    if (t->dtype != TT_U8 || t->ndim != 1 || rows == 0 || t->stride[0] != 1 ||
        (uintptr_t)t->data % _Alignof(probe_slots) != 0) {
        snprintf(
            why, size,
            "tensortap::probe_v1: slots must be the contiguous uint8 tensor with rows of %d elements "
            "that tensortap made, not %s with %d dimensions and %lld elements",
            PROBE_BYTES, tt_dtype_name(t->dtype), (int)t->ndim, (long long)t->count);
        return NULL;
    }
    if (*slot < 0 || row >= rows || *slot % PROBE_BYTES >= PROBE_SLOTS) {
        snprintf(why, size,
                 "tensortap::probe_v1: slot must be from 0 to %d, and %d more for each row of slots, "
                 "which has %lld; not %lld",
                 PROBE_SLOTS - 1, PROBE_BYTES, (long long)rows, (long long)*slot);
        return NULL;
    }
    probe_slots *slots = (probe_slots *)(void *)((char *)t->data + row * PROBE_BYTES);
    if (slots->magic != MAGIC) {
        snprintf(why, size, "tensortap::probe_v1: slots was not made by tensortap; watch the model");
        return NULL;
    }
    *slot %= PROBE_BYTES;
    return slots;
}

/* What to compute of a slot.  The first time that is asked with the GIL. */
static uint32_t products_of(probe_slots *slots, int32_t slot)
{
    uint8_t products = slots->products[slot];
    if (products != PROBE_UNKNOWN)
        return products;
    if (listener == NULL || !Py_IsInitialized())
        return 0;
    PyGILState_STATE gil = PyGILState_Ensure();
    products = listener->products(slots->module, slot);
    PyGILState_Release(gil);
    slots->products[slot] = products; /* of a copy, where torch made one */
    return products;
}

static void *copy_value(const tt_tensor *t)
{
    size_t bytes = (size_t)t->count * tt_dtype_size(t->dtype);
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy != NULL)
        tt_tensor_copy(t, copy);
    return copy;
}

/* Counts a call.  What to compute: nothing in a forward that backward repeats.  *call: as in
 * probe_row; 0 at first in forward. */
static uint32_t begin_call(probe_slots *slots, int32_t slot, uint64_t *call)
{
    if (*call == 0 && probe_is_in_backward())
        return 0;
    if (*call == 0)
        *call = slots->call = ++calls;
    return products_of(slots, slot);
}

/* Begins the row of a tensor of which ndim, shape and dtype are known. */
static void begin_row(probe_row *row, const probe_slots *slots, uint64_t call, int32_t slot,
                      uint32_t products)
{
    memset(row, 0, offsetof(probe_row, dtype));
    row->module = slots->module;
    row->call = call;
    row->slot = slot;
    row->thread = probe_log_thread();
    row->wanted = products;
    row->time = base_clock(CLOCK_REALTIME_COARSE);
}

/* 0: this one is not timed. */
static int64_t begin_timing(void)
{
    return timer++ % TIMED == 0 ? base_clock(CLOCK_MONOTONIC) : 0;
}

static void end_timing(probe_row *row, int64_t start)
{
    row->cost = start != 0 ? base_clock(CLOCK_MONOTONIC) - start : 0;
}

/* Has the log read when an outermost module has run, or when it is long: a program may call nothing
 * but compiled parts of a watched model, and threads that have ended leave their rows. */
static void have_log_read(const probe_slots *slots)
{
    size_t count = probe_log_count();
    if ((slots->is_root ? count > 0 : count >= MANY) && eager_depth == 0 && listener != NULL &&
        Py_IsInitialized()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        listener->read(count >= MANY);
        PyGILState_Release(gil);
    }
}

/* Computes what is asked for and logs it.  The tensors are valid; call: of a gradient, else 0. */
static void run(const tt_tensor *x, probe_slots *slots, uint64_t call, int32_t slot)
{
    bool is_forward = call == 0;
    uint32_t products = begin_call(slots, slot, &call);
    if (products != 0) {
        probe_row row;
        begin_row(&row, slots, call, slot, products);
        row.dtype = x->dtype;
        row.ndim = x->ndim;
        memcpy(row.shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
        int64_t start = begin_timing();
        tensor_products_compute(x, products, &row.products);
        if (products & TT_PRODUCT_VALUE)
            row.value = copy_value(x);
        end_timing(&row, start);
        probe_log_append(&row);
    }
    if (is_forward)
        have_log_read(slots);
}

/* Reads the number of a call that slots had; false with a reason. */
static bool read_call(const tt_tensor *t, uint64_t *out, char *why, size_t size)
{
    uint64_t call = 0;
    bool is_call = t->dtype == TT_U8 && t->ndim == 1 && t->count == sizeof call && t->stride[0] == 1;
    if (is_call)
        memcpy(&call, t->data, sizeof call);
    else
        snprintf(why, size, "tensortap::probe_gradient_v1: call must be a copy of 8 bytes of slots");
    *out = call != 0 ? call : UINT64_MAX; /* 0: nothing was seen in forward */
    return is_call;
}

/* What the dispatcher calls.  It owns the tensors on the stack: x, slots and, of a gradient, call. */
static void kernel(uint64_t *stack, uint64_t arguments, uint64_t results)
{
    enum { X, HELD, CALL, MOST };
    tensor_handle all[MOST] = { NULL };
    size_t tensors = arguments - 1;
    int64_t slot = -1;
    uint64_t call = 0;
    char why[256] = "";
    tt_tensor tensor, slots, number;
    const tensor_symbols *torch = tensor_symbols_get();
    (void)results;
    if (tensors != CALL && tensors != MOST)
        return;
    memcpy(all, stack, tensors * sizeof *all);
    memcpy(&slot, &stack[tensors], sizeof slot);
    probe_slots *to = NULL;
    if (!tensor_describe(all[HELD], &slots))
        snprintf(why, sizeof why,
                 "tensortap::probe_v1: slots must be a dense tensor on the CPU; x and slots must lie on "
                 "the same device");
    else
        to = slots_in(&slots, &slot, why, sizeof why);
    if (to != NULL && tensors == MOST &&
        (!tensor_describe(all[CALL], &number) || !read_call(&number, &call, why, sizeof why)))
        to = NULL;
    if (to != NULL && tensor_describe(all[X], &tensor))
        run(&tensor, to, call, (int32_t)slot);
    for (size_t i = 0; i < tensors; i++)
        (void)torch->delete_tensor(all[i]);
    if (why[0] != '\0')
        torch->check(false, __func__, __FILE__, __LINE__, why); /* throws */
}

/* ---- for Python ---------------------------------------------------------- */

BINDING_FUNCTION(probe_register)
{
    static void *kernels; /* torch's for the rest of the process */
    (void)module;
    if (binding_read_arguments("_probe_register", 0, (const binding_option[]){ { 0 } }, args, nargs,
                               kwnames) < 0)
        return NULL;
    tensor_symbols_find();
    const tensor_symbols *torch = tensor_symbols_get();
    bool is_there = torch->library_implement != NULL && torch->implement != NULL &&
                    torch->check != NULL && torch->delete_tensor != NULL && torch->can_describe;
    if (kernels == NULL && is_there &&
        torch->library_implement("tensortap", "CPU", __FILE__, __LINE__, &kernels) == 0) {
        (void)torch->implement(kernels, "probe_v1", kernel);
        (void)torch->implement(kernels, "probe_gradient_v1", kernel);
    }
    return PyBool_FromLong(kernels != NULL);
}

/* The slots and the call in these arguments: a tensor; a tensor, or None in forward.  NULL with an
 * exception. */
static probe_slots *read_slots(binding_state *state, PyObject *held, PyObject *number, int64_t *slot,
                               tensor_view *view, uint64_t *call)
{
    char why[256] = "";
    tensor_view bytes;
    *call = 0;
    if (binding_open_view(state, held, view) < 0)
        return NULL;
    probe_slots *slots = slots_in(&view->tensor, slot, why, sizeof why);
    if (slots != NULL && number != Py_None) {
        if (binding_open_view(state, number, &bytes) < 0) {
            tensor_view_close(view);
            return NULL;
        }
        if (!read_call(&bytes.tensor, call, why, sizeof why))
            slots = NULL;
        tensor_view_close(&bytes);
    }
    if (slots == NULL) {
        tensor_view_close(view);
        PyErr_SetString(PyExc_ValueError, why);
    }
    return slots;
}

BINDING_FUNCTION(probe_run)
{
    binding_state *state = binding_state_of(module);
    tensor_view x, view;
    uint64_t call;
    if (nargs != 3 && binding_read_arguments("_probe_v1", 4, NULL, args, nargs, kwnames) < 0)
        return NULL;
    int64_t slot = PyLong_AsLongLong(args[nargs - 1]);
    if (PyErr_Occurred())
        return NULL;
    probe_slots *slots = read_slots(state, args[1], nargs == 4 ? args[2] : Py_None, &slot, &view, &call);
    if (slots == NULL)
        return NULL;
    if (tensor_view_open(&state->torch, args[0], &x) == VIEW_OK) { /* else as the kernel: not seen */
        PyThreadState *released = x.tensor.count > SMALL ? PyEval_SaveThread() : NULL;
        run(&x.tensor, slots, call, (int32_t)slot);
        if (released != NULL)
            PyEval_RestoreThread(released);
        tensor_view_close(&x);
    }
    PyErr_Clear();
    tensor_view_close(&view);
    Py_RETURN_NONE;
}

BINDING_FUNCTION(probe_run_on_device)
{
    binding_state *state = binding_state_of(module);
    tensor_view view;
    uint64_t call;
    probe_row row;
    if (binding_read_arguments("_probe_on_device", 6, NULL, args, nargs, kwnames) < 0)
        return NULL;
    int64_t slot = PyLong_AsLongLong(args[2]);
    probe_slots *slots =
        PyErr_Occurred() ? NULL : read_slots(state, args[0], args[1], &slot, &view, &call);
    if (slots == NULL)
        return NULL;
    PyObject *number = NULL, *result = NULL; /* owned */
    bool is_forward = call == 0;
    uint32_t products = begin_call(slots, (int32_t)slot, &call);
    if (products & (TT_PRODUCT_DIGEST | TT_PRODUCT_SAMPLE | TT_PRODUCT_VALUE)) {
        result = Py_NewRef(Py_True);
        goto out;
    }
    if (products != 0) {
        begin_row(&row, slots, call, (int32_t)slot, products);
        if (binding_read_shape(args[3], args[4], &row.dtype, row.shape, &row.ndim) < 0)
            goto out;
        int64_t start = begin_timing();
        if (products & TT_PRODUCT_STATS) {
            number = PyObject_CallOneArg(args[5], products & TT_PRODUCT_HIST ? Py_True : Py_False);
            row.pending = number != NULL ? PyLong_AsUnsignedLongLong(number) : 0;
            if (PyErr_Occurred())
                goto out;
        }
        end_timing(&row, start);
        probe_log_append(&row);
    }
    if (is_forward)
        have_log_read(slots);
    result = Py_NewRef(Py_False);
out:
    tensor_view_close(&view);
    Py_XDECREF(number);
    return result;
}
