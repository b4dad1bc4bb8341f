/* row.c -- from a tensor to the numbers that were asked for.
 *
 * One pass over the tensor gives every named metric.  Numbers wait in an array for
 * the end of the step, because a module may be called several times in it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "monitor/metrics.h"

#include <math.h>
#include <string.h>

/* Complex numbers: the size of their mean, as a metric is one number. */
static double mean_of(const tt_stats *s)
{
    return tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX ? hypot(s->mean, tt_stats_mean_imag(s))
                                                                : s->mean;
}

static double value_of(monitor_kind kind, const tt_stats *s)
{
    switch (kind) {
#define X(name, text, value) \
    case METRIC_##name:      \
        return value;
        METRIC_MAP(X)
#undef X
#define X(name, text, q) case METRIC_##name:
        METRIC_QUANTILE_MAP(X)
#undef X
    case METRIC_COUNT_:
        break;
    }
    return (double)NAN; /* of the histogram: known when the step ends */
}

/* Which quantile a field is; NaN: none. */
static double quantile_of(monitor_kind kind)
{
    static const double quantiles[] = {
#define X(name, text, q) [METRIC_##name - METRIC_Q05] = q,
        METRIC_QUANTILE_MAP(X)
#undef X
    };
    return kind >= METRIC_Q05 ? quantiles[kind - METRIC_Q05] : (double)NAN;
}

PyObject *monitor_field_names(void)
{
    static const char *const names[] = {
#define X(name, text, value) text,
        METRIC_MAP(X) METRIC_QUANTILE_MAP(X)
#undef X
    };
    PyObject *tuple = PyTuple_New(METRIC_COUNT_); /* owned */
    for (int i = 0; tuple != NULL && i < METRIC_COUNT_; i++) {
        PyObject *name = PyUnicode_InternFromString(names[i]);
        if (name == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, name);
    }
    return tuple;
}

/* ---- rows ---------------------------------------------------------------- */

static monitor_field *fields_of(monitor_row *row)
{
    return row->many_fields != NULL ? row->many_fields : row->few_fields;
}

static double *values_of(monitor_row *row)
{
    return row->many_values != NULL ? row->many_values : row->few_values;
}

static void row_free(monitor_row *row)
{
    for (int32_t i = 0; i < row->field_count; i++)
        Py_XDECREF(fields_of(row)[i].key);
    PyMem_Free(row->many_fields);
    PyMem_Free(row->many_values);
    tt_hist_free(row->hist);
    *row = (monitor_row){ 0 };
}

void monitor_rows_free(monitor_metrics *self)
{
    for (int32_t i = 0; i < self->row_count; i++)
        row_free(&self->rows[i]);
    PyMem_Free(self->rows);
    self->rows = NULL;
    self->row_count = self->row_cap = self->hist_count = 0;
    self->generation++;
}

static int read_field(PyObject *item, monitor_field *out)
{
    int kind, is_listed;
    PyObject *key; /* borrowed */
    if (!PyArg_ParseTuple(item, "iUp", &kind, &key, &is_listed))
        return -1;
    if (kind < 0 || kind >= METRIC_COUNT_) {
        PyErr_SetString(PyExc_ValueError, "no such metric");
        return -1;
    }
    *out =
        (monitor_field){ .kind = (monitor_kind)kind, .key = Py_NewRef(key), .is_listed = is_listed != 0 };
    return 0;
}

/* tuple of (kind, key, is_listed): gives the number of a new row */
PyObject *monitor_metrics_row(PyObject *self, PyObject *fields)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    monitor_row row = { 0 };
    if (!PyTuple_Check(fields)) {
        PyErr_SetString(PyExc_TypeError, "row() takes a tuple of (kind, key, is_listed)");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(fields);
    row.cap = 1;
    if (count > METRIC_FEW) {
        row.many_fields = PyMem_Calloc((size_t)count, sizeof *row.many_fields);
        row.many_values = PyMem_Calloc((size_t)count, sizeof *row.many_values);
        if (row.many_fields == NULL || row.many_values == NULL) {
            PyErr_NoMemory();
            goto failed;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (read_field(PyTuple_GET_ITEM(fields, i), &fields_of(&row)[i]) < 0)
            goto failed;
        row.field_count++;
        if (fields_of(&row)[i].kind >= METRIC_Q05 && row.hist == NULL && tt_hist_create(&row.hist) < 0) {
            PyErr_NoMemory();
            goto failed;
        }
    }
    if (metrics->row_count == metrics->row_cap) {
        int32_t cap = metrics->row_cap > 0 ? metrics->row_cap * 2 : 64;
        monitor_row *grown = PyMem_Realloc(metrics->rows, (size_t)cap * sizeof *grown);
        if (grown == NULL) {
            PyErr_NoMemory();
            goto failed;
        }
        metrics->rows = grown;
        metrics->row_cap = cap;
    }
    metrics->rows[metrics->row_count] = row;
    metrics->hist_count += row.hist != NULL;
    return PyLong_FromLong(metrics->row_count++);
failed:
    row_free(&row);
    return NULL;
}

/* ---- tensors ------------------------------------------------------------- */

int monitor_row_add(monitor_row *row, tt_stats stats)
{
    if (row->count == row->cap) {
        int32_t cap = row->cap * 2;
        double *grown =
            PyMem_Realloc(row->many_values, (size_t)cap * (size_t)(row->field_count + 1) * sizeof *grown);
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        if (row->many_values == NULL)
            memcpy(grown, row->few_values, sizeof row->few_values);
        row->many_values = grown;
        row->cap = cap;
    }
    row->is_spoilt |= (stats.nan | stats.posinf | stats.neginf) != 0;
    tt_stats_propagate(&stats); /* a metric's name promises what torch gives */
    double *values = values_of(row) + (size_t)row->count * (size_t)row->field_count;
    const monitor_field *fields = fields_of(row);
    for (int32_t i = 0; i < row->field_count; i++)
        values[i] = value_of(fields[i].kind, &stats);
    row->count++;
    return 0;
}

int monitor_row_read(monitor_metrics *self, tensor_looks *looks, int32_t number, PyObject *tensor,
                     tensor_trust *trust)
{
    uint64_t generation = self->generation;
    tensor_look *look = NULL;
    tensor_view_result why = VIEW_DEVICE;
    if (!self->state->is_device_forced) {
        /* Looking at a tensor with a class of its own may run any code, which may free *trust. */
        tensor_trust known = trust != NULL ? *trust : (tensor_trust){ 0 };
        look = tensor_look_at(looks, tensor, &known);
        if (look == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        why = look->why;
        if (generation != self->generation)
            return 0; /* the rows are gone */
        if (trust != NULL)
            *trust = known;
    }
    if (why != VIEW_OK) {
        tensor_looks_clear(looks);
        PyObject *result =
            PyObject_CallFunction(self->unread, "iOs", (int)number, tensor, tensor_view_result_word(why));
        Py_XDECREF(result);
        return result != NULL ? 0 : -1;
    }
    monitor_row *row = &self->rows[number];
    if (row->hist != NULL)
        tt_hist_add(row->hist, &look->view.tensor);
    return monitor_row_add(row, *tensor_look_stats(look));
}

/* ---- the end of the step ------------------------------------------------- */

enum { AHEAD = 4 };

/* 1: written; 0: there is an entry of this key already; -1: with an exception. */
static int add_number(PyObject *dict, PyObject *key, double value)
{
    PyObject *number = PyFloat_FromDouble(value);                                   /* owned */
    PyObject *there = number != NULL ? PyDict_SetDefault(dict, key, number) : NULL; /* borrowed */
    int result = there == NULL ? -1 : there == number;
    Py_XDECREF(number);
    return result;
}

/* Appends (key, [values]). */
static int add_list(PyObject *list, monitor_row *row, int32_t field, double quantile)
{
    bool is_quantile = fields_of(row)[field].kind >= METRIC_Q05;
    int32_t count = is_quantile ? 1 : row->count;
    PyObject *values = PyList_New(count); /* owned */
    PyObject *pair = NULL;                /* owned */
    for (int32_t i = 0; values != NULL && i < count; i++) {
        double value =
            is_quantile ? quantile : values_of(row)[(size_t)i * (size_t)row->field_count + (size_t)field];
        PyObject *number = PyFloat_FromDouble(value);
        if (number == NULL)
            Py_CLEAR(values);
        else
            PyList_SET_ITEM(values, i, number);
    }
    if (values != NULL)
        pair = PyTuple_Pack(2, fields_of(row)[field].key, values);
    int result = pair != NULL ? PyList_Append(list, pair) : -1;
    Py_XDECREF(values);
    Py_XDECREF(pair);
    return result;
}

static int collect_field(monitor_row *row, int32_t field, PyObject *into, PyObject *lists,
                         PyObject *undefined)
{
    const monitor_field *at = &fields_of(row)[field];
    double value = 0;
    if (at->kind >= METRIC_Q05) {
        value = tt_hist_quantile(row->hist, quantile_of(at->kind));
    } else {
        for (int32_t i = 0; i < row->count; i++)
            value += values_of(row)[(size_t)i * (size_t)row->field_count + (size_t)field];
        value /= (double)row->count;
    }
    if (undefined != Py_None && isnan(value) && !row->is_spoilt && PySet_Add(undefined, at->key) < 0)
        return -1;
    int is_written = into != Py_None && !at->is_listed ? add_number(into, at->key, value) : 0;
    return is_written != 0 ? is_written : add_list(lists, row, field, value);
}

static int row_reset(monitor_row *row)
{
    row->count = 0;
    row->is_spoilt = false;
    if (row->hist == NULL)
        return 0;
    tt_hist *fresh = NULL;
    if (tt_hist_create(&fresh) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    tt_hist_free(row->hist);
    row->hist = fresh;
    return 0;
}

/* collect(into, keeps, undefined=None): writes the mean of each metric into the dict `into`, and gives
 * [(key, [values])] of those that are there already or that have an aggregation of their
 * own; into=None: of all.  Afterwards rows are empty, unless keeps.  The keys of metrics that are
 * NaN though no tensor held NaN or Inf, such as the std of one element, go into the set
 * `undefined`. */
PyObject *monitor_metrics_collect(PyObject *self, PyObject *args)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    PyObject *into, *undefined = Py_None; /* borrowed */
    int keeps;
    if (!PyArg_ParseTuple(args, "Op|O:collect", &into, &keeps, &undefined))
        return NULL;
    if ((into != Py_None && !PyDict_Check(into)) || (undefined != Py_None && !PySet_Check(undefined))) {
        PyErr_SetString(PyExc_TypeError, "into must be a dict or None, undefined a set or None");
        return NULL;
    }
    PyObject *lists = PyList_New(0); /* owned */
    for (int32_t i = 0; lists != NULL && i < metrics->row_count; i++) {
        monitor_row *row = &metrics->rows[i];
        if (i + AHEAD < metrics->row_count) /* all keys are cold by now */
            __builtin_prefetch(fields_of(row + AHEAD)[0].key);
        if (row->count == 0)
            continue;
        for (int32_t field = 0; lists != NULL && field < row->field_count; field++)
            if (collect_field(row, field, into, lists, undefined) < 0)
                Py_CLEAR(lists);
        if (!keeps && row_reset(row) < 0)
            Py_CLEAR(lists);
    }
    return lists;
}

/* bins(): {key of the first quantile: [(low, high, count)]} of this step's histograms */
PyObject *monitor_metrics_bins(PyObject *self, PyObject *Py_UNUSED(none))
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    PyObject *all = PyDict_New(); /* owned */
    for (int32_t i = 0; all != NULL && metrics->hist_count > 0 && i < metrics->row_count; i++) {
        monitor_row *row = &metrics->rows[i];
        int32_t field = 0;
        while (field < row->field_count && fields_of(row)[field].kind < METRIC_Q05)
            field++;
        if (field == row->field_count || row->count == 0)
            continue;
        size_t count = tt_hist_bins(row->hist, NULL, 0);
        tt_hist_bin *bins = PyMem_New(tt_hist_bin, count + 1); /* owned */
        PyObject *list = PyList_New((Py_ssize_t)count);        /* owned */
        bool is_made = bins != NULL && list != NULL;
        if (is_made)
            tt_hist_bins(row->hist, bins, count);
        for (size_t at = 0; is_made && at < count; at++) {
            PyObject *bin =
                Py_BuildValue("(ddL)", bins[at].low, bins[at].high, (long long)bins[at].count);
            is_made = bin != NULL;
            if (is_made)
                PyList_SET_ITEM(list, (Py_ssize_t)at, bin);
        }
        if (!is_made || PyDict_SetItem(all, fields_of(row)[field].key, list) < 0)
            Py_CLEAR(all);
        PyMem_Free(bins);
        Py_XDECREF(list);
    }
    if (all == NULL && !PyErr_Occurred())
        PyErr_NoMemory();
    return all;
}

/* numbers(list): tensors of one element that can be read here, and floats, as floats; None for
 * others */
PyObject *monitor_metrics_numbers(PyObject *self, PyObject *list)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "numbers() takes a list of tensors");
        return NULL;
    }
    PyObject *out = PyList_New(PyList_GET_SIZE(list)); /* owned */
    for (Py_ssize_t i = 0; out != NULL && i < PyList_GET_SIZE(out); i++) {
        PyObject *tensor = Py_NewRef(PyList_GET_ITEM(list, i)); /* owned */
        PyObject *number = NULL;
        tensor_view view;
        if (PyFloat_CheckExact(tensor)) {
            number = Py_NewRef(tensor);
        } else if (!metrics->state->is_device_forced &&
                   tensor_view_open(&metrics->state->torch, tensor, &view) == VIEW_OK) {
            const tt_tensor *t = &view.tensor;
            bool is_one = t->count == 1 && !t->is_swapped && tt_dtype_kind(t->dtype) != TT_KIND_COMPLEX;
            number = is_one ? PyFloat_FromDouble(tt_element_f64(t->dtype, t->data)) : Py_NewRef(Py_None);
            tensor_view_close(&view);
        } else {
            number = Py_NewRef(Py_None);
        }
        Py_DECREF(tensor);
        if (number == NULL)
            Py_CLEAR(out);
        else
            PyList_SET_ITEM(out, i, number);
    }
    return out;
}
