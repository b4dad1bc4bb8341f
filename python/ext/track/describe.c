/* describe.c -- what a value was like when we saw it, and how it differs now.
 *
 * Exists because a line names what changed without a copy of what was there: of a
 * tensor stay its shape, type, device, statistics and digest.
 * SPDX-License-Identifier: Apache-2.0 */
#include "track/engine.h"

#include <math.h>
#include <string.h>

static bool is_number(PyObject *obj) /* NULL is none */
{
    return obj != NULL && (PyLong_CheckExact(obj) || PyFloat_CheckExact(obj) || PyBool_Check(obj) ||
                           PyComplex_CheckExact(obj));
}

/* ---- describing -------------------------------------------------------------- */

/* Large tensors in it by address and version: must not outlive them. */
static tt_digest quick_digest(binding_state *state, PyObject *obj)
{
    return tensor_digest(&state->torch, obj, LOOK_VERSION | LOOK_LARGE, NULL);
}

static void take_tensor(binding_state *state, PyObject *obj, bool wants_digest, track_description *out)
{
    tensor_view view;
    if (summary_facts_read(state, obj, &out->facts, &view) != VIEW_OK)
        return;
    if (wants_digest) {
        tt_digest_compute(&view.tensor, &out->seen.digest);
        out->seen.has_digest = true;
    }
    tensor_view_close(&view);
}

void track_describe(binding_state *state, PyObject *obj, bool wants_digest, track_description *out)
{
    tensor_kind kind = tensor_kind_of(&state->torch, obj);
    out->seen = (tensor_fingerprint){ .object = obj, .kind = (uint8_t)kind };
    out->changed = 0;
    out->type[0] = '\0';
    out->held = NULL;
    if (obj == NULL)
        return;
    const char *dot = strrchr(Py_TYPE(obj)->tp_name, '.');
    const char *name = dot != NULL ? dot + 1 : Py_TYPE(obj)->tp_name;
    size_t len = strnlen(name, sizeof out->type - 1);
    memcpy(out->type, name, len); /* printf takes longer than all the rest of this function */
    out->type[len] = '\0';
    if (tensor_kind_has_elements(kind)) {
        take_tensor(state, obj, wants_digest, out);
    } else if (wants_digest && kind != KIND_OBJECT) {
        out->seen.digest = tensor_digest(&state->torch, obj, 0, NULL);
        out->seen.has_digest = true;
        if (kind == KIND_CONTAINER)
            out->quick = quick_digest(state, obj);
        else
            out->held = Py_NewRef(obj);
    }
}

void track_description_clear(track_description *one)
{
    Py_CLEAR(one->held);
    one->seen = (tensor_fingerprint){ 0 };
}

void track_description_keep(track_description *one, PyObject *obj)
{
    bool is_torch = one->seen.kind == KIND_TORCH;
    PyObject *bare = is_torch ? PyObject_CallMethod(obj, "detach", NULL) : Py_NewRef(obj); /* owned */
    PyObject *copy = bare != NULL ? PyObject_CallMethod(bare, is_torch ? "clone" : "copy", NULL) : NULL;
    PyErr_Clear(); /* without a copy every change counts */
    Py_XDECREF(bare);
    Py_XSETREF(one->held, copy);
}

/* ---- comparing -------------------------------------------------------------- */

static bool is_same_digest(tt_digest a, tt_digest b)
{
    return a.low == b.low && a.high == b.high;
}

bool track_description_is_stale(binding_state *state, const track_description *last, PyObject *obj)
{
    tensor_kind kind = tensor_kind_of(&state->torch, obj);
    if (kind != last->seen.kind)
        return true;
    switch (kind) {
    case KIND_NONE:
    case KIND_TORCH: /* the line source tells */
    case KIND_ARRAY:
        return false;
    case KIND_PLAIN: /* held, so the same address is the same object */
        return last->held != obj &&
               !is_same_digest(last->seen.digest, tensor_digest(&state->torch, obj, 0, NULL));
    case KIND_CONTAINER:
        return !is_same_digest(last->quick, quick_digest(state, obj));
    case KIND_OBJECT:
        return last->seen.object != obj;
    }
    return true;
}

static void put_word(tt_buf *what, const char *word)
{
    (void)tt_buf_printf(what, "%s%s", what->len > 0 ? ", " : "", word);
}

/* " (mean 0.1 → 0.2, max 3 → 4)": those that differ as shown; if none does, with all digits. */
static void put_moves(tt_buf *what, const tt_stats *old, const tt_stats *now)
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
            if (strcmp(a, b) == 0)
                continue;
            (void)tt_buf_printf(what, "%s%s%s → %s", before, is_one ? "" : fields[i].name, a, b);
            before = ", ";
        }
    }
    if (before[0] == ',')
        (void)tt_buf_text(what, ")");
}

/* Against the kept copy: true if it is not close, and by how much. */
static bool is_far(binding_state *state, PyObject *copy, PyObject *obj, const track_tolerance *tolerance,
                   tt_buf *what)
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
            char largest[TT_NUMBER_TEXT];
            (void)tt_number_short(result.max_abs, largest);
            is_so = !result.allclose;
            if (is_so)
                (void)tt_buf_printf(what, "values (%lld of %lld element%s, largest difference %s)",
                                    (long long)result.differing, (long long)result.count,
                                    result.count == 1 ? "" : "s", largest);
        }
        tensor_view_close(&now);
    }
    tensor_view_close(&old);
    return is_so;
}

/* Notes that a field differs. */
static void put_field(tt_buf *what, track_description *now, unsigned field, const char *word)
{
    put_word(what, word);
    now->changed |= field;
}

static bool has_same_shape(const track_description *a, const track_description *b)
{
    return a->facts.ndim == b->facts.ndim &&
           (a->facts.ndim <= 0 ||
            memcmp(a->facts.shape, b->facts.shape, (size_t)a->facts.ndim * sizeof *a->facts.shape) == 0);
}

static bool tensor_differs(binding_state *state, const track_description *last, track_description *now,
                           PyObject *obj, const track_tolerance *tolerance, tt_buf *what)
{
    if (!has_same_shape(last, now))
        put_field(what, now, CHANGED_SHAPE, "shape");
    if (last->seen.kind != now->seen.kind)
        put_word(what, now->seen.kind == KIND_TORCH ? "type (array → tensor)" : "type (tensor → array)");
    if (strcmp(last->facts.dtype, now->facts.dtype) != 0)
        put_field(what, now, CHANGED_DTYPE, "dtype");
    if (strcmp(last->facts.device, now->facts.device) != 0)
        put_field(what, now, CHANGED_DEVICE, "device");
    if (what->len > 0)
        return true;
    if (last->seen.has_digest && now->seen.has_digest) {
        if (tensor_fingerprint_is_equal(&last->seen, &now->seen))
            return false;
        if (tolerance->is_given && last->held != NULL)
            return is_far(state, last->held, obj, tolerance, what);
    } else if (!last->facts.has_stats || !now->facts.has_stats ||
               memcmp(&last->facts.stats, &now->facts.stats, sizeof now->facts.stats) == 0) {
        return false; /* no values to tell apart */
    }
    put_word(what, "values");
    put_moves(what, &last->facts.stats, &now->facts.stats);
    return true;
}

/* "value (0.1 → 0.05)" of two numbers, "value" of anything else. */
static void put_values(tt_buf *what, PyObject *last, PyObject *now)
{
    enum { LONGEST = 40 };
    bool are_numbers = is_number(last) && is_number(now);
    PyObject *before = are_numbers ? PyObject_Repr(last) : NULL;  /* owned */
    PyObject *after = before != NULL ? PyObject_Repr(now) : NULL; /* owned */
    PyErr_Clear(); /* a number of more digits than Python writes */
    put_word(what, "value");
    if (after != NULL && PyUnicode_GET_LENGTH(before) < LONGEST &&
        PyUnicode_GET_LENGTH(after) < LONGEST) {
        (void)tt_buf_text(what, " (");
        track_put_str(what, before);
        (void)tt_buf_text(what, " → ");
        track_put_str(what, after);
        (void)tt_buf_text(what, ")");
    }
    Py_XDECREF(before);
    Py_XDECREF(after);
}

bool track_description_differs(binding_state *state, const track_description *last,
                               track_description *now, PyObject *obj, const track_tolerance *tolerance,
                               tt_buf *what)
{
    tensor_kind before = (tensor_kind)last->seen.kind, kind = (tensor_kind)now->seen.kind;
    if (before == KIND_NONE)
        return kind != KIND_NONE;
    if (tensor_kind_has_elements(before) && tensor_kind_has_elements(kind))
        return tensor_differs(state, last, now, obj, tolerance, what);
    if (before != kind || strcmp(last->type, now->type) != 0) {
        (void)tt_buf_printf(what, "type (%s → %s)", last->type, now->type);
        if (is_number(last->held) && is_number(obj))
            put_values(what, last->held, obj);
        return true;
    }
    if (kind == KIND_OBJECT ? last->seen.object == obj
                            : tensor_fingerprint_is_equal(&last->seen, &now->seen))
        return false;
    if (kind == KIND_CONTAINER)
        put_word(what, "contents");
    else
        put_values(what, last->held, obj);
    return true;
}

/* track_key(value) -> bytes */
BINDING_FUNCTION(track_key)
{
    const binding_option none[] = { { 0 } };
    if (binding_read_arguments("track_key", 1, none, args, nargs, kwnames) < 0)
        return NULL;
    tt_digest digest = tensor_digest(&binding_state_of(module)->torch, args[0], 0, NULL);
    return PyBytes_FromStringAndSize((const char *)&digest, sizeof digest);
}
