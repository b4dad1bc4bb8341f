/* text.c -- tensors and trees as text, for tensortap.show.
 *
 * Exists so that a tensor's line is the same in Python, in the program and in
 * every front end: the core writes it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/facts.h"
#include "summary/functions.h"
#include "tensortap_tools.h"

/* The line of any tensor.  Closes the view of one whose values can be read. */
static PyObject *line_of(const summary_facts *known, tensor_view_result why, tensor_view *view,
                         const tt_style *style)
{
    tt_hist *hist = NULL; /* owned */
    tt_buf line = { 0 };
    tt_status st = TT_OK;
    tt_facts facts = { .dtype = known->dtype[0] != '\0' ? known->dtype : NULL,
                       .shape = known->ndim >= 0 ? known->shape : NULL,
                       .ndim = known->ndim >= 0 ? known->ndim : 0 };
    if (known->device[0] != '\0' && why != VIEW_META) /* there the note says it */
        facts.device = known->device;
    if (known->has_stats)
        facts.stats = &known->stats;
    else
        facts.note = tensor_view_result_word(why);
    if (why == VIEW_OK) {
        st = tt_hist_create(&hist);
        if (st == TT_OK)
            tt_hist_add(hist, &view->tensor);
        facts.hist = hist;
        tensor_view_close(view);
    }
    if (st == TT_OK)
        st = tt_facts_line(&facts, style, &line);
    tt_hist_free(hist);
    return binding_take_text(st, &line);
}

/* Reads one positional argument, and color=, ascii= and columns=.  0, or -1 with an exception. */
static int read_style(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                      tt_style *style)
{
    int64_t columns = 0;
    const binding_option options[] = { { "color", OPTION_BOOL, &style->is_colored },
                                       { "ascii", OPTION_BOOL, &style->is_ascii },
                                       { "columns", OPTION_INT, &columns },
                                       { 0 } };
    if (binding_read_arguments(function, 1, options, args, nargs, kwnames) < 0)
        return -1;
    style->columns = columns > 0 && columns < INT32_MAX ? (int32_t)columns : 0;
    return 0;
}

/* tensor_line(x, *, color, ascii, columns) -> str; None: x is no tensor. */
BINDING_FUNCTION(summary_tensor_line)
{
    binding_state *state = binding_state_of(module);
    tt_style style = { 0 };
    tensor_view view;
    if (read_style("tensor_line", args, nargs, kwnames, &style) < 0)
        return NULL;
    summary_facts facts;
    tensor_view_result why = summary_facts_read(state, args[0], &facts, &view);
    if (why == VIEW_NOT_TENSOR)
        Py_RETURN_NONE;
    return line_of(&facts, why, &view, &style);
}

/* Rows of (depth, label, text), owned; NULL with an exception. */
static tt_tree_item *read_rows(PyObject *list)
{
    tt_tree_item *rows = PyMem_Calloc((size_t)PyList_GET_SIZE(list) + 1, sizeof *rows);
    if (rows == NULL)
        return (tt_tree_item *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && !PyErr_Occurred(); i++)
        if (PyArg_ParseTuple(PyList_GET_ITEM(list, i), "iss", &rows[i].depth, &rows[i].label,
                             &rows[i].text) &&
            (rows[i].depth < 0 || rows[i].depth > (i > 0 ? rows[i - 1].depth + 1 : 0)))
            PyErr_Format(PyExc_ValueError, "row %zd is deeper than a child of the row before it", i);
    if (PyErr_Occurred()) {
        PyMem_Free(rows);
        rows = NULL;
    }
    return rows;
}

/* tree_text(rows, *, color, ascii, columns) -> str; rows: [(depth, label, text)] */
BINDING_FUNCTION(summary_tree_text)
{
    tt_style style = { 0 };
    (void)module;
    if (read_style("tree_text", args, nargs, kwnames, &style) < 0)
        return NULL;
    if (!PyList_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "rows must be a list of (depth, label, text)");
    tt_buf page = { 0 };
    tt_tree_item *rows = read_rows(args[0]); /* owned */
    if (rows == NULL)
        return NULL;
    tt_status st = tt_tree_append(rows, (size_t)PyList_GET_SIZE(args[0]), &style, &page);
    PyMem_Free(rows);
    return binding_take_text(st, &page);
}

/* Puts a row of texts into a table; false with an exception. */
static bool put_row(tt_table *table, PyObject *row, Py_ssize_t count)
{
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != count) {
        PyErr_Format(PyExc_TypeError, "a row must be a tuple of %zd texts, not %R", count, row);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *bytes =
            PyUnicode_AsEncodedString(PyTuple_GET_ITEM(row, i), "utf-8", "backslashreplace");
        if (bytes == NULL)
            return false;
        tt_table_cell(table, TT_MOOD_PLAIN, PyBytes_AS_STRING(bytes));
        Py_DECREF(bytes);
    }
    return true;
}

/* table_text(rows, *, color, ascii, columns) -> str; rows: (titles, are numbers, row, row ...), tuples all */
BINDING_FUNCTION(summary_table_text)
{
    enum { LEAST = 8 }; /* a column may shrink to this */
    tt_style style = { 0 };
    (void)module;
    if (read_style("table_text", args, nargs, kwnames, &style) < 0)
        return NULL;
    PyObject *rows = args[0], *titles = NULL, *numbers = NULL; /* borrowed */
    if (PyList_Check(rows) && PyList_GET_SIZE(rows) >= 2) {
        titles = PyList_GET_ITEM(rows, 0);
        numbers = PyList_GET_ITEM(rows, 1);
    }
    if (titles == NULL || !PyTuple_Check(titles) || !PyTuple_Check(numbers) ||
        PyTuple_GET_SIZE(titles) != PyTuple_GET_SIZE(numbers))
        return PyErr_Format(PyExc_TypeError, "rows must be a list of tuples: titles, are numbers, rows");
    Py_ssize_t count = PyTuple_GET_SIZE(titles);
    tt_table_column *columns = PyMem_Calloc((size_t)count + 1, sizeof *columns); /* owned */
    if (columns == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        bool is_right = PyTuple_GET_ITEM(numbers, i) == Py_True;
        columns[i] = (tt_table_column){ .title = PyUnicode_AsUTF8(PyTuple_GET_ITEM(titles, i)),
                                        .is_right = is_right,
                                        .least = is_right ? 0 : -LEAST };
    }
    tt_buf page = { 0 };
    tt_status st = TT_OK;
    tt_table *table =
        PyErr_Occurred() ? NULL : tt_table_create(&style, columns, (size_t)count); /* owned */
    for (Py_ssize_t i = 2; i < PyList_GET_SIZE(rows) && !PyErr_Occurred(); i++)
        (void)put_row(table, PyList_GET_ITEM(rows, i), count);
    if (!PyErr_Occurred())
        st = tt_table_render(table, &page);
    tt_table_free(table);
    PyMem_Free(columns);
    if (PyErr_Occurred()) {
        tt_buf_free(&page);
        return NULL;
    }
    return binding_take_text(st, &page);
}

/* tree_line(depth, branch, text, is_colored) -> str */
BINDING_FUNCTION(summary_tree_line)
{
    (void)module;
    if (binding_read_arguments("tree_line", 4, NULL, args, nargs, kwnames) < 0)
        return NULL;
    const tt_style style = { .is_colored = args[3] == Py_True };
    long depth = PyLong_AsLong(args[0]), branch = PyLong_AsLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    if (depth < 0 || depth > INT32_MAX || branch < TT_BRANCH_CALL || branch > TT_BRANCH_LAST)
        return PyErr_Format(PyExc_ValueError, "depth %ld or branch %ld is out of range", depth, branch);
    PyObject *bytes = PyUnicode_AsEncodedString(args[2], "utf-8", "backslashreplace"); /* owned */
    if (bytes == NULL)
        return NULL;
    tt_buf line = { 0 };
    tt_status st =
        tt_tree_line((int32_t)depth, (tt_branch)branch, PyBytes_AS_STRING(bytes), &style, &line);
    Py_DECREF(bytes);
    return binding_take_text(st, &line);
}

/* mood_codes() -> dict; tree_line obeys these sequences and no others */
BINDING_FUNCTION(summary_mood_codes)
{
    (void)module;
    if (binding_read_arguments("mood_codes", 0, NULL, args, nargs, kwnames) < 0)
        return NULL;
    return Py_BuildValue("{ssssssss}", "plain", tt_mood_code(TT_MOOD_PLAIN), "type",
                         tt_mood_code(TT_MOOD_TYPE), "remark", tt_mood_code(TT_MOOD_REMARK), "alarm",
                         tt_mood_code(TT_MOOD_ALARM));
}

/* number_text(number, *, exact) -> str */
BINDING_FUNCTION(summary_number_text)
{
    bool is_exact = false;
    const binding_option options[] = { { "exact", OPTION_BOOL, &is_exact }, { 0 } };
    char digits[TT_NUMBER_TEXT];
    (void)module;
    if (binding_read_arguments("number_text", 1, options, args, nargs, kwnames) < 0)
        return NULL;
    double number = PyFloat_AsDouble(args[0]);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    size_t len = (is_exact ? tt_number_f64 : tt_number_short)(number, digits);
    return PyUnicode_FromStringAndSize(digits, (Py_ssize_t)len);
}

PyObject *summary_escape(PyObject *Py_UNUSED(module), PyObject *text)
{
    if (!PyUnicode_Check(text))
        return PyErr_Format(PyExc_TypeError, "text must be a str, not %.100s", Py_TYPE(text)->tp_name);
    tt_buf safe = { 0 };
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"); /* owned */
    if (bytes == NULL)
        return NULL;
    tt_status st = tt_text_append(PyBytes_AS_STRING(bytes), &(tt_style){ 0 }, &safe);
    Py_DECREF(bytes);
    return binding_take_text(st, &safe);
}
