/* recorder_add.c -- numbers and tensors on their way into the queue.
 *
 * Recorder.log() is hot: a dict lookup, a float, a slot in the queue.  What the program says itself is
 * recorded whatever `every`, `only` and `exclude` say of scalars; tensors follow the plan of their site,
 * as watched ones do.
 *
 * If the queue is full, the GIL is released while we wait.  Another thread may then free or change the
 * very tensor that is being recorded, so it is looked at again before it is read on; of one that was
 * changed half-way only the statistics are recorded, not the value.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/open_run.h"
#include "runs/recorder.h"
#include "summary/stats.h"
#include "tensor/products.h"
#include "tensortap_tools.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int runs_recorder_refuse_closed(const runs_recorder *self)
{
    if (self->rec != NULL)
        return 0;
    PyErr_SetString(PyExc_ValueError, "this run is closed; tt.record(path, resume=True) goes on with it");
    return -1;
}

int runs_recorder_warn(const runs_recorder *self, const char *format, ...)
{
    char text[sizeof(tt_error) + 120];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (!self->is_by_command)
        return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "tensortap: %s", text);
    PySys_FormatStderr("tensortap: %s\n", text);
    return 0;
}

int runs_recorder_tell_error(runs_recorder *self)
{
    tt_error err = { "" };
    if (self->has_told_error || self->rec == NULL || tt_recorder_error(self->rec, NULL) == TT_OK)
        return 0;
    self->has_told_error = true;
    tt_recorder_error(self->rec, &err);
    return runs_recorder_warn(self, "%s; the program goes on unrecorded", err.text);
}

/* ---- room in the queue --------------------------------------------------- */

enum { PATIENCE = 3600 /* s; then the core waits, with the GIL */ };

void runs_recorder_wait(runs_recorder *self, size_t bytes, double seconds)
{
    tt_recorder *rec = self->rec;
    self->users++;
    Py_BEGIN_ALLOW_THREADS(void)
    tt_recorder_wait_room(rec, bytes, seconds);
    Py_END_ALLOW_THREADS
    self->users--;
}

bool runs_recorder_make_room(runs_recorder *self, size_t bytes)
{
    bytes += 1 << 16; /* statistics, a histogram, a sample */
    if (self->drops || tt_recorder_has_room(self->rec, bytes))
        return false;
    runs_recorder_wait(self, bytes, PATIENCE);
    return true;
}

tensor_look *runs_recorder_look(runs_recorder *self, tensor_looks *looks, PyObject *tensor,
                                uint32_t products)
{
    tensor_look *look = tensor_look_at(looks, tensor);
    if (look != NULL && look->why == VIEW_OK && products != 0 && self->rec != NULL) {
        const tt_tensor *t = &look->view.tensor;
        size_t bytes = products & TT_PRODUCT_VALUE ? (size_t)t->count * tt_dtype_size(t->dtype) : 0;
        if (runs_recorder_make_room(self, bytes)) {
            tensor_looks_clear(looks); /* other threads ran: its memory may be another */
            look = tensor_look_at(looks, tensor);
        }
    }
    return self->rec != NULL ? look : NULL;
}

/* ---- values -------------------------------------------------------------- */

/* Of a value that is copied while the GIL is released. */
typedef struct copying {
    tensor_torch *torch;
    const tensor_look *look; /* at the tensor, as it was */
    PyThreadState *thread;   /* while the GIL is released */
} copying;

static bool is_same_memory(const tt_tensor *a, const tt_tensor *b)
{
    size_t bytes = (size_t)a->ndim * sizeof *a->shape;
    return a->data == b->data && a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, bytes) == 0 && memcmp(a->stride, b->stride, bytes) == 0;
}

/* Is the tensor still where it was?  A buffer that is held cannot move, a copy is ours. */
static bool is_still_there(const copying *work)
{
    const tensor_view *view = &work->look->view;
    tensor_view now;
    if (view->has_buffer || view->is_private)
        return true;
    if (tensor_view_open(work->torch, work->look->tensor, &now) != VIEW_OK)
        return false;
    bool is_same = is_same_memory(&now.tensor, &view->tensor);
    tensor_view_close(&now);
    return is_same;
}

/* tt_event.leave and .enter */
static void release_gil(void *context)
{
    ((copying *)context)->thread = PyEval_SaveThread();
}

static bool take_gil(void *context)
{
    const copying *work = context;
    PyEval_RestoreThread(work->thread);
    return is_still_there(work);
}

/* Computes the digest of a parameter, or of a part of one, that survives resharding; false: it is not known which
 * part it is. */
static bool find_placed(runs_recorder *self, const tt_tensor *t, int32_t site, tt_digest *out)
{
    const char *name = tt_recorder_site_name(self->rec, site);
    if (name == NULL || strncmp(name, "parameter/", strlen("parameter/")) != 0)
        return false;
    if (!runs_recorder_has_placer(self))
        return tt_placed_compute(t, NULL, out);
    const runs_recorder_site *row = runs_recorder_site_at(self, site);
    const tt_placement *place = row != NULL ? row->place : NULL;
    bool is_part = place == NULL;
    for (int32_t d = 0; place != NULL && d < place->mesh_ndim; d++)
        is_part |= place->on[d].spread == TT_SPREAD_SHARD || place->on[d].spread == TT_SPREAD_PARTIAL;
    /* One of which nothing is known is read as a whole only where all ranks have the same. */
    return place != NULL && tt_placed_compute(t, is_part ? place : NULL, out);
}

tt_status runs_recorder_add(runs_recorder *self, tensor_look *look, uint32_t products, tt_event *event)
{
    tt_digest placed;
    const tt_tensor *t = &look->view.tensor;
    copying work = { .torch = &self->state->torch, .look = look };
    tensor_products made;
    uint32_t missing = products & ~(uint32_t)TT_PRODUCT_STATS; /* the look has those for all */
    event->tensor = t;
    if (products & TT_PRODUCT_STATS && event->stats == NULL)
        event->stats = tensor_look_stats(look);
    tensor_products_compute(t, missing, &made);
    tensor_products_put(&made, missing, event);
    if (products & TT_PRODUCT_PLACED && find_placed(self, t, event->site, &placed))
        event->placed = &placed;
    if (products & TT_PRODUCT_VALUE) {
        event->has_value = true;
        event->leave = release_gil;
        event->enter = take_gil;
        event->context = &work;
    }
    self->users++;
    tt_status st = runs_recorder_emit(self, event);
    self->users--;
    tensor_products_free(&made);
    return st;
}

void runs_recorder_add_stats(runs_recorder *self, const tt_stats *stats, const int64_t *shape,
                             int32_t ndim, tt_event *event)
{
    tt_tensor t = { .dtype = (tt_dtype)stats->dtype, .count = stats->count, .ndim = ndim };
    tt_stats own = *stats; /* another thread may free them while we wait */
    if (shape != NULL)
        memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    event->tensor = shape != NULL ? &t : NULL;
    event->stats = &own;
    if (self->rec != NULL)
        (void)runs_recorder_make_room(self, 0);
    if (self->rec != NULL)
        (void)runs_recorder_emit(self, event); /* counts what it drops */
    event->tensor = NULL;                      /* they end here */
    event->stats = NULL;
}

/* The rules of health see each event when it is recorded, in the program's thread: a few additions. */
tt_status runs_recorder_emit(runs_recorder *self, const tt_event *event)
{
    tt_event timed;
    if (event->time == 0) {
        timed = *event;
        timed.time = runs_recorder_time(self, 0);
        event = &timed;
    }
    if (self->checker != NULL)
        tt_checker_see(self->checker, tt_recorder_site_name(self->rec, event->site), event);
    return tt_recorder_add(self->rec, event);
}

tt_status runs_recorder_emit_number(runs_recorder *self, int32_t site, int64_t step, double value)
{
    if (!self->drops && !tt_recorder_has_room(self->rec, 64))
        runs_recorder_make_room(self, 0);
    if (self->rec == NULL)
        return TT_OK;
    return runs_recorder_emit(self, &(tt_event){ .site = site, .step = step, .scalar = &value });
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

static int log_one(runs_recorder *self, int64_t step, PyObject *name, PyObject *value)
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
    int64_t start = runs_recorder_begin(self);
    (void)runs_recorder_emit_number(self, site, step, number);
    runs_recorder_end(self, -1, start);
    return runs_recorder_tell_error(self);
}

/* log(name, value) or log({name: value}) */
PyObject *runs_recorder_log(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    runs_recorder *recorder = (runs_recorder *)self;
    int64_t step = runs_recorder_own_step(recorder);
    if (nargs == 2)
        return log_one(recorder, step, args[0], args[1]) < 0 ? NULL : Py_NewRef(Py_None);
    if (nargs != 1 || !PyDict_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "log() takes a name and a number, or a dict of them");
    PyObject *items = PyDict_Items(args[0]); /* owned; the dict may change under __float__ */
    int failed = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; failed == 0 && i < PyList_GET_SIZE(items); i++) {
        PyObject *item = PyList_GET_ITEM(items, i); /* borrowed */
        failed = log_one(recorder, step, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1));
    }
    Py_XDECREF(items);
    return failed < 0 ? NULL : Py_NewRef(Py_None);
}

/* _log_at(step, name, value) */
PyObject *runs_recorder_log_at(PyObject *self, PyObject *args)
{
    long long step;
    PyObject *name, *value; /* borrowed */
    if (!PyArg_ParseTuple(args, "LOO:_log_at", &step, &name, &value) ||
        log_one((runs_recorder *)self, step, name, value) < 0)
        return NULL;
    Py_RETURN_NONE;
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

PyObject *runs_read_keep(PyObject *Py_UNUSED(module), PyObject *keep)
{
    uint32_t products;
    return read_keep(keep, &products) < 0 ? NULL : PyLong_FromUnsignedLong(products);
}

uint32_t runs_recorder_next_call(runs_recorder *self, int32_t site, int64_t step)
{
    runs_recorder_site *row = runs_recorder_site_at(self, site);
    if (row == NULL)
        return 0;
    if (row->step != step)
        row->calls = 0;
    row->step = step;
    return row->calls++;
}

/* torch computes the statistics where the tensor lies. */
static int add_device_stats(runs_recorder *self, PyObject *t, tt_event *event)
{
    PyObject *stats = summary_stats_on_device(t, false); /* owned */
    if (stats == NULL)
        return -1;
    const summary_stats_object *object = (summary_stats_object *)stats;
    runs_recorder_add_stats(self, &object->stats, object->shape, (int32_t)Py_SIZE(stats), event);
    Py_DECREF(stats);
    return 0;
}

/* A copy of a tensor of another device in our memory; new reference. */
static PyObject *copy_from_device(PyObject *t)
{
    PyObject *detached = PyObject_CallMethod(t, "detach", NULL); /* owned */
    PyObject *copy = detached != NULL ? PyObject_CallMethod(detached, "cpu", NULL) : NULL;
    Py_XDECREF(detached);
    return copy;
}

static int add_tensor(runs_recorder *self, PyObject *t, uint32_t products, tt_event *event)
{
    tensor_looks looks = { .torch = &self->state->torch };
    PyObject *here = NULL;  /* owned; a copy in our memory */
    PyObject *local = NULL; /* owned; what this rank has of a DTensor */
    if (runs_recorder_find_place(self, NULL, t, event->site, event->step) < 0)
        return -1;
    tensor_look *look = runs_recorder_look(self, &looks, t, products);
    if (look != NULL && look->why == VIEW_DTENSOR) {
        t = local = tensor_torch_local(looks.torch, t);
        look = runs_recorder_look(self, &looks, t, products);
    }
    bool is_away = look != NULL && tensor_torch_is_tensor(looks.torch, t) &&
                   (look->why == VIEW_DEVICE || (look->why == VIEW_OK && self->state->is_device_forced));
    int result = -1;
    if (is_away && products == TT_PRODUCT_STATS) {
        result = add_device_stats(self, t, event);
        goto out;
    }
    if (is_away) {
        here = copy_from_device(t);
        look = here != NULL ? runs_recorder_look(self, &looks, here, products) : NULL;
    }
    if (look == NULL) { /* closed by another thread, or an exception */
        result = PyErr_Occurred() ? -1 : 0;
    } else if (look->why != VIEW_OK) {
        tensor_view_refuse(&look->view, t, look->why);
    } else {
        tt_status st = runs_recorder_add(self, look, products, event);
        result = st < 0 ? (binding_raise_status(st, NULL), -1) : 0;
    }
out:
    tensor_looks_clear(&looks);
    Py_XDECREF(here);
    Py_XDECREF(local);
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

/* Is it about the recording itself?  Then the plan is not about it. */
static bool is_ours(const runs_recorder *self, int32_t site)
{
    static const char prefix[] = "tensortap/";
    return strncmp(tt_recorder_site_name(self->rec, site), prefix, sizeof prefix - 1) == 0;
}

int runs_recorder_put(runs_recorder *self, PyObject *name, PyObject *t, uint32_t products, uint8_t phase,
                      const runs_change *known)
{
    tt_stats stats;
    if (runs_recorder_refuse_closed(self) < 0)
        return -1;
    runs_recorder_wake(self);
    tt_event event = { .site = site_of(self, name, "tensor"),
                       .step = runs_recorder_own_step(self),
                       .phase = phase };
    if (event.site < 0)
        return -1;
    uint32_t wanted = tt_recorder_wants(self->rec, event.site, event.step);
    products = products != 0 ? products : wanted;
    if (wanted == 0 && !is_ours(self, event.site))
        return 0;
    if (known != NULL) { /* a copy: another thread may free them while we wait */
        stats = *known->stats;
        event.stats = &stats;
    }
    event.call = runs_recorder_next_call(self, event.site, event.step);
    int64_t start = runs_clock_fine();
    if (known != NULL && products == TT_PRODUCT_STATS)
        runs_recorder_add_stats(self, known->stats, known->shape, known->ndim, &event);
    else if (add_tensor(self, t, products, &event) < 0)
        return -1;
    runs_recorder_spend(self, event.site, runs_clock_fine() - start);
    return runs_recorder_tell_error(self);
}

/* tensor(name, t, keep=None, phase=None); t may be a Stats, which is recorded as it is. */
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
    bool is_stats = Py_IS_TYPE(args[1], recorder->state->summary_stats_type);
    runs_change known = { 0 };
    if (is_stats) {
        const summary_stats_object *stats = (summary_stats_object *)args[1];
        known = (runs_change){ .stats = &stats->stats,
                               .shape = stats->shape,
                               .ndim = (int32_t)Py_SIZE(stats) };
        products = TT_PRODUCT_STATS;
    }
    int st = runs_recorder_put(recorder, args[0], args[1], products, in, is_stats ? &known : NULL);
    return st < 0 ? NULL : Py_NewRef(Py_None);
}
