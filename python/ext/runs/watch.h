/* watch.h -- Watch: the consumer that writes what modules do into a run.
 *
 * For the watch_*.c files only.  One Watch is one model in one recorder.  The
 * way of a tensor: watch_call.c (a module gave it) or watch_parameters.c (the
 * optimizer is about to step) -> watch_record.c (is it wanted? view, summaries)
 * -> tt_recorder_add.  No Python code runs on that way, except for tensors of
 * another device and where on_nonfinite was asked for.
 *
 * Errors of our own are counted, the first is kept, and the program goes on.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_RUNS_WATCH_H
#define TT_EXT_RUNS_WATCH_H

#include "base/frame.h"
#include "calls/parameters.h"
#include "calls/source.h"
#include "runs/recorder.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include "tensortap_tools.h"

enum {
    RUNS_WATCH_SAMPLE = 64, /* elements of a weight from which its updates are estimated */
    RUNS_WATCH_UNITS = 512, /* units of a bias that are looked at */
    RUNS_WATCH_FEW = 16,    /* elements of a gradient from which its scaling is estimated */
};

/* A gradient from backward to the optimizer's step; each state has what those before it have. */
typedef enum runs_gradient_state {
    RUNS_GRADIENT_READ,    /* ... or there was none yet */
    RUNS_GRADIENT_ARRIVED, /* it was accumulated, and not read since: its version is known */
    RUNS_GRADIENT_FRESH,   /* it is recorded if it is read; no optimizer has stepped since */
    RUNS_GRADIENT_BAD,     /* it is not finite: recorded if the step is skipped, too */
} runs_gradient_state;

typedef struct runs_watch_parameter {
    calls_parameter base;        /* looked up in its module each time */
    int32_t site, gradient_site; /* -1: not asked for yet */
    runs_gradient_state gradient;
    int64_t version; /* of the gradient when it arrived */
    tt_stats noted;  /* of the gradient when it arrived, if has_stats; only with runs_watch.notes */
    bool has_stats;
    bool is_awaited; /* its gradient was accumulated, and arrives when backward has ended */
    bool has_addend; /* as it arrived it is in runs_watch.addends, from addend_at on */
    size_t addend_at, addend_cap;
    /* For the rules of health.  Sites: number plus 1; 0: not asked for yet; -1: not wanted. */
    int32_t update_site, silent_site, added_site;
    const void *held; /* where the gradient of the last step is, if it was only added to since; NULL: it
                         was not, or that was not looked at */
    int64_t held_version; /* of the gradient, when it was last seen */
    int64_t arrivals;     /* of the gradient since the last step, as far as they are seen */
    bool has_few;
    float few[RUNS_WATCH_FEW];             /* of the gradient when it arrived */
    int64_t sampled_step;                  /* the step that may compare with the sample */
    uint32_t reads;                        /* of the gradient's units */
    float sample[RUNS_WATCH_SAMPLE];       /* of the weight */
    uint64_t alive[RUNS_WATCH_UNITS / 64]; /* bits: units that had a gradient */
} runs_watch_parameter;

/* Sites about calls of a model from outside, for the rules of health; encoded likewise. */
typedef struct runs_watch_root {
    int32_t batch, no_grad, with_grad, rows, graph;
} runs_watch_root;

/* The same about a module inside a model. */
typedef struct runs_watch_part {
    int32_t mode;
    int64_t mode_step; /* in which its mode was recorded, plus 1 */
} runs_watch_part;

/* Of the parameters and gradients that are read together, the first that is not finite, by the order in which they
 * were made. */
typedef struct runs_watch_first {
    bool has_any;
    tt_stats stats;
    int32_t site,
        parameter; /* of the value, of the parameter that it is the gradient of; -1: it is one itself */
    int32_t reads; /* site of the parameter that is being read */
} runs_watch_first;

/* Which appearance of a tensor. */
typedef struct runs_watch_tag {
    int32_t site;
    uint32_t call;
    uint32_t thread;
    uint8_t phase;
    bool is_skipped;
    bool is_for_norm; /* stats are needed whether the site is wanted or not */
    bool is_placed;   /* where it belongs is recorded already */
    uint32_t more;    /* of TT_PRODUCT_: recorded beside what the plan says, if it says anything */
    bool is_late;     /* it was seen before, at: */
    int64_t step, time;
} runs_watch_tag;

/* A tensor that a collective was still filling when a module returned it. */
typedef struct runs_watch_awaited {
    PyObject *wrapper; /* owned; the AsyncCollectiveTensor: torch counts its changes, not those of what
                          it wraps */
    PyObject *filled;  /* owned; what it wraps */
    runs_watch_tag tag;
    uint32_t version; /* of the wrapper, then */
} runs_watch_awaited;

typedef struct runs_watch {
    calls_consumer consumer;
    PyObject *
        on_nonfinite; /* owned or NULL; f(site name, step, call, nan, posinf, neginf, all others are 0) */
    PyObject *on_device;     /* owned or NULL; f(tensor, tag, wants_histogram): we cannot read it here */
    PyObject *on_skip;       /* owned or NULL; f() when a step was skipped and `notes` was off */
    PyObject *on_again;      /* owned or NULL; f() when a model runs again and no step has ended */
    PyObject *on_loss;       /* owned or NULL; f(loss) while backward() runs */
    PyObject *allow;         /* owned or NULL; str: a glob of sites that on_nonfinite does not hear of */
    PyObject *unscale;       /* owned or NULL; f(loss) -> what a GradScaler made it of, or itself */
    PyObject *callback;      /* owned or NULL; what torch calls when backward has ended */
    runs_recorder *recorder; /* owned */
    binding_state *state;
    PyObject *backward_code;     /* owned or NULL; of torch.autograd.backward */
    PyObject *tensors_key;       /* owned; "tensors", the name of its first argument */
    PyObject *gradients_key;     /* owned; "grad_tensors", that of its second */
    calls_parameters parameters; /* of runs_watch_parameter */
    calls_parameters buffers;    /* of watch_buffers.c */
    char *addends;               /* owned; elements of gradients that are addends, as they arrived */
    size_t addends_len, addends_cap;
    Py_ssize_t bad_count; /* of gradients that are RUNS_GRADIENT_BAD */
    bool notes;           /* look at gradients when they are accumulated */
    bool has_fresh;       /* some gradient is RUNS_GRADIENT_FRESH or BAD */
    bool is_checked;      /* nothing has been accumulated since runs_watch_was_skipped() said no */
    bool has_run;         /* in training; whoever counts steps sets it back */
    bool is_reduced;      /* gradients are averaged over ranks, in place, after they were accumulated */
    bool is_scaled;       /* the step is GradScaler's: gradients were larger when accumulated */
    bool is_changed;      /* some gradient was changed in place between backward and the step ... */
    bool is_clipped;      /* ... and was recorded as it was then, not as backward had left it */
    bool is_pipelined;    /* the model is a stage of a pipeline: other ranks have other layers */
    bool is_divided;   /* ... whose schedule divides each gradient, in place, after the last backward */
    int32_t norm_site; /* of gradient_norm; -1: not asked for yet */
    /* For the rules of health. */
    const runs_watch_parameter
        *clip_of;        /* borrowed of parameters; whose scaling is measured; NULL: not chosen */
    int32_t clip_site;   /* number plus 1 */
    int64_t arrivals;    /* of the latest gradient that arrived, since the step before */
    double scale;        /* that a GradScaler gave the last loss; 0: none */
    int64_t batch_rows;  /* samples in the last batch */
    int64_t batch_size;  /* the same, once it was so in two batches; 0: not known */
    tt_buf batch_inputs; /* types and shapes in the first training batch, as text ... */
    tt_buf called_at;    /* ... and the program's line that called the model with it */
    bool
        has_unused_graph; /* the last call was in evaluation, with a graph, and nothing used that since */
    long long unread[VIEW_RESULT_COUNT_]; /* tensors whose values could not be read, by reason */
    bool is_ahead;                        /* products are asked for the step that comes next */
    bool has_gradients;                   /* of parameters */
    const runs_watch_root *eval_root;     /* borrowed of a link; the latest call with gradients was in
                                         evaluation mode; NULL: it was not */
    runs_watch_first *first;     /* borrowed; while parameters are read: on_nonfinite hears of it then */
    runs_watch_awaited *awaited; /* owned; in the order in which they were seen */
    size_t awaited_count, awaited_cap;
    PyObject *weakrefs;
} runs_watch;

static inline runs_watch_parameter *runs_watch_parameter_at(const runs_watch *self, Py_ssize_t index)
{
    return calls_parameters_at(&self->parameters, index);
}

/* What is recorded of a site at the current step; of TT_PRODUCT_. */
static inline uint32_t runs_watch_products(const runs_watch *self, int32_t site)
{
    const runs_recorder *recorder = self->recorder;
    return recorder->rec != NULL && site >= 0 ? tt_recorder_wants(recorder->rec, site, recorder->step)
                                              : 0;
}

static inline bool runs_watch_is_finite(const tt_stats *stats)
{
    return stats->nan + stats->posinf + stats->neginf == 0;
}

/* Calls function(argument), or function(), or nothing if these are NULL; an exception is counted. */
void runs_watch_notify(runs_watch *self, PyObject *function, PyObject *argument);

/* The site of kind/name, from the recorder; -1: there is none (counted). */
int32_t runs_watch_site(runs_watch *self, const char *kind, PyObject *name);

/* Records one tensor.  1: its statistics are in *stats (unless that is NULL); 0: they were not
 * computed, because they are not wanted or come later; -1: with the exception of on_nonfinite. */
int runs_watch_record(runs_watch *self, const calls_observation *seen, const runs_watch_tag *tag,
                      tt_stats *stats);
/* The same for a tensor that no source shares. */
int runs_watch_record_alone(runs_watch *self, PyObject *tensor, const runs_watch_tag *tag,
                            tt_stats *stats);
/* Records stats that somebody else computed; hist: NULL: there is none; step < 0: the current one. */
void runs_watch_record_stats(runs_watch *self, const tt_stats *stats, const tt_hist *hist,
                             const int64_t *shape, int32_t ndim, const runs_watch_tag *tag, int64_t step,
                             int64_t time);

/* Records where a tensor of a site belongs, if that is news. */
void runs_watch_find_place(runs_watch *self, tensor_looks *looks, PyObject *tensor, int32_t site);

/* Records a tensor as soon as the program has waited for the collective that fills it; never waits. */
void runs_watch_await(runs_watch *self, PyObject *wrapper, const runs_watch_tag *tag);
/* Records those that the program has waited for by now; looks may be NULL.  -1: with the exception of
 * on_nonfinite. */
int runs_watch_record_awaited(runs_watch *self, tensor_looks *looks);
static inline int runs_watch_look_at_awaited(runs_watch *self, tensor_looks *looks)
{
    return self->awaited_count == 0 ? 0 : runs_watch_record_awaited(self, looks);
}
void runs_watch_forget_awaited(runs_watch *self);

/* Keeps it if it was made before the one that is kept. */
void runs_watch_note_first(runs_watch *self, const tt_stats *stats, int32_t site);
/* Tells on_nonfinite, if there is one and something to tell; -1: it raised. */
int runs_watch_tell_nonfinite(runs_watch *self, const tt_stats *stats, const runs_watch_tag *tag,
                              int64_t step);

extern const calls_table runs_watch_calls;

/* Hashes a few elements, evenly over the tensor; -1: they cannot be read here. */
int64_t runs_watch_mark(const runs_watch *self, PyObject *tensor);
/* Parameters.  Each is a method of Watch. */
PyObject *runs_watch_set_parameters(PyObject *self, PyObject *list);
PyObject *runs_watch_read_parameters(PyObject *self, PyObject *which);
PyObject *runs_watch_set_buffers(PyObject *self, PyObject *list);
PyObject *runs_watch_read_buffers(PyObject *self, PyObject *none);
PyObject *runs_watch_parameter_ids(PyObject *self, PyObject *none);
PyObject *runs_watch_parameter_hook(PyObject *self, PyObject *index);
PyObject *runs_watch_end_step(PyObject *self, PyObject *none);

/* Gradients that are seen while they are computed. */
/* Has a step been skipped, or done without some parameters, since gradients were noted? */
bool runs_watch_was_skipped(runs_watch *self);
void runs_watch_write_noted(runs_watch *self, bool is_skipped);

/* What the rules of health need besides (watch_health.c): of a parameter that is about to be updated (gradient may be
 * NULL), of a gradient when it was accumulated and at the step, of a call of a model from outside, of an optimizer's
 * step, of a call of a module inside. */
void runs_watch_note_parameter(runs_watch *self, runs_watch_parameter *parameter, tensor_looks *looks,
                               PyObject *tensor, PyObject *gradient);
void runs_watch_note_arrival(runs_watch *self, runs_watch_parameter *parameter, PyObject *gradient,
                             int64_t version);
void runs_watch_note_gradient(runs_watch *self, runs_watch_parameter *parameter, PyObject *gradient,
                              int64_t version);
void runs_watch_note_call(runs_watch *self, runs_watch_root *root, PyObject *name,
                          const calls_event *event);
void runs_watch_note_step(runs_watch *self);
void runs_watch_note_mode(runs_watch *self, runs_watch_part *part, PyObject *name,
                          const calls_event *event);
/* watch_batch.c: of what a model was called with. */
void runs_watch_note_batch(runs_watch *self, runs_watch_root *root, PyObject *name,
                           const calls_event *event);
/* watch_graph.c: of a loss; of a module whose output requires a gradient (1), does not (0), or is no tensor. */
void runs_watch_note_labels(runs_watch *self, PyObject *loss, PyObject *name);
void runs_watch_note_graph(runs_watch *self, PyObject *name, const calls_event *event, int requires_grad);

/* The number of a site of ours, or -1: it is not wanted.  known: the number plus 1, 0 at first.  Its plan is our own if
 * it is seldom: `every` is about the program's tensors. */
int32_t runs_watch_own_site(runs_watch *self, int32_t *known, const char *kind, PyObject *name,
                            bool is_seldom);
/* Is this a step in which to look at what hardly ever changes? */
bool runs_watch_is_due(const runs_watch *self);
void runs_watch_record_number(runs_watch *self, int32_t site, double value);
/* Can elements be read by their place in memory? */
static inline bool runs_watch_is_plain(const tt_tensor *t)
{
    return tt_tensor_is_contiguous(t) && !t->is_swapped;
}

/* The loss.  runs_watch_note_loss records what backward() was called on, while it runs; 0, or -1
 * with the exception of on_nonfinite. */
int runs_watch_find_backward(runs_watch *self);
/* The program's line in this frame or above, past libraries: "train.py:34"; owned, or NULL. */
PyObject *runs_watch_line_of(binding_state *state, base_frame *at);
int runs_watch_note_loss(runs_watch *self);

#endif
