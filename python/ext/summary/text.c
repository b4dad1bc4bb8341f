/* text.c -- tensors and trees as text, for tensortap.show.
 *
 * Exists so that a tensor's line is the same in Python, in the program and in
 * every front end: the core writes it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/functions.h"
#include "summary/stats.h"
#include "tensor/facts.h"
#include "tensortap_tools.h"

/* The line of a tensor whose values we do not read; there may be some that torch
 * computed on its device. */
static PyObject *line_from_outside(PyObject *obj, tensor_view_result why, const tt_style *style)
{
    PyObject *dtype = NULL, *device = NULL, *stats = NULL, *text = NULL; /* owned */
    int64_t shape[TT_MAX_DIM];
    tt_buf line = { 0 };
    tt_facts facts = { .dtype = tensor_fact_dtype(obj, &dtype), .shape = shape };
    facts.ndim = tensor_fact_shape(obj, shape);
    if (why != VIEW_META) /* there the note says it */
        facts.device = tensor_fact_device(obj, &device);
    if (why == VIEW_DEVICE)
        stats = summary_stats_on_device(obj, false);
    PyErr_Clear(); /* a device that cannot compute them: no numbers */
    if (stats != NULL)
        facts.stats = &((summary_stats_object *)stats)->stats;
    else
        facts.note = tensor_view_result_word(why);
    if (facts.ndim < 0)
        facts.ndim = 0, facts.shape = NULL;
    tt_status st = tt_facts_line(&facts, style, &line);
    text = binding_take_text(st, &line);
    Py_XDECREF(dtype);
    Py_XDECREF(device);
    Py_XDECREF(stats);
    return text;
}

static PyObject *line_from_inside(const tt_tensor *t, const tt_style *style)
{
    tt_stats stats;
    tt_hist *hist = NULL; /* owned */
    tt_buf line = { 0 };
    tt_stats_compute(t, &stats);
    tt_status st = tt_hist_create(&hist);
    if (st < 0)
        goto out;
    tt_hist_add(hist, t);
    tt_facts facts = { .dtype = tt_dtype_name(t->dtype),
                       .shape = t->shape,
                       .ndim = t->ndim,
                       .stats = &stats,
                       .hist = hist };
    st = tt_facts_line(&facts, style, &line);
out:
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
    tensor_view_result why = tensor_view_open(&state->torch, args[0], &view);
    if (why == VIEW_NOT_TENSOR)
        Py_RETURN_NONE;
    if (why != VIEW_OK)
        return line_from_outside(args[0], why, &style);
    PyObject *text = line_from_inside(&view.tensor, &style);
    tensor_view_close(&view);
    return text;
}

/* Adds rows[i]; its children, if any, are the rows after it that are deeper. */
static tt_status add_row(tt_tree *tree, long depth, long next, long *open, const char *label,
                         const char *text)
{
    for (; *open > depth; (*open)--)
        tt_tree_close(tree);
    if (next <= depth)
        return tt_tree_leaf(tree, label, text);
    tt_status st = tt_tree_open(tree, label, text);
    if (st == TT_OK)
        (*open)++;
    return st;
}

static int add_rows(tt_tree *tree, PyObject *rows)
{
    long open = 0, depth = 0, next = 0;
    const char *label, *text, *unused;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        PyObject *after = i + 1 < PyList_GET_SIZE(rows) ? PyList_GET_ITEM(rows, i + 1) : NULL;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(rows, i), "lss", &depth, &label, &text))
            return -1;
        next = 0;
        if (after != NULL && !PyArg_ParseTuple(after, "lss", &next, &unused, &unused))
            return -1;
        tt_status st = add_row(tree, depth, next, &open, label, text);
        if (st < 0) {
            binding_raise_status(st, NULL);
            return -1;
        }
    }
    for (; open > 0; open--)
        tt_tree_close(tree);
    return 0;
}

/* tree_text(rows, *, color, ascii, columns) -> str; rows: [(depth, label, text)] */
BINDING_FUNCTION(summary_tree_text)
{
    tt_style style = { 0 };
    (void)module;
    if (read_style("tree_text", args, nargs, kwnames, &style) < 0)
        return NULL;
    if (!PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "rows must be a list of (depth, label, text)");
        return NULL;
    }
    tt_tree *tree = NULL; /* owned */
    tt_buf page = { 0 };
    tt_status st = tt_tree_create(&tree);
    bool is_fine = st < 0 || add_rows(tree, args[0]) == 0;
    if (st == TT_OK && is_fine)
        st = tt_tree_render(tree, &style, &page);
    tt_tree_free(tree);
    return is_fine ? binding_take_text(st, &page) : NULL;
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
