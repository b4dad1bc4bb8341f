/* names.c -- which names of a code object the consumers want.
 *
 * A consumer may ask for the changes of some names only.  Where all of a code
 * object's consumers do, we call it narrow: a statement that stores none of the
 * names, and cannot change what they hold, is then passed over after a look at
 * two arrays, whatever else it does.  States of other names are not kept; a
 * read of one gets its state when it is needed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <string.h>

/* ---- from names to paths ------------------------------------------------------ */

/* x of x, x.y, x[0].z */
static PyObject *root_of(PyObject *name)
{
    Py_ssize_t len = PyUnicode_GET_LENGTH(name), end = 0;
    while (end < len && PyUnicode_READ_CHAR(name, end) != '.' && PyUnicode_READ_CHAR(name, end) != '[')
        end++;
    return PyUnicode_Substring(name, 0, end);
}

int lines_names_roots(PyObject *names, PyObject **roots)
{
    PyObject *made = PyFrozenSet_New(NULL), *list = PySequence_List(names); /* owned */
    for (Py_ssize_t i = 0; made != NULL && list != NULL && i < PyList_GET_SIZE(list); i++) {
        PyObject *name = PyList_GET_ITEM(list, i); /* borrowed */
        PyObject *root = NULL;                     /* owned */
        if (PyUnicode_Check(name))
            root = root_of(name);
        else
            PyErr_Format(PyExc_TypeError, "names must be strings, not %s", Py_TYPE(name)->tp_name);
        if (root == NULL || PySet_Add(made, root) < 0)
            Py_CLEAR(made);
        Py_XDECREF(root);
    }
    Py_XDECREF(list);
    if (made == NULL || PyErr_Occurred()) {
        Py_XDECREF(made);
        return -1;
    }
    *roots = made;
    return 0;
}

bool lines_names_are_in(PyCodeObject *code, PyObject *roots)
{
    PyObject *lists[] = { code->co_localsplusnames, code->co_names }; /* borrowed */
    bool is_found = false;
    for (size_t k = 0; k < 2; k++)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lists[k]) && !is_found; i++)
            is_found = PySet_Contains(roots, PyTuple_GET_ITEM(lists[k], i)) == 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts) && !is_found; i++) {
        PyObject *inner = PyTuple_GET_ITEM(code->co_consts, i); /* borrowed; a comprehension's */
        if (PyCode_Check(inner) && lines_code_is_comprehension((PyCodeObject *)inner))
            is_found = lines_names_are_in((PyCodeObject *)inner, roots);
    }
    PyErr_Clear();
    return is_found;
}

/* Does a name begin with text and a bracket? */
static bool has_item(PyObject *names, PyObject *text)
{
    PyObject *start = PyUnicode_FromFormat("%U[", text);                   /* owned */
    PyObject *all = start != NULL ? PyObject_GetIter(names) : NULL, *name; /* owned */
    bool is_found = false;
    while (all != NULL && !is_found && (name = PyIter_Next(all)) != NULL) {
        is_found = PyUnicode_Tailmatch(name, start, 0, PY_SSIZE_T_MAX, -1) == 1;
        Py_DECREF(name);
    }
    Py_XDECREF(all);
    Py_XDECREF(start);
    return is_found;
}

/* xs[i] is any item of xs: its name is known at the event. */
static bool is_named(const lines_consumer_slot *slot, const lines_table *table, int number)
{
    const lines_path *path = &table->paths[number], *variable = NULL;
    if (slot->names == NULL || PySet_Contains(slot->names, path->text) == 1)
        return true;
    for (const lines_path *up = path; up->kind >= PATH_ATTRIBUTE; up = &table->paths[up->base])
        if (up->kind == PATH_ITEM_BY)
            variable = &table->paths[up->base];
    return variable != NULL && has_item(slot->names, variable->text);
}

/* ---- of one code object --------------------------------------------------------- */

/* The path itself if it is wanted, else the nearest owner that is: x[0] = 1 may be a change of x.  Is
 * it wanted? */
static bool find_wanted(const lines_table *table, int *path, const uint32_t *named)
{
    while (named[*path] == 0 && table->paths[*path].kind >= PATH_ATTRIBUTE)
        *path = table->paths[*path].base;
    return named[*path] != 0;
}

static bool stores_named(const lines_table *table, const lines_statement *statement,
                         const uint32_t *named)
{
    for (int i = 0; i < statement->write_count; i++) {
        int path = table->writes[statement->writes + i].path;
        if (find_wanted(table, &path, named))
            return true;
    }
    return false;
}

/* Does it read a global, attribute or item by a wanted name?  From then on we
 * know where to look. */
static bool shows_named(const lines_table *table, const lines_statement *statement, const uint32_t *named)
{
    for (int i = 0; i < statement->read_count; i++) {
        int path = table->reads[statement->reads + i];
        if (find_wanted(table, &path, named) && table->paths[path].kind != PATH_LOCAL)
            return true;
    }
    return false;
}

static void fill_touched(const lines_table *table, const uint32_t *named, uint8_t *touched)
{
    for (int i = 0; i < table->statement_count; i++) {
        const lines_statement *one = &table->statements[i];
        for (int k = 0; k <= one->followers; k++) {
            touched[i] |= stores_named(table, &one[k], named) ? STORES_NAMED : 0;
            touched[i] |= shows_named(table, &one[k], named) ? SHOWS_NAMED : 0;
        }
    }
}

/* Running frames have not looked at these slots till now. */
static void adopt_new(lines_source *source, const lines_code *code, const uint32_t *before)
{
    lines_record *record;
    for (size_t i = 0; (record = base_map_next(&source->frames, &i)) != NULL;)
        if (record->code == code)
            lines_statement_adopt(source, record, before);
}

void lines_names_free(lines_names *names)
{
    PyMem_Free(names->wanted);
    PyMem_Free(names->touched);
    PyMem_Free(names->slots);
    *names = (lines_names){ 0 };
}

static uint32_t who_names(lines_source *source, const lines_code *code, int path)
{
    uint32_t named = 0;
    for (uint32_t left = code->mask; left != 0; left &= left - 1) {
        const lines_consumer_slot *slot = &source->consumers[lines_first(left)];
        if (slot->consumer.change == NULL && slot->consumer.before == NULL)
            continue;
        bool is_wanted =
            slot->names == NULL || slot->consumer.before != NULL || is_named(slot, code->table, path);
        if (PyErr_Occurred()) {
            lines_source_note_error(source, lines_first(left));
            is_wanted = false;
        }
        named |= is_wanted ? left & -left : 0;
    }
    return named;
}

void lines_names_find(lines_source *source, lines_code *code)
{
    const lines_table *table = code->table;
    lines_names now = { .is_narrow = true }, before = code->names;
    bool is_choosing = false;
    for (uint32_t left = code->mask; left != 0; left &= left - 1) {
        const lines_consumer *consumer = &source->consumers[lines_first(left)].consumer;
        is_choosing = is_choosing || consumer->names != NULL;
        now.has_touches = now.has_touches || (consumer->names != NULL && consumer->wants & LINES_OBJECTS);
        if (consumer->before != NULL || (consumer->change != NULL && consumer->names == NULL))
            now.is_narrow = false;
    }
    if (is_choosing || now.is_narrow) { /* narrow without names: no change is wanted */
        now.wanted = PyMem_Calloc((size_t)table->path_count + 1, sizeof *now.wanted);
        now.touched = PyMem_Calloc((size_t)table->statement_count + 1, sizeof *now.touched);
        now.slots = PyMem_Calloc((size_t)table->slot_count + 1, sizeof *now.slots);
    }
    if (now.wanted == NULL || now.touched == NULL || now.slots == NULL)
        lines_names_free(&now); /* no choice; or no memory: all is reported, and names are checked last */
    for (int i = 0; i < table->path_count && now.wanted != NULL; i++) {
        now.wanted[i] = who_names(source, code, i);
        if (now.wanted[i] != 0 && table->paths[i].kind == PATH_LOCAL)
            now.slots[now.slot_count++] = table->paths[i].base;
    }
    if (now.wanted != NULL)
        fill_touched(table, now.wanted, now.touched);
    code->names = now;
    if (before.wanted != NULL)
        adopt_new(source, code, before.wanted);
    lines_names_free(&before);
}

/* ---- at an event ---------------------------------------------------------------- */

bool lines_names_are_live(const lines_record *record)
{
    const lines_code *code = record->code;
    if (record->far_count > 0)
        return true;
    for (int i = 0; i < code->names.slot_count; i++) {
        unsigned kind = record->slots[code->names.slots[i]].seen.kind;
        if (kind == KIND_TORCH || kind == KIND_ARRAY || (kind == KIND_OBJECT && code->names.has_touches))
            return true;
    }
    return false;
}
