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

static bool has_gradients(void)
{
    PyObject *ask = binding_import("torch", "is_grad_enabled");       /* owned */
    PyObject *answer = ask != NULL ? PyObject_CallNoArgs(ask) : NULL; /* owned */
    bool is_enabled = answer != Py_False;
    PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(ask);
    return is_enabled;
}

void runs_recorder_forward(runs_recorder *self)
{
    if (self->step_state == STEP_OPEN && self->first_forward != FORWARD_UNKNOWN)
        return;
    bool is_training = has_gradients();
    if (self->first_forward == FORWARD_UNKNOWN)
        self->first_forward = is_training ? FORWARD_TRAINS : FORWARD_ONLY_COMPUTES;
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
