/* state.h -- the state of tensortap._core, and what its files share.
 *
 * The state is one struct, reached through the extension, so that nothing here is
 * global.  It names each class by its folder and noun, and knows no
 * struct of the folders that have them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BINDING_STATE_H
#define TT_EXT_BINDING_STATE_H

#include "tensor/view.h"

struct tt_buf; /* of tensortap_tools.h */

/* Each class: the name in the state, its spec. */
#define BINDING_TYPE_MAP(X) \
    X(summary_stats)        \
    X(summary_histogram)    \
    X(summary_digest)       \
    X(summary_compare)      \
    X(summary_sample)       \
    X(summary_attention)    \
    X(calls_link)           \
    X(calls_tap)            \
    X(calls_hidden)         \
    X(calls_event)          \
    X(calls_consumer)       \
    X(calls_gradient_hook)  \
    X(runs_recorder)        \
    X(runs_reader)          \
    X(runs_table)           \
    X(runs_watch)           \
    X(runs_gradient_hook)   \
    X(runs_spikes)          \
    X(spy_file_saver)       \
    X(spy_call_log)         \
    X(lines_watch)          \
    X(flow)                 \
    X(monitor_metrics)      \
    X(trace_tracer)         \
    X(operators_log)

/* Changes of variables that are in the open run already: as many as one statement
 * makes, and more. */
enum { PUT_KEYS = 256 };

typedef struct binding_state binding_state;

struct binding_state {
#define X(name) PyTypeObject *name##_type; /* owned */
    BINDING_TYPE_MAP(X)
#undef X
    PyTypeObject *slice_type;           /* owned; a struct sequence, made by summary_slice_type() */
    struct lines_source *lines;         /* owned; NULL until somebody watches lines */
    tensor_torch torch;                 /* filled when torch is first seen */
    bool is_device_forced;              /* TENSORTAP_DEVICE_PATH=1: CPU tensors too go through torch */
    struct calls_state *calls;          /* owned; of the source of module calls */
    uint64_t put_keys[PUT_KEYS];        /* of runs/open_run.c: the last change with each key % PUT_KEYS */
    PyObject *open_runs;                /* owned; list of runs/open_run.c, the innermost last */
    PyObject *spy_entered, *spy_method; /* owned; the variable of spy_save; "_save" */
    struct {
        char *ours, *torch, *python; /* owned; with a slash; NULL until asked for */
    } folders;                       /* of owner.c */
};

extern struct PyModuleDef binding_module; /* of extension.c */
#define X(name) extern PyType_Spec name##_spec;
BINDING_TYPE_MAP(X)
#undef X

static inline binding_state *binding_state_of(PyObject *module)
{
    return (binding_state *)PyModule_GetState(module);
}

/* A function of the extension, as it stands in its method table. */
#define BINDING_FUNCTION(name) \
    PyObject *name(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)

/* ---- arguments ----------------------------------------------------------- */

/* A keyword argument: where its value goes.  What is not given stays as it was. */
typedef struct binding_option {
    const char *name;
    enum { OPTION_BOOL, OPTION_INT, OPTION_DOUBLE, OPTION_OBJECT } kind;
    void *to; /* bool, int64_t, double, PyObject * (borrowed) */
} binding_option;

/* Checks that exactly `wanted` positional arguments were given and reads the
 * others by name; options end with a NULL name; NULL: there are none.  0, or -1 with TypeError. */
int binding_read_arguments(const char *function, Py_ssize_t wanted, const binding_option *options,
                           PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* module.attribute.attribute: imports the module.  New reference, or NULL with an exception. */
PyObject *binding_import(const char *module, const char *attributes);

/* ---- code ---------------------------------------------------------------- */

/* Whose code it is; Owner in files/owners.py has the same numbers. */
typedef enum binding_owner {
    BINDING_OWNER_PROGRAM, /* the user's: also what was typed, and cells of notebooks */
    BINDING_OWNER_PACKAGE, /* something that was installed */
    BINDING_OWNER_PYTHON,  /* its library, and what that generates */
    BINDING_OWNER_TORCH,
    BINDING_OWNER_OURS,
} binding_owner;

binding_owner binding_owner_of(binding_state *state, PyCodeObject *code);
void binding_forget_folders(binding_state *state);
BINDING_FUNCTION(binding_owner_number);

/* ---- results ------------------------------------------------------------- */

/* Getters of a field of the object: a PyGetSetDef names it by BINDING_AT(object, field). */
#define BINDING_AT(object, field) ((void *)offsetof(object, field))
PyObject *binding_get_bool(PyObject *self, void *at);   /* bool */
PyObject *binding_get_int(PyObject *self, void *at);    /* int64_t */
PyObject *binding_get_double(PyObject *self, void *at); /* double */
PyObject *binding_get_dtype(PyObject *self, void *at);  /* tt_dtype or int32_t */
PyObject *binding_get_shape(PyObject *self, void *at);  /* int64_t[Py_SIZE(self)] */
/* The method as_dict(): all getters of the object's class. */
PyObject *binding_as_dict(PyObject *self, PyObject *none);
extern PyMethodDef binding_result_methods[]; /* of a class that has as_dict() alone */
PyObject *binding_shape_tuple(const int64_t *shape, Py_ssize_t ndim);
/* Reads the name of a type, and a tuple into sizes[TT_MAX_DIM]; -1: with ValueError. */
int binding_read_shape(PyObject *name, PyObject *tuple, tt_dtype *dtype, int64_t *sizes, int32_t *ndim);
/* "float32[8, 64]" */
PyObject *binding_shape_text(tt_dtype dtype, const int64_t *shape, Py_ssize_t ndim);
PyObject *binding_raise_status(tt_status st, const tt_error *err); /* returns NULL */
PyObject *binding_text(const char *text, size_t len); /* str; bytes that are no UTF-8 are replaced */
/* The text in a buffer, which is freed; an exception if st is an error. */
PyObject *binding_take_text(tt_status st, struct tt_buf *text);
/* Adds an item to a list, or a value to a dict.  Steals them (NULL: an exception is set); if it fails
 * then *list or *dict is cleared, and is NULL.  Those may be NULL: a loop needs no other check. */
void binding_list_add(PyObject **list, PyObject *item);
void binding_dict_add(PyObject **dict, PyObject *key, PyObject *value);

/* ---- values -------------------------------------------------------------- */

BINDING_FUNCTION(binding_find_tensors);
BINDING_FUNCTION(binding_children);
BINDING_FUNCTION(binding_plain_locals);
BINDING_FUNCTION(binding_copy_tensor);
BINDING_FUNCTION(binding_copy_into);

/* Opens obj or raises; -1 then. */
int binding_open_view(binding_state *state, PyObject *obj, tensor_view *out);

/* May the GIL go while the tensor is read?  Only where that is worth a thread
 * switch and nobody can change or free the memory meanwhile, or the caller
 * promised so. */
static inline bool binding_may_release_gil(const tensor_view *view, bool is_promised)
{
    return (view->is_private || is_promised) &&
           view->tensor.count > (256 << 10) / (int64_t)tt_dtype_size(view->tensor.dtype);
}

/* Releases the GIL if that is allowed; what it returns goes to binding_take_gil(). */
static inline PyThreadState *binding_release_gil(bool may)
{
    return may ? PyEval_SaveThread() : NULL;
}

static inline void binding_take_gil(PyThreadState *released)
{
    if (released != NULL)
        PyEval_RestoreThread(released);
}

#endif
