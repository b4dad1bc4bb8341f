/* torch.h -- what we know of torch in a program that has imported it.
 *
 * tensortap neither links against torch nor imports it.  The types and C functions
 * it needs are looked up once; what this torch lacks stays NULL.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_TORCH_H
#define TT_EXT_TENSOR_TORCH_H

#include "base/compat.h"
#include "tensortap.h"

typedef int tensor_dlpack_fn(void *obj, tt_dltensor *out);
typedef bool tensor_bit_fn(const void *tensor);                     /* a const at::Tensor & */
typedef int32_t tensor_number_fn(const void *tensor, int64_t *out); /* at::Tensor *; 0: answered */
typedef const void *const *tensor_tracing_fn(void); /* a shared_ptr; it points to NULL: none */

/* Objects that it owns.  Types; then values and functions, that may be NULL behind `is_batched`;
 * then descriptors of TensorBase: getset, and methods without arguments. */
#define TENSOR_TORCH_OBJECTS(X) \
    X(tensor)                   \
    X(parameter)                \
    X(base)                     \
    X(module)                   \
    X(strided)                  \
    X(int8)                     \
    X(uint8)                    \
    X(disable_function)         \
    X(is_batched)               \
    X(has_mode)                 \
    X(layout)                   \
    X(is_cpu)                   \
    X(grad)                     \
    X(version)                  \
    X(is_neg)                   \
    X(is_conj)                  \
    X(is_inference)             \
    X(clone)                    \
    X(is_grad_enabled)          \
    X(set_grad_enabled)         \
    X(function_modes)           \
    X(dispatch_modes)           \
    X(inference_mode)           \
    X(functorch_level)

/* { 0 } until torch was found. */
typedef struct tensor_torch {
    PyTypeObject *tensor, *parameter, *base; /* torch.Tensor, nn.Parameter, _C.TensorBase */
    PyTypeObject *module;                    /* nn.Module */
    PyObject *strided, *int8, *uint8;
    PyObject *disable_function;       /* torch._C.DisableTorchFunction */
    PyObject *is_batched;             /* or NULL */
    PyObject *has_mode;               /* or NULL; is a TorchFunctionMode on? */
    PyObject *layout, *is_cpu, *grad; /* getset descriptors */
    PyObject *version;                /* _version; a getset descriptor or NULL */
    PyObject *is_neg, *is_conj;       /* method descriptors */
    PyObject *is_inference;           /* a method descriptor or NULL */
    /* Functions, or NULL; true or not None: a mode is on in this thread */
    PyObject *function_modes, *dispatch_modes, *inference_mode, *functorch_level;
    PyObject *clone, *is_grad_enabled, *set_grad_enabled; /* or NULL */
    tensor_dlpack_fn *view;                               /* NULL: this torch has no exchange table */
    tensor_bit_fn *has_neg_bit;       /* NULL: not found; see tensor_symbols_can_tell() */
    tensor_number_fn *storage_size;   /* in bytes; NULL: not found */
    tensor_number_fn *storage_offset; /* in elements; NULL: not found */
    Py_ssize_t tensor_at;             /* of the at::Tensor in a Python tensor; 0: not known yet */
    tensor_tracing_fn *tracing_state; /* NULL: not found */
    /* Asking torch for the memory of a meta, sparse, ... tensor costs a C++ exception,
     * far more than asking first whether it is one.  So that is done from the first such
     * tensor on. */
    bool is_wary;
    struct tensor_look *spare_looks; /* owned; of look.c, to be used again */
} tensor_torch;

/* Finds torch among the imported modules; never imports it.  True: torch is
 * there and *torch is filled.  Leaves no exception. */
bool tensor_torch_find(tensor_torch *torch);
void tensor_torch_clear(tensor_torch *torch);
int tensor_torch_visit(const tensor_torch *torch, visitproc visit, void *arg);
/* tensor.grad by torch's own C function, without the lookup: a new reference, or NULL without an
 * exception where there is none. */
PyObject *tensor_torch_grad(const tensor_torch *torch, PyObject *tensor);

/* ---- kinds of values --------------------------------------------------------- */

typedef enum tensor_kind {
    KIND_NONE, /* no value: an unbound name */
    KIND_TORCH,
    KIND_ARRAY,     /* of NumPy */
    KIND_PLAIN,     /* a number, text, None, range, slice or NumPy scalar: never changes */
    KIND_CONTAINER, /* list, tuple, dict, set, deque */
    KIND_OBJECT,    /* anything else */
} tensor_kind;

/* Types of which no tensor is made. */
#define NEVER_TENSOR                                                                      \
    (Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS |    \
     Py_TPFLAGS_BYTES_SUBCLASS | Py_TPFLAGS_UNICODE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS | \
     Py_TPFLAGS_BASE_EXC_SUBCLASS | Py_TPFLAGS_TYPE_SUBCLASS)

tensor_kind tensor_kind_of(tensor_torch *torch, PyObject *obj); /* NULL: KIND_NONE */

static inline bool tensor_kind_has_elements(tensor_kind kind)
{
    return kind == KIND_TORCH || kind == KIND_ARRAY;
}

/* A torch.Tensor or nn.Parameter itself: asking it runs no code of a subclass. */
static inline bool tensor_torch_is_plain(const tensor_torch *torch, PyObject *obj)
{
    return Py_IS_TYPE(obj, torch->tensor) || Py_IS_TYPE(obj, torch->parameter);
}

static inline bool tensor_torch_is_tensor(const tensor_torch *torch, PyObject *obj)
{
    return torch->tensor != NULL &&
           (tensor_torch_is_plain(torch, obj) || PyType_IsSubtype(Py_TYPE(obj), torch->base));
}

/* ---- asking without being noticed ------------------------------------------ */

/* Is a TorchFunctionMode on?  It would be called for every question. */
bool tensor_has_function_mode(const tensor_torch *torch);
/* From here to tensor_quiet_leave() neither a tensor subclass nor a mode is called for what we
 * ask.  The guard (owned), or NULL without an exception: then there is nothing to leave. */
PyObject *tensor_quiet_enter(const tensor_torch *torch);
void tensor_quiet_leave(PyObject *guard); /* NULL is fine */

enum {
    VERSION_COUNTED = 1 << 0, /* it is known to have one: not asked whether it is an inference tensor */
    VERSION_GUARDED = 1 << 1, /* the caller has entered tensor_quiet_enter(), or no mode is on */
};
/* torch's count of in-place changes; false: this tensor has none. */
bool tensor_version_read(const tensor_torch *torch, PyObject *tensor, unsigned known, uint32_t *out);

/* ---- functions that torch exports without documenting them ------------------ */

/* Can the functions below be asked?  obj is any tensor. */
bool tensor_symbols_can_tell(tensor_torch *torch, PyObject *obj);
/* Is the tensor negated when it is read?  Exact, and no Python code runs. */
static inline bool tensor_is_negated(const tensor_torch *torch, PyObject *obj)
{
    return torch->has_neg_bit((const char *)obj + torch->tensor_at);
}
/* Does the storage hold these bytes from the tensor's first element on?  It may have been
 * shrunk: untyped_storage().resize_(n). */
static inline bool tensor_torch_storage_holds(const tensor_torch *torch, PyObject *obj, int64_t bytes,
                                              int64_t item)
{
    const void *tensor = (const char *)obj + torch->tensor_at;
    int64_t size = 0, offset = 0;
    return torch->storage_size(tensor, &size) == 0 && torch->storage_offset(tensor, &offset) == 0 &&
           offset * item + bytes <= size;
}

/* So low that it may be an offset and no address: see has_no_memory(). */
static inline bool tensor_address_is_low(const void *address)
{
    return (uintptr_t)address >> 40 == 0;
}

#endif
