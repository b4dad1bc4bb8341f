/* reads.c -- the names a statement reads, in the state that it sees.
 *
 * Names that are not local are looked up before the statement runs: afterwards they may
 * be gone.  The state of a local changes only by a store of its own frame, so it may also be
 * read later, when there is an event.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"
#include "tensor/walk.h"

/* ---- tensors that come into a list or dict without being named -------------------- */

/* `xs = [a, b]` makes xs[0] and xs[1], `xs.append(t)` makes xs[2].  A container that is stored is
 * searched, unless the statement reads it (then it only has another name); one that a statement reads
 * whole is searched again if it has grown.  Of each, eight items at most. */

enum { MOST_SEARCHED = 64 }; /* items of a container that a statement reads whole */

static Py_ssize_t size_of(PyObject *box)
{
    return PyList_CheckExact(box) ? PyList_GET_SIZE(box) : PyDict_GET_SIZE(box);
}

bool lines_items_are_tensors(lines_source *source, PyObject *box)
{
    tensor_children it;
    bool is_found = false;
    tensor_children_open(&it, NULL, box, 0);
    for (int i = 0; i < MOST_ITEMS_EACH && !is_found && tensor_children_next(&it); i++)
        is_found = tensor_kind_has_elements(lines_state_kind(source, it.value));
    tensor_children_close(&it);
    return is_found;
}

/* path: of the container; hash: of the key. */
static lines_target item_target(PyObject *box, int path, PyObject *item, tensor_kind kind, Py_hash_t hash)
{
    return (lines_target){ .object = item,
                           .kind = kind,
                           .path = path,
                           .slot = -1,
                           .owner = box,
                           .member = lines_path_member(hash, PATH_ITEM) };
}

/* What the statement built at this key, else the whole that it wrote. */
static const lines_write *part_at(const lines_table *table, const lines_write *write, PyObject *key)
{
    for (int i = 0; write != NULL && i < write->part_count; i++) {
        PyObject *one = PyList_GET_ITEM(table->part_keys, write->parts + i); /* borrowed */
        if (Py_IS_TYPE(one, Py_TYPE(key)) && PyObject_RichCompareBool(one, key, Py_EQ) == 1)
            return &table->parts[write->parts + i];
    }
    return write;
}

/* All items but the first `skipped` and those that the statement names. */
static void add_items(lines_source *source, const lines_table *table, int path, PyObject *box,
                      Py_ssize_t skipped, const lines_write *write, lines_found_list *found)
{
    tensor_children it;
    size_t most = found->count + MOST_ITEMS_EACH;
    tensor_children_open(&it, NULL, box, 0);
    for (Py_ssize_t i = 0; found->count < most && tensor_children_next(&it); i++) {
        tensor_kind kind = i >= skipped ? lines_state_kind(source, it.value) : KIND_NONE;
        PyObject *key = tensor_kind_has_elements(kind) ? tensor_children_key(&it) : NULL; /* owned */
        Py_hash_t hash = key != NULL && lines_path_is_key(key) ? PyObject_Hash(key) : -1;
        lines_target target = item_target(box, path, it.value, kind, hash);
        bool is_new = hash != -1 && !lines_found_has(found, &target);
        lines_state *state = is_new ? lines_shared_state(source, box, target.member) : NULL;
        lines_found_change *added =
            state != NULL ? lines_found_add(found, &target, LINES_BOUND, part_at(table, write, key))
                          : NULL;
        if (added == NULL) {
            Py_XDECREF(key);
            continue;
        }
        *state = (lines_state){ 0 }; /* of another container that was at this address */
        added->item = key;
    }
    tensor_children_close(&it);
    PyErr_Clear();
}

void lines_items_stored(lines_source *source, lines_record *record, const lines_statement *statement,
                        const lines_write *write, PyObject *box, lines_found_list *found)
{
    const lines_table *table = record->code->table;
    if (record->code->names.is_narrow || !lines_is_container(box) ||
        !lines_items_are_tensors(source, box))
        return;
    for (int i = 0; i < statement->read_count; i++) {
        lines_target target;
        lines_path_find(source, record, table->reads[statement->reads + i], false, &target);
        if (target.object == box)
            return; /* only another name */
    }
    add_items(source, table, write->path, box, 0, write, found);
}

/* Before the statement runs. */
static void note_box(lines_record *record, int path, PyObject *box)
{
    if (record->box_count < MOST_BOXES && (box == NULL || lines_is_container(box)))
        record->boxes[record->box_count++] =
            (lines_noted_box){ .path = path, .object = box, .size = box != NULL ? size_of(box) : 0 };
}

void lines_items_grown(lines_source *source, lines_record *record, lines_found_list *found)
{
    for (int i = 0; i < record->box_count && !record->code->names.is_narrow; i++) {
        const lines_noted_box *box = &record->boxes[i];
        lines_target target;
        lines_path_find(source, record, box->path, false, &target);
        if (target.object == NULL || (box->object != NULL && target.object != box->object))
            continue;
        if (lines_is_container(target.object) && size_of(target.object) > box->size)
            add_items(source, record->code->table, box->path, target.object, box->size, NULL, found);
    }
}

/* ---- reads ------------------------------------------------------------------- */

/* Remembers that the frame has named this target, which is no local. */
void lines_reads_show(lines_record *record, const lines_target *target)
{
    bool is_shown = tensor_kind_has_elements(target->kind) ||
                    (target->kind == KIND_OBJECT && record->code->names.has_touches);
    if (target->slot >= 0 || !is_shown || !lines_path_is_wanted(record->code, target->path))
        return;
    if (record->far_owner[target->path] == NULL)
        record->far[record->far_count++] = target->path;
    record->far_owner[target->path] = target->owner;
}

static void save_read(lines_source *source, lines_record *record, lines_saved_read *to, int path,
                      bool is_late)
{
    lines_target target;
    lines_path_find(source, record, path, false, &target);
    *to = (lines_saved_read){ .target.path = -1 };
    bool is_kept = lines_path_is_wanted(record->code, target.path); /* its state is what it was */
    if (target.slot >= 0 && is_late && is_kept)
        target.kind = (tensor_kind)record->slots[target.slot].seen.kind;
    if (target.kind == KIND_NONE)
        return;
    lines_state *state = lines_target_state(source, record, &target);
    if (state == NULL)
        return;
    bool is_stale = state->seen.kind == KIND_NONE || (!is_late && state->seen.object != target.object);
    if (!is_kept)
        is_stale = is_stale || state->seen.object != target.object ||
                   (tensor_kind_has_elements(target.kind) &&
                    lines_state_differs(source, state, target.object, false));
    if (is_stale)
        lines_state_adopt(source, state, target.object, target.kind);
    lines_reads_show(record, &target);
    *to = (lines_saved_read){ .state = *state, .target = target };
    if (state->seen.object != target.object)
        to->target.object = NULL;
}

/* One tensor of a container; the container has no name but the path's. */
static void save_item(lines_source *source, lines_record *record, int parent, int path,
                      PyObject *container, PyObject *key, PyObject *obj)
{
    tensor_kind kind = lines_state_kind(source, obj);
    Py_hash_t hash = tensor_kind_has_elements(kind) ? PyObject_Hash(key) : -1;
    if (hash == -1)
        return;
    lines_target target = item_target(container, path, obj, kind, hash);
    lines_state *state = lines_target_state(source, record, &target);
    if (state == NULL)
        return;
    if (state->seen.kind == KIND_NONE || state->seen.object != obj)
        lines_state_adopt(source, state, obj, kind);
    record->reads[record->read_count++] =
        (lines_saved_read){ .state = *state, .target = target, .parent = parent, .item = Py_NewRef(key) };
}

static bool has_room(const lines_record *record, int before)
{
    return record->read_count < before + MOST_ITEMS_EACH &&
           record->read_count < record->code->table->most_reads + MOST_ITEMS;
}

/* A list, tuple or dict that is read whole is read by its tensors. */
static void save_items(lines_source *source, lines_record *record, int parent, int path, bool is_late)
{
    lines_target target;
    int before = record->read_count;
    const lines_path *named = &record->code->table->paths[path];
    if (named->kind == PATH_ATTRIBUTE) /* cache.values(), xs.copy() */
        path = named->base;
    lines_path_find(source, record, path, false, &target);
    PyObject *obj = target.object;
    if (named->kind == PATH_ATTRIBUTE && obj != NULL && !lines_is_container(obj)) {
        path = (int)(named - record->code->table->paths);
        lines_path_find(source, record, path, false, &target);
        obj = target.object;
    }
    bool is_item = record->code->table->paths[path].kind == PATH_ITEM ||
                   record->code->table->paths[path].kind == PATH_ITEM_BY;
    if (obj == NULL && is_item && !is_late)
        note_box(record, path, NULL); /* a defaultdict's d['k'].append(t) makes it */
    if (obj == NULL || target.path != path)
        return;
    if (!is_late)
        note_box(record, path, obj);
    bool is_box = lines_is_container(obj) || PyTuple_CheckExact(obj);
    if (!is_box || (PyDict_CheckExact(obj) && PyDict_GET_SIZE(obj) > MOST_SEARCHED))
        return;
    tensor_children it;
    tensor_children_open(&it, NULL, obj, 0);
    for (int i = 0; i < MOST_SEARCHED && has_room(record, before) && tensor_children_next(&it); i++) {
        PyObject *key = tensor_children_key(&it); /* owned */
        if (key != NULL && lines_path_is_key(key))
            save_item(source, record, parent, path, obj, key, it.value);
        Py_XDECREF(key);
    }
    tensor_children_close(&it);
    PyErr_Clear();
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
    const int *paths = record->code->table->reads + statement->reads;
    lines_reads_clear(record);
    for (int i = 0; i < statement->read_count; i++)
        save_read(source, record, &record->reads[i], paths[i], is_late);
    record->read_count = statement->read_count;
    for (int i = 0; i < statement->read_count; i++)
        if (record->reads[i].target.path < 0 || record->reads[i].state.seen.kind == KIND_OBJECT)
            save_items(source, record, i, paths[i], is_late);
    record->has_reads = true;
}
