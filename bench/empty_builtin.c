/* empty_builtin.c -- a C function of Python that does nothing, to compare spy_save with.
 * SPDX-License-Identifier: Apache-2.0 */
#include <Python.h>

static PyObject *empty(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module, (void)args, (void)nargs, (void)kwnames;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "empty", (PyCFunction)(void (*)(void))empty, METH_FASTCALL | METH_KEYWORDS, NULL },
    { 0 },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "empty_builtin",
                                         .m_methods = functions };

PyMODINIT_FUNC PyInit_empty_builtin(void)
{
    return PyModule_Create(&definition);
}
