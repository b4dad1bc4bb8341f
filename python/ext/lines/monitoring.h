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

typedef struct driver {
    PyObject *monitoring; /* owned; sys.monitoring */
    PyObject *disable;    /* owned */
    PyObject *source;     /* owned; self of the callbacks: bytes that hold the address */
    long event[EVENT_COUNT_];
    int tool;
} driver;

static inline driver *driver_of(const line_source *source)
{
    return source->driver;
}

/* monitoring.c; by event */
extern PyMethodDef monitor_callbacks[];

/* monitoring_tool.c: the code object's lines are heard of from now on. */
void monitor_listen(line_source *source, line_code *code);

#endif
