/* table.c -- builds a table from what tensortap.analysis.table returns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

enum { /* as Table.packed() has them */
       LIST_PATHS,
       LIST_STATEMENTS,
       LIST_STATEMENT_AT,
       LIST_SLOTS,
       LIST_LINES,
       LIST_BEGINS,
       LIST_READS,
       LIST_WRITES,
       LIST_ARROWS,
       LIST_CALLS,
       LIST_PARTS,
       LIST_SITES,
       LIST_PART_KEYS,
       LIST_MOST_READS,
       LIST_IS_HIDDEN,
       LIST_HAS_TIGHT_LOOP,
       LIST_HAS_STEPS,
};

/* One of the arrays of integers, and how many entries of so many bytes it has. */
static const void *array_of(const lines_table *table, int which, size_t size, int *count)
{
    PyObject *bytes = PyTuple_GET_ITEM(table->lists, which); /* borrowed */
    *count = (int)((size_t)PyBytes_GET_SIZE(bytes) / size);
    return PyBytes_AS_STRING(bytes);
}

static int fill_paths(lines_table *table)
{
    PyObject *rows = PyTuple_GET_ITEM(table->lists, LIST_PATHS); /* borrowed */
    table->path_count = (int)PyList_GET_SIZE(rows);
    table->paths = PyMem_Calloc((size_t)table->path_count + 1, sizeof *table->paths);
    for (int i = 0; i < table->path_count && table->paths != NULL; i++) {
        lines_path *path = &table->paths[i];
        int kind = 0, is_about = 0;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(rows, i), "iiOOp", &kind, &path->base, &path->detail,
                              &path->text, &is_about))
            return -1;
        path->kind = (lines_path_kind)kind;
        path->is_about = is_about;
        path->key = path->kind == PATH_ITEM_BY && !PyTuple_Check(path->detail)
                        ? (int)PyLong_AsLong(path->detail)
                        : -1;
        path->hash = PyObject_Hash(path->detail);
    }
    return table->paths == NULL || PyErr_Occurred() ? -1 : 0;
}

static void fill_statements(lines_table *table)
{
    int ignored;
    table->statements =
        array_of(table, LIST_STATEMENTS, sizeof *table->statements, &table->statement_count);
    table->statement_at = array_of(table, LIST_STATEMENT_AT, sizeof(int), &table->instruction_count);
    table->slot_path = array_of(table, LIST_SLOTS, sizeof(int), &table->slot_count);
    table->line_at = array_of(table, LIST_LINES, sizeof(int), &ignored);
    table->begin_at = array_of(table, LIST_BEGINS, sizeof(int), &ignored);
    table->reads = array_of(table, LIST_READS, sizeof(int), &ignored);
    table->writes = array_of(table, LIST_WRITES, sizeof(lines_write), &ignored);
    table->write_reads = array_of(table, LIST_ARROWS, sizeof(int), &ignored);
    table->write_calls = array_of(table, LIST_CALLS, sizeof(int), &ignored);
    table->parts = array_of(table, LIST_PARTS, sizeof(lines_write), &ignored);
    table->sites = array_of(table, LIST_SITES, sizeof(lines_site), &table->site_count);
    table->part_keys = PyTuple_GET_ITEM(table->lists, LIST_PART_KEYS);
    table->most_reads = (int)PyLong_AsLong(PyTuple_GET_ITEM(table->lists, LIST_MOST_READS));
    table->is_hidden = PyTuple_GET_ITEM(table->lists, LIST_IS_HIDDEN) == Py_True;
    table->has_tight_loop = PyTuple_GET_ITEM(table->lists, LIST_HAS_TIGHT_LOOP) == Py_True;
    table->has_steps = PyTuple_GET_ITEM(table->lists, LIST_HAS_STEPS) == Py_True;
}

static void free_table(lines_table *table)
{
    if (table == NULL)
        return;
    Py_XDECREF(table->lists);
    PyMem_Free(table->paths);
    PyMem_Free(table);
}

/* NULL with a Python exception. */
static lines_table *create(PyCodeObject *code, PyObject *analyse)
{
    lines_table *table = PyMem_Calloc(1, sizeof *table);
    if (table != NULL)
        table->lists = PyObject_CallOneArg(analyse, (PyObject *)code);
    if (table == NULL || table->lists == NULL || fill_paths(table) < 0) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        free_table(table);
        return NULL;
    }
    fill_statements(table);
    table->argument_count = code->co_argcount + code->co_kwonlyargcount +
                            !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
    return table;
}

/* ---- tables that are kept ------------------------------------------------------- */

/* Analysing a code object takes milliseconds, and a front end may come and go with each call of a
 * function.  So a table belongs to its code object, which frees it (PEP 523's co_extra). */

static lines_table refused; /* stands for a table that could not be made */

static void free_extra(void *table)
{
    if (table != &refused)
        free_table(table);
}

int lines_table_prepare(lines_source *source)
{
    source->extra = PyUnstable_Eval_RequestCodeExtraIndex(free_extra);
    if (source->extra < 0)
        PyErr_SetString(PyExc_RuntimeError, "too many tools keep data with code objects");
    return source->extra < 0 ? -1 : 0;
}

const lines_table *lines_table_of(lines_source *source, PyCodeObject *code)
{
    PyObject *key = (PyObject *)code;
    void *kept = NULL;
    if (PyUnstable_Code_GetExtra(key, source->extra, &kept) < 0 || kept != NULL)
        return kept != &refused ? kept : NULL;
    lines_table *made = create(code, source->analyse);
    PyObject *error = PyErr_GetRaisedException(); /* owned or NULL */
    (void)PyUnstable_Code_GetExtra(key, source->extra, &kept);
    if (kept != NULL) { /* another thread was faster */
        free_table(made);
        Py_XDECREF(error);
        return kept != &refused ? kept : NULL;
    }
    if (PyUnstable_Code_SetExtra(key, source->extra, made != NULL ? made : &refused) < 0) {
        free_table(made);
        made = NULL;
    }
    if (error != NULL)
        PyErr_SetRaisedException(error);
    return made;
}
