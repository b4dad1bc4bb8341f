/* engine.h -- what the files of the path tracer share; nobody else includes it.
 *
 * tracer.c is the class; lines.c and modules.c receive the events of the line source and of the module
 * source; targets.c looks inside values (cache.*.key) and keeps what differs from what was kept last.
 * trace/path_matcher.py has decided before which paths mean which code and which names: here are only
 * methods and slots.  Everything runs with the GIL held.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TRACE_ENGINE_H
#define TT_EXT_TRACE_ENGINE_H

#include "base/map.h"
#include "binding/state.h"
#include "calls/source.h"
#include "lines/source.h"
#include "tensor/change.h"

/* The numbers are those of variable.py and path_matcher.py. */
typedef enum trace_keep { TRACE_CHANGED, TRACE_CONTENT, TRACE_ALWAYS } trace_keep;
typedef enum trace_mode { TRACE_BOTH, TRACE_TRAINING, TRACE_EVALUATION, TRACE_MODES } trace_mode;
typedef enum trace_origin {
    ORIGIN_LOCAL,     /* a slot of a frame */
    ORIGIN_RETURN,    /* what a function returns or yields */
    ORIGIN_OUTPUT,    /* what a module returns */
    ORIGIN_ATTRIBUTE, /* the module itself, after its call */
} trace_origin;

/* Paths with settings of their own: a Variable, or all paths of a tracer. */
typedef struct trace_group {
    int mode, keep; /* trace_mode, trace_keep */
    long long every, gather_every;
    int is_direct; /* values need no callback before they are appended to the others */
    bool is_on;    /* in the current iteration */
} trace_group;

/* A name as it was kept last.  Holds no tensor alive. */
typedef struct trace_state {
    struct trace_state *next;
    tensor_fingerprint seen;
    PyObject *ref;     /* owned or NULL; weak, of a tensor or array: addresses are used again */
    PyObject *refs;    /* owned or NULL; list of weak ones, of the tensors in a container */
    PyObject *lists;   /* owned or NULL; (iterations, values), to which it is appended */
    int64_t iteration; /* in which it was looked at last */
} trace_state;

/* One path in one method, or behind one module. */
typedef struct trace_target {
    trace_origin origin;
    PyObject *name;     /* owned; of the value before `inner` */
    PyObject *variable; /* owned; a local's name, else None */
    PyObject *inner;    /* owned; tuple of str; "*": every one */
    int slot;
    uint32_t group, path; /* indices */
    trace_state *state;   /* borrowed; NULL: each value inside has its own */
} trace_target;

typedef struct trace_targets {
    trace_target *all; /* owned */
    size_t count;
} trace_targets;

/* One code object with one module as its self. */
typedef struct trace_method {
    struct trace_method *next;
    PyObject *code, *module; /* owned */
    PyObject *self_name;     /* owned; of the first argument, or of *args */
    int self_slot;
    int is_packed; /* the first argument is the first of *args */
    int is_hidden; /* the code uses .data or the like, which torch does not count as a change */
    trace_targets targets;
} trace_method;

/* What a module link of ours carries. */
typedef struct trace_link {
    trace_targets targets;
    int is_root;         /* its calls are the iterations */
    PyObject *collected; /* owned or NULL; what a call inside a compiled graph has returned so far */
} trace_link;

typedef struct trace_tracer {
    calls_consumer consumer;
    PyObject *keep, *gather, *lists; /* owned; functions */
    PyObject *copies;                /* owned; dict of tensor_copy(), of this iteration */
    PyObject *replicas; /* owned; dict: replica of DataParallel that runs now -> its original */
    PyObject *error;    /* owned or NULL; what keep raised: for the user to see ... */
    PyObject *core;     /* owned; the extension: it frees `state` */
    PyObject *matched;  /* owned; bytearray: did a path match anything? */
    PyObject *indices;  /* owned; list: for each group, a dict from name to address of its state */
    binding_state *state;
    uint64_t error_thread; /* ... in the thread that it was raised in */
    trace_group *groups;   /* owned */
    size_t group_count;
    trace_state *states;          /* owned */
    trace_method *methods;        /* owned */
    base_map by_owner;            /* the method of a code and a module; of a code and NULL: any */
    int64_t counts[TRACE_MODES];  /* iterations begun so far, by mode */
    uint64_t thread, last_thread; /* who started it, and the newest then; 0 and UINT64_MAX: nobody */
    int line_id;                  /* of the line source; -1: not attached */
    int is_wide;                  /* functions may run outside of forward */
    bool is_tracing;              /* some group is on */
} trace_tracer;

/* targets.c */
int trace_read_targets(trace_tracer *self, PyObject *list, trace_targets *out);
void trace_free_targets(trace_targets *targets);
/* Keeps the value, or what the target names inside it, if it differs from what was kept last.
 * is_doubtful: its version does not show all changes. */
void trace_look(trace_tracer *self, tensor_looks *looks, const trace_target *target, PyObject *value,
                bool is_doubtful);
void trace_state_clear(trace_state *state);
void trace_set_error(trace_tracer *self, PyObject *error); /* steals it; the first one stays */
bool trace_is_here(const trace_tracer *self);              /* is this thread traced? */
extern _Thread_local int trace_paused; /* above 0 around calls into Python: those are not traced */

/* lines.c */
int trace_attach(trace_tracer *self); /* twice is once; -1 with an exception */
void trace_detach(trace_tracer *self);
int trace_add_method(trace_tracer *self, trace_method *method); /* steals it; -1 with an exception */
void trace_free_method(trace_method *method);

/* modules.c */
int64_t trace_count(const trace_tracer *self, int mode); /* iterations; 1 at least */
extern const calls_table trace_calls;
void trace_choose(trace_tracer *self, bool is_training); /* which groups are on now */

#endif
