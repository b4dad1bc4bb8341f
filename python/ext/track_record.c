/* track_record.c -- what the tree tells is in the open run as well.
 *
 * Sites: call/NAME/x for what goes in, call/NAME/output and call/NAME/time for
 * what comes out, line/FILE:LINE:x for changes, as flow's.  Tensors by their
 * statistics, numbers as scalars; texts and containers are not recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "track.h"

/* Takes over the name; nothing that fails reaches the program. */
static void record(track_log *log, PyObject *name, PyObject *value)
{
    PyObject *type, *error, *trace; /* owned */
    Py_ssize_t open = PyList_GET_SIZE(log->runs);
    PyErr_Fetch(&type, &error, &trace);
    if (name != NULL && open > 0) {
        bool is_number = PyFloat_Check(value) || PyLong_Check(value);
        PyObject *run = Py_NewRef(PyList_GET_ITEM(log->runs, open - 1)); /* owned; the innermost */
        PyObject *done =
            PyObject_CallMethod(run, is_number ? "log" : "tensor", "OO", name, value); /* owned */
        Py_XDECREF(done);
        Py_DECREF(run);
        PyErr_Clear(); /* closed, or a tensor without values: the log has it all the same */
    }
    Py_XDECREF(name);
    PyErr_Restore(type, error, trace);
}

static bool is_wanted(const track_log *log, PyObject *value)
{
    if (log->runs == NULL || PyList_GET_SIZE(log->runs) == 0)
        return false;
    return PyFloat_Check(value) || PyLong_Check(value) ||
           sight_kind_of(log->state, value) == SIGHT_TENSOR;
}

void record_call(track_log *log, PyObject *function, PyObject *name, Py_ssize_t item, PyObject *value)
{
    if (!is_wanted(log, value))
        return;
    record(log,
           item < 0 ? PyUnicode_FromFormat("call/%U/%U", function, name)
                    : PyUnicode_FromFormat("call/%U/%U[%zd]", function, name, item),
           value);
}

void record_seconds(track_log *log, PyObject *function, double seconds)
{
    if (log->runs == NULL || PyList_GET_SIZE(log->runs) == 0)
        return;
    PyObject *value = PyFloat_FromDouble(seconds); /* owned */
    if (value != NULL)
        record(log, PyUnicode_FromFormat("call/%U/time", function), value);
    Py_XDECREF(value);
}

void record_change(track_log *log, PyObject *file, long line, PyObject *name, PyObject *value)
{
    if (!is_wanted(log, value) || !PyUnicode_Check(file))
        return;
    Py_ssize_t end = PyUnicode_GET_LENGTH(file);
    PyObject *leaf =
        PyUnicode_Substring(file, PyUnicode_FindChar(file, '/', 0, end, -1) + 1, end); /* owned */
    if (leaf != NULL)
        record(log, PyUnicode_FromFormat("line/%U:%ld:%U", leaf, line, name), value);
    Py_XDECREF(leaf);
}
