/* monitoring.c -- line events from sys.monitoring, for Python 3.12 and later.
 *
 * Calls are looked at once for each code object: one that is not selected is
 * disabled and costs nothing from then on; one that is selected gets line
 * events of its own.  All threads are seen.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#if PY_VERSION_HEX >= 0x030C0000

#include <string.h>

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

/* From what sys.monitoring counts in bytes. */
static int unit_of(PyObject *offset)
{
    return (int)PyLong_AsLong(offset) / CODE_UNIT;
}

static lines_source *source_of(PyObject *self)
{
    lines_source *source;
    memcpy(&source, PyBytes_AS_STRING(self), sizeof source);
    return source;
}

/* Calls a function of sys.monitoring with a tuple, which is given up. */
static int ask(const lines_driver *made, const char *function, PyObject *args)
{
    PyObject *found =
        args != NULL ? PyObject_GetAttrString(made->monitoring, function) : NULL; /* owned */
    PyObject *done = found != NULL ? PyObject_CallObject(found, args) : NULL;     /* owned */
    Py_XDECREF(args);
    Py_XDECREF(found);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

static void listen(lines_source *source, lines_code *code)
{
    lines_driver *made = source->driver;
    long events = made->event[EVENT_LINE] | made->event[EVENT_PY_RETURN] | made->event[EVENT_PY_YIELD];
    if (code->table == NULL || code->table->has_tight_loop)
        events |= made->event[EVENT_JUMP];
    if (code->table != NULL && code->table->has_steps)
        events |= made->event[EVENT_INSTRUCTION];
    if (code->local_events == (uint32_t)events)
        return;
    if (ask(made, "set_local_events", Py_BuildValue("iOl", made->tool, code->code, events)) == 0) {
        code->local_events = (uint32_t)events;
        return;
    }
    lines_source_note_error(source, -1); /* e.g. a code object that Cython made */
    code->is_refused = true;
    code->mask = 0;
}

/* Each callback: what is pending stays pending, what we do wrong is counted. */
typedef struct callback {
    lines_source *source;
    PyObject *pending; /* owned or NULL */
} callback;

static bool begin_callback(callback *here, PyObject *self)
{
    here->source = source_of(self);
    here->pending = PyErr_Occurred() ? PyErr_GetRaisedException() : NULL;
    here->source->inside++;
    return here->source->is_running;
}

static PyObject *end_callback(callback *here, bool is_disabled)
{
    if (PyErr_Occurred())
        lines_source_note_error(here->source, -1);
    here->source->inside--;
    if (here->pending != NULL)
        PyErr_SetRaisedException(here->pending);
    const lines_driver *made = here->source->driver; /* NULL: stopped meanwhile */
    return Py_NewRef(is_disabled && made != NULL ? made->disable : Py_None);
}

/* The running frame's record; NULL: not wanted. */
static lines_record *record_of(lines_source *source, PyObject *code, bool is_start, bool is_fresh,
                               bool *is_unknown)
{
    base_frame *at = base_frame_running();
    lines_record *record = at != NULL ? lines_source_find(source, at) : NULL;
    *is_unknown = false;
    if (record != NULL && !is_start && (PyObject *)record->code->code == code)
        return record;
    lines_code *known = lines_source_code(source, (PyCodeObject *)code);
    *is_unknown = known == NULL;
    if (known == NULL || at == NULL || (PyObject *)base_frame_code(at) != code)
        return NULL;
    listen(source, known);
    return known->mask != 0 ? lines_source_frame(source, at, known, is_fresh) : NULL;
}

static PyObject *enter(PyObject *self, PyObject *const *args, bool is_fresh)
{
    callback here;
    bool is_unknown = false;
    if (begin_callback(&here, self)) {
        lines_record *record = record_of(here.source, args[0], true, is_fresh, &is_unknown);
        if (record != NULL)
            lines_record_enter(here.source, record, is_fresh);
    }
    return end_callback(&here, is_unknown);
}

#define CALLBACK(name, result)                                                            \
    static PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n)) \
    {                                                                                     \
        return result;                                                                    \
    }
CALLBACK(on_start, enter(self, args, true))
CALLBACK(on_resume, enter(self, args, false))

static PyObject *on_throw(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    Py_XDECREF(enter(self, args, false));
    Py_RETURN_NONE; /* this event cannot be disabled */
}

/* Everything but the next line of plain Python.  Apart, so that the common path saves no registers.  from: -1, or
 * the instruction of a jump to `to`. */
static __attribute__((noinline)) PyObject *any_line(PyObject *self, PyObject *code, int from, int to)
{
    callback here;
    bool is_unknown = false;
    if (begin_callback(&here, self)) {
        lines_record *record = record_of(here.source, code, false, false, &is_unknown);
        if (record != NULL && from < 0)
            to = base_frame_instruction(record->at);
        bool is_line = from < 0 || (to <= from && record != NULL &&
                                    lines_record_line(record, from) == lines_record_line(record, to));
        if (record != NULL && is_line) {
            lines_statement_at(here.source, record, to);
            record->line_event = lines_statement_steps(record, to) ? to : -1;
        }
    }
    return end_callback(&here, is_unknown);
}

/* Events of instructions that start no statement are disabled at their first time. */
static PyObject *on_step(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    callback here;
    bool is_unknown = false;
    if (begin_callback(&here, self)) {
        int instruction = unit_of(args[1]);
        lines_record *record = record_of(here.source, args[0], false, false, &is_unknown);
        if (record != NULL && lines_statement_steps(record, instruction))
            lines_statement_step(here.source, record, instruction);
        else if (record != NULL)
            is_unknown = !record->is_bare;
    }
    return end_callback(&here, is_unknown);
}

static PyObject *on_line(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    lines_source *source = source_of(self);
    lines_record *record = source->last;
    if (source->is_running && record != NULL && (PyObject *)record->code->code == args[0] &&
        lines_statement_quick(source, record,
                              base_frame_instruction_if(NULL, record->at, record->code->code)))
        Py_RETURN_NONE;
    return any_line(self, args[0], -1, -1);
}

/* A loop that goes round on one line has no line events of its own. */
CALLBACK(on_jump, any_line(self, args[0], unit_of(args[1]), unit_of(args[2])))

static PyObject *leave(PyObject *self, PyObject *const *args, PyObject *value, bool is_yield)
{
    callback here;
    if (begin_callback(&here, self)) {
        base_frame *at = base_frame_running();
        lines_record *record = at != NULL ? lines_source_find(here.source, at) : NULL;
        if (record != NULL && (PyObject *)record->code->code == args[0])
            lines_record_leave(here.source, record, unit_of(args[1]), value, is_yield);
    }
    return end_callback(&here, false);
}

CALLBACK(on_return, leave(self, args, args[2], false))
CALLBACK(on_yield, leave(self, args, args[2], true))
CALLBACK(on_unwind, leave(self, args, NULL, false))

#define X(name, function) { #name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL, NULL },
static PyMethodDef callbacks[] = { EVENT_MAP(X){ 0 } };
#undef X

/* ---- start and stop ------------------------------------------------------------ */

static int take_tool(lines_driver *made)
{
    for (made->tool = 3; made->tool <= 4; made->tool++) { /* those that no kind of tool has */
        if (ask(made, "use_tool_id", Py_BuildValue("is", made->tool, "tensortap")) == 0)
            return 0;
        if (!PyErr_ExceptionMatches(PyExc_ValueError)) /* else it is in use */
            return -1;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_RuntimeError, "both free tool ids of sys.monitoring (3 and 4) are in use; "
                                        "stop the other tool (sys.monitoring.get_tool(3) names it)");
    return -1;
}

static int find_events(lines_driver *made)
{
    PyObject *events = PyObject_GetAttrString(made->monitoring, "events"); /* owned */
    for (int i = 0; i < EVENT_COUNT_ && events != NULL && !PyErr_Occurred(); i++) {
        PyObject *number = PyObject_GetAttrString(events, callbacks[i].ml_name); /* owned */
        made->event[i] = number != NULL ? PyLong_AsLong(number) : 0;
        Py_XDECREF(number);
    }
    Py_XDECREF(events);
    return PyErr_Occurred() ? -1 : 0;
}

static int register_callbacks(lines_driver *made, bool is_on)
{
    for (int i = 0; i < EVENT_COUNT_; i++) {
        PyObject *function = is_on ? PyCFunction_New(&callbacks[i], made->source) : Py_NewRef(Py_None);
        PyObject *args = Py_BuildValue("ilN", made->tool, made->event[i], function);
        if (ask(made, "register_callback", args) < 0)
            return -1;
    }
    return 0;
}

static int set_global_events(lines_driver *made, bool is_on)
{
    long events = is_on ? made->event[EVENT_PY_START] | made->event[EVENT_PY_RESUME] |
                              made->event[EVENT_PY_THROW] | made->event[EVENT_PY_UNWIND]
                        : 0;
    return ask(made, "set_events", Py_BuildValue("il", made->tool, events));
}

static void free_driver(lines_source *source)
{
    lines_driver *made = source->driver;
    if (made == NULL)
        return;
    Py_XDECREF(made->monitoring);
    Py_XDECREF(made->disable);
    Py_XDECREF(made->source);
    PyMem_Free(made);
    source->driver = NULL;
}

/* Selected code that runs already has had its call event. */
static void listen_to_running(lines_source *source)
{
    PyThreadState *thread = base_first_thread();
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        PyFrameObject *frame = PyThreadState_GetFrame(thread); /* owned */
        while (frame != NULL) {
            PyCodeObject *code = PyFrame_GetCode(frame);  /* owned */
            PyFrameObject *back = PyFrame_GetBack(frame); /* owned */
            lines_code *known = lines_source_code(source, code);
            if (known != NULL)
                listen(source, known);
            Py_DECREF(code);
            Py_SETREF(frame, back);
        }
    }
}

static int first_start(lines_source *source)
{
    lines_driver *made = PyMem_Calloc(1, sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    source->driver = made;
    made->monitoring = Py_XNewRef(PySys_GetObject("monitoring"));
    made->disable = made->monitoring != NULL ? PyObject_GetAttrString(made->monitoring, "DISABLE") : NULL;
    made->source = PyBytes_FromStringAndSize((const char *)&source, sizeof source);
    if (made->disable == NULL || made->source == NULL || find_events(made) < 0 || take_tool(made) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "this Python has no sys.monitoring");
        free_driver(source);
        return -1;
    }
    source->is_running = true;
    if (register_callbacks(made, true) < 0 || set_global_events(made, true) < 0) {
        PyObject *error = PyErr_GetRaisedException(); /* owned */
        lines_driver_stop(source);
        PyErr_SetRaisedException(error);
        return -1;
    }
    return 0;
}

int lines_driver_start(lines_source *source)
{
    if (!source->is_running)
        if (first_start(source) < 0)
            return -1;
    lines_driver_changed(source);
    return 0;
}

static void stop_listening(lines_source *source, bool is_all)
{
    lines_driver *made = source->driver;
    lines_code *code;
    for (size_t i = 0; (code = base_map_next(&source->codes, &i)) != NULL;) {
        if (code->local_events == 0 || (!is_all && lines_source_code(source, code->code) != NULL))
            continue;
        (void)ask(made, "set_local_events", Py_BuildValue("iOi", made->tool, code->code, 0));
        PyErr_Clear();
        code->local_events = 0;
    }
}

void lines_driver_changed(lines_source *source)
{
    lines_driver *made = source->driver;
    stop_listening(source, false);
    (void)ask(made, "restart_events", PyTuple_New(0));
    PyErr_Clear();
    PyThreadState *thread = PyThreadState_Get();
    PyThreadState_EnterTracing(thread); /* to analyse code, Python runs: that is nobody's event */
    listen_to_running(source);
    PyThreadState_LeaveTracing(thread);
}

void lines_driver_stop(lines_source *source)
{
    lines_driver *made = source->driver;
    if (made == NULL)
        return;
    source->is_running = false;
    set_global_events(made, false);
    PyErr_Clear();
    stop_listening(source, true);
    register_callbacks(made, false);
    PyErr_Clear();
    (void)ask(made, "free_tool_id", Py_BuildValue("(i)", made->tool));
    PyErr_Clear();
    free_driver(source);
}

#endif
