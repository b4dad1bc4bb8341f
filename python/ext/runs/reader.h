/* reader.h -- the object behind RunReader, for its files.
 *
 * A tt_run serves one thread at a time.  `lock` sees to that where the GIL is let
 * go: every method that touches run is between run_enter and run_leave.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_RUNS_READER_H
#define TT_EXT_RUNS_READER_H

#include "binding/state.h"

typedef struct run_object {
    PyObject_HEAD tt_run *run; /* owned; NULL: closed */
    PyThread_type_lock lock;   /* owned */
    core_state *state;
} run_object;

/* The run, for this thread alone; NULL with ValueError if it is closed. */
tt_run *run_enter(PyObject *self);
void run_leave(PyObject *self);
/* Leaves, and raises what went wrong. */
PyObject *run_fail(PyObject *self, tt_status st, const tt_error *err);
PyObject *run_text(const char *text); /* whatever its bytes are */

PyObject *run_series(PyObject *self, PyObject *args);
PyObject *run_steps(PyObject *self, PyObject *buffer);
PyObject *run_stats(PyObject *self, PyObject *args);
PyObject *run_point(PyObject *self, PyObject *args);
PyObject *run_seek(PyObject *self, PyObject *args);
PyObject *run_nonfinite(PyObject *self, PyObject *args);
PyObject *run_hist(PyObject *self, PyObject *args);
PyObject *run_sample(PyObject *self, PyObject *args);
PyObject *run_value(PyObject *self, PyObject *args);
PyObject *run_value_read(PyObject *self, PyObject *args);
PyObject *run_tree(PyObject *self, PyObject *only);
PyObject *run_origin(PyObject *self, PyObject *args);
PyObject *run_diff(PyObject *self, PyObject *args);

#endif
