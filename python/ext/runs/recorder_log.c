/* recorder_log.c -- Recorder.log and Recorder.tensor: what the program says itself.
 *
 * log() is the hot one: a dict lookup, a float, a slot in the queue.  What the
 * program says itself is recorded whatever `every`, `only` and `exclude` say of
 * scalars; tensors follow the plan of their site, as watched ones do.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/open_run.h"
#include "runs/recorder.h"
#include "summary/stats.h"
#include "tensortap_tools.h"

#include <string.h>
#include <time.h>

int runs_recorder_refuse_closed(const runs_recorder *self)
{
    if (self->rec != NULL)
        return 0;
    PyErr_SetString(PyExc_ValueError, "this run is closed; tt.record(path, resume=True) goes on with it");
    return -1;
}

int runs_recorder_tell_error(runs_recorder *self)
{
    tt_error err = { "" };
    if (self->has_told_error || self->rec == NULL || tt_recorder_error(self->rec, NULL) == TT_OK)
        return 0;
    self->has_told_error = true;
    tt_recorder_error(self->rec, &err);
    return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "tensortap: %s; the program goes on unrecorded",
                            err.text);
}

/* ---- names --------------------------------------------------------------- */

static int32_t new_site(runs_recorder *self, PyObject *name)
{
    Py_ssize_t len;
    int32_t site;
    tt_error err = { "" };
    const char *text = PyUnicode_AsUTF8AndSize(name, &len);
    if (text == NULL)
        return -1;
    if (len == 0 || strlen(text) != (size_t)len) {
        PyErr_Format(PyExc_ValueError, "a name must not be empty and must not hold NUL, but it is %R",
                     name);
        return -1;
    }
    tt_status st = tt_recorder_site(self->rec, text, &site, &err);
    if (st < 0) {
        binding_raise_status(st, &err);
        return -1;
    }
    PyObject *number = PyLong_FromLong(site); /* owned */
    if (number == NULL || PyDict_SetItem(self->sites, name, number) < 0)
        site = -1;
    Py_XDECREF(number);
    return site;
}

/* The number of a name; -1 with an exception. */
static int32_t site_of(runs_recorder *self, PyObject *name, const char *function)
{
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "%s(): name must be a str, not %s", function,
                     Py_TYPE(name)->tp_name);
        return -1;
    }
    PyObject *number = PyDict_GetItemWithError(self->sites, name); /* borrowed */
    /* A str's own __hash__ may have done anything. */
    if (runs_recorder_refuse_closed(self) < 0)
        return -1;
    if (number != NULL)
        return (int32_t)PyLong_AsLong(number);
    return PyErr_Occurred() ? -1 : new_site(self, name);
}

/* ---- log ----------------------------------------------------------------- */

/* A tensor of one element, read where it lies: float() of one that requires grad
 * makes torch warn.  False: it is none, or in another device's memory. */
static bool read_element(binding_state *state, PyObject *value, double *out)
{
    tensor_view view;
    bool is_one = false;
    if (!tensor_torch_find(&state->torch) || !tensor_torch_is_tensor(&state->torch, value))
        return false;
    if (tensor_view_open(&state->torch, value, &view) != VIEW_OK) {
        PyErr_Clear();
        return false;
    }
    if (view.tensor.count == 1 && tt_dtype_kind(view.tensor.dtype) != TT_KIND_COMPLEX) {
        *out = tt_element_f64(view.tensor.dtype, view.tensor.data);
        is_one = true;
    }
    tensor_view_close(&view);
    return is_one;
}

/* 0, or -1 with a TypeError that says what to do. */
static int read_number(binding_state *state, PyObject *name, PyObject *value, double *out)
{
    if (PyFloat_CheckExact(value)) {
        *out = PyFloat_AS_DOUBLE(value);
        return 0;
    }
    if (!PyLong_CheckExact(value) && read_element(state, value, out))
        return 0;
    *out = PyFloat_AsDouble(value);
    if (*out != -1.0 || !PyErr_Occurred())
        return 0;
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
        PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyObject *why = PyErr_GetRaisedException(); /* owned */
        PyErr_Format(PyExc_TypeError,
                     "log(): the value of %R must be a number or a tensor of one element, not this "
                     "%s (%S); tensor(name, t) records whole tensors",
                     name, Py_TYPE(value)->tp_name, why);
        Py_DECREF(why);
    }
    return -1;
}

static tt_status add_scalar(runs_recorder *self, int32_t site, double value)
{
    tt_recorder *rec = self->rec;
    if (!self->drops && !tt_recorder_has_room(rec, 64))
        runs_recorder_make_room(self, 0);
    return self->rec != NULL ? tt_recorder_scalar(rec, site, self->step, value) : TT_OK;
}

static int log_one(runs_recorder *self, PyObject *name, PyObject *value)
{
    double number;
    int32_t site;
    if (runs_recorder_refuse_closed(self) < 0 || read_number(self->state, name, value, &number) < 0)
        return -1;
    if (runs_recorder_refuse_closed(self) < 0) /* __float__ may have done anything */
        return -1;
    runs_recorder_wake(self);
    site = site_of(self, name, "log");
    if (site < 0)
        return -1;
    if (!runs_recorder_is_timed(self)) {
        add_scalar(self, site, number);
        return runs_recorder_tell_error(self);
    }
    int64_t start = runs_clock_fine();
    add_scalar(self, site, number);
    runs_recorder_charge(self, -1, runs_clock_fine() - start);
    return runs_recorder_tell_error(self);
}

/* log(name, value) or log({name: value}) */
PyObject *runs_recorder_log(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    runs_recorder *recorder = (runs_recorder *)self;
    if (nargs == 2)
        return log_one(recorder, args[0], args[1]) < 0 ? NULL : Py_NewRef(Py_None);
    if (nargs != 1 || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "log() takes a name and a number, or a dict of them");
        return NULL;
    }
    PyObject *items = PyDict_Items(args[0]); /* owned; the dict may change under __float__ */
    int failed = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; failed == 0 && i < PyList_GET_SIZE(items); i++) {
        PyObject *item = PyList_GET_ITEM(items, i); /* borrowed */
        failed = log_one(recorder, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1));
    }
    Py_XDECREF(items);
    return failed < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- tensor -------------------------------------------------------------- */

static int read_keep(PyObject *keep, uint32_t *out)
{
    tt_error err;
    const char *text = PyUnicode_Check(keep) ? PyUnicode_AsUTF8(keep) : NULL;
    if (text != NULL && tt_products_parse(text, out, &err) == TT_OK)
        return 0;
    if (text != NULL)
        binding_raise_status(TT_EINVAL, &err);
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "keep must be a text like 'stats' or 'stats,value', not %R", keep);
    return -1;
}

PyObject *runs_read_keep(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames)
{
    uint32_t products;
    if (binding_read_arguments("_read_keep", 1, (const binding_option[]){ { 0 } }, args, nargs, kwnames) <
            0 ||
        read_keep(args[0], &products) < 0)
        return NULL;
    return PyLong_FromUnsignedLong(products);
}

uint32_t runs_recorder_next_call(runs_recorder *self, int32_t site)
{
    runs_recorder_site *row = runs_recorder_site_at(self, site);
    if (row == NULL)
        return 0;
    if (row->step != self->step)
        row->calls = 0;
    row->step = self->step;
    return row->calls++;
}

/* Adds statistics that are there already.  Waits without the GIL, so all of it is the caller's own. */
static void add_stats(runs_recorder *self, const tt_stats *stats, const int64_t *shape, int32_t ndim,
                      tt_event *event)
{
    tt_tensor t = { .dtype = (tt_dtype)stats->dtype, .count = stats->count, .ndim = ndim };
    memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    if (self->rec != NULL)
        (void)runs_recorder_make_room(self, 0);
    event->tensor = &t;
    event->stats = stats;
    if (self->rec != NULL)
        (void)tt_recorder_add(self->rec, event);
}

/* torch computes the statistics where the tensor lies. */
static int add_device_stats(runs_recorder *self, PyObject *t, tt_event *event)
{
    PyObject *device = PyImport_ImportModule("tensortap.devices.statistics");               /* owned */
    PyObject *stats = device != NULL ? PyObject_CallMethod(device, "stats", "O", t) : NULL; /* owned */
    const summary_stats_object *object = (summary_stats_object *)stats;
    if (stats != NULL)
        add_stats(self, &object->stats, object->shape, (int32_t)Py_SIZE(stats), event);
    int result = stats != NULL ? 0 : -1;
    Py_XDECREF(stats);
    Py_XDECREF(device);
    return result;
}

static int add_tensor(runs_recorder *self, PyObject *t, uint32_t products, tt_event *event)
{
    binding_state *state = self->state;
    tensor_view view;
    PyObject *here = NULL; /* owned; a copy in our memory */
    int result = -1;
    tensor_view_result why = tensor_view_open(&state->torch, t, &view);
    bool is_away = (why == VIEW_DEVICE || (why == VIEW_OK && state->is_device_forced)) &&
                   tensor_torch_is_tensor(&state->torch, t);
    if (is_away && why == VIEW_OK)
        tensor_view_close(&view);
    if (is_away && products == TT_PRODUCT_STATS)
        return add_device_stats(self, t, event);
    if (is_away) {
        PyObject *detached = PyObject_CallMethod(t, "detach", NULL); /* owned */
        here = detached != NULL ? PyObject_CallMethod(detached, "cpu", NULL) : NULL;
        Py_XDECREF(detached);
        if (here == NULL)
            return -1;
        why = tensor_view_open(&state->torch, here, &view);
    }
    if (why == VIEW_OK && self->rec != NULL &&
        runs_recorder_make_room(self, runs_recorder_value_bytes(&view.tensor, products))) {
        tensor_view_close(&view);
        why = tensor_view_open(&state->torch, here != NULL ? here : t, &view);
    }
    if (why != VIEW_OK) {
        tensor_view_refuse(&view, t, why);
    } else {
        PyObject *read = here != NULL ? here : t; /* borrowed */
        tt_status st = self->rec != NULL ? runs_recorder_add(self, read, &view, products, event) : TT_OK;
        tensor_view_close(&view);
        result = st < 0 ? (binding_raise_status(st, NULL), -1) : 0;
    }
    Py_XDECREF(here);
    return result;
}

static int read_phase(PyObject *phase, uint8_t *out)
{
    static const char *const words[] = { [TT_PHASE_TRAIN] = "train", [TT_PHASE_EVAL] = "eval" };
    for (uint8_t i = TT_PHASE_TRAIN; i < TT_PHASE_COUNT_ && PyUnicode_Check(phase); i++)
        if (PyUnicode_CompareWithASCIIString(phase, words[i]) == 0) {
            *out = i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "phase must be 'train', 'eval' or None, not %R", phase);
    return -1;
}

int runs_recorder_put(runs_recorder *self, PyObject *name, PyObject *t, uint32_t products, uint8_t phase,
                      const runs_change *known)
{
    tt_stats stats;
    int64_t shape[TT_MAX_DIM];
    int32_t ndim = known != NULL ? known->ndim : 0;
    if (runs_recorder_refuse_closed(self) < 0)
        return -1;
    runs_recorder_wake(self);
    tt_event event = { .site = site_of(self, name, "tensor"), .step = self->step, .phase = phase };
    if (event.site < 0)
        return -1;
    uint32_t wanted = tt_recorder_wants(self->rec, event.site, event.step);
    products = products != 0 ? products : wanted;
    if (wanted == 0)
        return 0;
    if (known != NULL) { /* a copy: another thread may free them while we wait */
        stats = *known->stats;
        memcpy(shape, known->shape, (size_t)ndim * sizeof *shape);
        event.stats = &stats;
    }
    event.call = runs_recorder_next_call(self, event.site);
    int64_t start = runs_clock_fine();
    if (known != NULL && products == TT_PRODUCT_STATS)
        add_stats(self, &stats, shape, ndim, &event);
    else if (add_tensor(self, t, products, &event) < 0)
        return -1;
    runs_recorder_spend(self, event.site, runs_clock_fine() - start);
    return runs_recorder_tell_error(self);
}

/* tensor(name, t, keep=None, phase=None) */
PyObject *runs_recorder_tensor(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    runs_recorder *recorder = (runs_recorder *)self;
    PyObject *keep = Py_None, *phase = Py_None; /* borrowed */
    const binding_option options[] = { { "keep", OPTION_OBJECT, &keep },
                                       { "phase", OPTION_OBJECT, &phase },
                                       { 0 } };
    uint32_t products = 0;
    uint8_t in = TT_PHASE_NONE;
    if (binding_read_arguments("tensor", 2, options, args, nargs, kwnames) < 0 ||
        runs_recorder_refuse_closed(recorder) < 0 ||
        (keep != Py_None && read_keep(keep, &products) < 0) ||
        (phase != Py_None && read_phase(phase, &in) < 0))
        return NULL;
    int st = runs_recorder_put(recorder, args[0], args[1], products, in, NULL);
    return st < 0 ? NULL : Py_NewRef(Py_None);
}
