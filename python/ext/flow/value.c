/* value.c -- what a chart keeps of a tensor.
 *
 * Runs in the user's thread, in the middle of a program: it must not fail, and
 * tensors whose values cannot be read are described by what they say of
 * themselves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"
#include "summary/stats.h"
#include "tensor/facts.h"
#include "tensortap_tools.h"

#include <string.h>

static void read_inside(const tt_tensor *t, const tt_sample_options *options, flow_value *out)
{
    out->dtype = tt_dtype_name(t->dtype);
    out->ndim = t->ndim;
    memcpy(out->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    tt_stats_compute(t, &out->stats);
    out->has_stats = true;
    if (tt_sample_create(t, options, &out->sample, NULL) < 0)
        out->note = "no memory"; /* the statistics are there all the same */
}

/* The values of a tensor of another device, brought over. */
static void read_device(binding_state *state, const tt_sample_options *options, PyObject *obj,
                        flow_value *out)
{
    PyObject *stats = summary_stats_on_device(obj, false);                         /* owned */
    PyObject *near = stats != NULL ? PyObject_CallMethod(obj, "cpu", NULL) : NULL; /* owned */
    tensor_view view;
    if (near != NULL && tensor_view_open(&state->torch, near, &view) == VIEW_OK) {
        if (tt_sample_create(&view.tensor, options, &out->sample, NULL) == TT_OK) {
            out->stats = ((summary_stats_object *)stats)->stats;
            out->has_stats = true;
            out->note = NULL;
        }
        tensor_view_close(&view);
    }
    PyErr_Clear();
    Py_XDECREF(stats);
    Py_XDECREF(near);
}

void flow_value_read(binding_state *state, const tt_sample_options *options, PyObject *obj,
                     flow_value *out)
{
    tensor_view view;
    out->sample = NULL;
    out->dtype_owner = out->device = NULL;
    out->note = NULL;
    out->has_stats = false;
    tensor_view_result why = tensor_view_open(&state->torch, obj, &view);
    if (why == VIEW_OK) {
        read_inside(&view.tensor, options, out);
        tensor_view_close(&view);
        return;
    }
    out->note = tensor_view_result_word(why);
    out->dtype = tensor_fact_dtype(obj, &out->dtype_owner);
    if (out->dtype == NULL)
        out->dtype = "tensor";
    out->ndim = tensor_fact_shape(obj, out->shape); /* -1: ragged, symbolic, not made yet */
    if (tensor_fact_device(obj, &out->device) == NULL)
        Py_CLEAR(out->device);
    if (why == VIEW_DEVICE)
        read_device(state, options, obj, out);
}

void flow_value_share(const flow_value *value, flow_value *out)
{
    *out = *value;
    (void)tt_sample_share(out->sample);
    Py_XINCREF(out->dtype_owner);
    Py_XINCREF(out->device);
}

void flow_value_free(flow_value *value)
{
    tt_sample_free(value->sample);
    value->sample = NULL;
    Py_CLEAR(value->dtype_owner);
    Py_CLEAR(value->device);
}
