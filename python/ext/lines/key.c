/* key.c -- the key of an item, as a statement computes it.
 *
 * `xs[i - 1]`, `cache[layer, "k"]` and `cache[f"k{i}"]` name an item as well as `xs[0]` does.
 * The key is computed here once more, before the statement
 * runs (or, for an item that is written, after it): numbers and texts of Python's own types
 * only, so that nothing of the program's runs twice.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

enum { DEEPEST = 16 }; /* LONGEST in analysis/value.py */

static bool is_plain(PyObject *key)
{
    return PyLong_CheckExact(key) || PyUnicode_CheckExact(key) || PyBool_Check(key) || key == Py_None ||
           PyFloat_CheckExact(key) || PyBytes_CheckExact(key);
}

bool lines_path_is_key(PyObject *key)
{
    if (!PyTuple_CheckExact(key))
        return is_plain(key);
    Py_ssize_t i = 0;
    while (i < PyTuple_GET_SIZE(key) && is_plain(PyTuple_GET_ITEM(key, i)))
        i++;
    return i == PyTuple_GET_SIZE(key);
}

/* A number that takes no time to compute with. */
static bool is_small(PyObject *number)
{
    int overflow = 1;
    if (PyLong_CheckExact(number))
        (void)PyLong_AsLongAndOverflow(number, &overflow);
    return overflow == 0;
}

/* New reference; NULL: not these. */
static PyObject *operate(PyObject *sign, PyObject *a, PyObject *b)
{
    bool are_numbers = is_small(a) && is_small(b),
         are_texts = PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b);
    switch (PyUnicode_READ_CHAR(sign, 0)) {
    case '+':
        return are_texts ? PyUnicode_Concat(a, b) : are_numbers ? PyNumber_Add(a, b) : NULL;
    case '-':
        return are_numbers ? PyNumber_Subtract(a, b) : NULL;
    case '*':
        return are_numbers ? PyNumber_Multiply(a, b) : NULL;
    case '/':
        return are_numbers ? PyNumber_FloorDivide(a, b) : NULL;
    case '%':
        return are_numbers ? PyNumber_Remainder(a, b) : NULL;
    }
    return NULL;
}

/* The last n of the stack as one; new reference. */
static PyObject *make_tuple(PyObject **stack, Py_ssize_t n)
{
    PyObject *made = PyTuple_New(n);
    for (Py_ssize_t i = 0; made != NULL && i < n; i++)
        PyTuple_SET_ITEM(made, i, Py_NewRef(stack[i]));
    return made;
}

/* What one step pushes, and how many entries it takes; new reference. */
static PyObject *do_step(lines_source *source, lines_record *record, PyObject *step, PyObject **stack,
                         Py_ssize_t depth, Py_ssize_t *taken)
{
    *taken = 0;
    if (PyTuple_Check(step))
        return Py_NewRef(PyTuple_GET_ITEM(step, 0));
    if (PyLong_Check(step)) {
        long number = PyLong_AsLong(step);
        lines_place place = { 0 };
        *taken = number < 0 ? -number : 0;
        if (number < 0)
            return *taken <= depth ? make_tuple(stack + depth - *taken, *taken) : NULL;
        lines_path_find(source, record, (int)number, false, &place);
        return place.object != NULL && lines_path_is_key(place.object) ? Py_NewRef(place.object) : NULL;
    }
    bool is_text = PyUnicode_READ_CHAR(step, 0) == 't';
    *taken = is_text ? 1 : 2;
    if (*taken > depth)
        return NULL;
    if (is_text)
        return is_small(stack[depth - 1]) || PyUnicode_CheckExact(stack[depth - 1])
                   ? PyObject_Str(stack[depth - 1])
                   : NULL;
    return operate(step, stack[depth - 2], stack[depth - 1]);
}

static PyObject *compute(lines_source *source, lines_record *record, PyObject *formula)
{
    PyObject *stack[DEEPEST + 1], *key = NULL; /* owned */
    Py_ssize_t depth = 0;
    bool is_well = true;
    for (Py_ssize_t i = 0; is_well && i < PyTuple_GET_SIZE(formula) && depth <= DEEPEST; i++) {
        Py_ssize_t taken;
        PyObject *made = do_step(source, record, PyTuple_GET_ITEM(formula, i), stack, depth, &taken);
        is_well = made != NULL;
        if (!is_well)
            PyErr_Clear(); /* x // 0 is the program's to raise; no event comes with one pending */
        for (; is_well && taken > 0; taken--)
            Py_DECREF(stack[--depth]);
        if (is_well)
            stack[depth++] = made;
    }
    if (is_well && depth == 1 && lines_path_is_key(stack[0]))
        key = Py_NewRef(stack[0]);
    while (depth > 0)
        Py_DECREF(stack[--depth]);
    return key;
}

PyObject *lines_path_key(lines_source *source, lines_record *record, const lines_path *path)
{
    if (path->kind == PATH_ITEM)
        return Py_NewRef(path->detail);
    if (path->kind != PATH_ITEM_BY)
        return NULL;
    if (path->key < 0)
        return compute(source, record, path->detail);
    lines_place key;
    lines_path_find(source, record, path->key, false, &key);
    return key.object != NULL && lines_path_is_key(key.object) ? Py_NewRef(key.object) : NULL;
}
