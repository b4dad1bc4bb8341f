/* frame.h -- reads a running frame without changing it.
 *
 * Used by the sources, and to find the user's frame from one of ours.  All
 * results are borrowed: a slot keeps its value until the frame stores to it, and the
 * frame does not run while we read it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_FRAME_H
#define TT_EXT_BASE_FRAME_H

#include "base/compat.h"

typedef struct base_frame base_frame; /* a frame of Python that runs */

/* The first of all threads, for PyThreadState_Next(); its state is complete. */
PyThreadState *base_first_thread(void);
base_frame *base_frame_running(void); /* the frame that runs Python code now */
/* The newest frame of a thread, which waits for the GIL; NULL: none, or this Python hides it. */
base_frame *base_frame_top(PyThreadState *thread);
base_frame *base_frame_of(PyFrameObject *frame);
base_frame *base_frame_back(base_frame *at); /* who called it, or NULL */
PyCodeObject *base_frame_code(base_frame *at);
int base_frame_instruction(base_frame *at); /* index of the current one; -1: not started */
/* The same in one call, for each line event: -1 too if frame (the running one, if it is NULL)
 * is not `at` with that code. */
int base_frame_instruction_if(PyFrameObject *frame, const base_frame *at, const PyCodeObject *code);
/* The value of a slot (cells are looked into); NULL: unbound.  name is for the
 * Pythons whose frames we do not know. */
PyObject *base_frame_slot(base_frame *at, int slot, PyObject *name);
PyObject *base_frame_globals(base_frame *at);
PyObject *base_frame_names(base_frame *at); /* the mapping of a class body, module or exec, or NULL */

enum { CODE_UNIT = 2 }; /* bytes of an instruction: _Py_CODEUNIT is private from 3.13 on */

/* Of a generator or coroutine that has just been resumed: the value that was sent into it (None if
 * none was); NULL: this Python does not show it. */
PyObject *base_frame_sent(base_frame *at);

#if PY_VERSION_HEX < 0x030C0000
/* Of a frame that has just been entered: is it its first start?  Of one that is being left:
 * does it yield? */
bool base_frame_is_fresh(base_frame *at);
bool base_frame_is_yield(base_frame *at);
/* Sets f_trace_lines of all frames of a thread. */
void base_frame_wake(PyThreadState *thread);
#endif

#endif
