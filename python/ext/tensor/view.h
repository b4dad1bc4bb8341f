/* view.h -- from a Python object to a tt_tensor, and back out again.
 *
 * For every part that is handed objects by Python: the functions of the
 * module, and the sources that look at what a program computes.  The common
 * case (a plain CPU torch.Tensor) borrows and allocates nothing; whatever else
 * had to be made or held is released by tensor_view_close().
 *
 *     tensor_view view;
 *     tensor_view_result why = tensor_view_open(&state->torch, obj, &view);
 *     if (why != VIEW_OK)
 *         return tensor_view_refuse(&view, obj, why);     // or count it and go on
 *     tt_stats_compute(&view.tensor, &stats);
 *     tensor_view_close(&view);
 *
 * A failure leaves no Python exception and nothing to close, so that a caller
 * in the middle of the user's line needs no exception handling.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_VIEW_H
#define TT_EXT_TENSOR_VIEW_H

#include "base/compat.h"
#include "tensortap.h"

/* Why the values of an object cannot be read: name, word for a table, and what
 * a person should do about it. */
#define VIEW_RESULT_MAP(X)                                                                        \
    X(OK, "", "")                                                                                 \
    X(NOT_TENSOR, "not a tensor", "give a torch.Tensor or an array (numpy.asarray(x) makes one)") \
    X(DTYPE, "unread type", "")                                                                   \
    X(DEVICE, "device", "use t.cpu()")                                                            \
    X(META, "meta", "it has a shape but no values; t.to_empty(device='cpu') gives it memory")     \
    X(FAKE, "fake",                                                                               \
      "it stands for a tensor while torch.compile or torch.export looks on; "                     \
      "read the real tensor outside")                                                             \
    X(SPARSE, "sparse", "use t.to_dense() or t.coalesce().values()")                              \
    X(MKLDNN, "mkldnn", "use t.to_dense()")                                                       \
    X(QUANTIZED, "quantized", "use t.dequantize() or t.int_repr()")                               \
    X(NESTED, "nested", "use t.unbind(), t.values() or t.to_padded_tensor(0.0)")                  \
    X(DTENSOR, "dtensor", "use t.to_local() or t.full_tensor()")                                  \
    X(WRAPPER, "wrapper", "its class keeps the values elsewhere; read the tensor it wraps")       \
    X(FUNCTORCH, "inside vmap or grad", "read it outside of the transformed function")            \
    X(FREED, "freed",                                                                             \
      "its storage was resized to fewer bytes than it needs (as FSDP does between uses)")         \
    X(UNINITIALIZED, "uninitialized", "run the lazy module once to give it a shape")              \
    X(MASKED, "masked", "use a.compressed() for the valid elements or a.filled(value)")           \
    X(LAYOUT, "unread layout", "")

#define X(name, word, advice) VIEW_##name,
typedef enum tensor_view_result { VIEW_RESULT_MAP(X) VIEW_RESULT_COUNT_ } tensor_view_result;
#undef X

typedef int tensor_dlpack_fn(void *obj, tt_dltensor *out);
typedef bool tensor_bit_fn(const void *tensor);                     /* a const at::Tensor & */
typedef int32_t tensor_number_fn(const void *tensor, int64_t *out); /* at::Tensor *; 0: answered */
typedef const void *const *tensor_tracing_fn(void); /* a shared_ptr; it points to NULL: none */

/* What we know of torch once the program has imported it; { 0 } before. */
typedef struct tensor_torch {
    PyTypeObject *tensor, *parameter, *base; /* owned; torch.Tensor, nn.Parameter, _C.TensorBase */
    PyObject *strided, *int8, *uint8;        /* owned */
    PyObject *disable_function;              /* owned; torch._C.DisableTorchFunction */
    PyObject *is_batched;                    /* owned or NULL */
    PyObject *layout, *is_cpu, *grad;        /* owned; getset descriptors */
    PyObject *is_neg, *is_conj;              /* owned; method descriptors */
    PyObject *has_mode;                      /* owned or NULL; is a TorchFunctionMode on? */
    tensor_dlpack_fn *view;                  /* NULL: this torch has no exchange table */
    tensor_bit_fn *has_neg_bit;              /* NULL: not found; see tensor_symbols_can_tell() */
    tensor_number_fn *storage_size;          /* in bytes; NULL: not found */
    tensor_number_fn *storage_offset;        /* in elements; NULL: not found */
    Py_ssize_t tensor_at;                    /* of the at::Tensor in a Python tensor; 0: not known yet */
    tensor_tracing_fn *tracing_state;        /* NULL: not found */
    /* Asking torch for the memory of a meta, sparse, ... tensor costs a C++ exception,
     * far more than asking first whether it is one.  So that is done from the first such
     * tensor on. */
    bool is_wary;
    struct tensor_look *spare_looks; /* owned; of look.c, to be used again */
} tensor_torch;

/* A tensor's values, and what must be given back. */
typedef struct tensor_view {
    tt_tensor tensor;
    PyObject *temporary; /* owned or NULL: a tensor made for us, or a DLPack capsule */
    Py_buffer buffer;    /* held if has_buffer */
    bool has_buffer;
    bool is_private; /* nobody can write to the memory while it is open */
    tt_error error;  /* detail of a failure; empty if there is none */
} tensor_view;

tensor_view_result tensor_view_open(tensor_torch *torch, PyObject *obj, tensor_view *out);
void tensor_view_close(tensor_view *view);

/* Raises the TypeError (or ValueError) that says which kind of object this is
 * and what to do; gives NULL. */
PyObject *tensor_view_refuse(const tensor_view *view, PyObject *obj, tensor_view_result why);
const char *tensor_view_result_word(tensor_view_result why); /* "sparse" */

/* Finds torch among the imported modules; never imports it.  True: torch is
 * there and *torch is filled.  Leaves no exception. */
bool tensor_torch_find(tensor_torch *torch);
void tensor_torch_clear(tensor_torch *torch);
static inline bool tensor_torch_is_tensor(const tensor_torch *torch, PyObject *obj)
{
    return torch->tensor != NULL &&
           (Py_IS_TYPE(obj, torch->tensor) || Py_IS_TYPE(obj, torch->parameter) ||
            PyType_IsSubtype(Py_TYPE(obj), torch->base));
}
int tensor_torch_visit(const tensor_torch *torch, visitproc visit, void *arg);
/* tensor.grad by torch's own C function, without the lookup: a new reference, or NULL without an
 * exception where there is none. */
PyObject *tensor_torch_grad(const tensor_torch *torch, PyObject *tensor);

/* ---- quiet.c ---- */
/* Is a TorchFunctionMode on?  It would hear of every question. */
bool tensor_has_function_mode(const tensor_torch *torch);
/* From here to tensor_quiet_leave() neither a tensor subclass nor a mode hears us asking.  The
 * guard (owned), or NULL without an exception: then there is nothing to leave. */
PyObject *tensor_quiet_enter(const tensor_torch *torch);
void tensor_quiet_leave(PyObject *guard); /* NULL is fine */

/* Looks up what torch exports without saying so. */
void tensor_symbols_find(tensor_torch *torch);
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

/* ---- between view.c, array.c and refusal.c only ------------------------ */

/* Through the buffer protocol; for NumPy arrays and everything else that has
 * memory to lend. */
tensor_view_result tensor_array_open(PyObject *obj, tensor_view *out);
/* Looks closer at a torch tensor that could not be read. */
tensor_view_result tensor_diagnose(const tensor_torch *torch, PyObject *obj);
/* Asked for its memory, a fake tensor prints a warning. */
bool tensor_is_fake(PyObject *obj);

#endif
