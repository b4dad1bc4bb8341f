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
    text = st < 0 ? binding_raise_status(st, NULL)
                  : PyUnicode_DecodeUTF8(line.data, (Py_ssize_t)line.len, "replace");
    tt_buf_free(&line);
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
    PyObject *text = NULL;
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
    text = st < 0 ? binding_raise_status(st, NULL)
                  : PyUnicode_DecodeUTF8(line.data, (Py_ssize_t)line.len, "replace");
    tt_hist_free(hist);
    tt_buf_free(&line);
    return text;
}

static void read_style(int64_t columns, tt_style *style)
{
    style->columns = columns > 0 && columns < INT32_MAX ? (int32_t)columns : 0;
}

/* tensor_line(x, *, color, ascii, columns) -> str; None: x is no tensor. */
BINDING_FUNCTION(summary_tensor_line)
{
    binding_state *state = binding_state_of(module);
    tt_style style = { 0 };
    int64_t columns = 0;
    const binding_option options[] = { { "color", OPTION_BOOL, &style.is_colored },
                                       { "ascii", OPTION_BOOL, &style.is_ascii },
                                       { "columns", OPTION_INT, &columns },
                                       { 0 } };
    tensor_view view;
    if (binding_read_arguments("tensor_line", 1, options, args, nargs, kwnames) < 0)
        return NULL;
    read_style(columns, &style);
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
    int64_t columns = 0;
    const binding_option options[] = { { "color", OPTION_BOOL, &style.is_colored },
                                       { "ascii", OPTION_BOOL, &style.is_ascii },
                                       { "columns", OPTION_INT, &columns },
                                       { 0 } };
    (void)module;
    if (binding_read_arguments("tree_text", 1, options, args, nargs, kwnames) < 0)
        return NULL;
    read_style(columns, &style);
    if (!PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "rows must be a list of (depth, label, text)");
        return NULL;
    }
    tt_tree *tree = NULL; /* owned */
    tt_buf page = { 0 };
    PyObject *text = NULL;
    tt_status st = tt_tree_create(&tree);
    if (st == TT_OK) {
        if (add_rows(tree, args[0]) < 0)
            goto out;
        st = tt_tree_render(tree, &style, &page);
    }
    text = st < 0 ? binding_raise_status(st, NULL)
                  : PyUnicode_DecodeUTF8(page.data, (Py_ssize_t)page.len, "replace");
out:
    tt_buf_free(&page);
    tt_tree_free(tree);
    return text;
}

PyObject *summary_escape(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames)
{
    PyObject *bytes = NULL, *text = NULL; /* owned */
    tt_buf safe = { 0 };
    tt_status st = TT_OK;
    if (binding_read_arguments("_escape", 1, (const binding_option[]){ { 0 } }, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyUnicode_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "text must be a str, not %.100s", Py_TYPE(args[0])->tp_name);
        return NULL;
    }
    bytes = PyUnicode_AsEncodedString(args[0], "utf-8", "surrogatepass");
    if (bytes == NULL)
        return NULL;
    st = tt_text_append(PyBytes_AS_STRING(bytes), &(tt_style){ 0 }, &safe);
    text = st < 0 ? binding_raise_status(st, NULL)
                  : PyUnicode_DecodeUTF8(safe.len > 0 ? safe.data : "", (Py_ssize_t)safe.len, "replace");
    tt_buf_free(&safe);
    Py_DECREF(bytes);
    return text;
}
