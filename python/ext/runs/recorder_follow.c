/* recorder_follow.c -- goes on recording in a forked child, into a file of its own.
 *
 * Exists because a program may ask for that (follow_fork=True).  Nothing is opened
 * until the child has something to record: most children never do.  Sites keep
 * their numbers, which places all over the program remember.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/recorder.h"

/* Gives the new file the names of the old one, under the same numbers. */
static bool copy_sites(const tt_recorder *from, tt_recorder *to)
{
    int32_t got, site = 0;
    for (const char *name; (name = tt_recorder_site_name(from, site)) != NULL; site++)
        if (tt_recorder_site(to, name, &got, NULL) < 0 || got != site)
            return false;
    return true;
}

void runs_recorder_follow(runs_recorder *self)
{
    PyObject *make = self->follow; /* owned now; called once, whatever comes of it */
    self->follow = NULL;
    PyObject *pending = PyErr_GetRaisedException(); /* owned; not ours to lose */
    PyObject *made = PyObject_CallNoArgs(make);     /* owned */
    runs_recorder *other = made != NULL ? runs_recorder_of(self->state, made) : NULL;
    if (other != NULL && other->rec != NULL && copy_sites(self->rec, other->rec)) {
        tt_recorder *old = self->rec;
        self->rec = other->rec;
        other->rec = NULL;
        tt_recorder_close(old, 0, NULL); /* inherited: only memory goes */
    }
    if (PyErr_Occurred())
        PyErr_WriteUnraisable((PyObject *)self); /* the child goes on unrecorded */
    Py_XDECREF(made);
    Py_DECREF(make);
    PyErr_SetRaisedException(pending);
}

/* _follow(make): in a forked child; make() gives the Recorder that the next event opens. */
PyObject *runs_recorder_set_follow(PyObject *self, PyObject *make)
{
    runs_recorder *recorder = (runs_recorder *)self;
    recorder->users = 0; /* those threads are the parent's */
    Py_XSETREF(recorder->follow, Py_NewRef(make));
    Py_RETURN_NONE;
}
