/* engine.h -- what the files of the path tracer share; nobody else includes it.
 *
 * tracer.c is the class; lines.c and modules.c take what the
 * line source and the module source report; targets.c goes into values
 * (cache.*.key) and keeps what differs from what was kept last.  Which paths mean
 * which code and which names was decided before, in trace/path_matcher.py: here are
 * only places and slots.  Everything runs with the GIL held.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TRACE_ENGINE_H
#define TT_EXT_TRACE_ENGINE_H

#include "binding/state.h"
#include "calls/source.h"
#include "lines/source.h"
#include "tensor/change.h"

/* The numbers are those of path_matcher.py. */
typedef enum trace_keep { TRACE_CHANGED, TRACE_CONTENT, TRACE_ALWAYS } trace_keep;
typedef enum trace_mode { TRACE_BOTH, TRACE_TRAINING, TRACE_EVALUATION } trace_mode;
typedef enum trace_origin {
    ORIGIN_LOCAL,     /* a slot of a frame */
    ORIGIN_RETURN,    /* what a function returns or yields */
    ORIGIN_OUTPUT,    /* what a module call gives */
    ORIGIN_ATTRIBUTE, /* the module itself, after its call */
} trace_origin;

/* Paths with settings of their own: a Variable, or all paths of a tracer. */
typedef struct trace_group {
    trace_mode mode;
    trace_keep keep;
    int64_t every, gather_every;
    bool is_on;     /* in the current iteration */
    bool is_direct; /* values need no callback before they are put behind the others */
} trace_group;

/* A name as it was kept last.  Holds no tensor alive. */
typedef struct trace_state {
    tensor_fingerprint seen;
    PyObject *ref;  /* owned or NULL; weak, of a tensor or array: addresses are used again */
    PyObject *refs; /* owned or NULL; list of weak ones, of the tensors in a container */
    PyObject *iterations, *values; /* owned or NULL; the lists that it is put into */
    uint64_t gathers;              /* after how many the lists were asked for */
    int64_t iteration;             /* in which it was looked at last */
} trace_state;

/* One path at one place. */
typedef struct trace_target {
    trace_origin origin;
    PyObject *name;     /* owned; of the value before `inner` */
    PyObject *variable; /* owned; a local's name, else None */
    PyObject *inner;    /* owned; tuple of str; "*": every one */
    int slot;
    uint32_t group, path; /* indices */
    size_t state;         /* index, if there is no inner */
} trace_target;

typedef struct trace_targets {
    trace_target *all; /* owned */
    size_t count;
} trace_targets;

/* One code object with one module as its self. */
typedef struct trace_place {
    PyObject *code, *module; /* owned */
    PyObject *self_name;     /* owned; of the first argument, or of *args */
    int self_slot;
    bool is_packed; /* the first argument is the first of *args */
    trace_targets targets;
    bool is_hidden; /* the code uses .data or the like: versions do not tell */
} trace_place;

/* What a module link of ours carries. */
typedef struct trace_link {
    trace_targets targets;
    bool is_root;    /* its calls are the iterations */
    bool has_places; /* its forward has locals to look at */
} trace_link;

typedef struct trace_frame {
    uint64_t number;
    const trace_place *place;
} trace_frame;

typedef struct trace_replica {
    PyObject *replica, *original; /* owned */
} trace_replica;

enum { TRACE_FRAMES = 64, TRACE_REPLICAS = 256 };

typedef struct trace_tracer {
    calls_consumer consumer;
    binding_state *state;
    PyObject *module;                /* owned; tensortap._core, keeps the sources */
    PyObject *keep, *gather, *lists; /* owned */
    PyObject *runs;                  /* owned; list of open runs: they get values too */
    PyObject *copies;                /* owned; dict of tensor_copy(), of this iteration */
    trace_group *groups;             /* owned */
    size_t group_count;
    PyObject *indices;    /* owned; list: for each group name -> index of its state */
    trace_state **states; /* owned, as what is in it */
    size_t state_count, state_cap;
    trace_place **places; /* owned; as added */
    size_t place_count;
    trace_place **table; /* owned; by code and module, and by code alone; open addressing */
    size_t table_cap;
    bool *is_matched; /* owned; by path */
    size_t path_count;
    uint64_t gathers;                 /* so far: lists of before are gone */
    trace_frame frames[TRACE_FRAMES]; /* that run now, as far as there is room */
    int frame_count;
    trace_replica replicas[TRACE_REPLICAS]; /* of DataParallel, that run now */
    int replica_count;
    int64_t iteration, training, evaluation; /* begun so far */
    uint64_t thread, last_thread; /* who started it, and the newest then; 0 and UINT64_MAX: nobody */
    int line_id;                  /* of the line source; -1: not attached */
    bool is_tracing;              /* some group is on */
    bool is_scoped;               /* lines are followed only while modules with places run */
    int scope_depth;              /* of those modules, now */
    bool is_wide;                 /* functions that may run outside of forward */
    PyObject *error;              /* owned or NULL; what keep raised: for the user to see ... */
    uint64_t error_thread;        /* ... in the thread that it was raised in */
    PyObject *own_error;          /* owned or NULL; the first of ours */
    long long errors;             /* ours, swallowed */
} trace_tracer;

/* targets.c */
int trace_read_targets(trace_tracer *self, PyObject *list, trace_targets *out);
void trace_free_targets(trace_targets *targets);
/* Keeps the value, or what the target names inside it, if it differs from what was kept last.
 * is_doubtful: its version does not always tell. */
void trace_look(trace_tracer *self, const trace_target *target, PyObject *value, bool is_doubtful);
void trace_state_clear(trace_state *state);
void trace_take_error(trace_tracer *self);    /* counts and clears the one that is set; ours */
bool trace_is_here(const trace_tracer *self); /* is it this thread's business? */
void trace_set_error(trace_tracer *self, PyObject *error); /* steals it; the first one stays */
/* Around calls into Python: what they do in this thread is not traced. */
void trace_pause(void);
void trace_go_on(void);

/* lines.c */
int trace_attach(trace_tracer *self); /* twice is once; -1 with an exception */
void trace_detach(trace_tracer *self);
int trace_index_places(trace_tracer *self);

/* modules.c */
int64_t trace_count(const trace_tracer *self, trace_mode mode); /* iterations; 1 at least */
extern const calls_table trace_calls;
void trace_choose(trace_tracer *self, bool is_training); /* which groups are on now */
void trace_forget_replicas(trace_tracer *self);          /* whose calls nobody will see end */

#endif
