/* bypass.c -- code that nobody selected runs untraced, on Python 3.10 and 3.11.
 *
 * A trace function slows down every instruction of its thread, whoever wants to
 * hear of it: a loop in a file that nobody selected took three times as long.  So
 * while the source is on, frames are evaluated through a function of ours (PEP
 * 523), which does nothing but set a switch.  The interpreter takes a frame's
 * use_tracing from the caller's C frame, and gives back what it is at the end:
 *
 *     caller, switch as it was ──► ours: on if the code is selected, else off ──► the interpreter
 *     caller, switch as it was ◄── ours: as it was                            ◄──┘
 *
 * Others come first.  Where another trace function stands behind ours, or there is
 * a profiler, the switch is left alone; what they set while a frame ran is passed on
 * as the interpreter does.  Where frames are evaluated by somebody else's function
 * already we do not come in its way.  One that comes later (torch.compile's) calls
 * ours in place of the interpreter's, and puts it back; so ours may be called when
 * the source is off, and takes itself out then.
 *
 * With such a function a Python call takes room on the C stack, on 3.11 as on 3.10.
 * A program that recurses deeper than half of the stack has its calls the interpreter's
 * way from then on, until the source is started anew, and is traced without bypass.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/settrace.h"

#if PY_VERSION_HEX < 0x030C0000

#include <pthread.h>
#include <string.h>

/* ---- verdicts ---------------------------------------------------------------- */

static size_t verdict_place(const PyCodeObject *code)
{
    uint64_t hash = (uint64_t)(uintptr_t)code * 0x9e3779b97f4a7c15u;
    return hash >> 32 & (VERDICTS - 1);
}

/* The source keeps the code object, so that its address is not used again. */
lines_code *lines_bypass_code(lines_source *source, PyCodeObject *code)
{
    lines_driver *made = lines_driver_of(source);
    uint64_t generation = source->generation;
    lines_code *known = lines_source_code(source, code);
    if (generation != source->generation) /* another thread had its turn */
        return known;
    if (made->verdict_generation != generation)
        memset(made->verdicts, 0, sizeof made->verdicts);
    made->verdict_generation = generation;
    made->verdicts[verdict_place(code)] = (uintptr_t)code + (known != NULL);
    return known;
}

bool lines_bypass_is_idle(const lines_source *source, const PyCodeObject *code)
{
    const lines_driver *made = lines_driver_of(source);
    return made->verdict_generation == source->generation &&
           made->verdicts[verdict_place(code)] == (uintptr_t)code;
}

#ifndef TT_PUBLIC_LOCALS

/* In between a call and its frame: an exception may be on its way (throw), and
 * what the consumers do is not to be traced. */
static bool ask(PyThreadState *thread, lines_source *source, PyCodeObject *code)
{
    PyObject *type, *value, *trace; /* owned */
    PyErr_Fetch(&type, &value, &trace);
    thread->tracing++;
    thread->cframe->use_tracing = 0;
    source->inside++;
    bool is_selected = lines_bypass_code(source, code) != NULL;
    source->inside--;
    if (PyErr_Occurred())
        lines_source_note_error(source, -1);
    thread->tracing--;
    PyErr_Restore(type, value, trace);
    return is_selected;
}

static bool is_wanted(PyThreadState *thread, lines_source *source, PyCodeObject *code)
{
    const lines_driver *made = lines_driver_of(source);
    uintptr_t verdict = made->verdicts[verdict_place(code)];
    if (made->verdict_generation == source->generation && (verdict & ~(uintptr_t)1) == (uintptr_t)code)
        return verdict & 1;
    return ask(thread, source, code);
}

/* ---- the switch -------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030B0000
typedef struct _PyInterpreterFrame evaluated_frame;
typedef _PyCFrame c_frame;
#else
typedef PyFrameObject evaluated_frame;
typedef CFrame c_frame;
#endif

enum { SWITCH_ON = 255 }; /* what the interpreter itself writes */

/* The source whose trace function is alone in this thread, and not at work just now. */
static lines_source *listening_alone(const PyThreadState *thread)
{
    if (thread->c_tracefunc != lines_settrace_event || thread->c_profilefunc != NULL ||
        thread->tracing != 0)
        return NULL;
    const lines_tracer *mine = (const lines_tracer *)thread->c_traceobj;
    bool is_current = mine->source->is_running && mine->epoch == lines_driver_of(mine->source)->epoch;
    return is_current && mine->previous == NULL ? mine->source : NULL;
}

/* Half of this thread's stack, found once; a place outside of it is deep as well. */
static bool is_deep(void)
{
    static _Thread_local uintptr_t half, top;
    if (top == 0) {
        pthread_attr_t attributes;
        void *lowest = NULL;
        size_t size = 0;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            pthread_attr_getstack(&attributes, &lowest, &size);
            pthread_attr_destroy(&attributes);
        }
        half = (uintptr_t)lowest + size / 2;
        top = (uintptr_t)lowest + size + 1;
    }
    uintptr_t at = (uintptr_t)__builtin_frame_address(0);
    return at < half || at >= top;
}

/* A frame evaluation function is given no context of its own, and is one for the
 * interpreter: whether anybody wants it.  Read and written with the GIL held. */
static bool is_asked_for;

static PyObject *evaluate(PyThreadState *thread, evaluated_frame *frame, int is_thrown)
{
    lines_source *source = listening_alone(thread);
    if (source != NULL && is_deep()) {
        lines_driver_of(source)->steps_aside = true;
        lines_bypass_wake(source);
        is_asked_for = false;
        source = NULL;
    }
    if (!is_asked_for)
        lines_bypass_stop();
    if (source == NULL)
        return _PyEval_EvalFrameDefault(thread, frame, is_thrown);
    const lines_driver *made = lines_driver_of(source);
    c_frame *caller = thread->cframe;
    uint64_t wakes = made->wakes;
    bool is_on = caller->use_tracing != 0;
    caller->use_tracing = is_wanted(thread, source, base_frame_code((base_frame *)frame)) ? SWITCH_ON : 0;
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, is_thrown);
    if (listening_alone(thread) == source && made->wakes == wakes)
        caller->use_tracing = is_on ? SWITCH_ON : 0;
    return result;
}

/* ---- coming and going -------------------------------------------------------- */

void lines_bypass_start(lines_source *source)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    is_asked_for = !lines_driver_of(source)->steps_aside;
    if (is_asked_for && _PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

void lines_bypass_stop(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    is_asked_for = false;
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
}

void lines_bypass_wake(lines_source *source)
{
    lines_driver_of(source)->wakes++;
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        c_frame *at = thread->c_tracefunc == lines_settrace_event ? thread->cframe : NULL;
        for (; at != NULL && at != &thread->root_cframe; at = at->previous)
            at->use_tracing = SWITCH_ON;
        if (at != NULL) /* the lowest: on 3.10 nothing is written to its `previous` */
            at->use_tracing = SWITCH_ON;
    }
}

#else /* frames that are not looked into have no code to decide by */

void lines_bypass_start(lines_source *source)
{
    (void)source;
}

void lines_bypass_stop(void)
{
}

void lines_bypass_wake(lines_source *source)
{
    (void)source;
}

#endif
#endif
