/* reader.h -- the object behind RunReader, for its files.
 *
 * A tt_run serves one thread at a time.  `lock` sees to that where the GIL is let
 * go: every method that touches run is between runs_reader_enter and runs_reader_leave.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_RUNS_READER_H
#define TT_EXT_RUNS_READER_H

#include "binding/state.h"

typedef struct runs_reader {
    PyObject_HEAD tt_run *run; /* owned; NULL: closed */
    PyThread_type_lock lock;   /* owned */
    binding_state *state;
} runs_reader;

/* The run, for this thread alone; NULL with ValueError if it is closed. */
tt_run *runs_reader_enter(PyObject *self);
void runs_reader_leave(PyObject *self);
/* Leaves, and raises what went wrong. */
PyObject *runs_reader_fail(PyObject *self, tt_status st, const tt_error *err);
PyObject *runs_reader_text(const char *text); /* whatever its bytes are */

PyObject *runs_reader_series(PyObject *self, PyObject *args);
PyObject *runs_reader_steps(PyObject *self, PyObject *buffer);
PyObject *runs_reader_stats(PyObject *self, PyObject *args);
PyObject *runs_reader_point(PyObject *self, PyObject *args);
PyObject *runs_reader_seek(PyObject *self, PyObject *args);
PyObject *runs_reader_nonfinite(PyObject *self, PyObject *args);
PyObject *runs_reader_hist(PyObject *self, PyObject *args);
PyObject *runs_reader_sample(PyObject *self, PyObject *args);
PyObject *runs_reader_value(PyObject *self, PyObject *args);
PyObject *runs_reader_value_read(PyObject *self, PyObject *args);
PyObject *runs_reader_tree(PyObject *self, PyObject *only);
PyObject *runs_reader_origin(PyObject *self, PyObject *args);
PyObject *runs_reader_diff(PyObject *self, PyObject *args);

#endif
