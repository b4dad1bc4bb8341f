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

#include "tensor/torch.h"

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
    X(PENDING, "not waited for", "its collective may be under way; use t.wait()")                 \
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

/* ---- between view.c, array.c and refusal.c only ------------------------ */

/* Through the buffer protocol; for NumPy arrays and everything else that has
 * memory to lend. */
tensor_view_result tensor_array_open(PyObject *obj, tensor_view *out);
/* Looks closer at a torch tensor that could not be read. */
tensor_view_result tensor_diagnose(const tensor_torch *torch, PyObject *obj);
/* Asked for its memory, a fake tensor prints a warning. */
bool tensor_is_fake(PyObject *obj);

#endif
