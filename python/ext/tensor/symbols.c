/* symbols.c -- finds the functions of symbols.h, and describes tensors with them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/symbols.h"

#include <dlfcn.h>
#include <string.h>

static tensor_symbols symbols; /* written once, with the GIL */

const tensor_symbols *tensor_symbols_get(void)
{
    return &symbols;
}

void tensor_symbols_find(void)
{
    enum { HEAD = 2 * sizeof(void *) }; /* of a table of virtual functions, in the C++ ABI of Linux */
    void *library = symbols.can_describe ? NULL : dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (library == NULL)
        return;
    const char *table = dlsym(library, "_ZTVN3c1010TensorImplE");
    const struct {
        const char *name;
        void *to;
    } wanted[] = {
#define X(field, type, arguments, name) { name, &symbols.field },
        TENSOR_SYMBOL_MAP(X)
#undef X
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(library, wanted[i].name);
        memcpy(wanted[i].to, &found, sizeof found);
    }
    symbols.dense = table != NULL ? table + HEAD : NULL;
    symbols.can_describe = symbols.data != NULL && symbols.dim != NULL && symbols.sizes != NULL &&
                           symbols.strides != NULL && symbols.dtype != NULL && symbols.device != NULL &&
                           symbols.layout != NULL && symbols.storage_size != NULL &&
                           symbols.storage_offset != NULL && symbols.is_neg != NULL && table != NULL;
    (void)dlclose(library); /* torch itself keeps it loaded */
}

/* By c10::ScalarType, whose numbers are part of torch's stable interface; plus 1: 0 is none of ours. */
static const int8_t dtypes[] = {
#define X(scalar, dtype) [scalar] = 1 + (dtype)
    X(0, TT_U8),           X(1, TT_I8),    X(2, TT_I16),      X(3, TT_I32),        X(4, TT_I64),
    X(5, TT_F16),          X(6, TT_F32),   X(7, TT_F64),      X(9, TT_C64),        X(10, TT_C128),
    X(11, TT_BOOL),        X(15, TT_BF16), X(23, TT_F8_E5M2), X(24, TT_F8_E4M3FN), X(25, TT_F8_E5M2FNUZ),
    X(26, TT_F8_E4M3FNUZ), X(27, TT_U16),  X(28, TT_U32),     X(29, TT_U64),
#undef X
};

/* Is it of the class c10::TensorImpl?  Others (sparse, nested, of vmap) may have no memory, and asking
 * for it costs a C++ exception and a message on stderr. */
static bool is_dense(tensor_handle tensor)
{
    const void *const *const *object = tensor; /* at::Tensor -> c10::TensorImpl -> its table */
    return **object == symbols.dense;
}

bool tensor_is_held(const tt_tensor *t, int64_t offset, int64_t size)
{
    int64_t item = (int64_t)tt_dtype_size(t->dtype), end = (offset + 1) * item;
    for (int32_t d = 0; d < t->ndim; d++)
        end += (t->shape[d] - 1) * t->stride[d];
    return t->count == 0 || end <= size;
}

bool tensor_describe_shape(tensor_handle tensor, tt_dtype *dtype, const int64_t **sizes, int32_t *ndim)
{
    int64_t dim = 0, *found;
    int32_t scalar = -1, layout = -1;
    if (!symbols.can_describe || !is_dense(tensor) || symbols.layout(tensor, &layout) != 0 ||
        layout != 0 || symbols.dtype(tensor, &scalar) != 0 || scalar < 0 ||
        (size_t)scalar >= sizeof dtypes || dtypes[scalar] == 0 || symbols.dim(tensor, &dim) != 0 ||
        dim > TT_MAX_DIM || symbols.sizes(tensor, &found) != 0)
        return false;
    *dtype = (tt_dtype)(dtypes[scalar] - 1);
    *sizes = found;
    *ndim = (int32_t)dim;
    return true;
}

bool tensor_describe(tensor_handle tensor, tt_tensor *out)
{
    int64_t *strides, offset = 0, size = 0, bytes[TT_MAX_DIM];
    const int64_t *sizes;
    int32_t device = -1, dim;
    tt_dtype dtype;
    void *data = NULL;
    if (!tensor_describe_shape(tensor, &dtype, &sizes, &dim) || symbols.is_neg(tensor) ||
        symbols.device(tensor, &device) != 0 || device != 0 || symbols.strides(tensor, &strides) != 0 ||
        symbols.storage_offset(tensor, &offset) != 0 || symbols.storage_size(tensor, &size) != 0 ||
        symbols.data(tensor, &data) != 0)
        return false;
    int64_t item = (int64_t)tt_dtype_size(dtype);
    for (int32_t d = 0; d < dim; d++)
        if (__builtin_mul_overflow(strides[d], item, &bytes[d]))
            return false;
    /* The memory of a wrapper, whose values are elsewhere, is NULL plus the offset. */
    return tt_tensor_describe(out, data, dtype, dim, sizes, bytes, NULL) == TT_OK &&
           (out->count == 0 || (uintptr_t)data != (uint64_t)offset * (uint64_t)item) &&
           tensor_is_held(out, offset, size);
}
