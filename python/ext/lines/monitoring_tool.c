/* monitoring_tool.c -- takes a tool of sys.monitoring, and listens to the code that is selected.
 *
 * Events are local to code objects, except those that tell of code that was never
 * seen.  We use a tool id that nobody has, and never another tool's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/monitoring.h"

#if PY_VERSION_HEX >= 0x030C0000

void lines_monitoring_listen(lines_source *source, lines_code *code)
{
    lines_driver *made = lines_driver_of(source);
    long events = made->event[EVENT_LINE] | made->event[EVENT_PY_RETURN] | made->event[EVENT_PY_YIELD];
    if (code->table == NULL || code->table->has_tight_loop)
        events |= made->event[EVENT_JUMP];
    if (code->table != NULL && code->table->has_steps)
        events |= made->event[EVENT_INSTRUCTION];
    if (code->local_events == (uint32_t)events)
        return;
    PyObject *done = PyObject_CallMethod(made->monitoring, "set_local_events", "iOl", made->tool,
                                         code->code, events); /* owned */
    if (done == NULL) {                                       /* e.g. a code object that Cython made */
        lines_source_note_error(source, -1);
        code->is_refused = true;
        code->mask = 0;
    } else {
        code->local_events = (uint32_t)events;
    }
    Py_XDECREF(done);
}

/* ---- start and stop ------------------------------------------------------------ */

static int ask_int(PyObject *obj, const char *method, int argument, const char *text)
{
    PyObject *answer = text != NULL ? PyObject_CallMethod(obj, method, "is", argument, text)
                                    : PyObject_CallMethod(obj, method, "i", argument); /* owned */
    int is_none = answer == Py_None;
    if (answer == NULL)
        return -1;
    Py_DECREF(answer);
    return is_none;
}

static int take_tool(lines_driver *made)
{
    static const int free_ids[] = { 3, 4 };
    for (size_t i = 0; i < sizeof free_ids / sizeof *free_ids; i++) {
        int is_free = ask_int(made->monitoring, "get_tool", free_ids[i], NULL);
        if (is_free < 0)
            return -1;
        if (is_free) {
            made->tool = free_ids[i];
            return ask_int(made->monitoring, "use_tool_id", made->tool, "tensortap") < 0 ? -1 : 0;
        }
    }
    PyErr_SetString(PyExc_RuntimeError, "both free tool ids of sys.monitoring (3 and 4) are in use; "
                                        "stop the other tool (sys.monitoring.get_tool(3) names it)");
    return -1;
}

static int find_events(lines_driver *made)
{
    PyObject *events = PyObject_GetAttrString(made->monitoring, "events"); /* owned */
    for (int i = 0; i < EVENT_COUNT_ && events != NULL && !PyErr_Occurred(); i++) {
        PyObject *number =
            PyObject_GetAttrString(events, lines_monitoring_callbacks[i].ml_name); /* owned */
        made->event[i] = number != NULL ? PyLong_AsLong(number) : 0;
        Py_XDECREF(number);
    }
    Py_XDECREF(events);
    return PyErr_Occurred() ? -1 : 0;
}

static int register_callbacks(lines_driver *made, bool is_on)
{
    for (int i = 0; i < EVENT_COUNT_; i++) {
        PyObject *function = is_on ? PyCFunction_New(&lines_monitoring_callbacks[i], made->source)
                                   : Py_NewRef(Py_None); /* owned */
        PyObject *old = function != NULL
                            ? PyObject_CallMethod(made->monitoring, "register_callback", "ilO",
                                                  made->tool, made->event[i], function)
                            : NULL; /* owned */
        Py_XDECREF(function);
        if (old == NULL)
            return -1;
        Py_DECREF(old);
    }
    return 0;
}

static int set_global_events(lines_driver *made, bool is_on)
{
    long events = is_on ? made->event[EVENT_PY_START] | made->event[EVENT_PY_RESUME] |
                              made->event[EVENT_PY_THROW] | made->event[EVENT_PY_UNWIND]
                        : 0;
    PyObject *done =
        PyObject_CallMethod(made->monitoring, "set_events", "il", made->tool, events); /* owned */
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static void free_driver(lines_source *source)
{
    lines_driver *made = lines_driver_of(source);
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
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        PyFrameObject *frame = PyThreadState_GetFrame(thread); /* owned */
        while (frame != NULL) {
            PyCodeObject *code = PyFrame_GetCode(frame);  /* owned */
            PyFrameObject *back = PyFrame_GetBack(frame); /* owned */
            lines_code *known = lines_source_code(source, code);
            if (known != NULL)
                lines_monitoring_listen(source, known);
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
    lines_driver *made = lines_driver_of(source);
    for (size_t i = 0; i < source->codes.cap; i++) {
        lines_code *code = source->codes.keys[i] != NULL ? source->codes.values[i] : NULL;
        if (code == NULL || code->local_events == 0 ||
            (!is_all && lines_source_code(source, code->code) != NULL))
            continue;
        Py_XDECREF(
            PyObject_CallMethod(made->monitoring, "set_local_events", "iOi", made->tool, code->code, 0));
        PyErr_Clear();
        code->local_events = 0;
    }
}

void lines_driver_changed(lines_source *source)
{
    lines_driver *made = lines_driver_of(source);
    stop_listening(source, false);
    Py_XDECREF(PyObject_CallMethod(made->monitoring, "restart_events", NULL));
    PyErr_Clear();
    listen_to_running(source);
}

void lines_driver_stop(lines_source *source)
{
    lines_driver *made = lines_driver_of(source);
    if (made == NULL)
        return;
    source->is_running = false;
    set_global_events(made, false);
    PyErr_Clear();
    stop_listening(source, true);
    register_callbacks(made, false);
    PyErr_Clear();
    ask_int(made->monitoring, "free_tool_id", made->tool, NULL);
    PyErr_Clear();
    free_driver(source);
}

#endif
