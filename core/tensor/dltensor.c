/* dltensor.c -- reads DLPack's description of a tensor.
 *
 * Exists because torch, NumPy, JAX and CuPy all speak it.  Knows the numbers
 * of the DLPack standard and nothing of Python.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <inttypes.h>

enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11, DL_CUDA_MANAGED = 13 };

/* code and bits of DLPack 1.x for each type we read; lanes must be 1. */
static const struct {
    uint8_t code, bits;
    tt_dtype dtype;
} codes[] = {
    { 0, 8, TT_I8 },           { 0, 16, TT_I16 },     { 0, 32, TT_I32 },         { 0, 64, TT_I64 },
    { 1, 8, TT_U8 },           { 1, 16, TT_U16 },     { 1, 32, TT_U32 },         { 1, 64, TT_U64 },
    { 2, 16, TT_F16 },         { 2, 32, TT_F32 },     { 2, 64, TT_F64 },         { 4, 16, TT_BF16 },
    { 5, 64, TT_C64 },         { 5, 128, TT_C128 },   { 6, 8, TT_BOOL },         { 10, 8, TT_F8_E4M3FN },
    { 11, 8, TT_F8_E4M3FNUZ }, { 12, 8, TT_F8_E5M2 }, { 13, 8, TT_F8_E5M2FNUZ },
};

static tt_status find_dtype(const tt_dltensor *dl, tt_dtype *out, tt_error *err)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].code == dl->code && codes[i].bits == dl->bits && dl->lanes == 1) {
            *out = codes[i].dtype;
            return TT_OK;
        }
    }
    return tt_fail(err, TT_EDTYPE, "DLPack type (code %u, %u bits, %u lanes) is not one we read",
                   (unsigned)dl->code, (unsigned)dl->bits, (unsigned)dl->lanes);
}

static bool is_host_memory(int32_t device)
{
    return device == DL_CPU || device == DL_CUDA_HOST || device == DL_ROCM_HOST ||
           device == DL_CUDA_MANAGED;
}

tt_status tt_tensor_from_dlpack(tt_tensor *out, const tt_dltensor *dl, tt_error *err)
{
    tt_dtype dtype = TT_F32;
    tt_status st = find_dtype(dl, &dtype, err);
    if (st < 0)
        return st;
    if (!is_host_memory(dl->device_type))
        return tt_fail(err, TT_EDEVICE,
                       "the tensor is in the memory of DLPack device type %" PRId32 ", not the CPU's",
                       dl->device_type);
    if (dl->ndim < 0 || dl->ndim > TT_MAX_DIM)
        return tt_fail(err, TT_ESHAPE, "%" PRId32 " dimensions; 0 to %d are accepted", dl->ndim,
                       TT_MAX_DIM);
    if (dl->ndim > 0 && dl->shape == NULL)
        return tt_fail(err, TT_ESHAPE, "%" PRId32 " dimensions but no sizes", dl->ndim);
    int64_t bytes[TT_MAX_DIM];
    for (int32_t d = 0; dl->strides != NULL && d < dl->ndim; d++) {
        if (!__builtin_mul_overflow(dl->strides[d], (int64_t)tt_dtype_size(dtype), &bytes[d]))
            continue;
        if (dl->shape[d] > 1)
            return tt_fail(err, TT_ESHAPE, "stride %" PRId64 " of dimension %" PRId32 " is too large",
                           dl->strides[d], d);
        bytes[d] = 0; /* never used, and producers leave anything there */
    }
    const char *data = dl->data;
    if (data != NULL) {
        if (dl->byte_offset > UINTPTR_MAX - (uintptr_t)data)
            return tt_fail(err, TT_ESHAPE, "byte offset %" PRIu64 " is too large", dl->byte_offset);
        data += dl->byte_offset;
    }
    return tt_tensor_describe(out, data, dtype, dl->ndim, dl->shape, dl->strides != NULL ? bytes : NULL,
                              err);
}
