/* py_recorder.c -- Recorder: a run that is being written.
 *
 * Holds the tt_recorder, the current step, and what watching has cost so far.
 * SPDX-License-Identifier: Apache-2.0 */
#include "py_recorder.h"

#include <structmember.h>
#include <time.h>

static int64_t clock_read(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_fine(void)
{
    return clock_read(CLOCK_REALTIME);
}

int64_t clock_coarse(void)
{
    return clock_read(CLOCK_REALTIME_COARSE);
}

void recorder_charge(recorder_object *self, int32_t site, int64_t ns)
{
    ns *= RECORDER_SAMPLES;
    self->cost_ns += ns;
    if (site < 0)
        return;
    if (site >= self->site_cap) {
        size_t cap = ((size_t)site + 64) * 2;
        int64_t *grown = PyMem_Realloc(self->site_cost, cap * sizeof *grown);
        if (grown == NULL)
            return; /* the sum is right all the same */
        for (size_t i = (size_t)self->site_cap; i < cap; i++)
            grown[i] = 0;
        self->site_cost = grown;
        self->site_cap = (int32_t)cap;
    }
    self->site_cost[site] += ns;
}

recorder_object *recorder_of(core_state *state, PyObject *obj)
{
    if (PyObject_TypeCheck(obj, state->recorder_type))
        return (recorder_object *)obj;
    PyErr_Format(PyExc_TypeError, "a Recorder is needed, not %s", Py_TYPE(obj)->tp_name);
    return NULL;
}

static int refuse_closed(const recorder_object *self)
{
    if (self->rec != NULL)
        return 0;
    PyErr_SetString(PyExc_ValueError, "this recorder is closed");
    return -1;
}

/* ---- life ---------------------------------------------------------------- */

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "only", "exclude", "products", "every", "rank", NULL };
    const char *path, *only = NULL, *exclude = NULL;
    unsigned int products = TT_PRODUCT_STATS, every = 1;
    int rank = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$zzIIi:Recorder", names, &path, &only,
                                     &exclude, &products, &every, &rank))
        return NULL;
    recorder_object *self = (recorder_object *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    tt_recorder_options options = {
        .rank = rank,
        .plan = { .only = only, .exclude = exclude, .products = products, .every = every },
    };
    tt_error err = { "" };
    self->watchers = PyList_New(0);
    tt_status st = self->watchers != NULL ? tt_recorder_open(path, &options, &self->rec, &err) : TT_ENOMEM;
    if (st < 0) {
        Py_DECREF(self);
        return raise_status(st, &err);
    }
    return (PyObject *)self;
}

/* Lets the watchers write what they still have; their errors are printed, not
 * raised: the file must end well. */
static void close_watchers(recorder_object *self)
{
    while (PyList_GET_SIZE(self->watchers) > 0) {
        Py_ssize_t last = PyList_GET_SIZE(self->watchers) - 1;
        PyObject *watcher = Py_NewRef(PyList_GET_ITEM(self->watchers, last)); /* owned */
        PyObject *done = NULL;                                                /* owned */
        if (PyList_SetSlice(self->watchers, last, last + 1, NULL) == 0)
            done = PyObject_CallMethod(watcher, "_close", NULL);
        if (done == NULL)
            PyErr_WriteUnraisable(watcher);
        Py_XDECREF(done);
        Py_DECREF(watcher);
    }
}

static PyObject *recorder_close(PyObject *self, PyObject *Py_UNUSED(none))
{
    recorder_object *recorder = (recorder_object *)self;
    if (recorder->rec == NULL)
        Py_RETURN_NONE;
    close_watchers(recorder);
    tt_recorder *rec = recorder->rec;
    recorder->rec = NULL;
    tt_error err = { "" };
    tt_status st;
    Py_BEGIN_ALLOW_THREADS
    st = tt_recorder_close(rec, 5.0, &err);
    Py_END_ALLOW_THREADS
    if (st < 0)
        return raise_status(st, &err);
    Py_RETURN_NONE;
}

static int recorder_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((recorder_object *)self)->watchers);
    return 0;
}

static int recorder_clear(PyObject *self)
{
    Py_CLEAR(((recorder_object *)self)->watchers);
    return 0;
}

static void recorder_dealloc(PyObject *self)
{
    recorder_object *recorder = (recorder_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (recorder->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    recorder_clear(self);
    tt_recorder *rec = recorder->rec;
    Py_BEGIN_ALLOW_THREADS
    tt_recorder_close(rec, 5.0, NULL);
    Py_END_ALLOW_THREADS
    PyMem_Free(recorder->site_cost);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- what is said to it -------------------------------------------------- */

static PyObject *recorder_scalar(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    recorder_object *recorder = (recorder_object *)self;
    int32_t site;
    tt_error err = { "" };
    if (nargs != 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "scalar() takes a name and a number");
        return NULL;
    }
    const char *name = PyUnicode_AsUTF8(args[0]);
    double value = name != NULL ? PyFloat_AsDouble(args[1]) : -1;
    if (PyErr_Occurred() || refuse_closed(recorder) < 0)
        return NULL;
    tt_status st = tt_recorder_site(recorder->rec, name, &site, &err);
    if (st == TT_OK)
        st = tt_recorder_scalar(recorder->rec, site, recorder->step, value);
    return st < 0 ? raise_status(st, &err) : Py_NewRef(Py_None);
}

static PyObject *recorder_note(PyObject *self, PyObject *text)
{
    recorder_object *recorder = (recorder_object *)self;
    const char *utf8 = PyUnicode_AsUTF8(text);
    if (utf8 == NULL || refuse_closed(recorder) < 0)
        return NULL;
    tt_status st = tt_recorder_note(recorder->rec, recorder->step, utf8);
    return st < 0 ? raise_status(st, NULL) : Py_NewRef(Py_None);
}

/* {site name: ns}, of all that cost something. */
static PyObject *recorder_costs(PyObject *self, PyObject *Py_UNUSED(none))
{
    recorder_object *recorder = (recorder_object *)self;
    PyObject *costs = PyDict_New(); /* owned */
    for (int32_t i = 0; costs != NULL && recorder->rec != NULL && i < recorder->site_cap; i++) {
        if (recorder->site_cost[i] == 0)
            continue;
        PyObject *ns = PyLong_FromLongLong(recorder->site_cost[i]); /* owned */
        if (ns == NULL ||
            PyDict_SetItemString(costs, tt_recorder_site_name(recorder->rec, i), ns) < 0)
            Py_CLEAR(costs);
        Py_XDECREF(ns);
    }
    return costs;
}

/* ---- the type ------------------------------------------------------------ */

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((recorder_object *)self)->rec == NULL);
}

static PyGetSetDef getters[] = {
    { .name = "closed", .get = get_closed, .doc = "nothing can be recorded any more" },
    { 0 },
};

static PyMemberDef members[] = {
    { "current_step", T_LONGLONG, offsetof(recorder_object, step), 0, "events belong to it" },
    { "step_over", T_BOOL, offsetof(recorder_object, is_step_over), 0,
      "the next training forward begins a new step" },
    { "manual", T_BOOL, offsetof(recorder_object, is_manual), 0, "optimizers end no step" },
    { "cost_ns", T_LONGLONG, offsetof(recorder_object, cost_ns), 0, "time spent on watching" },
    { "watchers", T_OBJECT, offsetof(recorder_object, watchers), READONLY,
      "objects whose _close() is called before the file ends" },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(recorder_object, weakrefs), READONLY, NULL },
    { 0 },
};

static PyMethodDef methods[] = {
    { "close", recorder_close, METH_NOARGS, "Write what is left and end the file." },
    { "scalar", (PyCFunction)(void (*)(void))recorder_scalar, METH_FASTCALL,
      "scalar($self, name, value, /)\n--\n\nRecord a number at the current step." },
    { "note", recorder_note, METH_O, "note($self, text, /)\n--\n\nRecord a remark." },
    { "costs", recorder_costs, METH_NOARGS, "Give the time spent on each site, in ns." },
    { 0 },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, "Recorder(path, *, only=None, exclude=None, products=2, every=1, rank=0)\n--\n\n"
                 "A run that is being written." },
    { Py_tp_new, recorder_new },
    { Py_tp_dealloc, recorder_dealloc },
    { Py_tp_traverse, recorder_traverse },
    { Py_tp_clear, recorder_clear },
    { Py_tp_methods, methods },
    { Py_tp_members, members },
    { Py_tp_getset, getters },
    { 0, NULL },
};

PyType_Spec recorder_spec = {
    .name = "tensortap._core.Recorder",
    .basicsize = sizeof(recorder_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};
