/* reader.c -- RunReader: a run that is read.
 *
 * What the class Run of tensortap.runs.run asks the core: files and sites by number,
 * arrays filled in place.  The questions about points are in reader_points.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/reader.h"
#include "binding/type.h"
#include "tensortap_tools.h"

#include <string.h>

tt_run *runs_reader_enter(PyObject *self)
{
    runs_reader *object = (runs_reader *)self;
    if (PyThread_acquire_lock(object->lock, NOWAIT_LOCK) != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(object->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    if (object->run != NULL)
        return object->run;
    PyThread_release_lock(object->lock);
    PyErr_SetString(PyExc_ValueError, "this run is closed; open it again with tt.open(path)");
    return NULL;
}

void runs_reader_leave(PyObject *self)
{
    PyThread_release_lock(((runs_reader *)self)->lock);
}

PyObject *runs_reader_fail(PyObject *self, tt_status st, const tt_error *err)
{
    runs_reader_leave(self);
    return binding_raise_status(st, err);
}

/* ---- life ---------------------------------------------------------------- */

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", NULL };
    PyObject *path = NULL; /* owned; bytes */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&:RunReader", names, PyUnicode_FSConverter, &path))
        return NULL;
    runs_reader *self = (runs_reader *)type->tp_alloc(type, 0);
    tt_error err = { "" };
    tt_status st = TT_ENOMEM;
    if (self != NULL) {
        self->state = PyType_GetModuleState(type);
        self->lock = PyThread_allocate_lock();
    }
    if (self != NULL && self->lock != NULL) {
        const char *text = PyBytes_AS_STRING(path);
        Py_BEGIN_ALLOW_THREADS st = tt_run_open(text, &self->run, &err);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(path);
    if (st == TT_OK)
        return (PyObject *)self;
    Py_XDECREF(self);
    return binding_raise_status(st, &err);
}

static PyObject *run_close(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_reader *object = (runs_reader *)self;
    if (object->run == NULL)
        Py_RETURN_NONE;
    if (runs_reader_enter(self) == NULL)
        return NULL;
    tt_run_close(object->run);
    object->run = NULL;
    runs_reader_leave(self);
    Py_RETURN_NONE;
}

static void run_dealloc(PyObject *self)
{
    runs_reader *object = (runs_reader *)self;
    tt_run_close(object->run);
    if (object->lock != NULL)
        PyThread_free_lock(object->lock);
    binding_dealloc(self);
}

static PyObject *run_refresh(PyObject *self, PyObject *Py_UNUSED(none))
{
    tt_run *run = runs_reader_enter(self);
    tt_error err = { "" };
    tt_status st;
    if (run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS st = tt_run_refresh(run, &err);
    Py_END_ALLOW_THREADS if (st < 0) return runs_reader_fail(self, st, &err);
    runs_reader_leave(self);
    Py_RETURN_NONE;
}

/* ---- files and sites ----------------------------------------------------- */

/* Python's number of a file; -1 with IndexError. */
static int32_t read_file_number(const tt_run *run, PyObject *number)
{
    long file = PyLong_AsLong(number);
    if (file == -1 && PyErr_Occurred())
        return -1;
    if (file >= 0 && file < tt_run_file_count(run))
        return (int32_t)file;
    PyErr_SetString(PyExc_IndexError, "no such file");
    return -1;
}

PyObject *runs_reader_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* [(path, rank, closed, bytes, points, first step, last step, dropped, damaged, stopped)] */
static PyObject *run_files(PyObject *self, PyObject *Py_UNUSED(none))
{
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (int32_t i = 0; list != NULL && i < tt_run_file_count(run); i++) {
        tt_run_file file;
        tt_run_file_get(run, i, &file);
        PyObject *path = PyUnicode_DecodeFSDefault(file.path); /* owned */
        PyObject *row =
            path == NULL
                ? NULL
                : Py_BuildValue("(OiOLLLLLLN)", path, file.rank, file.is_closed ? Py_True : Py_False,
                                (long long)file.bytes, (long long)file.points, (long long)file.first_step,
                                (long long)file.last_step, (long long)file.dropped_events,
                                (long long)file.damaged_bytes,
                                file.stopped != NULL ? runs_reader_text(file.stopped)
                                                     : Py_NewRef(Py_None)); /* owned */
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
        Py_XDECREF(path);
    }
    runs_reader_leave(self);
    return list;
}

static PyObject *run_names(PyObject *self, PyObject *glob)
{
    const char *pattern = PyUnicode_AsUTF8(glob);
    tt_run *run = pattern != NULL ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (int32_t i = 0; list != NULL && i < tt_run_site_count(run); i++) {
        const char *name = tt_run_site_name(run, i);
        if (!tt_glob_match(pattern, name) || !tt_run_has_points(run, i))
            continue;
        PyObject *text = runs_reader_text(name); /* owned */
        if (text == NULL || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    runs_reader_leave(self);
    return list;
}

static PyObject *run_find(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    tt_run *run = text != NULL ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    int32_t site = tt_run_find(run, text);
    runs_reader_leave(self);
    return PyLong_FromLong(site);
}

static PyObject *run_points(PyObject *self, PyObject *args)
{
    int file, site;
    tt_run *run = PyArg_ParseTuple(args, "ii:points", &file, &site) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    size_t count = tt_run_points(run, file, site);
    runs_reader_leave(self);
    return PyLong_FromSize_t(count);
}

/* ---- texts --------------------------------------------------------------- */

static PyObject *run_info(PyObject *self, PyObject *number)
{
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    int32_t file = read_file_number(run, number);
    PyObject *dict = file >= 0 ? PyDict_New() : NULL; /* owned */
    const char *key;
    for (int32_t i = 0; dict != NULL && (key = tt_run_info_key(run, file, i)) != NULL; i++) {
        PyObject *name = runs_reader_text(key),
                 *value = runs_reader_text(tt_run_info_value(run, file, i)); /* owned */
        if (name == NULL || value == NULL || PyDict_SetItem(dict, name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    runs_reader_leave(self);
    return dict;
}

/* [(step, ns since 1970, text)] */
static PyObject *run_notes(PyObject *self, PyObject *number)
{
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    int32_t file = read_file_number(run, number);
    PyObject *list = file >= 0 ? PyList_New(0) : NULL; /* owned */
    for (int32_t i = 0; list != NULL && i < tt_run_note_count(run, file); i++) {
        tt_note note;
        if (tt_run_note(run, file, i, &note) < 0)
            continue;
        PyObject *row = Py_BuildValue("(LLN)", (long long)note.step, (long long)note.time,
                                      runs_reader_text(note.text)); /* owned */
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    runs_reader_leave(self);
    return list;
}

/* {path: class} of the modules that were watched */
static PyObject *run_modules(PyObject *self, PyObject *number)
{
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    int32_t file = read_file_number(run, number);
    PyObject *found = file >= 0 ? PyDict_New() : NULL; /* owned */
    tt_module module;
    for (int32_t i = 0; found != NULL && tt_run_module(run, file, i, &module) == TT_OK; i++) {
        PyObject *path = runs_reader_text(module.path),
                 *name = runs_reader_text(module.class_name); /* owned */
        if (path == NULL || name == NULL || PyDict_SetItem(found, path, name) < 0)
            Py_CLEAR(found);
        Py_XDECREF(path);
        Py_XDECREF(name);
    }
    runs_reader_leave(self);
    return found;
}

static PyObject *run_check(PyObject *self, PyObject *number)
{
    tt_run *run = runs_reader_enter(self);
    tt_check check;
    tt_error err = { "" };
    tt_status st = TT_OK;
    if (run == NULL)
        return NULL;
    int32_t file = read_file_number(run, number);
    if (file >= 0) {
        Py_BEGIN_ALLOW_THREADS st = tt_run_check(run, file, &check, &err);
        Py_END_ALLOW_THREADS
    }
    runs_reader_leave(self);
    if (file < 0 || st < 0)
        return file < 0 ? NULL : binding_raise_status(st, &err);
    return Py_BuildValue("{sLsLsLsLsLsLsLsOsN}", "blocks", (long long)check.blocks, "points",
                         (long long)check.points, "values", (long long)check.values, "damaged_blocks",
                         (long long)check.damaged_blocks, "damaged_bytes", (long long)check.damaged_bytes,
                         "torn_bytes", (long long)check.torn_bytes, "gone_values",
                         (long long)check.gone_values, "closed", check.is_closed ? Py_True : Py_False,
                         "first", runs_reader_text(check.first));
}

/* ---- the type ------------------------------------------------------------ */

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((runs_reader *)self)->run == NULL);
}

static PyGetSetDef getters[] = {
    { .name = "closed", .get = get_closed, .doc = "nothing can be read any more" },
    { 0 },
};

#define METHOD(name, function, flags, doc) \
    {                                      \
        name, (function), flags, name doc  \
    }

static PyMethodDef methods[] = {
    METHOD("close", run_close, METH_NOARGS, "($self, /)\n--\n\nLet the files go."),
    METHOD("refresh", run_refresh, METH_NOARGS, "($self, /)\n--\n\nTake in what was written since."),
    METHOD("files", run_files, METH_NOARGS, "($self, /)\n--\n\nDescribe each file."),
    METHOD("names", run_names, METH_O, "($self, glob, /)\n--\n\nGive the names that match."),
    METHOD("find", run_find, METH_O, "($self, name, /)\n--\n\nGive the number of a site, or -1."),
    METHOD("points", run_points, METH_VARARGS, "($self, file, site, /)\n--\n\nCount points."),
    METHOD("steps", runs_reader_steps, METH_O,
           "($self, buffer, /)\n--\n\nWrite all steps as int64; give how many there are."),
    METHOD("series", runs_reader_series, METH_VARARGS,
           "($self, file, site, field, steps, values, /)\n--\n\n"
           "Write one field as int64 and float64; give how many points have it."),
    METHOD("stats", runs_reader_stats, METH_VARARGS,
           "($self, file, site, /)\n--\n\nGive (step, Stats) of every point that has it."),
    METHOD("point", runs_reader_point, METH_VARARGS,
           "($self, file, site, index, /)\n--\n\n"
           "Give (step, time, call, thread, phase, skipped, products, scalar, Stats, Digest)."),
    METHOD("seek", runs_reader_seek, METH_VARARGS,
           "($self, file, site, step, call, products, /)\n--\n\nGive the index of a point, or -1."),
    METHOD("nonfinite", runs_reader_nonfinite, METH_VARARGS,
           "($self, file, site, /)\n--\n\nGive the index of the first NaN or Inf, or -1."),
    METHOD("hist", runs_reader_hist, METH_VARARGS,
           "($self, file, site, index, /)\n--\n\nGive (low, high, count) of each bin."),
    METHOD("sample", runs_reader_sample, METH_VARARGS,
           "($self, file, site, index, /)\n--\n\nGive the Sample."),
    METHOD("value", runs_reader_value, METH_VARARGS,
           "($self, file, site, index, /)\n--\n\nGive (dtype, shape, bytes) of a stored value."),
    METHOD("value_read", runs_reader_value_read, METH_VARARGS,
           "($self, file, site, index, buffer, /)\n--\n\nWrite the bytes of a stored value."),
    METHOD("origin", runs_reader_origin, METH_VARARGS,
           "($self, allow, /)\n--\n\n"
           "Give (file, name, index, birth, order, of, reached, fed) of the first NaN or Inf, or None."),
    METHOD("diff", runs_reader_diff, METH_VARARGS,
           "($self, other, only, first, last, rtol, atol, old, new, /)\n--\n\n"
           "Give (verdict, first, sites, old, new)."),
    METHOD("info", run_info, METH_O, "($self, file, /)\n--\n\nGive what the writer said of itself."),
    METHOD("notes", run_notes, METH_O, "($self, file, /)\n--\n\nGive (step, time, text) of all notes."),
    METHOD("modules", run_modules, METH_O, "($self, file, /)\n--\n\nGive {path: class} of its modules."),
    METHOD("tree", runs_reader_tree, METH_O,
           "($self, only, /)\n--\n\n"
           "Give (depth, label, class, is output, width, sites) of each row, repeated layers folded."),
    METHOD("check", run_check, METH_O, "($self, file, /)\n--\n\nRead everything, check every checksum."),
    { 0 },
};

BINDING_CLASS(runs_reader, "tensortap._core.RunReader", runs_reader, 0,
              { Py_tp_doc, "RunReader(path)\n--\n\nA run folder, or one file of it." },
              { Py_tp_new, run_new }, { Py_tp_dealloc, run_dealloc }, { Py_tp_methods, methods },
              { Py_tp_getset, getters });
