/* recorder.c -- Recorder: a run that is being written.
 *
 * Holds the tt_recorder, the current step, and what watching has cost so far.
 * tensortap.record makes the class that users see out of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/recorder.h"
#include "binding/type.h"
#include "tensortap_tools.h"

#include <time.h>

runs_recorder *runs_recorder_of(binding_state *state, PyObject *obj)
{
    if (PyObject_TypeCheck(obj, state->runs_recorder_type))
        return (runs_recorder *)obj;
    PyErr_Format(PyExc_TypeError, "a Recorder is needed, not %s", Py_TYPE(obj)->tp_name);
    return NULL;
}

/* ---- life ---------------------------------------------------------------- */

/* A dict of str as key, value, key, value, NULL; borrowed from it. */
static const char **read_info(PyObject *info)
{
    Py_ssize_t count = info != NULL ? PyDict_GET_SIZE(info) : 0, at = 0, i = 0;
    PyObject *key, *value; /* borrowed */
    const char **list = PyMem_Calloc((size_t)count * 2 + 2, sizeof *list);
    if (list == NULL)
        return (const char **)PyErr_NoMemory();
    while (count > 0 && PyDict_Next(info, &at, &key, &value)) {
        list[i] = PyUnicode_AsUTF8(key);
        list[i + 1] = list[i] != NULL ? PyUnicode_AsUTF8(value) : NULL;
        if (list[i + 1] == NULL) {
            PyMem_Free(list);
            return NULL;
        }
        i += 2;
    }
    return list;
}

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path",   "only", "exclude",  "products",    "every",     "rank",
                             "resume", "drop", "compress", "queue_bytes", "max_bytes", "disk",
                             "budget", "info", "child",    NULL };
    tt_recorder_options options = { .plan = { .products = TT_PRODUCT_STATS, .every = 1 } };
    tt_plan *plan = &options.plan;
    PyObject *path = NULL; /* owned; bytes: a folder's name need not be UTF-8 */
    int resume = 0, drop = 0, compress = 0;
    Py_ssize_t queue_bytes = 0;
    long long max_bytes = 0, disk = 0;
    double budget = 0;
    PyObject *info = NULL; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O&|$zzIIipppnLLdO!i:Recorder", names, PyUnicode_FSConverter, &path,
            &plan->only, &plan->exclude, &plan->products, &plan->every, &options.rank, &resume, &drop,
            &compress, &queue_bytes, &max_bytes, &disk, &budget, &PyDict_Type, &info, &options.child)) {
        Py_XDECREF(path);
        return NULL;
    }
    runs_recorder *self = NULL;           /* owned */
    const char **facts = read_info(info); /* owned */
    tt_error err = { "" };
    tt_status st = TT_ENOMEM;
    if (facts == NULL)
        goto out;
    options.resumes = resume != 0;
    options.drops = drop != 0;
    options.compresses = compress != 0;
    options.queue_bytes = (size_t)queue_bytes;
    options.max_bytes = max_bytes;
    options.disk = disk;
    options.info = facts;
    self = (runs_recorder *)type->tp_alloc(type, 0);
    if (self == NULL)
        goto out;
    self->every = plan->every > 0 ? plan->every : 1;
    self->budget = budget;
    self->disk = disk;
    self->drops = options.drops;
    self->start_ns = self->look_ns = self->cost_told_ns = runs_clock_coarse();
    self->look_step = -1;
    self->watchers = PyList_New(0);
    self->sites = PyDict_New();
    PyObject *core = PyType_GetModuleByDef(type, &binding_module); /* borrowed */
    self->state = core != NULL ? binding_state_of(core) : NULL;
    if (self->watchers == NULL || self->sites == NULL || self->state == NULL)
        goto out;
    Py_BEGIN_ALLOW_THREADS
    st = *PyBytes_AS_STRING(path) == '\0' /* a rank that does not record: closed from the beginning */
             ? TT_OK
             : tt_recorder_open(PyBytes_AS_STRING(path), &options, &self->rec, &err);
    Py_END_ALLOW_THREADS
out:
    PyMem_Free(facts);
    Py_DECREF(path);
    if (st == TT_OK)
        return (PyObject *)self;
    Py_XDECREF(self);
    return PyErr_Occurred() ? NULL : binding_raise_status(st, &err);
}

/* Lets the watchers write what they still have; their errors are printed, not
 * raised: the file must end well. */
static void close_watchers(runs_recorder *self)
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

/* Nobody gets rec any more, and those who have it let go. */
static tt_recorder *take_recorder(runs_recorder *self)
{
    tt_recorder *rec = self->rec;
    tt_recorder_counts_get(rec, &self->last);
    self->rec = NULL;
    self->end_ns = runs_clock_coarse();
    while (self->users > 0) {
        Py_BEGIN_ALLOW_THREADS
        struct timespec moment = { .tv_nsec = 100000 };
        nanosleep(&moment, NULL);
        Py_END_ALLOW_THREADS
    }
    return rec;
}

/* close(timeout=60.0) */
static PyObject *recorder_close(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    runs_recorder *recorder = (runs_recorder *)self;
    double timeout = 60;
    const binding_option options[] = { { "timeout", OPTION_DOUBLE, &timeout }, { 0 } };
    if (binding_read_arguments("close", 0, options, args, nargs, kwnames) < 0)
        return NULL;
    if (recorder->rec == NULL)
        Py_RETURN_NONE;
    close_watchers(recorder);
    if (recorder->rec == NULL) /* a watcher closed it */
        Py_RETURN_NONE;
    runs_recorder_wait(recorder, 1 << 12, timeout);
    if (recorder->rec == NULL) /* another thread did meanwhile */
        Py_RETURN_NONE;
    runs_recorder_tell_cost(recorder);
    tt_error err = { "" };
    tt_status st;
    tt_recorder *rec = take_recorder(recorder);
    runs_recorder_forget_places(recorder);
    Py_BEGIN_ALLOW_THREADS
    st = tt_recorder_close(rec, timeout, &err);
    Py_END_ALLOW_THREADS
    if (recorder->last.damaged > 0 &&
        runs_recorder_warn(recorder,
                           "%lld of the points recorded before cannot be read: the file is damaged; "
                           "`tensortap check` says more",
                           (long long)recorder->last.damaged) < 0)
        return NULL;
    if (st == TT_OK || recorder->has_told_error)
        Py_RETURN_NONE;
    recorder->has_told_error = true;
    if (runs_recorder_warn(recorder, "%s", err.text) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* For a forked child: the file is the parent's, the sources stop, and what the
 * program still says to this object is ignored. */
static PyObject *recorder_leave(PyObject *self, PyObject *Py_UNUSED(none))
{
    ((runs_recorder *)self)->users = 0; /* those threads are the parent's */
    close_watchers((runs_recorder *)self);
    Py_RETURN_NONE;
}

BINDING_OWNS(recorder, runs_recorder, watchers, loss)

static void recorder_dealloc(PyObject *self)
{
    runs_recorder *recorder = (runs_recorder *)self;
    PyObject_GC_UnTrack(self);
    PyObject_ClearWeakRefs(self); /* before another thread may run */
    recorder_clear(self);
    tt_recorder *rec = recorder->rec;
    Py_BEGIN_ALLOW_THREADS
    tt_recorder_close(rec, 5.0, NULL);
    Py_END_ALLOW_THREADS
    runs_recorder_forget_places(recorder);
    PyMem_Free(recorder->site);
    tt_checker_free(recorder->checker);
    binding_dealloc(self);
}

/* ---- forked children ----------------------------------------------------- */

/* A program may ask for them to be recorded (follow_fork=True), each into a file of its own.  Nothing is
 * opened until the child has something to record: most never do.  Sites keep their numbers, which places
 * all over the program remember. */

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
        tt_recorder_close(old, 0, NULL);   /* inherited: only memory goes */
        runs_recorder_forget_places(self); /* they are in the file of the parent */
    }
    if (PyErr_Occurred())
        PyErr_WriteUnraisable((PyObject *)self); /* the child goes on unrecorded */
    Py_XDECREF(made);
    Py_DECREF(make);
    PyErr_SetRaisedException(pending);
}

/* _follow(make): in a forked child; make() gives the Recorder that the next event opens. */
static PyObject *recorder_follow(PyObject *self, PyObject *make)
{
    runs_recorder *recorder = (runs_recorder *)self;
    recorder->users = 0; /* those threads are the parent's */
    Py_XSETREF(recorder->follow, Py_NewRef(make));
    Py_RETURN_NONE;
}

/* ---- what is said to it -------------------------------------------------- */

static PyObject *recorder_note(PyObject *self, PyObject *text)
{
    runs_recorder *recorder = (runs_recorder *)self;
    const char *utf8 = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    if (utf8 == NULL && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "note(): text must be a str, not %s", Py_TYPE(text)->tp_name);
    if (utf8 == NULL || runs_recorder_refuse_closed(recorder) < 0)
        return NULL;
    runs_recorder_wake(recorder);
    tt_status st = tt_recorder_note(recorder->rec, recorder->step, utf8);
    return st < 0 ? binding_raise_status(st, NULL) : Py_NewRef(Py_None);
}

/* module(path, class_name): says of which class a module is. */
static PyObject *recorder_module(PyObject *self, PyObject *args)
{
    runs_recorder *recorder = (runs_recorder *)self;
    const char *path = NULL, *class_name = NULL;
    if (!PyArg_ParseTuple(args, "ss:module", &path, &class_name) ||
        runs_recorder_refuse_closed(recorder) < 0)
        return NULL;
    runs_recorder_wake(recorder);
    tt_status st = tt_recorder_module(recorder->rec, path, class_name);
    if (recorder->checker != NULL)
        tt_checker_module(recorder->checker, path, class_name);
    return st < 0 ? binding_raise_status(st, NULL) : Py_NewRef(Py_None);
}

/* setting(step, key, value): says what the program has set, from a step on. */
static PyObject *recorder_setting(PyObject *self, PyObject *args)
{
    runs_recorder *recorder = (runs_recorder *)self;
    const char *key = NULL, *value = NULL;
    long long step = 0;
    if (!PyArg_ParseTuple(args, "Lss:setting", &step, &key, &value) ||
        runs_recorder_refuse_closed(recorder) < 0)
        return NULL;
    runs_recorder_wake(recorder);
    tt_status st = tt_recorder_setting(recorder->rec, step, key, value);
    if (recorder->checker != NULL)
        tt_checker_setting(recorder->checker, key, value);
    return st < 0 ? binding_raise_status(st, NULL) : Py_NewRef(Py_None);
}

/* Ends the step by hand; from now on optimizers do not. */
static PyObject *recorder_step(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_recorder *recorder = (runs_recorder *)self;
    tt_recorder_counts counts;
    if (runs_recorder_refuse_closed(recorder) < 0)
        return NULL;
    runs_recorder_step_by_hand(recorder);
    tt_recorder_counts_get(recorder->rec, &counts);
    recorder->events_before = counts.events;
    return runs_recorder_tell_error(recorder) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *recorder_next_step(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_recorder_next_step((runs_recorder *)self);
    Py_RETURN_NONE;
}

static PyObject *recorder_mark(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromLongLong(runs_clock_fine() - ((runs_recorder *)self)->cost_ns);
}

static PyObject *recorder_spend_since(PyObject *self, PyObject *mark)
{
    runs_recorder *recorder = (runs_recorder *)self;
    long long since = PyLong_AsLongLong(mark);
    if (since == -1 && PyErr_Occurred())
        return NULL;
    recorder->around_ns += runs_clock_fine() - recorder->cost_ns - since;
    Py_RETURN_NONE;
}

static PyObject *recorder_train(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_recorder_train((runs_recorder *)self);
    Py_RETURN_NONE;
}

static PyObject *recorder_set_over(PyObject *self, PyObject *is_over)
{
    runs_recorder_set_over((runs_recorder *)self, is_over == Py_True);
    Py_RETURN_NONE;
}

static PyObject *recorder_flush(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_recorder *recorder = (runs_recorder *)self;
    if (runs_recorder_refuse_closed(recorder) < 0)
        return NULL;
    tt_recorder *rec = recorder->rec;
    recorder->users++;
    Py_BEGIN_ALLOW_THREADS
    tt_recorder_flush(rec, NULL);
    Py_END_ALLOW_THREADS
    recorder->users--;
    return runs_recorder_tell_error(recorder) < 0 ? NULL : Py_NewRef(Py_None);
}

/* names(glob): the sites that were asked for so far, recorded or not */
static PyObject *recorder_names(PyObject *self, PyObject *glob)
{
    const runs_recorder *recorder = (runs_recorder *)self;
    const char *pattern = PyUnicode_AsUTF8(glob), *name;
    PyObject *list = pattern != NULL ? PyList_New(0) : NULL; /* owned */
    for (int32_t i = 0; list != NULL && recorder->rec != NULL &&
                        (name = tt_recorder_site_name(recorder->rec, i)) != NULL;
         i++)
        if (tt_glob_match(pattern, name))
            binding_list_add(&list, PyUnicode_FromString(name));
    return list;
}

static PyObject *recorder_watch_health(PyObject *self, PyObject *allow)
{
    runs_recorder *recorder = (runs_recorder *)self;
    const char *glob = allow != Py_None ? PyUnicode_AsUTF8(allow) : NULL;
    tt_error err = { "" };
    if (allow != Py_None && glob == NULL)
        return NULL;
    tt_status st = recorder->checker == NULL ? tt_checker_create(&recorder->checker, &err) : TT_OK;
    if (st < 0)
        return binding_raise_status(st, &err);
    tt_checker_allow(recorder->checker, glob);
    Py_XSETREF(recorder->allow, Py_NewRef(allow)); /* its text is borrowed */
    Py_RETURN_NONE;
}

static PyObject *recorder_new_findings(PyObject *self, PyObject *Py_UNUSED(none))
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

static PyObject *recorder_reduce(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    return PyErr_Format(PyExc_TypeError, "a run that is being written stays in its process: it cannot be "
                                         "pickled or copied; give other processes its path");
}

/* ---- the type ------------------------------------------------------------ */

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((runs_recorder *)self)->rec == NULL);
}

static PyObject *get_error(PyObject *self, void *Py_UNUSED(closure))
{
    tt_recorder *rec = ((runs_recorder *)self)->rec;
    tt_error err = { "" };
    if (rec == NULL || tt_recorder_error(rec, &err) == TT_OK)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(err.text);
}

static PyObject *get_inherited(PyObject *self, void *Py_UNUSED(closure))
{
    tt_recorder *rec = ((runs_recorder *)self)->rec;
    return PyBool_FromLong(rec != NULL && tt_recorder_is_inherited(rec));
}

static PyObject *get_counts(PyObject *self, void *Py_UNUSED(closure))
{
    const runs_recorder *recorder = (runs_recorder *)self;
    tt_recorder_counts c = recorder->last;
    if (recorder->rec != NULL)
        tt_recorder_counts_get(recorder->rec, &c);
    return Py_BuildValue("{sLsLsLsLsLsLsLsLsL}", "events", (long long)c.events, "dropped_events",
                         (long long)c.dropped_events, "dropped_bytes", (long long)c.dropped_bytes,
                         "values", (long long)c.values, "values_same", (long long)c.values_same,
                         "values_gone", (long long)c.values_gone, "bytes", (long long)c.bytes, "damaged",
                         (long long)c.damaged, "stride", (long long)c.stride);
}

/* Share of the time since the beginning. */
static PyObject *get_cost(PyObject *self, void *Py_UNUSED(closure))
{
    const runs_recorder *recorder = (runs_recorder *)self;
    int64_t wall = (recorder->end_ns != 0 ? recorder->end_ns : runs_clock_coarse()) - recorder->start_ns;
    return PyFloat_FromDouble(wall > 0 ? (double)runs_recorder_cost(recorder) / (double)wall : 0);
}

static PyObject *get_step_over(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((runs_recorder *)self)->step_state == STEP_OVER);
}

static PyObject *get_autocast(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(((runs_recorder *)self)->autocast);
}

static PyGetSetDef getters[] = {
    { .name = "autocast", .get = get_autocast, .doc = "what was switched on in the first forward" },
    { .name = "step_over", .get = get_step_over, .doc = "the next training forward begins a new step" },
    { .name = "closed", .get = get_closed, .doc = "nothing can be recorded any more" },
    { .name = "error", .get = get_error, .doc = "what stopped the recording, or None" },
    { .name = "inherited", .get = get_inherited, .doc = "the file belongs to the parent process" },
    { .name = "counts", .get = get_counts, .doc = "what was recorded and dropped so far" },
    { .name = "cost", .get = get_cost, .doc = "share of the time that recording has taken so far" },
    { 0 },
};

static PyMemberDef members[] = {
    { "current_step", T_LONGLONG, offsetof(runs_recorder, step), 0, "events belong to it" },
    { "forwards", T_BYTE, offsetof(runs_recorder, forwards), 0,
      "1: training forwards count as steps; 2: optimizers do; 0: not known yet" },
    { "manual", T_BOOL, offsetof(runs_recorder, is_manual), 0, "optimizers end no step" },
    { "is_inference", T_BOOL, offsetof(runs_recorder, is_inference), 0,
      "forwards in evaluation count as those in training do" },
    { "is_by_command", T_BOOL, offsetof(runs_recorder, is_by_command), 0, "`tensortap run` opened it" },
    { "placer", T_OBJECT, offsetof(runs_recorder, placer), 0, "records where tensors belong" },
    { "watchers", T_OBJECT, offsetof(runs_recorder, watchers), READONLY,
      "objects whose _close() is called before the file ends" },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(runs_recorder, weakrefs), READONLY, NULL },
    { 0 },
};

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    { "close", FAST(recorder_close), METH_FASTCALL | METH_KEYWORDS,
      "close($self, /, *, timeout=60.0)\n--\n\nWrite what is left and end the file." },
    { "log", FAST(runs_recorder_log), METH_FASTCALL,
      "log($self, name, value=None, /)\n--\n\nRecord a number, or a dict of them, at the current step." },
    { "tensor", FAST(runs_recorder_tensor), METH_FASTCALL | METH_KEYWORDS,
      "tensor($self, name, t, /, *, keep=None, phase=None)\n--\n\n"
      "Record a tensor at the current step: keep='stats,hist,digest,sample,value', any of them; "
      "phase='train' or 'eval'.  Of a Stats, that is recorded." },
    { "setting", recorder_setting, METH_VARARGS, "Record what the program has set, from a step on." },
    { "module", recorder_module, METH_VARARGS,
      "module($self, path, class_name, /)\n--\n\nRecord of which class a module is." },
    { "mesh", runs_recorder_mesh, METH_VARARGS, "Record a mesh of ranks; return what stands for it." },
    { "place", runs_recorder_place, METH_VARARGS, "Record where the tensors of a site belong." },
    { "note", recorder_note, METH_O, "note($self, text, /)\n--\n\nRecord a remark." },
    { "step", recorder_step, METH_NOARGS, "step($self, /)\n--\n\nEnd the step; the next one begins." },
    { "flush", recorder_flush, METH_NOARGS,
      "flush($self, /)\n--\n\nWait until others can read what was recorded so far." },
    { "names", recorder_names, METH_O,
      "names($self, glob, /)\n--\n\nList the sites that were seen so far, recorded or not." },
    { "costs", runs_recorder_costs, METH_NOARGS, "Return the time spent on each site, in ns." },
    { "thinned", runs_recorder_thinned, METH_NOARGS,
      "Return the sites that the budget made rarer, and every how many steps they are recorded." },
    { "watch_health", recorder_watch_health, METH_O,
      "watch_health($self, allow, /)\n--\n\nShow every event from now on to the rules of health; sites "
      "that match\n"
      "allow may hold NaN or Inf." },
    { "new_findings", recorder_new_findings, METH_NOARGS,
      "new_findings($self, /)\n--\n\nReturn what the rules have newly found as JSON, or None." },
    { "_next_step", recorder_next_step, METH_NOARGS, "An optimizer steps again in one step." },
    { "_set_over", recorder_set_over, METH_O, "An optimizer has stepped: whether it was the last." },
    { "_mark", recorder_mark, METH_NOARGS, "Begin to time what is around events." },
    { "_spend_since", recorder_spend_since, METH_O, "Add the time since a mark to the cost." },
    { "_train", recorder_train, METH_NOARGS, "An optimizer is about to step." },
    { "_log_at", runs_recorder_log_at, METH_VARARGS, "Record a number of an earlier step." },
    { "_leave", recorder_leave, METH_NOARGS, "Stop the sources in a forked child." },
    { "_follow", recorder_follow, METH_O,
      "_follow($self, make, /)\n--\n\nGo on in a forked child, at its next event, with what make() "
      "returns." },
    { "__reduce__", recorder_reduce, METH_NOARGS, NULL },
    { 0 },
};

BINDING_CLASS(runs_recorder, "tensortap._core.Recorder", runs_recorder, BINDING_GC | Py_TPFLAGS_BASETYPE,
              { Py_tp_doc,
                "Recorder(path, *, only=None, exclude=None, products=2, every=1, rank=0, resume=False, "
                "drop=False, compress=False, queue_bytes=0, max_bytes=0, disk=0, budget=0.0, info={}, "
                "child=0)\n--\n\n"
                "A run that is being written." },
              { Py_tp_new, recorder_new }, { Py_tp_dealloc, recorder_dealloc },
              BINDING_GC_SLOTS(recorder), { Py_tp_methods, methods }, { Py_tp_members, members },
              { Py_tp_getset, getters });
