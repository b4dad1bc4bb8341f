/* record.c -- what the tree tells is in the open run as well.
 *
 * Sites: call/NAME/x for what goes in, call/NAME/output and call/NAME/time for
 * what comes out, line/FILE:LINE:x for changes, as flow's.  Tensors by their
 * statistics, numbers as scalars; texts and containers are not recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/open_run.h"
#include "track/engine.h"

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

void track_record_call(track_log *log, PyObject *function, PyObject *name, Py_ssize_t item,
                       PyObject *value)
{
    if (!is_wanted(log, value))
        return;
    record(log,
           item < 0 ? PyUnicode_FromFormat("call/%U/%U", function, name)
                    : PyUnicode_FromFormat("call/%U/%U[%zd]", function, name, item),
           value);
}

void track_record_seconds(track_log *log, PyObject *function, double seconds)
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
