/* table.c -- from the lists of tensortap.analysis.table to arrays.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/table.h"

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

/* Attributes that are not computed from a tensor's elements; as ABOUT in expressions.py. */
static bool is_about(PyObject *name)
{
    static const char *const names[] = {
        "device",         "dim",           "dtype",
        "element_size",   "get_device",    "is_complex",
        "is_cuda",        "is_contiguous", "is_floating_point",
        "is_leaf",        "itemsize",      "layout",
        "names",          "nbytes",        "ndim",
        "ndimension",     "nelement",      "numel",
        "requires_grad",  "shape",         "size",
        "storage_offset", "stride",        "strides",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0)
            return true;
    return false;
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
        path->is_about = path->kind == PATH_ATTRIBUTE && is_about(path->detail);
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

enum { READS, WRITES, ARROWS, SITES, PARTS, LISTS }; /* lists that all statements share */

static void count_sources(PyObject *sources, Py_ssize_t count[LISTS])
{
    count[ARROWS] += PyTuple_GET_SIZE(PyTuple_GET_ITEM(sources, 0));
    count[SITES] += PyTuple_GET_SIZE(PyTuple_GET_ITEM(sources, 1));
}

static void count_write(PyObject *sources, PyObject *parts, Py_ssize_t count[LISTS])
{
    count_sources(sources, count);
    count[PARTS] += PyTuple_GET_SIZE(parts);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); i++)
        count_sources(PyTuple_GET_ITEM(PyTuple_GET_ITEM(parts, i), 1), count);
}

static int count_rows(PyObject *rows, Py_ssize_t count[LISTS])
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        PyObject *row = PyList_GET_ITEM(rows, i); /* borrowed */
        PyObject *writing = PyTuple_GET_ITEM(row, 6);
        count[READS] += PyTuple_GET_SIZE(PyTuple_GET_ITEM(row, 5));
        count[WRITES] += PyTuple_GET_SIZE(writing);
        for (Py_ssize_t w = 0; w < PyTuple_GET_SIZE(writing); w++) {
            PyObject *one = PyTuple_GET_ITEM(writing, w);
            count_write(PyTuple_GET_ITEM(one, 2), PyTuple_GET_ITEM(one, 3), count);
        }
    }
    return PyList_GET_SIZE(rows) < TABLE_NONE ? 0 : -1;
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
            if (root_of(table, table->reads[statement->reads + (uint32_t)r]) ==
                root_of(table, table->writes[statement->writes + (uint32_t)w].path))
                return true;
    return false;
}

/* What a write, an item of it or a call comes from. */
static lines_write write_from(lines_table *table, PyObject *sources, uint32_t at[LISTS])
{
    PyObject *from = PyTuple_GET_ITEM(sources, 0), *calls = PyTuple_GET_ITEM(sources, 1); /* borrowed */
    lines_write made = { .reads = at[ARROWS],
                         .calls = at[SITES],
                         .read_count = (uint16_t)PyTuple_GET_SIZE(from),
                         .call_count = (uint16_t)PyTuple_GET_SIZE(calls),
                         .direct_count = (uint16_t)as_int(sources, 2) };
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++)
        table->write_reads[at[ARROWS]++] = (uint16_t)as_int(from, i);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls); i++)
        table->write_calls[at[SITES]++] = as_int(calls, i);
    return made;
}

static lines_write write_of(lines_table *table, int path, int flags, PyObject *sources, PyObject *parts,
                            uint32_t at[LISTS])
{
    lines_write made = write_from(table, sources, at);
    made.path = (uint16_t)path;
    made.flags = (uint16_t)flags;
    made.parts = at[PARTS];
    made.part_count = (uint16_t)PyTuple_GET_SIZE(parts);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); i++) {
        PyObject *part = PyTuple_GET_ITEM(parts, i); /* borrowed */
        lines_item *to = &table->parts[at[PARTS]++];
        to->key = Py_NewRef(PyTuple_GET_ITEM(part, 0));
        to->write = write_from(table, PyTuple_GET_ITEM(part, 1), at);
        to->write.path = made.path;
        to->write.flags = made.flags;
    }
    return made;
}

static void fill_statement(lines_table *table, lines_statement *to, PyObject *row, uint32_t at[LISTS])
{
    PyObject *reading = PyTuple_GET_ITEM(row, 5), *writing = PyTuple_GET_ITEM(row, 6);
    *to = (lines_statement){ .start = as_int(row, 0),
                             .end = as_int(row, 1),
                             .line = as_int(row, 2),
                             .flags = (uint32_t)as_int(row, 3),
                             .exit = as_int(row, 4),
                             .reads = at[READS],
                             .writes = at[WRITES],
                             .read_count = (uint16_t)PyTuple_GET_SIZE(reading),
                             .write_count = (uint16_t)PyTuple_GET_SIZE(writing) };
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(reading); i++) {
        uint16_t path = (uint16_t)as_int(reading, i);
        table->reads[at[READS]++] = path;
        if (table->paths[path].kind != PATH_LOCAL)
            to->flags |= STATEMENT_IS_FAR;
    }
    if (to->read_count > table->most_reads)
        table->most_reads = to->read_count;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(writing); i++) {
        PyObject *one = PyTuple_GET_ITEM(writing, i); /* borrowed */
        table->writes[at[WRITES]++] = write_of(table, as_int(one, 0), as_int(one, 1),
                                               PyTuple_GET_ITEM(one, 2), PyTuple_GET_ITEM(one, 3), at);
    }
    if (is_selfish(table, to))
        to->flags |= STATEMENT_IS_SELFISH;
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
 * if the analysis wants it so, or is told of with the one before it. */
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
            one->followers = (uint16_t)(next->followers + 1);
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
        one->small_slots[count++] = table->paths[table->reads[one->reads + (uint32_t)i]].base;
    one->flags |= STATEMENT_IS_SMALL;
}

static int fill_statements(lines_table *table, PyObject *rows, PyObject *lines, PyObject *begins,
                           PyObject *calls)
{
    Py_ssize_t count[LISTS] = { 0 };
    if (count_rows(rows, count) < 0) {
        PyErr_SetString(PyExc_OverflowError, "too many statements in one code object");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(calls); i++) {
        PyObject *one = PyList_GET_ITEM(calls, i); /* borrowed */
        count_write(PyTuple_GET_ITEM(one, 1), PyTuple_GET_ITEM(one, 2), count);
    }
    table->site_count = (int)PyList_GET_SIZE(calls);
    table->statement_count = (int)PyList_GET_SIZE(rows);
    table->instruction_count = (int)PyList_GET_SIZE(lines);
    table->statements = array_of(table->statement_count, sizeof *table->statements);
    table->statement_at = array_of(table->instruction_count, sizeof *table->statement_at);
    table->line_at = array_of(table->instruction_count, sizeof *table->line_at);
    table->begin_at = array_of(table->instruction_count, sizeof *table->begin_at);
    table->reads = array_of(count[READS], sizeof *table->reads);
    table->writes = array_of(count[WRITES], sizeof *table->writes);
    table->write_reads = array_of(count[ARROWS], sizeof *table->write_reads);
    table->write_calls = array_of(count[SITES], sizeof *table->write_calls);
    table->parts = array_of(count[PARTS], sizeof *table->parts);
    table->part_count = (uint32_t)count[PARTS];
    table->sites = array_of(table->site_count, sizeof *table->sites);
    if (PyErr_Occurred())
        return -1;
    memset(table->statement_at, 0xff, (size_t)table->instruction_count * sizeof *table->statement_at);
    for (int i = 0; i < table->instruction_count; i++) {
        table->line_at[i] = (int)PyLong_AsLong(PyList_GET_ITEM(lines, i));
        table->begin_at[i] = (int)PyLong_AsLong(PyList_GET_ITEM(begins, i));
    }
    uint32_t at[LISTS] = { 0 };
    for (int i = 0; i < table->statement_count; i++) {
        lines_statement *one = &table->statements[i];
        fill_statement(table, one, PyList_GET_ITEM(rows, i), at);
        for (int k = one->start; k < one->end && k < table->instruction_count; k++)
            table->statement_at[k] = (uint16_t)i;
        table->has_steps = table->has_steps || one->flags & STATEMENT_STEPS;
    }
    for (int i = 0; i < table->site_count; i++) {
        PyObject *one = PyList_GET_ITEM(calls, i); /* borrowed */
        table->sites[i].site = as_int(one, 0);
        table->sites[i].given =
            write_of(table, 0, 0, PyTuple_GET_ITEM(one, 1), PyTuple_GET_ITEM(one, 2), at);
    }
    find_followers(table);
    for (int i = 0; i < table->statement_count; i++)
        find_small(table, &table->statements[i]);
    return PyErr_Occurred() ? -1 : 0;
}

lines_table *lines_table_create(PyCodeObject *code, PyObject *analyse)
{
    PyObject *parts = NULL; /* owned */
    lines_table *table = PyMem_Calloc(1, sizeof *table), *result = NULL;
    if (table == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    parts = PyObject_CallOneArg(analyse, (PyObject *)code);
    if (parts == NULL)
        goto out;
    table->argument_count = code->co_argcount + code->co_kwonlyargcount +
                            !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
    if (fill_paths(table, PyTuple_GET_ITEM(parts, 0)) < 0 ||
        fill_statements(table, PyTuple_GET_ITEM(parts, 1), PyTuple_GET_ITEM(parts, 2),
                        PyTuple_GET_ITEM(parts, 3), PyTuple_GET_ITEM(parts, 6)) < 0)
        goto out;
    table->is_hidden = PyTuple_GET_ITEM(parts, 4) == Py_True;
    table->has_tight_loop = PyTuple_GET_ITEM(parts, 5) == Py_True;
    result = table;
    table = NULL;
out:
    lines_table_free(table);
    Py_XDECREF(parts);
    return result;
}

void lines_table_free(lines_table *table)
{
    if (table == NULL)
        return;
    for (int i = 0; i < table->path_count && table->paths != NULL; i++) {
        Py_XDECREF(table->paths[i].detail);
        Py_XDECREF(table->paths[i].text);
    }
    for (uint32_t i = 0; i < table->part_count && table->parts != NULL; i++)
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
