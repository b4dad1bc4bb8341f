/* recorder_step.c -- the steps of a run: which one it is, and when the next begins.
 *
 * The only place that moves from step to step.  Sources tell what happened: a model was called
 * (watch_call.c), a backward ran (watch_loss.c), an optimizer stepped (runs/steps.py), the program
 * called run.step() (recorder.c).  docs/ARCHITECTURE.md has the table.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/recorder.h"

static void begin_next(runs_recorder *self)
{
    self->step++;
    self->step_state = STEP_OPEN;
}

void runs_recorder_next_step(runs_recorder *self)
{
    if (!self->is_manual)
        begin_next(self);
}

void runs_recorder_set_over(runs_recorder *self, bool is_over)
{
    if (!self->is_manual)
        self->step_state = is_over ? STEP_OVER : STEP_OPEN;
}

/* What a function of torch says, about a kind of device if that is not NULL; owned, or NULL. */
static PyObject *ask(const char *function, const char *device)
{
    PyObject *callable = binding_import("torch", function); /* owned */
    PyObject *answer = callable == NULL ? NULL
                       : device == NULL ? PyObject_CallNoArgs(callable)
                                        : PyObject_CallFunction(callable, "s", device);
    PyErr_Clear();
    Py_XDECREF(callable);
    return answer;
}

static bool has_gradients(void)
{
    PyObject *answer = ask("is_grad_enabled", NULL); /* owned */
    bool is_enabled = answer != Py_False;
    Py_XDECREF(answer);
    return is_enabled;
}

/* Takes note of the autocast around the first forward: nobody is inside of it afterwards. */
static void note_autocast(runs_recorder *self)
{
    static const char *const devices[] = { "cuda", "cpu" };
    (void)snprintf(self->autocast, sizeof self->autocast, "off");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        PyObject *is_on = ask("is_autocast_enabled", devices[i]);                          /* owned */
        PyObject *dtype = is_on == Py_True ? ask("get_autocast_dtype", devices[i]) : NULL; /* owned */
        PyObject *text = dtype != NULL ? PyObject_Str(dtype) : NULL;                       /* owned */
        const char *utf8 = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
        if (utf8 != NULL)
            (void)snprintf(self->autocast, sizeof self->autocast, "%s on %s", utf8, devices[i]);
        PyErr_Clear();
        Py_XDECREF(text);
        Py_XDECREF(dtype);
        Py_XDECREF(is_on);
    }
}

void runs_recorder_forward(runs_recorder *self)
{
    if (self->step_state == STEP_OPEN && self->first_forward != FORWARD_UNKNOWN)
        return;
    bool is_training = has_gradients();
    if (self->first_forward == FORWARD_UNKNOWN) {
        self->first_forward = is_training ? FORWARD_TRAINS : FORWARD_ONLY_COMPUTES;
        note_autocast(self);
    }
    if (self->step_state == STEP_OVER)
        runs_recorder_next_step(self);
    else if (self->step_state == STEP_PREVIEWED && is_training)
        self->step_state = STEP_OPEN;
    else
        return;
    if (!is_training && self->first_forward == FORWARD_TRAINS && !self->is_manual)
        self->step_state = STEP_PREVIEWED;
}

void runs_recorder_train(runs_recorder *self)
{
    if (self->step_state == STEP_PREVIEWED)
        self->step_state = STEP_OPEN;
}

void runs_recorder_step_by_hand(runs_recorder *self)
{
    self->is_manual = true;
    begin_next(self);
}
