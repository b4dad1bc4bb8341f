/* sketch.c -- sketches of tokens, and digests of rows and columns, as bytes.
 *
 * For tensortap.implementations, which knows what to do with them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "summary/functions.h"
#include "tensortap_tools.h"

BINDING_FUNCTION(summary_sketch)
{
    binding_state *state = binding_state_of(module);
    tensor_view view;
    if (binding_read_arguments("_sketch", 1, NULL, args, nargs, kwnames) < 0 ||
        binding_open_view(state, args[0], &view) < 0)
        return NULL;
    int64_t count = tt_sketch_tokens(&view.tensor);
    PyObject *bytes =
        PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(count * TT_SKETCH_BYTES)); /* owned */
    if (bytes != NULL && count > 0)
        tt_sketch_compute(&view.tensor, (float *)(void *)PyByteArray_AS_STRING(bytes));
    tensor_view_close(&view);
    return bytes;
}

PyObject *summary_sketch_turn(PyObject *Py_UNUSED(module), PyObject *blocks_given)
{
    double turn[16];
    long long blocks = PyLong_AsLongLong(blocks_given);
    if (blocks == -1 && PyErr_Occurred())
        return NULL;
    tt_sketch_turn(blocks, turn);
    PyObject *list = PyList_New(0); /* owned */
    for (size_t i = 0; list != NULL && i < sizeof turn / sizeof *turn; i++)
        binding_list_add(&list, PyFloat_FromDouble(turn[i]));
    return list;
}

BINDING_FUNCTION(summary_axes)
{
    binding_state *state = binding_state_of(module);
    tensor_view view;
    int64_t rows, columns;
    tt_status st = TT_ENOMEM;
    if (binding_read_arguments("_axes", 1, NULL, args, nargs, kwnames) < 0 ||
        binding_open_view(state, args[0], &view) < 0)
        return NULL;
    tt_axes_sizes(&view.tensor, &rows, &columns);
    PyObject *first = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)rows * 8);     /* owned */
    PyObject *second = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)columns * 8); /* owned */
    if (first != NULL && second != NULL) {
        PyThreadState *released = binding_release_gil(binding_may_release_gil(&view, true));
        st = tt_axes_compute(&view.tensor, (uint64_t *)(void *)PyByteArray_AS_STRING(first),
                             (uint64_t *)(void *)PyByteArray_AS_STRING(second));
        binding_take_gil(released);
    }
    tensor_view_close(&view);
    if (st == TT_OK)
        return Py_BuildValue("(NN)", first, second);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return PyErr_Occurred() ? NULL : binding_raise_status(st, NULL);
}
