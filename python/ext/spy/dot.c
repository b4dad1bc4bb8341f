/* dot.c -- a graph of Python's as DOT text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "spy/functions.h"
#include "tensortap_tools.h"

/* Puts a dict of texts into a statement and ends it; -1: with an exception. */
static int end_statement(tt_dot *dot, PyObject *attributes)
{
    Py_ssize_t at = 0;
    for (PyObject *key, *value; PyDict_Next(attributes, &at, &key, &value);) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
        PyObject *bytes = PyUnicode_Check(value)
                              ? PyUnicode_AsEncodedString(value, "utf-8", "surrogatepass")
                              : NULL; /* owned */
        if (name != NULL && bytes != NULL)
            tt_dot_attribute(dot, name, PyBytes_AS_STRING(bytes));
        else if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "attributes must be a dict of str");
        Py_XDECREF(bytes);
        if (PyErr_Occurred())
            return -1;
    }
    tt_dot_end(dot);
    return 0;
}

static int put_statement(tt_buf *out, PyObject *row)
{
    const char *name, *to;
    PyObject *attributes; /* borrowed */
    if (!PyArg_ParseTuple(row, "szO!:_dot", &name, &to, &PyDict_Type, &attributes))
        return -1;
    tt_dot dot = tt_dot_statement(out, name, to);
    return end_statement(&dot, attributes);
}

/* _dot(graph, node, rows) -> str: attributes of the graph and of all nodes; (name, None, attributes) of a
 * node, (tail, head, attributes) of an arrow */
BINDING_FUNCTION(spy_dot)
{
    (void)module;
    if (binding_read_arguments("_dot", 3, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyDict_Check(args[0]) || !PyDict_Check(args[1]) || !PyList_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "_dot() takes two dicts and a list");
    tt_buf text = { 0 };
    tt_dot_open(&text);
    tt_dot graph = tt_dot_default(&text, "graph");
    int result = end_statement(&graph, args[0]);
    tt_dot node = tt_dot_default(&text, "node");
    if (result == 0)
        result = end_statement(&node, args[1]);
    for (Py_ssize_t i = 0; result == 0 && i < PyList_GET_SIZE(args[2]); i++)
        result = put_statement(&text, PyList_GET_ITEM(args[2], i));
    tt_dot_close(&text);
    if (result == 0)
        return binding_take_text(text.st, &text);
    tt_buf_free(&text);
    return NULL;
}
