/* frame.c -- reads the fast locals where the interpreter keeps them.
 *
 * The public functions copy all locals into a dict, or create an object for each name,
 * and hold references: at every line that takes longer than everything else we do
 * (bench_line_plain.py).  The frame layout of a released Python never changes, so this file
 * knows the layouts up to 3.13.  Newer Pythons use the public functions, which are
 * slower and give the same results; define TT_PUBLIC_LOCALS to try them on 3.12 and 3.13.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/compat.h"

#if PY_VERSION_HEX < 0x030C0000 || (PY_VERSION_HEX < 0x030E0000 && !defined(TT_PUBLIC_LOCALS))
#define HAS_INTERPRETER_FRAME 1
#define Py_BUILD_CORE 1
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif
#include <frameobject.h>
#include <opcode.h>

#include "base/frame.h"

#ifdef HAS_INTERPRETER_FRAME

static _PyInterpreterFrame *inner(base_frame *at)
{
    return (_PyInterpreterFrame *)at;
}

base_frame *base_frame_of(PyFrameObject *frame)
{
    return (base_frame *)frame->f_frame;
}

PyCodeObject *base_frame_code(base_frame *at)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)inner(at)->f_executable;
#else
    return inner(at)->f_code;
#endif
}

#if PY_VERSION_HEX >= 0x030C0000
/* From 3.12 on a call from C leaves a frame of its own between those of Python, and so does a class
 * that calls its __init__: the code of that frame has no instruction that could be traced. */
static bool is_of_interpreter(_PyInterpreterFrame *at)
{
    if (at->owner == FRAME_OWNED_BY_CSTACK)
        return true;
    const PyCodeObject *code = base_frame_code((base_frame *)at);
    return code->_co_firsttraceable >= Py_SIZE(code);
}
#endif

static base_frame *of_python(_PyInterpreterFrame *at)
{
#if PY_VERSION_HEX >= 0x030C0000
    while (at != NULL && is_of_interpreter(at))
        at = at->previous;
#endif
    return (base_frame *)at;
}

base_frame *base_frame_back(base_frame *at)
{
    return of_python(inner(at)->previous);
}

base_frame *base_frame_running(void)
{
    return base_frame_top(PyThreadState_Get());
}

base_frame *base_frame_top(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030D0000
    return of_python(thread->current_frame);
#else
    return of_python(thread->cframe->current_frame);
#endif
}

int base_frame_instruction(base_frame *at)
{
    const _Py_CODEUNIT *first = _PyCode_CODE(base_frame_code(at));
#if PY_VERSION_HEX >= 0x030D0000
    return (int)(inner(at)->instr_ptr - first);
#else
    return (int)(inner(at)->prev_instr - first);
#endif
}

PyObject *base_frame_slot(base_frame *at, int slot, PyObject *name)
{
    (void)name;
    PyObject *value = inner(at)->localsplus[slot];
    if (value == NULL || !PyCell_Check(value))
        return value;
    const char *kinds = PyBytes_AS_STRING(base_frame_code(at)->co_localspluskinds);
    return kinds[slot] & (CO_FAST_CELL | CO_FAST_FREE) ? PyCell_GET(value) : value;
}

PyObject *base_frame_globals(base_frame *at)
{
    return inner(at)->f_globals;
}

PyObject *base_frame_names(base_frame *at)
{
    return base_frame_code(at)->co_flags & CO_OPTIMIZED ? NULL : inner(at)->f_locals;
}

PyObject *base_frame_sent(base_frame *at)
{
    int top = inner(at)->stacktop; /* -1: it is not written down just now */
    return top > base_frame_code(at)->co_nlocalsplus ? inner(at)->localsplus[top - 1] : NULL;
}

#else /* the public way */

base_frame *base_frame_of(PyFrameObject *frame)
{
    return (base_frame *)frame;
}

base_frame *base_frame_back(base_frame *at)
{
    PyFrameObject *back = PyFrame_GetBack((PyFrameObject *)at);
    Py_XDECREF(back); /* it runs, so it lives */
    return (base_frame *)back;
}

PyCodeObject *base_frame_code(base_frame *at)
{
    PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)at);
    Py_DECREF(code); /* the frame has one */
    return code;
}

base_frame *base_frame_running(void)
{
    return (base_frame *)PyEval_GetFrame();
}

base_frame *base_frame_top(PyThreadState *thread)
{
    PyFrameObject *frame = PyThreadState_GetFrame(thread);
    Py_XDECREF(frame); /* it runs, so it lives */
    return (base_frame *)frame;
}

int base_frame_instruction(base_frame *at)
{
    int offset = PyFrame_GetLasti((PyFrameObject *)at);
    return offset < 0 ? -1 : offset / 2;
}

/* Drops the reference: the frame has one, or it was not a value. */
static PyObject *borrow(PyObject *value)
{
    if (value == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *kept = Py_REFCNT(value) > 1 ? value : NULL;
    Py_DECREF(value);
    return kept;
}

PyObject *base_frame_slot(base_frame *at, int slot, PyObject *name)
{
    (void)slot;
    return borrow(PyFrame_GetVar((PyFrameObject *)at, name));
}

PyObject *base_frame_globals(base_frame *at)
{
    return borrow(PyFrame_GetGlobals((PyFrameObject *)at));
}

PyObject *base_frame_names(base_frame *at)
{
    if (base_frame_code(at)->co_flags & CO_OPTIMIZED)
        return NULL;
    return borrow(PyFrame_GetLocals((PyFrameObject *)at));
}

PyObject *base_frame_sent(base_frame *at)
{
    (void)at;
    return NULL;
}

#endif

/* A thread of C++ that comes to Python, such as one of autograd's, makes its state without the GIL.  Python
 * 3.11 puts it into the list first and fills it then, under a lock of its own. */
PyThreadState *base_first_thread(void)
{
    PyThreadState *first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    (void)PyThreadState_SetAsyncExc(0, NULL); /* no thread has this number; it waits for that lock */
    return first;
}

int base_frame_instruction_if(PyFrameObject *frame, const base_frame *at, const PyCodeObject *code)
{
    base_frame *here = frame != NULL ? base_frame_of(frame) : base_frame_running();
    return here == at && here != NULL && base_frame_code(here) == code ? base_frame_instruction(here)
                                                                       : -1;
}

#if PY_VERSION_HEX < 0x030C0000

static _Py_CODEUNIT unit_at(base_frame *at)
{
    return _PyCode_CODE(base_frame_code(at))[base_frame_instruction(at)];
}

bool base_frame_is_fresh(base_frame *at)
{
    _Py_CODEUNIT unit = unit_at(at);
    return _Py_OPARG(unit) == 0 && _Py_OPCODE(unit) != YIELD_VALUE; /* RESUME, or where one was thrown */
}

bool base_frame_is_yield(base_frame *at)
{
    return _Py_OPCODE(unit_at(at)) == YIELD_VALUE;
}

void base_frame_wake(PyThreadState *thread)
{
    for (_PyInterpreterFrame *at = thread->cframe->current_frame; at != NULL; at = at->previous)
        if (at->frame_obj != NULL) /* a frame without one was never silenced */
            at->frame_obj->f_trace_lines = 1;
}

#endif
