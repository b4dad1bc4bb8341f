/* sight.c -- what a value was like when we saw it, and how it differs now.
 *
 * Exists because "changed" must be told without keeping what was there: of a
 * tensor stay its shape, type, device, statistics and digest.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/stats.h"
#include "tensortap_tools.h"
#include "track/engine.h"

#include <math.h>
#include <string.h>

static void copy_text(char *to, size_t size, const char *from)
{
    size_t len = from != NULL ? strlen(from) : 0;
    len = len < size ? len : size - 1;
    memcpy(to, from, len);
    to[len] = '\0';
}

static bool is_array(PyTypeObject *type)
{
    PyObject *mro = type->tp_mro; /* borrowed */
    if (strcmp(type->tp_name, "numpy.ndarray") == 0)
        return true;
    for (Py_ssize_t i = 1; mro != NULL && i < PyTuple_GET_SIZE(mro) - 1; i++)
        if (strcmp(((PyTypeObject *)PyTuple_GET_ITEM(mro, i))->tp_name, "numpy.ndarray") == 0)
            return true;
    return false;
}

static bool is_plain(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    return obj == Py_None || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
           type == &PyRange_Type || type == &PySlice_Type;
}

static bool is_number(PyObject *obj) /* NULL is none */
{
    return obj != NULL && (PyLong_CheckExact(obj) || PyFloat_CheckExact(obj) || PyBool_Check(obj) ||
                           PyComplex_CheckExact(obj));
}

track_sight_kind track_sight_kind_of(binding_state *state, PyObject *obj)
{
    if (obj == NULL)
        return SIGHT_NONE;
    if (is_plain(obj))
        return SIGHT_PLAIN;
    if (PyList_Check(obj) || PyTuple_Check(obj) || PyDict_Check(obj) || PyAnySet_Check(obj))
        return SIGHT_BOX;
    if (tensor_torch_is_tensor(&state->torch, obj) || is_array(Py_TYPE(obj)))
        return SIGHT_TENSOR;
    return SIGHT_OTHER;
}

/* ---- taking one ------------------------------------------------------------- */

static void read_text(PyObject *obj, const char *attribute, char *to, size_t size)
{
    PyObject *value = NULL, *text = NULL; /* owned */
    if (PyObject_GetOptionalAttrString(obj, attribute, &value) > 0)
        text = PyObject_Str(value);
    const char *bytes = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    if (bytes != NULL)
        copy_text(to, size, bytes);
    PyErr_Clear();
    Py_XDECREF(value);
    Py_XDECREF(text);
}

static int32_t read_shape(PyObject *obj, int64_t *shape)
{
    PyObject *value = NULL, *sizes = NULL; /* owned */
    int32_t ndim = -1;
    if (PyObject_GetOptionalAttrString(obj, "shape", &value) > 0)
        sizes = PySequence_Tuple(value);
    if (sizes != NULL && PyTuple_GET_SIZE(sizes) <= TT_MAX_DIM) {
        ndim = (int32_t)PyTuple_GET_SIZE(sizes);
        for (int32_t d = 0; d < ndim && !PyErr_Occurred(); d++)
            shape[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, d));
        ndim = PyErr_Occurred() ? -1 : ndim; /* symbolic or ragged */
    }
    PyErr_Clear();
    Py_XDECREF(value);
    Py_XDECREF(sizes);
    return ndim;
}

/* A tensor whose values we do not read: what it says of itself, and what torch
 * computes on its device. */
static void take_from_outside(PyObject *obj, tensor_view_result why, track_sight *out)
{
    char dtype[32] = "";
    out->ndim = read_shape(obj, out->shape);
    read_text(obj, "dtype", dtype, sizeof dtype);
    copy_text(out->dtype, sizeof out->dtype, strncmp(dtype, "torch.", 6) == 0 ? dtype + 6 : dtype);
    read_text(obj, "device", out->device, sizeof out->device);
    if (strcmp(out->device, "cpu") == 0)
        out->device[0] = '\0';
    PyObject *stats = why == VIEW_DEVICE ? summary_stats_on_device(obj, false) : NULL; /* owned */
    if (stats != NULL) {
        out->stats = ((summary_stats_object *)stats)->stats;
        out->has_stats = true;
    }
    PyErr_Clear();
    Py_XDECREF(stats);
}

static void take_tensor(binding_state *state, PyObject *obj, bool wants_digest, track_sight *out)
{
    tensor_view view;
    out->is_torch = tensor_torch_is_tensor(&state->torch, obj);
    tensor_view_result why = tensor_view_open(&state->torch, obj, &view);
    if (why != VIEW_OK) {
        take_from_outside(obj, why, out);
        return;
    }
    out->ndim = view.tensor.ndim;
    memcpy(out->shape, view.tensor.shape, (size_t)out->ndim * sizeof *out->shape);
    copy_text(out->dtype, sizeof out->dtype, tt_dtype_name(view.tensor.dtype));
    tt_stats_compute(&view.tensor, &out->stats);
    out->has_stats = true;
    if (wants_digest) {
        tt_digest_compute(&view.tensor, &out->digest);
        out->has_digest = true;
    }
    tensor_view_close(&view);
}

void track_sight_take(binding_state *state, PyObject *obj, bool wants_digest, track_sight *out)
{
    tensor_torch_find(&state->torch);
    out->kind = track_sight_kind_of(state, obj);
    out->is_torch = out->has_stats = out->has_digest = false;
    out->changed = 0;
    out->object = obj;
    out->type[0] = out->dtype[0] = out->device[0] = '\0';
    out->ndim = -1;
    out->held = NULL;
    out->quick = out->full = (track_key){ 0, 0 };
    if (obj == NULL)
        return;
    const char *dot = strrchr(Py_TYPE(obj)->tp_name, '.');
    copy_text(out->type, sizeof out->type, dot != NULL ? dot + 1 : Py_TYPE(obj)->tp_name);
    if (out->kind == SIGHT_TENSOR) {
        take_tensor(state, obj, wants_digest, out);
    } else if (out->kind == SIGHT_PLAIN && wants_digest) {
        out->held = Py_NewRef(obj);
    } else if (out->kind == SIGHT_BOX && wants_digest) {
        out->quick = track_key_of(state, obj, true);
        out->full = track_key_of(state, obj, false);
    }
}

void track_sight_forget(track_sight *sight)
{
    Py_CLEAR(sight->held);
    sight->kind = SIGHT_NONE;
    sight->object = NULL;
}

void track_sight_keep(track_sight *sight, PyObject *obj)
{
    PyObject *bare =
        sight->is_torch ? PyObject_CallMethod(obj, "detach", NULL) : Py_NewRef(obj); /* owned */
    PyObject *copy =
        bare != NULL ? PyObject_CallMethod(bare, sight->is_torch ? "clone" : "copy", NULL) : NULL;
    PyErr_Clear(); /* without a copy every change counts */
    Py_XDECREF(bare);
    Py_XSETREF(sight->held, copy);
}

/* ---- comparing -------------------------------------------------------------- */

static bool is_same_key(track_key a, track_key b)
{
    return a.low == b.low && a.high == b.high;
}

bool track_sight_is_stale(binding_state *state, const track_sight *last, track_sight_kind kind,
                          PyObject *obj)
{
    if (kind != last->kind)
        return true;
    switch (kind) {
    case SIGHT_NONE:
    case SIGHT_TENSOR: /* the line source tells */
        return false;
    case SIGHT_PLAIN: /* held, so the same address is the same object */
        return last->held != obj &&
               !is_same_key(track_key_of(state, last->held, false), track_key_of(state, obj, false));
    case SIGHT_BOX:
        return !is_same_key(last->quick, track_key_of(state, obj, true));
    case SIGHT_OTHER:
        return last->object != obj;
    }
    return true;
}

static void put_word(track_text *what, const char *word)
{
    if (what->len > 0)
        track_text_put(what, ", ");
    track_text_put(what, word);
}

static void put_move(track_text *what, const char **before, const char *name, const char *old,
                     const char *now)
{
    track_text_put(what, *before);
    track_text_put(what, name);
    track_text_put(what, old);
    track_text_put(what, " → ");
    track_text_put(what, now);
    *before = ", ";
}

/* " (mean 0.1 → 0.2, max 3 → 4)": those that differ as shown; if none does, with all digits. */
static void put_moves(track_text *what, const tt_stats *old, const tt_stats *now)
{
    const struct {
        const char *name;
        double old, now;
    } fields[] = { { "mean ", old->mean, now->mean },
                   { "min ", old->min, now->min },
                   { "max ", old->max, now->max },
                   { "NaN ", (double)old->nan, (double)now->nan },
                   { "Inf ", (double)(old->posinf + old->neginf), (double)(now->posinf + now->neginf) } };
    bool is_one = now->count == 1 && tt_stats_finite(now) == 1 && tt_stats_finite(old) == 1;
    const char *before = " (";
    for (int is_long = 0; is_long < 2 && before[0] == ' '; is_long++) {
        for (size_t i = 0; i < (is_one ? 1 : sizeof fields / sizeof *fields); i++) {
            char a[TT_NUMBER_TEXT], b[TT_NUMBER_TEXT];
            if (!isfinite(fields[i].old) || !isfinite(fields[i].now))
                continue; /* nothing was finite: the counts say so */
            (is_long ? tt_number_f64 : tt_number_short)(fields[i].old, a);
            (is_long ? tt_number_f64 : tt_number_short)(fields[i].now, b);
            if (strcmp(a, b) != 0)
                put_move(what, &before, is_one ? "" : fields[i].name, a, b);
        }
    }
    if (before[0] == ',')
        track_text_put(what, ")");
}

/* Against the kept copy: true if it is not close, and by how much. */
static bool is_far(binding_state *state, PyObject *copy, PyObject *obj, const track_tolerance *tolerance,
                   track_text *what)
{
    tensor_view old, now;
    tt_compare result;
    bool is_so = true;
    const tt_compare_options options = { .rtol = tolerance->rtol,
                                         .atol = tolerance->atol,
                                         .equal_nan = true };
    if (tensor_view_open(&state->torch, copy, &old) != VIEW_OK)
        return true;
    if (tensor_view_open(&state->torch, obj, &now) == VIEW_OK) {
        if (tt_compare_compute(&now.tensor, &old.tensor, &options, &result, NULL) == TT_OK) {
            is_so = !result.allclose;
            if (is_so) {
                put_word(what, "values (");
                track_text_put_int(what, result.differing);
                track_text_put(what, " of ");
                track_text_put_int(what, result.count);
                track_text_put(what, result.count == 1 ? " element, largest difference "
                                                       : " elements, largest difference ");
                track_text_put_number(what, result.max_abs);
                track_text_put(what, ")");
            }
        }
        tensor_view_close(&now);
    }
    tensor_view_close(&old);
    return is_so;
}

/* Notes that a field differs. */
static void put_field(track_text *what, track_sight *now, unsigned field, const char *word)
{
    put_word(what, word);
    now->changed |= field;
}

static bool has_same_shape(const track_sight *a, const track_sight *b)
{
    return a->ndim == b->ndim &&
           (a->ndim <= 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

static bool tensor_differs(binding_state *state, const track_sight *last, track_sight *now, PyObject *obj,
                           const track_tolerance *tolerance, track_text *what)
{
    if (!has_same_shape(last, now))
        put_field(what, now, CHANGED_SHAPE, "shape");
    if (last->is_torch != now->is_torch)
        put_word(what, now->is_torch ? "type (array → tensor)" : "type (tensor → array)");
    if (strcmp(last->dtype, now->dtype) != 0)
        put_field(what, now, CHANGED_DTYPE, "dtype");
    if (strcmp(last->device, now->device) != 0)
        put_field(what, now, CHANGED_DEVICE, "device");
    if (what->len > 0)
        return true;
    if (last->has_digest && now->has_digest) {
        if (last->digest.low == now->digest.low && last->digest.high == now->digest.high)
            return false;
        if (tolerance->is_given && last->held != NULL)
            return is_far(state, last->held, obj, tolerance, what);
    } else if (!last->has_stats || !now->has_stats ||
               memcmp(&last->stats, &now->stats, sizeof now->stats) == 0) {
        return false; /* no values to tell apart */
    }
    put_word(what, "values");
    put_moves(what, &last->stats, &now->stats);
    return true;
}

/* "value (0.1 → 0.05)" of two numbers, "value" of anything else. */
static void put_values(track_text *what, PyObject *last, PyObject *now)
{
    enum { LONGEST = 40 };
    bool are_numbers = is_number(last) && is_number(now);
    PyObject *before = are_numbers ? PyObject_Repr(last) : NULL;  /* owned */
    PyObject *after = before != NULL ? PyObject_Repr(now) : NULL; /* owned */
    PyErr_Clear(); /* a number of more digits than Python writes */
    put_word(what, "value");
    if (after != NULL && PyUnicode_GET_LENGTH(before) < LONGEST &&
        PyUnicode_GET_LENGTH(after) < LONGEST) {
        track_text_put(what, " (");
        track_text_put_str(what, before);
        track_text_put(what, " → ");
        track_text_put_str(what, after);
        track_text_put(what, ")");
    }
    Py_XDECREF(before);
    Py_XDECREF(after);
}

bool track_sight_differs(binding_state *state, const track_sight *last, track_sight *now, PyObject *obj,
                         const track_tolerance *tolerance, track_text *what)
{
    if (last->kind == SIGHT_NONE)
        return now->kind != SIGHT_NONE;
    if (last->kind == SIGHT_TENSOR && now->kind == SIGHT_TENSOR)
        return tensor_differs(state, last, now, obj, tolerance, what);
    if (last->kind != now->kind || strcmp(last->type, now->type) != 0) {
        put_word(what, "type (");
        track_text_put(what, last->type);
        track_text_put(what, " → ");
        track_text_put(what, now->type);
        track_text_put(what, ")");
        if (is_number(last->held) && is_number(obj))
            put_values(what, last->held, obj);
        return true;
    }
    if (now->kind == SIGHT_BOX ? is_same_key(last->full, now->full)
                               : !track_sight_is_stale(state, last, now->kind, obj))
        return false;
    if (now->kind == SIGHT_BOX)
        put_word(what, "contents");
    else
        put_values(what, last->held, obj);
    return true;
}
