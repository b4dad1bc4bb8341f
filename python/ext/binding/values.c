/* values.c -- what Python asks about values: the tensors in one, the plain ones of a frame.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"
#include "binding/state.h"
#include "tensor/copy.h"
#include "tensor/view.h"
#include "tensor/walk.h"

static tensor_torch *torch_of(PyObject *module)
{
    tensor_torch *torch = &binding_state_of(module)->torch;
    (void)tensor_torch_find(torch);
    return torch;
}

typedef struct naming {
    PyObject *name, *found;
} naming;

static int add_named(void *context, PyObject *tensor, const tensor_path *place)
{
    naming *work = context;
    binding_list_add(&work->found, Py_BuildValue("(NO)", tensor_path_name(work->name, place), tensor));
    return work->found != NULL ? 0 : -1;
}

BINDING_FUNCTION(binding_find_tensors)
{
    if (binding_read_arguments("find_tensors", 2, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyUnicode_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "find_tensors(): the name must be a str, not %R", args[1]);
    naming work = { .name = args[1], .found = PyList_New(0) };
    if (work.found != NULL && tensor_walk(torch_of(module), args[0], add_named, &work) < 0)
        Py_CLEAR(work.found); /* a key that cannot be hashed, or no memory */
    return work.found;
}

BINDING_FUNCTION(binding_children)
{
    bool has_sets = false, has_objects = false, has_modules = false;
    int64_t limit = INT64_MAX;
    const binding_option options[] = { { "sets", OPTION_BOOL, &has_sets },
                                       { "objects", OPTION_BOOL, &has_objects },
                                       { "modules", OPTION_BOOL, &has_modules },
                                       { "limit", OPTION_INT, &limit },
                                       { 0 } };
    if (binding_read_arguments("children", 1, options, args, nargs, kwnames) < 0)
        return NULL;
    tensor_children it;
    tensor_children_open(&it, torch_of(module), args[0],
                         (has_objects ? CHILDREN_OBJECTS : CHILDREN_FIELDS) |
                             (has_sets ? CHILDREN_SETS : 0) | (has_modules ? CHILDREN_MODULES : 0));
    PyObject *found = tensor_children_has_any(&it) ? PyList_New(0) : Py_NewRef(Py_None); /* owned */
    while (found != NULL && found != Py_None && limit-- > 0 && tensor_children_next(&it))
        binding_list_add(&found, Py_BuildValue("(NO)", tensor_children_key(&it), it.value));
    tensor_children_close(&it);
    return found;
}

BINDING_FUNCTION(binding_copy_tensor)
{
    PyObject *cache = NULL, *make = NULL; /* borrowed */
    bool is_fresh = false;
    const binding_option options[] = { { "cache", OPTION_OBJECT, &cache },
                                       { "make", OPTION_OBJECT, &make },
                                       { "fresh", OPTION_BOOL, &is_fresh },
                                       { 0 } };
    if (binding_read_arguments("copy_tensor", 1, options, args, nargs, kwnames) < 0)
        return NULL;
    tensor_torch *torch = torch_of(module);
    if (!tensor_torch_is_tensor(torch, args[0]) || make == NULL)
        return PyErr_Format(PyExc_TypeError,
                            "copy_tensor() takes a torch.Tensor and make=function, not %R",
                            (PyObject *)Py_TYPE(args[0]));
    return tensor_copy(torch, cache != NULL && PyDict_Check(cache) ? cache : NULL, args[0], make, NULL,
                       NULL, is_fresh);
}

/* 1: copied; 0: it cannot be read here; -1: with an exception */
static int copy_one(tensor_torch *torch, PyObject *tensor, PyObject *offset, const Py_buffer *room)
{
    tensor_view view;
    Py_ssize_t at = PyLong_AsSsize_t(offset);
    if (at == -1 && PyErr_Occurred())
        return -1;
    if (tensor_view_open(torch, tensor, &view) != VIEW_OK)
        return 0;
    size_t bytes = (size_t)view.tensor.count * tt_dtype_size(view.tensor.dtype);
    bool has_room = at >= 0 && at <= room->len && bytes <= (size_t)(room->len - at);
    if (has_room)
        tt_tensor_copy(&view.tensor, (char *)room->buf + at);
    else
        PyErr_Format(PyExc_ValueError, "copy_into(): %zu bytes at %zd do not fit into %zd", bytes, at,
                     room->len);
    tensor_view_close(&view);
    return has_room ? 1 : -1;
}

BINDING_FUNCTION(binding_copy_into)
{
    Py_buffer room;
    if (binding_read_arguments("copy_into", 3, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyList_Check(args[1]) || !PyList_Check(args[2]) ||
        PyList_GET_SIZE(args[1]) != PyList_GET_SIZE(args[2]))
        return PyErr_Format(PyExc_TypeError, "copy_into() takes a buffer and two lists of one length");
    if (PyObject_GetBuffer(args[0], &room, PyBUF_WRITABLE) < 0)
        return NULL;
    PyObject *unread = PyList_New(0); /* owned */
    for (Py_ssize_t i = 0; unread != NULL && i < PyList_GET_SIZE(args[1]); i++) {
        int is_copied = i < PyList_GET_SIZE(args[2])
                            ? copy_one(torch_of(module), PyList_GET_ITEM(args[1], i),
                                       PyList_GET_ITEM(args[2], i), &room)
                            : 0;
        if (is_copied < 0)
            Py_CLEAR(unread);
        else if (is_copied == 0)
            binding_list_add(&unread, PyLong_FromSsize_t(i));
    }
    PyBuffer_Release(&room);
    return unread;
}

enum { LONGEST_TEXT = 80 }; /* characters: a longer one is data */

static bool is_plain(PyObject *value)
{
    return PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) <= LONGEST_TEXT);
}

static int add_plain(PyObject *found, PyObject *name, PyObject *value)
{
    bool is_own = PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) > 1 &&
                  PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_';
    return value == NULL || is_own || !is_plain(value) ? 0 : PyDict_SetItem(found, name, value);
}

/* The frame's own attribute f_locals would hold every local, tensors too, until the frame ends. */
BINDING_FUNCTION(binding_plain_locals)
{
    if (binding_read_arguments("_plain_locals", 1, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyFrame_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "_plain_locals() takes a frame, not %R", args[0]);
    (void)module;
    base_frame *at = base_frame_of((PyFrameObject *)args[0]);
    PyCodeObject *code = base_frame_code(at);      /* borrowed */
    PyObject *names = base_frame_names(at);        /* borrowed */
    PyObject *found = PyDict_New(), *slots = NULL; /* owned */
    int result = found != NULL ? 0 : -1;
    if (names != NULL && PyDict_Check(names)) { /* a module */
        Py_ssize_t i = 0;
        for (PyObject *name, *value; result == 0 && PyDict_Next(names, &i, &name, &value);)
            result = add_plain(found, name, value);
    } else if (names == NULL && result == 0) {
        slots = PyCode_GetVarnames(code);
        for (Py_ssize_t i = 0; slots != NULL && result == 0 && i < PyTuple_GET_SIZE(slots); i++)
            result = add_plain(found, PyTuple_GET_ITEM(slots, i),
                               base_frame_slot(at, (int)i, PyTuple_GET_ITEM(slots, i)));
        result = slots != NULL ? result : -1;
    }
    Py_XDECREF(slots);
    if (result < 0)
        Py_CLEAR(found);
    return found;
}
