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

bool items_are_tensors(line_source *source, PyObject *obj)
{
    Py_ssize_t at = 0;
    PyObject *key = NULL, *value = NULL;
    if (PyList_CheckExact(obj)) {
        for (; at < PyList_GET_SIZE(obj) && at < MOST_ITEMS_EACH; at++)
            if (is_tensor(state_kind(source, PyList_GET_ITEM(obj, at))))
                return true;
    } else if (PyDict_CheckExact(obj)) {
        for (int i = 0; i < MOST_ITEMS_EACH && PyDict_Next(obj, &at, &key, &value); i++)
            if (is_tensor(state_kind(source, value)))
                return true;
    }
    return false;
}

/* What the statement built at this key, else the whole that it wrote. */
static const line_write *part_at(const line_table *table, const line_write *write, PyObject *key)
{
    for (uint32_t i = 0; write != NULL && i < write->part_count; i++) {
        const line_part *part = &table->parts[write->parts + i];
        if (Py_IS_TYPE(part->key, Py_TYPE(key)) && PyObject_RichCompareBool(part->key, key, Py_EQ) == 1)
            return &part->write;
    }
    return write;
}

/* All items but the first `skipped` and those that the statement names. */
static void add_items(line_source *source, const line_table *table, int path, PyObject *box,
                      Py_ssize_t skipped, const line_write *write, found_list *found)
{
    PyObject *key = NULL, *value = NULL;
    Py_ssize_t at = 0;
    int most = found->count + MOST_ITEMS_EACH;
    for (Py_ssize_t i = 0; found->count < most && next_item(box, &at, &key, &value); i++) {
        object_kind kind = i >= skipped ? state_kind(source, value) : KIND_NONE;
        Py_hash_t hash = is_tensor(kind) && path_is_key(key) ? PyObject_Hash(key) : -1;
        line_place place = { .object = value, .kind = kind, .path = path, .slot = -1, .owner = box };
        place.member = path_member(hash, PATH_ITEM);
        bool is_new = hash != -1 && !found_has(found, &place);
        line_state *state = is_new ? shared_state(source, box, place.member) : NULL;
        found_change *added =
            state != NULL ? found_add(found, &place, LINE_BOUND, part_at(table, write, key)) : NULL;
        if (added == NULL) {
            Py_DECREF(key);
            continue;
        }
        *state = (line_state){ 0 }; /* of another container that was at this address */
        added->item = key;
    }
    PyErr_Clear();
}

void items_stored(line_source *source, frame_record *record, const line_statement *statement,
                  const line_write *write, PyObject *box, found_list *found)
{
    const line_table *table = record->code->table;
    if (record->code->is_narrow || !is_container(box) || !items_are_tensors(source, box))
        return;
    for (int i = 0; i < statement->read_count; i++) {
        line_place place;
        path_find(source, record, table->reads[statement->reads + (uint32_t)i], false, &place);
        if (place.object == box)
            return; /* only another name */
    }
    add_items(source, table, write->path, box, 0, write, found);
}

void items_note(frame_record *record, int path, PyObject *box)
{
    if (record->box_count < MOST_BOXES && (box == NULL || is_container(box)))
        record->boxes[record->box_count++] =
            (noted_box){ .path = path, .object = box, .size = box != NULL ? size_of(box) : 0 };
}

void items_grown(line_source *source, frame_record *record, found_list *found)
{
    for (int i = 0; i < record->box_count && !record->code->is_narrow; i++) {
        const noted_box *box = &record->boxes[i];
        line_place place;
        path_find(source, record, box->path, false, &place);
        if (place.object == NULL || (box->object != NULL && place.object != box->object))
            continue;
        if (is_container(place.object) && size_of(place.object) > box->size)
            add_items(source, record->code->table, box->path, place.object, box->size, NULL, found);
    }
}
