/* plain_view.c -- the quick way to a tensor, where plain ones have been seen.
 *
 * Of the 0.3 us that a careful look at a torch tensor takes, most goes into asking
 * torch whether it is sparse, elsewhere, or negated on reading.  The output of a
 * module is the same kind of thing at every call, so after a careful look the
 * exchange table is asked at once, and then tells us itself:
 *   - sparse, meta and batched tensors make it fail (1 ms; such a place is odd
 *     from then on), other devices are in its answer;
 *   - conj: only complex tensors, which never go this way;
 *   - neg: what .imag of a conjugate gives has no two neighbours in memory, so
 *     a contiguous tensor of two and more elements is not one.
 * One call in 256 is careful again, whatever happened.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plain_view.h"

enum { DL_INT = 0, DL_FLOAT = 2, DL_BFLOAT = 4, DL_CPU = 1 };

/* Types for which nothing has to be asked. */
static bool is_plain_type(const tt_dltensor *dl)
{
    return dl->code == DL_FLOAT || dl->code == DL_BFLOAT || (dl->code == DL_INT && dl->bits >= 32);
}

static bool open_quick(const torch_api *torch, PyObject *obj, tensor_view *out)
{
    tt_dltensor dl;
    if (!Py_IS_TYPE(obj, torch->tensor) && !Py_IS_TYPE(obj, torch->parameter))
        return false;
    if (torch->view(obj, &dl) != 0) {
        PyErr_Clear();
        return false;
    }
    if (dl.device_type != DL_CPU || !is_plain_type(&dl) ||
        tt_tensor_from_dlpack(&out->tensor, &dl, NULL) < 0)
        return false;
    out->temporary = NULL;
    out->has_buffer = false;
    out->is_private = false;
    return out->tensor.count > 1 && tt_tensor_is_contiguous(&out->tensor);
}

view_result plain_view_open(torch_api *torch, PyObject *obj, plain_trust *trust, tensor_view *out)
{
    if (trust != NULL && trust->quick > 0) {
        trust->quick--;
        if (open_quick(torch, obj, out))
            return VIEW_OK;
        trust->quick = 0;
        trust->is_odd = true;
    }
    view_result why = tensor_view_open(torch, obj, out);
    if (trust != NULL && !trust->is_odd && torch->view != NULL)
        trust->quick = why == VIEW_OK && out->temporary == NULL && !out->has_buffer ? 255 : 0;
    return why;
}
