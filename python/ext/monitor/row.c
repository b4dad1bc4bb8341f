/* row.c -- from a tensor to the numbers that were asked for.
 *
 * One pass over the tensor computes every metric that is known by name.  The numbers are kept until the
 * end of the step, because a module may be called several times in it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "monitor/metrics.h"
#include "summary/functions.h"

#include <math.h>

/* Complex numbers: the size of their mean, as a metric is one number. */
static double mean_of(const tt_stats *s)
{
    return tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX ? hypot(s->mean, tt_stats_mean_imag(s))
                                                                : s->mean;
}

static double value_of(int kind, const tt_stats *s)
{
    switch (kind) {
#define X(name, text, value) \
    case METRIC_##name:      \
        return value;
        METRIC_MAP(X)
#undef X
    default:
        return (double)NAN; /* a quantile: known when the step ends */
    }
}

static const struct {
    const char *name;
    double quantile; /* if it is one */
} kinds[] = {
#define X(name, text, ...) [METRIC_##name] = { text, 0 },
    METRIC_MAP(X)
#undef X
#define X(name, text, q) [METRIC_##name] = { text, q },
        METRIC_QUANTILE_MAP(X)
#undef X
};

PyObject *monitor_field_names(void)
{
    PyObject *names = PyList_New(0); /* owned */
    for (int i = 0; i < METRIC_COUNT_; i++)
        binding_list_add(&names, PyUnicode_FromString(kinds[i].name));
    return names;
}

/* ---- rows ---------------------------------------------------------------- */

/* field_count of each tensor, one after the other */
static double *values_of(monitor_row *row)
{
    return (double *)(row->fields + row->field_count);
}

/* Another place for a row (NULL: a new one) with room for so many tensors; NULL with MemoryError. */
static monitor_row *row_resize(monitor_row *row, size_t field_count, size_t cap)
{
    size_t each = field_count * sizeof(double);
    monitor_row *grown =
        cap <= (size_t)PY_SSIZE_T_MAX / 2 / (each + 1)
            ? PyMem_Realloc(row, sizeof *row + field_count * sizeof *row->fields + cap * each)
            : NULL;
    if (grown == NULL)
        PyErr_NoMemory();
    else
        grown->cap = cap;
    return grown;
}

static void row_free(monitor_row *row)
{
    for (int32_t i = 0; i < row->field_count; i++)
        Py_XDECREF(row->fields[i].key);
    Py_XDECREF(row->hist);
    PyMem_Free(row);
}

void monitor_rows_free(monitor_metrics *self)
{
    for (int32_t i = 0; i < self->row_count; i++)
        row_free(self->rows[i]);
    PyMem_Free(self->rows);
    self->rows = NULL;
    self->row_count = 0;
    self->row_cap = 0;
    self->generation++;
}

static int read_fields(binding_state *state, PyObject *fields, monitor_row *out)
{
    while (!PyErr_Occurred() && out->field_count < PyTuple_GET_SIZE(fields)) {
        monitor_field *field = &out->fields[out->field_count];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(fields, out->field_count), "iUp", &field->kind,
                              &field->key, &field->is_listed))
            break;
        out->field_count++;
        Py_INCREF(field->key);
        if (field->kind < 0 || field->kind >= METRIC_COUNT_)
            PyErr_SetString(PyExc_ValueError, "no such metric");
        else if (field->kind >= METRIC_Q05 && out->hist == NULL)
            out->hist = summary_histogram_make(state->summary_histogram_type);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* tuple of (kind, key, is_listed): returns the number of a new row */
PyObject *monitor_metrics_row(PyObject *self, PyObject *fields)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    if (!PyTuple_Check(fields))
        return PyErr_Format(PyExc_TypeError, "row() takes a tuple of (kind, key, is_listed)");
    if (!base_array_grow(&metrics->rows, &metrics->row_cap, (size_t)metrics->row_count + 1,
                         sizeof *metrics->rows))
        return PyErr_NoMemory();
    monitor_row *row = row_resize(NULL, (size_t)PyTuple_GET_SIZE(fields), 1);
    if (row == NULL)
        return NULL;
    *row = (monitor_row){ .cap = 1 };
    if (read_fields(metrics->state, fields, row) < 0) {
        row_free(row);
        return NULL;
    }
    metrics->rows[metrics->row_count] = row;
    return PyLong_FromLong(metrics->row_count++);
}

/* ---- tensors ------------------------------------------------------------- */

int monitor_row_add(monitor_row **at, tt_stats stats)
{
    monitor_row *row = *at;
    if (row->count == row->cap) {
        row = row_resize(row, (size_t)row->field_count, 2 * row->cap);
        if (row == NULL)
            return -1;
        *at = row;
    }
    double *values = values_of(row) + row->count * (size_t)row->field_count;
    row->has_nonfinite |= (stats.nan | stats.posinf | stats.neginf) != 0;
    tt_stats_propagate(&stats); /* a metric's name promises what torch computes */
    for (int32_t i = 0; i < row->field_count; i++)
        values[i] = value_of(row->fields[i].kind, &stats);
    row->count++;
    return 0;
}

/* Python reads what we cannot: a tensor, or the number of statistics that a device computes (steals it).
 * 0, or -1 with its exception. */
static int pass_on(const monitor_metrics *self, int32_t number, PyObject *tensor, tensor_view_result why)
{
    PyObject *result = tensor != NULL ? PyObject_CallFunction(self->unread, "iOs", (int)number, tensor,
                                                              tensor_view_result_word(why))
                                      : NULL; /* owned */
    Py_XDECREF(result);
    Py_XDECREF(tensor);
    return result != NULL ? 0 : -1;
}

static int read_tensor(monitor_metrics *self, int32_t number, const calls_observation *seen)
{
    uint64_t generation = self->generation;
    tensor_look *look = NULL;
    tensor_view_result why = VIEW_DEVICE;
    if (!self->state->is_device_forced) {
        look = tensor_look_at(seen->looks, seen->tensor); /* may run any code of a class of its own */
        if (look == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        why = look->why;
        if (generation != self->generation)
            return 0; /* the rows are gone */
    }
    if (why != VIEW_OK) {
        tensor_looks_clear(seen->looks);
        return pass_on(self, number, Py_NewRef(seen->tensor), why);
    }
    if (self->rows[number]->hist != NULL)
        tt_hist_add(summary_hist_of(self->rows[number]->hist), &look->view.tensor);
    return monitor_row_add(&self->rows[number], *tensor_look_stats(look));
}

int monitor_row_read(monitor_metrics *self, int32_t number, const calls_observation *seen)
{
    const probe_row *probed = seen->row;
    if (probed == NULL)
        return read_tensor(self, number, seen);
    if (probed->pending != 0)
        return pass_on(self, number, PyLong_FromUnsignedLongLong(probed->pending), VIEW_DEVICE);
    if (!(probed->products.has & TT_PRODUCT_STATS))
        return 0;
    if (self->rows[number]->hist != NULL && probed->products.hist != NULL)
        tt_hist_merge(summary_hist_of(self->rows[number]->hist), probed->products.hist);
    return monitor_row_add(&self->rows[number], probed->products.stats);
}

/* ---- the end of the step ------------------------------------------------- */

/* 1: written; 0: there is an entry of this key already; -1: with an exception. */
static int add_number(PyObject *dict, PyObject *key, double value)
{
    PyObject *number = PyFloat_FromDouble(value);                                   /* owned */
    PyObject *there = number != NULL ? PyDict_SetDefault(dict, key, number) : NULL; /* borrowed */
    int result = there == NULL ? -1 : there == number;
    Py_XDECREF(number);
    return result;
}

static double value_at(monitor_row *row, size_t tensor, int32_t field)
{
    return values_of(row)[tensor * (size_t)row->field_count + (size_t)field];
}

/* Appends (key, [values]); of a quantile, there is one for all tensors. */
static void add_list(PyObject **lists, monitor_row *row, int32_t field, double quantile)
{
    bool is_quantile = row->fields[field].kind >= METRIC_Q05;
    PyObject *values = PyList_New(0); /* owned */
    for (size_t i = 0; i < (is_quantile ? 1 : row->count); i++)
        binding_list_add(&values, PyFloat_FromDouble(is_quantile ? quantile : value_at(row, i, field)));
    binding_list_add(lists,
                     values != NULL ? Py_BuildValue("(ON)", row->fields[field].key, values) : NULL);
}

static void collect_field(monitor_row *row, int32_t field, PyObject *into, PyObject **lists,
                          PyObject *undefined)
{
    const monitor_field *at = &row->fields[field];
    double value = 0;
    if (at->kind >= METRIC_Q05) {
        value = tt_hist_quantile(summary_hist_of(row->hist), kinds[at->kind].quantile);
    } else {
        for (size_t i = 0; i < row->count; i++)
            value += value_at(row, i, field);
        value /= (double)row->count;
    }
    int is_written = 0;
    if (undefined != Py_None && isnan(value) && !row->has_nonfinite)
        is_written = PySet_Add(undefined, at->key);
    if (is_written == 0 && into != Py_None && !at->is_listed)
        is_written = add_number(into, at->key, value);
    if (is_written < 0)
        Py_CLEAR(*lists);
    else if (is_written == 0)
        add_list(lists, row, field, value);
}

/* collect(into, keeps, undefined=None): writes the mean of each metric into the dict `into`, and returns
 * [(key, [values])] of those that are there already or that have an aggregation function; into=None: of
 * all.  Afterwards rows are empty, unless keeps.  The keys of metrics that are NaN though no tensor held
 * NaN or Inf, such as the std of one element, go into the set `undefined`. */
PyObject *monitor_metrics_collect(PyObject *self, PyObject *args)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    PyObject *into, *undefined = Py_None; /* borrowed */
    int keeps;
    if (!PyArg_ParseTuple(args, "Op|O:collect", &into, &keeps, &undefined))
        return NULL;
    if ((into != Py_None && !PyDict_Check(into)) || (undefined != Py_None && !PySet_Check(undefined)))
        return PyErr_Format(PyExc_TypeError, "into must be a dict or None, undefined a set or None");
    if (calls_traced_drain(metrics->state, true) < 0)
        return NULL;
    PyObject *lists = PyList_New(0); /* owned */
    for (int32_t i = 0; lists != NULL && i < metrics->row_count; i++) {
        monitor_row *row = metrics->rows[i];
        if (row->count == 0)
            continue;
        for (int32_t field = 0; lists != NULL && field < row->field_count; field++)
            collect_field(row, field, into, &lists, undefined);
        if (keeps)
            continue;
        row->count = 0;
        row->has_nonfinite = false;
        if (row->hist != NULL) {
            PyObject *fresh = summary_histogram_make(Py_TYPE(row->hist)); /* owned */
            if (fresh == NULL)
                Py_CLEAR(lists);
            else
                Py_SETREF(row->hist, fresh);
        }
    }
    return lists;
}

/* histograms(): {key of the first quantile: Histogram of this step} */
PyObject *monitor_metrics_histograms(PyObject *self, PyObject *Py_UNUSED(none))
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    PyObject *all = PyDict_New(); /* owned */
    for (int32_t i = 0; all != NULL && i < metrics->row_count; i++) {
        const monitor_row *row = metrics->rows[i];
        int32_t field = 0;
        if (row->hist == NULL || row->count == 0)
            continue;
        while (row->fields[field].kind < METRIC_Q05)
            field++;
        if (PyDict_SetItem(all, row->fields[field].key, row->hist) < 0)
            Py_CLEAR(all);
    }
    return all;
}

/* numbers(list): floats, and tensors of one element that can be read here, as floats; None for others */
PyObject *monitor_metrics_numbers(PyObject *self, PyObject *list)
{
    monitor_metrics *metrics = (monitor_metrics *)self;
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "numbers() takes a list of tensors");
    PyObject *out = PyList_New(0); /* owned */
    for (Py_ssize_t i = 0; out != NULL && i < PyList_GET_SIZE(list); i++) {
        PyObject *value = Py_NewRef(PyList_GET_ITEM(list, i)); /* owned */
        PyObject *number = PyFloat_CheckExact(value) ? Py_NewRef(value) : NULL;
        tensor_view view;
        if (number == NULL && !metrics->state->is_device_forced &&
            tensor_view_open(&metrics->state->torch, value, &view) == VIEW_OK) {
            const tt_tensor *t = &view.tensor;
            if (t->count == 1 && !t->is_swapped && tt_dtype_kind(t->dtype) != TT_KIND_COMPLEX)
                number = PyFloat_FromDouble(tt_element_f64(t->dtype, t->data));
            tensor_view_close(&view);
        }
        Py_DECREF(value);
        binding_list_add(&out, number != NULL || PyErr_Occurred() ? number : Py_NewRef(Py_None));
    }
    return out;
}
