/* tuples.c -- events of the line source as Python's named tuples.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "lines/source.h"

static PyStructSequence_Field read_fields[] = {
    { "kind", "'local', 'global', 'attribute' or 'item'" },
    { "name", "as written" },
    { "key", "number of this state of the name" },
    { "object", "the tensor; None: it is gone, or in another state" },
    { "version", "torch's count of in-place changes" },
    { "is_seen", "the key was told before" },
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

static PyObject *kind_text(lines_kind kind)
{
    static const char *const texts[] = { "local", "global", "attribute", "item" };
    return PyUnicode_InternFromString(texts[kind]);
}

static PyObject *object_or_none(PyObject *obj)
{
    return Py_NewRef(obj != NULL ? obj : Py_None);
}

/* Takes over the values; one that could not be made fails the tuple. */
static PyObject *make_tuple(PyTypeObject *type, PyObject **values, Py_ssize_t count)
{
    PyObject *tuple = PyStructSequence_New(type);
    bool is_complete = tuple != NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        is_complete = is_complete && values[i] != NULL;
        if (tuple != NULL)
            PyStructSequence_SetItem(tuple, i, values[i] != NULL ? values[i] : Py_NewRef(Py_None));
        else
            Py_XDECREF(values[i]);
    }
    if (!is_complete)
        Py_CLEAR(tuple);
    return tuple;
}

static PyObject *read_tuple(const binding_state *state, const lines_name *read)
{
    PyObject *values[] = { kind_text(read->kind),
                           Py_NewRef(read->name),
                           PyLong_FromUnsignedLongLong(read->key),
                           object_or_none(read->object),
                           PyLong_FromUnsignedLong(read->version),
                           PyBool_FromLong(read->is_seen) };
    return make_tuple(state->line_types[LINES_TYPE_READ], values, 6);
}

static PyObject *change_tuple(const binding_state *state, const lines_change *change)
{
    static const char *const hows[] = { "bound", "rebound", "inplace", "touched" };
    PyObject *arrows = PyTuple_New((Py_ssize_t)change->read_count);
    for (size_t i = 0; arrows != NULL && i < change->read_count; i++)
        PyTuple_SET_ITEM(arrows, (Py_ssize_t)i, PyLong_FromLong(change->reads[i]));
    PyObject *values[] = { kind_text(change->now.kind),
                           Py_NewRef(change->now.name),
                           PyUnicode_InternFromString(hows[change->how]),
                           change->old_key != 0 ? PyLong_FromUnsignedLongLong(change->old_key)
                                                : Py_NewRef(Py_None),
                           PyLong_FromUnsignedLongLong(change->now.key),
                           object_or_none(change->now.object),
                           arrows,
                           PyLong_FromUnsignedLong(change->now.version),
                           PyBool_FromLong(change->is_sampled) };
    return make_tuple(state->line_types[LINES_TYPE_CHANGE], values, 9);
}

PyObject *lines_event_tuple(const binding_state *state, const lines_event *event)
{
    PyObject *changes = PyList_New(0), *reads = PyList_New(0); /* owned, then the tuple's */
    for (size_t i = 0; i < event->read_count && reads != NULL && !PyErr_Occurred(); i++) {
        PyObject *one = read_tuple(state, &event->reads[i]); /* owned */
        if (one != NULL)
            PyList_Append(reads, one);
        Py_XDECREF(one);
    }
    for (size_t i = 0; i < event->change_count && changes != NULL && !PyErr_Occurred(); i++) {
        PyObject *one = change_tuple(state, &event->changes[i]); /* owned */
        if (one != NULL)
            PyList_Append(changes, one);
        Py_XDECREF(one);
    }
    PyObject *values[] = { PyLong_FromUnsignedLongLong(event->frame),
                           Py_NewRef(event->code),
                           PyLong_FromLong(event->line),
                           changes,
                           reads,
                           PyLong_FromUnsignedLongLong(event->caller),
                           PyLong_FromUnsignedLongLong(event->thread),
                           object_or_none(event->value),
                           PyBool_FromLong(event->is_return),
                           PyBool_FromLong(event->is_resumed),
                           PyBool_FromLong(event->is_yield) };
    return make_tuple(state->line_types[LINES_TYPE_EVENT], values, 11);
}
