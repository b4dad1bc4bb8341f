/* tracker.c -- the class Tracker, by which Python starts and stops a tracking.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/type.h"
#include "track/engine.h"

#include <string.h>

static PyObject *tracker_start(PyObject *obj, PyObject *Py_UNUSED(none))
{
    track_tracker *self = (track_tracker *)obj;
    if (self->id < 0 && track_tracker_listen(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *tracker_stop(PyObject *self, PyObject *Py_UNUSED(none))
{
    track_tracker_silence((track_tracker *)self);
    Py_RETURN_NONE;
}

static PyObject *adopt(PyObject *self, PyObject *line)
{
    long number = PyLong_AsLong(line);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    track_tracker_adopt((track_tracker *)self, number);
    Py_RETURN_NONE;
}

static PyObject *get_errors(PyObject *self, void *Py_UNUSED(closure))
{
    track_tracker *one = (track_tracker *)self;
    PyObject *text = NULL; /* borrowed */
    uint64_t count =
        one->id >= 0 ? lines_source_errors(binding_state_of(one->module)->lines, one->id, &text) : 0;
    return Py_BuildValue("(KO)", (unsigned long long)count, text != NULL ? text : Py_None);
}

/* tracker(log, names, bases, excluded, roots, *, rtol, atol): the tolerance is
 * given if either is not None. */
PyObject *track_tracker_function(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "log", "names", "bases", "excluded", "roots", "rtol", "atol", NULL };
    PyObject *log, *names, *bases, *excluded, *roots, *rtol = Py_None, *atol = Py_None; /* borrowed */
    track_tolerance tolerance = { 0 };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!O!|$OO:tracker", keywords,
                                     binding_state_of(module)->track_log_type, &log, &PyTuple_Type,
                                     &names, &PyTuple_Type, &bases, &PyTuple_Type, &excluded, &PySet_Type,
                                     &roots, &rtol, &atol))
        return NULL;
    tolerance.is_given = rtol != Py_None || atol != Py_None;
    tolerance.rtol = rtol != Py_None ? PyFloat_AsDouble(rtol) : 0;
    tolerance.atol = atol != Py_None ? PyFloat_AsDouble(atol) : 0;
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        if (PyUnicode_Check(PyTuple_GET_ITEM(names, i)))
            continue;
        PyErr_SetString(PyExc_TypeError, "names must be strings");
        return NULL;
    }
    track_tracker *self = PyObject_GC_New(track_tracker, binding_state_of(module)->track_tracker_type);
    if (self == NULL)
        return NULL;
    memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
    self->id = -1;
    self->tolerance = tolerance;
    self->module = Py_NewRef(module);
    self->log = Py_NewRef(log);
    self->names = Py_NewRef(names);
    self->bases = Py_NewRef(bases);
    self->excluded = Py_NewRef(excluded);
    self->roots = Py_NewRef(roots);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int tracker_traverse(PyObject *self, visitproc visit, void *arg)
{
    track_tracker *one = (track_tracker *)self;
    Py_VISIT(Py_TYPE(self));
#define X(name) Py_VISIT(one->name);
    TRACKER_OBJECTS(X)
#undef X
    return 0;
}

static void tracker_dealloc(PyObject *obj)
{
    track_tracker *self = (track_tracker *)obj;
    PyTypeObject *type = Py_TYPE(obj);
    PyObject_GC_UnTrack(obj);
    track_tracker_silence(self);
    while (self->count > 0)
        track_tracker_drop_frame(self, self->frames[self->count - 1]);
    PyMem_Free(self->frames);
#define X(name) Py_CLEAR(self->name);
    TRACKER_OBJECTS(X)
#undef X
    PyObject_GC_Del(obj);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    { "start", tracker_start, METH_NOARGS, "Track, in this thread." },
    { "adopt", adopt, METH_O, "adopt(line): look at the names of the frame that runs now." },
    { "stop", tracker_stop, METH_NOARGS, "Stop; what was seen last stays known." },
    { 0 },
};

static PyMemberDef members[] = {
    { "depth", T_LONG, offsetof(track_tracker, depth), 0, "How deep in the tree the changes stand." },
    { 0 },
};

static PyGetSetDef getters[] = {
    { "errors", get_errors, NULL, "How many looks failed, and the first message.", NULL },
    { 0 },
};

BINDING_CLASS(track_tracker, "tensortap.Tracker", track_tracker, BINDING_GC | BINDING_NO_NEW,
              { Py_tp_doc, "Tells each change of some names; made by tracker()." },
              { Py_tp_traverse, tracker_traverse }, { Py_tp_dealloc, tracker_dealloc },
              { Py_tp_methods, methods }, { Py_tp_members, members }, { Py_tp_getset, getters });
