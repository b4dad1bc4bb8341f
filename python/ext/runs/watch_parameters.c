/* watch_parameters.c -- parameters and gradients.
 *
 * One call reads them all when the optimizer is about to step.  A parameter is looked up in its module
 * each time, because programs replace them.
 *
 * Gradients are also seen while they are computed, by a C hook on each parameter, called
 * when its gradient has been accumulated: it notes those that are not finite, because GradScaler may
 * skip the step, and then nobody else will ever see them.  It changes nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/hash.h"
#include "runs/watch.h"
#include "tensortap_tools.h"

#include <math.h>
#include <string.h>

/* An object, because a bare C function could not be collected: a hook owns its watch, and may so be
 * part of a cycle. */
typedef struct gradient_hook {
    PyObject_HEAD vectorcallfunc call;
    runs_watch *watch; /* owned; NULL once collected */
    Py_ssize_t index;  /* of the parameter; of backward_ended: -1 until it was called once */
} gradient_hook;

/* The gradient of a parameter, as far as this rank has it. */
typedef struct held_gradient {
    PyObject *tensor; /* owned; NULL: there is none */
    bool is_local;    /* it is the local part of a DTensor */
} held_gradient;

static held_gradient gradient_of(const runs_watch *self, PyObject *parameter)
{
    PyObject *whole = tensor_torch_grad(&self->state->torch, parameter); /* owned */
    held_gradient found = { 0 };
    if (whole != NULL)
        found.tensor = tensor_torch_local(&self->state->torch, whole);
    found.is_local = found.tensor != whole;
    Py_XDECREF(whole);
    return found;
}

int64_t runs_watch_mark(const runs_watch *self, PyObject *tensor)
{
    enum { ELEMENTS = 64 };
    tensor_view view;
    if (self->state->is_device_forced || tensor_view_open(&self->state->torch, tensor, &view) != VIEW_OK)
        return -1;
    const tt_tensor *t = &view.tensor;
    size_t size = tt_dtype_size(t->dtype);
    int64_t apart = t->count > ELEMENTS ? t->count / ELEMENTS : 1;
    uint64_t hash = 0;
    for (int64_t i = 0; i < t->count && tt_tensor_is_contiguous(t); i += apart) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)t->data + (size_t)i * size, size < sizeof bits ? size : sizeof bits);
        hash = base_hash_mix(hash, bits);
    }
    tensor_view_close(&view);
    return (int64_t)(hash >> 1);
}

/* A number that changes when the gradient does; -1: nobody counts.  Operators on DTensors change the
 * local part without counting it as a new version. */
static int64_t version_of(const runs_watch *self, const held_gradient *gradient)
{
    uint32_t version;
    if (gradient->is_local)
        return runs_watch_mark(self, gradient->tensor);
    return tensor_version_read(&self->state->torch, gradient->tensor, VERSION_GUARDED, &version)
               ? (int64_t)version
               : -1;
}

/* Statistics without recording; false: they cannot be had here. */
static bool peek(runs_watch *self, PyObject *tensor, tt_stats *out)
{
    tensor_view view;
    if (self->state->is_device_forced || tensor_view_open(&self->state->torch, tensor, &view) != VIEW_OK)
        return false;
    tt_stats_compute(&view.tensor, out);
    tensor_view_close(&view);
    return true;
}

static int32_t gradient_site(runs_watch *self, runs_watch_parameter *parameter)
{
    if (parameter->gradient_site < 0)
        parameter->gradient_site = runs_watch_site(self, "gradient", parameter->base.name);
    return parameter->gradient_site;
}

/* Enters a state; counts the bad ones. */
static void set_gradient(runs_watch *self, runs_watch_parameter *parameter, runs_gradient_state state)
{
    self->bad_count += (state == RUNS_GRADIENT_BAD) - (parameter->gradient == RUNS_GRADIENT_BAD);
    parameter->gradient = state;
}

/* Records where a gradient belongs; what is recorded of it is the local part, which does not know. */
static void place_gradient(runs_watch *self, PyObject *parameter, const held_gradient *gradient,
                           int32_t site)
{
    if (!gradient->is_local || !runs_recorder_has_placer(self->recorder) ||
        runs_watch_products(self, site) == 0)
        return;
    PyObject *whole = tensor_torch_grad(&self->state->torch, parameter); /* owned */
    if (whole != NULL)
        runs_watch_find_place(self, NULL, whole, site);
    Py_XDECREF(whole);
}

/* Is it an addend that is kept as a whole?  Its sum over ranks is made when the run is read, and is that of its
 * elements: statistics of addends say nothing about it.  Such gradients (of norms and biases under sequence
 * parallelism) are short; longer ones are not kept. */
static bool is_kept_addend(runs_watch *self, const held_gradient *gradient, int32_t site)
{
    enum { MOST_ELEMENTS = 1 << 16 };
    const runs_recorder_site *row =
        gradient->is_local && runs_watch_products(self, site) & TT_PRODUCT_STATS
            ? runs_recorder_site_at(self->recorder, site)
            : NULL;
    tensor_view view;
    if (row == NULL || !row->is_addend || self->state->is_device_forced ||
        tensor_view_open(&self->state->torch, gradient->tensor, &view) != VIEW_OK)
        return false;
    bool is_kept = view.tensor.count <= MOST_ELEMENTS && tt_tensor_is_contiguous(&view.tensor);
    tensor_view_close(&view);
    return is_kept;
}

/* Keeps the elements of an addend as it arrived: clipping may change them before the step. */
static void keep_addend(runs_watch *self, runs_watch_parameter *parameter, const held_gradient *gradient)
{
    tensor_view view;
    parameter->has_addend = false;
    if (!is_kept_addend(self, gradient, parameter->gradient_site) ||
        tensor_view_open(&self->state->torch, gradient->tensor, &view) != VIEW_OK)
        return;
    size_t bytes = (size_t)view.tensor.count * tt_dtype_size(view.tensor.dtype);
    bool has_room = bytes <= parameter->addend_cap;
    if (!has_room && base_array_grow(&self->addends, &self->addends_cap, self->addends_len + bytes, 1)) {
        parameter->addend_at = self->addends_len;
        parameter->addend_cap = bytes;
        self->addends_len += bytes;
        has_room = true;
    }
    if (has_room && bytes > 0)
        memcpy(self->addends + parameter->addend_at, view.tensor.data, bytes);
    parameter->has_addend = has_room;
    tensor_view_close(&view);
}

static void note_gradient(runs_watch *self, runs_watch_parameter *parameter, PyObject *tensor)
{
    held_gradient gradient = gradient_of(self, tensor); /* owned */
    if (gradient.tensor == NULL)
        return;
    if (parameter->gradient < RUNS_GRADIENT_ARRIVED)
        parameter->gradient = RUNS_GRADIENT_ARRIVED;
    parameter->version = version_of(self, &gradient);
    runs_watch_note_arrival(self, parameter, gradient.tensor,
                            gradient.is_local ? -1 : parameter->version);
    if (self->recorder->rec == NULL) { /* asked last: torch lets other threads run meanwhile */
        Py_DECREF(gradient.tensor);
        return;
    }
    if (self->norm_site < 0)
        (void)tt_recorder_site(self->recorder->rec, "gradient_norm", &self->norm_site, NULL);
    bool is_recorded = runs_watch_products(self, gradient_site(self, parameter)) != 0;
    if (is_recorded && self->notes) {
        place_gradient(self, tensor, &gradient, parameter->gradient_site);
        keep_addend(self, parameter, &gradient);
    }
    bool is_wanted = is_recorded || runs_watch_products(self, self->norm_site) != 0;
    parameter->has_stats = is_wanted && self->notes && peek(self, gradient.tensor, &parameter->noted);
    if (is_recorded && (!self->notes || parameter->has_stats)) {
        bool is_bad = self->notes && !runs_watch_is_finite(&parameter->noted);
        set_gradient(self, parameter, is_bad ? RUNS_GRADIENT_BAD : RUNS_GRADIENT_FRESH);
        self->has_fresh = true;
        self->is_checked = false;
    }
    Py_DECREF(gradient.tensor);
}

static bool is_as_left(runs_watch *self, runs_watch_parameter *parameter)
{
    PyObject *tensor = calls_parameter_get(self->state, &parameter->base); /* owned */
    held_gradient gradient = { 0 };                                        /* owned */
    if (tensor != NULL)
        gradient = gradient_of(self, tensor);
    tt_stats stats;
    bool is_same = gradient.tensor != NULL && version_of(self, &gradient) == parameter->version;
    if (is_same && self->bad_count > 0)
        is_same =
            peek(self, gradient.tensor, &stats) && memcmp(&stats, &parameter->noted, sizeof stats) == 0;
    Py_XDECREF(gradient.tensor);
    Py_XDECREF(tensor);
    return is_same;
}

/* Gradients of a step that is still to come lie there as they were left.  After
 * GradScaler has refused the step they are gone, or set to zero, or unscaled
 * (which does not show in their version). */
bool runs_watch_was_skipped(runs_watch *self)
{
    if (self->is_checked || !self->has_fresh)
        return false;
    for (Py_ssize_t i = 0; i < self->parameters.count; i++)
        if (runs_watch_parameter_at(self, i)->gradient >= RUNS_GRADIENT_FRESH &&
            !is_as_left(self, runs_watch_parameter_at(self, i)))
            return true;
    self->is_checked = true;
    return false;
}

void runs_watch_write_noted(runs_watch *self, bool is_skipped)
{
    for (Py_ssize_t i = 0; i < self->parameters.count && self->has_fresh; i++) {
        runs_watch_parameter *parameter = runs_watch_parameter_at(self, i);
        bool is_bad = parameter->gradient == RUNS_GRADIENT_BAD;
        if (parameter->gradient >= RUNS_GRADIENT_FRESH)
            set_gradient(self, parameter, RUNS_GRADIENT_ARRIVED);
        if (!is_bad)
            continue;
        runs_watch_tag tag = { .site = parameter->gradient_site,
                               .phase = TT_PHASE_TRAIN,
                               .is_skipped = is_skipped };
        runs_watch_record_stats(self, &parameter->noted, NULL, NULL, 0, &tag, -1, 0);
    }
    self->has_fresh = false;
}

/* The caller ends the step by hand: what no optimizer took was skipped, unless all have stepped. */
PyObject *runs_watch_end_step(PyObject *self, PyObject *Py_UNUSED(none))
{
    if (calls_traced_drain(((runs_watch *)self)->state, true) < 0 ||
        runs_watch_look_at_awaited((runs_watch *)self, NULL) < 0)
        return NULL;
    runs_watch_write_noted((runs_watch *)self, ((runs_watch *)self)->recorder->step_state != STEP_OVER);
    Py_RETURN_NONE;
}

/* ---- the hooks ----------------------------------------------------------- */

static gradient_hook *hook_make(runs_watch *watch, vectorcallfunc call);

/* Has torch call it when the backward that is going on has ended. */
static void queue(runs_watch *self, PyObject *callback)
{
    PyObject *function =
        binding_import("torch.autograd", "Variable._execution_engine.queue_callback");  /* owned */
    PyObject *done = function != NULL ? PyObject_CallOneArg(function, callback) : NULL; /* owned */
    calls_consumer_take_error(&self->consumer);
    Py_XDECREF(done);
    Py_XDECREF(function);
}

static int note_awaited(void *context, void *at, Py_ssize_t Py_UNUSED(index), PyObject *tensor)
{
    runs_watch_parameter *parameter = at;
    if (parameter->is_awaited && tensor != NULL)
        note_gradient(context, parameter, tensor);
    parameter->is_awaited = false;
    return 0;
}

/* callback(), when backward has ended; the second time so have all other callbacks, and
 * gradients are what all ranks have. */
static PyObject *backward_ended(PyObject *self, PyObject *const *Py_UNUSED(args),
                                size_t Py_UNUSED(nargsf), PyObject *Py_UNUSED(kwnames))
{
    gradient_hook *hook = (gradient_hook *)self;
    runs_watch *watch = hook->watch;
    if (watch == NULL || watch->consumer.is_off)
        Py_RETURN_NONE;
    if (hook->index < 0) {
        hook->index = 0;
        queue(watch, self);
        Py_RETURN_NONE;
    }
    (void)calls_parameters_each(watch->state, &watch->parameters, NULL, watch->parameters.count,
                                note_awaited, watch);
    Py_RETURN_NONE;
}

/* Notes the gradient when backward has ended, with all that were accumulated in it. */
static void note_later(runs_watch *self, runs_watch_parameter *parameter)
{
    parameter->is_awaited = true;
    (void)gradient_site(self,
                        parameter); /* numbers of sites are in the order in which backward made them */
    if (self->callback != NULL && Py_REFCNT(self->callback) > 1)
        return; /* torch has it; one that failed has dropped it */
    Py_XSETREF(self->callback, (PyObject *)hook_make(self, backward_ended));
    if (self->callback != NULL)
        queue(self, self->callback);
    calls_consumer_take_error(&self->consumer);
}

/* hook(parameter), after its gradient was accumulated */
static PyObject *parameter_called(PyObject *self, PyObject *const *args, size_t nargsf,
                                  PyObject *Py_UNUSED(kwnames))
{
    const gradient_hook *hook = (gradient_hook *)self;
    runs_watch *watch = hook->watch;
    if (PyVectorcall_NARGS(nargsf) != 1 || watch == NULL || hook->index >= watch->parameters.count ||
        watch->consumer.is_off)
        Py_RETURN_NONE;
    runs_watch_parameter *parameter = runs_watch_parameter_at(watch, hook->index);
    runs_recorder_span span = runs_recorder_begin_around(watch->recorder);
    if (watch->has_gradients && watch->is_reduced)
        note_later(watch, parameter);
    else if (watch->has_gradients)
        note_gradient(watch, parameter, args[0]);
    int result = runs_watch_note_loss(watch);
    if (result == 0)
        result = runs_watch_look_at_awaited(watch, NULL);
    runs_recorder_end_around(watch->recorder, span);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

static gradient_hook *hook_make(runs_watch *watch, vectorcallfunc call)
{
    PyTypeObject *type = watch->state->runs_gradient_hook_type;
    gradient_hook *hook = (gradient_hook *)type->tp_alloc(type, 0);
    if (hook == NULL)
        return NULL;
    hook->call = call;
    hook->watch = (runs_watch *)Py_NewRef((PyObject *)watch);
    hook->index = -1;
    return hook;
}

PyObject *runs_watch_parameter_hook(PyObject *self, PyObject *index)
{
    Py_ssize_t at = PyLong_AsSsize_t(index);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    gradient_hook *hook = hook_make((runs_watch *)self, parameter_called);
    if (hook != NULL)
        hook->index = at;
    return (PyObject *)hook;
}

BINDING_OWNS(hook, gradient_hook, watch, watch)

static PyMemberDef hook_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(gradient_hook, call), READONLY, NULL },
    { 0 },
};

BINDING_CLASS(runs_gradient_hook, "tensortap._core.GradientHook", gradient_hook,
              BINDING_GC | BINDING_NO_NEW | Py_TPFLAGS_HAVE_VECTORCALL,
              { Py_tp_doc, "Looks at a gradient, as a hook of torch." },
              { Py_tp_call, PyVectorcall_Call }, { Py_tp_dealloc, binding_dealloc },
              BINDING_GC_SLOTS(hook), { Py_tp_members, hook_members });

/* ---- all of them, when the optimizer is about to step ----------------------- */

/* (name, module, key) */
static int read_parameter(void *Py_UNUSED(context), void *parameter, PyObject *item)
{
    runs_watch_parameter *at = parameter;
    PyObject *name, *module, *key; /* borrowed */
    if (!PyArg_ParseTuple(item, "UOU", &name, &module, &key))
        return -1;
    at->site = at->gradient_site = -1;
    at->base.name = Py_NewRef(name);
    at->base.key = Py_NewRef(key);
    at->base.module = PyWeakref_NewRef(module, NULL);
    return at->base.module != NULL ? 0 : -1;
}

PyObject *runs_watch_set_parameters(PyObject *self, PyObject *list)
{
    ((runs_watch *)self)->addends_len = 0;
    ((runs_watch *)self)->clip_of = NULL;
    int result = calls_parameters_set(&((runs_watch *)self)->parameters, list,
                                      sizeof(runs_watch_parameter), read_parameter, NULL);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

static int add_id(void *context, void *Py_UNUSED(parameter), Py_ssize_t Py_UNUSED(index),
                  PyObject *tensor)
{
    PyObject **ids = context;
    binding_list_add(ids, PyLong_FromVoidPtr(tensor));
    return *ids != NULL ? 0 : -1;
}

/* id() of each parameter as it is now; 0: gone */
PyObject *runs_watch_parameter_ids(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_watch *watch = (runs_watch *)self;
    PyObject *ids = PyList_New(0); /* owned */
    (void)calls_parameters_each(watch->state, &watch->parameters, NULL, watch->parameters.count, add_id,
                                &ids);
    return ids;
}

/* What is known of the gradients' norm. */
typedef struct norm {
    runs_watch *watch;
    double sumsq;
    int64_t nan, infinite;
    bool has_any, is_wanted;
} norm;

static void norm_add(norm *total, const tt_stats *stats)
{
    total->has_any = true;
    total->sumsq += stats->sumsq;
    total->nan += stats->nan;
    total->infinite += stats->posinf + stats->neginf;
}

/* Records an addend as it arrived.  like: as it is now. */
static void record_addend(runs_watch *self, const runs_watch_parameter *parameter, const tt_tensor *like,
                          const runs_watch_tag *tag)
{
    runs_recorder *recorder = self->recorder;
    tt_tensor then = *like;
    size_t bytes = (size_t)like->count * tt_dtype_size(like->dtype);
    runs_recorder_make_room(recorder, bytes);
    if (recorder->rec == NULL) /* other threads ran */
        return;
    then.data = self->addends + parameter->addend_at;
    tt_event event = { .step = recorder->step,
                       .time = runs_recorder_time(recorder, 0),
                       .site = tag->site,
                       .phase = tag->phase,
                       .stats = &parameter->noted,
                       .tensor = &then,
                       .has_value = parameter->has_addend && bytes <= parameter->addend_cap };
    (void)runs_recorder_emit(recorder, &event); /* counts what it drops */
}

/* Records a gradient as backward left it: it was changed since.  1: done; 0: it is not known; -1: with
 * the exception of on_nonfinite. */
static int record_arrived(runs_watch *self, runs_watch_parameter *parameter, tensor_looks *looks,
                          PyObject *gradient, const runs_watch_tag *tag)
{
    runs_recorder *recorder = self->recorder;
    if (!parameter->has_stats || self->is_scaled || self->is_divided || recorder->rec == NULL)
        return 0;
    uint32_t products = runs_watch_products(self, tag->site);
    tensor_look *look =
        (products & (uint32_t)~TT_PRODUCT_STATS) == 0 ? tensor_look_at(looks, gradient) : NULL;
    if (look == NULL || look->why != VIEW_OK)
        return 0;
    if (runs_watch_is_finite(&parameter->noted) && !runs_watch_is_finite(tensor_look_stats(look)))
        return 0; /* the change made it so: that is the news */
    if (products != 0 && tag->more == 0)
        runs_watch_record_stats(self, &parameter->noted, NULL, look->view.tensor.shape,
                                look->view.tensor.ndim, tag, -1, runs_recorder_time(recorder, 0));
    else if (products != 0)
        record_addend(self, parameter, &look->view.tensor, tag);
    tensor_looks_clear(looks); /* that may have waited, and the next may run Python code */
    return runs_watch_tell_nonfinite(self, &parameter->noted, tag, recorder->step) < 0 ? -1 : 1;
}

void runs_watch_note_first(runs_watch *self, const tt_stats *stats, int32_t site)
{
    runs_watch_first *first = self->first;
    int32_t parameter = site != first->reads ? first->reads : -1;
    if (first->has_any && !tt_gradient_is_before(site, parameter, first->site, first->parameter))
        return;
    first->has_any = true;
    first->stats = *stats;
    first->site = site;
    first->parameter = parameter;
}

/* Was it changed since it was accumulated? */
static bool was_changed(const runs_watch *self, const runs_watch_parameter *parameter,
                        tensor_looks *looks, const held_gradient *gradient)
{
    if (gradient->tensor == NULL || parameter->gradient == RUNS_GRADIENT_READ ||
        (self->is_divided && gradient->is_local))
        return false; /* ... or what the schedule did cannot be told from what the program did */
    if (version_of(self, gradient) != parameter->version + (self->is_divided ? 1 : 0))
        return true;
    if (!gradient->is_local || !parameter->has_stats)
        return false;
    tensor_look *look = tensor_look_at(looks, gradient->tensor); /* the sample may have missed it */
    bool is_other = look != NULL && look->why == VIEW_OK &&
                    memcmp(tensor_look_stats(look), &parameter->noted, sizeof parameter->noted) != 0;
    tensor_looks_clear(looks); /* recording the parameter may wait: then the view must be closed */
    return is_other;
}

static int read_one(void *context, void *at, Py_ssize_t Py_UNUSED(index), PyObject *tensor)
{
    norm *total = context;
    runs_watch *self = total->watch;
    runs_watch_parameter *parameter = at;
    tensor_looks looks = { .torch = &self->state->torch };
    calls_observation seen = { .state = self->state, .looks = &looks };
    held_gradient gradient = { 0 }; /* owned */
    runs_watch_tag tag = { .phase = TT_PHASE_TRAIN };
    tt_stats stats;
    int result = 0;
    if (tensor == NULL)
        goto out;
    if (self->has_gradients)
        gradient = gradient_of(self, tensor);
    bool is_changed = was_changed(self, parameter, &looks, &gradient);
    if (parameter->site < 0)
        parameter->site = runs_watch_site(self, "parameter", parameter->base.name);
    tag.site = parameter->site;
    if (self->first != NULL)
        self->first->reads = parameter->site;
    seen.tensor = tensor;
    result = runs_watch_record(self, &seen, &tag, NULL);
    if (result >= 0 && gradient.tensor != NULL) {
        tag.site = gradient_site(self, parameter);
        tag.is_for_norm = total->is_wanted;
        place_gradient(self, tensor, &gradient, tag.site);
        tag.is_placed = gradient.is_local;
        tag.more = is_kept_addend(self, &gradient, tag.site) ? TT_PRODUCT_VALUE : 0;
        if (is_changed &&
            (result = record_arrived(self, parameter, &looks, gradient.tensor, &tag)) != 0) {
            stats = parameter->noted;
        } else {
            seen.tensor = gradient.tensor;
            result = runs_watch_record(self, &seen, &tag, &stats);
            self->is_clipped |=
                is_changed && (tag.is_for_norm || runs_watch_products(self, tag.site) != 0);
        }
        self->is_changed |= is_changed;
        if (result > 0)
            norm_add(total, &stats);
    }
    if (result >= 0)
        runs_watch_note_parameter(self, parameter, &looks, tensor, gradient.tensor);
    tensor_looks_clear(&looks);
    if (result >= 0)
        runs_watch_note_gradient(
            self, parameter, gradient.tensor,
            gradient.tensor != NULL && !gradient.is_local ? version_of(self, &gradient) : -1);
out:
    tensor_looks_clear(&looks);
    set_gradient(self, parameter, RUNS_GRADIENT_READ); /* the step does happen */
    parameter->has_stats = false;
    Py_XDECREF(gradient.tensor);
    return result < 0 ? -1 : 0;
}

/* read_parameters(which, wants_norm): which is None for all, or bytes of int32
 * indices.  Returns the norm of the gradients that were read here, or None. */
PyObject *runs_watch_read_parameters(PyObject *self, PyObject *arguments)
{
    runs_watch *watch = (runs_watch *)self;
    const char *indices; /* borrowed */
    Py_ssize_t bytes;
    int wants_norm;
    if (!PyArg_ParseTuple(arguments, "z#p:read_parameters", &indices, &bytes, &wants_norm) ||
        calls_traced_drain(watch->state, true) < 0 || runs_watch_look_at_awaited(watch, NULL) < 0)
        return NULL;
    runs_watch_note_step(watch);
    norm total = { .watch = watch, .is_wanted = wants_norm != 0 };
    Py_ssize_t count = indices != NULL ? bytes / (Py_ssize_t)sizeof(int32_t) : watch->parameters.count;
    runs_watch_first first = { 0 };
    watch->first = &first; /* registration says nothing about what was first: read all of them */
    int result = calls_parameters_each(watch->state, &watch->parameters,
                                       (const int32_t *)(const void *)indices, count, read_one, &total);
    watch->first = NULL;
    const runs_watch_tag tag = { .site = first.site, .phase = TT_PHASE_TRAIN };
    if (result < 0 || (first.has_any &&
                       runs_watch_tell_nonfinite(watch, &first.stats, &tag, watch->recorder->step) < 0))
        return NULL;
    if (indices == NULL)
        watch->has_fresh = false;
    watch->is_ahead = true; /* compiled code may run next with nothing eager around it */
    if (watch->state->calls->has_slots)
        calls_traced_set_products(watch->state, &watch->consumer);
    watch->is_ahead = false;
    if (!total.has_any || !total.is_wanted)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(total.nan > 0 ? NAN : total.infinite > 0 ? INFINITY : sqrt(total.sumsq));
}
