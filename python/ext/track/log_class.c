/* log_class.c -- the class TrackLog, by which Python writes lines of the tree.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/type.h"
#include "tensortap_tools.h"
#include "track/engine.h"

static track_log *log_of(PyObject *self)
{
    return (track_log *)self;
}

static PyObject *log_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "logger", "own", "runs", "look", "show", "keep", "render", NULL };
    PyObject *logger, *own, *runs, *look, *show, *keep, *render; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OUO!OOOO:TrackLog", keywords, &logger, &own,
                                     &PyList_Type, &runs, &look, &show, &keep, &render))
        return NULL;
    track_log *self = (track_log *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    self->logger = Py_NewRef(logger);
    self->own = Py_NewRef(own);
    self->runs = Py_NewRef(runs);
    self->look = Py_NewRef(look);
    self->show = Py_NewRef(show);
    self->keep = Py_NewRef(keep);
    self->render = Py_NewRef(render);
    self->write = PyUnicode_InternFromString("write");
    self->handlers = PyUnicode_InternFromString("handlers");
    self->output = PyUnicode_InternFromString("output");
    self->stdout_name = PyUnicode_InternFromString("stdout");
    PyObject *sys = PyImport_ImportModule("sys"); /* owned */
    self->sys = sys != NULL ? Py_NewRef(PyModule_GetDict(sys)) : NULL;
    Py_XDECREF(sys);
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int log_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
#define X(name) Py_VISIT(log_of(self)->name);
    TRACK_LOG_OBJECTS(X)
#undef X
    return 0;
}

static int log_clear(PyObject *self)
{
#define X(name) Py_CLEAR(log_of(self)->name);
    TRACK_LOG_OBJECTS(X)
#undef X
    for (int i = 0; i < KNOWN_LINES; i++)
        Py_CLEAR(log_of(self)->known[i].code);
    return 0;
}

static void log_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)log_clear(self);
    tt_buf_free(&log_of(self)->spare);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *none_or_null(int st)
{
    return st < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- calls ----------------------------------------------------------------------- */

/* The tuple that calls.py makes for each function. */
static bool is_site(PyObject *site)
{
    bool is_so = PyTuple_Check(site) && PyTuple_GET_SIZE(site) == SITE_FIELDS &&
                 PyTuple_Check(PyTuple_GET_ITEM(site, SITE_NAMES)) &&
                 PyLong_Check(PyTuple_GET_ITEM(site, SITE_FIRST)) &&
                 PyTuple_Check(PyTuple_GET_ITEM(site, SITE_DEFAULTS));
    for (int i = 0; is_so && i < SITE_NAMES; i++)
        is_so = PyUnicode_Check(PyTuple_GET_ITEM(site, i));
    return is_so;
}

/* Checks the number of arguments, the site and, behind it, the token; -1: TypeError. */
static int check(const char *name, PyObject *const *args, Py_ssize_t nargs, Py_ssize_t wanted,
                 int64_t *token)
{
    if (nargs != wanted || !is_site(args[0])) {
        PyErr_Format(PyExc_TypeError, "%s() takes a site and %zd more arguments", name, wanted - 1);
        return -1;
    }
    if (token != NULL)
        *token = PyLong_AsLongLong(args[1]);
    return PyErr_Occurred() ? -1 : 0;
}

/* None: from the token's own beginning */
static double seconds_of(PyObject *seconds)
{
    return seconds == Py_None ? -1 : PyFloat_AsDouble(seconds);
}

static PyObject *log_begin(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (check("begin", args, nargs, 3, NULL) < 0)
        return NULL;
    if (!PyTuple_Check(args[1]) || !PyDict_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "begin() takes *args and **kwargs of a call");
        return NULL;
    }
    int64_t token = track_call_begin(log_of(self), args[0], args[1], args[2]);
    return token < 0 ? NULL : PyLong_FromLongLong(token);
}

static PyObject *log_end(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t token;
    if (check("end", args, nargs, 4, &token) < 0)
        return NULL;
    double seconds = seconds_of(args[3]);
    return PyErr_Occurred()
               ? NULL
               : none_or_null(track_call_end(log_of(self), args[0], token, seconds, args[2]));
}

static PyObject *log_stop(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t token;
    if (check("stop", args, nargs, 5, &token) < 0)
        return NULL;
    double seconds = seconds_of(args[4]);
    return PyErr_Occurred()
               ? NULL
               : none_or_null(track_call_stop(log_of(self), args[0], token, seconds, args[2], args[3]));
}

static PyObject *log_yield(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t token;
    if (check("yields", args, nargs, 3, &token) < 0)
        return NULL;
    return none_or_null(track_call_yield(log_of(self), args[0], token, args[2]));
}

/* ---- lines ----------------------------------------------------------------------- */

static PyObject *log_text(PyObject *self, PyObject *text)
{
    track_text copy = { 0 };
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "text() takes a str");
        return NULL;
    }
    track_text_put_str(&copy, text);
    track_text_put(&copy, "\n");
    int st = copy.has_failed ? 0 : track_log_emit(log_of(self), copy.data, copy.len);
    track_text_free(&copy);
    return none_or_null(st);
}

static const tt_branch branches[] = { TT_BRANCH_CALL, TT_BRANCH_ENTRY, TT_BRANCH_LAST };

/* lines((depth, branch, text), ...): all at once */
static PyObject *log_lines(PyObject *self, PyObject *const *rows, Py_ssize_t count)
{
    tt_buf out = track_log_take_buf(log_of(self));
    tt_status st = TT_OK;
    bool is_colored = track_log_is_colored(log_of(self));
    for (Py_ssize_t i = 0; i < count && st == TT_OK; i++) {
        track_text text = { 0 };
        long depth, branch;
        PyObject *words; /* borrowed */
        if (!PyTuple_Check(rows[i]) || !PyArg_ParseTuple(rows[i], "llU:lines", &depth, &branch, &words)) {
            tt_buf_free(&out);
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "lines() takes tuples");
            return NULL;
        }
        track_text_put_str(&text, words);
        st = track_text_branch(&out, depth, branches[branch < 0 || branch > 2 ? 1 : branch], &text,
                               is_colored);
        track_text_free(&text);
    }
    return none_or_null(track_log_emit_buf(log_of(self), st, &out));
}

/* value(before, name, value, line): a line about it, behind any indentation of the caller's */
static PyObject *log_value(PyObject *self, PyObject *args)
{
    PyObject *indent, *before, *name, *value; /* borrowed */
    long line;
    track_text text = { 0 };
    tt_buf out = { 0 };
    track_log *log = log_of(self);
    if (!PyArg_ParseTuple(args, "UUUOl:value", &indent, &before, &name, &value, &line))
        return NULL;
    bool is_colored = track_log_is_colored(log);
    track_text_put_str(&text, before);
    track_put_new(log, &text, name, line, value, is_colored);
    tt_status st = track_text_branch(&out, 0, TT_BRANCH_ENTRY, &text, is_colored);
    text.len = 0;
    track_text_put_str(&text, indent);
    if (st == TT_OK)
        track_text_put_bytes(&text, out.data, out.len);
    tt_buf_free(&out);
    int result = text.has_failed || st < 0 ? 0 : track_log_emit(log, text.data, text.len);
    track_text_free(&text);
    return none_or_null(result);
}

static PyObject *log_stack(PyObject *self, PyObject *Py_UNUSED(none))
{
    return track_call_stack(log_of(self));
}

/* write(fd, text) -> 0 or errno */
static PyObject *log_write_to(PyObject *Py_UNUSED(self), PyObject *args)
{
    int fd;
    const char *bytes;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "iy#:write", &fd, &bytes, &len))
        return NULL;
    return PyLong_FromLong(track_log_write(fd, bytes, (size_t)len));
}

static PyObject *log_file(PyObject *Py_UNUSED(self), PyObject *fd)
{
    long number = PyLong_AsLong(fd);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    track_log_set_file((int)number);
    Py_RETURN_NONE;
}

static PyObject *get_depth(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure))
{
    return PyLong_FromLong(track_log_depth());
}

static int set_depth(PyObject *Py_UNUSED(self), PyObject *value, void *Py_UNUSED(closure))
{
    long depth = value != NULL ? PyLong_AsLong(value) : 0;
    if (depth == -1 && PyErr_Occurred())
        return -1;
    track_log_set_depth(depth);
    return 0;
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef methods[] = {
    { "begin", FAST(log_begin),
      "begin(site, args, kwargs): write who called and the inputs, go one deeper." },
    { "end", FAST(log_end), "end(site, token, value, seconds): write the outputs and the time." },
    { "stop", FAST(log_stop),
      "stop(site, token, kind, text, seconds): write why there is no output, and the time." },
    { "yields", FAST(log_yield), "yields(site, token, value): write what a generator gives." },
    { "lines", FAST(log_lines),
      "lines(*(depth, branch, text)): write lines; branch 0 opens, 1 goes on, 2 ends." },
    { "text", log_text, METH_O, "text(text): write it as it is." },
    { "value", log_value, METH_VARARGS,
      "value(indent, before, name, value, line): write what is known of a value." },
    { "stack", log_stack, METH_NOARGS,
      "stack(): list (function, file, line) of the callers, innermost first." },
    { "write", log_write_to, METH_VARARGS,
      "write(fd, bytes): write lines, the time before each; 0 or an errno." },
    { "file", log_file, METH_O, "file(fd): this thread's log file is open; -1: it is not." },
    { 0 },
};

static PyGetSetDef getters[] = {
    { "depth", get_depth, set_depth, "How deep this thread's tree is.", NULL },
    { 0 },
};

BINDING_CLASS(track_log, "tensortap._core.TrackLog", track_log, BINDING_GC,
              { Py_tp_doc,
                "Writes the tree to standard output, to the thread's log file and to the open run." },
              { Py_tp_new, log_new }, BINDING_GC_SLOTS(log), { Py_tp_dealloc, log_dealloc },
              { Py_tp_methods, methods }, { Py_tp_getset, getters });
