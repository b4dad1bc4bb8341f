/* reader_page.c -- the page about a run, and its findings alone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/reader.h"
#include "tensortap_tools.h"

/* page(path, state, private) -> bytes */
PyObject *runs_reader_page(PyObject *self, PyObject *args)
{
    tt_page_run page = { 0 };
    int is_private = 0;
    tt_buf out = { 0 };
    tt_error err = { "" };
    tt_status st;
    if (PyArg_ParseTuple(args, "ssp:page", &page.path, &page.state, &is_private))
        page.run = runs_reader_enter(self);
    if (page.run == NULL)
        return NULL;
    const tt_page_options options = { .is_private = is_private != 0 };
    Py_BEGIN_ALLOW_THREADS
    st = tt_page_write(&page, 1, &options, &out, &err);
    Py_END_ALLOW_THREADS
    PyObject *result =
        st == TT_OK ? PyBytes_FromStringAndSize(out.data, (Py_ssize_t)out.len) : NULL; /* owned */
    tt_buf_free(&out);
    return runs_reader_leave(self, st, &err, result);
}

/* verdict(state) -> JSON text */
PyObject *runs_reader_verdict(PyObject *self, PyObject *state)
{
    tt_page_run page = { .path = "", .state = PyUnicode_AsUTF8(state) };
    tt_buf out = { 0 };
    tt_error err = { "" };
    tt_status st;
    if (page.state != NULL)
        page.run = runs_reader_enter(self);
    if (page.run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = tt_page_verdict(&page, &out, &err);
    Py_END_ALLOW_THREADS
    PyObject *result =
        st == TT_OK ? PyUnicode_FromStringAndSize(out.data, (Py_ssize_t)out.len) : NULL; /* owned */
    tt_buf_free(&out);
    return runs_reader_leave(self, st, &err, result);
}
