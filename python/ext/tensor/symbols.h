/* symbols.h -- functions that torch's libraries export, looked up in a program that has loaded them.
 *
 * Torch is not linked.  Most are of its C interface, whose tensors are handles (at::Tensor *, which is
 * a pointer to a pointer) and whose functions return 0 if they answered.  They read a field and run no
 * Python code, where torch's own Python functions take longer than the statistics of a small tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_SYMBOLS_H
#define TT_EXT_TENSOR_SYMBOLS_H

#include "tensortap.h"

typedef const void *tensor_handle; /* of a const at::Tensor */
typedef void tensor_kernel_fn(uint64_t *stack, uint64_t arguments, uint64_t results);

/* Field, return type, arguments, name. */
#define TENSOR_SYMBOL_MAP(X)                                                                            \
    X(data, int32_t, (tensor_handle, void **), "aoti_torch_get_data_ptr")                               \
    X(dim, int32_t, (tensor_handle, int64_t *), "aoti_torch_get_dim")                                   \
    X(sizes, int32_t, (tensor_handle, int64_t **), "aoti_torch_get_sizes")                              \
    X(strides, int32_t, (tensor_handle, int64_t **), "aoti_torch_get_strides")                          \
    X(dtype, int32_t, (tensor_handle, int32_t *), "aoti_torch_get_dtype")                               \
    X(device, int32_t, (tensor_handle, int32_t *), "aoti_torch_get_device_type")                        \
    X(layout, int32_t, (tensor_handle, int32_t *), "aoti_torch_get_layout")                             \
    X(storage_size, int32_t, (tensor_handle, int64_t *), "aoti_torch_get_storage_size")                 \
    X(storage_offset, int32_t, (tensor_handle, int64_t *), "aoti_torch_get_storage_offset")             \
    /* bool at::native::is_neg(const at::Tensor &) */                                                   \
    X(is_neg, bool, (tensor_handle), "_ZN2at6native6is_negERKNS_6TensorE")                              \
    X(delete_tensor, int32_t, (tensor_handle), "aoti_torch_delete_tensor_object")                       \
    /* const std::shared_ptr<TracingState> &torch::jit::tracer::getTracingState(); NULL inside: none */ \
    X(tracing_state, const void *const *, (void), "_ZN5torch3jit6tracer15getTracingStateEv")            \
    /* int torch::autograd::get_current_graph_task_id(); -1: none */                                    \
    X(graph_task, int, (void), "_ZN5torch8autograd25get_current_graph_task_idEv")                       \
    X(library_implement, int32_t,                                                                       \
      (const char *space, const char *key, const char *file, uint32_t line, void **out),                \
      "aoti_torch_library_init_impl")                                                                   \
    X(implement, int32_t, (void *library, const char *name, tensor_kernel_fn *),                        \
      "aoti_torch_library_impl")                                                                        \
    X(check, void,                                                                                      \
      (bool is_fine, const char *function, const char *file, uint32_t line, const char *message),       \
      "aoti_torch_check") /* throws */

/* Functions that this torch lacks are NULL. */
typedef struct tensor_symbols {
#define X(field, type, arguments, name) type(*field) arguments;
    TENSOR_SYMBOL_MAP(X)
#undef X
    const void *dense; /* what objects of the class c10::TensorImpl itself begin with */
    bool can_describe; /* tensor_describe() can answer */
} tensor_symbols;

/* Looks them up if torch has been loaded by now.  Needs the GIL. */
void tensor_symbols_find(void);
const tensor_symbols *tensor_symbols_get(void); /* all NULL until they were found */

/* Describes a tensor that is dense and lies in CPU memory, without Python or the GIL.  False says nothing
 * about it.  The conjugate bit of complex tensors is not looked at. */
bool tensor_describe(tensor_handle tensor, tt_tensor *out);
/* Type and sizes of a dense tensor in any memory; the sizes are torch's.  False says nothing about it. */
bool tensor_describe_shape(tensor_handle tensor, tt_dtype *dtype, const int64_t **sizes, int32_t *ndim);
/* Does a storage of so many bytes reach as far as the tensor?  It may have been shrunk, or freed:
 * untyped_storage().resize_(n).  offset: of the tensor, in elements.  Strides of torch are not negative. */
bool tensor_is_held(const tt_tensor *t, int64_t offset, int64_t size);

#endif
