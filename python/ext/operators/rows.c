/* rows.c -- what OperatorLog has noted, as Python objects.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operators/log.h"
#include "summary/stats.h"

/* (argument, item, flags, why, writer, bad writer, seen, storage, dtype, shape, stats, negative, bad rows,
 * first of them) */
static PyObject *tensor_tuple(const operators_log *self, const operators_tensor *t)
{
    const int64_t *sizes = self->shapes + t->shape_at;
    const char *dtype = t->dtype >= 0 ? tt_dtype_name((tt_dtype)t->dtype) : NULL;
    PyObject *shape = t->ndim >= 0 ? binding_shape_tuple(sizes, t->ndim) : Py_NewRef(Py_None);
    PyObject *stats =
        t->has_stats ? summary_stats_make(self->state, &t->stats, sizes, t->ndim) : Py_NewRef(Py_None);
    int64_t rows = t->bad_rows < 0 ? 0 : t->bad_rows < OPERATORS_PLACES ? t->bad_rows : OPERATORS_PLACES;
    return Py_BuildValue("(iiisiiiKzNNLLN)", t->argument, t->item, t->flags,
                         tensor_view_result_word((tensor_view_result)t->why), t->writer, t->bad_writer,
                         t->seen, (unsigned long long)t->storage, dtype, shape, stats,
                         (long long)t->negative, (long long)t->bad_rows,
                         binding_shape_tuple(t->first_rows, (Py_ssize_t)rows));
}

static PyObject *tensor_list(const operators_log *self, size_t at, uint32_t count)
{
    PyObject *list = PyList_New(0); /* owned */
    for (uint32_t i = 0; list != NULL && i < count; i++)
        binding_list_add(&list, tensor_tuple(self, &self->tensors[at + i]));
    return list;
}

/* (code, line), or None. */
static PyObject *line_tuple(operators_line line)
{
    return line.code != NULL ? Py_BuildValue("(Oi)", line.code, line.number) : Py_NewRef(Py_None);
}

PyObject *operators_log_read(PyObject *obj, PyObject *index)
{
    operators_log *self = (operators_log *)obj;
    Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    if (at < 0 || (size_t)at >= self->row_count) {
        PyErr_Format(PyExc_IndexError, "there are %zu operators, numbered from 0; not %zd",
                     self->row_count, at);
        return NULL;
    }
    operators_row row = self->rows[at];
    PyObject *node = row.node_type != OPERATORS_NONE ? PyList_GET_ITEM(self->node_types, row.node_type)
                                                     : Py_None; /* borrowed */
    return Py_BuildValue("(INNiOKKKILLkNN)", row.operator, line_tuple(row.line), line_tuple(row.caller),
                         row.module, node, (unsigned long long)row.node, (unsigned long long)row.variable,
                         (unsigned long long)row.made, row.flags, (long long)row.start,
                         (long long)row.end, row.thread, tensor_list(self, row.operands_at, row.operands),
                         tensor_list(self, row.results_at, row.results));
}
