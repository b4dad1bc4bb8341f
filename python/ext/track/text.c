/* text.c -- values as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "track/engine.h"

/* Guides beyond this depth leave no room for the text: the rest is a number. */
enum { DEEPEST = 10 };

void track_put_str(tt_buf *text, PyObject *str)
{
    Py_ssize_t len = 0;
    const char *bytes = str != NULL && PyUnicode_Check(str) ? PyUnicode_AsUTF8AndSize(str, &len) : NULL;
    if (bytes != NULL) {
        (void)tt_buf_append(text, bytes, (size_t)len);
        return;
    }
    PyErr_Clear(); /* a lone surrogate: as the core would show it */
    PyObject *safe = str != NULL && PyUnicode_Check(str)
                         ? PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace")
                         : NULL; /* owned */
    if (safe != NULL)
        (void)tt_buf_append(text, PyBytes_AS_STRING(safe), (size_t)PyBytes_GET_SIZE(safe));
    PyErr_Clear();
    Py_XDECREF(safe);
}

void track_put_mood(tt_buf *text, tt_mood mood, bool is_colored)
{
    if (is_colored)
        (void)tt_buf_text(text, tt_mood_code(mood));
}

void track_put_branch(tt_buf *out, long depth, tt_branch branch, const tt_buf *text, bool is_colored)
{
    const tt_style style = { .is_colored = is_colored };
    const char *words = text->data != NULL ? text->data : "";
    tt_buf deep = { 0 };
    if (depth > DEEPEST && tt_buf_printf(&deep, "+%ld %s", depth - DEEPEST, words) == TT_OK)
        words = deep.data;
    depth = depth < 0 ? 0 : depth > DEEPEST ? DEEPEST : depth;
    (void)tt_tree_line((int32_t)depth, branch, words, &style, out);
    (void)tt_buf_text(out, "\n");
    tt_buf_free(&deep);
}

/* ---- values ------------------------------------------------------------------ */

static void put_number(tt_buf *text, const char *name, double number)
{
    char digits[TT_NUMBER_TEXT];
    (void)tt_buf_text(text, name);
    (void)tt_buf_append(text, digits, tt_number_short(number, digits));
}

static void put_shape(tt_buf *text, const track_description *one)
{
    bool is_torch = one->seen.kind == KIND_TORCH;
    if (one->facts.ndim < 0) {
        (void)tt_buf_text(text, "shape=?");
        return;
    }
    (void)tt_buf_text(text, is_torch ? "shape=torch.Size([" : "shape=(");
    for (int32_t d = 0; d < one->facts.ndim; d++) {
        (void)tt_buf_text(text, d > 0 ? ", " : "");
        (void)tt_buf_int(text, one->facts.shape[d]);
    }
    (void)tt_buf_text(text, is_torch ? "])" : one->facts.ndim == 1 ? ",)" : ")");
}

static void put_count(tt_buf *text, int64_t count, const char *word, bool is_colored)
{
    if (count == 0)
        return;
    (void)tt_buf_text(text, " ");
    track_put_mood(text, TT_MOOD_ALARM, is_colored);
    (void)tt_buf_printf(text, "%lld %s", (long long)count, word);
    track_put_mood(text, TT_MOOD_PLAIN, is_colored);
}

static void put_stats(tt_buf *text, const tt_stats *stats, bool is_colored)
{
    int64_t finite = tt_stats_finite(stats);
    if (stats->count == 0) {
        (void)tt_buf_text(text, " | empty");
        return;
    }
    if (finite == 1 && stats->count == 1) {
        put_number(text, " | value=", stats->mean);
    } else if (finite > 0) {
        put_number(text, " | mean=", stats->mean);
        if (finite > 1)
            put_number(text, " std=", tt_stats_std(stats));
        put_number(text, " min=", stats->min);
        put_number(text, " max=", stats->max);
    }
    if (stats->nan + stats->posinf + stats->neginf > 0)
        (void)tt_buf_text(text, " |");
    put_count(text, stats->nan, "NaN", is_colored);
    put_count(text, stats->posinf, "Inf", is_colored);
    put_count(text, stats->neginf, "-Inf", is_colored);
}

/* A field that changed has the colour of changes. */
static bool begin_field(tt_buf *text, const track_description *one, unsigned field, bool is_colored)
{
    bool is_marked = is_colored && (one->changed & field) != 0;
    track_put_mood(text, TT_MOOD_REMARK, is_marked);
    return is_marked;
}

static void put_tensor(tt_buf *text, const track_description *one, bool is_colored)
{
    bool is_marked = begin_field(text, one, CHANGED_SHAPE, is_colored);
    put_shape(text, one);
    track_put_mood(text, TT_MOOD_PLAIN, is_marked);
    (void)tt_buf_text(text, " | ");
    is_marked = begin_field(text, one, CHANGED_DTYPE, is_colored);
    (void)tt_buf_text(text, one->seen.kind == KIND_TORCH ? "dtype=torch." : "dtype=");
    (void)tt_buf_text(text, one->facts.dtype[0] != '\0' ? one->facts.dtype : "?");
    track_put_mood(text, TT_MOOD_PLAIN, is_marked);
    if (one->facts.device[0] != '\0' || (one->changed & CHANGED_DEVICE) != 0) {
        (void)tt_buf_text(text, " | ");
        is_marked = begin_field(text, one, CHANGED_DEVICE, is_colored);
        (void)tt_buf_printf(text, "device=%s", one->facts.device[0] != '\0' ? one->facts.device : "cpu");
        track_put_mood(text, TT_MOOD_PLAIN, is_marked);
    }
    if (one->facts.has_stats)
        put_stats(text, &one->facts.stats, is_colored);
}

/* rendering.py knows how long containers, texts and objects of the user's may get. */
static void put_object(track_log *log, tt_buf *text, PyObject *obj)
{
    enum { LONGEST = 66 };
    bool is_plain =
        PyLong_CheckExact(obj) || PyFloat_CheckExact(obj) || PyBool_Check(obj) || obj == Py_None;
    PyObject *made = is_plain ? PyUnicode_FromFormat("value: %R", obj) : NULL; /* owned */
    if (made == NULL || PyUnicode_GET_LENGTH(made) > LONGEST) {
        PyErr_Clear(); /* a number of more digits than Python writes */
        Py_XSETREF(made, PyObject_CallOneArg(log->render, obj));
    }
    track_put_str(text, made);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    Py_XDECREF(made);
}

void track_put_value(track_log *log, tt_buf *text, PyObject *name, long line,
                     const track_description *one, PyObject *obj, bool is_colored)
{
    bool is_tensor = track_is_tensor(one);
    if (name != NULL) {
        (void)tt_buf_text(text, is_tensor ? "[Tensor] " : "[Var] ");
        track_put_mood(text, TT_MOOD_TYPE, is_colored);
        track_put_str(text, name);
        track_put_mood(text, TT_MOOD_PLAIN, is_colored);
        (void)tt_buf_text(text, "@");
        (void)tt_buf_int(text, line);
        (void)tt_buf_text(text, is_tensor ? " → " : " ");
    }
    if (is_tensor)
        put_tensor(text, one, is_colored);
    else
        put_object(log, text, obj);
}

void track_put_new(track_log *log, tt_buf *text, PyObject *name, long line, PyObject *obj,
                   bool is_colored)
{
    track_description now;
    track_describe(log->state, obj, false, &now);
    track_put_value(log, text, name, line, &now, obj, is_colored);
    track_description_clear(&now);
}
