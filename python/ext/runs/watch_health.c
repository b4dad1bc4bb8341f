/* watch_health.c -- what the rules of health need beyond statistics.
 *
 * How much a step changes each weight, which units get no gradient, what became of a gradient between backward and
 * the step, and in which mode a model was called.  watch_batch.c has what it was called with, watch_graph.c
 * what autograd's graph says.  Recorded under names that begin with tensortap/, seldom and
 * from a few elements, so that it costs next to nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

#include <math.h>
#include <string.h>

#include "tensortap_tools.h"

enum {
    AT_FIRST = 16, /* steps in which every update is measured; after that one in EVERY */
    EVERY = 8,
    SELDOM = 64, /* steps between two looks at what hardly ever changes */
    READS = 16,  /* of gradients, after which units without one are counted */
    FEWEST_UNITS = 8,
    WALKED = 1, /* the step in which the graph of each module is looked at, once: that takes a while */
};

int32_t runs_watch_own_site(runs_watch *self, int32_t *known, const char *kind, PyObject *name,
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

bool runs_watch_is_due(const runs_watch *self)
{
    int64_t step = self->recorder->step;
    return step < AT_FIRST || step % SELDOM == 0;
}

void runs_watch_record_number(runs_watch *self, int32_t site, double value)
{
    if (site >= 0 && self->recorder->rec != NULL)
        (void)runs_recorder_emit_number(self->recorder, site, self->recorder->step, value);
}

/* ---- parameters ------------------------------------------------------------ */

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
        !runs_watch_is_plain(t))
        return;
    take_sample(t, now);
    double ratio = parameter->sampled_step == step ? ratio_of(parameter->sample, now) : NAN;
    if (isfinite(ratio)) {
        int32_t site = runs_watch_own_site(self, &parameter->update_site, "tensortap/update",
                                           parameter->base.name, true);
        if (tt_dtype_size(t->dtype) == 2)
            record_changes(self, site, parameter->sample, now);
        else
            runs_watch_record_number(self, site, ratio);
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
        !runs_watch_is_plain(t))
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
    runs_watch_record_number(self,
                             runs_watch_own_site(self, &parameter->silent_site, "tensortap/silent",
                                                 parameter->base.name, true),
                             (double)silent / (double)units);
}

/* ---- gradients from backward to the step ------------------------------------- */

/* Where a tensor's memory is, and a few of its elements, evenly over it; NULL: they cannot be read here. */
static const void *take_few(const runs_watch *self, PyObject *tensor, float out[RUNS_WATCH_FEW])
{
    tensor_view view;
    if (self->state->is_device_forced || tensor_view_open(&self->state->torch, tensor, &view) != VIEW_OK)
        return NULL;
    const tt_tensor *t = &view.tensor;
    bool is_read = t->count > 0 && tt_dtype_kind(t->dtype) == TT_KIND_FLOAT && runs_watch_is_plain(t);
    const void *where = is_read ? t->data : NULL;
    size_t size = tt_dtype_size(t->dtype);
    for (int64_t i = 0; is_read && i < RUNS_WATCH_FEW; i++)
        out[i] = (float)tt_element_f64(t->dtype, (const char *)t->data +
                                                     (size_t)(i * t->count / RUNS_WATCH_FEW) * size);
    tensor_view_close(&view);
    return where;
}

static double product_of(const float a[RUNS_WATCH_FEW], const float b[RUNS_WATCH_FEW])
{
    double sum = 0;
    for (size_t i = 0; i < RUNS_WATCH_FEW; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Torch counts the changes of a tensor.  Accumulating is one; whoever sets a gradient to zero makes another, or
 * another tensor.  So a gradient that is still where that of the last step was, changed once for each time that
 * it arrived, has the old one in it. */
void runs_watch_note_arrival(runs_watch *self, runs_watch_parameter *parameter, PyObject *gradient,
                             int64_t version)
{
    parameter->has_few = false;
    if (!runs_watch_is_due(self))
        return;
    parameter->arrivals++;
    self->arrivals = parameter->arrivals; /* those without a hook get as many */
    const void *where = take_few(self, gradient, parameter->few);
    parameter->has_few = where != NULL;
    if (parameter->held != where || version != parameter->held_version + 1)
        parameter->held = NULL;
    parameter->held_version = version;
}

/* Nothing counts what is written through .data: is the gradient zero, although it is the old tensor? */
static void note_zeroed(runs_watch *self)
{
    float few[RUNS_WATCH_FEW];
    for (Py_ssize_t i = 0; i < self->parameters.count && runs_watch_is_due(self); i++) {
        runs_watch_parameter *parameter = runs_watch_parameter_at(self, i);
        if (parameter->held == NULL || parameter->arrivals > 0)
            continue;
        PyObject *tensor = calls_parameter_get(self->state, &parameter->base); /* owned */
        PyObject *now =
            tensor != NULL ? tensor_torch_grad(&self->state->torch, tensor) : NULL; /* owned */
        if (now == NULL || take_few(self, now, few) != parameter->held || product_of(few, few) == 0)
            parameter->held = NULL;
        PyErr_Clear();
        Py_XDECREF(now);
        Py_XDECREF(tensor);
    }
}

/* What the program multiplied a gradient by after backward: clipping does, and GradScaler. */
static void measure_clip(runs_watch *self, runs_watch_parameter *parameter,
                         const float now[RUNS_WATCH_FEW])
{
    double before = product_of(parameter->few, parameter->few);
    if (!(before > 0))
        return;
    double factor = product_of(now, parameter->few) / before, rest = 0;
    for (size_t i = 0; i < RUNS_WATCH_FEW; i++) {
        double by = (double)now[i] - factor * (double)parameter->few[i];
        rest += by * by;
    }
    if (!(rest <= 1e-6 * product_of(now, now)) || !(factor > 0)) /* each element by another factor */
        return;
    runs_watch_record_number(
        self, runs_watch_own_site(self, &self->clip_site, "tensortap/clip", parameter->base.name, true),
        factor * (self->is_scaled && self->scale > 0 ? self->scale : 1));
}

void runs_watch_note_gradient(runs_watch *self, runs_watch_parameter *parameter, PyObject *gradient,
                              int64_t version)
{
    float now[RUNS_WATCH_FEW];
    if (self->recorder->rec == NULL || self->is_reduced || self->is_pipelined ||
        !runs_watch_is_due(self)) {
        parameter->held = NULL;
        return;
    }
    const void *where = gradient != NULL ? take_few(self, gradient, now) : NULL;
    bool is_hooked = parameter->arrivals > 0; /* most parameters are not, after a few steps */
    if (where != NULL && parameter->held == where && self->arrivals > 0 &&
        (is_hooked || version == parameter->held_version + self->arrivals))
        runs_watch_record_number(self,
                                 runs_watch_own_site(self, &parameter->added_site, "tensortap/added",
                                                     parameter->base.name, true),
                                 1);
    if (self->clip_of == NULL && where != NULL)
        self->clip_of = parameter;
    if (self->clip_of == parameter && where != NULL && parameter->has_few)
        measure_clip(self, parameter, now);
    parameter->held = version >= 0 ? where : NULL;
    parameter->held_version = version;
    parameter->arrivals = 0;
    parameter->has_few = false;
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

/* A graph of an evaluation that the next evaluation finds unused costs memory and time for nothing. */
static void note_graph(runs_watch *self, runs_watch_root *root, PyObject *name, bool has_graph)
{
    if (has_graph && self->has_unused_graph)
        runs_watch_record_number(
            self, runs_watch_own_site(self, &root->graph, "tensortap/graph", name, true), 1);
    self->has_unused_graph = has_graph;
}

void runs_watch_note_call(runs_watch *self, runs_watch_root *root, PyObject *name,
                          const calls_event *event)
{
    if (self->recorder->rec == NULL || self->parameters.count == 0)
        return;
    int64_t start = runs_recorder_begin(self->recorder);
    int requires = requires_grad(self, event->output);
    if (event->is_training && requires == 0)
        runs_watch_record_number(
            self, runs_watch_own_site(self, &root->no_grad, "tensortap/no_grad", name, true), 1);
    if (requires == 1) /* the optimizer's step will tell if it was for a training */
        self->eval_root = event->is_training ? NULL : root;
    if (event->is_training && requires != 0 && event->call == 0)
        runs_watch_note_batch(self, root, name, event);
    note_graph(self, root, name, !event->is_training && requires == 1);
    if (event->is_training)
        note_zeroed(self);
    if (!event->is_training && requires == 1 && root->with_grad == 0)
        (void)runs_watch_own_site(self, &root->with_grad, "tensortap/with_grad", name, true);
    runs_recorder_end(self->recorder, -1, start);
}

void runs_watch_note_step(runs_watch *self)
{
    if (self->eval_root != NULL && self->eval_root->with_grad > 0)
        runs_watch_record_number(self, self->eval_root->with_grad - 1, 1);
    self->eval_root = NULL;
}

/* ---- modules inside ----------------------------------------------------------- */

void runs_watch_note_mode(runs_watch *self, runs_watch_part *part, PyObject *name,
                          const calls_event *event)
{
    int64_t now = self->recorder->step + 1;
    if (event->is_training && self->recorder->step == WALKED && self->recorder->rec != NULL)
        runs_watch_note_graph(self, name, event, requires_grad(self, event->output));
    if ((event->is_training && !runs_watch_is_due(self)) || part->mode < 0 || part->mode_step == now ||
        self->recorder->rec == NULL || self->parameters.count == 0)
        return;
    bool is_training = calls_is_training(self->state, event->module);
    if (is_training == event->is_training)
        return;
    part->mode_step = now;
    runs_watch_record_number(self, runs_watch_own_site(self, &part->mode, "tensortap/mode", name, true),
                             is_training ? 1 : 0);
}
