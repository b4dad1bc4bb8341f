/* call.c -- the lines that open and end a decorated call.
 *
 * Exists so that a call costs microseconds: the whole text of its start, and of
 * its end, is made and written in one go.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/frame.h"
#include "runs/open_run.h"
#include "track/engine.h"

#include <string.h>

/* ---- who called --------------------------------------------------------------- */

/* The nearest frame from `at` outwards that is not tensortap's own. */
static base_frame *find_user(base_frame *at, binding_state *state)
{
    while (at != NULL && binding_owner_of(state, base_frame_code(at)) == BINDING_OWNER_OURS)
        at = base_frame_back(at);
    return at;
}

base_frame *track_call_user_frame(binding_state *state)
{
    return find_user(base_frame_running(), state);
}

/* The two frames by which torch calls every forward: they would take the places of
 * the callers that matter. */
static bool is_module_call(PyCodeObject *code)
{
    static const char tail[] = "/torch/nn/modules/module.py";
    Py_ssize_t len = 0;
    const char *path = PyUnicode_AsUTF8AndSize(code->co_filename, &len);
    PyErr_Clear();
    return path != NULL && len >= (Py_ssize_t)strlen(tail) &&
           strcmp(path + len - strlen(tail), tail) == 0;
}

static base_frame *find_caller(base_frame *at, binding_state *state)
{
    while ((at = find_user(at, state)) != NULL && is_module_call(base_frame_code(at)))
        at = base_frame_back(at);
    return at;
}

static int line_of(base_frame *at)
{
    return PyCode_Addr2Line(base_frame_code(at), base_frame_instruction(at) * CODE_UNIT);
}

const char *track_call_file(base_frame *at)
{
    const char *path = PyUnicode_AsUTF8(base_frame_code(at)->co_filename);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    PyErr_Clear();
    return slash != NULL ? slash + 1 : path != NULL ? path : "?";
}

/* "caller:34 (file.py:34 <- loop.py:8 <- main.py:3)" */
static void put_callers(tt_buf *text, track_log *log)
{
    base_frame *at = find_caller(base_frame_running(), log->state);
    if (at == NULL) {
        (void)tt_buf_text(text, "?");
        return;
    }
    track_put_str(text, base_frame_code(at)->co_name);
    (void)tt_buf_text(text, ":");
    (void)tt_buf_int(text, line_of(at));
    for (int i = 0; i < 3 && at != NULL; i++, at = find_caller(base_frame_back(at), log->state)) {
        (void)tt_buf_text(text, i > 0 ? " <- " : " (");
        (void)tt_buf_text(text, track_call_file(at));
        (void)tt_buf_text(text, ":");
        (void)tt_buf_int(text, line_of(at));
    }
    (void)tt_buf_text(text, ")");
}

PyObject *track_call_stack(PyObject *self, PyObject *Py_UNUSED(none))
{
    binding_state *state = ((track_log *)self)->state;
    PyObject *rows = PyList_New(0); /* owned */
    base_frame *at = find_user(base_frame_running(), state);
    for (; at != NULL && rows != NULL; at = find_user(base_frame_back(at), state)) {
        PyCodeObject *code = base_frame_code(at);
        binding_list_add(&rows, Py_BuildValue("(OOi)", code->co_name, code->co_filename, line_of(at)));
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
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    if (name != NULL)
        (void)runs_put(log->state, name, value);
    Py_XDECREF(name);
    PyErr_SetRaisedException(pending);
}

static bool is_wanted(const track_log *log, PyObject *value)
{
    return runs_open_run(log->state) != NULL &&
           (PyFloat_Check(value) || PyLong_Check(value) ||
            tensor_kind_has_elements(tensor_kind_of(&log->state->torch, value)));
}

/* name NULL: an output */
static void record_call(track_log *log, PyObject *function, PyObject *name, Py_ssize_t item,
                        PyObject *value)
{
    if (!is_wanted(log, value))
        return;
    record(log,
           item < 0 ? PyUnicode_FromFormat("call/%S/%V", function, name, "output")
                    : PyUnicode_FromFormat("call/%S/output[%zd]", function, item),
           value);
}

static void record_seconds(track_log *log, PyObject *function, double seconds)
{
    if (runs_open_run(log->state) == NULL)
        return;
    PyObject *value = PyFloat_FromDouble(seconds); /* owned */
    if (value != NULL)
        record(log, PyUnicode_FromFormat("call/%S/time", function), value);
    Py_XDECREF(value);
}

void track_record_change(track_log *log, uint64_t key, PyObject *file, long line, PyObject *name,
                         PyObject *value)
{
    if (!is_wanted(log, value) || !PyUnicode_Check(file))
        return;
    const runs_change change = { .key = key, .file = file, .name = name, .line = line };
    PyObject *pending = PyErr_GetRaisedException(); /* owned */
    (void)runs_put_change(log->state, &change, value);
    PyErr_SetRaisedException(pending); /* what failed in between is forgotten */
}

/* ---- lines --------------------------------------------------------------------- */

/* What is known of a function: a tuple that calls.py makes. */
typedef enum call_site {
    SITE_NAME, /* "Class.method" */
    SITE_HEAD, /* "[file.py:12] function [Class.method] called at " */
    SITE_INPUT,
    SITE_OUTPUT,
    SITE_TIME,     /* words; the last with the name behind it */
    SITE_REST,     /* name of *args */
    SITE_NAMES,    /* of the positional parameters */
    SITE_FIRST,    /* arguments to leave out: self */
    SITE_DEFAULTS, /* tuple of (name, its position or -1, value) */
    SITE_FIELDS,
} call_site;

/* Checks it where a wrong one would crash: parsing it all takes as long as a line. */
static int check_site(PyObject *site, void *out)
{
    if (!PyTuple_Check(site) || PyTuple_GET_SIZE(site) != SITE_FIELDS ||
        !PyTuple_Check(PyTuple_GET_ITEM(site, SITE_NAMES)) ||
        !PyLong_Check(PyTuple_GET_ITEM(site, SITE_FIRST)) ||
        !PyTuple_Check(PyTuple_GET_ITEM(site, SITE_DEFAULTS))) {
        PyErr_SetString(PyExc_TypeError, "the first argument must be what calls.py knows of a function");
        return 0;
    }
    *(PyObject **)out = site;
    return 1;
}

/* What the lines of one call have in common. */
typedef struct call_lines {
    track_log *log;
    PyObject *site; /* borrowed; see call_site */
    long depth;
    bool is_colored;
    tt_buf text; /* owned; of the line that is being made */
    tt_buf out;  /* owned; lines so far */
} call_lines;

static PyObject *field(const call_lines *lines, call_site which)
{
    return PyTuple_GET_ITEM(lines->site, which);
}

static void add_line(call_lines *lines, tt_branch branch)
{
    track_put_branch(&lines->out, lines->depth, branch, &lines->text, lines->is_colored);
    tt_buf_clear(&lines->text);
}

/* "input [Tensor] x@0 → ..." */
static void add_input(call_lines *lines, PyObject *name, PyObject *value)
{
    track_put_str(&lines->text, field(lines, SITE_INPUT));
    (void)tt_buf_text(&lines->text, " ");
    track_put_new(lines->log, &lines->text, name, 0, value, lines->is_colored);
    add_line(lines, TT_BRANCH_ENTRY);
    record_call(lines->log, field(lines, SITE_NAME), name, -1, value);
}

/* "output[1] shape=...", item -1: "output shape=..." */
static void add_output(call_lines *lines, PyObject *label, Py_ssize_t item, PyObject *value,
                       tt_branch branch)
{
    track_put_str(&lines->text, label);
    if (item >= 0)
        (void)tt_buf_printf(&lines->text, "[%zd]", item);
    (void)tt_buf_text(&lines->text, " ");
    track_put_new(lines->log, &lines->text, NULL, 0, value, lines->is_colored);
    add_line(lines, branch);
    record_call(lines->log, field(lines, SITE_NAME), NULL, item, value);
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

/* NULL: an exception that is no Exception (Ctrl-C) is set. */
static PyObject *finish(call_lines *lines)
{
    tt_buf_free(&lines->text);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear(); /* of a run that was closed, a name that is no text */
    if (PyErr_Occurred()) {
        tt_buf_free(&lines->out);
        return NULL;
    }
    return track_log_emit(lines->log, &lines->out) < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- calls --------------------------------------------------------------------- */

/* Ticks of 0.1 µs and the depth to come back to, in one number. */
enum { DEPTH_BITS = 12, DEPTH_MASK = (1 << DEPTH_BITS) - 1 };

static int64_t ticks(void)
{
    return base_clock(CLOCK_MONOTONIC) / 100;
}

/* The lines of a call that begin() has opened. */
static call_lines lines_of(PyObject *self, PyObject *site, long long token)
{
    track_log *log = (track_log *)self;
    return (call_lines){ .log = log,
                         .site = site,
                         .depth = (long)(token & DEPTH_MASK),
                         .is_colored = track_log_is_colored(log) };
}

/* "time Class.method: 0.0123 s", the last line.  seconds: None: since the token was made. */
static PyObject *end_with_time(call_lines *lines, long long token, PyObject *seconds)
{
    double time =
        seconds == Py_None ? (double)(ticks() - (token >> DEPTH_BITS)) / 1e7 : PyFloat_AsDouble(seconds);
    char fraction[] = ".0000 s";
    int64_t units = (int64_t)(time * 1e4 + 0.5);
    for (int64_t i = 4, left = units % 10000; i > 0; i--, left /= 10)
        fraction[i] = (char)('0' + left % 10);
    track_put_str(&lines->text, field(lines, SITE_TIME));
    (void)tt_buf_int(&lines->text, units / 10000);
    (void)tt_buf_text(&lines->text, fraction);
    add_line(lines, TT_BRANCH_LAST);
    record_seconds(lines->log, field(lines, SITE_NAME), time);
    return finish(lines);
}

/* The arguments that the call left at their default. */
static void add_defaults(call_lines *lines, Py_ssize_t given, PyObject *kwargs)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(field(lines, SITE_DEFAULTS)); i++) {
        PyObject *name, *value; /* borrowed */
        Py_ssize_t position;
        if (PyArg_ParseTuple(PyTuple_GET_ITEM(field(lines, SITE_DEFAULTS), i), "UnO", &name, &position,
                             &value) &&
            (position < 0 || position >= given) && PyDict_GetItemWithError(kwargs, name) == NULL)
            add_input(lines, name, value);
    }
}

PyObject *track_call_begin(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *site; /* borrowed */
    long depth = track_log_depth();
    if (nargs != 3 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "begin() takes a site, a tuple and a dict");
    if (!check_site(args[0], &site))
        return NULL;
    PyObject *given = args[1], *kwargs = args[2]; /* borrowed: those of the wrapper, nobody else's */
    call_lines lines = lines_of(self, site, depth < DEPTH_MASK ? depth : DEPTH_MASK);
    Py_ssize_t named = PyTuple_GET_SIZE(field(&lines, SITE_NAMES)), count = PyTuple_GET_SIZE(given);
    track_put_str(&lines.text, field(&lines, SITE_HEAD));
    put_callers(&lines.text, lines.log);
    add_line(&lines, TT_BRANCH_CALL);
    for (Py_ssize_t i = PyLong_AsSsize_t(field(&lines, SITE_FIRST)); i < count; i++) {
        PyObject *name =
            i < named ? Py_NewRef(PyTuple_GET_ITEM(field(&lines, SITE_NAMES), i))
                      : PyUnicode_FromFormat("%S[%zd]", field(&lines, SITE_REST), i - named); /* owned */
        if (name != NULL)
            add_input(&lines, name, PyTuple_GET_ITEM(given, i));
        Py_XDECREF(name);
    }
    PyObject *name, *value; /* borrowed */
    Py_ssize_t position = 0;
    while (PyDict_Next(kwargs, &position, &name, &value))
        add_input(&lines, name, value);
    add_defaults(&lines, count, kwargs);
    PyObject *done = finish(&lines); /* owned */
    if (done == NULL)
        return NULL;
    Py_DECREF(done);
    track_log_set_depth(depth + 1);
    return PyLong_FromLongLong(ticks() << DEPTH_BITS | lines.depth);
}

PyObject *track_call_end(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *site; /* borrowed */
    if (nargs != 4)
        return PyErr_Format(PyExc_TypeError, "end() takes a site, a token, a value and seconds");
    long long token = PyLong_AsLongLong(args[1]);
    if ((token == -1 && PyErr_Occurred()) || !check_site(args[0], &site))
        return NULL;
    call_lines lines = lines_of(self, site, token);
    track_log_set_depth(lines.depth);
    add_outputs(&lines, field(&lines, SITE_OUTPUT), args[2], TT_BRANCH_LAST);
    return end_with_time(&lines, token, args[3]);
}

PyObject *track_call_stop(PyObject *self, PyObject *args)
{
    PyObject *site, *kind, *why, *seconds; /* borrowed */
    long long token;
    if (!PyArg_ParseTuple(args, "O&LOUO:stop", check_site, &site, &token, &kind, &why, &seconds))
        return NULL;
    call_lines lines = lines_of(self, site, token);
    track_log_set_depth(lines.depth);
    track_put_str(&lines.text, field(&lines, SITE_OUTPUT));
    (void)tt_buf_text(&lines.text, " ");
    if (kind != Py_None) {
        (void)tt_buf_text(&lines.text, "raised ");
        track_put_mood(&lines.text, TT_MOOD_ALARM, lines.is_colored);
        track_put_str(&lines.text, kind);
        track_put_mood(&lines.text, TT_MOOD_PLAIN, lines.is_colored);
        (void)tt_buf_text(&lines.text, ": ");
    }
    track_put_str(&lines.text, why);
    add_line(&lines, TT_BRANCH_LAST);
    return end_with_time(&lines, token, seconds);
}

PyObject *track_call_yields(PyObject *self, PyObject *args)
{
    PyObject *site, *label, *value; /* borrowed */
    long long token;
    if (!PyArg_ParseTuple(args, "O&LUO:yields", check_site, &site, &token, &label, &value))
        return NULL;
    call_lines lines = lines_of(self, site, token);
    add_outputs(&lines, label, value, TT_BRANCH_ENTRY);
    return finish(&lines);
}
