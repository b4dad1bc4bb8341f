/* facts.c -- element type, shape, device and statistics of any tensor, without its elements.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/facts.h"

#include "summary/stats.h"
#include "tensor/facts.h"

#include <string.h>

static void copy_text(char *to, size_t size, const char *from)
{
    size_t len = from != NULL ? strnlen(from, size - 1) : 0;
    if (len > 0)
        memcpy(to, from, len);
    to[len] = '\0';
}

tensor_view_result summary_facts_read(binding_state *state, PyObject *obj, summary_facts *out,
                                      tensor_view *view)
{
    PyObject *dtype = NULL, *device = NULL, *stats = NULL; /* owned */
    tensor_view_result why = tensor_view_open(&state->torch, obj, view);
    out->device[0] = '\0';
    out->has_stats = why == VIEW_OK;
    if (why == VIEW_OK) {
        const tt_tensor *t = &view->tensor;
        copy_text(out->dtype, sizeof out->dtype, tt_dtype_name(t->dtype));
        out->ndim = t->ndim;
        memcpy(out->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
        tt_stats_compute(t, &out->stats);
        return why;
    }
    copy_text(out->dtype, sizeof out->dtype, tensor_fact_dtype(obj, &dtype));
    copy_text(out->device, sizeof out->device, tensor_fact_device(obj, &device));
    out->ndim = tensor_fact_shape(obj, out->shape);
    if (why == VIEW_DEVICE)
        stats = summary_stats_on_device(obj, false);
    if (stats != NULL) {
        out->stats = ((summary_stats_object *)stats)->stats;
        out->has_stats = true;
    }
    PyErr_Clear(); /* a device that cannot compute them: no numbers */
    Py_XDECREF(dtype);
    Py_XDECREF(device);
    Py_XDECREF(stats);
    return why;
}
