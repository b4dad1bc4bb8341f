/* watch.c -- watch_lines() and the class LineWatch: a consumer of the line source with
 * Python callbacks.
 *
 * For front ends that are not in the hot path, and for tests.  Events are named tuples,
 * which keep their tensors alive: a callback should not keep them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "lines/source.h"

/* ---- events as named tuples ------------------------------------------------------ */

static PyStructSequence_Field read_fields[] = {
    { "kind", "'local', 'global', 'attribute' or 'item'" },
    { "name", "as written" },
    { "key", "number of this state of the name" },
    { "object", "the tensor; None: it is gone, or in another state" },
    { "version", "torch's count of in-place changes" },
    { "is_seen", "the key was reported before" },
    { 0 },
};
static PyStructSequence_Field change_fields[] = {
    { "kind", "'local', 'global', 'attribute' or 'item'" },
    { "name", "as written" },
    { "how", "'bound', 'rebound', 'inplace' or 'touched'" },
    { "old_key", "of the state before; None: there was none" },
    { "key", "of the state now" },
    { "object", "the tensor" },
    { "reads", "indices into the event's reads: the arrows to this name" },
    { "version", "torch's count of in-place changes" },
    { "is_sampled", "above 64 MB: only a part of the contents was compared" },
    { 0 },
};
static PyStructSequence_Field event_fields[] = {
    { "frame", "number of the frame" },
    { "code", "its code object" },
    { "line", "first line of the statement" },
    { "changes", "list of LineChange" },
    { "reads", "list of LineRead" },
    { "caller", "number of the nearest watched frame below; 0: none" },
    { "thread", "as threading.get_ident()" },
    { "value", "in leave: what is returned or yielded" },
    { "is_return", "the statement returns or yields; in leave: not by an exception" },
    { "is_resumed", "in enter: a generator goes on" },
    { "is_yield", "in leave: it will go on" },
    { 0 },
};
static PyStructSequence_Desc descriptions[LINES_TYPE_COUNT] = {
    { "tensortap.LineRead", "A name that a statement read.", read_fields, 6 },
    { "tensortap.LineChange", "A name that a statement changed.", change_fields, 9 },
    { "tensortap.LineEvent", "What a statement did.", event_fields, 11 },
};

PyTypeObject *lines_tuple_type(int which)
{
    return PyStructSequence_NewType(&descriptions[which]);
}

/* A named tuple of the values, which are given up; NULL: they could not be made. */
static PyObject *named_tuple(const binding_state *state, int which, PyObject *values)
{
    PyObject *made =
        values != NULL ? PyObject_CallOneArg((PyObject *)state->line_types[which], values) : NULL;
    Py_XDECREF(values);
    return made;
}

static const char *const kinds[] = { "local", "global", "attribute", "item" };
static const char *const hows[] = { "bound", "rebound", "inplace", "touched" };

static PyObject *or_none(PyObject *obj)
{
    return obj != NULL ? obj : Py_None;
}

static PyObject *read_tuple(const binding_state *state, const lines_name *read)
{
    return named_tuple(state, LINES_TYPE_READ,
                       Py_BuildValue("sOKOIN", kinds[read->kind], read->name,
                                     (unsigned long long)read->key, or_none(read->object), read->version,
                                     PyBool_FromLong(read->is_seen)));
}

static PyObject *change_tuple(const binding_state *state, const lines_change *change)
{
    PyObject *arrows = PyTuple_New((Py_ssize_t)change->read_count); /* owned */
    for (size_t i = 0; arrows != NULL && i < change->read_count; i++)
        PyTuple_SET_ITEM(arrows, (Py_ssize_t)i, PyLong_FromLong(change->reads[i]));
    PyObject *old = change->old_key != 0 ? PyLong_FromUnsignedLongLong(change->old_key) /* owned */
                                         : Py_NewRef(Py_None);
    return named_tuple(state, LINES_TYPE_CHANGE,
                       Py_BuildValue("sOsNKONIN", kinds[change->now.kind], change->now.name,
                                     hows[change->how], old, (unsigned long long)change->now.key,
                                     or_none(change->now.object), arrows, change->now.version,
                                     PyBool_FromLong(change->is_sampled)));
}

static PyObject *event_tuple(const binding_state *state, const lines_event *event)
{
    PyObject *changes = PyList_New(0), *reads = PyList_New(0); /* owned, then the tuple's */
    for (size_t i = 0; i < event->read_count && reads != NULL; i++)
        binding_list_add(&reads, read_tuple(state, &event->reads[i]));
    for (size_t i = 0; i < event->change_count && changes != NULL; i++)
        binding_list_add(&changes, change_tuple(state, &event->changes[i]));
    return named_tuple(
        state, LINES_TYPE_EVENT,
        Py_BuildValue("KOiNNKKONNN", (unsigned long long)event->frame, event->code, event->line, changes,
                      reads, (unsigned long long)event->caller, (unsigned long long)event->thread,
                      or_none(event->value), PyBool_FromLong(event->is_return),
                      PyBool_FromLong(event->is_resumed), PyBool_FromLong(event->is_yield)));
}

/* ---- callbacks --------------------------------------------------------------- */

enum { CHANGE, BEFORE, ENTER, LEAVE, LINE, SELECT, FILES, CODES, OBJECT_COUNT };

typedef struct watch {
    PyObject_HEAD binding_state *state; /* of the extension, which the type keeps alive */
    PyObject *object[OBJECT_COUNT];     /* each owned or NULL; functions, then tuples */
    int id;                             /* -1: closed */
    base_frame *at;                     /* of the event that a callback is called with */
} watch;

static void call(watch *self, int which, const lines_event *event)
{
    Py_INCREF(self);                                     /* it may close itself */
    PyObject *function = Py_NewRef(self->object[which]); /* owned */
    PyObject *tuple = event_tuple(self->state, event);   /* owned */
    base_frame *outer = self->at;
    self->at = event->at;
    PyObject *done = tuple != NULL ? PyObject_CallOneArg(function, tuple) : NULL; /* owned */
    self->at = outer;
    Py_XDECREF(done);
    Py_XDECREF(tuple);
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

static bool is_listed(const watch *self, PyCodeObject *code)
{
    PyObject *files = self->object[FILES], *codes = self->object[CODES]; /* borrowed */
    if (files == NULL && codes == NULL)
        return true;
    if (files != NULL && PySequence_Contains(files, code->co_filename) == 1)
        return true;
    for (Py_ssize_t i = 0; codes != NULL && i < PyTuple_GET_SIZE(codes); i++)
        if (PyTuple_GET_ITEM(codes, i) == (PyObject *)code)
            return true;
    return false;
}

static bool selects(void *context, PyCodeObject *code, int *first, int *last)
{
    const watch *self = context;
    if (!is_listed(self, code))
        return false;
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

/* A function, or a sequence of strings or code objects; None counts as not given. */
static int store(PyObject **to, PyObject *given, int which, const char *what)
{
    if (given == NULL || given == Py_None)
        return 0;
    if (which <= SELECT) {
        if (!PyCallable_Check(given)) {
            PyErr_Format(PyExc_TypeError, "%s must be callable, not %s", what, Py_TYPE(given)->tp_name);
            return -1;
        }
        *to = Py_NewRef(given);
        return 0;
    }
    PyTypeObject *type = which == CODES ? &PyCode_Type : &PyUnicode_Type;
    *to = PySequence_Tuple(given);
    for (Py_ssize_t i = 0; *to != NULL && i < PyTuple_GET_SIZE(*to); i++) {
        if (PyObject_TypeCheck(PyTuple_GET_ITEM(*to, i), type))
            continue;
        PyErr_Format(PyExc_TypeError, "%s must be a sequence of %s, not of %s", what, type->tp_name,
                     Py_TYPE(PyTuple_GET_ITEM(*to, i))->tp_name);
        return -1;
    }
    return *to != NULL ? 0 : -1;
}

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
    static char *keywords[] = { "change", "before",  "enter",   "leave", "line",
                                "select", "files",   "codes",   "names", "threads",
                                "arrays", "objects", "touches", "bare",  NULL };
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
    int arrays = 0, objects = 0, touches = 0, bare = 0;
    lines_consumer consumer = { .threads = LINES_THREADS_LATER, .selects = selects };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OOOOOOOOOpppp:watch_lines", keywords,
                                     &given[CHANGE], &given[BEFORE], &given[ENTER], &given[LEAVE],
                                     &given[LINE], &given[SELECT], &given[FILES], &given[CODES], &names,
                                     &threads, &arrays, &objects, &touches, &bare))
        return NULL;
    lines_source *source = lines_source_of(state);
    watch *self =
        source != NULL ? (watch *)PyType_GenericAlloc(state->lines_watch_type, 0) : NULL; /* owned */
    if (self == NULL)
        return NULL;
    self->state = state;
    self->id = -1;
    for (int i = 0; i < OBJECT_COUNT; i++) {
        if (store(&self->object[i], given[i], i, keywords[i]) < 0)
            goto out;
        if (i <= LINE && self->object[i] != NULL)
            consumer.functions[places[i]] = functions[i];
    }
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
    consumer.wants = (arrays ? LINES_ARRAYS : 0u) | (objects || touches ? LINES_OBJECTS : 0u) |
                     (touches ? LINES_TOUCHES : 0u) | (bare ? LINES_BARE : 0u);
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
    if (id >= 0)
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

static PyObject *watch_local(PyObject *self, PyObject *name)
{
    base_frame *at = ((watch *)self)->at;
    if (at == NULL || !PyUnicode_Check(name))
        return PyErr_Format(PyExc_RuntimeError, "local(name) is for use in a callback");
    PyObject *found = lines_frame_get(at, name);
    if (found == NULL)
        PyErr_SetObject(PyExc_KeyError, name);
    return found;
}

static PyObject *get_errors(PyObject *self, void *Py_UNUSED(closure))
{
    return lines_source_error_tuple(((watch *)self)->state->lines, ((watch *)self)->id);
}

static PyObject *get_is_open(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((watch *)self)->id >= 0);
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
    { "local", watch_local, METH_O, "Return a variable of the frame that the current event is about." },
    { "__enter__", watch_enter, METH_NOARGS, NULL },
    { "__exit__", watch_exit, METH_VARARGS, NULL },
    { 0 },
};

static PyGetSetDef getters[] = {
    { "errors", get_errors, NULL, "How many callbacks failed, and the first message.", NULL },
    { "is_open", get_is_open, NULL, "Is it still watching?", NULL },
    { 0 },
};

BINDING_CLASS(lines_watch, "tensortap.LineWatch", watch, BINDING_GC | BINDING_NO_NEW,
              { Py_tp_doc, "A consumer of the line source; made by watch_lines()." },
              BINDING_GC_SLOTS(watch), { Py_tp_dealloc, binding_dealloc }, { Py_tp_methods, methods },
              { Py_tp_getset, getters });
