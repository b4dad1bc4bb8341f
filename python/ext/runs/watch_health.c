/* watch_health.c -- what the rules of health need beyond statistics.
 *
 * How much a step changes each weight, which units get no gradient, what a model was called with, in
 * which mode, and what computes its loss.  Recorded under names that begin with tensortap/, seldom and
 * from a few elements, so that it costs next to nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

#include <math.h>
#include <string.h>

#include "tensortap_tools.h"

enum {
    AT_FIRST = 16, /* steps in which every update is measured; after that one in EVERY */
    EVERY = 8,
    SELDOM = 64,            /* steps between two looks at what hardly ever changes */
    READS = 16,             /* of gradients, after which units without one are counted */
    MOST_INPUT = 1024,      /* elements of an input that go into its digest */
    MOST_STRIDED = 1 << 16, /* elements of an input with gaps, which is digested as a whole */
    FEWEST_UNITS = 8,
};

/* The number of a site of ours, or -1: it is not wanted.  Its plan is our own: `every` is about the
 * program's tensors. */
static int32_t own_site(runs_watch *self, int32_t *known, const char *kind, PyObject *name,
                        bool is_seldom)
{
    if (*known == 0) {
        int32_t site = runs_watch_site(self, kind, name);
        tt_recorder *rec = self->recorder->rec;
        bool is_wanted = site >= 0 && rec != NULL && tt_recorder_wants(rec, site, 0) != 0;
        if (is_wanted && is_seldom)
            tt_recorder_set_plan(rec, site, TT_PRODUCT_STATS, 1);
        *known = is_wanted ? site + 1 : -1;
    }
    return *known > 0 ? *known - 1 : -1;
}

static bool is_due(const runs_watch *self)
{
    int64_t step = self->recorder->step;
    return step < AT_FIRST || step % SELDOM == 0;
}

static void record_number(runs_watch *self, int32_t site, double value)
{
    if (site >= 0 && self->recorder->rec != NULL)
        (void)runs_recorder_emit_number(self->recorder, site, self->recorder->step, value);
}

/* ---- parameters ------------------------------------------------------------ */

/* Can elements be read by their place in memory? */
static bool is_plain(const tt_tensor *t)
{
    return tt_tensor_is_contiguous(t) && !t->is_swapped;
}

/* A few groups of neighbours, evenly over the tensor: neighbours share a line of the cache. */
static void take_sample(const tt_tensor *t, float out[RUNS_WATCH_SAMPLE])
{
    enum { GROUP = 8, GROUPS = RUNS_WATCH_SAMPLE / GROUP };
    const char *data = t->data;
    size_t size = tt_dtype_size(t->dtype);
    int64_t apart = t->count / GROUPS;
    for (int64_t g = 0; g < GROUPS; g++, out += GROUP) {
        const char *group = data + (size_t)(g * apart) * size;
        if (t->dtype == TT_F32)
            memcpy(out, group, GROUP * sizeof *out);
        else
            for (size_t i = 0; i < GROUP; i++)
                out[i] = (float)tt_element_f64(t->dtype, group + i * size);
    }
}

static double ratio_of(const float before[RUNS_WATCH_SAMPLE], const float after[RUNS_WATCH_SAMPLE])
{
    double change = 0, size = 0;
    for (size_t i = 0; i < RUNS_WATCH_SAMPLE; i++) {
        double by = (double)after[i] - (double)before[i];
        change += by * by;
        size += (double)before[i] * (double)before[i];
    }
    return size > 0 ? sqrt(change / size) : NAN;
}

/* Records the update of each element over the size of the weight.  Types of 16 bits round small updates away,
 * and the zeros among the statistics are the elements that stayed. */
static void record_changes(runs_watch *self, int32_t site, const float before[RUNS_WATCH_SAMPLE],
                           const float after[RUNS_WATCH_SAMPLE])
{
    float changes[RUNS_WATCH_SAMPLE];
    const int64_t count = RUNS_WATCH_SAMPLE;
    double size = 0;
    tt_tensor sample;
    tt_stats stats;
    for (size_t i = 0; i < RUNS_WATCH_SAMPLE; i++)
        size += (double)before[i] * (double)before[i] / RUNS_WATCH_SAMPLE;
    for (size_t i = 0; i < RUNS_WATCH_SAMPLE; i++)
        changes[i] = (float)(((double)after[i] - (double)before[i]) / sqrt(size));
    if (site < 0 || self->recorder->rec == NULL ||
        tt_tensor_describe(&sample, changes, TT_F32, 1, &count, NULL, NULL) < 0)
        return;
    tt_stats_compute(&sample, &stats);
    (void)runs_recorder_make_room(self->recorder, 0);
    if (self->recorder->rec != NULL)
        (void)runs_recorder_emit(self->recorder, &(tt_event){ .site = site,
                                                              .step = self->recorder->step,
                                                              .time = runs_clock_coarse(),
                                                              .phase = TT_PHASE_TRAIN,
                                                              .stats = &stats });
}

/* The size of the update between two steps over the size of the weight. */
static void measure_update(runs_watch *self, runs_watch_parameter *parameter, const tt_tensor *t)
{
    float now[RUNS_WATCH_SAMPLE];
    int64_t step = self->recorder->step;
    if (t->ndim < 2)
        parameter->update_site = -1; /* it need not be opened again */
    if (t->ndim < 2 || t->count < RUNS_WATCH_SAMPLE || tt_dtype_kind(t->dtype) != TT_KIND_FLOAT ||
        !is_plain(t))
        return;
    take_sample(t, now);
    double ratio = parameter->sampled_step == step ? ratio_of(parameter->sample, now) : NAN;
    if (isfinite(ratio)) {
        int32_t site =
            own_site(self, &parameter->update_site, "tensortap/update", parameter->base.name, true);
        if (tt_dtype_size(t->dtype) == 2)
            record_changes(self, site, parameter->sample, now);
        else
            record_number(self, site, ratio);
    }
    memcpy(parameter->sample, now, sizeof now);
    parameter->sampled_step = step + 1; /* the step that may compare with it; 0: none */
}

static bool is_zero(const char *element, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, element, size);
    return bits << (64 - 8 * size) << 1 == 0; /* -0 is 0 */
}

/* Which units had a gradient in one of the last reads. */
static void count_silent(runs_watch *self, runs_watch_parameter *parameter, const tt_tensor *t)
{
    const char *data = t->data;
    size_t size = tt_dtype_size(t->dtype);
    int64_t units = t->count < RUNS_WATCH_UNITS ? t->count : RUNS_WATCH_UNITS, silent = 0;
    if (t->ndim != 1)
        parameter->silent_site = -1;
    if (t->ndim != 1 || t->count < FEWEST_UNITS || tt_dtype_kind(t->dtype) != TT_KIND_FLOAT ||
        !is_plain(t))
        return;
    for (int64_t i = 0; i < units; i++) {
        uint64_t *alive = &parameter->alive[i / 64];
        if (i % 64 == 0 && *alive == UINT64_MAX)
            i += 63; /* all these are: nothing to learn until they are counted */
        else if (!is_zero(data + (size_t)i * size, size))
            *alive |= UINT64_C(1) << i % 64;
    }
    if (++parameter->reads % READS != 0)
        return;
    for (int64_t i = 0; i < units; i++)
        silent += (parameter->alive[i / 64] >> i % 64 & 1) == 0;
    memset(parameter->alive, 0, sizeof parameter->alive);
    record_number(self,
                  own_site(self, &parameter->silent_site, "tensortap/silent", parameter->base.name, true),
                  (double)silent / (double)units);
}

void runs_watch_note_parameter(runs_watch *self, runs_watch_parameter *parameter, tensor_looks *looks,
                               PyObject *tensor, PyObject *gradient)
{
    int64_t step = self->recorder->step;
    bool has_update = (step < AT_FIRST || step % EVERY <= 1) && parameter->update_site >= 0;
    bool has_silent = gradient != NULL && step % 2 == 0 && parameter->silent_site >= 0;
    if (self->recorder->rec == NULL || self->state->is_device_forced || (!has_update && !has_silent))
        return;
    int64_t start = runs_recorder_begin(self->recorder);
    const tensor_look *look = has_update ? tensor_look_at(looks, tensor) : NULL;
    if (look != NULL && look->why == VIEW_OK)
        measure_update(self, parameter, &look->view.tensor);
    look = has_silent ? tensor_look_at(looks, gradient) : NULL;
    if (look != NULL && look->why == VIEW_OK)
        count_silent(self, parameter, &look->view.tensor);
    runs_recorder_end(self->recorder, -1, start);
}

/* ---- calls of a model --------------------------------------------------------- */

typedef struct batch {
    runs_watch *watch;
    tt_digest digest;
    int32_t ndim; /* of the tensor that stats are of; -1: none */
    bool wants_stats;
    tt_stats stats;
} batch;

static void add_digest(batch *b, const tt_tensor *t)
{
    char few[MOST_INPUT * 16];
    size_t size = tt_dtype_size(t->dtype);
    int64_t apart = t->count > MOST_INPUT ? t->count / MOST_INPUT : 1,
            count = t->count > MOST_INPUT ? MOST_INPUT : t->count;
    bool is_sampled = is_plain(t);
    tt_tensor sample;
    tt_digest digest;
    if (!is_sampled && t->count > MOST_STRIDED)
        return;
    for (int64_t i = 0; is_sampled && i < count; i++)
        memcpy(few + (size_t)i * size, (const char *)t->data + (size_t)(i * apart) * size, size);
    if (is_sampled && tt_tensor_describe(&sample, few, t->dtype, 1, &count, NULL, NULL) < 0)
        return;
    tt_digest_compute(is_sampled ? &sample : t, &digest);
    b->digest.low = b->digest.low * UINT64_C(0x9e3779b97f4a7c15) ^ digest.low;
    b->digest.high ^= digest.high;
}

static int found_input(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    batch *b = context;
    tensor_view view;
    if (tensor_view_open(&b->watch->state->torch, tensor, &view) != VIEW_OK)
        return 0;
    if (view.tensor.count > 0) {
        add_digest(b, &view.tensor);
        if (b->wants_stats && b->ndim < 0 && view.tensor.ndim >= 2 &&
            tt_dtype_kind(view.tensor.dtype) == TT_KIND_FLOAT) {
            b->ndim = view.tensor.ndim;
            tt_stats_compute(&view.tensor, &b->stats);
        }
    }
    tensor_view_close(&view);
    return 0;
}

static void record_batch(runs_watch *self, int32_t site, const calls_event *event)
{
    batch b = { .watch = self, .ndim = -1, .wants_stats = self->recorder->step % EVERY == 0 };
    (void)tensor_walk(&self->state->torch, event->args, found_input, &b);
    if (event->kwargs != NULL)
        (void)tensor_walk(&self->state->torch, event->kwargs, found_input, &b);
    PyErr_Clear();
    if ((b.digest.low | b.digest.high) == 0 || self->recorder->rec == NULL)
        return; /* no tensor that can be read here */
    (void)runs_recorder_make_room(self->recorder, 0);
    if (self->recorder->rec != NULL)
        (void)runs_recorder_emit(self->recorder, &(tt_event){ .site = site,
                                                              .step = self->recorder->step,
                                                              .call = event->call,
                                                              .thread = event->thread,
                                                              .time = runs_clock_coarse(),
                                                              .phase = TT_PHASE_TRAIN,
                                                              .digest = &b.digest,
                                                              .stats = b.ndim >= 0 ? &b.stats : NULL });
}

typedef struct outputs {
    PyObject *requires_grad; /* borrowed; the descriptor */
    int requires;            /* 1: some tensor requires a gradient; 0: none does; -1: there is none */
} outputs;

static int found_output(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    outputs *all = context;
    PyObject *flag = tensor_torch_get(all->requires_grad, tensor); /* owned */
    all->requires = flag == Py_True ? 1 : all->requires < 0 ? 0 : all->requires;
    PyErr_Clear();
    Py_XDECREF(flag);
    return 0;
}

static int requires_grad(runs_watch *self, PyObject *output)
{
    const tensor_torch *torch = &self->state->torch;
    outputs all = { .requires_grad = torch->requires_grad, .requires = -1 };
    if (torch->requires_grad != NULL)
        (void)tensor_walk(&self->state->torch, output, found_output, &all);
    PyErr_Clear();
    return all.requires;
}

void runs_watch_note_call(runs_watch *self, runs_watch_root *root, PyObject *name,
                          const calls_event *event)
{
    if (self->recorder->rec == NULL || self->parameters.count == 0)
        return;
    int64_t start = runs_recorder_begin(self->recorder);
    int requires = requires_grad(self, event->output);
    if (event->is_training && requires == 0)
        record_number(self, own_site(self, &root->no_grad, "tensortap/no_grad", name, true), 1);
    if (requires == 1) /* the optimizer's step will tell if it was for a training */
        self->eval_root = event->is_training ? NULL : root;
    int32_t site = event->is_training && requires != 0 && event->call == 0
                       ? own_site(self, &root->batch, "tensortap/batch", name, false)
                       : -1;
    if (site >= 0 && tt_recorder_wants(self->recorder->rec, site, self->recorder->step) != 0)
        record_batch(self, site, event);
    if (!event->is_training && requires == 1 && root->with_grad == 0)
        (void)own_site(self, &root->with_grad, "tensortap/with_grad", name, true);
    runs_recorder_end(self->recorder, -1, start);
}

void runs_watch_note_step(runs_watch *self)
{
    if (self->eval_root != NULL && self->eval_root->with_grad > 0)
        record_number(self, self->eval_root->with_grad - 1, 1);
    self->eval_root = NULL;
}

/* ---- modules inside, and losses ---------------------------------------------- */

void runs_watch_note_mode(runs_watch *self, runs_watch_part *part, PyObject *name,
                          const calls_event *event)
{
    int64_t now = self->recorder->step + 1;
    if ((event->is_training && !is_due(self)) || part->mode < 0 || part->mode_step == now ||
        self->recorder->rec == NULL || self->parameters.count == 0)
        return;
    bool is_training = calls_is_training(self->state, event->module);
    if (is_training == event->is_training)
        return;
    part->mode_step = now;
    record_number(self, own_site(self, &part->mode, "tensortap/mode", name, true), is_training ? 1 : 0);
}

/* The first input of a node of autograd's graph; owned, or NULL. */
static PyObject *input_of(PyObject *node)
{
    PyObject *inputs = PyObject_GetAttrString(node, "next_functions"); /* owned */
    PyObject *pair = inputs != NULL ? PySequence_GetItem(inputs, 0) : NULL;
    PyObject *input = pair != NULL ? PySequence_GetItem(pair, 0) : NULL;
    PyErr_Clear();
    Py_XDECREF(inputs);
    Py_XDECREF(pair);
    return input;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Does the operator only give its elements another form? */
static bool is_form(const char *type)
{
    static const char *const forms[] = { "View",    "UnsafeView", "Reshape",   "Alias", "Transpose",
                                         "Permute", "Squeeze",    "Unsqueeze", "T",     "ToCopy",
                                         "Clone",   "Slice",      "Contiguous" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (begins(type, forms[i]) && begins(type + strlen(forms[i]), "Backward"))
            return true;
    return false;
}

/* What a node was given, forms looked through; owned, or NULL. */
static PyObject *source_of(PyObject *node)
{
    enum { DEEPEST = 8 };
    PyObject *at = input_of(node); /* owned */
    for (int depth = 0; at != NULL && depth < DEEPEST && is_form(Py_TYPE(at)->tp_name); depth++)
        Py_XSETREF(at, input_of(at));
    return at;
}

/* Along its first dimension, of several? */
static bool is_over_first(PyObject *softmax)
{
    PyObject *dim = PyObject_GetAttrString(softmax, "_saved_dim"); /* owned; without it, less is seen */
    bool is_first = dim != NULL && PyLong_Check(dim) && PyObject_IsTrue(dim) == 0;
    PyErr_Clear();
    Py_XDECREF(dim);
    return is_first;
}

/* What kind of loss a node computes; 0: another. */
static int loss_of(PyObject *node)
{
    const char *type = Py_TYPE(node)->tp_name;
    int made_by = begins(type, "BinaryCrossEntropy") ? TT_LOSS_BINARY_CROSS_ENTROPY
                  : begins(type, "NllLoss")          ? TT_LOSS_NLL
                                                     : 0;
    PyObject *source = made_by != 0 ? source_of(node) : NULL; /* owned */
    const char *from = source != NULL ? Py_TYPE(source)->tp_name : "";
    if (begins(type, "BinaryCrossEntropyWithLogits") && begins(from, "SigmoidBackward")) {
        made_by = TT_LOSS_OF_SIGMOID;
    } else if (made_by == TT_LOSS_NLL && begins(from, "LogSoftmaxBackward")) {
        PyObject *logits = source_of(source); /* owned */
        if (logits != NULL && begins(Py_TYPE(logits)->tp_name, "SoftmaxBackward"))
            made_by = TT_LOSS_OF_PROBABILITIES;
        else if (begins(type, "NllLossBackward") && is_over_first(source))
            made_by = TT_LOSS_OVER_BATCH;
        Py_XDECREF(logits);
    }
    Py_XDECREF(source);
    return made_by;
}

/* What computed the loss, of those that are never negative; means and sums of it are looked through.  The
 * labels themselves are gone: backward has begun. */
void runs_watch_note_labels(runs_watch *self, PyObject *loss, PyObject *name)
{
    enum { DEEPEST = 4 };
    PyObject *grad_fn = self->state->torch.grad_fn;
    if (!is_due(self) || grad_fn == NULL || self->recorder->rec == NULL)
        return;
    PyObject *node = tensor_torch_get(grad_fn, loss); /* owned */
    PyErr_Clear();
    for (int depth = 0; node != NULL && depth < DEEPEST; depth++) {
        const char *type = Py_TYPE(node)->tp_name;
        int made_by = loss_of(node);
        int32_t known = 0;
        if (made_by != 0)
            record_number(self, own_site(self, &known, "tensortap/labels", name, true), made_by);
        bool is_transparent = begins(type, "Mean") || begins(type, "Sum") || begins(type, "Div");
        Py_XSETREF(node, made_by == 0 && is_transparent ? input_of(node) : NULL);
    }
    Py_XDECREF(node);
}
