/* reader_health.c -- what the rules find in a run.
 *
 * The answer is the core's, the same that the program prints.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/reader.h"
#include "tensortap_tools.h"

static tt_status find(tt_run *run, const tt_health_options *options, tt_buf *out, tt_error *err)
{
    tt_findings *findings = NULL; /* owned */
    tt_status st = tt_health(run, options, &findings, err);
    if (st < 0)
        return st;
    st = tt_findings_write(findings, out);
    tt_findings_free(findings);
    return st;
}

/* health(select, ignore, baseline) -> JSON text; None: all rules; none of them; no baseline */
PyObject *runs_reader_health(PyObject *self, PyObject *args)
{
    tt_health_options options = { 0 };
    PyObject *baseline = Py_None; /* borrowed */
    tt_buf out = { 0 };
    tt_error err = { "" };
    tt_status st;
    if (!PyArg_ParseTuple(args, "zzO:health", &options.select, &options.ignore, &baseline))
        return NULL;
    if (baseline != Py_None && !PyObject_TypeCheck(baseline, Py_TYPE(self)))
        return PyErr_Format(PyExc_TypeError, "baseline must be a RunReader or None");
    if (!runs_reader_enter_both(self, baseline != Py_None ? baseline : self))
        return NULL;
    options.baseline = baseline != Py_None ? ((runs_reader *)baseline)->run : NULL;
    Py_BEGIN_ALLOW_THREADS
    st = find(((runs_reader *)self)->run, &options, &out, &err);
    Py_END_ALLOW_THREADS
    PyObject *result =
        st == TT_OK ? PyUnicode_FromStringAndSize(out.data, (Py_ssize_t)out.len) : NULL; /* owned */
    tt_buf_free(&out);
    if (baseline != Py_None && baseline != self)
        runs_reader_leave(baseline, TT_OK, NULL, NULL);
    return runs_reader_leave(self, st, &err, result);
}
