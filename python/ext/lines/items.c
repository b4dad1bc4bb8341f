/* items.c -- tensors that come into a list or dict without being named.
 *
 * `xs = [a, b]` makes xs[0] and xs[1], `xs.append(t)` makes xs[2].  A container
 * that is stored is looked into, unless it is one that the statement reads (then
 * it has only another name); one that a statement reads whole is looked into
 * again if it has grown.  Of each, eight items at most.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

static Py_ssize_t size_of(PyObject *box)
{
    return PyList_CheckExact(box) ? PyList_GET_SIZE(box) : PyDict_GET_SIZE(box);
}

/* The next entry from *at on: its key is a new reference, its value borrowed. */
static bool next_item(PyObject *box, Py_ssize_t *at, PyObject **key, PyObject **value)
{
    if (PyDict_CheckExact(box)) {
        if (!PyDict_Next(box, at, key, value))
            return false;
        Py_INCREF(*key);
        return true;
    }
    if (*at >= PyList_GET_SIZE(box) || (*key = PyLong_FromSsize_t(*at)) == NULL)
        return false;
    *value = PyList_GET_ITEM(box, (*at)++);
    return true;
}

bool lines_items_are_tensors(lines_source *source, PyObject *obj)
{
    Py_ssize_t at = 0;
    PyObject *key = NULL, *value = NULL;
    if (PyList_CheckExact(obj)) {
        for (; at < PyList_GET_SIZE(obj) && at < MOST_ITEMS_EACH; at++)
            if (lines_is_tensor(lines_state_kind(source, PyList_GET_ITEM(obj, at))))
                return true;
    } else if (PyDict_CheckExact(obj)) {
        for (int i = 0; i < MOST_ITEMS_EACH && PyDict_Next(obj, &at, &key, &value); i++)
            if (lines_is_tensor(lines_state_kind(source, value)))
                return true;
    }
    return false;
}

/* What the statement built at this key, else the whole that it wrote. */
static const lines_write *part_at(const lines_table *table, const lines_write *write, PyObject *key)
{
    for (uint32_t i = 0; write != NULL && i < write->part_count; i++) {
        const lines_item *part = &table->parts[write->parts + i];
        if (Py_IS_TYPE(part->key, Py_TYPE(key)) && PyObject_RichCompareBool(part->key, key, Py_EQ) == 1)
            return &part->write;
    }
    return write;
}

/* All items but the first `skipped` and those that the statement names. */
static void add_items(lines_source *source, const lines_table *table, int path, PyObject *box,
                      Py_ssize_t skipped, const lines_write *write, lines_found_list *found)
{
    PyObject *key = NULL, *value = NULL;
    Py_ssize_t at = 0;
    int most = found->count + MOST_ITEMS_EACH;
    for (Py_ssize_t i = 0; found->count < most && next_item(box, &at, &key, &value); i++) {
        lines_object_kind kind = i >= skipped ? lines_state_kind(source, value) : KIND_NONE;
        Py_hash_t hash = lines_is_tensor(kind) && lines_path_is_key(key) ? PyObject_Hash(key) : -1;
        lines_place place = { .object = value, .kind = kind, .path = path, .slot = -1, .owner = box };
        place.member = lines_path_member(hash, PATH_ITEM);
        bool is_new = hash != -1 && !lines_found_has(found, &place);
        lines_state *state = is_new ? lines_shared_state(source, box, place.member) : NULL;
        lines_found_change *added =
            state != NULL ? lines_found_add(found, &place, LINES_BOUND, part_at(table, write, key))
                          : NULL;
        if (added == NULL) {
            Py_DECREF(key);
            continue;
        }
        *state = (lines_state){ 0 }; /* of another container that was at this address */
        added->item = key;
    }
    PyErr_Clear();
}

void lines_items_stored(lines_source *source, lines_record *record, const lines_statement *statement,
                        const lines_write *write, PyObject *box, lines_found_list *found)
{
    const lines_table *table = record->code->table;
    if (record->code->is_narrow || !lines_is_container(box) || !lines_items_are_tensors(source, box))
        return;
    for (int i = 0; i < statement->read_count; i++) {
        lines_place place;
        lines_path_find(source, record, table->reads[statement->reads + (uint32_t)i], false, &place);
        if (place.object == box)
            return; /* only another name */
    }
    add_items(source, table, write->path, box, 0, write, found);
}

void lines_items_note(lines_record *record, int path, PyObject *box)
{
    if (record->box_count < MOST_BOXES && (box == NULL || lines_is_container(box)))
        record->boxes[record->box_count++] =
            (lines_noted_box){ .path = path, .object = box, .size = box != NULL ? size_of(box) : 0 };
}

void lines_items_grown(lines_source *source, lines_record *record, lines_found_list *found)
{
    for (int i = 0; i < record->box_count && !record->code->is_narrow; i++) {
        const lines_noted_box *box = &record->boxes[i];
        lines_place place;
        lines_path_find(source, record, box->path, false, &place);
        if (place.object == NULL || (box->object != NULL && place.object != box->object))
            continue;
        if (lines_is_container(place.object) && size_of(place.object) > box->size)
            add_items(source, record->code->table, box->path, place.object, box->size, NULL, found);
    }
}
