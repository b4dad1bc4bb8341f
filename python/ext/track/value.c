/* value.c -- what is known of a value without a reference to it, and its way into the open run.
 *
 * Exists because Python has no cheap way to read a tensor's elements, or a variable of a frame,
 * without running code of the program.  Text and decisions are Python's (track/description.py).
 * SPDX-License-Identifier: Apache-2.0 */
#include "track/value.h"

#include "base/error.h"
#include "lines/source.h"
#include "runs/open_run.h"
#include "summary/facts.h"
#include "summary/stats.h"
#include "tensor/change.h"

static PyObject *bytes_of(tt_digest digest)
{
    return PyBytes_FromStringAndSize((const char *)&digest, sizeof digest);
}

static PyObject *none(void)
{
    return Py_NewRef(Py_None);
}

static PyObject *describe_tensor(binding_state *state, PyObject *value, tensor_kind kind,
                                 bool wants_digest)
{
    summary_facts facts;
    tensor_view view;
    tt_digest digest = { 0 };
    bool has_digest = summary_facts_read(state, value, &facts, &view) == VIEW_OK;
    if (has_digest) {
        if (wants_digest)
            tt_digest_compute(&view.tensor, &digest);
        tensor_view_close(&view);
    }
    return Py_BuildValue("(iNssNN)", (int)kind,
                         facts.ndim >= 0 ? binding_shape_tuple(facts.shape, facts.ndim) : none(),
                         facts.dtype, facts.device,
                         facts.has_stats ? summary_stats_make(state, &facts.stats, facts.shape,
                                                              facts.ndim >= 0 ? facts.ndim : 0)
                                         : none(),
                         has_digest && wants_digest ? bytes_of(digest) : none());
}

/* track_describe(value, wants_digest) -> (kind, shape, dtype, device, stats, digest) */
BINDING_FUNCTION(track_describe)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("track_describe", 2, NULL, args, nargs, kwnames) < 0)
        return NULL;
    tensor_kind kind = tensor_kind_of(&state->torch, args[0]);
    bool wants_digest = args[1] == Py_True;
    if (tensor_kind_has_elements(kind))
        return describe_tensor(state, args[0], kind, wants_digest);
    PyObject *digest = wants_digest && kind != KIND_OBJECT
                           ? bytes_of(tensor_digest(&state->torch, args[0], 0, NULL))
                           : none(); /* owned, then the tuple's */
    return Py_BuildValue("(iOssON)", (int)kind, Py_None, "", "", Py_None, digest);
}

/* track_key(value, *, quick) -> bytes; quick: large tensors in a container by address and version, so
 * the key must not outlive them */
BINDING_FUNCTION(track_key)
{
    bool is_quick = false;
    const binding_option options[] = { { "quick", OPTION_BOOL, &is_quick }, { 0 } };
    if (binding_read_arguments("track_key", 1, options, args, nargs, kwnames) < 0)
        return NULL;
    return bytes_of(tensor_digest(&binding_state_of(module)->torch, args[0],
                                  is_quick ? LOOK_VERSION | LOOK_LARGE : 0, NULL));
}

/* track_frame_value(frame, name, missing) -> object.  The frame's own f_locals would keep all of its
 * locals alive. */
BINDING_FUNCTION(track_frame_value)
{
    (void)module;
    if (binding_read_arguments("track_frame_value", 3, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyFrame_Check(args[0]) || !PyUnicode_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "track_frame_value() takes a frame and a name");
    PyObject *found = lines_frame_get(base_frame_of((PyFrameObject *)args[0]), args[1]); /* owned */
    return found != NULL ? found : Py_NewRef(args[2]);
}

/* ---- the open run ------------------------------------------------------------- */

/* Tensors go in by their statistics, numbers as scalars; texts and containers do not. */
static bool is_wanted(binding_state *state, PyObject *value)
{
    return runs_open_run(state) != NULL &&
           (PyFloat_Check(value) || PyLong_Check(value) ||
            tensor_kind_has_elements(tensor_kind_of(&state->torch, value)));
}

/* Drops an exception: the run was closed, or the tensor has no values.  The log has the line anyway. */
static PyObject *forgive(void)
{
    Py_XDECREF(base_error_take());
    return none();
}

/* track_record(site, value) */
BINDING_FUNCTION(track_record)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("track_record", 2, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (is_wanted(state, args[1]))
        (void)runs_put(state, args[0], args[1]);
    return forgive();
}

/* track_record_change(key, file, line, name, value); key: of the line source, for the change that flow
 * reports too */
BINDING_FUNCTION(track_record_change)
{
    binding_state *state = binding_state_of(module);
    if (binding_read_arguments("track_record_change", 5, NULL, args, nargs, kwnames) < 0)
        return NULL;
    const runs_change change = { .key = PyLong_AsUnsignedLongLong(args[0]),
                                 .file = args[1],
                                 .line = PyLong_AsLong(args[2]),
                                 .name = args[3] };
    if (!PyErr_Occurred() && PyUnicode_Check(change.file) && PyUnicode_Check(change.name) &&
        is_wanted(state, args[4]))
        (void)runs_put_change(state, &change, args[4]);
    return forgive();
}
