/* call.c -- the lines that open and end a decorated call.
 *
 * Exists so that a call costs microseconds: the whole text of its start, and of
 * its end, is made and written in one go.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"
#include "runs/open_run.h"
#include "tensortap_tools.h"
#include "track/engine.h"

#include <string.h>
#include <time.h>

/* ---- who called --------------------------------------------------------------- */

/* Does the path begin with the prefix?  Asked for each caller of each call, so
 * without the general search where both are plain. */
static bool begins_with(PyObject *path, PyObject *prefix)
{
    if (!PyUnicode_IS_COMPACT_ASCII(path) || !PyUnicode_IS_COMPACT_ASCII(prefix))
        return PyUnicode_Tailmatch(path, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
    size_t len = (size_t)PyUnicode_GET_LENGTH(prefix);
    return (size_t)PyUnicode_GET_LENGTH(path) >= len &&
           memcmp(PyUnicode_1BYTE_DATA(path), PyUnicode_1BYTE_DATA(prefix), len) == 0;
}

/* The nearest frame from `at` outwards that is not tensortap's own. */
static base_frame *find_user(base_frame *at, PyObject *own)
{
    while (at != NULL && begins_with(base_frame_code(at)->co_filename, own))
        at = base_frame_back(at);
    return at;
}

base_frame *track_call_user_frame(PyObject *own)
{
    return find_user(base_frame_running(), own);
}

/* The two frames by which torch calls every forward: they would take the places of
 * the callers that matter. */
static bool is_module_call(PyCodeObject *code)
{
    static const char tail[] = "/torch/nn/modules/module.py";
    PyObject *path = code->co_filename; /* borrowed */
    Py_ssize_t len = PyUnicode_GET_LENGTH(path), more = len - (Py_ssize_t)strlen(tail);
    return more >= 0 && PyUnicode_IS_COMPACT_ASCII(path) &&
           memcmp((const char *)PyUnicode_1BYTE_DATA(path) + more, tail, strlen(tail)) == 0;
}

static base_frame *find_caller(base_frame *at, PyObject *own)
{
    while ((at = find_user(at, own)) != NULL && is_module_call(base_frame_code(at)))
        at = base_frame_back(at);
    return at;
}

static int line_of(track_log *log, base_frame *at)
{
    PyCodeObject *code = base_frame_code(at);
    int instruction = base_frame_instruction(at);
    track_known_line *known = &log->known[((uintptr_t)code / 64 + (uintptr_t)instruction) % KNOWN_LINES];
    if (known->code != code || known->instruction != instruction) {
        known->line = PyCode_Addr2Line(code, instruction * CODE_UNIT);
        known->instruction = instruction;
        Py_XSETREF(known->code, (PyCodeObject *)Py_NewRef((PyObject *)code));
    }
    return known->line;
}

void track_call_put_file(track_text *text, PyCodeObject *code)
{
    const char *path = PyUnicode_AsUTF8(code->co_filename);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    PyErr_Clear();
    track_text_put(text, slash != NULL ? slash + 1 : path != NULL ? path : "?");
}

static void put_place(track_text *text, base_frame *at, int line)
{
    track_call_put_file(text, base_frame_code(at));
    track_text_put(text, ":");
    track_text_put_int(text, line);
}

/* "caller:34 (file.py:34 <- loop.py:8 <- main.py:3)" */
static void put_callers(track_text *text, track_log *log)
{
    PyObject *own = log->own; /* borrowed */
    base_frame *at = find_caller(base_frame_running(), own);
    if (at == NULL) {
        track_text_put(text, "?");
        return;
    }
    int line = line_of(log, at);
    track_text_put_str(text, base_frame_code(at)->co_name);
    track_text_put(text, ":");
    track_text_put_int(text, line);
    track_text_put(text, " (");
    for (int i = 0; i < 3 && at != NULL; i++, at = find_caller(base_frame_back(at), own)) {
        if (i > 0)
            track_text_put(text, " <- ");
        put_place(text, at, i == 0 ? line : line_of(log, at));
    }
    track_text_put(text, ")");
}

PyObject *track_call_stack(PyObject *self, PyObject *Py_UNUSED(none))
{
    track_log *log = (track_log *)self;
    PyObject *own = log->own;       /* borrowed */
    PyObject *rows = PyList_New(0); /* owned */
    base_frame *at = find_user(base_frame_running(), own);
    for (; at != NULL && rows != NULL; at = find_user(base_frame_back(at), own)) {
        PyCodeObject *code = base_frame_code(at);
        PyObject *row =
            Py_BuildValue("(OOi)", code->co_name, code->co_filename, line_of(log, at)); /* owned */
        if (row == NULL || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

/* ---- the open run ------------------------------------------------------------- */

/* Sites: call/NAME/x for inputs, call/NAME/output and call/NAME/time for results, line/FILE:LINE:x
 * for changes, as flow has them.  Tensors by their statistics, numbers as scalars; texts and
 * containers are not recorded. */

/* Takes over the name; nothing that fails reaches the program: the run was closed, the
 * tensor has no values, and the log has it all the same. */
static void record(track_log *log, PyObject *name, PyObject *value)
{
    PyObject *type, *error, *trace; /* owned */
    PyErr_Fetch(&type, &error, &trace);
    if (name != NULL)
        (void)runs_put(log->runs, name, value);
    Py_XDECREF(name);
    PyErr_Restore(type, error, trace);
}

static bool is_wanted(const track_log *log, PyObject *value)
{
    return runs_has_open_run(log->runs) &&
           (PyFloat_Check(value) || PyLong_Check(value) ||
            tensor_kind_has_elements(tensor_kind_of(&log->state->torch, value)));
}

static void record_call(track_log *log, PyObject *function, PyObject *name, Py_ssize_t item,
                        PyObject *value)
{
    if (!is_wanted(log, value))
        return;
    record(log,
           item < 0 ? PyUnicode_FromFormat("call/%U/%U", function, name)
                    : PyUnicode_FromFormat("call/%U/%U[%zd]", function, name, item),
           value);
}

static void record_seconds(track_log *log, PyObject *function, double seconds)
{
    if (!runs_has_open_run(log->runs))
        return;
    PyObject *value = PyFloat_FromDouble(seconds); /* owned */
    if (value != NULL)
        record(log, PyUnicode_FromFormat("call/%U/time", function), value);
    Py_XDECREF(value);
}

void track_record_change(track_log *log, uint64_t key, PyObject *file, long line, PyObject *name,
                         PyObject *value)
{
    PyObject *type, *error, *trace; /* owned */
    if (!is_wanted(log, value) || !PyUnicode_Check(file))
        return;
    const runs_change change = { .key = key, .file = file, .name = name, .line = line };
    PyErr_Fetch(&type, &error, &trace);
    (void)runs_put_change(log->state, log->runs, &change, value);
    PyErr_Restore(type, error, trace); /* what failed in between is forgotten */
}

/* ---- lines --------------------------------------------------------------------- */

/* What the lines of one call have in common. */
typedef struct call_lines {
    track_log *log;
    PyObject *site; /* borrowed; the tuple of track_call_site */
    long depth;
    bool is_colored;
    track_text text; /* of the line that is being made */
    tt_buf out;      /* owned; lines so far */
    tt_status st;
} call_lines;

static PyObject *field(const call_lines *lines, track_call_site which)
{
    return PyTuple_GET_ITEM(lines->site, which);
}

static void add_line(call_lines *lines, tt_branch branch)
{
    if (lines->st == TT_OK)
        lines->st = track_text_branch(&lines->out, lines->depth, branch, &lines->text, lines->is_colored);
    lines->text.len = 0;
}

/* "input [Tensor] x@0 → ..." */
static void add_input(call_lines *lines, PyObject *name, PyObject *value)
{
    track_text_put_str(&lines->text, field(lines, SITE_INPUT));
    track_text_put(&lines->text, " ");
    track_put_new(lines->log, &lines->text, name, 0, value, lines->is_colored);
    add_line(lines, TT_BRANCH_ENTRY);
    record_call(lines->log, field(lines, SITE_NAME), name, -1, value);
}

/* "output[1] shape=...", item -1: "output shape=..." */
static void add_output(call_lines *lines, PyObject *label, Py_ssize_t item, PyObject *value,
                       tt_branch branch)
{
    track_text_put_str(&lines->text, label);
    if (item >= 0) {
        track_text_put(&lines->text, "[");
        track_text_put_int(&lines->text, item);
        track_text_put(&lines->text, "]");
    }
    track_text_put(&lines->text, " ");
    track_put_new(lines->log, &lines->text, NULL, 0, value, lines->is_colored);
    add_line(lines, branch);
    record_call(lines->log, field(lines, SITE_NAME), lines->log->output, item, value);
}

/* Longer results are one line. */
enum { MOST_OUTPUTS = 25 };

static void add_outputs(call_lines *lines, PyObject *label, PyObject *value, tt_branch last)
{
    bool is_sequence = PyTuple_Check(value) || PyList_Check(value);
    Py_ssize_t count = is_sequence ? PySequence_Fast_GET_SIZE(value) : 0;
    if (count == 0 || count > MOST_OUTPUTS) {
        add_output(lines, label, -1, value, last);
        return;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++) {  /* a repr may change the list */
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(value, i)); /* owned */
        add_output(lines, label, i, item, i < count - 1 ? TT_BRANCH_ENTRY : last);
        Py_DECREF(item);
    }
}

/* "time Class.method: 0.0123 s" */
static void add_time(call_lines *lines, double seconds)
{
    int64_t units = (int64_t)(seconds * 1e4 + 0.5);
    char digits[] = ".0000 s";
    track_text_put_str(&lines->text, field(lines, SITE_TIME));
    track_text_put_int(&lines->text, units / 10000);
    for (int64_t i = 4, left = units % 10000; i > 0; i--, left /= 10)
        digits[i] = (char)('0' + left % 10);
    track_text_put(&lines->text, digits);
    add_line(lines, TT_BRANCH_LAST);
    record_seconds(lines->log, field(lines, SITE_NAME), seconds);
}

/* room: of TEXT_ROOM bytes, for the text */
static call_lines lines_of(PyObject *self, PyObject *site, long depth, char *room)
{
    track_log *log = (track_log *)self;
    return (call_lines){ .log = log,
                         .site = site,
                         .depth = depth,
                         .is_colored = track_log_is_colored(log),
                         .text = { .data = room, .cap = TEXT_ROOM, .is_lent = true },
                         .out = track_log_take_buf(log),
                         .st = TT_OK };
}

/* NULL: an exception that is no Exception (Ctrl-C) is set. */
static PyObject *finish(call_lines *lines)
{
    track_text_free(&lines->text);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear(); /* of a run that was closed, a name that is no text */
    if (PyErr_Occurred()) {
        tt_buf_free(&lines->out);
        return NULL;
    }
    return track_log_emit_buf(lines->log, lines->st, &lines->out) < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- calls --------------------------------------------------------------------- */

/* Ticks of 0.1 µs and the depth to come back to, in one number. */
enum { DEPTH_BITS = 12, DEPTH_MASK = (1 << DEPTH_BITS) - 1 };

static int64_t ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 10000000 + now.tv_nsec / 100;
}

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

/* Checks the number of arguments and the site; reads the token behind it, and the seconds, which are
 * the last argument (None: since the token was made).  -1: TypeError. */
static int check(const char *name, PyObject *const *args, Py_ssize_t nargs, Py_ssize_t wanted,
                 int64_t *token, double *seconds)
{
    if (nargs != wanted || !is_site(args[0])) {
        PyErr_Format(PyExc_TypeError, "%s() takes a site and %zd more arguments", name, wanted - 1);
        return -1;
    }
    if (token != NULL)
        *token = PyLong_AsLongLong(args[1]);
    if (seconds != NULL && !PyErr_Occurred())
        *seconds = args[nargs - 1] == Py_None ? (double)(ticks() - (*token >> DEPTH_BITS)) / 1e7
                                              : PyFloat_AsDouble(args[nargs - 1]);
    return PyErr_Occurred() ? -1 : 0;
}

/* The arguments that the call left at their default. */
static void add_defaults(call_lines *lines, Py_ssize_t given, PyObject *kwargs)
{
    PyObject *defaults = field(lines, SITE_DEFAULTS); /* borrowed */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(defaults); i++) {
        PyObject *name, *value; /* borrowed */
        Py_ssize_t position;
        if (PyArg_ParseTuple(PyTuple_GET_ITEM(defaults, i), "UnO", &name, &position, &value) &&
            (position < 0 || position >= given) &&
            (kwargs == NULL || PyDict_GetItemWithError(kwargs, name) == NULL))
            add_input(lines, name, value);
    }
}

PyObject *track_call_begin(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (check("begin", args, nargs, 3, NULL, NULL) < 0)
        return NULL;
    if (!PyTuple_Check(args[1]) || !PyDict_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "begin() takes *args and **kwargs of a call");
        return NULL;
    }
    long depth = track_log_depth();
    char room[TEXT_ROOM];
    call_lines lines = lines_of(self, args[0], depth, room);
    PyObject *names = field(&lines, SITE_NAMES); /* borrowed */
    Py_ssize_t named = PyTuple_GET_SIZE(names), count = PyTuple_GET_SIZE(args[1]);
    track_text_put_str(&lines.text, field(&lines, SITE_HEAD));
    put_callers(&lines.text, lines.log);
    add_line(&lines, TT_BRANCH_CALL);
    for (Py_ssize_t i = PyLong_AsSsize_t(field(&lines, SITE_FIRST)); i < count; i++) {
        PyObject *name =
            i < named ? Py_NewRef(PyTuple_GET_ITEM(names, i))
                      : PyUnicode_FromFormat("%U[%zd]", field(&lines, SITE_REST), i - named); /* owned */
        if (name != NULL)
            add_input(&lines, name, PyTuple_GET_ITEM(args[1], i));
        Py_XDECREF(name);
    }
    PyObject *name, *value; /* borrowed: **kwargs of the wrapper, nobody else's */
    Py_ssize_t position = 0;
    while (PyDict_Next(args[2], &position, &name, &value))
        add_input(&lines, name, value);
    add_defaults(&lines, count, args[2]);
    PyObject *done = finish(&lines); /* owned */
    if (done == NULL)
        return NULL;
    Py_DECREF(done);
    track_log_set_depth(depth + 1);
    return PyLong_FromLongLong(ticks() << DEPTH_BITS | (depth < DEPTH_MASK ? depth : DEPTH_MASK));
}

PyObject *track_call_end(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t token = 0;
    double seconds = 0;
    char room[TEXT_ROOM];
    if (check("end", args, nargs, 4, &token, &seconds) < 0)
        return NULL;
    call_lines lines = lines_of(self, args[0], (long)(token & DEPTH_MASK), room);
    track_log_set_depth(lines.depth);
    add_outputs(&lines, field(&lines, SITE_OUTPUT), args[2], TT_BRANCH_LAST);
    add_time(&lines, seconds);
    return finish(&lines);
}

PyObject *track_call_stop(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t token = 0;
    double seconds = 0;
    char room[TEXT_ROOM];
    if (check("stop", args, nargs, 5, &token, &seconds) < 0)
        return NULL;
    call_lines lines = lines_of(self, args[0], (long)(token & DEPTH_MASK), room);
    track_log_set_depth(lines.depth);
    track_text_put_str(&lines.text, field(&lines, SITE_OUTPUT));
    track_text_put(&lines.text, " ");
    if (args[2] != Py_None) {
        track_text_put(&lines.text, "raised ");
        track_text_put_ink(&lines.text, INK_ALARM, lines.is_colored);
        track_text_put_str(&lines.text, args[2]);
        track_text_put_ink(&lines.text, INK_PLAIN, lines.is_colored);
        track_text_put(&lines.text, ": ");
    }
    track_text_put_str(&lines.text, args[3]);
    add_line(&lines, TT_BRANCH_LAST);
    add_time(&lines, seconds);
    return finish(&lines);
}

PyObject *track_call_yields(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t token = 0;
    char room[TEXT_ROOM];
    if (check("yields", args, nargs, 3, &token, NULL) < 0)
        return NULL;
    call_lines lines = lines_of(self, args[0], (long)(token & DEPTH_MASK), room);
    PyObject *label = PyUnicode_FromString("yield"); /* owned */
    if (label != NULL)
        add_outputs(&lines, label, args[2], TT_BRANCH_ENTRY);
    Py_XDECREF(label);
    return finish(&lines);
}
