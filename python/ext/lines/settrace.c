/* settrace.c -- line events from PyEval_SetTrace, for Python 3.10 and 3.11.
 *
 * A trace function belongs to a thread and there is one at most, so ours hands
 * every event on to the one it found, and puts that one back when it goes.
 * Threads started later get ours through threading.settrace; each thread takes
 * its own off at its next event after the stop.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/settrace.h"

#if PY_VERSION_HEX < 0x030C0000

#include <frameobject.h>

/* ---- one thread -------------------------------------------------------------- */

static void hook(lines_tracer *mine)
{
    PyThreadState *thread = PyThreadState_Get();
    if (thread->c_tracefunc == lines_settrace_event)
        return;
    mine->previous = thread->c_tracefunc;
    Py_XSETREF(mine->previous_object, Py_XNewRef(thread->c_traceobj));
    PyEval_SetTrace(lines_settrace_event, (PyObject *)mine);
}

static void unhook(void)
{
    PyThreadState *thread = PyThreadState_Get();
    if (thread->c_tracefunc != lines_settrace_event)
        return; /* somebody else's now: leave it */
    lines_tracer *mine = (lines_tracer *)Py_NewRef(thread->c_traceobj); /* owned */
    PyEval_SetTrace(mine->previous, mine->previous_object);
    mine->previous = NULL;
    Py_CLEAR(mine->previous_object);
    Py_DECREF(mine);
}

static lines_tracer *make_tracer(lines_source *source, bool is_installer)
{
    lines_driver *made = lines_driver_of(source);
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
    if (PyThreadState_Get()->c_tracefunc == lines_settrace_event) {
        lines_tracer *there = (lines_tracer *)PyThreadState_Get()->c_traceobj; /* borrowed */
        there->epoch = lines_driver_of(source)->epoch;
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

/* The frame is of no interest: no more line events from it, if nobody else
 * wants them.  A suspended generator's frame cannot be found again to undo
 * that, so it is undone when the frame is left. */
static void silence(const lines_tracer *mine, PyFrameObject *frame, int what)
{
    if (mine->previous == NULL)
        base_frame_set_line_events(frame, what == PyTrace_RETURN);
}

/* Instruction events are on in a frame while more statements come on the line it is at.
 * Somebody else's trace function shall not see that: off before, on after its turn. */
static void stop_steps(lines_source *source, lines_record *record, PyFrameObject *frame)
{
    if (!record->is_stepping)
        return;
    base_frame_set_instruction_events(frame, false);
    record->is_stepping = false;
    lines_driver_of(source)->stepping--;
}

static void start_steps(lines_source *source, lines_record *record, PyFrameObject *frame, bool is_line)
{
    bool leads = !record->is_bare && record->statement >= 0 &&
                 record->code->table->statements[record->statement].flags & STATEMENT_LEADS;
    record->told = leads && is_line ? base_frame_instruction(record->at) : -1;
    if (!leads || base_frame_has_instruction_events(frame))
        return;
    base_frame_set_instruction_events(frame, true);
    record->is_stepping = true;
    lines_driver_of(source)->stepping++;
}

static void on_step(lines_source *source, lines_record *record)
{
    int instruction = base_frame_instruction(record->at);
    bool is_told = instruction == record->told;
    record->told = -1;
    if (!is_told && lines_statement_steps(record, instruction))
        lines_statement_step(source, record, instruction);
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
        lines_code *known = lines_bypass_code(source, code);
        if (known == NULL) {
            silence(mine, frame, what);
            return;
        }
        bool is_fresh = is_start && base_frame_is_fresh(at);
        record = lines_source_frame(source, at, known, is_fresh);
        bool can_sleep = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
        if (record == NULL && !can_sleep) /* else nobody would undo it: the code itself is wanted */
            silence(mine, frame, what);
        if (record != NULL && is_start && source->enter_mask & record->mask)
            lines_emit_enter(source, record, !is_fresh);
        if (record != NULL && is_start && !is_fresh)
            lines_statement_resume(source, record);
    }
    if (record == NULL)
        return;
    if (what == PyTrace_LINE) {
        lines_statement_at(source, record, base_frame_instruction(at));
    } else if (what == PyTrace_OPCODE) {
        on_step(source, record);
    } else if (what == PyTrace_RETURN) {
        bool is_yield = arg != NULL && base_frame_is_yield(at);
        lines_statement_end(source, record, base_frame_instruction(at), arg, is_yield);
        record = lines_source_find(source, at);
        if (!is_yield && record != NULL)
            lines_source_forget(source, record);
    }
}

/* Gives the event to whoever was there before us; if that changed the trace
 * function, what it set comes behind us. */
static int hand_on(lines_tracer *mine, PyFrameObject *frame, int what, PyObject *arg)
{
    if (mine->previous == NULL)
        return 0;
    int result = mine->previous(mine->previous_object, frame, what, arg);
    PyThreadState *thread = PyThreadState_Get();
    if (thread->c_tracefunc != lines_settrace_event) {
        PyObject *type, *value, *trace; /* owned */
        PyErr_Fetch(&type, &value, &trace);
        mine->previous = NULL;
        Py_CLEAR(mine->previous_object);
        hook(mine);
        PyErr_Restore(type, value, trace);
    }
    return result;
}

/* What is not the next line of plain Python; apart, so that the common way saves no registers. */
static __attribute__((noinline)) int trace_any(PyObject *self, PyFrameObject *frame, int what,
                                               PyObject *arg)
{
    lines_tracer *mine = (lines_tracer *)self;
    lines_source *source = mine->source;
    if (!source->is_running || mine->epoch != lines_driver_of(source)->epoch) {
        Py_tracefunc previous = mine->previous;
        PyObject *object = Py_XNewRef(mine->previous_object); /* owned */
        unhook();
        int result = previous != NULL ? previous(object, frame, what, arg) : 0;
        Py_XDECREF(object);
        return result;
    }
    if (mine->previous == NULL && lines_bypass_is_idle(source, base_frame_code(base_frame_of(frame)))) {
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

/* An instruction in the middle of a statement: most are. */
static bool is_idle_step(const lines_tracer *mine, PyFrameObject *frame)
{
    lines_source *source = mine->source;
    lines_record *last = source->last;
    if (last == NULL || !last->is_stepping || !source->is_running ||
        mine->epoch != lines_driver_of(source)->epoch)
        return false;
    int instruction = base_frame_instruction_if(frame, last->at, last->code->code);
    return instruction >= 0 && instruction != last->told && !lines_statement_steps(last, instruction);
}

int lines_settrace_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    const lines_tracer *mine = (const lines_tracer *)self;
    lines_source *source = mine->source;
    lines_record *last = source->last;
    if (what == PyTrace_LINE && mine->previous == NULL && last != NULL && source->is_running &&
        mine->epoch == lines_driver_of(source)->epoch &&
        lines_statement_quick(source, last, base_frame_instruction_if(frame, last->at, last->code->code)))
        return 0;
    if (what == PyTrace_OPCODE && is_idle_step(mine, frame))
        return 0;
    return trace_any(self, frame, what, arg);
}

/* sys.settrace(what sys.gettrace() gave) or threading calls us as a Python
 * trace function: we take the C way again. */
static PyObject *tracer_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    lines_tracer *mine = (lines_tracer *)self, *here = NULL;
    PyObject *frame = NULL, *event = NULL, *arg = NULL; /* borrowed */
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!UO", &PyFrame_Type, &frame, &event, &arg))
        return NULL;
    lines_source *source = mine->source;
    if (!source->is_running || mine->epoch != lines_driver_of(source)->epoch)
        Py_RETURN_NONE;
    PyObject *hook_before = lines_driver_of(source)->previous_hook; /* borrowed */
    if (mine->is_installer) {
        here = make_tracer(source, false);
        if (here == NULL)
            return NULL;
        PyEval_SetTrace(NULL, NULL); /* it is ourselves, in the form of a Python function */
        if (hook_before != NULL && hook_before != Py_None) {
            PyObject *settrace = PySys_GetObject("settrace"); /* borrowed */
            PyObject *done = settrace != NULL ? PyObject_CallOneArg(settrace, hook_before) : NULL;
            PyErr_Clear();
            Py_XDECREF(done);
        }
    } else {
        here = (lines_tracer *)Py_NewRef(self);
        PyEval_SetTrace(NULL, NULL);
    }
    hook(here);
    int what = PyUnicode_CompareWithASCIIString(event, "call") == 0   ? PyTrace_CALL
               : PyUnicode_CompareWithASCIIString(event, "line") == 0 ? PyTrace_LINE
                                                                      : -1;
    int result =
        what >= 0 ? lines_settrace_event((PyObject *)here, (PyFrameObject *)frame, what, arg) : 0;
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

/* Frames that we silenced, and that somebody may want to hear again. */
static void wake_frames(lines_source *source)
{
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread))
        base_frame_wake(thread);
    lines_bypass_wake(source);
}

/* Calls threading.settrace or threading.gettrace. */
static PyObject *ask_threading(const lines_source *source, const char *function, PyObject *argument)
{
    return argument != NULL ? PyObject_CallMethod(source->threading, function, "O", argument)
                            : PyObject_CallMethod(source->threading, function, NULL);
}

static int start_threads(lines_source *source)
{
    lines_driver *made = lines_driver_of(source);
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
    lines_driver *made = lines_driver_of(source);
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
    lines_bypass_start(source);
    wake_frames(source);
    return hook_this_thread(source);
}

/* `y = f(x); flow.off(); ...`: the frame is in the middle of such a line. */
static void stop_all_steps(lines_source *source)
{
    PyFrameObject *frame = lines_driver_of(source)->stepping > 0 /* owned */
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
    lines_driver *made = lines_driver_of(source);
    if (made == NULL || !source->is_running)
        return;
    stop_all_steps(source);
    source->is_running = false;
    made->epoch++;
    unhook();
    lines_bypass_stop();
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
    lines_bypass_start(source);
    wake_frames(source);
}

#endif
