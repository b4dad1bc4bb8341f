/* frame.h -- looks into a running frame without touching it.
 *
 * For the sources, and for who looks for the user's frame from one of ours.  All
 * results are borrowed: what a frame's slot holds lives as long as the slot is not
 * stored to, and nothing runs between two events of a frame that we look at.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_FRAME_H
#define TT_EXT_BASE_FRAME_H

#include "lines/source.h"

line_frame *locals_running(void); /* the frame that runs Python code now */
/* The newest frame of a thread, which waits for the GIL; NULL: none, or this Python hides it. */
line_frame *locals_top(PyThreadState *thread);
line_frame *locals_of(PyFrameObject *frame);
line_frame *locals_back(line_frame *at); /* who called it, or NULL */
PyCodeObject *locals_code(line_frame *at);
int locals_instruction(line_frame *at); /* index of the current one; -1: not started */
/* The same in one call, for each line event: -1 too if frame (the running one, if it is NULL)
 * is not `at` with that code. */
int locals_instruction_if(PyFrameObject *frame, const line_frame *at, const PyCodeObject *code);
/* The value of a slot (cells are looked into); NULL: unbound.  name is for the
 * Pythons whose frames we do not know. */
PyObject *locals_slot(line_frame *at, int slot, PyObject *name);
/* All slots, as long as the frame lives; a cell is the cell.  NULL: this Python does not show them. */
PyObject *const *locals_slots(line_frame *at);
PyObject *locals_globals(line_frame *at);
PyObject *locals_names(line_frame *at); /* the mapping of a class body, module or exec, or NULL */

enum { CODE_UNIT = 2 }; /* bytes of an instruction: _Py_CODEUNIT is private from 3.13 on */

/* Of a frame that has just been entered or is being left, up to 3.11: is it its
 * first start; is it left by a yield? */
bool locals_is_fresh(line_frame *at);
bool locals_is_yield(line_frame *at);
/* Of a generator or coroutine that has just been entered again: what was sent into it (None, if
 * nothing was), NULL: this Python does not show it; and the instruction that had yielded. */
PyObject *locals_sent(line_frame *at);
int locals_yield(line_frame *at);

/* f_trace_lines of a frame object, where this Python has it in the struct; of
 * all frames of a thread, switched on again. */
void locals_set_line_events(PyFrameObject *frame, bool is_on);
/* f_trace_opcodes, up to 3.11: an event for each instruction of the frame. */
bool locals_has_instruction_events(PyFrameObject *frame);
void locals_set_instruction_events(PyFrameObject *frame, bool is_on);
void locals_wake(PyThreadState *thread);

#endif
