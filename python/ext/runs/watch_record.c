/* watch_record.c -- one tensor on its way into the run.
 *
 * The hot path of watching: an integer test, a view, the summaries that the
 * site's plan asks for, the queue.  Nothing is allocated unless a histogram or
 * a sample is wanted.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"
#include "tensortap_tools.h"

void runs_watch_notify(runs_watch *self, PyObject *function, PyObject *argument)
{
    PyObject *result =
        function != NULL ? PyObject_CallFunctionObjArgs(function, argument, NULL) : NULL; /* owned */
    calls_consumer_take_error(&self->consumer);
    Py_XDECREF(result);
}

int32_t runs_watch_site(runs_watch *self, const char *kind, PyObject *name)
{
    PyObject *whole = PyUnicode_FromFormat("%s/%U", kind, name); /* owned */
    const char *text = whole != NULL ? PyUnicode_AsUTF8(whole) : NULL;
    tt_error err = { "" };
    int32_t site = -1;
    if (text != NULL && self->recorder->rec != NULL) {
        tt_status st = tt_recorder_site(self->recorder->rec, text, &site, &err);
        if (st < 0)
            binding_raise_status(st, &err);
    }
    calls_consumer_take_error(&self->consumer);
    Py_XDECREF(whole);
    return site;
}

/* Has the program said that this site is none of our business? */
static bool is_left_out(const runs_watch *self, int32_t site)
{
    const char *name = tt_recorder_site_name(self->recorder->rec, site);
    const char *allow = self->allow != NULL ? PyUnicode_AsUTF8(self->allow) : NULL;
    PyErr_Clear(); /* no text that UTF-8 can hold */
    return name == NULL || tt_recorder_excludes(self->recorder->rec, name) ||
           (allow != NULL && tt_glob_match(allow, name));
}

int runs_watch_tell_nonfinite(runs_watch *self, const tt_stats *stats, const runs_watch_tag *tag,
                              int64_t step)
{
    if (self->on_nonfinite == NULL || runs_watch_is_finite(stats) || self->recorder->rec == NULL ||
        is_left_out(self, tag->site))
        return 0;
    if (self->first != NULL) {
        runs_watch_note_first(self, stats, tag->site);
        return 0;
    }
    PyObject *result = PyObject_CallFunction(
        self->on_nonfinite, "sLILLLO", tt_recorder_site_name(self->recorder->rec, tag->site),
        (long long)step, tag->call, (long long)stats->nan, (long long)stats->posinf,
        (long long)stats->neginf, stats->sumsq == 0 ? Py_True : Py_False);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static void set_tag(tt_event *event, const runs_watch_tag *tag)
{
    event->site = tag->site;
    event->call = tag->call;
    event->thread = tag->thread;
    event->phase = tag->phase;
    event->is_skipped = tag->is_skipped;
}

void runs_watch_record_stats(runs_watch *self, const tt_stats *stats, const tt_hist *hist,
                             const int64_t *shape, int32_t ndim, const runs_watch_tag *tag, int64_t step,
                             int64_t time)
{
    runs_recorder_wake(self->recorder);
    tt_event event = { .step = step < 0 ? self->recorder->step : step, .time = time, .hist = hist };
    set_tag(&event, tag);
    runs_recorder_add_stats(self->recorder, stats, shape, ndim, &event);
}

static int64_t step_of(const runs_watch *self, const runs_watch_tag *tag)
{
    return tag->is_late ? tag->step : self->recorder->step;
}

static int64_t time_of(runs_watch *self, const runs_watch_tag *tag)
{
    return tag->is_late ? tag->time : runs_recorder_time(self->recorder, 0);
}

/* A tensor of another device, or the number of its statistics: they are computed there and come later. */
static void hand_to_device(runs_watch *self, PyObject *tensor, const runs_watch_tag *tag,
                           uint32_t products)
{
    if (self->on_device == NULL) {
        self->unread[VIEW_DEVICE]++;
        return;
    }
    PyObject *result = PyObject_CallFunction(
        self->on_device, "O(iLIIBLOO)O", tensor, tag->site, (long long)step_of(self, tag), tag->call,
        tag->thread, tag->phase, (long long)time_of(self, tag), tag->is_skipped ? Py_True : Py_False,
        tag->is_for_norm ? Py_True : Py_False, products & TT_PRODUCT_HIST ? Py_True : Py_False);
    calls_consumer_take_error(&self->consumer);
    Py_XDECREF(result);
}

/* Does what on_nonfinite asks for, if the statistics are there and say so.  1, or -1 with its exception. */
static int end_record(runs_watch *self, const tt_stats *stats, const runs_watch_tag *tag, int64_t step,
                      tt_stats *out)
{
    if (out != NULL)
        *out = *stats;
    return runs_watch_tell_nonfinite(self, stats, tag, step) < 0 ? -1 : 1;
}

static int record_readable(runs_watch *self, tensor_looks *looks, tensor_look *look,
                           const runs_watch_tag *tag, uint32_t products, tt_stats *out)
{
    tt_stats stats = *tensor_look_stats(look);
    tt_event event = { .step = step_of(self, tag),
                       .time = time_of(self, tag),
                       .stats = products & TT_PRODUCT_STATS ? &stats : NULL };
    set_tag(&event, tag);
    if (products != 0)
        (void)runs_recorder_add(self->recorder, look, products, &event);
    bool is_told = self->on_nonfinite != NULL && !runs_watch_is_finite(&stats);
    if (products & TT_PRODUCT_VALUE || is_told) /* that may wait without the GIL, or runs Python code */
        tensor_looks_clear(looks);
    return end_record(self, &stats, tag, event.step, out);
}

/* A live tensor, or the local part of a DTensor. */
static int record_tensor(runs_watch *self, tensor_looks *looks, PyObject *tensor,
                         const runs_watch_tag *tag, uint32_t products, tt_stats *out)
{
    PyObject *local = NULL; /* owned */
    int result = 0;
    tensor_look *look = runs_recorder_look(self->recorder, looks, tensor, products);
    if (look != NULL && look->why == VIEW_DTENSOR) {
        local = tensor_torch_local(looks->torch, tensor);
        look = runs_recorder_look(self->recorder, looks, local, products);
    }
    if (look == NULL)
        goto out;
    tensor_view_result why =
        look->why == VIEW_OK && self->state->is_device_forced ? VIEW_DEVICE : look->why;
    if (why == VIEW_OK) {
        result = record_readable(self, looks, look, tag, products, out);
    } else if (why == VIEW_DEVICE) {
        tensor_looks_clear(looks);
        hand_to_device(self, local != NULL ? local : tensor, tag, products);
    } else if (why == VIEW_PENDING && !tag->is_late) {
        tensor_looks_clear(looks);
        runs_watch_await(self, local != NULL ? local : tensor, tag);
    } else {
        self->unread[why]++;
    }
out:
    Py_XDECREF(local);
    return result;
}

/* What a probe inside a compiled graph has computed. */
static int record_row(runs_watch *self, const probe_row *row, const runs_watch_tag *tag,
                      uint32_t products, tt_stats *out)
{
    runs_recorder *recorder = self->recorder;
    tt_tensor tensor;
    const void *data = row->value != NULL ? row->value : row; /* only read if has_value */
    if (row->pending != 0) {
        PyObject *number = PyLong_FromUnsignedLongLong(row->pending); /* owned */
        if (number != NULL)
            hand_to_device(self, number, tag, products & row->wanted);
        Py_XDECREF(number);
        return 0;
    }
    if (!(row->products.has & TT_PRODUCT_STATS) ||
        tt_tensor_describe(&tensor, data, row->dtype, row->ndim, row->shape, NULL, NULL) < 0)
        return 0;
    bool has_value = products & TT_PRODUCT_VALUE && row->value != NULL;
    size_t bytes = has_value ? (size_t)tensor.count * tt_dtype_size(tensor.dtype) : 0;
    if (products != 0 && runs_recorder_make_room(recorder, bytes) && recorder->rec == NULL)
        return 0;
    tt_event event = { .step = recorder->step,
                       .time = runs_recorder_time(recorder, row->time),
                       .tensor = &tensor,
                       .has_value = has_value };
    set_tag(&event, tag);
    tensor_products_put(&row->products, products, &event);
    if (products != 0)
        (void)runs_recorder_emit(recorder, &event); /* counts what it drops */
    return end_record(self, &row->products.stats, tag, event.step, out);
}

void runs_watch_find_place(runs_watch *self, tensor_looks *looks, PyObject *tensor, int32_t site)
{
    if (site >= 0)
        (void)runs_recorder_find_place(self->recorder, looks, tensor, site, self->recorder->step);
    calls_consumer_take_error(&self->consumer);
}

int runs_watch_record(runs_watch *self, const calls_observation *seen, const runs_watch_tag *tag,
                      tt_stats *stats)
{
    runs_recorder *recorder = self->recorder;
    if (recorder->rec == NULL || tag->site < 0)
        return 0;
    if (recorder->follow != NULL && seen->looks != NULL)
        tensor_looks_clear(seen->looks); /* waking runs Python code */
    runs_recorder_wake(recorder);
    uint32_t products = tt_recorder_wants(recorder->rec, tag->site, step_of(self, tag));
    products |= products != 0 ? tag->more : 0;
    if (products == 0 && self->on_nonfinite == NULL && !tag->is_for_norm)
        return 0;
    if (products != 0 && !tag->is_placed && runs_recorder_has_placer(recorder))
        runs_watch_find_place(self, seen->looks, seen->row == NULL ? seen->tensor : NULL, tag->site);
    if (recorder->rec == NULL) /* that runs Python code */
        return 0;
    bool had_told = recorder->has_told_error;
    int64_t start = seen->row == NULL ? runs_recorder_begin(recorder)
                    : seen->cost != 0 ? runs_clock_fine()
                                      : 0;
    int result = seen->row != NULL ? record_row(self, seen->row, tag, products, stats)
                                   : record_tensor(self, seen->looks, seen->tensor, tag, products, stats);
    if (start != 0)
        runs_recorder_charge(recorder, tag->site, seen->cost + runs_clock_fine() - start);
    if (recorder->has_told_error != had_told && seen->looks != NULL) /* by a warning: Python code */
        tensor_looks_clear(seen->looks);
    return result;
}

int runs_watch_record_alone(runs_watch *self, PyObject *tensor, const runs_watch_tag *tag,
                            tt_stats *stats)
{
    tensor_looks looks = { .torch = &self->state->torch };
    const calls_observation seen = { .state = self->state, .tensor = tensor, .looks = &looks };
    int result = runs_watch_record(self, &seen, tag, stats);
    tensor_looks_clear(&looks);
    return result;
}
