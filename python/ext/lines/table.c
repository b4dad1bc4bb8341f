/* table.c -- from the lists of tensortap.analysis.table to arrays.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <string.h>

static int as_int(PyObject *tuple, Py_ssize_t i)
{
    return (int)PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
}

static void *array_of(Py_ssize_t count, size_t size)
{
    void *made = PyMem_Calloc((size_t)(count > 0 ? count : 1), size);
    if (made == NULL)
        PyErr_NoMemory();
    return made;
}

static int fill_paths(lines_table *table, PyObject *rows)
{
    table->path_count = (int)PyList_GET_SIZE(rows);
    table->paths = array_of(table->path_count, sizeof *table->paths);
    if (table->paths == NULL)
        return -1;
    for (int i = 0; i < table->path_count; i++) {
        PyObject *row = PyList_GET_ITEM(rows, i); /* borrowed */
        lines_path *path = &table->paths[i];
        path->kind = (lines_path_kind)as_int(row, 0);
        path->base = as_int(row, 1);
        path->detail = Py_NewRef(PyTuple_GET_ITEM(row, 2));
        path->text = Py_NewRef(PyTuple_GET_ITEM(row, 3));
        path->key = path->kind == PATH_ITEM_BY && !PyTuple_Check(path->detail) ? as_int(row, 2) : -1;
        path->hash = PyObject_Hash(path->detail);
        path->is_about = PyTuple_GET_ITEM(row, 4) == Py_True;
        if (path->kind == PATH_LOCAL && path->base >= table->slot_count)
            table->slot_count = path->base + 1;
    }
    table->slot_path = array_of(table->slot_count, sizeof *table->slot_path);
    if (table->slot_path == NULL)
        return -1;
    memset(table->slot_path, 0xff, (size_t)table->slot_count * sizeof *table->slot_path);
    for (int i = 0; i < table->path_count; i++)
        if (table->paths[i].kind == PATH_LOCAL)
            table->slot_path[table->paths[i].base] = i;
    return PyErr_Occurred() ? -1 : 0;
}

static int root_of(const lines_table *table, int path)
{
    while (table->paths[path].kind >= PATH_ATTRIBUTE)
        path = table->paths[path].base;
    return path;
}

static bool is_selfish(const lines_table *table, const lines_statement *statement)
{
    for (int r = 0; r < statement->read_count; r++)
        for (int w = 0; w < statement->write_count; w++)
            if (root_of(table, table->reads[statement->reads + r]) ==
                root_of(table, table->writes[statement->writes + w].path))
                return true;
    return false;
}

static int *ints_of(PyObject *list)
{
    int *made = array_of(PyList_GET_SIZE(list), sizeof *made);
    for (Py_ssize_t i = 0; made != NULL && i < PyList_GET_SIZE(list); i++)
        made[i] = (int)PyLong_AsLong(PyList_GET_ITEM(list, i));
    return made;
}

static lines_write write_of(PyObject *row)
{
    return (lines_write){ .path = as_int(row, 0),
                          .flags = as_int(row, 1),
                          .reads = as_int(row, 2),
                          .read_count = as_int(row, 3),
                          .calls = as_int(row, 4),
                          .call_count = as_int(row, 5),
                          .direct_count = as_int(row, 6),
                          .parts = as_int(row, 7),
                          .part_count = as_int(row, 8) };
}

static lines_statement statement_of(lines_table *table, PyObject *row)
{
    lines_statement made = { .start = as_int(row, 0),
                             .end = as_int(row, 1),
                             .line = as_int(row, 2),
                             .flags = (uint32_t)as_int(row, 3),
                             .exit = as_int(row, 4),
                             .reads = as_int(row, 5),
                             .read_count = as_int(row, 6),
                             .writes = as_int(row, 7),
                             .write_count = as_int(row, 8) };
    for (int i = 0; i < made.read_count; i++)
        if (table->paths[table->reads[made.reads + i]].kind != PATH_LOCAL)
            made.flags |= STATEMENT_IS_FAR;
    if (made.read_count > table->most_reads)
        table->most_reads = made.read_count;
    if (is_selfish(table, &made))
        made.flags |= STATEMENT_IS_SELFISH;
    return made;
}

/* A jump, a NOP: nothing to settle. */
static bool is_idle(const lines_statement *statement)
{
    return statement->write_count == 0 &&
           !(statement->flags & (STATEMENT_CALLS | STATEMENT_OPERATES | STATEMENT_AUGMENTS));
}

static bool starts_in_line(const lines_table *table, const lines_statement *one)
{
    return one->start > 0 && one->start < table->instruction_count &&
           table->line_at[one->start] == table->line_at[one->start - 1];
}

/* A statement whose first instruction does not start a line has an event of its own
 * if the analysis wants it so, or is reported with the one before it. */
static void find_followers(lines_table *table)
{
    for (int i = table->statement_count - 2; i >= 0; i--) {
        lines_statement *one = &table->statements[i], *next = one + 1;
        if (!starts_in_line(table, next))
            continue;
        if (next->flags & (STATEMENT_STEPS | STATEMENT_LEADS))
            one->flags |= STATEMENT_LEADS;
        if (!(next->flags & (STATEMENT_HANDLES | STATEMENT_STEPS)) &&
            !(is_idle(next) && next->followers == 0))
            one->followers = next->followers + 1;
    }
    for (int i = 0; i < table->statement_count; i++) {
        lines_statement *one = &table->statements[i];
        if (one->flags & (STATEMENT_BRANCHES | STATEMENT_IS_MAYBE) && one->followers > 0)
            one[1].flags |= STATEMENT_IS_MAYBE;
        for (int k = 1; k <= one->followers; k++)
            if (one[k].flags & (STATEMENT_CALLS | STATEMENT_OPERATES | STATEMENT_AUGMENTS))
                one->flags |= STATEMENT_IS_FOLLOWED;
    }
}

/* Most lines are like `total = total + k`; an event needs to know no more of them. */
static void find_small(const lines_table *table, lines_statement *one)
{
    const uint32_t busy =
        STATEMENT_CALLS | STATEMENT_IS_FAR | STATEMENT_IS_FOLLOWED | STATEMENT_STEPS | STATEMENT_LEADS;
    int count = 1;
    one->small_slots[0] = one->small_slots[1] = one->small_slots[2] = -1;
    if (one->flags & busy || one->followers > 0 || one->write_count > 1 || one->read_count > 2)
        return;
    if (one->write_count == 1) {
        const lines_path *path = &table->paths[table->writes[one->writes].path];
        if (path->kind != PATH_LOCAL)
            return;
        one->small_slots[0] = path->base;
    }
    for (int i = 0; i < one->read_count; i++) /* not far, so they are locals */
        one->small_slots[count++] = table->paths[table->reads[one->reads + i]].base;
    one->flags |= STATEMENT_IS_SMALL;
}

static int fill_lists(lines_table *table, PyObject *found)
{
    enum { ROWS = 1, LINES, BEGINS, READS, WRITES, ARROWS, SITES, PARTS, CALLS }; /* of table.Table */
#define LIST(which) PyTuple_GET_ITEM(found, which)
#define COUNT(which) ((int)PyList_GET_SIZE(LIST(which)))
    table->statement_count = COUNT(ROWS);
    table->instruction_count = COUNT(LINES);
    if (table->statement_count >= TABLE_NONE) {
        PyErr_SetString(PyExc_OverflowError, "too many statements in one code object");
        return -1;
    }
    table->statements = array_of(table->statement_count, sizeof *table->statements);
    table->statement_at = array_of(table->instruction_count, sizeof *table->statement_at);
    table->line_at = ints_of(LIST(LINES));
    table->begin_at = ints_of(LIST(BEGINS));
    table->reads = ints_of(LIST(READS));
    table->writes = array_of(COUNT(WRITES), sizeof *table->writes);
    table->write_reads = ints_of(LIST(ARROWS));
    table->write_calls = ints_of(LIST(SITES));
    table->parts = array_of(COUNT(PARTS), sizeof *table->parts);
    table->sites = array_of(COUNT(CALLS), sizeof *table->sites);
    if (PyErr_Occurred())
        return -1;
    for (int i = 0; i < COUNT(WRITES); i++)
        table->writes[i] = write_of(PyList_GET_ITEM(LIST(WRITES), i));
    for (table->part_count = 0; table->part_count < COUNT(PARTS); table->part_count++) {
        PyObject *one = PyList_GET_ITEM(LIST(PARTS), table->part_count); /* borrowed */
        table->parts[table->part_count] = (lines_item){ .key = Py_NewRef(PyTuple_GET_ITEM(one, 0)),
                                                        .write = write_of(PyTuple_GET_ITEM(one, 1)) };
    }
    for (table->site_count = 0; table->site_count < COUNT(CALLS); table->site_count++) {
        PyObject *one = PyList_GET_ITEM(LIST(CALLS), table->site_count); /* borrowed */
        table->sites[table->site_count] =
            (lines_site){ .site = as_int(one, 0), .given = write_of(PyTuple_GET_ITEM(one, 1)) };
    }
    memset(table->statement_at, 0xff, (size_t)table->instruction_count * sizeof *table->statement_at);
    for (int i = 0; i < table->statement_count; i++) {
        lines_statement *one = &table->statements[i];
        *one = statement_of(table, PyList_GET_ITEM(LIST(ROWS), i));
        for (int k = one->start; k < one->end && k < table->instruction_count; k++)
            table->statement_at[k] = (uint16_t)i;
        table->has_steps = table->has_steps || one->flags & STATEMENT_STEPS;
    }
#undef LIST
#undef COUNT
    find_followers(table);
    for (int i = 0; i < table->statement_count; i++)
        find_small(table, &table->statements[i]);
    return PyErr_Occurred() ? -1 : 0;
}

static void free_table(lines_table *table)
{
    if (table == NULL)
        return;
    for (int i = 0; i < table->path_count && table->paths != NULL; i++) {
        Py_XDECREF(table->paths[i].detail);
        Py_XDECREF(table->paths[i].text);
    }
    for (int i = 0; i < table->part_count && table->parts != NULL; i++)
        Py_XDECREF(table->parts[i].key);
    PyMem_Free(table->paths);
    PyMem_Free(table->slot_path);
    PyMem_Free(table->parts);
    PyMem_Free(table->statements);
    PyMem_Free(table->statement_at);
    PyMem_Free(table->line_at);
    PyMem_Free(table->begin_at);
    PyMem_Free(table->reads);
    PyMem_Free(table->writes);
    PyMem_Free(table->write_reads);
    PyMem_Free(table->write_calls);
    PyMem_Free(table->sites);
    PyMem_Free(table);
}

/* NULL with a Python exception, e.g. for a code object of more than 65534 statements. */
static lines_table *create(PyCodeObject *code, PyObject *analyse)
{
    PyObject *found = NULL; /* owned */
    lines_table *table = PyMem_Calloc(1, sizeof *table), *result = NULL;
    if (table == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    found = PyObject_CallOneArg(analyse, (PyObject *)code);
    if (found == NULL)
        goto out;
    table->argument_count = code->co_argcount + code->co_kwonlyargcount +
                            !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
    if (fill_paths(table, PyTuple_GET_ITEM(found, 0)) < 0 || fill_lists(table, found) < 0)
        goto out;
    table->is_hidden = PyTuple_GET_ITEM(found, 10) == Py_True;
    table->has_tight_loop = PyTuple_GET_ITEM(found, 11) == Py_True;
    result = table;
    table = NULL;
out:
    free_table(table);
    Py_XDECREF(found);
    return result;
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
