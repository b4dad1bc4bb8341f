/* watch.c -- the class Watch: one model in one recorder.
 *
 * tensortap.watch decides which modules and parameters under which names; what
 * happens then is in the other watch_*.c files.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

#include "summary/functions.h"
#include "summary/stats.h"

/* ---- life ---------------------------------------------------------------- */

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "recorder",     "inputs",    "activation_gradients",
                             "on_nonfinite", "on_device", "on_skip",
                             "on_again",     "on_loss",   "unscale",
                             "allow",        NULL };
    binding_state *state = PyType_GetModuleState(type);
    PyObject *recorder,
        *given[7] = { 0 }; /* borrowed; functions, in the order of their fields, and a text */
    int inputs = 0, gradients = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$ppOOOOOOO:Watch", names, &recorder, &inputs,
                                     &gradients, &given[0], &given[1], &given[2], &given[3], &given[4],
                                     &given[5], &given[6]) ||
        runs_recorder_of(state, recorder) == NULL)
        return NULL;
    if (!tensor_torch_find(&state->torch))
        return PyErr_Format(PyExc_RuntimeError, "torch has not been imported");
    runs_watch *self = (runs_watch *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state;
    self->recorder = (runs_recorder *)Py_NewRef(recorder);
    PyObject **functions[] = { &self->on_nonfinite, &self->on_device, &self->on_skip, &self->on_again,
                               &self->on_loss,      &self->unscale,   &self->allow };
    for (int i = 0; i < 7; i++)
        *functions[i] = given[i] != Py_None ? Py_XNewRef(given[i]) : NULL;
    self->notes = true;
    self->norm_site = -1;
    calls_consumer_init(&self->consumer, &runs_watch_calls, &self->recorder->step,
                        CALLS_PHASE | CALLS_FORWARD_ONLY);
    self->consumer.roles =
        CALLS_OUTPUTS | (inputs ? CALLS_INPUTS : 0u) | (gradients ? CALLS_GRADIENTS : 0u);
    if (runs_watch_find_backward(self) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int watch_traverse(PyObject *self, visitproc visit, void *arg)
{
    const runs_watch *watch = (runs_watch *)self;
    for (size_t i = 0; i < watch->awaited_count; i++) {
        Py_VISIT(watch->awaited[i].wrapper);
        Py_VISIT(watch->awaited[i].filled);
    }
    return binding_visit(self, offsetof(runs_watch, consumer.links), offsetof(runs_watch, recorder),
                         visit, arg);
}

/* The recorder stays: the hot path looks at it. */
static int watch_clear(PyObject *self)
{
    calls_consumer_clear((calls_consumer *)self);
    runs_watch_forget_awaited((runs_watch *)self);
    return binding_clear(self, offsetof(runs_watch, consumer.error), offsetof(runs_watch, callback));
}

static void watch_dealloc(PyObject *self)
{
    runs_watch *watch = (runs_watch *)self;
    PyObject_GC_UnTrack(self);
    calls_consumer_clear(&watch->consumer);
    calls_parameters_free(&watch->parameters);
    calls_parameters_free(&watch->buffers);
    PyMem_Free(watch->addends);
    tt_buf_free(&watch->batch_inputs);
    tt_buf_free(&watch->called_at);
    runs_watch_forget_awaited(watch);
    Py_CLEAR(watch->recorder);
    Py_CLEAR(watch->backward_code);
    Py_CLEAR(watch->tensors_key);
    Py_CLEAR(watch->gradients_key);
    binding_dealloc(self);
}

/* ---- methods ------------------------------------------------------------- */

/* add_stats(tag, stats, cost, histogram): what on_device was given, what came of it, and how long the
 * device took in ns; 0: not measured */
static PyObject *watch_add_stats(PyObject *self, PyObject *args)
{
    runs_watch *watch = (runs_watch *)self;
    runs_watch_tag tag = { 0 };
    PyObject *stats, *histogram; /* borrowed */
    long long step, time, cost;
    int is_skipped, is_for_norm;
    if (!PyArg_ParseTuple(args, "(iLIIBLpp)O!LO:add_stats", &tag.site, &step, &tag.call, &tag.thread,
                          &tag.phase, &time, &is_skipped, &is_for_norm, watch->state->summary_stats_type,
                          &stats, &cost, &histogram))
        return NULL;
    tag.is_skipped = is_skipped != 0;
    const summary_stats_object *object = (summary_stats_object *)stats;
    const tt_hist *hist = Py_IS_TYPE(histogram, watch->state->summary_histogram_type)
                              ? summary_hist_of(histogram)
                              : NULL; /* borrowed */
    if (watch->recorder->rec != NULL && tt_recorder_wants(watch->recorder->rec, tag.site, step) != 0)
        runs_watch_record_stats(watch, &object->stats, hist, object->shape, (int32_t)Py_SIZE(stats), &tag,
                                step, time);
    if (cost > 0)
        runs_recorder_charge(watch->recorder, tag.site, cost);
    if (runs_watch_tell_nonfinite(watch, &object->stats, &tag, step) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static long long count_unread(const runs_watch *self, int why)
{
    return self->unread[why] + (why == VIEW_PENDING ? (long long)self->awaited_count : 0);
}

/* {reason: how many tensors} */
static PyObject *get_unread(PyObject *self, void *Py_UNUSED(closure))
{
    const runs_watch *watch = (runs_watch *)self;
    PyObject *out = PyDict_New(); /* owned */
    for (int why = 0; out != NULL && why < VIEW_RESULT_COUNT_; why++)
        if (count_unread(watch, why) != 0)
            binding_dict_add(&out, PyUnicode_FromString(tensor_view_result_word((tensor_view_result)why)),
                             PyLong_FromLongLong(count_unread(watch, why)));
    return out;
}

/* wants(name): would this site be recorded at the current step? */
static PyObject *watch_wants(PyObject *self, PyObject *name)
{
    runs_recorder *recorder = ((runs_watch *)self)->recorder;
    const char *text = PyUnicode_AsUTF8(name);
    tt_error err = { "" };
    int32_t site;
    if (text == NULL)
        return NULL;
    if (recorder->rec == NULL)
        Py_RETURN_FALSE;
    tt_status st = tt_recorder_site(recorder->rec, text, &site, &err);
    if (st < 0)
        return binding_raise_status(st, &err);
    return PyBool_FromLong(runs_watch_products((runs_watch *)self, site) != 0);
}

/* ---- the type ------------------------------------------------------------ */

static PyMethodDef methods[] = {
    CALLS_CONSUMER_METHODS,
    { "set_parameters", runs_watch_set_parameters, METH_O, "Prepare a list of (name, module, key)." },
    { "set_buffers", runs_watch_set_buffers, METH_O, "Set the buffers to read: (name, module, key)." },
    { "read_buffers", runs_watch_read_buffers, METH_NOARGS, "Record the buffers that have changed." },
    { "read_parameters", runs_watch_read_parameters, METH_VARARGS,
      "Record parameters and gradients; return the norm of the gradients." },
    { "parameter_ids", runs_watch_parameter_ids, METH_NOARGS, "Return id() of each parameter; 0: gone." },
    { "parameter_hook", runs_watch_parameter_hook, METH_O,
      "Make the post-accumulate hook of a parameter." },
    { "end_step", runs_watch_end_step, METH_NOARGS,
      "Record noted gradients as those of a skipped step." },
    { "add_stats", watch_add_stats, METH_VARARGS, "Record what on_device was asked for." },
    { "wants", watch_wants, METH_O, "Return whether a site is recorded now." },
    { 0 },
};

static PyGetSetDef getters[] = {
    { .name = "unread", .get = get_unread, .doc = "tensors that could not be read, by reason" },
    { 0 },
};

static PyMemberDef members[] = {
    CALLS_CONSUMER_MEMBERS(runs_watch),
    { "notes", T_BOOL, offsetof(runs_watch, notes), 0, "look at gradients when accumulated" },
    { "has_run", T_BOOL, offsetof(runs_watch, has_run), 0, "was called in training" },
    { "reduced", T_BOOL, offsetof(runs_watch, is_reduced), 0, "gradients are averaged over ranks" },
    { "scaled", T_BOOL, offsetof(runs_watch, is_scaled), 0, "the step is GradScaler's" },
    { "changed", T_BOOL, offsetof(runs_watch, is_changed), 0, "gradients were changed before the step" },
    { "clipped", T_BOOL, offsetof(runs_watch, is_clipped), 0, "... and were recorded so" },
    { "pipelined", T_BOOL, offsetof(runs_watch, is_pipelined), READONLY, "it is a stage of a pipeline" },
    { "gradients", T_BOOL, offsetof(runs_watch, has_gradients), 0, "record those of parameters" },
    { "batch_size", T_LONGLONG, offsetof(runs_watch, batch_size), READONLY, "first size of a batch" },
    { "batch_inputs", T_STRING, offsetof(runs_watch, batch_inputs.data), READONLY,
      "types and shapes in the first training batch" },
    { "called_at", T_STRING, offsetof(runs_watch, called_at.data), READONLY,
      "the program's line that called the model with it" },
    { "compiled_again", T_BOOL, offsetof(runs_watch, consumer.is_compiled_again), READONLY,
      "some module had been compiled before it was watched" },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(runs_watch, weakrefs), READONLY, NULL },
    { 0 },
};

BINDING_CLASS(
    runs_watch, "tensortap._core.Watch", runs_watch, BINDING_GC,
    { Py_tp_doc,
      "Watch(recorder, *, inputs=False, activation_gradients=False, on_nonfinite=None, "
      "on_device=None, on_skip=None, on_again=None, on_loss=None, unscale=None)\n--\n\nRecord what the "
      "modules of a model do." },
    { Py_tp_new, watch_new }, { Py_tp_dealloc, watch_dealloc }, BINDING_GC_SLOTS(watch),
    { Py_tp_methods, methods }, { Py_tp_getset, getters }, { Py_tp_members, members });
