/* log.c -- where the lines of the tree go: standard output and the thread's file.
 *
 * Exists because a decorated call should cost microseconds: the common case, a
 * stream that is no terminal and a file that is open, is one call and one write
 * each.  Everything else (opening files, other handlers, terminals, errors) is
 * log.py's, which is called for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/type.h"
#include "track/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of one thread; log.py closes the file when the thread is gone. */
typedef struct thread_log {
    long depth;     /* in this thread's tree */
    int fd;         /* of the log file; -1: not open here */
    uint64_t place; /* what the environment said when it was opened */
    time_t second;  /* of the stamp */
    char stamp[32]; /* "2026-01-31 12:00:00" */
} thread_log;

static _Thread_local thread_log here = { .fd = -1 };

long track_log_depth(void)
{
    return here.depth;
}

void track_log_set_depth(long depth)
{
    here.depth = depth < 0 ? 0 : depth;
}

/* ---- the file ------------------------------------------------------------------ */

static uint64_t add_text(uint64_t hash, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return (hash ^ (text != NULL ? 0x100u : 0x200u)) * 0x100000001b3u;
}

/* The folder may be set while the program runs; reading os.environ would cost
 * more than the line. */
static uint64_t find_place(void)
{
    uint64_t hash = add_text(0xcbf29ce484222325u, getenv("TENSORTAP_LOG_DIR"));
    return add_text(add_text(hash, getenv("TENSORTAP_LOG_TAG")), getenv("LTAG"));
}

static void set_file(int fd)
{
    here.fd = fd;
    here.place = find_place();
}

/* "2026-01-31 12:00:00,123 - INFO - ", as the logging package writes it. */
static size_t put_stamp(char out[64])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != here.second) {
        struct tm local;
        localtime_r(&now.tv_sec, &local);
        (void)strftime(here.stamp, sizeof here.stamp, "%Y-%m-%d %H:%M:%S", &local);
        here.second = now.tv_sec;
    }
    return (size_t)snprintf(out, 64, "%s,%03d - INFO - ", here.stamp, (int)(now.tv_nsec / 1000000));
}

/* All of it, whatever the system takes at a time; 0 or errno. */
static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            return errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Without colours: ours are the only escapes that come through the tree. */
static void put_plain(tt_buf *to, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *escape = memchr(bytes, '\x1b', len);
        size_t run = escape != NULL ? (size_t)(escape - bytes) : len;
        (void)tt_buf_append(to, bytes, run);
        const char *end = escape != NULL ? memchr(escape, 'm', len - run) : NULL;
        size_t skipped = end != NULL ? (size_t)(end - escape) + 1 : len - run;
        bytes += run + skipped;
        len -= run + skipped;
    }
}

/* Into the page cache that takes a microsecond; giving the GIL away costs as much. */
enum { SHORT_WRITE = 4096 };

static int write_lines(int fd, const char *bytes, size_t len)
{
    char stamp[64];
    tt_buf log = { 0 };
    size_t head = put_stamp(stamp);
    for (const char *end = bytes + len; bytes <= end;) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        stop = stop != NULL ? stop : end;
        (void)tt_buf_append(&log, stamp, head);
        put_plain(&log, bytes, (size_t)(stop - bytes));
        (void)tt_buf_text(&log, "\n");
        bytes = stop + 1;
    }
    int failed = log.st < 0 ? ENOMEM : 0;
    if (failed == 0 && log.len <= SHORT_WRITE) {
        failed = write_all(fd, log.data, log.len);
    } else if (failed == 0) {
        Py_BEGIN_ALLOW_THREADS
        failed = write_all(fd, log.data, log.len);
        Py_END_ALLOW_THREADS
    }
    tt_buf_free(&log);
    return failed;
}

/* ---- both ---------------------------------------------------------------------- */

/* Another stream than last time may be a terminal. */
static void look_at(track_log *self, PyObject *out)
{
    PyObject *answer = PyObject_CallOneArg(self->look, out); /* owned: (is_terminal, is_colored) */
    self->is_terminal = self->is_colored = false;
    if (answer != NULL && PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 2) {
        self->is_terminal = PyTuple_GET_ITEM(answer, 0) == Py_True;
        self->is_colored = PyTuple_GET_ITEM(answer, 1) == Py_True;
    }
    PyErr_Clear();
    Py_XDECREF(answer);
    Py_XSETREF(self->out, Py_NewRef(out));
}

/* Looks at sys.stdout. */
bool track_log_is_colored(track_log *self)
{
    PyObject *out = PyDict_GetItemWithError(self->sys, self->stdout_name); /* borrowed */
    PyErr_Clear();
    if (out == NULL || out == Py_None)
        Py_CLEAR(self->out);
    else if (out != self->out)
        look_at(self, out);
    return self->out != NULL && self->is_colored;
}

/* KeyboardInterrupt and SystemExit are re-raised in the program. */
static int forgive(void)
{
    if (!PyErr_Occurred())
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear();
    return 0;
}

static int print(track_log *self, PyObject *text)
{
    PyObject *out = Py_XNewRef(self->out); /* owned */
    PyObject *done = NULL;                 /* owned */
    if (out == NULL)
        return 0;
    if (!self->is_terminal) {
        done = PyObject_CallMethodOneArg(out, self->write, text);
        if (done == NULL && PyErr_ExceptionMatches(PyExc_Exception))
            PyErr_Clear(); /* perhaps a letter that the stream cannot write */
    }
    if (done == NULL && !PyErr_Occurred())
        done = PyObject_CallOneArg(self->show, text);
    Py_XDECREF(done);
    Py_DECREF(out);
    return forgive();
}

/* Is the thread's own file all that there is to write to? */
static bool is_simple(const track_log *self)
{
    if (here.fd < 0 || here.place != find_place())
        return false;
    PyObject *handlers = PyObject_GetAttr(self->logger, self->handlers); /* owned */
    bool is_so = handlers != NULL && PyList_Check(handlers) && PyList_GET_SIZE(handlers) == 0;
    PyErr_Clear();
    Py_XDECREF(handlers);
    return is_so;
}

int track_log_emit(track_log *self, tt_buf *lines)
{
    if (lines->st < 0 || lines->len == 0) {
        tt_buf_free(lines);
        return 0;
    }
    PyObject *text = PyUnicode_DecodeUTF8(lines->data, (Py_ssize_t)lines->len, "replace"); /* owned */
    int st = text != NULL ? print(self, text) : forgive();
    if (text != NULL && st == 0 &&
        (!is_simple(self) || write_lines(here.fd, lines->data, lines->len - 1) != 0)) {
        PyObject *done = PyObject_CallOneArg(self->keep, text); /* owned */
        Py_XDECREF(done);
        st = forgive();
    }
    Py_XDECREF(text);
    tt_buf_free(lines);
    return st;
}

/* ---- the class TrackLog, by which Python writes lines of the tree ------------------ */

static track_log *log_of(PyObject *self)
{
    return (track_log *)self;
}

static PyObject *log_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "logger", "look", "show", "keep", "render", NULL };
    track_log given = { 0 }; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOO:TrackLog", keywords, &given.logger, &given.look,
                                     &given.show, &given.keep, &given.render))
        return NULL;
    track_log *self = (track_log *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    memcpy(&self->logger, &given.logger, offsetof(track_log, out) - offsetof(track_log, logger));
    for (PyObject **one = &self->logger; one <= &self->render; one++)
        Py_INCREF(*one);
    self->sys = PyImport_ImportModule("sys");
    if (self->sys != NULL)
        Py_SETREF(self->sys, Py_NewRef(PyModule_GetDict(self->sys)));
    self->stdout_name = PyUnicode_InternFromString("stdout");
    self->write = PyUnicode_InternFromString("write");
    self->handlers = PyUnicode_InternFromString("handlers");
    if (self->sys == NULL || self->stdout_name == NULL || self->write == NULL || self->handlers == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

BINDING_OWNS(log, track_log, logger, handlers)

static PyObject *none_or_null(int st)
{
    return st < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- lines ----------------------------------------------------------------------- */

static PyObject *log_text(PyObject *self, PyObject *text)
{
    tt_buf copy = { 0 };
    (void)track_log_is_colored(log_of(self));
    if (!PyUnicode_Check(text))
        return PyErr_Format(PyExc_TypeError, "text() takes a str");
    track_put_str(&copy, text);
    (void)tt_buf_text(&copy, "\n");
    return none_or_null(track_log_emit(log_of(self), &copy));
}

/* lines((depth, branch, text), ...): all at once */
static PyObject *log_lines(PyObject *self, PyObject *rows)
{
    static const tt_branch branches[] = { TT_BRANCH_CALL, TT_BRANCH_ENTRY, TT_BRANCH_LAST };
    bool is_colored = track_log_is_colored(log_of(self));
    tt_buf out = { 0 }, text = { 0 };
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i++) {
        long depth, branch;
        PyObject *words; /* borrowed */
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, i), "llU:lines", &depth, &branch, &words))
            break;
        tt_buf_clear(&text);
        track_put_str(&text, words);
        track_put_branch(&out, depth, branches[branch < 0 || branch > 2 ? 1 : branch], &text, is_colored);
    }
    tt_buf_free(&text);
    if (PyErr_Occurred()) {
        tt_buf_free(&out);
        return NULL;
    }
    return none_or_null(track_log_emit(log_of(self), &out));
}

/* value(before, name, value, line): a line about it, behind any indentation of the caller's */
static PyObject *log_value(PyObject *self, PyObject *args)
{
    PyObject *indent, *before, *name, *value; /* borrowed */
    long line;
    tt_buf text = { 0 }, out = { 0 };
    track_log *log = log_of(self);
    if (!PyArg_ParseTuple(args, "UUUOl:value", &indent, &before, &name, &value, &line))
        return NULL;
    bool is_colored = track_log_is_colored(log);
    track_put_str(&text, before);
    track_put_new(log, &text, name, line, value, is_colored);
    track_put_str(&out, indent);
    track_put_branch(&out, 0, TT_BRANCH_ENTRY, &text, is_colored);
    tt_buf_free(&text);
    return none_or_null(track_log_emit(log, &out));
}

/* write(fd, text) -> 0 or errno */
static PyObject *log_write_to(PyObject *Py_UNUSED(self), PyObject *args)
{
    int fd;
    const char *bytes;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "iy#:write", &fd, &bytes, &len))
        return NULL;
    return PyLong_FromLong(write_lines(fd, bytes, (size_t)len));
}

static PyObject *log_file(PyObject *Py_UNUSED(self), PyObject *fd)
{
    long number = PyLong_AsLong(fd);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    set_file((int)number);
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

/* The two of every call: without a tuple of their arguments. */
#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef methods[] = {
    { "begin", FAST(track_call_begin),
      "begin(site, args, kwargs): write who called and the inputs, go one deeper." },
    { "end", FAST(track_call_end), "end(site, token, value, seconds): write the outputs and the time." },
    { "stop", track_call_stop, METH_VARARGS,
      "stop(site, token, kind, text, seconds): write why there is no output, and the time." },
    { "yields", track_call_yields, METH_VARARGS,
      "yields(site, token, label, value): write what a generator gives." },
    { "lines", log_lines, METH_VARARGS,
      "lines(*(depth, branch, text)): write lines; branch 0 opens, 1 goes on, 2 ends." },
    { "text", log_text, METH_O, "text(text): write it as it is." },
    { "value", log_value, METH_VARARGS,
      "value(indent, before, name, value, line): write what is known of a value." },
    { "stack", track_call_stack, METH_NOARGS,
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
              { Py_tp_new, log_new }, BINDING_GC_SLOTS(log), { Py_tp_dealloc, binding_dealloc },
              { Py_tp_methods, methods }, { Py_tp_getset, getters });
