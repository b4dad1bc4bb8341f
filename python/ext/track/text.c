/* text.c -- a line of the log while it is put together, and values as text.
 *
 * Exists because a log line is a dozen small pieces, and the core's buffers are
 * not part of its interface.  Running out of memory is noted once, at the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"
#include "track/engine.h"

#include <stdlib.h>

/* Guides beyond this depth leave no room for the text: the rest is a number. */
enum { DEEPEST = 10 };

void track_text_put_slowly(track_text *text, const char *bytes, size_t len)
{
    if (text->has_failed)
        return;
    size_t cap = (text->len + len + 1) * 2 + 256;
    char *data = PyMem_Realloc(text->is_lent ? NULL : text->data, cap);
    if (data == NULL) {
        text->has_failed = true;
        text->cap = 0;
        return;
    }
    if (text->is_lent)
        memcpy(data, text->data, text->len);
    text->is_lent = false;
    text->data = data;
    text->cap = cap;
    track_text_put_bytes(text, bytes, len);
}

void track_text_put_int(track_text *text, long long number)
{
    char digits[24];
    unsigned long long left = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) != 0);
    if (number < 0)
        digits[--at] = '-';
    track_text_put_bytes(text, digits + at, sizeof digits - at);
}

void track_text_put_number(track_text *text, double number)
{
    char digits[TT_NUMBER_TEXT];
    track_text_put_bytes(text, digits, tt_number_short(number, digits));
}

void track_text_put_str(track_text *text, PyObject *str)
{
    Py_ssize_t len = 0;
    const char *bytes = str != NULL && PyUnicode_Check(str) ? PyUnicode_AsUTF8AndSize(str, &len) : NULL;
    if (bytes != NULL) {
        track_text_put_bytes(text, bytes, (size_t)len);
        return;
    }
    PyErr_Clear(); /* a lone surrogate: as the core would show it */
    PyObject *safe = str != NULL && PyUnicode_Check(str)
                         ? PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace")
                         : NULL; /* owned */
    if (safe != NULL)
        track_text_put_bytes(text, PyBytes_AS_STRING(safe), (size_t)PyBytes_GET_SIZE(safe));
    PyErr_Clear();
    Py_XDECREF(safe);
}

void track_text_put_ink(track_text *text, track_ink ink, bool is_colored)
{
    static const char *const codes[] = {
        [INK_PLAIN] = "\x1b[0m",   [INK_FAINT] = "\x1b[2m",    [INK_NAME] = "\x1b[36m",
        [INK_CHANGE] = "\x1b[33m", [INK_ALARM] = "\x1b[1;31m",
    };
    if (is_colored)
        track_text_put(text, codes[ink]);
}

void track_text_free(track_text *text)
{
    if (!text->is_lent)
        PyMem_Free(text->data);
    *text = (track_text){ 0 };
}

/* The interface of the core's buffers has no append. */
static tt_status reserve(tt_buf *out, size_t more)
{
    if (out->cap >= out->len + more)
        return TT_OK;
    size_t cap = out->len * 2 + more;
    char *data = realloc(out->data, cap);
    if (data == NULL)
        return TT_ENOMEM;
    out->data = data;
    out->cap = cap;
    return TT_OK;
}

tt_status track_text_branch(tt_buf *out, long depth, tt_branch branch, const track_text *text,
                            bool is_colored)
{
    tt_style style = { .is_colored = is_colored };
    track_text deep = { 0 };
    const char *bytes = text->len > 0 ? text->data : "";
    if (text->has_failed)
        return TT_ENOMEM;
    if (depth > DEEPEST) {
        track_text_put(&deep, "+");
        track_text_put_int(&deep, depth - DEEPEST);
        track_text_put(&deep, " ");
        track_text_put(&deep, bytes);
        bytes = deep.data != NULL ? deep.data : bytes;
        depth = DEEPEST;
    }
    tt_status st = reserve(out, TEXT_ROOM);
    if (st == TT_OK)
        st = tt_tree_line((int32_t)(depth < 0 ? 0 : depth), branch, bytes, &style, out);
    if (st == TT_OK)
        st = reserve(out, 2);
    if (st == TT_OK)
        memcpy(out->data + out->len++, "\n", 2);
    track_text_free(&deep);
    return st;
}

/* ---- values ------------------------------------------------------------------ */

static void put_shape(track_text *text, const track_description *one)
{
    if (one->ndim < 0) {
        track_text_put(text, "shape=?");
        return;
    }
    track_text_put(text, one->seen.kind == KIND_TORCH ? "shape=torch.Size([" : "shape=(");
    for (int32_t d = 0; d < one->ndim; d++) {
        if (d > 0)
            track_text_put(text, ", ");
        track_text_put_int(text, one->shape[d]);
    }
    track_text_put(text, one->seen.kind == KIND_TORCH ? "])" : one->ndim == 1 ? ",)" : ")");
}

static void put_count(track_text *text, int64_t count, const char *word, bool is_colored)
{
    if (count == 0)
        return;
    track_text_put(text, " ");
    track_text_put_ink(text, INK_ALARM, is_colored);
    track_text_put_int(text, count);
    track_text_put(text, word);
    track_text_put_ink(text, INK_PLAIN, is_colored);
}

static void put_stats(track_text *text, const tt_stats *stats, bool is_colored)
{
    if (stats->count == 0) {
        track_text_put(text, " | empty");
        return;
    }
    const struct {
        const char *name;
        double value;
    } fields[] = { { " | mean=", stats->mean },
                   { " std=", tt_stats_std(stats) },
                   { " min=", stats->min },
                   { " max=", stats->max } };
    if (tt_stats_finite(stats) == 1 && stats->count == 1) {
        track_text_put(text, " | value=");
        track_text_put_number(text, stats->mean);
    } else if (tt_stats_finite(stats) > 0) {
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            if (i == 1 && fields[i].value != fields[i].value)
                continue; /* one finite value has no deviation */
            track_text_put(text, fields[i].name);
            track_text_put_number(text, fields[i].value);
        }
    }
    if (stats->nan + stats->posinf + stats->neginf > 0)
        track_text_put(text, " |");
    put_count(text, stats->nan, " NaN", is_colored);
    put_count(text, stats->posinf, " Inf", is_colored);
    put_count(text, stats->neginf, " -Inf", is_colored);
}

/* A field that changed has the colour of changes. */
static bool begin_field(track_text *text, const track_description *one, unsigned field, bool is_colored)
{
    bool is_marked = is_colored && (one->changed & field) != 0;
    track_text_put_ink(text, INK_CHANGE, is_marked);
    return is_marked;
}

static void put_tensor(track_text *text, const track_description *one, bool is_colored)
{
    bool is_marked = begin_field(text, one, CHANGED_SHAPE, is_colored);
    put_shape(text, one);
    track_text_put_ink(text, INK_PLAIN, is_marked);
    track_text_put(text, " | ");
    is_marked = begin_field(text, one, CHANGED_DTYPE, is_colored);
    track_text_put(text, one->seen.kind == KIND_TORCH ? "dtype=torch." : "dtype=");
    track_text_put(text, one->dtype[0] != '\0' ? one->dtype : "?");
    track_text_put_ink(text, INK_PLAIN, is_marked);
    if (one->device[0] != '\0' || (one->changed & CHANGED_DEVICE) != 0) {
        track_text_put(text, " | ");
        is_marked = begin_field(text, one, CHANGED_DEVICE, is_colored);
        track_text_put(text, "device=");
        track_text_put(text, one->device[0] != '\0' ? one->device : "cpu");
        track_text_put_ink(text, INK_PLAIN, is_marked);
    }
    if (one->has_stats)
        put_stats(text, &one->stats, is_colored);
}

/* Containers, texts and objects of the user's: rendering.py knows how long they may get. */
static void put_object(track_log *log, track_text *text, PyObject *obj)
{
    PyObject *made = NULL; /* owned */
    if (PyLong_CheckExact(obj) || PyFloat_CheckExact(obj) || PyBool_Check(obj) || obj == Py_None) {
        made = PyObject_Repr(obj);
        if (made != NULL && PyUnicode_GET_LENGTH(made) < 60) {
            track_text_put(text, "value: ");
            track_text_put_str(text, made);
            Py_DECREF(made);
            return;
        }
        PyErr_Clear();
        Py_CLEAR(made);
    }
    made = PyObject_CallOneArg(log->render, obj);
    if (made != NULL)
        track_text_put_str(text, made);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    Py_XDECREF(made);
}

void track_put_value(track_log *log, track_text *text, PyObject *name, long line,
                     const track_description *one, PyObject *obj, bool is_colored)
{
    bool is_tensor = track_is_tensor(one);
    if (name != NULL) {
        track_text_put(text, is_tensor ? "[Tensor] " : "[Var] ");
        track_text_put_ink(text, INK_NAME, is_colored);
        track_text_put_str(text, name);
        track_text_put_ink(text, INK_PLAIN, is_colored);
        track_text_put(text, "@");
        track_text_put_int(text, line);
        track_text_put(text, is_tensor ? " → " : " ");
    }
    if (is_tensor)
        put_tensor(text, one, is_colored);
    else
        put_object(log, text, obj);
}

void track_put_new(track_log *log, track_text *text, PyObject *name, long line, PyObject *obj,
                   bool is_colored)
{
    track_description now;
    track_describe(log->state, obj, false, &now);
    track_put_value(log, text, name, line, &now, obj, is_colored);
    track_description_clear(&now);
}
