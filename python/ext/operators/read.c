/* read.c -- reads the tensors among the arguments and results of an operator.
 *
 * Statistics of all floating point tensors, computed by the core, and who wrote them.  Where a bad
 * value may have begun, also in which rows it is, and how many operands are negative.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "operators/log.h"
#include "summary/facts.h"
#include "tensor/walk.h"

#include <math.h>

/* ---- one tensor ------------------------------------------------------------------ */

/* The bad values among the operands that this item of the result comes from; true: there are some. */
static bool has_bad_operand(const operators_spot *where, bool is_nan)
{
    const operators_log *self = where->self;
    const operators_row *row = &self->rows[where->row];
    bool is_each = self->kinds[row->operator].flags & OPERATOR_EACH && where->item >= 0;
    for (uint32_t i = 0; i < row->operands; i++) {
        const operators_tensor *t = &self->tensors[row->operands_at + i];
        if (t->flags & TENSOR_OVERWRITTEN || (is_each && t->item >= 0 && t->item != where->item))
            continue;
        if (is_nan ? t->has_stats && t->stats.nan > 0 : operators_is_bad(t))
            return true;
    }
    return false;
}

enum { MOST_ROWS = 1 << 20 }; /* that are looked at one by one: tens of ms */

/* Which rows of the first dimension hold bad values? */
static void count_rows(operators_tensor *out, const tt_tensor *view)
{
    tt_tensor one = *view;
    if (view->ndim < 1 || view->count == 0 || view->shape[0] > MOST_ROWS)
        return;
    one.ndim--;
    one.count = view->count / view->shape[0];
    memmove(one.shape, one.shape + 1, (size_t)one.ndim * sizeof *one.shape);
    memmove(one.stride, one.stride + 1, (size_t)one.ndim * sizeof *one.stride);
    out->bad_rows = 0;
    for (int64_t i = 0; i < view->shape[0]; i++) {
        tt_stats stats;
        one.data = (const char *)view->data + i * view->stride[0];
        tt_stats_compute(&one, &stats);
        if (stats.nan + stats.posinf + stats.neginf == 0)
            continue;
        if (out->bad_rows < OPERATORS_PLACES)
            out->first_rows[out->bad_rows] = i;
        out->bad_rows++;
    }
}

static void count_negative(operators_tensor *out, const tt_tensor *view)
{
    tt_hist *hist = NULL;     /* owned */
    tt_hist_bin *bins = NULL; /* owned */
    if (tt_hist_create(&hist) < 0)
        return;
    tt_hist_add(hist, view);
    size_t count = tt_hist_bins(hist, NULL, 0);
    bins = PyMem_Calloc(count + 1, sizeof *bins);
    if (bins != NULL) {
        out->negative = 0;
        (void)tt_hist_bins(hist, bins, count);
        for (size_t i = 0; i < count && bins[i].low < 0; i++)
            out->negative += bins[i].count;
    }
    tt_hist_free(hist);
    PyMem_Free(bins);
}

static bool is_float(tt_dtype dtype)
{
    return tt_dtype_kind(dtype) == TT_KIND_FLOAT || tt_dtype_kind(dtype) == TT_KIND_COMPLEX;
}

/* A view has the elements of an operand whose statistics are known, all of them or none of its own. */
static bool copy_stats(const operators_spot *where, operators_tensor *out, const tt_tensor *view)
{
    const operators_log *self = where->self;
    const operators_row *row = &self->rows[where->row];
    for (uint32_t i = 0; i < row->operands; i++) {
        const operators_tensor *t = &self->tensors[row->operands_at + i];
        if (t->storage != out->storage)
            continue;
        out->flags |= TENSOR_VIEW;
        if (t->has_stats && t->stats.count == view->count && t->dtype == (int32_t)view->dtype) {
            out->stats = t->stats;
            out->has_stats = true;
            return true;
        }
    }
    return false;
}

static bool put_shape(operators_log *self, operators_tensor *out, const int64_t *shape, int32_t ndim)
{
    if (ndim < 0 || !base_array_grow(&self->shapes, &self->shape_cap, self->shape_count + (size_t)ndim,
                                     sizeof *self->shapes))
        return false;
    out->ndim = ndim;
    out->shape_at = self->shape_count;
    memcpy(self->shapes + self->shape_count, shape, (size_t)ndim * sizeof *shape);
    self->shape_count += (size_t)ndim;
    return true;
}

/* Type, shape and statistics of a tensor that the core does not read: those of its values if it is
 * sparse, those that torch computes if it is on another device. */
static void read_slowly(operators_log *self, PyObject *tensor, tensor_view_result why,
                        operators_tensor *out)
{
    bool is_sparse = why == VIEW_SPARSE;
    PyObject *values = is_sparse ? PyObject_CallMethod(tensor, "_values", NULL) : NULL; /* owned */
    if (is_sparse && values == NULL) { /* compressed rows or columns */
        PyErr_Clear();
        values = PyObject_CallMethod(tensor, "values", NULL);
    }
    PyErr_Clear();
    summary_facts facts;
    tensor_view view;
    if (why == VIEW_META || why == VIEW_FAKE)
        return;
    if (summary_facts_read(self->state, values != NULL ? values : tensor, &facts, &view) == VIEW_OK)
        tensor_view_close(&view);
    if (facts.ndim >= 0 && facts.has_stats && put_shape(self, out, facts.shape, facts.ndim)) {
        out->stats = facts.stats;
        out->dtype = facts.stats.dtype;
        out->has_stats = is_float((tt_dtype)facts.stats.dtype);
    }
    Py_XDECREF(values);
}

/* Did a compiled graph return it? */
static bool is_compiled(PyObject *tensor)
{
    PyObject *node = PyObject_GetAttrString(tensor, "grad_fn"); /* owned */
    bool is_it = node != NULL && strstr(Py_TYPE(node)->tp_name, "CompiledFunction") != NULL;
    PyErr_Clear();
    Py_XDECREF(node);
    return is_it;
}

/* Reads an operand before the operator runs. */
static void read_operand(operators_spot *where, PyObject *tensor, const tt_tensor *view,
                         operators_memory *memory, operators_tensor *out)
{
    if (view != NULL && is_float(view->dtype) && !(out->flags & TENSOR_OVERWRITTEN)) {
        tt_stats_compute(view, &out->stats);
        out->has_stats = true;
    }
    if (memory != NULL)
        operators_memory_read(memory, where->row, view, out);
    if (!operators_is_bad(out) || out->bad_writer != OPERATORS_NONE)
        return;
    if (out->seen == OPERATORS_NONE && is_compiled(tensor))
        out->flags |= TENSOR_COMPILED;
    if (view != NULL)
        count_rows(out, view);
}

static void read_result(operators_spot *where, const tt_tensor *view, operators_memory *memory,
                        operators_tensor *out)
{
    operators_log *self = where->self;
    bool is_empty = self->kinds[self->rows[where->row].operator].flags & OPERATOR_EMPTY;
    bool is_known = false;
    out->storage = memory != NULL ? memory->storage : 0;
    if (view != NULL && memory != NULL && !(out->flags & TENSOR_WRITTEN))
        is_known = copy_stats(where, out, view);
    if (view != NULL && is_float(view->dtype) && !is_known && !is_empty) {
        tt_stats_compute(view, &out->stats);
        out->has_stats = true;
    }
    if (memory != NULL && !(out->flags & TENSOR_VIEW))
        operators_memory_write(memory, where->row, view, is_empty, out);
    if (view != NULL && operators_is_bad(out) && !(out->flags & TENSOR_VIEW) &&
        (!has_bad_operand(where, false) || (out->stats.nan > 0 && !has_bad_operand(where, true)))) {
        where->has_created = true;
        count_rows(out, view);
    }
}

/* Counts the negative elements of an operand, after the operator has created a bad value. */
static void count_again(operators_spot *where, PyObject *tensor)
{
    operators_log *self = where->self;
    const operators_row *row = &self->rows[where->row];
    tensor_view view;
    uint32_t number = where->count++;
    if (number >= row->operands || tensor_view_open(&self->state->torch, tensor, &view) != VIEW_OK)
        return;
    operators_tensor *known = &self->tensors[row->operands_at + number];
    if (is_float(view.tensor.dtype) && !(known->flags & TENSOR_WRITTEN))
        count_negative(known, &view.tensor);
    tensor_view_close(&view);
}

/* Adds a tensor to the row, and to the list of those that the operator has written. */
static int keep(operators_spot *where, PyObject *tensor, const operators_tensor *one)
{
    operators_log *self = where->self;
    bool is_written = where->purpose == OPERATORS_RESULT && one->flags & TENSOR_WRITTEN;
    if (!base_array_grow(&self->tensors, &self->tensor_cap, self->tensor_count + 1,
                         sizeof *self->tensors) ||
        (is_written && !base_array_grow(&where->written, &where->written_cap, where->written_count + 1,
                                        sizeof *where->written)))
        return -1;
    self->tensors[self->tensor_count++] = *one;
    where->count++;
    if (is_written)
        where->written[where->written_count++] = tensor;
    return 0;
}

static int add_tensor(operators_spot *where, PyObject *tensor)
{
    operators_log *self = where->self;
    tensor_view view;
    tensor_view_result why = tensor_view_open(&self->state->torch, tensor, &view);
    const tt_tensor *t = why == VIEW_OK ? &view.tensor : NULL;
    operators_tensor one = { .writer = OPERATORS_NONE,
                             .bad_writer = OPERATORS_NONE,
                             .seen = OPERATORS_NONE,
                             .item = where->item,
                             .argument = (int16_t)where->argument,
                             .flags = where->flags,
                             .why = (uint8_t)why,
                             .negative = -1,
                             .bad_rows = -1,
                             .dtype = t != NULL ? (int32_t)t->dtype : -1,
                             .ndim = -1 };
    if (t != NULL)
        (void)put_shape(self, &one, t->shape, t->ndim);
    else
        read_slowly(self, tensor, why, &one);
    /* From here on no code of Python runs that could move the array of memories. */
    operators_memory *memory =
        why == VIEW_OK || why == VIEW_DEVICE ? operators_memory_of(self, tensor) : NULL;
    if (where->purpose == OPERATORS_OPERAND)
        read_operand(where, tensor, t, memory, &one);
    else
        read_result(where, t, memory, &one);
    if (why == VIEW_OK)
        tensor_view_close(&view);
    return keep(where, tensor, &one);
}

/* ---- arguments and results --------------------------------------------------------- */

int operators_visit(operators_spot *where, PyObject *value, int depth)
{
    operators_log *self = where->self;
    if (value == Py_None || PyLong_Check(value) || PyUnicode_Check(value))
        return 0;
    if (PyFloat_Check(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        if (where->purpose == OPERATORS_OPERAND && !isfinite(number))
            self->rows[where->row].flags |= isnan(number) ? ROW_NAN_ARGUMENT : ROW_INF_ARGUMENT;
        return 0;
    }
    if (tensor_torch_is_tensor(&self->state->torch, value)) {
        for (size_t i = 0; where->purpose == OPERATORS_RESULT && i < where->written_count; i++)
            if (where->written[i] == value) /* it was written, and is returned as well */
                return 0;
        if (where->purpose != OPERATORS_AGAIN)
            return add_tensor(where, value);
        count_again(where, value);
        return 0;
    }
    tensor_children it;
    int result = 0, outer = where->item;
    if (depth >= WALK_DEPTH)
        return 0;
    tensor_children_open(&it, &self->state->torch, value, 0);
    while (result == 0 && tensor_children_next(&it)) {
        where->item = depth == 0 ? (int)it.index : outer;
        result = operators_visit(where, it.value, depth + 1);
    }
    tensor_children_close(&it);
    where->item = outer;
    return result;
}

static bool is_named(PyObject *names, PyObject *name)
{
    int found = PySequence_Contains(names, name);
    PyErr_Clear();
    return found > 0;
}

/* All arguments, or those that the operator writes. */
int operators_visit_arguments(operators_spot *where, PyObject *args, PyObject *kwargs,
                              bool is_written_only)
{
    operators_kind kind = where->self->kinds[where->self->rows[where->row].operator];
    uint8_t written = TENSOR_WRITTEN | (kind.flags & OPERATOR_OVERWRITES ? TENSOR_OVERWRITTEN : 0);
    PyObject *name = NULL, *value = NULL; /* borrowed */
    Py_ssize_t at = 0;
    int result = 0;
    for (Py_ssize_t i = 0; result == 0 && i < PyTuple_GET_SIZE(args); i++) {
        bool is_written = i < 64 && kind.written >> i & 1;
        where->argument = (int)i;
        where->flags = is_written ? written : 0;
        if (is_written || !is_written_only)
            result = operators_visit(where, PyTuple_GET_ITEM(args, i), 0);
    }
    while (result == 0 && kwargs != NULL && PyDict_Next(kwargs, &at, &name, &value)) {
        bool is_written = is_named(kind.names, name);
        where->argument = -1;
        where->flags = is_written ? TENSOR_WRITTEN | TENSOR_OVERWRITTEN : 0;
        if (is_written || !is_written_only)
            result = operators_visit(where, value, 0);
    }
    return result;
}
