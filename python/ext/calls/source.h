/* source.h -- tells consumers when modules are called, and with what.
 *
 * One source for all who look at modules: the recorder (runs/watch.c), and whatever
 * Python function spy, monitor and trace bring (consumer.c).  A consumer
 * adds itself to the modules it is interested in, each under a name of its own
 * choice; any number of consumers share one module, and none knows the others.
 *
 *     static int on_tensor(calls_consumer *self, calls_link *link, const calls_event *event,
 *                          const calls_path *path, const calls_observation *seen)
 *     {
 *         return add(self, link->name, path->text, seen);
 *     }
 *     static const calls_table calls = { .tensor = on_tensor };
 *     ...
 *     calls_consumer_init(&self->consumer, &calls, &self->step, 0);
 *     calls_source_add(state, &self->consumer, module, name);
 *     ...
 *     calls_source_remove_all(state, &self->consumer);
 *
 * How it is done: an object of ours in module.__dict__["_compiled_call_impl"],
 * which nn.Module.__call__ calls in place of _call_impl.  Any forward hook sends torch
 * down its slow path, which takes longer than our statistics (bench_watch_call.py).
 * If module.compile() left something in the slot, it is called in turn, and put back at the end.
 * Needs the GIL throughout.  Events of all threads are delivered, in the thread
 * that makes the call; what a consumer itself calls while it handles an event
 * is not delivered to anyone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_CALLS_SOURCE_H
#define TT_EXT_CALLS_SOURCE_H

#include "binding/state.h"
#include "binding/type.h"
#include "calls/observation.h"
#include "calls/path.h"
#include "probe/operator.h"
#include "tensor/look.h"

typedef struct calls_consumer calls_consumer;
typedef struct calls_link calls_link;

/* A slot of the probes: which tensor of a module inside a compiled graph. */
typedef struct calls_probe {
    const calls_path *path;
    bool is_first, is_last; /* of the tensors of one call that are probed */
} calls_probe;

/* One call of one module, as one consumer sees it.  All references are borrowed
 * for the time of the call; they come first.  Of a call inside a compiled graph only module, call,
 * depth, thread, is_training and the times are known. */
typedef struct calls_event {
    PyObject *module;    /* the one called; a replica under DataParallel */
    PyObject *args;      /* tuple */
    PyObject *kwargs;    /* dict, or NULL: none */
    PyObject *output;    /* after; NULL: it raised, or runs inside a compiled graph */
    PyObject *exception; /* after; only with CALLS_ERRORS */
    uint32_t call;       /* of this module in the consumer's step, from 0, in order of entry */
    uint32_t depth;      /* calls of this consumer's modules around this one; CALLS_DEPTH */
    uint32_t thread;     /* from 1, in order of appearance */
    bool is_training;    /* of the outermost watched module of this thread; CALLS_PHASE */
    bool is_outermost;   /* no other watched module is running in this thread */
    int64_t start, end;  /* ns of time.perf_counter_ns(); CALLS_TIME; end only after */
    tensor_looks *looks; /* views and statistics, shared by the consumers of this event: see look.h */
} calls_event;

/* These take time, so a consumer gets only those that it asks for. */
enum {
    CALLS_ERRORS = 1 << 0, /* call after() also where forward raised */
    CALLS_DEPTH = 1 << 1,
    CALLS_PHASE = 1 << 2,
    CALLS_TIME = 1 << 3,
    CALLS_FORWARD_ONLY = 1 << 4, /* no calls within backward(): activation checkpointing repeats them */
    CALLS_LAST = 1 << 5,  /* called after the others: it changes nothing, but makes their looks invalid */
    CALLS_ENTRY = 1 << 6, /* inside compiled graphs, too, the depth of a call: takes probes on inputs */
};

/* Which tensors a consumer gets: bits of calls_role. */
enum {
    CALLS_INPUTS = 1 << CALLS_INPUT,
    CALLS_OUTPUTS = 1 << CALLS_OUTPUT,
    CALLS_GRADIENTS = 1 << CALLS_GRADIENT,
    /* Facts about the module, not wishes of the consumer; see calls_traced_probes(). */
    CALLS_IS_INNER = 1 << 3, /* module.compile() was called */
    CALLS_IS_PLAIN = 1 << 4, /* forward is the function of its class */
};

/* Each returns 0, or -1 with an exception that the user's program is to see: only
 * where its user asked for that.  Errors of our own are counted and cleared by
 * the consumer.  While forward's own exception is on its way, ours are dropped. */
typedef struct calls_table {
    /* Before calls are counted: the consumer may move its step.  Or NULL. */
    void (*enter)(calls_consumer *self, calls_link *link, bool is_training, bool is_outermost);
    int (*before)(calls_consumer *self, calls_link *link, const calls_event *event); /* or NULL */
    /* A tensor: an input before the call, an output after it, the gradient of an output in backward. */
    int (*tensor)(calls_consumer *self, calls_link *link, const calls_event *event,
                  const calls_path *path, const calls_observation *seen); /* or NULL */
    /* The call has ended, and its outputs were there; event->exception: it raised.  Or NULL. */
    int (*after)(calls_consumer *self, calls_link *link, const calls_event *event);
    /* What is to be computed of a tensor inside a compiled graph, or of the gradient of an output, at the
     * step that runs: of TT_PRODUCT_ and PROBE_SEEN; 0: nothing.  NULL: the consumer does not hear of
     * modules inside compiled graphs. */
    uint32_t (*wants)(calls_consumer *self, calls_link *link, const calls_path *path);
    void (*free_data)(void *data); /* of a link; or NULL */
} calls_table;

/* First member of every consumer; those are Python objects with GC, and what they own lies behind it. */
struct calls_consumer {
    PyObject_HEAD const calls_table *calls;
    const int64_t *step;    /* when it changes, calls are counted from 0 again */
    uint32_t wants;         /* of CALLS_ */
    uint32_t roles;         /* which tensors it gets */
    bool is_off;            /* nothing is delivered; may be set at any time */
    bool is_compiled_again; /* a module of it had been compiled before it was watched */
    uint64_t errors;        /* of our own, or of functions that must not raise into the program */
    PyObject *links;        /* owned; list of calls_link, also of modules that are gone */
    PyObject *error;        /* owned or NULL; the first of the errors */
};

/* Counts the exception that is set, if there is one, and clears it. */
void calls_consumer_take_error(calls_consumer *self);
#define CALLS_CONSUMER_MEMBERS(object)                                                     \
    { "off", T_BOOL, offsetof(object, consumer.is_off), 0, "nothing is delivered" },       \
        { "errors", T_ULONGLONG, offsetof(object, consumer.errors), READONLY,              \
          "errors that were kept from the program" },                                      \
    {                                                                                      \
        "error", T_OBJECT, offsetof(object, consumer.error), READONLY, "the first of them" \
    }

/* Defines noun_traverse() and noun_clear() of a consumer that owns the references from its links, in its
 * member `consumer`, to `last`. */
#define CALLS_CONSUMER_OWNS(noun, object, last)                                                     \
    static int noun##_traverse(PyObject *self, visitproc visit, void *arg)                          \
    {                                                                                               \
        return binding_visit(self, offsetof(object, consumer.links), offsetof(object, last), visit, \
                             arg);                                                                  \
    }                                                                                               \
    static int noun##_clear(PyObject *self)                                                         \
    {                                                                                               \
        calls_consumer_clear((calls_consumer *)self);                                               \
        return binding_clear(self, offsetof(object, consumer.links), offsetof(object, last));       \
    }

/* One consumer on one module. */
struct calls_link {
    PyObject_HEAD calls_consumer *consumer; /* owned; NULL once removed */
    PyObject *module;                       /* owned; weak reference */
    PyObject *name;                         /* owned; str: what the consumer calls it */
    void *data;                             /* the consumer's own */
    void (*free_data)(void *data);          /* of its calls; when the link itself goes */
    int64_t step;                           /* in which `calls` were counted */
    uint32_t calls;
    uint64_t calls_ever;           /* 0: the module never ran where we can see it */
    struct calls_tap *tap;         /* borrowed; NULL: the module is gone */
    uint32_t probed;               /* number of the call inside a compiled graph that rows come from */
    bool is_entered;               /* ... which was counted before its first row */
    struct calls_awaited *awaited; /* owned; calls inside compiled graphs, whose gradients come later */
    size_t awaited_count, awaited_cap, awaited_at;
    int64_t awaited_step; /* in which they were */
};

void calls_consumer_init(calls_consumer *self, const calls_table *calls, const int64_t *step,
                         uint32_t wants);
/* Methods of a consumer's class. */
PyObject *calls_consumer_add(PyObject *self, PyObject *args);
PyObject *calls_consumer_remove(PyObject *self, PyObject *args);
PyObject *calls_consumer_unseen(PyObject *self, PyObject *none);
#define CALLS_CONSUMER_METHODS                                                                         \
    { "add", calls_consumer_add, METH_VARARGS, "Observe the calls of a module under this name." },     \
        { "remove", calls_consumer_remove, METH_VARARGS, "Stop observing a module, or all of them." }, \
    {                                                                                                  \
        "unseen", calls_consumer_unseen, METH_NOARGS,                                                  \
            "Return the names of modules whose calls were never seen."                                 \
    }
void calls_consumer_clear(calls_consumer *self); /* forgets its links; modules keep none of them */

/* Adds a consumer to a module; twice is once (the first name stays).  0, or -1 with an exception. */
int calls_source_add(binding_state *state, calls_consumer *consumer, PyObject *module, PyObject *name);
void calls_source_remove_all(binding_state *state, calls_consumer *consumer);

enum { FORWARD_HOOKS = 4 };

/* For forward.c: what nn.Module._call_impl looks up by. */
typedef struct calls_forward_names {
    PyObject *call_impl, *forward, *getattribute; /* owned; interned */
    PyObject *hooks[FORWARD_HOOKS];               /* owned; interned; of a module */
    PyObject *globals[FORWARD_HOOKS];             /* owned; interned; of all modules */
    PyObject *known; /* owned; the code of _call_impl, None: not one that we know; NULL: not asked yet */
} calls_forward_names;

/* What is known of the class of one module; { 0 } at first. */
typedef struct calls_forward_class {
    PyTypeObject *type;       /* compared, never followed */
    unsigned int version;     /* of the type then; 0: it has none, look again */
    PyObject *impl, *forward; /* borrowed from that version of the type; NULL: not as usual */
} calls_forward_class;

/* Delivers what probes in compiled graphs have seen: in this thread, or in all.  0, or -1 with the
 * exception of a consumer. */
int calls_traced_drain(binding_state *state, bool all);
/* Sets what is wanted of the modules of a consumer; after its step or its plan has changed. */
void calls_traced_set_products(binding_state *state, const calls_consumer *consumer);

/* What the source knows, in the extension's state.  References first, from slot to callbacks. */
typedef struct calls_state {
    PyObject *slot, *training, *self;         /* owned; interned */
    PyObject *parameters, *buffers, *modules; /* owned; interned; "_parameters", "_buffers", "_modules" */
    calls_forward_names forward;
    PyObject *pickled;        /* owned or NULL; class: its modules with a tap; of pickle.c */
    PyObject *dispatch_table; /* owned or NULL; copyreg's */
    /* Of traced.c and slots.c: */
    PyObject *dynamo;                             /* owned; "torch._dynamo" */
    PyObject *pipelining;                         /* owned; "torch.distributed.pipelining" */
    PyObject *listen, *make_slots, *make_forward; /* owned or NULL; of compiled/module_call.py */
    PyObject *make_tensor;                        /* ... likewise */
    PyObject *no_args;                            /* owned or NULL; the empty tuple */
    PyObject *forward_code;                       /* owned or NULL; of what make_forward makes */
    PyObject *probe_numbers; /* owned or NULL; (role, text, is first, is last): index in probes */
    PyObject *objection;     /* owned or NULL; of a consumer, from where it could not be raised */
    PyObject *callbacks;     /* owned or NULL; Dynamo's list; empty: it does not tell us any more */
    Py_ssize_t module_count; /* of sys.modules, when Dynamo was not among them */
    calls_paths paths;
    calls_probe probes[PROBE_SLOTS]; /* by slot */
    size_t probe_count;
    struct calls_tap **taps; /* owned; by number - 1; NULL: gone */
    size_t tap_count, tap_cap;
    bool is_compiling;     /* it has begun to compile something */
    bool has_slots;        /* some module was traced with probes */
    uint64_t asked;        /* number of the tap whose probes Dynamo has read last */
    uint32_t thread_count; /* threads that have been given a number */
} calls_state;
calls_state *calls_state_create(void); /* or NULL with an exception */
void calls_state_clear(calls_state *names);
void calls_state_free(calls_state *names); /* NULL is fine */

/* ---- between the files of this folder only -------------- */

enum { CALLS_AROUND = 64 };

/* Of one thread; nobody else touches it. */
typedef struct calls_thread {
    struct calls_frame *top;       /* the call that began last */
    int inside;                    /* a consumer of this thread is at work */
    uint32_t number;               /* 0: not given one yet */
    uint32_t around_count;         /* calls inside compiled graphs that have begun and not ended ... */
    uint64_t around[CALLS_AROUND]; /* ... by the numbers of their taps, the outermost first */
} calls_thread;

/* A call that is going on. */
typedef struct calls_frame {
    struct calls_frame *below;        /* that began before it in this thread */
    struct calls_frame *outer;        /* the nearest of these that it is part of, or NULL */
    struct base_frame *caller;        /* of Python, for comparison only */
    PyObject *links;                  /* owned; tuple */
    PyObject *module, *args, *kwargs; /* borrowed from the caller */
    struct calls_tap *tap;            /* borrowed likewise */
    calls_thread *thread;
    int64_t start;
    bool is_training;
    bool is_in_backward;
    Py_ssize_t room;  /* of calls */
    uint32_t calls[]; /* number of the call, of each link */
} calls_frame;

/* What the probes of a module write to: alone, and in a graph of the whole model of a consumer. */
enum { CALLS_OWN, CALLS_SHARED, CALLS_SLOTS_ };
typedef struct calls_slots {
    PyObject *tensor;            /* owned or NULL */
    struct probe_slots *control; /* that of this module, in its memory; NULL: none */
    int32_t row;                 /* which one that is */
} calls_slots;

/* The object in the slot. */
typedef struct calls_tap {
    PyObject_HEAD PyObject *core; /* owned; the extension: it frees `state`, and may die first at exit */
    binding_state *state;
    PyObject *module;      /* owned; weak reference: a strong one would be a cycle */
    PyObject *links;       /* owned; tuple of calls_link; replaced, never changed */
    PyObject *inner;       /* owned or NULL; what was in the slot before (module.compile()) */
    PyObject *forward;     /* owned or NULL; what we put into the module's __dict__ */
    PyObject *announce;    /* owned or NULL; f(module) before each call in training */
    PyTypeObject *pickled; /* owned or NULL; the class that pickle.c counts */
    calls_forward_class class;
    calls_frame *spare; /* owned or NULL; for the next call: malloc takes longer than all the rest */
    uint64_t number;    /* in calls_state.taps, from 1 */
    calls_slots slots[CALLS_SLOTS_];
    calls_cache found[2]; /* inputs and outputs so far: hash of a walk -> path */
    uint32_t probes;      /* roles of the probes in compiled graphs; only grows */
    bool is_traced;       /* compiled code has guards on it: it stays where it is */
    bool announces_all;   /* announce also hears of calls in evaluation */
    bool is_prepared;     /* its module's parts have such objects too */
} calls_tap;

/* Our object in the module's slot, made if it is not there.  New reference; NULL
 * without an exception: this torch has no slot, or (not makes) we are not in it. */
calls_tap *calls_tap_of(binding_state *state, PyObject *module, bool makes);

/* ---- hidden.c ---- */
/* Sets the Python function that Dynamo traces where an object of this type is called. */
int calls_traced_set_call(PyTypeObject *type, PyObject *function);

/* ---- traced.c ---- */
calls_tap *calls_tap_numbered(const calls_state *calls, uint64_t number); /* borrowed; NULL: gone */
bool calls_traced_add(binding_state *state, calls_tap *tap);              /* false: no memory */
void calls_traced_remove(calls_tap *tap);
void calls_traced_take_forward(binding_state *state, const calls_tap *tap, PyObject *module);
void calls_traced_listen(binding_state *state);
void calls_traced_prepare(calls_tap *tap); /* its module is called, and nobody has it watched */
PyObject *calls_traced_probes(PyObject *self, void *closure);
bool calls_traced_is_forward(const binding_state *state, PyObject *method); /* one that we made */

/* ---- slots.c ---- */
void calls_traced_init(binding_state *state);
void calls_traced_update(binding_state *state, calls_tap *tap); /* its links have changed */
PyObject *calls_traced_tensor(PyObject *self, void *which);
PyObject *calls_traced_row(PyObject *self, void *closure);
const calls_probe *calls_probe_at(const calls_state *calls, int32_t slot); /* NULL: unknown */
bool calls_tap_is_root(const calls_tap *tap);  /* of one who hears of compiled graphs */
bool calls_link_hears(const calls_link *link); /* ... of modules inside compiled graphs */
bool calls_link_hears_of(const calls_link *link, const calls_path *path);
bool calls_link_is_root(const calls_link *link); /* the outermost module of its consumer */
static inline calls_link *calls_link_at(PyObject *links, Py_ssize_t i)
{
    return (calls_link *)PyTuple_GET_ITEM(links, i);
}

/* call.c: counts a call, and tells the consumer that it begins; its number in the step. */
uint32_t calls_link_count(calls_link *link, calls_thread *thread, bool is_training, bool is_outermost);
bool calls_is_training(binding_state *state, PyObject *module);
/* Calls of the consumer's modules among this one and those around it. */
uint32_t calls_depth(const calls_frame *frame, const calls_consumer *consumer);
/* The __dict__ of a module if it holds this object under this key: a new reference; or NULL, without an
 * exception. */
PyObject *calls_dict_with(PyObject *module, PyObject *key, const PyObject *object);
int calls_tap_announce(const calls_tap *tap, PyObject *module, calls_thread *thread);

/* Finds out if torch's _call_impl is the one that we know; twice is once. */
void calls_forward_find(calls_forward_names *names);
/* module._call_impl(*args, **kwargs), or forward() at once where that is the same. */
PyObject *calls_forward(struct calls_tap *tap, PyObject *module, PyObject *args, PyObject *kwargs);

/* ---- gradient.c ---- */
/* Has the consumer of a link told of the gradient of an output, when backward computes it.  Errors are
 * counted by the consumer. */
void calls_gradient_await(binding_state *state, calls_link *link, const calls_event *event,
                          PyObject *output, const calls_path *path);

calls_thread *calls_thread_here(void);
PyObject *calls_tap_call(PyObject *self, PyObject *args, PyObject *kwargs); /* tp_call */

/* Have copies and pickles of this class leave our object out, and the forward that we may have put beside
 * it, until removed; *out is what to remove, owned, or NULL: nothing has to be done.  0, or -1 with an
 * exception. */
int calls_pickle_add(binding_state *state, PyTypeObject *type, PyTypeObject **out);
void calls_pickle_remove(binding_state *state, PyTypeObject *type); /* NULL: nothing to do */

BINDING_FUNCTION(calls_announce);
BINDING_FUNCTION(calls_hidden);
BINDING_FUNCTION(calls_set_traced_call);
BINDING_FUNCTION(calls_begin_compiling);
BINDING_FUNCTION(calls_dynamo_imported);
BINDING_FUNCTION(calls_probe_number);
BINDING_FUNCTION(calls_begins_whole);

PyObject *calls_reduce_module(PyObject *core, PyObject *module);

#endif
