/* watch.c -- watch_lines() and the class LineWatch: a consumer of the line source with
 * Python callbacks.
 *
 * For track, and for tests.  An event is a namespace with the fields of
 * lines_event that Python may want.  It keeps its tensors alive: a callback should not keep it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "lines/source.h"

/* ---- events as namespaces -------------------------------------------------------- */

enum { CHANGE, BEFORE, ENTER, LEAVE, LINE, SELECT, NAMESPACE, OBJECT_COUNT };

typedef struct watch {
    PyObject_HEAD binding_state *state; /* of the extension, which the type keeps alive */
    PyObject *object[OBJECT_COUNT];     /* each owned or NULL; functions; types.SimpleNamespace */
    int id;                             /* -1: closed */
} watch;

static const char *const kinds[] = { "local", "global", "attribute", "item" };
static const char *const hows[] = { "bound", "rebound", "inplace", "touched" };

/* A namespace of a dict, which is given up; NULL: it could not be made. */
static PyObject *namespace_of(const watch *self, PyObject *fields)
{
    PyObject *made =
        fields != NULL ? PyObject_VectorcallDict(self->object[NAMESPACE], NULL, 0, fields) : NULL;
    Py_XDECREF(fields);
    return made;
}

static PyObject *or_none(PyObject *obj)
{
    return obj != NULL ? obj : Py_None;
}

/* key: of this state of the name; object: None if it is gone, or in another state now; is_seen: the key
 * was reported before */
static PyObject *read_of(const watch *self, const lines_name *read)
{
    return namespace_of(self, Py_BuildValue("{sssOsKsOsO}", "kind", kinds[read->kind], "name", read->name,
                                            "key", (unsigned long long)read->key, "object",
                                            or_none(read->object), "is_seen",
                                            read->is_seen ? Py_True : Py_False));
}

/* old_key: None if there was no state before; reads: indices into the event's reads, the arrows to this
 * name; is_sampled: above 64 MB only a part of the contents was compared */
static PyObject *change_of(const watch *self, const lines_change *change)
{
    PyObject *arrows = PyList_New(0); /* owned */
    for (size_t i = 0; arrows != NULL && i < change->read_count; i++)
        binding_list_add(&arrows, PyLong_FromLong(change->reads[i]));
    PyObject *old = change->old_key != 0 ? PyLong_FromUnsignedLongLong(change->old_key) /* owned */
                                         : Py_NewRef(Py_None);
    return namespace_of(self, Py_BuildValue("{sssOsssNsKsOsNsO}", "kind", kinds[change->now.kind], "name",
                                            change->now.name, "how", hows[change->how], "old_key", old,
                                            "key", (unsigned long long)change->now.key, "object",
                                            or_none(change->now.object), "reads", arrows, "is_sampled",
                                            change->is_sampled ? Py_True : Py_False));
}

static PyObject *event_of(const watch *self, const lines_event *event)
{
    PyObject *changes = PyList_New(0), *reads = PyList_New(0); /* owned, then the dict's */
    for (size_t i = 0; i < event->read_count && reads != NULL; i++)
        binding_list_add(&reads, read_of(self, &event->reads[i]));
    for (size_t i = 0; i < event->change_count && changes != NULL; i++)
        binding_list_add(&changes, change_of(self, &event->changes[i]));
    return namespace_of(
        self,
        Py_BuildValue("{sKsOsisNsNsKsKsOsOsOsO}", "frame", (unsigned long long)event->frame, "code",
                      event->code, "line", event->line, "changes", changes, "reads", reads, "caller",
                      (unsigned long long)event->caller, "thread", (unsigned long long)event->thread,
                      "value", or_none(event->value), "is_return", event->is_return ? Py_True : Py_False,
                      "is_resumed", event->is_resumed ? Py_True : Py_False, "is_yield",
                      event->is_yield ? Py_True : Py_False));
}

/* ---- callbacks --------------------------------------------------------------- */

static void call(watch *self, int which, const lines_event *event)
{
    Py_INCREF(self);                                                            /* it may close itself */
    PyObject *function = Py_NewRef(self->object[which]);                        /* owned */
    PyObject *made = event_of(self, event);                                     /* owned */
    PyObject *done = made != NULL ? PyObject_CallOneArg(function, made) : NULL; /* owned */
    Py_XDECREF(done);
    Py_XDECREF(made);
    Py_DECREF(function);
    Py_DECREF(self);
}

#define CALLBACK(name, which)                              \
    static void name(void *self, const lines_event *event) \
    {                                                      \
        call(self, which, event);                          \
    }
CALLBACK(on_change, CHANGE)
CALLBACK(on_before, BEFORE)
CALLBACK(on_enter, ENTER)
CALLBACK(on_leave, LEAVE)
CALLBACK(on_line, LINE)

static bool selects(void *context, PyCodeObject *code, int *first, int *last)
{
    const watch *self = context;
    if (self->object[SELECT] == NULL)
        return true;
    PyObject *answer = PyObject_CallOneArg(self->object[SELECT], (PyObject *)code); /* owned */
    int is_true = answer != NULL ? PyObject_IsTrue(answer) : 0;
    if (is_true > 0 && PyTuple_Check(answer) &&
        !PyArg_ParseTuple(answer, "ii;select must return (first, last)", first, last))
        is_true = 0;
    Py_XDECREF(answer);
    return is_true > 0;
}

/* ---- the class --------------------------------------------------------------- */

static int read_threads(PyObject *given, lines_threads *out)
{
    static const char *const words[] = { "later", "own", "all" };
    for (int i = 0; i < 3; i++) {
        if (PyUnicode_Check(given) && PyUnicode_CompareWithASCIIString(given, words[i]) == 0) {
            *out = (lines_threads)i;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "threads must be 'later', 'own' or 'all', not %R", given);
    return -1;
}

PyObject *lines_watch(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "change", "before",  "enter",  "leave",   "line", "select",
                                "names",  "threads", "arrays", "objects", "bare", NULL };
    static lines_fn *const functions[] = { [CHANGE] = on_change,
                                           [BEFORE] = on_before,
                                           [ENTER] = on_enter,
                                           [LEAVE] = on_leave,
                                           [LINE] = on_line };
    static const lines_function places[] = { [CHANGE] = LINES_CHANGE,
                                             [BEFORE] = LINES_BEFORE,
                                             [ENTER] = LINES_ENTER,
                                             [LEAVE] = LINES_LEAVE,
                                             [LINE] = LINES_LINE };
    binding_state *state = binding_state_of(module);
    PyObject *given[OBJECT_COUNT] = { 0 }, *names = Py_None, *threads = NULL; /* borrowed */
    PyObject *set = NULL;                                                     /* owned */
    int arrays = 0, objects = 0, bare = 0;
    lines_consumer consumer = { .threads = LINES_THREADS_LATER, .selects = selects };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OOOOOOOppp:watch_lines", keywords, &given[CHANGE],
                                     &given[BEFORE], &given[ENTER], &given[LEAVE], &given[LINE],
                                     &given[SELECT], &names, &threads, &arrays, &objects, &bare))
        return NULL;
    lines_source *source = lines_source_of(state);
    watch *self =
        source != NULL ? (watch *)PyType_GenericAlloc(state->lines_watch_type, 0) : NULL; /* owned */
    if (self == NULL)
        return NULL;
    self->state = state;
    self->id = -1;
    PyObject *one = PySys_GetObject("implementation"); /* borrowed; an import may need builtins */
    self->object[NAMESPACE] = one != NULL ? Py_NewRef((PyObject *)Py_TYPE(one)) : NULL;
    for (int i = 0; i <= SELECT && !PyErr_Occurred(); i++) {
        if (given[i] == NULL || given[i] == Py_None)
            continue;
        if (!PyCallable_Check(given[i]))
            PyErr_Format(PyExc_TypeError, "%s must be callable, not %s", keywords[i],
                         Py_TYPE(given[i])->tp_name);
        self->object[i] = Py_NewRef(given[i]);
        if (i <= LINE)
            consumer.functions[places[i]] = functions[i];
    }
    if (PyErr_Occurred())
        goto out;
    if (threads != NULL && read_threads(threads, &consumer.threads) < 0)
        goto out;
    if (bare && (consumer.change != NULL || consumer.before != NULL)) {
        PyErr_SetString(PyExc_ValueError, "bare lines have no changes and no reads: "
                                          "give enter, line or leave");
        goto out;
    }
    if (names != Py_None && (set = PyFrozenSet_New(names)) == NULL)
        goto out;
    consumer.context = self;
    consumer.names = set;
    consumer.wants =
        (arrays ? LINES_ARRAYS : 0u) | (objects ? LINES_OBJECTS : 0u) | (bare ? LINES_BARE : 0u);
    self->id = lines_source_add(source, &consumer);
out:
    Py_XDECREF(set);
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void stop(watch *self)
{
    int id = self->id;
    self->id = -1;
    lines_source_remove(self->state->lines, id);
}

static PyObject *watch_close(PyObject *self, PyObject *Py_UNUSED(none))
{
    stop((watch *)self);
    Py_RETURN_NONE;
}

static PyObject *watch_enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    return Py_NewRef(self);
}

static PyObject *watch_exit(PyObject *self, PyObject *Py_UNUSED(args))
{
    stop((watch *)self);
    Py_RETURN_FALSE;
}

static PyObject *get_errors(PyObject *self, void *Py_UNUSED(closure))
{
    return lines_source_error_tuple(((watch *)self)->state->lines, ((watch *)self)->id);
}

static int watch_traverse(PyObject *self, visitproc visit, void *arg)
{
    return binding_visit(self, offsetof(watch, object), offsetof(watch, object[OBJECT_COUNT - 1]), visit,
                         arg);
}

static int watch_clear(PyObject *self)
{
    stop((watch *)self);
    return binding_clear(self, offsetof(watch, object), offsetof(watch, object[OBJECT_COUNT - 1]));
}

static PyMethodDef methods[] = {
    { "close", watch_close, METH_NOARGS, "Stop watching; twice is harmless." },
    { "__enter__", watch_enter, METH_NOARGS, NULL },
    { "__exit__", watch_exit, METH_VARARGS, NULL },
    { 0 },
};

static PyGetSetDef getters[] = {
    { "errors", get_errors, NULL, "How many callbacks failed, and the first message.", NULL },
    { 0 },
};

BINDING_CLASS(lines_watch, "tensortap.LineWatch", watch, BINDING_GC | BINDING_NO_NEW,
              { Py_tp_doc, "A consumer of the line source; made by watch_lines()." },
              BINDING_GC_SLOTS(watch), { Py_tp_dealloc, binding_dealloc }, { Py_tp_methods, methods },
              { Py_tp_getset, getters });
