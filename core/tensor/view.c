/* view.c -- from a foreign description of memory to a tt_tensor we can trust.
 *
 * Exists so that the checks are in one place: whoever holds a tt_tensor may
 * multiply its sizes and strides without looking for overflow, and may read
 * every element whose index is in range.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/walk.h"
#include "tensortap_tools.h"

#include <inttypes.h>
#include <stdint.h>

static const struct {
    const char *name;
    size_t size;
    tt_kind kind;
} dtypes[] = {
#define X(name, text, bytes, kind) [TT_##name] = { text, bytes, TT_KIND_##kind },
    TT_DTYPE_MAP(X)
#undef X
};
_Static_assert(sizeof dtypes / sizeof *dtypes == TT_DTYPE_COUNT_, "describe every element type");

const char *tt_dtype_name(tt_dtype dtype)
{
    return (unsigned)dtype < TT_DTYPE_COUNT_ ? dtypes[dtype].name : "?";
}

size_t tt_dtype_size(tt_dtype dtype)
{
    return (unsigned)dtype < TT_DTYPE_COUNT_ ? dtypes[dtype].size : 0;
}

tt_kind tt_dtype_kind(tt_dtype dtype)
{
    return (unsigned)dtype < TT_DTYPE_COUNT_ ? dtypes[dtype].kind : TT_KIND_FLOAT;
}

/* Counts the elements; sizes whose product does not fit are refused even when
 * another size is 0, because partial products are used as strides. */
static tt_status count_elements(int32_t ndim, const int64_t *shape, int64_t *count, tt_error *err)
{
    int64_t nonzero = 1;
    bool is_empty = false;
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] < 0)
            return tt_fail(err, TT_ESHAPE, "size %" PRId64 " of dimension %" PRId32 " is negative",
                           shape[d], d);
        if (shape[d] == 0)
            is_empty = true;
        else if (__builtin_mul_overflow(nonzero, shape[d], &nonzero))
            return tt_fail(err, TT_ESHAPE, "the tensor has more than 2^63 elements");
    }
    *count = is_empty ? 0 : nonzero;
    return TT_OK;
}

/* The lowest and the highest address that any element can have must fit, and so
 * must every size times its stride, which is one stride more than is reached. */
static tt_status check_extent(const void *data, size_t item, int32_t ndim, const int64_t *shape,
                              const int64_t *stride, tt_error *err)
{
    int64_t low = 0, high = (int64_t)item;
    for (int32_t d = 0; d < ndim; d++) {
        int64_t whole;
        bool is_over = __builtin_mul_overflow(shape[d], stride[d], &whole);
        int64_t reach = is_over ? 0 : whole - stride[d];
        int64_t *end = reach < 0 ? &low : &high;
        if (is_over || __builtin_add_overflow(*end, reach, end))
            return tt_fail(err, TT_ESHAPE,
                           "stride %" PRId64 " bytes of dimension %" PRId32 " leaves the address space",
                           stride[d], d);
    }
    uintptr_t base = (uintptr_t)data;
    if ((uint64_t)base < (uint64_t)0 - (uint64_t)low || (uint64_t)high > UINT64_MAX - (uint64_t)base)
        return tt_fail(err, TT_ESHAPE, "the tensor does not fit into the address space");
    return TT_OK;
}

static tt_status check_rank(int32_t ndim, const int64_t *shape, tt_error *err)
{
    if (ndim < 0 || ndim > TT_MAX_DIM)
        return tt_fail(err, TT_ESHAPE, "%" PRId32 " dimensions; 0 to %d are accepted", ndim, TT_MAX_DIM);
    if (ndim > 0 && shape == NULL)
        return tt_fail(err, TT_ESHAPE, "%" PRId32 " dimensions but no sizes", ndim);
    return TT_OK;
}

tt_status tt_tensor_describe(tt_tensor *out, const void *data, tt_dtype dtype, int32_t ndim,
                             const int64_t *shape, const int64_t *stride, tt_error *err)
{
    if ((unsigned)dtype >= TT_DTYPE_COUNT_)
        return tt_fail(err, TT_EDTYPE, "element type number %d is not known", (int)dtype);
    int64_t count = 0, contiguous[TT_MAX_DIM], packed = (int64_t)dtypes[dtype].size;
    tt_status st = check_rank(ndim, shape, err);
    if (st == TT_OK)
        st = count_elements(ndim, shape, &count, err);
    if (st < 0)
        return st;
    if (count > 0 && data == NULL)
        return tt_fail(err, TT_EDEVICE, "the tensor has %" PRId64 " elements but no memory", count);
    for (int32_t d = ndim - 1; stride == NULL && d >= 0; d--) {
        contiguous[d] = packed;
        if (shape[d] > 1 && __builtin_mul_overflow(packed, shape[d], &packed))
            return tt_fail(err, TT_ESHAPE, "the tensor is larger than the address space");
    }
    stride = stride != NULL ? stride : contiguous;
    if (count > 0)
        st = check_extent(data, dtypes[dtype].size, ndim, shape, stride, err);
    if (st < 0)
        return st;
    out->data = data;
    out->count = count;
    out->dtype = dtype;
    out->ndim = ndim;
    out->is_swapped = false;
    for (int32_t d = 0; d < ndim; d++) {
        out->shape[d] = shape[d];
        out->stride[d] = stride[d];
    }
    return TT_OK;
}

bool tt_tensor_is_contiguous(const tt_tensor *t)
{
    if (t->count == 0)
        return true;
    int64_t packed = (int64_t)tt_dtype_size(t->dtype);
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] == 1)
            continue;
        if (t->stride[d] != packed)
            return false;
        packed *= t->shape[d];
    }
    return true;
}

/* ---- DLPack, which torch, NumPy, JAX and CuPy all speak ------------------------ */

enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11, DL_CUDA_MANAGED = 13 };

/* code and bits of DLPack 1.x for each type we read, the usual ones first; lanes must be 1. */
static const struct {
    uint8_t code, bits;
    tt_dtype dtype;
} codes[] = {
    { 2, 32, TT_F32 },         { 4, 16, TT_BF16 },    { 2, 16, TT_F16 },         { 0, 64, TT_I64 },
    { 2, 64, TT_F64 },         { 0, 8, TT_I8 },       { 0, 16, TT_I16 },         { 0, 32, TT_I32 },
    { 1, 8, TT_U8 },           { 1, 16, TT_U16 },     { 1, 32, TT_U32 },         { 1, 64, TT_U64 },
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
    st = check_rank(dl->ndim, dl->shape, err);
    if (st < 0)
        return st;
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
