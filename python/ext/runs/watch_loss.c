/* watch_loss.c -- the tensor on which backward() was called.
 *
 * Exists because a loss is computed outside of any module, most often, and is where many
 * a NaN is born.  A gradient's hook runs while torch.autograd.backward() does, so the frames
 * of Python lead from the one to the other: its first argument is the loss, and its caller is
 * the program.  Nothing of torch is replaced, and no frame is kept.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"
#include "calls/pipeline.h"
#include "runs/watch.h"

#include <math.h>
#include <string.h>

#include "tensortap_tools.h"

int runs_watch_find_backward(runs_watch *self)
{
    self->backward_code = binding_import("torch.autograd", "backward.__code__");
    PyErr_Clear(); /* somebody replaced it: then the loss is not seen */
    self->tensors_key = PyUnicode_InternFromString("tensors");
    self->gradients_key = PyUnicode_InternFromString("grad_tensors");
    return self->tensors_key != NULL && self->gradients_key != NULL ? 0 : -1;
}

/* The outermost call of backward(): checkpoints call it again inside. */
static base_frame *outermost_backward(const runs_watch *self, base_frame *at)
{
    base_frame *found = NULL;
    for (; at != NULL; at = base_frame_back(at))
        if ((PyObject *)base_frame_code(at) == self->backward_code)
            found = at;
    return found;
}

/* Gradients of another device come in a thread of torch's own; whoever called backward()
 * waits.  NULL too if several threads do. */
static base_frame *backward_of_others(const runs_watch *self)
{
    base_frame *found = NULL;
    PyThreadState *thread = base_first_thread();
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        base_frame *other = outermost_backward(self, base_frame_top(thread));
        if (other != NULL && found != NULL)
            return NULL;
        found = other != NULL ? other : found;
    }
    return found;
}

PyObject *runs_watch_line_of(binding_state *state, base_frame *at)
{
    base_frame *program = at;
    while (program != NULL && binding_owner_of(state, base_frame_code(program)) != BINDING_OWNER_PROGRAM)
        program = base_frame_back(program);
    if (program == NULL)
        program = at;
    if (program == NULL)
        return NULL;
    PyCodeObject *code = base_frame_code(program);
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    const char *slash = file != NULL ? strrchr(file, '/') : NULL;
    int line = PyCode_Addr2Line(code, base_frame_instruction(program) * CODE_UNIT);
    return file != NULL ? PyUnicode_FromFormat("%s:%d", slash != NULL ? slash + 1 : file, line) : NULL;
}

/* Was it the last one, too?  Each watched model asks, and each checkpoint. */
static bool is_known(runs_recorder *recorder, PyObject *loss)
{
    PyObject *last = NULL; /* owned */
    if (recorder->loss != NULL)
        (void)PyWeakref_GetRef(recorder->loss, &last);
    bool is_same = last == loss;
    Py_XDECREF(last);
    if (!is_same)
        Py_XSETREF(recorder->loss, PyWeakref_NewRef(loss, NULL));
    PyErr_Clear();
    return is_same;
}

/* Was a gradient of this one of the tensors given to backward()?  Then it is the output of a stage. */
static bool has_gradient(const runs_watch *self, base_frame *backward, Py_ssize_t at)
{
    PyObject *given = base_frame_slot(backward, 1, self->gradients_key); /* borrowed */
    if (given != NULL && (PyTuple_Check(given) || PyList_Check(given)))
        given = at < PySequence_Fast_GET_SIZE(given) ? PySequence_Fast_GET_ITEM(given, at) : NULL;
    return given != NULL && given != Py_None;
}

/* The loss before a GradScaler scaled it, which was the last thing that happened to it: a new
 * reference. */
static PyObject *unscaled(runs_watch *self, PyObject *loss)
{
    PyObject *getter = self->state->torch.grad_fn;                           /* borrowed */
    PyObject *node = getter != NULL ? tensor_torch_get(getter, loss) : NULL; /* owned */
    PyObject *found = NULL;                                                  /* owned */
    if (node != NULL && self->unscale != NULL && strcmp(Py_TYPE(node)->tp_name, "MulBackward0") == 0)
        found = PyObject_CallOneArg(self->unscale, loss);
    calls_consumer_take_error(&self->consumer);
    Py_XDECREF(node);
    return found != NULL ? found : Py_NewRef(loss);
}

/* The number in a tensor of one element; NaN: there is none that can be read here. */
static double number_in(const runs_watch *self, PyObject *tensor)
{
    tensor_view view;
    double number = NAN;
    if (tensor_view_open(&self->state->torch, tensor, &view) != VIEW_OK)
        return number;
    if (view.tensor.count == 1 && tt_dtype_kind(view.tensor.dtype) == TT_KIND_FLOAT)
        number = tt_element_f64(view.tensor.dtype, view.tensor.data);
    tensor_view_close(&view);
    return number;
}

int runs_watch_note_loss(runs_watch *self)
{
    runs_recorder *recorder = self->recorder;
    if (calls_traced_drain(self->state, false) < 0)
        return -1;
    runs_recorder_train(recorder);
    if (self->backward_code == NULL || recorder->rec == NULL)
        return 0;
    base_frame *at = outermost_backward(self, base_frame_running());
    if (at == NULL)
        at = backward_of_others(self);
    bool is_staged = at != NULL && calls_pipeline_calls(at);
    self->is_pipelined |= is_staged;
    self->is_divided = is_staged && calls_pipeline_scales(at, self->state->calls->self);
    PyObject *given =
        at != NULL ? Py_XNewRef(base_frame_slot(at, 0, self->tensors_key)) : NULL; /* owned */
    bool is_tuple = given != NULL && PyTuple_Check(given);
    Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(given) : given != NULL;
    runs_watch_tag tag = { .site = -1, .phase = TT_PHASE_TRAIN };
    PyObject *name = NULL; /* owned */
    int result = 0;
    for (Py_ssize_t i = 0; i < count && result == 0; i++) {
        PyObject *loss = is_tuple ? PyTuple_GET_ITEM(given, i) : given; /* borrowed */
        if (!tensor_torch_is_tensor(&self->state->torch, loss) || (i == 0 && is_known(recorder, loss)) ||
            (is_staged && has_gradient(self, at, i)))
            break;
        if (i == 0 && (name = runs_watch_line_of(self->state, base_frame_back(at))) != NULL)
            tag.site = runs_watch_site(self, "loss", name);
        calls_consumer_take_error(&self->consumer);
        if (tag.site < 0)
            break;
        tag.call = runs_recorder_next_call(recorder, tag.site, recorder->step);
        PyObject *plain = unscaled(self, loss); /* owned */
        self->scale = plain != loss ? number_in(self, loss) / number_in(self, plain) : 0;
        self->has_unused_graph = false;
        result = runs_watch_record_alone(self, plain, &tag, NULL) < 0 ? -1 : 0;
        Py_DECREF(plain);
        if (result == 0) {
            runs_watch_note_labels(self, loss, name);
            runs_watch_notify(self, self->on_loss, loss);
        }
    }
    Py_XDECREF(name);
    Py_XDECREF(given);
    return result;
}
