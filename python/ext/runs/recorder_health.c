/* recorder_health.c -- the rules of health on a run that is being written.
 *
 * They see each event when it is recorded, in the program's thread: a few additions.  What
 * they have found is asked for when an optimizer steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/recorder.h"
#include "tensortap_tools.h"

tt_status runs_recorder_emit(runs_recorder *self, const tt_event *event)
{
    if (self->checker != NULL)
        tt_checker_see(self->checker, tt_recorder_site_name(self->rec, event->site), event);
    return tt_recorder_add(self->rec, event);
}

tt_status runs_recorder_emit_number(runs_recorder *self, int32_t site, double value)
{
    if (!self->drops && !tt_recorder_has_room(self->rec, 64))
        runs_recorder_make_room(self, 0);
    if (self->rec == NULL)
        return TT_OK;
    return runs_recorder_emit(self, &(tt_event){ .site = site, .step = self->step, .scalar = &value });
}

PyObject *runs_recorder_watch_health(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_recorder *recorder = (runs_recorder *)self;
    tt_error err = { "" };
    tt_status st = recorder->checker == NULL ? tt_checker_create(&recorder->checker, &err) : TT_OK;
    return st < 0 ? binding_raise_status(st, &err) : Py_NewRef(Py_None);
}

PyObject *runs_recorder_new_findings(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_recorder *recorder = (runs_recorder *)self;
    tt_findings *findings = NULL; /* owned */
    tt_buf text = { 0 };
    tt_error err = { "" };
    if (recorder->checker == NULL)
        Py_RETURN_NONE;
    tt_status st = tt_checker_find(recorder->checker, &findings, &err);
    if (st < 0)
        return binding_raise_status(st, &err);
    PyObject *result = findings->count > 0 ? binding_take_text(tt_findings_write(findings, &text), &text)
                                           : Py_NewRef(Py_None);
    tt_findings_free(findings);
    return result;
}
