/* reads.c -- the names a statement reads, in the state that it sees.
 *
 * What is not local is looked up before the statement runs: afterwards it may
 * be gone.  A local's state cannot change without a store of its own frame, so
 * it may also be taken late, when there is something to tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

/* Remembers that the frame has named this place, which is no local. */
void lines_reads_show(lines_record *record, const lines_place *place)
{
    bool is_shown =
        lines_is_tensor(place->kind) || (place->kind == KIND_OBJECT && record->code->has_touches);
    if (place->slot >= 0 || !is_shown || !lines_path_is_wanted(record->code, place->path))
        return;
    if (record->far_owner[place->path] == NULL)
        record->far[record->far_count++] = place->path;
    record->far_owner[place->path] = place->owner;
}

static void save_read(lines_source *source, lines_record *record, lines_saved_read *to, int path,
                      bool is_late)
{
    lines_place place;
    lines_path_find(source, record, path, false, &place);
    *to = (lines_saved_read){ .path = -1 };
    bool is_kept = lines_path_is_wanted(record->code, place.path); /* its state is what it was */
    if (place.slot >= 0 && is_late && is_kept)
        place.kind = (lines_object_kind)record->slots[place.slot].kind;
    if (place.kind == KIND_NONE)
        return;
    lines_state *state = lines_place_state(source, record, &place);
    if (state == NULL)
        return;
    bool is_stale = state->kind == KIND_NONE || (!is_late && state->object != place.object);
    if (!is_kept)
        is_stale =
            is_stale || state->object != place.object ||
            (lines_is_tensor(place.kind) && lines_state_differs(source, state, place.object, false));
    if (is_stale)
        lines_state_adopt(source, state, place.object, place.kind);
    lines_reads_show(record, &place);
    *to = (lines_saved_read){ .state = *state,
                              .path = place.path,
                              .object = state->object == place.object ? place.object : NULL };
}

/* One tensor of a container; the container has no name but the path's. */
static void save_item(lines_source *source, lines_record *record, int parent, int path,
                      PyObject *container, PyObject *key, PyObject *obj)
{
    lines_object_kind kind = lines_state_kind(source, obj);
    Py_hash_t hash = key != NULL ? PyObject_Hash(key) : -1;
    if (hash == -1 || (kind != KIND_TORCH && kind != KIND_ARRAY))
        return;
    lines_saved_read read = { .path = path,
                              .parent = parent,
                              .object = obj,
                              .owner = container,
                              .member = lines_path_member(hash, PATH_ITEM) };
    lines_state *state = lines_shared_state(source, read.owner, read.member);
    if (state == NULL)
        return;
    if (state->kind == KIND_NONE || state->object != obj)
        lines_state_adopt(source, state, obj, kind);
    read.state = *state;
    read.item = Py_NewRef(key);
    record->reads[record->read_count++] = read;
}

static bool has_room(const lines_record *record, int before)
{
    return record->read_count < before + MOST_ITEMS_EACH &&
           record->read_count < (int)record->code->table->most_reads + MOST_ITEMS;
}

/* A list, tuple or dict that is read whole is read by its tensors. */
static void save_items(lines_source *source, lines_record *record, int parent, int path, bool is_late)
{
    lines_place place;
    int before = record->read_count;
    const lines_path *named = &record->code->table->paths[path];
    if (named->kind == PATH_ATTRIBUTE) /* cache.values(), xs.copy() */
        path = named->base;
    lines_path_find(source, record, path, false, &place);
    PyObject *obj = place.object;
    if (named->kind == PATH_ATTRIBUTE && obj != NULL && !PyList_CheckExact(obj) &&
        !PyDict_CheckExact(obj)) {
        path = (int)(named - record->code->table->paths);
        lines_path_find(source, record, path, false, &place);
        obj = place.object;
    }
    bool is_item = record->code->table->paths[path].kind == PATH_ITEM ||
                   record->code->table->paths[path].kind == PATH_ITEM_BY;
    if (obj == NULL && is_item && !is_late)
        lines_items_note(record, path, NULL); /* a defaultdict's d['k'].append(t) makes it */
    if (obj == NULL || place.path != path)
        return;
    if (!is_late)
        lines_items_note(record, path, obj);
    if (PyList_CheckExact(obj) || PyTuple_CheckExact(obj)) {
        for (Py_ssize_t i = 0; i < Py_SIZE(obj) && i < 64 && has_room(record, before); i++) {
            PyObject *key = PyLong_FromSsize_t(i); /* owned */
            PyObject *one = PyList_CheckExact(obj) ? PyList_GET_ITEM(obj, i) : PyTuple_GET_ITEM(obj, i);
            save_item(source, record, parent, path, obj, key, one);
            Py_XDECREF(key);
        }
    } else if (PyDict_CheckExact(obj) && PyDict_GET_SIZE(obj) <= 64) {
        PyObject *key = NULL, *one = NULL; /* borrowed */
        Py_ssize_t at = 0;
        while (has_room(record, before) && PyDict_Next(obj, &at, &key, &one))
            if (lines_path_is_key(key))
                save_item(source, record, parent, path, obj, key, one);
    }
    PyErr_Clear();
}

PyObject *lines_reads_item(lines_source *source, lines_record *record, const lines_saved_read *read)
{
    lines_place place;
    lines_path_find(source, record, read->path, false, &place);
    return place.object == read->owner ? lines_path_item(place.object, read->item) : NULL;
}

void lines_reads_clear(lines_record *record)
{
    for (int i = 0; i < record->read_count; i++)
        Py_CLEAR(record->reads[i].item);
    record->read_count = 0;
    record->box_count = 0;
}

void lines_reads_save(lines_source *source, lines_record *record, const lines_statement *statement,
                      bool is_late)
{
    const uint16_t *paths = record->code->table->reads + statement->reads;
    lines_reads_clear(record);
    for (int i = 0; i < statement->read_count; i++)
        save_read(source, record, &record->reads[i], paths[i], is_late);
    record->read_count = statement->read_count;
    for (int i = 0; i < statement->read_count; i++)
        if (record->reads[i].path < 0 || record->reads[i].state.kind == KIND_OBJECT)
            save_items(source, record, i, paths[i], is_late);
    record->has_reads = true;
}
