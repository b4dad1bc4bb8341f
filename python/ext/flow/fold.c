/* fold.c -- the blocks of a chart that are drawn once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/fold.h"

#include "tensortap_tools.h"

/* _fold(kinds, numbers, longest) -> [(at, length, times)]; lists of int, a number is 0 where there is none */
BINDING_FUNCTION(flow_fold)
{
    (void)module;
    if (binding_read_arguments("_fold", 3, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyList_Check(args[0]) || !PyList_Check(args[1]) ||
        PyList_GET_SIZE(args[0]) != PyList_GET_SIZE(args[1]))
        return PyErr_Format(PyExc_TypeError, "_fold() takes two lists of the same length and a number");
    size_t count = (size_t)PyList_GET_SIZE(args[0]), longest = PyLong_AsSize_t(args[2]);
    tt_fold_item *items = PyMem_Calloc(count + 1, sizeof *items);       /* owned */
    PyObject *found = items != NULL ? PyList_New(0) : PyErr_NoMemory(); /* owned */
    for (size_t i = 0; found != NULL && i < count; i++)
        items[i] = (tt_fold_item){
            .kind = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(args[0], (Py_ssize_t)i)),
            .numbers = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(args[1], (Py_ssize_t)i)),
        };
    if (PyErr_Occurred())
        Py_CLEAR(found);
    for (size_t at = 0, times; found != NULL && at < count;) {
        size_t length = tt_fold_find(items, count, at, longest, &times);
        if (length > 0)
            binding_list_add(
                &found, Py_BuildValue("(nnn)", (Py_ssize_t)at, (Py_ssize_t)length, (Py_ssize_t)times));
        at += length > 0 ? length * times : 1;
    }
    PyMem_Free(items);
    return found;
}
