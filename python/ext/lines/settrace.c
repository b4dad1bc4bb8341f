/* settrace.c -- line events from PyEval_SetTrace, for Python 3.11.
 *
 * Each thread has at most one trace function, so ours passes every event on to the one that
 * was there before, and puts that one back at the end.  Threads started later get ours
 * through threading.settrace; each thread removes its own at its first event after the stop.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#if PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h> /* f_trace_lines, f_trace_opcodes */
#undef Py_BUILD_CORE
#include <pthread.h>
#include <string.h>

typedef struct lines_driver {
    PyTypeObject *type;      /* owned */
    PyObject *installer;     /* owned; given to threading.settrace */
    PyObject *previous_hook; /* owned; what threading had; None: nothing */
    uint64_t epoch;          /* goes up at each stop: older tracers take themselves off */
    int64_t stepping;        /* frames with instruction events of ours, about */
    uint64_t wakes;          /* goes up when running frames are all switched on again */
    bool steps_aside;        /* more than half of the C stack was in use: no bypass */
} lines_driver;

/* What sys.gettrace() shows while we are on, one for each thread. */
typedef struct lines_tracer {
    PyObject_HEAD lines_source *source;
    Py_tracefunc previous;
    PyObject *previous_object; /* owned or NULL */
    uint64_t epoch;
    bool is_installer;
} lines_tracer;

static int on_trace(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);

/* ---- code that is not selected runs untraced ---------------------------------- */

/* A trace function slows down every instruction of its thread: a loop in a file that was not
 * selected took three times as long.  So while the source is on, frames are evaluated through
 * a function of ours (PEP 523) that only sets a switch.  The interpreter takes a frame's
 * use_tracing from the caller's C frame, and restores it at the end:
 *
 *     caller, switch as it was ──► ours: on if the code is selected, else off ──► the interpreter
 *     caller, switch as it was ◄── ours: as it was                            ◄──┘
 *
 * Other tools come first.  With another trace function behind ours, or a profiler, the switch
 * is left alone; what they set while a frame ran is passed on as the interpreter does.  If
 * another function evaluates frames already, ours is not installed.  One that comes later
 * (torch.compile's) calls ours instead of the interpreter's, and puts it back; so ours may be
 * called when the source is off, and removes itself then.
 *
 * With such a function a Python call needs space on the C stack.  A program that recurses
 * deeper than half of the stack is evaluated by the interpreter from then on, and traced
 * without bypass, until the source is started again. */

/* Called between a call and its frame: an exception may be pending (throw), and what the
 * consumers do must not be traced. */
static bool ask(PyThreadState *thread, lines_source *source, PyCodeObject *code)
{
    PyObject *pending = PyErr_GetRaisedException(); /* owned or NULL */
    thread->tracing++;
    thread->cframe->use_tracing = 0;
    source->inside++;
    bool is_selected = lines_source_code(source, code) != NULL;
    source->inside--;
    if (PyErr_Occurred())
        lines_source_note_error(source, -1);
    thread->tracing--;
    PyErr_SetRaisedException(pending);
    return is_selected;
}

/* What the source knows of a code object, if the consumers were asked; else NULL. */
static const lines_code *known_code(lines_source *source, const PyCodeObject *code)
{
    const lines_code *known = base_map_find(&source->codes, code);
    return known != NULL && known->generation == source->generation ? known : NULL;
}

enum { SWITCH_ON = 255 }; /* what the interpreter itself writes */

/* The source whose trace function is alone in this thread, and not at work just now. */
static lines_source *listening_alone(const PyThreadState *thread)
{
    if (thread->c_tracefunc != on_trace || thread->c_profilefunc != NULL || thread->tracing != 0)
        return NULL;
    const lines_tracer *mine = (const lines_tracer *)thread->c_traceobj;
    bool is_current = mine->source->is_running && mine->epoch == mine->source->driver->epoch;
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

static PyObject *evaluate(PyThreadState *thread, struct _PyInterpreterFrame *frame, int is_thrown);

static void stop_bypass(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    is_asked_for = false;
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
}

/* Running frames have events again, whether they are wanted or not. */
static void wake_bypass(lines_source *source)
{
    source->driver->wakes++;
    PyThreadState *thread = base_first_thread();
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        _PyCFrame *at = thread->c_tracefunc == on_trace ? thread->cframe : NULL;
        for (; at != NULL; at = at != &thread->root_cframe ? at->previous : NULL)
            at->use_tracing = SWITCH_ON;
    }
}

static PyObject *evaluate(PyThreadState *thread, struct _PyInterpreterFrame *frame, int is_thrown)
{
    lines_source *source = listening_alone(thread);
    if (source != NULL && is_deep()) {
        source->driver->steps_aside = true;
        wake_bypass(source);
        is_asked_for = false;
        source = NULL;
    }
    if (!is_asked_for)
        stop_bypass();
    if (source == NULL)
        return _PyEval_EvalFrameDefault(thread, frame, is_thrown);
    const lines_driver *made = source->driver;
    _PyCFrame *caller = thread->cframe;
    uint64_t wakes = made->wakes;
    bool is_on = caller->use_tracing != 0;
    PyCodeObject *code = base_frame_code((base_frame *)frame); /* borrowed */
    const lines_code *known = known_code(source, code);
    bool is_wanted = known != NULL ? known->mask != 0 : ask(thread, source, code);
    caller->use_tracing = is_wanted ? SWITCH_ON : 0;
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, is_thrown);
    if (listening_alone(thread) == source && made->wakes == wakes)
        caller->use_tracing = is_on ? SWITCH_ON : 0;
    return result;
}

static void start_bypass(lines_source *source)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    is_asked_for = !source->driver->steps_aside;
    if (is_asked_for && _PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

/* ---- one thread -------------------------------------------------------------- */

static void hook(lines_tracer *mine)
{
    PyThreadState *thread = PyThreadState_Get();
    if (thread->c_tracefunc == on_trace)
        return;
    mine->previous = thread->c_tracefunc;
    Py_XSETREF(mine->previous_object, Py_XNewRef(thread->c_traceobj));
    PyEval_SetTrace(on_trace, (PyObject *)mine);
}

static void unhook(void)
{
    PyThreadState *thread = PyThreadState_Get();
    if (thread->c_tracefunc != on_trace)
        return;                                                         /* another tool's now: leave it */
    lines_tracer *mine = (lines_tracer *)Py_NewRef(thread->c_traceobj); /* owned */
    PyEval_SetTrace(mine->previous, mine->previous_object);
    mine->previous = NULL;
    Py_CLEAR(mine->previous_object);
    Py_DECREF(mine);
}

static lines_tracer *make_tracer(lines_source *source, bool is_installer)
{
    lines_driver *made = source->driver;
    lines_tracer *mine = PyObject_New(lines_tracer, made->type);
    if (mine == NULL)
        return NULL;
    mine->source = source;
    mine->previous = NULL;
    mine->previous_object = NULL;
    mine->epoch = made->epoch;
    mine->is_installer = is_installer;
    return mine;
}

static int hook_this_thread(lines_source *source)
{
    if (PyThreadState_Get()->c_tracefunc == on_trace) {
        lines_tracer *there = (lines_tracer *)PyThreadState_Get()->c_traceobj; /* borrowed */
        there->epoch = source->driver->epoch;
        return 0;
    }
    lines_tracer *mine = make_tracer(source, false);
    if (mine == NULL)
        return -1;
    hook(mine);
    Py_DECREF(mine);
    return 0;
}

/* ---- events ------------------------------------------------------------------ */

/* The frame is not wanted: no more line events from it, unless another trace function
 * wants them.  A suspended generator's frame cannot be found again to undo
 * that, so it is undone when the frame is left. */
static void silence(const lines_tracer *mine, PyFrameObject *frame, int what)
{
    if (mine->previous == NULL)
        frame->f_trace_lines = what == PyTrace_RETURN;
}

/* Instruction events are on in a frame while more statements come on the line it is at.
 * Another trace function must not see that: they are off while it runs. */
static void stop_steps(lines_source *source, lines_record *record, PyFrameObject *frame)
{
    if (!record->is_stepping)
        return;
    frame->f_trace_opcodes = 0;
    record->is_stepping = false;
    source->driver->stepping--;
}

static void start_steps(lines_source *source, lines_record *record, PyFrameObject *frame, bool is_line)
{
    bool leads = !record->is_bare && record->statement >= 0 &&
                 record->code->table->statements[record->statement].flags & STATEMENT_LEADS;
    record->line_event = leads && is_line ? base_frame_instruction(record->at) : -1;
    if (!leads || frame->f_trace_opcodes)
        return;
    frame->f_trace_opcodes = 1;
    record->is_stepping = true;
    source->driver->stepping++;
}

static void on_event(lines_tracer *mine, PyFrameObject *frame, int what, PyObject *arg)
{
    lines_source *source = mine->source;
    base_frame *at = base_frame_of(frame);
    PyCodeObject *code = base_frame_code(at);
    lines_record *record = lines_source_find(source, at);
    bool is_start = what == PyTrace_CALL;
    if (record != NULL && record->code->code != code) { /* of a frame that ended unseen */
        lines_source_forget(source, record);
        record = NULL;
    }
    if (record == NULL || is_start) {
        if (what != PyTrace_LINE && !is_start)
            return;
        lines_code *known = lines_source_code(source, code);
        if (known == NULL) {
            silence(mine, frame, what);
            return;
        }
        bool is_fresh = is_start && base_frame_is_fresh(at);
        record = lines_source_frame(source, at, known, is_fresh);
        bool can_sleep = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
        if (record == NULL && !can_sleep) /* else it would stay silent: the code itself is wanted */
            silence(mine, frame, what);
        if (record != NULL && is_start)
            lines_record_enter(source, record, is_fresh);
    }
    if (record == NULL)
        return;
    if (what == PyTrace_LINE) {
        lines_statement_at(source, record, base_frame_instruction(at));
    } else if (what == PyTrace_OPCODE) {
        lines_statement_step(source, record, base_frame_instruction(at));
    } else if (what == PyTrace_RETURN) {
        lines_record_leave(source, record, base_frame_instruction(at), arg,
                           arg != NULL && base_frame_is_yield(at));
    }
}

/* Passes the event on to the trace function that was there before ours; if that one sets
 * another, ours is put in front of it again. */
static int hand_on(lines_tracer *mine, PyFrameObject *frame, int what, PyObject *arg)
{
    if (mine->previous == NULL)
        return 0;
    int result = mine->previous(mine->previous_object, frame, what, arg);
    PyThreadState *thread = PyThreadState_Get();
    if (thread->c_tracefunc != on_trace) {
        PyObject *pending = PyErr_GetRaisedException(); /* owned */
        mine->previous = NULL;
        Py_CLEAR(mine->previous_object);
        hook(mine);
        PyErr_SetRaisedException(pending);
    }
    return result;
}

/* Everything but the next line of plain Python.  Apart, so that the common path saves no registers. */
static __attribute__((noinline)) int trace_any(PyObject *self, PyFrameObject *frame, int what,
                                               PyObject *arg)
{
    lines_tracer *mine = (lines_tracer *)self;
    lines_source *source = mine->source;
    if (!source->is_running || mine->epoch != source->driver->epoch) {
        Py_tracefunc previous = mine->previous;
        PyObject *object = Py_XNewRef(mine->previous_object); /* owned */
        unhook();
        int result = previous != NULL ? previous(object, frame, what, arg) : 0;
        Py_XDECREF(object);
        return result;
    }
    const lines_code *known = known_code(source, base_frame_code(base_frame_of(frame)));
    if (mine->previous == NULL && known != NULL && known->mask == 0) {
        silence(mine, frame, what);
        return 0;
    }
    Py_INCREF(self);
    if (what == PyTrace_LINE || what == PyTrace_CALL || what == PyTrace_RETURN ||
        what == PyTrace_OPCODE) {
        source->inside++;
        on_event(mine, frame, what, arg);
        source->inside--;
        if (PyErr_Occurred())
            lines_source_note_error(source, -1);
    }
    lines_record *record = lines_source_find(source, base_frame_of(frame));
    bool is_ours = what == PyTrace_OPCODE && record != NULL && record->is_stepping;
    if (record != NULL)
        stop_steps(source, record, frame);
    int result = is_ours ? 0 : hand_on(mine, frame, what, arg);
    record = result == 0 && source->is_running ? lines_source_find(source, base_frame_of(frame)) : NULL;
    if (record != NULL)
        start_steps(source, record, frame, what == PyTrace_LINE);
    Py_DECREF(self);
    return result;
}

static int on_trace(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    const lines_tracer *mine = (const lines_tracer *)self;
    lines_source *source = mine->source;
    lines_record *last = source->last;
    if (what == PyTrace_LINE && mine->previous == NULL && last != NULL && source->is_running &&
        mine->epoch == source->driver->epoch &&
        lines_statement_quick(source, last, base_frame_instruction_if(frame, last->at, last->code->code)))
        return 0;
    return trace_any(self, frame, what, arg);
}

/* sys.settrace(what sys.gettrace() gave) or threading calls us as a Python
 * trace function: we take the C way again. */
static PyObject *tracer_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    lines_tracer *mine = (lines_tracer *)self;
    PyObject *frame = NULL, *event = NULL, *arg = NULL; /* borrowed */
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!UO", &PyFrame_Type, &frame, &event, &arg))
        return NULL;
    lines_source *source = mine->source;
    if (!source->is_running || mine->epoch != source->driver->epoch)
        Py_RETURN_NONE;
    PyObject *hook_before = source->driver->previous_hook; /* borrowed */
    lines_tracer *here =
        mine->is_installer ? make_tracer(source, false) : (lines_tracer *)Py_NewRef(self); /* owned */
    if (here == NULL)
        return NULL;
    PyEval_SetTrace(NULL, NULL); /* it is ourselves, in the form of a Python function */
    if (mine->is_installer && hook_before != NULL && hook_before != Py_None) {
        PyObject *settrace = PySys_GetObject("settrace"); /* borrowed */
        Py_XDECREF(settrace != NULL ? PyObject_CallOneArg(settrace, hook_before) : NULL);
        PyErr_Clear();
    }
    hook(here);
    int what = PyUnicode_CompareWithASCIIString(event, "call") == 0   ? PyTrace_CALL
               : PyUnicode_CompareWithASCIIString(event, "line") == 0 ? PyTrace_LINE
                                                                      : -1;
    int result = what >= 0 ? on_trace((PyObject *)here, (PyFrameObject *)frame, what, arg) : 0;
    PyObject *local = result < 0 ? NULL : PyObject_GetAttrString(frame, "f_trace"); /* owned */
    Py_DECREF(here);
    if (local == NULL)
        PyErr_Clear();
    return local != NULL ? local : Py_NewRef(Py_None);
}

static void tracer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((lines_tracer *)self)->previous_object);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot tracer_slots[] = {
    { Py_tp_doc, "The line source's trace function." },
    { Py_tp_call, tracer_call },
    { Py_tp_dealloc, tracer_dealloc },
    { 0, NULL },
};

static PyType_Spec tracer_spec = {
    .name = "tensortap._core.LineTracer",
    .basicsize = sizeof(lines_tracer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = tracer_slots,
};

/* ---- all threads -------------------------------------------------------------- */

/* Frames that we silenced, and that may be wanted now. */
static void wake_frames(lines_source *source)
{
    PyThreadState *thread = base_first_thread();
    for (; thread != NULL; thread = PyThreadState_Next(thread))
        base_frame_wake(thread);
    wake_bypass(source);
}

/* Calls threading.settrace or threading.gettrace. */
static PyObject *ask_threading(const lines_source *source, const char *function, PyObject *argument)
{
    return argument != NULL ? PyObject_CallMethod(source->threading, function, "O", argument)
                            : PyObject_CallMethod(source->threading, function, NULL);
}

static int start_threads(lines_source *source)
{
    lines_driver *made = source->driver;
    PyObject *done = NULL; /* owned */
    Py_XSETREF(made->previous_hook, ask_threading(source, "gettrace", NULL));
    Py_XSETREF(made->installer, (PyObject *)make_tracer(source, true));
    if (made->previous_hook == NULL || made->installer == NULL)
        return -1;
    done = ask_threading(source, "settrace", made->installer);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

int lines_driver_start(lines_source *source)
{
    lines_driver *made = source->driver;
    if (made == NULL) {
        made = PyMem_Calloc(1, sizeof *made);
        if (made == NULL || (made->type = (PyTypeObject *)PyType_FromSpec(&tracer_spec)) == NULL) {
            PyMem_Free(made);
            if (!PyErr_Occurred())
                PyErr_NoMemory();
            return -1;
        }
        source->driver = made;
    }
    if (!source->is_running && start_threads(source) < 0)
        return -1;
    if (!source->is_running)
        made->steps_aside = false;
    source->is_running = true;
    start_bypass(source);
    wake_frames(source);
    return hook_this_thread(source);
}

/* `y = f(x); flow.off(); ...`: the frame is in the middle of such a line. */
static void stop_all_steps(lines_source *source)
{
    PyFrameObject *frame = source->driver->stepping > 0 /* owned */
                               ? PyThreadState_GetFrame(PyThreadState_Get())
                               : NULL;
    while (frame != NULL) {
        lines_record *record = lines_source_find(source, base_frame_of(frame));
        if (record != NULL)
            stop_steps(source, record, frame);
        PyFrameObject *back = PyFrame_GetBack(frame); /* owned */
        Py_DECREF(frame);
        frame = back;
    }
}

void lines_driver_stop(lines_source *source)
{
    lines_driver *made = source->driver;
    if (made == NULL || !source->is_running)
        return;
    stop_all_steps(source);
    source->is_running = false;
    made->epoch++;
    unhook();
    stop_bypass();
    wake_frames(source);
    PyObject *now = ask_threading(source, "gettrace", NULL); /* owned */
    if (now == made->installer && now != NULL)
        Py_XDECREF(ask_threading(source, "settrace", made->previous_hook));
    PyErr_Clear();
    Py_XDECREF(now);
    Py_CLEAR(made->installer);
    Py_CLEAR(made->previous_hook);
}

void lines_driver_changed(lines_source *source)
{
    start_bypass(source);
    wake_frames(source);
}

#endif
