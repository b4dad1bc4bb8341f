/* value.c -- what a chart keeps of a tensor.
 *
 * Runs in the user's thread, in the middle of a program: it must not fail, and
 * tensors whose values cannot be read are described by what they say of
 * themselves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"
#include "tensortap_tools.h"

/* A sample of a tensor of another device, brought over; NULL: there is none. */
static tt_sample *sample_device(binding_state *state, const tt_sample_options *options, PyObject *obj)
{
    PyObject *near = PyObject_CallMethod(obj, "cpu", NULL); /* owned */
    tt_sample *sample = NULL;
    tensor_view view;
    if (near != NULL && tensor_view_open(&state->torch, near, &view) == VIEW_OK) {
        (void)tt_sample_create(&view.tensor, options, &sample, NULL);
        tensor_view_close(&view);
    }
    PyErr_Clear();
    Py_XDECREF(near);
    return sample;
}

void flow_value_read(binding_state *state, const tt_sample_options *options, PyObject *obj,
                     flow_value *out)
{
    tensor_view view;
    out->sample = NULL;
    out->note = NULL;
    tensor_view_result why = summary_facts_read(state, obj, &out->facts, &view);
    if (why == VIEW_OK) {
        if (tt_sample_create(&view.tensor, options, &out->sample, NULL) < 0)
            out->note = "no memory"; /* the statistics are there all the same */
        tensor_view_close(&view);
        return;
    }
    if (out->facts.has_stats)
        out->sample = sample_device(state, options, obj);
    out->facts.has_stats = out->sample != NULL;
    if (out->sample == NULL)
        out->note = tensor_view_result_word(why);
}

void flow_value_free(flow_value *value)
{
    tt_sample_free(value->sample);
    value->sample = NULL;
}
