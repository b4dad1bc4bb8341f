/* value.c -- a value as the text of a line of the tree.
 * SPDX-License-Identifier: Apache-2.0 */
#include "track/engine.h"

#include <string.h>

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
