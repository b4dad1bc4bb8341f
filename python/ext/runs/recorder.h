/* recorder.h -- the object behind Recorder, for those who feed it.
 *
 * The class itself is in recorder.c; watch.c, and every other source that
 * writes events, holds a reference to it and looks at these fields.  All of
 * them belong to the GIL.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_RUNS_RECORDER_H
#define TT_EXT_RUNS_RECORDER_H

#include "base/clock.h"
#include "binding/state.h"
#include "tensor/look.h"

/* What is known of one site beside its plan. */
typedef struct runs_recorder_site {
    int64_t cost, cost_seen; /* ns; until now, and until the last look at the budget */
    int64_t typical;         /* ns of one timed event, smoothed; 0: none yet */
    int64_t step;            /* at which run.tensor was called last ... */
    uint32_t calls;          /* ... and how often in it */
    uint32_t thinned;        /* recorded this many times more seldom than planned; 0: as planned */
    PyObject *spec;  /* owned or NULL; compared, so that its address is not used again: what said where
                        its tensors belong; None: a plain tensor */
    bool asks_graph; /* its plain tensors were made of DTensors; torch's graph has their specs */
    bool is_addend;  /* its tensors are addends: those of all ranks make up the whole one */
    tt_placement *place; /* owned or NULL; where they belong, with its boxes behind it */
} runs_recorder_site;

/* Does each forward of a model in training count as a step?  Yes, if it has no optimizer. */
enum { FORWARDS_UNKNOWN, FORWARDS_ARE_STEPS, FORWARDS_ARE_NO_STEPS };

/* Where a run is in its step.  Only recorder_step.c changes this. */
typedef enum runs_step_state {
    STEP_OPEN,
    STEP_OVER,      /* all optimizers have stepped: the next training forward begins a new step */
    STEP_PREVIEWED, /* one without gradients has begun it: what the program logs is still of the step
                       before */
} runs_step_state;

/* The first training forward of a run: did it compute gradients?  If it did, one that does not, right
 * after a step, is an evaluation; else it is how steps begin (rollouts). */
enum { FORWARD_UNKNOWN, FORWARD_TRAINS, FORWARD_ONLY_COMPUTES };

typedef struct runs_recorder {
    PyObject_HEAD tt_recorder *rec; /* owned; NULL once closed: whoever feeds it must look */
    int64_t step;                   /* the current one; events belong to it */
    runs_step_state step_state;
    char first_forward; /* of FORWARD_ */
    char autocast[64];  /* in it: "off", "torch.bfloat16 on cuda"; "": there was none */
    char forwards;      /* of FORWARDS_ */
    bool is_manual;     /* run.step() has been called: optimizers end no step any more */
    bool is_inference;  /* forwards in evaluation count as those in training do */
    bool is_by_command; /* `tensortap run` opened it: the program's warnings stay its own */
    int64_t cost_ns;    /* time spent on tensors and numbers, as measured (an estimate: one event in
                           RECORDER_SAMPLES is timed and stands for that many) */
    int64_t around_ns;  /* ... on calls, hooks and optimizer steps around them, likewise: thinning tensors
                           does not make these shorter */
    int64_t around_typical; /* ns of one timed call or hook, smoothed */
    int64_t timed_ns;       /* sum of the events that were timed, each for itself */
    enum { AROUND_NOTHING, AROUND_TIMED, AROUND_UNTIMED } around; /* what is going on now */
    runs_recorder_site *site;                                     /* owned; site_cap of them */
    size_t site_cap;
    uint32_t random;    /* which events are timed */
    PyObject *watchers; /* owned; list of objects with a method _close(), which Recorder.close()
                           calls before the file ends, last one first */
    PyObject *follow;   /* owned or NULL; in a forked child that is to go on: makes its recorder */
    PyObject *sites;    /* owned; dict of names and their numbers */
    PyObject *allow;    /* owned or NULL; str or None: of the checker */
    PyObject *
        placer; /* owned, or NULL or None; f(site, name, tensor or None, spec or None, step) records where
                           the tensors of a site belong; True: torch's graph may say more */
    PyObject *loss; /* owned or NULL; weak reference to what backward() was last called on */
    PyObject *weakrefs;
    binding_state *state; /* of the extension, which the type keeps alive */
    bool drops;           /* queue full: drop and count, never wait */
    int32_t users;        /* threads that use rec without the GIL: close waits for them */
    bool has_told_error;  /* of the disk; once is enough */
    uint32_t every;       /* of the plan */
    int64_t start_ns;     /* runs_clock_coarse() of the beginning */
    int64_t end_ns;       /* of the end; 0: not yet */
    int64_t disk;         /* most bytes of all that is no value; 0: any */
    bool has_told_disk;   /* that the run is thinned; once is enough */
    double budget;        /* share of the time that watching may take; 0: any */
    int64_t look_ns, look_cost, look_step; /* at the last look at the budget */
    int64_t typical;                       /* ns of one timed event of no site, smoothed */
    uint32_t look_charges;                 /* events timed since */
    bool is_warm;                          /* the first look, with its page faults, is over */
    int64_t last_ns;                       /* of the latest event */
    int64_t cost_told_ns;                  /* when the cost was last recorded */
    int64_t events_before;                 /* events when this step began */
    tt_recorder_counts last;               /* counts when it was closed */
    struct tt_checker *checker;            /* owned or NULL; the rules of health, which see every event */
} runs_recorder;

#define RECORDER_SAMPLES 16

static inline int64_t runs_clock_fine(void) /* ns since 1970 */
{
    return base_clock(CLOCK_REALTIME);
}
static inline int64_t runs_clock_coarse(void) /* the same to within 4 ms, at a fifth of the price */
{
    return base_clock(CLOCK_REALTIME_COARSE);
}

/* Returns a time that is later than all before, so that times are in the order of events: the given one, or now if
 * that is 0.  Many events fall into one tick of the clock. */
static inline int64_t runs_recorder_time(runs_recorder *self, int64_t time)
{
    time = time != 0 ? time : runs_clock_coarse();
    return self->last_ns = time > self->last_ns ? time : self->last_ns + 1;
}

/* Takes note that an event of this site took so long; -1: of no site.  It stands for RECORDER_SAMPLES
 * of them. */
void runs_recorder_charge(runs_recorder *self, int32_t site, int64_t ns);
/* The same of one that stands for itself, as all of its kind are timed. */
void runs_recorder_spend(runs_recorder *self, int32_t site, int64_t ns);

/* Around an event, of which one in RECORDER_SAMPLES is timed: begin's result goes to end.  An event of a
 * call or hook is timed if and only if that is. */
static inline int64_t runs_recorder_begin(runs_recorder *self)
{
    if (self->around != AROUND_NOTHING)
        return self->around == AROUND_TIMED ? runs_clock_fine() : 0;
    self->random = self->random * 1664525u + 1013904223u;
    return self->random >> 28 == 0 ? runs_clock_fine() : 0;
}
static inline void runs_recorder_end(runs_recorder *self, int32_t site, int64_t start)
{
    if (start != 0)
        runs_recorder_charge(self, site, runs_clock_fine() - start);
}

/* Around what records events: the time that these do not account for.  begin's result goes to end. */
typedef struct runs_recorder_span {
    int64_t start;  /* 0: not timed */
    int64_t within; /* timed_ns then */
    bool is_inner;  /* of another one */
} runs_recorder_span;
static inline runs_recorder_span runs_recorder_begin_around(runs_recorder *self)
{
    if (self->around != AROUND_NOTHING)
        return (runs_recorder_span){ .is_inner = true };
    runs_recorder_span span = { .start = runs_recorder_begin(self), .within = self->timed_ns };
    self->around = span.start != 0 ? AROUND_TIMED : AROUND_UNTIMED;
    return span;
}
void runs_recorder_end_around(runs_recorder *self, runs_recorder_span span);
/* What watching has cost so far, the writer's thread included; ns. */
int64_t runs_recorder_cost(const runs_recorder *self);

/* Before an event: opens the file of a forked child, if that is to have one. */
void runs_recorder_follow(runs_recorder *self);
static inline void runs_recorder_wake(runs_recorder *self)
{
    if (self->follow != NULL && self->rec != NULL)
        runs_recorder_follow(self);
}

/* The recorder behind a Python object, or NULL with TypeError. */
runs_recorder *runs_recorder_of(binding_state *state, PyObject *obj);

/* How often this site was given a tensor before in this step. */
uint32_t runs_recorder_next_call(runs_recorder *self, int32_t site, int64_t step);

/* ---- steps: what happened; recorder_step.c decides what that means ----------- */

/* The step has ended without its optimizers: one of them steps again, a GradScaler skipped it, or there
 * is none and a model runs again. */
void runs_recorder_next_step(runs_recorder *self);
/* An optimizer has stepped: was it the last one of the step? */
void runs_recorder_set_over(runs_recorder *self, bool is_over);
/* A model is called in training mode. */
void runs_recorder_forward(runs_recorder *self);
/* A backward runs, or an optimizer is about to step. */
void runs_recorder_train(runs_recorder *self);
/* run.step() */
void runs_recorder_step_by_hand(runs_recorder *self);
/* The step of what the program itself records. */
static inline int64_t runs_recorder_own_step(const runs_recorder *self)
{
    return self->step - (self->step_state == STEP_PREVIEWED ? 1 : 0);
}

/* Waits without the GIL until the queue has room for an event with so many bytes of a
 * value.  True: it had to, and meanwhile anything may have happened: the recorder may
 * be closed, a tensor's memory may be another.  So this comes before a view is used. */
bool runs_recorder_make_room(runs_recorder *self, size_t bytes);
/* Looks at a tensor once there is room for what is recorded of it.  NULL without an exception: out of
 * memory, or the run was closed meanwhile: while we waited, or while torch resolved a lazy bit, which
 * lets other threads run. */
tensor_look *runs_recorder_look(runs_recorder *self, tensor_looks *looks, PyObject *tensor,
                                uint32_t products);
/* Adds an event with what products ask for of a tensor that can be read; event->stats may be there
 * already.  Values wait without the GIL, so that other threads may run and even close self. */
tt_status runs_recorder_add(runs_recorder *self, tensor_look *look, uint32_t products, tt_event *event);
/* Adds an event to the file, and shows it to the rules of health. */
tt_status runs_recorder_emit(runs_recorder *self, const tt_event *event);
/* The same of a number. */
tt_status runs_recorder_emit_number(runs_recorder *self, int32_t site, int64_t step, double value);
/* Adds an event with these statistics alone; shape NULL: it is not known. */
void runs_recorder_add_stats(runs_recorder *self, const tt_stats *stats, const int64_t *shape,
                             int32_t ndim, tt_event *event);
/* Recorder.tensor(): products 0: what the plan of the site says.  `known` has the statistics of
 * the tensor, or is NULL.  -1: an exception is set. */
struct runs_change;
int runs_recorder_put(runs_recorder *self, PyObject *name, PyObject *t, uint32_t products, uint8_t phase,
                      const struct runs_change *known);
/* Warns of something about the run, as `warn` of display/session.py does.  -1 with an exception
 * if the program made warnings errors. */
int runs_recorder_warn(const runs_recorder *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Warns of a disk that failed, the first time it is called after that.  -1 as above. */
int runs_recorder_tell_error(runs_recorder *self);

/* ---- between the recorder*.c only ------------------------- */

int runs_recorder_refuse_closed(const runs_recorder *self);
static inline bool runs_recorder_has_placer(const runs_recorder *self)
{
    return self->placer != NULL && self->placer != Py_None;
}
/* Calls the placer if this tensor, of a site that is recorded, belongs elsewhere than the one before it.
 * NULL: a tensor inside a compiled graph.  -1: an exception is set. */
int runs_recorder_find_place(runs_recorder *self, tensor_looks *looks, PyObject *tensor, int32_t site,
                             int64_t step);
void runs_recorder_forget_places(runs_recorder *self);
PyObject *runs_recorder_mesh(PyObject *self, PyObject *args);
PyObject *runs_recorder_place(PyObject *self, PyObject *args);
/* What is known of a site; NULL: no memory. */
runs_recorder_site *runs_recorder_site_at(runs_recorder *self, int32_t site);
/* Lets other threads run until there is room for about so many bytes, or time is up. */
void runs_recorder_wait(runs_recorder *self, size_t bytes, double seconds);
/* Records what watching has cost so far. */
void runs_recorder_tell_cost(runs_recorder *self);
PyObject *runs_recorder_costs(PyObject *self, PyObject *none);
PyObject *runs_recorder_thinned(PyObject *self, PyObject *none);
PyObject *runs_recorder_log(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *runs_recorder_log_at(PyObject *self, PyObject *args);
PyObject *runs_recorder_tensor(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames);

PyObject *runs_tables(PyObject *module, PyObject *none);
PyObject *runs_block_look(PyObject *module, PyObject *args);
PyObject *runs_value_is_masked(PyObject *module, PyObject *args);
PyObject *runs_read_keep(PyObject *module, PyObject *keep);

#endif
