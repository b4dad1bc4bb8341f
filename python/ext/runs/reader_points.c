/* reader_points.c -- what RunReader tells about points: series, statistics, values.
 *
 * Arrays are the caller's (NumPy's): the core fills them, and no Python object is
 * made for a point.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/reader.h"
#include "summary/functions.h"
#include "summary/stats.h"

/* A writable buffer of whole elements of this size; -1 with an exception. */
static int open_buffer(PyObject *obj, Py_buffer *out, Py_ssize_t item)
{
    if (PyObject_GetBuffer(obj, out, PyBUF_WRITABLE) < 0)
        return -1;
    if ((uintptr_t)out->buf % (size_t)item == 0 || out->len == 0)
        return 0;
    PyBuffer_Release(out);
    PyErr_SetString(PyExc_ValueError, "the buffer is not aligned");
    return -1;
}

PyObject *runs_reader_steps(PyObject *self, PyObject *buffer)
{
    Py_buffer view;
    tt_error err = { "" };
    tt_status st;
    size_t count = 0;
    if (open_buffer(buffer, &view, 8) < 0)
        return NULL;
    tt_run *run = runs_reader_enter(self);
    if (run == NULL) {
        PyBuffer_Release(&view);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS st = tt_run_steps(run, view.buf, (size_t)view.len / 8, &count, &err);
    Py_END_ALLOW_THREADS runs_reader_leave(self);
    PyBuffer_Release(&view);
    return st < 0 ? binding_raise_status(st, &err) : PyLong_FromSize_t(count);
}

PyObject *runs_reader_series(PyObject *self, PyObject *args)
{
    int file, site;
    const char *name;
    PyObject *steps, *values; /* borrowed */
    tt_field field;
    Py_buffer step_view = { 0 }, value_view = { 0 };
    tt_error err = { "" };
    tt_status st = TT_OK;
    size_t count = 0;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "iisOO:series", &file, &site, &name, &steps, &values))
        return NULL;
    if (!tt_field_find(name, &field)) {
        PyErr_Format(PyExc_ValueError, "no field %s", name);
        return NULL;
    }
    if (open_buffer(steps, &step_view, 8) < 0)
        return NULL;
    if (open_buffer(values, &value_view, 8) < 0)
        goto out;
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        goto out;
    size_t cap = (size_t)(step_view.len < value_view.len ? step_view.len : value_view.len) / 8;
    Py_BEGIN_ALLOW_THREADS st =
        tt_run_series(run, file, site, field, step_view.buf, value_view.buf, cap, &count, &err);
    Py_END_ALLOW_THREADS runs_reader_leave(self);
    result = st < 0 ? binding_raise_status(st, &err) : PyLong_FromSize_t(count);
out:
    PyBuffer_Release(&step_view);
    if (value_view.obj != NULL)
        PyBuffer_Release(&value_view);
    return result;
}

static PyObject *stats_of_point(PyObject *self, const tt_point *point)
{
    return summary_stats_make(((runs_reader *)self)->state, &point->stats, point->shape,
                              point->ndim > 0 ? point->ndim : 0);
}

PyObject *runs_reader_stats(PyObject *self, PyObject *args)
{
    int file, site;
    tt_error err = { "" };
    tt_point point;
    tt_run *run = PyArg_ParseTuple(args, "ii:stats", &file, &site) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    size_t count = tt_run_points(run, file, site);
    tt_status st = TT_OK;
    for (size_t i = 0; list != NULL && i < count; i++) {
        st = tt_run_point(run, file, site, (int64_t)i, &point, &err);
        if (st < 0)
            break;
        if (!(point.products & TT_PRODUCT_STATS))
            continue;
        PyObject *row =
            Py_BuildValue("(LN)", (long long)point.step, stats_of_point(self, &point)); /* owned */
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    if (st < 0) {
        Py_XDECREF(list);
        return runs_reader_fail(self, st, &err);
    }
    runs_reader_leave(self);
    return list;
}

/* A point by its number, as tt_run_point; false with an exception.  The run stays
 * entered on success. */
static tt_run *enter_point(PyObject *self, PyObject *args, int *file, int *site, long long *index,
                           tt_point *point)
{
    tt_error err = { "" };
    tt_run *run = PyArg_ParseTuple(args, "iiL", file, site, index) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_point(run, *file, *site, *index, point, &err);
    if (st == TT_OK)
        return run;
    runs_reader_fail(self, st, &err);
    return NULL;
}

PyObject *runs_reader_point(PyObject *self, PyObject *args)
{
    int file, site;
    long long index;
    tt_point p;
    if (enter_point(self, args, &file, &site, &index, &p) == NULL)
        return NULL;
    runs_reader_leave(self);
    binding_state *state = ((runs_reader *)self)->state;
    PyObject *stats = Py_NewRef(Py_None), *digest = Py_NewRef(Py_None); /* owned */
    if (p.products & TT_PRODUCT_STATS)
        Py_SETREF(stats, stats_of_point(self, &p));
    if (p.products & (TT_PRODUCT_DIGEST | TT_PRODUCT_VALUE)) {
        char hex[33];
        PyOS_snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)p.digest.high,
                      (unsigned long long)p.digest.low);
        Py_SETREF(digest, PyObject_CallFunction((PyObject *)state->summary_digest_type, "s", hex));
    }
    if (stats == NULL || digest == NULL) {
        Py_XDECREF(stats);
        Py_XDECREF(digest);
        return NULL;
    }
    return Py_BuildValue("(LLIIBOIdNN)", (long long)p.step, (long long)p.time, p.call, p.thread, p.phase,
                         p.is_skipped ? Py_True : Py_False, p.products, p.scalar, stats, digest);
}

PyObject *runs_reader_seek(PyObject *self, PyObject *args)
{
    int file, site;
    long long step, call;
    unsigned int products;
    int64_t index = -1;
    tt_error err = { "" };
    tt_run *run = PyArg_ParseTuple(args, "iiLLI:seek", &file, &site, &step, &call, &products)
                      ? runs_reader_enter(self)
                      : NULL;
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_seek(run, file, site, step, call, products, &index, &err);
    runs_reader_leave(self);
    return st < 0 ? binding_raise_status(st, &err) : PyLong_FromLongLong(index);
}

PyObject *runs_reader_nonfinite(PyObject *self, PyObject *args)
{
    int file, site;
    int64_t index = -1;
    tt_error err = { "" };
    tt_status st;
    tt_run *run = PyArg_ParseTuple(args, "ii:nonfinite", &file, &site) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS st = tt_run_first_nonfinite(run, file, site, &index, &err);
    Py_END_ALLOW_THREADS runs_reader_leave(self);
    return st < 0 ? binding_raise_status(st, &err) : PyLong_FromLongLong(index);
}

PyObject *runs_reader_hist(PyObject *self, PyObject *args)
{
    int file, site;
    long long index;
    tt_point point;
    tt_error err = { "" };
    size_t count = 0, cap = 0;
    tt_hist_bin *bins = NULL; /* owned */
    PyObject *list = NULL;    /* owned */
    tt_run *run = enter_point(self, args, &file, &site, &index, &point);
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_hist(run, file, site, index, NULL, 0, &count, &err);
    if (st == TT_OK) {
        cap = count;
        bins = PyMem_New(tt_hist_bin, cap + 1);
        st = bins != NULL ? tt_run_hist(run, file, site, index, bins, cap, &count, &err) : TT_ENOMEM;
    }
    runs_reader_leave(self);
    if (st < 0) {
        PyMem_Free(bins);
        return binding_raise_status(st, &err);
    }
    list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count && i < cap; i++) {
        PyObject *row =
            Py_BuildValue("(ddL)", bins[i].low, bins[i].high, (long long)bins[i].count); /* owned */
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    PyMem_Free(bins);
    return list;
}

PyObject *runs_reader_sample(PyObject *self, PyObject *args)
{
    int file, site;
    long long index;
    tt_point point;
    tt_sample *sample = NULL; /* owned */
    tt_dtype dtype;
    tt_error err = { "" };
    tt_run *run = enter_point(self, args, &file, &site, &index, &point);
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_sample(run, file, site, index, &sample, &dtype, &err);
    runs_reader_leave(self);
    if (st < 0)
        return binding_raise_status(st, &err);
    return summary_sample_make(((runs_reader *)self)->state, sample, dtype, point.shape,
                               point.ndim > 0 ? point.ndim : 0);
}

/* ---- values -------------------------------------------------------------- */

/* The value of a point; the run stays entered on success. */
static tt_run *enter_value(PyObject *self, int file, int site, int64_t index, tt_value *out)
{
    tt_point point;
    tt_error err = { "" };
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_point(run, file, site, index, &point, &err);
    if (st == TT_OK)
        st = tt_run_value_find(run, file, point.value_at, out, &err);
    if (st == TT_OK)
        return run;
    runs_reader_leave(self);
    if (st == TT_EMISMATCH)
        PyErr_SetString(PyExc_LookupError, "this value was evicted to stay within max_bytes");
    else
        binding_raise_status(st, &err);
    return NULL;
}

PyObject *runs_reader_value(PyObject *self, PyObject *args)
{
    int file, site;
    long long index;
    tt_value value;
    if (!PyArg_ParseTuple(args, "iiL:value", &file, &site, &index) ||
        enter_value(self, file, site, index, &value) == NULL)
        return NULL;
    runs_reader_leave(self);
    return Py_BuildValue("(sNL)", tt_dtype_name(value.dtype),
                         binding_shape_tuple(value.shape, value.ndim), (long long)value.bytes);
}

PyObject *runs_reader_value_read(PyObject *self, PyObject *args)
{
    int file, site;
    long long index;
    PyObject *buffer; /* borrowed */
    Py_buffer view;
    tt_value value;
    tt_error err = { "" };
    tt_status st = TT_OK;
    if (!PyArg_ParseTuple(args, "iiLO:value_read", &file, &site, &index, &buffer) ||
        open_buffer(buffer, &view, 1) < 0)
        return NULL;
    tt_run *run = enter_value(self, file, site, index, &value);
    if (run == NULL) {
        PyBuffer_Release(&view);
        return NULL;
    }
    if (view.len < value.bytes)
        st = TT_EINVAL;
    Py_BEGIN_ALLOW_THREADS if (st == TT_OK) st = tt_run_value_read(run, &value, view.buf, &err);
    Py_END_ALLOW_THREADS runs_reader_leave(self);
    PyBuffer_Release(&view);
    return st < 0 ? binding_raise_status(st, &err) : Py_NewRef(Py_None);
}
