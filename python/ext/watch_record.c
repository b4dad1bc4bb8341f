/* watch_record.c -- one tensor on its way into the run.
 *
 * The hot path of watching: an integer test, a view, the summaries that the
 * site's plan asks for, the queue.  Nothing is allocated unless a histogram or
 * a sample is wanted.
 * SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

void watch_take_error(watch_object *self)
{
    PyObject *error = PyErr_GetRaisedException(); /* owned */
    if (error == NULL)
        return;
    self->errors++;
    if (self->error == NULL) {
        PyException_SetTraceback(error, Py_None); /* its frames would keep tensors alive */
        self->error = error;
    } else {
        Py_DECREF(error);
    }
}

int32_t watch_site(watch_object *self, const char *kind, PyObject *name)
{
    PyObject *whole = PyUnicode_FromFormat("%s/%U", kind, name); /* owned */
    const char *text = whole != NULL ? PyUnicode_AsUTF8(whole) : NULL;
    tt_error err = { "" };
    int32_t site = -1;
    if (text != NULL && self->recorder->rec != NULL) {
        tt_status st = tt_recorder_site(self->recorder->rec, text, &site, &err);
        if (st < 0)
            raise_status(st, &err);
    }
    watch_take_error(self);
    Py_XDECREF(whole);
    return site;
}

/* Tells on_nonfinite; -1 if it raises. */
static int tell_nonfinite(watch_object *self, const tt_stats *stats, const watch_tag *tag, int64_t step)
{
    if (self->on_nonfinite == NULL || stats->nan + stats->posinf + stats->neginf == 0)
        return 0;
    PyObject *result = PyObject_CallFunction(self->on_nonfinite, "sLILLL",
                                             tt_recorder_site_name(self->recorder->rec, tag->site),
                                             (long long)step, tag->call, (long long)stats->nan,
                                             (long long)stats->posinf, (long long)stats->neginf);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static void add_event(watch_object *self, const watch_tag *tag, tt_event *event)
{
    event->site = tag->site;
    event->call = tag->call;
    event->thread = tag->thread;
    event->phase = tag->phase;
    event->is_skipped = tag->is_skipped;
    tt_recorder_add(self->recorder->rec, event); /* counts what it drops */
}

void watch_record_stats(watch_object *self, const tt_stats *stats, const int64_t *shape, int32_t ndim,
                        const watch_tag *tag, int64_t step, int64_t time)
{
    tt_tensor tensor = { .dtype = (tt_dtype)stats->dtype, .count = stats->count, .ndim = ndim };
    for (int32_t d = 0; d < ndim && d < TT_MAX_DIM; d++)
        tensor.shape[d] = shape[d];
    recorder_wake(self->recorder);
    if (self->recorder->rec == NULL ||
        (recorder_make_room(self->recorder, 0) && self->recorder->rec == NULL))
        return;
    add_event(self, tag,
              &(tt_event){ .step = step < 0 ? self->recorder->step : step,
                           .time = time,
                           .tensor = shape != NULL ? &tensor : NULL,
                           .stats = stats });
}

/* Summaries beyond statistics, for those who asked for them. */
static void record_rich(watch_object *self, const tt_tensor *tensor, const watch_tag *tag,
                        uint32_t products, tt_event *event)
{
    static const tt_sample_options few = { .max_vector = 32, .max_matrix = 8, .max_slices = 6 };
    tt_hist *hist = NULL;     /* owned */
    tt_sample *sample = NULL; /* owned */
    tt_digest digest;
    if (products & TT_PRODUCT_DIGEST) {
        tt_digest_compute(tensor, &digest);
        event->digest = &digest;
    }
    if (products & TT_PRODUCT_HIST && tt_hist_create(&hist) == TT_OK) {
        tt_hist_add(hist, tensor);
        event->hist = hist;
    }
    if (products & TT_PRODUCT_SAMPLE && tt_sample_create(tensor, &few, &sample, NULL) == TT_OK)
        event->sample = sample;
    event->has_value = (products & TT_PRODUCT_VALUE) != 0;
    add_event(self, tag, event);
    tt_hist_free(hist);
    tt_sample_free(sample);
}

/* A tensor of another device: torch summarises it there, the numbers come later. */
static int hand_to_device(watch_object *self, PyObject *tensor, const watch_tag *tag)
{
    if (self->on_device == NULL) {
        self->unread[VIEW_DEVICE]++;
        return 0;
    }
    PyObject *result = PyObject_CallFunction(
        self->on_device, "O(iLIIBLOO)", tensor, tag->site, (long long)self->recorder->step, tag->call,
        tag->thread, tag->phase, (long long)clock_coarse(), tag->is_skipped ? Py_True : Py_False,
        tag->is_for_norm ? Py_True : Py_False);
    if (result == NULL)
        watch_take_error(self);
    Py_XDECREF(result);
    return 0;
}

/* Opens a view once there is room for what is recorded of it.  VIEW_RESULT_COUNT_: the
 * run was closed while we waited. */
static view_result open_view(watch_object *self, PyObject *tensor, const watch_tag *tag,
                             uint32_t products, bool is_outermost, tensor_view *out)
{
    torch_api *torch = &self->state->torch;
    view_result why = plain_view_open(torch, tensor, tag->trust, out);
    if (why == VIEW_DTENSOR && is_outermost) {                             /* what this rank has of it */
        PyObject *local = PyObject_GetAttrString(tensor, "_local_tensor"); /* owned */
        if (local != NULL)
            why = open_view(self, local, tag, products, false, out);
        PyErr_Clear();
        Py_XDECREF(local); /* the tensor keeps it */
        return why;
    }
    if (why == VIEW_OK && products != 0 &&
        recorder_make_room(self->recorder, recorder_value_bytes(&out->tensor, products))) {
        tensor_view_close(out); /* other threads ran: its memory may be another */
        if (self->recorder->rec == NULL)
            return VIEW_RESULT_COUNT_;
        why = plain_view_open(torch, tensor, tag->trust, out);
    }
    return why;
}

static int record(watch_object *self, PyObject *tensor, const watch_tag *tag, tt_stats *stats,
                  uint32_t products)
{
    bool is_forced = self->state->is_device_forced;
    tensor_view view;
    view_result why = is_forced ? VIEW_DEVICE : open_view(self, tensor, tag, products, true, &view);
    if (why == VIEW_RESULT_COUNT_)
        return 0;
    if (why == VIEW_DEVICE)
        return hand_to_device(self, tensor, tag);
    if (why != VIEW_OK) {
        self->unread[why]++;
        return 0;
    }
    tt_stats_compute(&view.tensor, stats);
    tt_event event = { .step = self->recorder->step,
                       .time = clock_coarse(),
                       .tensor = &view.tensor,
                       .stats = products & TT_PRODUCT_STATS ? stats : NULL };
    if (products & (uint32_t)~TT_PRODUCT_STATS)
        record_rich(self, &view.tensor, tag, products, &event);
    else if (products != 0)
        add_event(self, tag, &event);
    tensor_view_close(&view);
    return tell_nonfinite(self, stats, tag, event.step) < 0 ? -1 : 1;
}

int watch_record(watch_object *self, PyObject *tensor, const watch_tag *tag, tt_stats *stats)
{
    recorder_object *recorder = self->recorder;
    if (recorder->rec == NULL || tag->site < 0)
        return 0;
    recorder_wake(recorder);
    uint32_t products = tt_recorder_wants(recorder->rec, tag->site, recorder->step);
    if (products == 0 && self->on_nonfinite == NULL && !tag->is_for_norm)
        return 0;
    if (!recorder_is_timed(recorder))
        return record(self, tensor, tag, stats, products);
    int64_t start = clock_fine();
    int result = record(self, tensor, tag, stats, products);
    recorder_charge(recorder, tag->site, clock_fine() - start);
    return result;
}
