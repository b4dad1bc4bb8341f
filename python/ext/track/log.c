/* log.c -- where the lines of the tree go: standard output and the thread's file.
 *
 * Exists because a decorated call should cost microseconds: the common case, a
 * stream that is no terminal and a file that is open, is one call and one write
 * each.  Everything else (opening files, other handlers, terminals, errors) is
 * log.py's, which is called for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"
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
    size_t stamp_len;
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

void track_log_set_file(int fd)
{
    here.fd = fd;
    here.place = find_place();
}

/* "2026-01-31 12:00:00,123 - INFO - ", as the logging package writes it. */
static size_t put_stamp(char out[64])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != here.second || here.stamp_len == 0) {
        struct tm local;
        localtime_r(&now.tv_sec, &local);
        here.stamp_len = strftime(here.stamp, sizeof here.stamp, "%Y-%m-%d %H:%M:%S", &local);
        here.second = now.tv_sec;
    }
    int part = (int)(now.tv_nsec / 1000000);
    memcpy(out, here.stamp, here.stamp_len);
    char *at = out + here.stamp_len;
    *at++ = ',';
    *at++ = (char)('0' + part / 100);
    *at++ = (char)('0' + part / 10 % 10);
    *at++ = (char)('0' + part % 10);
    memcpy(at, " - INFO - ", 10);
    return here.stamp_len + 14;
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
static void put_plain(track_text *to, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *escape = memchr(bytes, '\x1b', len);
        size_t run = escape != NULL ? (size_t)(escape - bytes) : len;
        track_text_put_bytes(to, bytes, run);
        const char *end = escape != NULL ? memchr(escape, 'm', len - run) : NULL;
        size_t skipped = end != NULL ? (size_t)(end - escape) + 1 : len - run;
        bytes += run + skipped;
        len -= run + skipped;
    }
}

/* Into the page cache that takes a microsecond; giving the GIL away costs as much. */
enum { SHORT_WRITE = 4096 };

int track_log_write(int fd, const char *bytes, size_t len)
{
    char stamp[64], room[2 * TEXT_ROOM];
    track_text log = TEXT_IN(room);
    size_t head = put_stamp(stamp);
    for (const char *end = bytes + len; bytes <= end;) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        stop = stop != NULL ? stop : end;
        track_text_put_bytes(&log, stamp, head);
        put_plain(&log, bytes, (size_t)(stop - bytes));
        track_text_put_bytes(&log, "\n", 1);
        bytes = stop + 1;
    }
    int failed = log.has_failed ? ENOMEM : 0;
    if (failed == 0 && log.len <= SHORT_WRITE) {
        failed = write_all(fd, log.data, log.len);
    } else if (failed == 0) {
        Py_BEGIN_ALLOW_THREADS failed = write_all(fd, log.data, log.len);
        Py_END_ALLOW_THREADS
    }
    track_text_free(&log);
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

/* sys.stdout, looked at; NULL: there is none. */
static PyObject *find_stream(track_log *self)
{
    PyObject *out = PyDict_GetItemWithError(self->sys, self->stdout_name); /* borrowed */
    PyErr_Clear();
    if (out == Py_None)
        return NULL;
    if (out != NULL && out != self->out)
        look_at(self, out);
    return out;
}

bool track_log_is_colored(track_log *self)
{
    return find_stream(self) != NULL && self->is_colored;
}

/* What is no mistake but a wish to stop goes on to the program. */
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
    PyObject *out = Py_XNewRef(find_stream(self)); /* owned */
    PyObject *done = NULL;                         /* owned */
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

int track_log_emit(track_log *self, const char *bytes, size_t len)
{
    PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)len, "replace"); /* owned */
    if (text == NULL)
        return forgive();
    int st = print(self, text);
    if (st == 0 && (!is_simple(self) || track_log_write(here.fd, bytes, len - 1) != 0)) {
        PyObject *done = PyObject_CallOneArg(self->keep, text); /* owned */
        Py_XDECREF(done);
        st = forgive();
    }
    Py_DECREF(text);
    return st;
}

/* Malloc and free would take a tenth of a call's time. */
tt_buf track_log_take_buf(track_log *self)
{
    tt_buf out = self->spare;
    self->spare = (tt_buf){ 0 }; /* whoever logs while we do gets a new one */
    out.len = 0;
    return out;
}

enum { LARGEST_SPARE = 64 << 10 };

int track_log_emit_buf(track_log *self, tt_status st, tt_buf *out)
{
    int result = st == TT_OK && out->len > 0 ? track_log_emit(self, out->data, out->len) : 0;
    if (self->spare.data == NULL && out->cap <= LARGEST_SPARE) {
        self->spare = *out;
        *out = (tt_buf){ 0 };
    }
    tt_buf_free(out);
    return result;
}
