/* settrace.h -- what settrace.c and bypass.c share: the trace function's
 * side of the line source, on Python 3.10 and 3.11.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_SETTRACE_H
#define TT_EXT_LINES_SETTRACE_H

#include "lines/engine.h"

enum { VERDICTS = 1024 };

typedef struct lines_driver {
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
} lines_driver;

/* What sys.gettrace() shows while we are on, one for each thread. */
typedef struct lines_tracer {
    PyObject_HEAD lines_source *source;
    Py_tracefunc previous;
    PyObject *previous_object; /* owned or NULL */
    uint64_t epoch;
    bool is_installer;
} lines_tracer;

int lines_settrace_event(PyObject *self, PyFrameObject *frame, int what,
                         PyObject *arg); /* the trace function */

static inline lines_driver *lines_driver_of(const lines_source *source)
{
    return source->driver;
}

/* bypass.c */
lines_code *lines_bypass_code(lines_source *source,
                              PyCodeObject *code); /* as lines_source_code, and noted */
bool lines_bypass_is_idle(const lines_source *source,
                          const PyCodeObject *code); /* noted as not selected */
void lines_bypass_start(lines_source *source);
void lines_bypass_stop(void);
void lines_bypass_wake(lines_source *source); /* frames that run are heard again, wanted or not */

#endif
