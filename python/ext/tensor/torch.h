/* torch.h -- what we know of torch in a program that has imported it.
 *
 * tensortap neither links against torch nor imports it.  The types and C functions
 * it needs are looked up once; what this torch lacks stays NULL.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_TORCH_H
#define TT_EXT_TENSOR_TORCH_H

#include "base/compat.h"
#include "tensor/symbols.h"

/* What is looked up in torch, torch._C, torch._C._functorch and TensorBase: the field, where, its name,
 * its kind, and whether torch is still being imported without it.  Others may be NULL. */
#define TENSOR_TORCH_MAP(X)                                               \
    X(strided, TORCH, "strided", VALUE, true)                             \
    X(disable_function, LOW, "DisableTorchFunction", VALUE, true)         \
    X(layout, BASE, "layout", GETSET, true)                               \
    X(is_cpu, BASE, "is_cpu", GETSET, true)                               \
    X(grad, BASE, "grad", GETSET, true)                                   \
    X(grad_fn, BASE, "grad_fn", GETSET, false)                            \
    X(requires_grad, BASE, "requires_grad", GETSET, false)                \
    X(version, BASE, "_version", GETSET, false)                           \
    X(is_neg, BASE, "is_neg", METHOD, true)                               \
    X(is_conj, BASE, "is_conj", METHOD, true)                             \
    X(is_inference, BASE, "is_inference", METHOD, false)                  \
    X(clone, BASE, "clone", VALUE, false)                                 \
    X(is_grad_enabled, TORCH, "is_grad_enabled", VALUE, false)            \
    X(set_grad_enabled, LOW, "_set_grad_enabled", VALUE, false)           \
    X(is_batched, FUNCTORCH, "is_functorch_wrapped_tensor", VALUE, false) \
    X(has_mode, LOW, "_is_torch_function_mode_enabled", FUNCTION, false)  \
    /* True, or not None: a mode is on in this thread */                  \
    X(function_modes, LOW, "_len_torch_function_stack", VALUE, false)     \
    X(dispatch_modes, LOW, "_len_torch_dispatch_stack", VALUE, false)     \
    X(inference_mode, TORCH, "is_inference_mode_enabled", VALUE, false)   \
    X(functorch_level, FUNCTORCH, "maybe_current_level", VALUE, false)

/* { 0 } until torch was found. */
typedef struct tensor_torch {
    PyTypeObject *tensor, *parameter, *base; /* owned: torch.Tensor, nn.Parameter, _C.TensorBase */
    PyTypeObject *module;                    /* owned: nn.Module */
#define X(field, ...) PyObject *field;       /* owned */
    TENSOR_TORCH_MAP(X)
#undef X
    Py_ssize_t tensor_at; /* of the at::Tensor in a Python tensor; 0: not known yet; -1: unknown */
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
/* What this rank has of a DTensor; any other object itself.  A new reference. */
PyObject *tensor_torch_local(const tensor_torch *torch, PyObject *tensor);
/* The DTensorSpec that says where a tensor belongs, or None: of a DTensor its own; else that of the
 * DTensor which to_local() has made it of, of a plain tensor only with asks_graph.  A new reference; no
 * exception. */
PyObject *tensor_torch_spec(const tensor_torch *torch, PyObject *tensor, bool asks_graph);
/* Has the program waited for the collective that fills an AsyncCollectiveTensor?  Never waits itself. */
bool tensor_torch_is_filled(PyObject *tensor);

/* Calls the C function behind a getset descriptor of TensorBase, without Python's checks: the caller
 * knows that it is a tensor.  New reference, or NULL with an exception. */
static inline PyObject *tensor_torch_get(PyObject *descriptor, PyObject *tensor)
{
    const PyGetSetDef *def = ((PyGetSetDescrObject *)descriptor)->d_getset;
    return def->get(tensor, def->closure);
}
/* Steals result; is it `wanted`?  An exception counts as no, and is cleared. */
static inline bool tensor_torch_is(PyObject *result, const PyObject *wanted)
{
    if (result == NULL)
        PyErr_Clear();
    Py_XDECREF(result);
    return result == wanted && wanted != NULL;
}
/* The same for a method descriptor without arguments: is its answer True? */
static inline bool tensor_torch_ask(PyObject *method, PyObject *tensor)
{
    return tensor_torch_is(((PyMethodDescrObject *)method)->d_method->ml_meth(tensor, NULL), Py_True);
}

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
/* The nearest class with this tp_name among the type and its bases; borrowed or NULL. */
PyTypeObject *tensor_base_named(PyTypeObject *type, const char *name);

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

/* ---- functions that torch exports (symbols.h) ------------------------------- */

Py_ssize_t tensor_torch_find_handle(tensor_torch *torch, PyObject *obj); /* sets tensor_at */
/* Of any tensor; NULL: those functions cannot be asked. */
static inline tensor_handle tensor_torch_handle(tensor_torch *torch, PyObject *obj)
{
    Py_ssize_t at = torch->tensor_at != 0 ? torch->tensor_at : tensor_torch_find_handle(torch, obj);
    return at > 0 ? (const char *)obj + at : NULL;
}

#endif
