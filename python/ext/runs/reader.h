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
    tt_run *parts;             /* owned; what `run` was joined from; NULL: it is a run of files */
    PyThread_type_lock lock;   /* owned */
    binding_state *state;
} runs_reader;

/* The run, for this thread alone; NULL with ValueError if it is closed. */
tt_run *runs_reader_enter(PyObject *self);
/* Leaves it.  Returns the result, or drops it and raises the error. */
PyObject *runs_reader_leave(PyObject *self, tt_status st, const tt_error *err, PyObject *result);
PyObject *runs_reader_text(const char *text); /* whatever its bytes are; NULL: None */

PyObject *runs_reader_tree(PyObject *self, PyObject *only);
PyObject *runs_reader_joined(PyObject *self, PyObject *site);
PyObject *runs_reader_placement(PyObject *self, PyObject *args);
PyObject *runs_reader_origin(PyObject *self, PyObject *args);
PyObject *runs_reader_diff(PyObject *self, PyObject *args);
PyObject *runs_reader_page(PyObject *self, PyObject *args);
PyObject *runs_reader_health(PyObject *self, PyObject *args);

#endif
