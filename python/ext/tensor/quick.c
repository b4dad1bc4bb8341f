/* quick.c -- the quick way to a tensor, where plain ones have been seen.
 *
 * Most of the time that a careful look at a torch tensor takes goes into asking
 * torch whether it is sparse, elsewhere, or negated on reading.  The output of a
 * module is the same kind of thing at every call, so after a careful look the
 * exchange table is asked at once, and then tells us itself:
 *   - sparse, meta and batched tensors make it fail, by a C++ exception (such a place is
 *     odd from then on), other devices are in its answer;
 *   - conj: only complex tensors, which never go this way;
 *   - neg, and a storage that was shrunk: functions of torch's own tell us at once; a torch
 *     that does not have them is always asked the careful way.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/quick.h"

enum { DL_INT = 0, DL_FLOAT = 2, DL_BFLOAT = 4, DL_CPU = 1 };

/* The element type, where nothing has to be asked about it; else TT_DTYPE_COUNT_. */
static tt_dtype plain_type(const tt_dltensor *dl)
{
    if (dl->lanes != 1)
        return TT_DTYPE_COUNT_;
    switch (dl->code << 8 | dl->bits) {
    case DL_FLOAT << 8 | 32:
        return TT_F32;
    case DL_FLOAT << 8 | 64:
        return TT_F64;
    case DL_FLOAT << 8 | 16:
        return TT_F16;
    case DL_BFLOAT << 8 | 16:
        return TT_BF16;
    case DL_INT << 8 | 32:
        return TT_I32;
    case DL_INT << 8 | 64:
        return TT_I64;
    default:
        return TT_DTYPE_COUNT_;
    }
}

/* Describes a contiguous tensor that is not empty; false: it is not one.
 * Sizes and strides come from torch itself, which has checked them. */
static bool describe(const tt_dltensor *dl, tt_tensor *out)
{
    tt_dtype dtype = plain_type(dl);
    if (dtype == TT_DTYPE_COUNT_ || dl->ndim > TT_MAX_DIM)
        return false;
    int64_t count = 1, item = (int64_t)tt_dtype_size(dtype);
    for (int32_t d = dl->ndim - 1; d >= 0; d--) {
        int64_t size = dl->shape[d];
        if (dl->strides != NULL && size != 1 && dl->strides[d] != count)
            return false;
        out->shape[d] = size;
        out->stride[d] = count * item;
        count *= size;
    }
    out->data = (const char *)dl->data + dl->byte_offset;
    out->count = count;
    out->dtype = dtype;
    out->ndim = dl->ndim;
    out->is_swapped = false;
    return count > 0 && !tensor_address_is_low(dl->data);
}

static int64_t item_of(const tt_tensor *t)
{
    return (int64_t)tt_dtype_size(t->dtype);
}

static bool open_quick(const tensor_torch *torch, PyObject *obj, tensor_view *out)
{
    tt_dltensor dl;
    if ((!Py_IS_TYPE(obj, torch->tensor) && !Py_IS_TYPE(obj, torch->parameter)) ||
        tensor_is_negated(torch, obj))
        return false;
    if (torch->view(obj, &dl) != 0) {
        PyErr_Clear();
        return false;
    }
    out->temporary = NULL;
    out->has_buffer = false;
    out->is_private = false;
    return dl.device_type == DL_CPU && describe(&dl, &out->tensor) &&
           tensor_torch_storage_holds(torch, obj, out->tensor.count * item_of(&out->tensor),
                                      item_of(&out->tensor));
}

tensor_view_result tensor_quick_open(tensor_torch *torch, PyObject *obj, tensor_trust *trust,
                                     tensor_view *out)
{
    if (trust != NULL && trust->is_quick) {
        if (open_quick(torch, obj, out))
            return VIEW_OK;
        trust->is_quick = false;
        trust->is_odd = true;
    }
    tensor_view_result why = tensor_view_open(torch, obj, out);
    if (trust != NULL && !trust->is_odd && torch->view != NULL)
        trust->is_quick = why == VIEW_OK && out->temporary == NULL && !out->has_buffer &&
                          tensor_symbols_can_tell(torch, obj);
    return why;
}
