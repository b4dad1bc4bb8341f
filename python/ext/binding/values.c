/* values.c -- what Python asks about the tensors in a value.
 * SPDX-License-Identifier: Apache-2.0 */
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

static int add_named(void *context, PyObject *tensor, const tensor_place *place)
{
    naming *work = context;
    binding_list_add(&work->found, Py_BuildValue("(NO)", tensor_place_name(work->name, place), tensor));
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
