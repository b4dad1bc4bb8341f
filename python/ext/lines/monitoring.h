/* monitoring.h -- what monitoring.c and monitoring_tool.c share: the line source's
 * side of sys.monitoring, on Python 3.12 and later.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_MONITORING_H
#define TT_EXT_LINES_MONITORING_H

#include "lines/engine.h"

/* Events by name, because their numbers differ between versions. */
#define EVENT_MAP(X)        \
    X(PY_START, on_start)   \
    X(PY_RESUME, on_resume) \
    X(PY_THROW, on_throw)   \
    X(LINE, on_line)        \
    X(INSTRUCTION, on_step) \
    X(JUMP, on_jump)        \
    X(PY_RETURN, on_return) \
    X(PY_YIELD, on_yield)   \
    X(PY_UNWIND, on_unwind)

#define X(name, function) EVENT_##name,
enum { EVENT_MAP(X) EVENT_COUNT_ };
#undef X

typedef struct lines_driver {
    PyObject *monitoring; /* owned; sys.monitoring */
    PyObject *disable;    /* owned */
    PyObject *source;     /* owned; self of the callbacks: bytes that hold the address */
    long event[EVENT_COUNT_];
    int tool;
} lines_driver;

static inline lines_driver *lines_driver_of(const lines_source *source)
{
    return source->driver;
}

/* monitoring.c; by event */
extern PyMethodDef lines_monitoring_callbacks[];

/* monitoring_tool.c: the code object's lines are heard of from now on. */
void lines_monitoring_listen(lines_source *source, lines_code *code);

#endif
