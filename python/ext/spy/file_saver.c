/* file_saver.c -- FileSaver: writes tensors to files, by a thread of its own.
 *
 * The class below tensortap.spy.TensorSaver, which decides names and counts; this one passes memory to
 * the core.  No Python object outlives a call here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "tensortap_tools.h"

typedef struct file_saver_object {
    PyObject_HEAD binding_state *state;
    tt_saver *saver; /* owned */
} file_saver_object;

/* Opens what is to be saved.  1: opened; 0: only torch can read it; -1: with an
 * exception, for things that are no tensor or have no values. */
static int open_source(binding_state *state, PyObject *tensor, tensor_view *view)
{
    tensor_view_result why = tensor_view_open(&state->torch, tensor, view);
    if (why == VIEW_OK)
        return 1;
    if (tensor_torch_is_tensor(&state->torch, tensor) && why != VIEW_META && why != VIEW_FAKE &&
        why != VIEW_FREED && why != VIEW_UNINITIALIZED)
        return 0;
    tensor_view_refuse(view, tensor, why);
    return -1;
}

static PyObject *file_saver_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "bytes", NULL };
    Py_ssize_t bytes = 0;
    tt_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|n:FileSaver", names, &bytes))
        return NULL;
    file_saver_object *self = (file_saver_object *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    tt_status st = tt_saver_open(bytes > 0 ? (size_t)bytes : 0, &self->saver, &err);
    if (st < 0) {
        Py_DECREF(self);
        return binding_raise_status(st, &err);
    }
    return (PyObject *)self;
}

static void file_saver_dealloc(PyObject *self)
{
    tt_saver *saver = ((file_saver_object *)self)->saver; /* NULL is fine */
    Py_BEGIN_ALLOW_THREADS
    tt_saver_close(saver);
    Py_END_ALLOW_THREADS
    binding_dealloc(self);
}

/* save(path, tensor, format, dtype, now) -> bool */
static PyObject *file_saver_save(PyObject *self, PyObject *args)
{
    binding_state *state = ((file_saver_object *)self)->state;
    tt_saver *saver = ((file_saver_object *)self)->saver;
    PyObject *path = NULL, *tensor; /* owned; borrowed */
    PyObject *result = NULL;
    const char *format_name, *dtype_name;
    int is_now;
    tt_format format;
    tensor_view view;
    if (!PyArg_ParseTuple(args, "O&Oszp", PyUnicode_FSConverter, &path, &tensor, &format_name,
                          &dtype_name, &is_now))
        return NULL;
    if (!tt_format_find(format_name, &format)) {
        PyErr_Format(PyExc_ValueError, "format must be 'pt', 'npy', 'safetensors' or 'bytes', not '%s'",
                     format_name);
        goto out;
    }
    int is_open = open_source(state, tensor, &view);
    if (is_open == 0)
        result = Py_NewRef(Py_False);
    if (is_open <= 0)
        goto out;
    tt_error err;
    tt_status st;
    const char *to = PyBytes_AS_STRING(path);
    size_t bytes = (size_t)view.tensor.count * tt_dtype_size(view.tensor.dtype);
    if (!is_now && tt_saver_has_room(saver, bytes)) { /* a copy: nobody can free the memory meanwhile */
        st = tt_saver_add(saver, to, format, &view.tensor, dtype_name, &err);
    } else { /* it will wait for the disk; the caller's reference keeps the memory */
        Py_BEGIN_ALLOW_THREADS
        st = is_now ? tt_file_save(to, format, &view.tensor, dtype_name, &err)
                    : tt_saver_add(saver, to, format, &view.tensor, dtype_name, &err);
        Py_END_ALLOW_THREADS
    }
    tensor_view_close(&view);
    result = st == TT_OK ? Py_NewRef(Py_True) : binding_raise_status(st, &err);
out:
    Py_XDECREF(path);
    return result;
}

static PyObject *file_saver_wait(PyObject *self, PyObject *Py_UNUSED(none))
{
    tt_error err;
    int64_t failed = 0;
    tt_status st;
    Py_BEGIN_ALLOW_THREADS
    st = tt_saver_wait(((file_saver_object *)self)->saver, &failed, &err);
    Py_END_ALLOW_THREADS
    if (st == TT_OK)
        Py_RETURN_NONE;
    if (failed > 1) {
        PyObject *type = st == TT_EIO      ? PyExc_OSError
                         : st == TT_ENOMEM ? PyExc_MemoryError
                                           : PyExc_TypeError;
        PyErr_Format(type, "%lld files could not be saved; the first: %s", (long long)failed, err.text);
        return NULL;
    }
    return binding_raise_status(st, &err);
}

static PyObject *file_saver_held(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(tt_saver_held(((file_saver_object *)self)->saver));
}

static PyMethodDef file_saver_methods[] = {
    { "save", file_saver_save, METH_VARARGS,
      "save($self, path, tensor, format, dtype, now, /)\n--\n\n"
      "Write a tensor now, or a copy of it later; False: only torch can read it." },
    { "wait", file_saver_wait, METH_NOARGS,
      "wait($self, /)\n--\n\nWait until all is on disk; raise what went wrong." },
    { 0 },
};

static PyGetSetDef file_saver_getters[] = {
    { "held", file_saver_held, NULL, "bytes of memory it has now", NULL },
    { 0 },
};

BINDING_CLASS(spy_file_saver, "tensortap._core.FileSaver", file_saver_object, 0,
              { Py_tp_doc, "FileSaver(bytes=0)\n--\n\nWrite tensors to files, by a thread of its own." },
              { Py_tp_new, file_saver_new }, { Py_tp_dealloc, file_saver_dealloc },
              { Py_tp_methods, file_saver_methods }, { Py_tp_getset, file_saver_getters });
