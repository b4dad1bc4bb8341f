/* settrace.h -- what settrace.c and bypass.c share: the trace function's
 * side of the line source, on Python 3.10 and 3.11.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_SETTRACE_H
#define TT_EXT_LINES_SETTRACE_H

#include "lines/engine.h"

enum { VERDICTS = 1024 };

typedef struct driver {
    PyTypeObject *type;      /* owned */
    PyObject *installer;     /* owned; given to threading.settrace */
    PyObject *previous_hook; /* owned; what threading had; None: nothing */
    uint64_t epoch;          /* goes up at each stop: older tracers take themselves off */
    int64_t stepping;        /* frames with instruction events of ours, about */
    /* Of bypass.c.  A verdict is a code object's address, plus one if somebody
     * selected it, at a place made of the address; good for one generation of consumers. */
    uintptr_t verdicts[VERDICTS];
    uint64_t verdict_generation;
    uint64_t wakes;   /* goes up when running frames are all switched on again */
    bool steps_aside; /* the C stack was half used up */
} driver;

/* What sys.gettrace() shows while we are on, one for each thread. */
typedef struct tracer {
    PyObject_HEAD line_source *source;
    Py_tracefunc previous;
    PyObject *previous_object; /* owned or NULL */
    uint64_t epoch;
    bool is_installer;
} tracer;

int trace_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg); /* the trace function */

static inline driver *driver_of(const line_source *source)
{
    return source->driver;
}

/* bypass.c */
line_code *bypass_code(line_source *source, PyCodeObject *code);          /* as source_code, and noted */
bool bypass_is_idle(const line_source *source, const PyCodeObject *code); /* noted as not selected */
void bypass_start(line_source *source);
void bypass_stop(void);
void bypass_wake(line_source *source); /* frames that run are heard again, wanted or not */

#endif
