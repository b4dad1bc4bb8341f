/* watch_gradient.c -- gradients that are seen while they are computed.
 *
 * Two kinds of C hooks.  One on each parameter, called when its gradient has
 * been accumulated: it notes those that are not finite, because GradScaler may
 * skip the step, and then nobody else will ever see them.  One on a module's
 * output, called with the gradient of that output.  Neither changes anything.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

#include <string.h>

/* An object, because a bare C function could not be collected: a hook owns its watch, and may so be
 * part of a cycle. */
typedef struct gradient_hook {
    PyObject_HEAD vectorcallfunc call;
    runs_watch *watch; /* owned; NULL once collected */
    Py_ssize_t index;  /* of the parameter; -1: a module's output */
    runs_watch_tag tag;
} gradient_hook;

int64_t runs_watch_version(const runs_watch *self, PyObject *tensor)
{
    uint32_t version;
    return tensor_version_read(&self->state->torch, tensor, VERSION_GUARDED, &version) ? (int64_t)version
                                                                                       : -1;
}

/* Statistics without recording; false: they cannot be had here. */
static bool peek(runs_watch *self, PyObject *tensor, tensor_trust *trust, tt_stats *out)
{
    tensor_view view;
    if (self->state->is_device_forced ||
        tensor_quick_open(&self->state->torch, tensor, trust, &view) != VIEW_OK)
        return false;
    tt_stats_compute(&view.tensor, out);
    tensor_view_close(&view);
    return true;
}

/* Will somebody want the statistics of this gradient? */
static bool is_wanted(runs_watch *self, runs_watch_parameter *parameter, bool *is_recorded)
{
    tt_recorder *rec = self->recorder->rec;
    if (parameter->gradient_site < 0)
        parameter->gradient_site = runs_watch_site(self, "gradient", parameter->name);
    if (self->norm_site < 0)
        (void)tt_recorder_site(rec, "gradient_norm", &self->norm_site, NULL);
    *is_recorded = parameter->gradient_site >= 0 &&
                   tt_recorder_wants(rec, parameter->gradient_site, self->recorder->step) != 0;
    return *is_recorded || tt_recorder_wants(rec, self->norm_site, self->recorder->step) != 0;
}

void runs_watch_note_gradient(runs_watch *self, runs_watch_parameter *parameter, PyObject *tensor)
{
    bool is_recorded;
    if (self->recorder->rec == NULL)
        return;
    PyObject *gradient = tensor_torch_grad(&self->state->torch, tensor); /* owned */
    if (gradient == NULL)
        return;
    parameter->is_arrived = true;
    parameter->version = runs_watch_version(self, gradient);
    parameter->has_stats = is_wanted(self, parameter, &is_recorded) && self->notes &&
                           peek(self, gradient, &parameter->gradient_trust, &parameter->noted);
    if (is_recorded && (!self->notes || parameter->has_stats)) {
        bool is_noted = self->notes && !runs_watch_is_finite(&parameter->noted);
        self->noted_count += is_noted - parameter->is_noted;
        self->has_fresh = true;
        self->is_checked = false;
        parameter->is_noted = is_noted;
        parameter->is_fresh = true;
    }
    Py_DECREF(gradient);
}

static bool is_as_left(runs_watch *self, runs_watch_parameter *parameter)
{
    PyObject *tensor = runs_watch_parameter_get(self, parameter); /* owned */
    PyObject *gradient =
        tensor != NULL ? tensor_torch_grad(&self->state->torch, tensor) : NULL; /* owned */
    tt_stats stats;
    bool is_same = gradient != NULL && runs_watch_version(self, gradient) == parameter->version;
    if (is_same && self->noted_count > 0)
        is_same =
            peek(self, gradient, NULL, &stats) && memcmp(&stats, &parameter->noted, sizeof stats) == 0;
    Py_XDECREF(gradient);
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
    for (Py_ssize_t i = 0; i < self->parameter_count; i++)
        if (self->parameters[i].is_fresh && !is_as_left(self, &self->parameters[i]))
            return true;
    self->is_checked = true;
    return false;
}

void runs_watch_write_noted(runs_watch *self)
{
    for (Py_ssize_t i = 0; i < self->parameter_count && self->has_fresh; i++) {
        runs_watch_parameter *parameter = &self->parameters[i];
        parameter->is_fresh = false;
        if (!parameter->is_noted)
            continue;
        parameter->is_noted = false;
        self->noted_count--;
        runs_watch_tag tag = { .site = parameter->gradient_site,
                               .phase = TT_PHASE_TRAIN,
                               .is_skipped = true };
        runs_watch_record_stats(self, &parameter->noted, NULL, 0, &tag, -1, 0);
    }
    self->noted_count = 0;
    self->has_fresh = false;
}

/* The caller ends the step by hand: what no optimizer took was skipped. */
PyObject *runs_watch_end_step(PyObject *self, PyObject *Py_UNUSED(none))
{
    if (calls_traced_drain(((runs_watch *)self)->state, true) < 0)
        return NULL;
    runs_watch_write_noted((runs_watch *)self);
    Py_RETURN_NONE;
}

/* ---- the hooks ----------------------------------------------------------- */

static gradient_hook *hook_make(runs_watch *watch, vectorcallfunc call);

/* Has torch call it when the backward that is going on has ended. */
static void queue(runs_watch *self, PyObject *callback)
{
    PyObject *variable = NULL, *engine = NULL, *done = NULL;    /* owned */
    PyObject *module = PyImport_ImportModule("torch.autograd"); /* owned */
    if (module != NULL && (variable = PyObject_GetAttrString(module, "Variable")) != NULL &&
        (engine = PyObject_GetAttrString(variable, "_execution_engine")) != NULL)
        done = PyObject_CallMethod(engine, "queue_callback", "O", callback);
    runs_watch_take_error(self);
    Py_XDECREF(done);
    Py_XDECREF(engine);
    Py_XDECREF(variable);
    Py_XDECREF(module);
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
    for (Py_ssize_t i = 0; i < watch->parameter_count; i++) {
        runs_watch_parameter *parameter = &watch->parameters[i];
        PyObject *tensor =
            parameter->is_waiting ? runs_watch_parameter_get(watch, parameter) : NULL; /* owned */
        parameter->is_waiting = false;
        if (tensor != NULL)
            runs_watch_note_gradient(watch, parameter, tensor);
        Py_XDECREF(tensor);
    }
    Py_RETURN_NONE;
}

/* Notes the gradient when backward has ended, with all that were accumulated in it. */
static void note_later(runs_watch *self, runs_watch_parameter *parameter)
{
    parameter->is_waiting = true;
    if (self->callback != NULL && Py_REFCNT(self->callback) > 1)
        return; /* torch has it; one that failed has dropped it */
    Py_XSETREF(self->callback, (PyObject *)hook_make(self, backward_ended));
    if (self->callback != NULL)
        queue(self, self->callback);
    runs_watch_take_error(self);
}

/* hook(parameter), after its gradient was accumulated */
static PyObject *parameter_called(PyObject *self, PyObject *const *args, size_t nargsf,
                                  PyObject *Py_UNUSED(kwnames))
{
    const gradient_hook *hook = (gradient_hook *)self;
    runs_watch *watch = hook->watch;
    if (PyVectorcall_NARGS(nargsf) != 1 || watch == NULL || hook->index >= watch->parameter_count ||
        watch->consumer.is_off)
        Py_RETURN_NONE;
    if (watch->has_gradients && watch->is_reduced)
        note_later(watch, &watch->parameters[hook->index]);
    else if (watch->has_gradients)
        runs_watch_note_gradient(watch, &watch->parameters[hook->index], args[0]);
    return runs_watch_note_loss(watch) < 0 ? NULL : Py_NewRef(Py_None);
}

/* hook(gradient), of a module's output */
static PyObject *output_called(PyObject *self, PyObject *const *args, size_t nargsf,
                               PyObject *Py_UNUSED(kwnames))
{
    const gradient_hook *hook = (gradient_hook *)self;
    runs_watch *watch = hook->watch;
    if (PyVectorcall_NARGS(nargsf) == 1 && watch != NULL && !watch->consumer.is_off &&
        runs_watch_record_alone(watch, args[0], &hook->tag, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
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

void runs_watch_hook_output(runs_watch *self, PyObject *tensor, const runs_watch_tag *tag)
{
    PyObject *needs = NULL, *handle = NULL; /* owned */
    gradient_hook *hook = NULL;             /* owned */
    if (tag->site < 0 || self->recorder->rec == NULL ||
        (tt_recorder_wants(self->recorder->rec, tag->site, self->recorder->step) == 0 &&
         self->on_nonfinite == NULL))
        return;
    needs = PyObject_GetAttrString(tensor, "requires_grad");
    if (needs == Py_True && (hook = hook_make(self, output_called)) != NULL) {
        hook->tag = *tag;
        handle = PyObject_CallMethod(tensor, "register_hook", "O", (PyObject *)hook);
    }
    if (PyErr_Occurred())
        runs_watch_take_error(self);
    Py_XDECREF(handle);
    Py_XDECREF(hook);
    Py_XDECREF(needs);
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
