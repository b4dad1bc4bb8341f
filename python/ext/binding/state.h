/* state.h -- the state of tensortap._core, and what its files share.
 *
 * The state is one struct, reached through the module, so that nothing here is
 * global.  Each class of Python has a file py_<noun>.c that gives its type spec
 * and the functions that make one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BINDING_STATE_H
#define TT_EXT_BINDING_STATE_H

#include "calls/source.h"
#include "tensor/view.h"

/* Each class: the name in the state, its spec. */
#define CORE_TYPE_MAP(X) \
    X(stats)             \
    X(histogram)         \
    X(digest)            \
    X(compare)           \
    X(sample)            \
    X(attention)         \
    X(module_link)       \
    X(module_tap)        \
    X(module_hook)       \
    X(module_event)      \
    X(module_consumer)   \
    X(recorder)          \
    X(run)               \
    X(watch)             \
    X(gradient_hook)     \
    X(file_saver)        \
    X(call_log)          \
    X(line_watch)        \
    X(flow)              \
    X(tracker)           \
    X(track_log)         \
    X(metrics)           \
    X(path_tracer)

/* Named tuples of the line source. */
enum { LINE_TYPE_READ, LINE_TYPE_CHANGE, LINE_TYPE_EVENT, LINE_TYPE_COUNT };

/* Changes of variables that are in the open run already: as many as one statement
 * makes, and more. */
enum { PUT_KEYS = 256 };

struct core_state {
#define X(name) PyTypeObject *name##_type; /* owned */
    CORE_TYPE_MAP(X)
#undef X
    PyTypeObject *slice_type;                  /* owned; a struct sequence, made by sample_slice_type() */
    PyTypeObject *line_types[LINE_TYPE_COUNT]; /* owned; struct sequences */
    struct line_source *line;                  /* owned; NULL until somebody watches lines */
    torch_api torch;                           /* filled when torch is first seen */
    bool is_device_forced; /* TENSORTAP_DEVICE_PATH=1: CPU tensors too go through torch */
    source_names source;
    uint64_t put_keys[PUT_KEYS];        /* of runs/open_run.c: the last change with each key % PUT_KEYS */
    PyObject *spy_context, *spy_method; /* owned; the variable of spy_save; "_save" */
};

#define X(name) extern PyType_Spec name##_spec;
CORE_TYPE_MAP(X)
#undef X

static inline core_state *core_state_of(PyObject *module)
{
    return (core_state *)PyModule_GetState(module);
}

/* The functions of the module, as they stand in its method table. */
#define CORE_FUNCTION(name) \
    PyObject *name(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
CORE_FUNCTION(core_stats);
CORE_FUNCTION(core_stats_from);
CORE_FUNCTION(core_escape);
CORE_FUNCTION(core_histogram);
CORE_FUNCTION(core_digest);
CORE_FUNCTION(core_compare);
CORE_FUNCTION(core_sample);
CORE_FUNCTION(core_attention);
CORE_FUNCTION(core_tensor_line);
CORE_FUNCTION(core_tree_text);
CORE_FUNCTION(core_announce);
CORE_FUNCTION(core_deaf_hook);
PyObject *core_reduce_module(PyObject *core, PyObject *module);
CORE_FUNCTION(core_set_traced_call);
CORE_FUNCTION(core_spy_save);
CORE_FUNCTION(core_count_up);
CORE_FUNCTION(core_read_keep);

int spy_init(PyObject *module, core_state *state);

PyObject *core_watch_lines(PyObject *module, PyObject *args, PyObject *kwargs);

PyTypeObject *sample_slice_type(void);
/* Takes over the sample, also when it fails. */
PyObject *sample_object_make(core_state *state, tt_sample *sample, tt_dtype dtype, const int64_t *shape,
                             int32_t ndim);

PyTypeObject *line_tuple_type(int which);
struct line_event;
PyObject *line_event_tuple(const core_state *state, const struct line_event *event);

/* ---- arguments ----------------------------------------------------------- */

/* A keyword argument: where its value goes.  What is not given stays as it was. */
typedef struct option {
    const char *name;
    enum { OPTION_BOOL, OPTION_INT, OPTION_DOUBLE, OPTION_OBJECT } kind;
    void *to; /* bool, int64_t, double, PyObject * (borrowed) */
} option;

/* Checks that exactly `wanted` positional arguments were given and reads the
 * others by name; options end with a NULL name.  0, or -1 with TypeError. */
int read_arguments(const char *function, Py_ssize_t wanted, const option *options, PyObject *const *args,
                   Py_ssize_t nargs, PyObject *kwnames);

/* ---- results ------------------------------------------------------------- */

/* All getters of a class as a dict. */
PyObject *fields_as_dict(PyObject *self, const PyGetSetDef *getters);
PyObject *shape_as_tuple(const int64_t *shape, Py_ssize_t ndim);
/* "float32[8, 64]" */
PyObject *shape_text(tt_dtype dtype, const int64_t *shape, Py_ssize_t ndim);
PyObject *raise_status(tt_status st, const tt_error *err); /* gives NULL */

/* Opens obj or raises; -1 then. */
int open_or_raise(core_state *state, PyObject *obj, tensor_view *out);

/* May the GIL go while the tensor is read?  Only where that is worth a thread
 * switch and nobody can change or free the memory meanwhile, or the caller
 * promised so. */
static inline bool may_release_gil(const tensor_view *view, bool is_promised)
{
    return (view->is_private || is_promised) &&
           view->tensor.count > (256 << 10) / (int64_t)tt_dtype_size(view->tensor.dtype);
}

#endif
