/* track_line.c -- values, calls and results as lines of the tree.
 *
 * Exists so that a decorated call costs microseconds: the whole text of its
 * start, and of its end, is made in one go.
 * SPDX-License-Identifier: Apache-2.0 */
#include "locals.h"
#include "track.h"

#include <string.h>

/* ---- values ------------------------------------------------------------------ */

static void put_shape(track_text *text, const track_sight *sight)
{
    if (sight->ndim < 0) {
        text_put(text, "shape=?");
        return;
    }
    text_put(text, sight->is_torch ? "shape=torch.Size([" : "shape=(");
    for (int32_t d = 0; d < sight->ndim; d++) {
        if (d > 0)
            text_put(text, ", ");
        text_put_int(text, sight->shape[d]);
    }
    text_put(text, sight->is_torch ? "])" : sight->ndim == 1 ? ",)" : ")");
}

static void put_count(track_text *text, int64_t count, const char *word, bool is_colored)
{
    if (count == 0)
        return;
    text_put(text, " ");
    text_put_ink(text, INK_ALARM, is_colored);
    text_put_int(text, count);
    text_put(text, word);
    text_put_ink(text, INK_PLAIN, is_colored);
}

static void put_stats(track_text *text, const tt_stats *stats, bool is_colored)
{
    if (stats->count == 0) {
        text_put(text, " | empty");
        return;
    }
    const struct {
        const char *name;
        double value;
    } fields[] = { { " | mean=", stats->mean }, { " std=", tt_stats_std(stats) },
                   { " min=", stats->min }, { " max=", stats->max } };
    if (tt_stats_finite(stats) == 1 && stats->count == 1) {
        text_put(text, " | value=");
        text_put_number(text, stats->mean);
    } else if (tt_stats_finite(stats) > 0) {
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            if (i == 1 && fields[i].value != fields[i].value)
                continue; /* one finite value has no deviation */
            text_put(text, fields[i].name);
            text_put_number(text, fields[i].value);
        }
    }
    if (stats->nan + stats->posinf + stats->neginf > 0)
        text_put(text, " |");
    put_count(text, stats->nan, " NaN", is_colored);
    put_count(text, stats->posinf, " Inf", is_colored);
    put_count(text, stats->neginf, " -Inf", is_colored);
}

static void put_tensor(track_text *text, const track_sight *sight, bool is_colored)
{
    put_shape(text, sight);
    text_put(text, sight->is_torch ? " | dtype=torch." : " | dtype=");
    text_put(text, sight->dtype[0] != '\0' ? sight->dtype : "?");
    if (sight->device[0] != '\0') {
        text_put(text, " | device=");
        text_put(text, sight->device);
    }
    if (sight->has_stats)
        put_stats(text, &sight->stats, is_colored);
}

/* Containers, texts and objects of the user's: rendering.py knows how long they may get. */
static void put_object(track_text *text, PyObject *obj)
{
    PyObject *module = NULL, *made = NULL; /* owned */
    if (PyLong_CheckExact(obj) || PyFloat_CheckExact(obj) || PyBool_Check(obj) || obj == Py_None) {
        made = PyObject_Repr(obj);
        if (made != NULL && PyUnicode_GET_LENGTH(made) < 60) {
            text_put(text, "value: ");
            text_put_str(text, made);
            Py_DECREF(made);
            return;
        }
        PyErr_Clear();
        Py_CLEAR(made);
    }
    module = PyImport_ImportModule("tensortap.track.rendering");
    made = module != NULL ? PyObject_CallMethod(module, "value_text", "O", obj) : NULL;
    if (made != NULL)
        text_put_str(text, made);
    PyErr_Clear();
    Py_XDECREF(made);
    Py_XDECREF(module);
}

void line_put_value(track_text *text, PyObject *name, long line, const track_sight *sight, PyObject *obj,
                    bool is_colored)
{
    bool is_tensor = sight->kind == SIGHT_TENSOR;
    if (name != NULL) {
        text_put(text, is_tensor ? "[Tensor] " : "[Var] ");
        text_put_ink(text, INK_NAME, is_colored);
        text_put_str(text, name);
        text_put_ink(text, INK_PLAIN, is_colored);
        text_put(text, "@");
        text_put_int(text, line);
        text_put(text, is_tensor ? " → " : " ");
    }
    if (is_tensor)
        put_tensor(text, sight, is_colored);
    else
        put_object(text, obj);
}

static void put_new_value(core_state *state, track_text *text, PyObject *name, long line, PyObject *obj,
                          bool is_colored)
{
    track_sight sight;
    sight_take(state, obj, false, &sight);
    line_put_value(text, name, line, &sight, obj, is_colored);
    sight_forget(&sight);
}

/* track_value(prefix, name, value, line, color) -> str */
CORE_FUNCTION(core_track_value)
{
    const option none[] = { { 0 } };
    track_text text = { 0 };
    if (read_arguments("track_value", 5, none, args, nargs, kwnames) < 0)
        return NULL;
    long line = PyLong_AsLong(args[3]);
    if (line == -1 && PyErr_Occurred())
        return NULL;
    text_put_str(&text, args[0]);
    put_new_value(core_state_of(module), &text, args[1] == Py_None ? NULL : args[1], line, args[2],
                  args[4] == Py_True);
    PyObject *result = PyUnicode_DecodeUTF8(text.data != NULL ? text.data : "", (Py_ssize_t)text.len, "replace");
    text_free(&text);
    return result;
}

/* track_branch(depth, branch, text, color) -> str; branch 0: ┌──, 1: ├─, 2: └─ */
CORE_FUNCTION(core_track_branch)
{
    const option none[] = { { 0 } };
    track_text text = { 0 };
    tt_buf out = { 0 };
    (void)module;
    if (read_arguments("track_branch", 4, none, args, nargs, kwnames) < 0)
        return NULL;
    long depth = PyLong_AsLong(args[0]), branch = PyLong_AsLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    text_put_str(&text, args[2]);
    tt_branch kind = branch == 0 ? TT_BRANCH_CALL : branch == 1 ? TT_BRANCH_ENTRY : TT_BRANCH_LAST;
    tt_status st = text_branch(&out, depth, kind, &text, args[3] == Py_True);
    text_free(&text);
    return text_result(st, &out);
}

/* ---- who called --------------------------------------------------------------- */

/* The nearest frame from `at` outwards that is not tensortap's own. */
static line_frame *find_user(line_frame *at, PyObject *own)
{
    while (at != NULL && PyUnicode_Tailmatch(locals_code(at)->co_filename, own, 0, PY_SSIZE_T_MAX, -1) == 1)
        at = locals_back(at);
    return at;
}

static int line_of(line_frame *at)
{
    return PyCode_Addr2Line(locals_code(at), locals_instruction(at) * (int)sizeof(_Py_CODEUNIT));
}

static void put_place(track_text *text, line_frame *at)
{
    const char *path = PyUnicode_AsUTF8(locals_code(at)->co_filename);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    PyErr_Clear();
    text_put(text, slash != NULL ? slash + 1 : path != NULL ? path : "?");
    text_put(text, ":");
    text_put_int(text, line_of(at));
}

/* "caller:34 (file.py:34 <- loop.py:8 <- main.py:3)" */
static void put_callers(track_text *text, PyObject *own)
{
    line_frame *at = find_user(locals_running(), own);
    if (at == NULL) {
        text_put(text, "?");
        return;
    }
    text_put_str(text, locals_code(at)->co_name);
    text_put(text, ":");
    text_put_int(text, line_of(at));
    text_put(text, " (");
    for (int i = 0; i < 3 && at != NULL; i++, at = find_user(locals_back(at), own)) {
        if (i > 0)
            text_put(text, " <- ");
        put_place(text, at);
    }
    text_put(text, ")");
}

/* track_stack(own) -> [(function, file, line)], innermost first */
CORE_FUNCTION(core_track_stack)
{
    const option none[] = { { 0 } };
    (void)module;
    if (read_arguments("track_stack", 1, none, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "own must be the prefix of the files to leave out");
        return NULL;
    }
    PyObject *rows = PyList_New(0); /* owned */
    line_frame *at = find_user(locals_running(), args[0]);
    for (; at != NULL && rows != NULL; at = find_user(locals_back(at), args[0])) {
        PyCodeObject *code = locals_code(at);
        PyObject *row = Py_BuildValue("(OOi)", code->co_name, code->co_filename, line_of(at)); /* owned */
        if (row == NULL || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

/* ---- calls -------------------------------------------------------------------- */

static tt_status put_input(core_state *state, tt_buf *out, long depth, PyObject *label, PyObject *name,
                           PyObject *value, bool is_colored)
{
    track_text text = { 0 };
    text_put_str(&text, label);
    text_put(&text, " ");
    put_new_value(state, &text, name, 0, value, is_colored);
    tt_status st = text_branch(out, depth, TT_BRANCH_ENTRY, &text, is_colored);
    text_free(&text);
    return st;
}

/* Arguments beyond the names are of *args, "args[0]". */
static tt_status put_rest(core_state *state, tt_buf *out, long depth, PyObject *label, PyObject *rest, Py_ssize_t i,
                          PyObject *value, bool is_colored)
{
    PyObject *name = PyUnicode_FromFormat("%U[%zd]", rest, i); /* owned */
    if (name == NULL)
        return TT_ENOMEM;
    tt_status st = put_input(state, out, depth, label, name, value, is_colored);
    Py_DECREF(name);
    return st;
}

/* track_call(head, names, rest, args, kwargs, label, depth, color, own, first) -> str
 * names: of the positional parameters; rest: of *args; first: arguments to leave out. */
CORE_FUNCTION(core_track_call)
{
    const option none[] = { { 0 } };
    core_state *state = core_state_of(module);
    track_text text = { 0 };
    tt_buf out = { 0 };
    if (read_arguments("track_call", 10, none, args, nargs, kwnames) < 0)
        return NULL;
    PyObject *names = args[1], *rest = args[2], *values = args[3], *keywords = args[4], *label = args[5];
    long depth = PyLong_AsLong(args[6]), first = PyLong_AsLong(args[9]);
    bool is_colored = args[7] == Py_True;
    if (PyErr_Occurred())
        return NULL;
    if (!PyTuple_Check(names) || !PyTuple_Check(values) || !PyDict_Check(keywords) || !PyUnicode_Check(args[8]) ||
        !PyUnicode_Check(rest)) {
        PyErr_SetString(PyExc_TypeError, "track_call takes names, *args and **kwargs of a call");
        return NULL;
    }
    text_put_str(&text, args[0]);
    put_callers(&text, args[8]);
    tt_status st = text_branch(&out, depth, TT_BRANCH_CALL, &text, is_colored);
    for (Py_ssize_t i = first; st == TT_OK && i < PyTuple_GET_SIZE(values); i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i); /* borrowed */
        Py_ssize_t named = PyTuple_GET_SIZE(names);
        st = i < named ? put_input(state, &out, depth, label, PyTuple_GET_ITEM(names, i), value, is_colored)
                       : put_rest(state, &out, depth, label, rest, i - named, value, is_colored);
    }
    PyObject *name, *value; /* borrowed */
    Py_ssize_t position = 0;
    while (st == TT_OK && PyDict_Next(keywords, &position, &name, &value))
        st = put_input(state, &out, depth, label, name, value, is_colored);
    text_free(&text);
    return text_result(st, &out);
}

static tt_status put_output(core_state *state, tt_buf *out, long depth, PyObject *label, Py_ssize_t item,
                            PyObject *value, tt_branch branch, bool is_colored)
{
    track_text text = { 0 };
    text_put_str(&text, label);
    if (item >= 0) {
        text_put(&text, "[");
        text_put_int(&text, item);
        text_put(&text, "]");
    }
    text_put(&text, " ");
    put_new_value(state, &text, NULL, 0, value, is_colored);
    tt_status st = text_branch(out, depth, branch, &text, is_colored);
    text_free(&text);
    return st;
}

/* Longer results are one line. */
enum { MOST_OUTPUTS = 25 };

/* track_result(value, label, tail, depth, color) -> str; tail "": none, the value is
 * then an entry (of a generator) and not the last line. */
CORE_FUNCTION(core_track_result)
{
    const option none[] = { { 0 } };
    core_state *state = core_state_of(module);
    tt_buf out = { 0 };
    if (read_arguments("track_result", 5, none, args, nargs, kwnames) < 0)
        return NULL;
    PyObject *value = args[0], *label = args[1], *tail = args[2];
    long depth = PyLong_AsLong(args[3]);
    bool is_colored = args[4] == Py_True;
    if (PyErr_Occurred())
        return NULL;
    bool is_end = PyUnicode_Check(tail) && PyUnicode_GET_LENGTH(tail) > 0;
    bool is_sequence = PyTuple_Check(value) || PyList_Check(value);
    Py_ssize_t count = is_sequence ? PySequence_Fast_GET_SIZE(value) : 0;
    tt_branch last = is_end ? TT_BRANCH_LAST : TT_BRANCH_ENTRY;
    tt_status st = TT_OK;
    if (count > 0 && count <= MOST_OUTPUTS)
        for (Py_ssize_t i = 0; st == TT_OK && i < PySequence_Fast_GET_SIZE(value); i++)
            st = put_output(state, &out, depth, label, i, PySequence_Fast_GET_ITEM(value, i),
                            i < count - 1 ? TT_BRANCH_ENTRY : last, is_colored);
    else
        st = put_output(state, &out, depth, label, -1, value, last, is_colored);
    if (st == TT_OK && is_end) {
        track_text text = { 0 };
        text_put_str(&text, tail);
        st = text_branch(&out, depth, TT_BRANCH_LAST, &text, is_colored);
        text_free(&text);
    }
    return text_result(st, &out);
}
