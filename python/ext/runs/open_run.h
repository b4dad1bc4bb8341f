/* open_run.h -- what flow and track see is in the open run as well.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_RUNS_OPEN_RUN_H
#define TT_EXT_RUNS_OPEN_RUN_H

#include "binding/state.h"

/* A change of a variable, as the line source tells it.  Everything is borrowed. */
typedef struct runs_change {
    uint64_t key; /* of the variable's new state; 0: none */
    PyObject *file, *name;
    long line;
    PyObject *root;        /* folder that is left out of the site's name, with its slash; NULL: the
                       working directory */
    const tt_stats *stats; /* of the value, with its shape; NULL: not computed yet */
    const int64_t *shape;
    int32_t ndim;
} runs_change;

/* The innermost run, into which events go: borrowed; NULL: nobody records.  runs/process.py opens and
 * closes runs, and asks by open_run(). */
PyObject *runs_open_run(const binding_state *state);
/* Where a run is open: a number as a scalar, a tensor by its statistics.  -1: an exception is set. */
int runs_put(binding_state *state, PyObject *site, PyObject *value);
/* The same for a change, at the site line/train.py:34:y.  A change that two front
 * ends tell of is put once. */
int runs_put_change(binding_state *state, const runs_change *change, PyObject *value);

#endif
