/* track_frames.c -- watches names frame by frame and tells each change.
 *
 * A consumer of the line source.  Tensors and arrays are looked at when the
 * source says that they may have changed; everything else, which the source
 * does not watch, before each line, where a pointer that stayed is all there is
 * to see.  A line goes out only if the value differs from the last sight of the
 * name in that frame.
 * SPDX-License-Identifier: Apache-2.0 */
#include "locals.h"
#include "track.h"

#include <string.h>

static Py_ssize_t name_count(const tracker *self)
{
    return PyTuple_GET_SIZE(self->names);
}

/* ---- frames -------------------------------------------------------------------- */

static void free_frame(tracker *self, tracked_frame *frame)
{
    for (Py_ssize_t i = 0; frame->sights != NULL && i < name_count(self); i++)
        sight_forget(&frame->sights[i]);
    PyMem_Free(frame->slots);
    PyMem_Free(frame->sights);
    PyMem_Free(frame);
}

void tracker_drop_frame(tracker *self, tracked_frame *frame)
{
    for (size_t i = self->count; i-- > 0;) {
        if (self->frames[i] != frame)
            continue;
        memmove(&self->frames[i], &self->frames[i + 1], (self->count - i - 1) * sizeof *self->frames);
        self->count--;
        break;
    }
    if (self->last == frame)
        self->last = NULL;
    free_frame(self, frame);
}

static tracked_frame *find_frame(tracker *self, const line_event *event)
{
    if (self->last != NULL && self->last->at == event->at && self->last->number == event->frame)
        return self->last;
    for (size_t i = self->count; i-- > 0;) {
        if (self->frames[i]->at != event->at)
            continue;
        self->last = self->frames[i];
        self->last->number = event->frame; /* the source may have started anew since */
        return self->last;
    }
    return NULL;
}

/* Slots are numbered as locals.h has them: variables, then cells that are no
 * arguments, then free variables. */
static void find_slots(const tracker *self, PyObject *code, int *slots)
{
    PyObject *tuples[4] = { PyObject_GetAttrString(code, "co_varnames"), PyObject_GetAttrString(code, "co_cellvars"),
                            PyObject_GetAttrString(code, "co_freevars"),
                            PyObject_GetAttrString(code, "co_names") }; /* owned */
    int slot = 0;
    for (Py_ssize_t i = 0; i < name_count(self); i++)
        slots[i] = NOT_HERE;
    for (int t = 0; t < 4; t++) {
        for (Py_ssize_t k = 0; tuples[t] != NULL && k < PyTuple_GET_SIZE(tuples[t]); k++) {
            PyObject *one = PyTuple_GET_ITEM(tuples[t], k); /* borrowed */
#if PY_VERSION_HEX >= 0x030B0000
            if (t == 1 && PySequence_Contains(tuples[0], one) == 1)
                continue; /* it has the argument's slot */
#endif
            for (Py_ssize_t i = 0; i < name_count(self); i++)
                if (slots[i] == NOT_HERE && PyUnicode_Compare(PyTuple_GET_ITEM(self->names, i), one) == 0)
                    slots[i] = t < 3 ? slot : NOT_LOCAL;
            slot++;
        }
    }
    PyErr_Clear();
    for (int t = 0; t < 4; t++)
        Py_XDECREF(tuples[t]);
}

static PyObject *value_of(const tracker *self, const tracked_frame *frame, Py_ssize_t i)
{
    PyObject *name = PyTuple_GET_ITEM(self->names, i), *found = NULL; /* borrowed */
    if (frame->slots[i] >= 0)
        return locals_slot(frame->at, frame->slots[i], name);
    if (frame->slots[i] == NOT_HERE)
        return NULL;
    PyObject *spaces[] = { locals_names(frame->at), locals_globals(frame->at) };
    for (int k = 0; k < 2 && found == NULL; k++)
        if (spaces[k] != NULL && PyDict_Check(spaces[k]))
            found = PyDict_GetItemWithError(spaces[k], name);
    PyErr_Clear();
    return found;
}

static tracked_frame *make_frame(tracker *self, const line_event *event)
{
    size_t names = (size_t)name_count(self);
    if (self->count == self->cap) {
        size_t cap = self->cap * 2 + 8;
        tracked_frame **frames = PyMem_Realloc(self->frames, cap * sizeof *frames);
        if (frames == NULL)
            return NULL;
        self->frames = frames;
        self->cap = cap;
    }
    tracked_frame *frame = PyMem_Calloc(1, sizeof *frame);
    if (frame == NULL)
        return NULL;
    frame->slots = PyMem_Calloc(names, sizeof *frame->slots);
    frame->sights = PyMem_Calloc(names, sizeof *frame->sights);
    if (frame->slots == NULL || frame->sights == NULL) {
        free_frame(self, frame);
        return NULL;
    }
    frame->at = event->at;
    frame->number = event->frame;
    frame->is_root = PySet_Contains(self->roots, event->code) == 1;
    if (frame->is_root)
        Py_XSETREF(self->file, Py_NewRef(((PyCodeObject *)event->code)->co_filename));
    frame->depth = self->depth;
    for (size_t i = 0; i < self->count && !frame->is_root; i++)
        if (self->frames[i]->number == event->caller && event->caller != 0)
            frame->depth = self->frames[i]->depth + 1;
    find_slots(self, event->code, frame->slots);
    self->frames[self->count++] = frame;
    return self->last = frame;
}

/* ---- sights --------------------------------------------------------------------- */

static void tell(tracker *self, const tracked_frame *frame, PyObject *name, long line, const track_sight *now,
                 PyObject *obj, const track_text *what)
{
    track_log *log = (track_log *)self->log;
    PyCodeObject *code = locals_code(frame->at);
    bool is_colored = log_is_colored(log);
    char room[TEXT_ROOM];
    track_text text = TEXT_IN(room);
    tt_buf out = { 0 };
    record_change(log, code->co_filename, line, name, obj);
    line_put_value(&text, name, line, now, obj, is_colored);
    if (what->len > 0) {
        text_put(&text, " | ");
        text_put_ink(&text, INK_CHANGE, is_colored);
        text_put(&text, "changed: ");
        text_put_bytes(&text, what->data, what->len);
        text_put_ink(&text, INK_PLAIN, is_colored);
    }
    if (!frame->is_root) {
        text_put(&text, " | in ");
        text_put_str(&text, code->co_name);
        if (self->file != NULL && PyUnicode_Compare(self->file, code->co_filename) != 0) {
            text_put(&text, " (");
            call_put_file(&text, code);
            text_put(&text, ")");
        }
    }
    tt_status st = text_branch(&out, frame->depth, TT_BRANCH_ENTRY, &text, is_colored);
    text_free(&text);
    if (log_emit_buf(log, st, &out) < 0 && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_Clear(); /* what we leave set here is swallowed: once more, for the program */
        PyErr_SetInterrupt();
    }
}

static void look(tracker *self, tracked_frame *frame, Py_ssize_t i, PyObject *obj, long line, bool is_told)
{
    core_state *state = core_state_of(self->module);
    track_sight *last = &frame->sights[i], now;
    track_text what = { 0 };
    if (obj == NULL) {
        sight_forget(last);
        return;
    }
    Py_INCREF(obj);
    sight_take(state, obj, true, &now);
    bool is_other = sight_differs(state, last, &now, obj, &self->tolerance, &what);
    if (is_other || !self->tolerance.is_given || last->kind != SIGHT_TENSOR) {
        if (now.kind == SIGHT_TENSOR && self->tolerance.is_given)
            sight_keep(&now, obj);
        sight_forget(last);
        *last = now;
    } else { /* what was told last stays what is compared with */
        last->object = obj;
        sight_forget(&now);
    }
    if (is_other && is_told) {
        track_sight shown = *last; /* the frame may be dropped while we tell */
        tell(self, frame, PyTuple_GET_ITEM(self->names, i), line, &shown, obj, &what);
    }
    text_free(&what);
    Py_DECREF(obj);
}

/* What the source does not tell: names that hold no tensor, or held none. */
static void look_at_all(tracker *self, tracked_frame *frame, bool is_told)
{
    core_state *state = core_state_of(self->module);
    for (Py_ssize_t i = 0; i < name_count(self); i++) {
        const track_sight *last = &frame->sights[i];
        if (frame->slots[i] == NOT_HERE)
            continue;
        PyObject *obj = value_of(self, frame, i);
        if (obj == last->object &&
            (last->kind != SIGHT_BOX || !sight_is_stale(state, last, SIGHT_BOX, obj)))
            continue;
        look(self, frame, i, obj, frame->last_line, is_told);
    }
}

static tracked_frame *frame_of(tracker *self, const line_event *event)
{
    tracked_frame *frame = find_frame(self, event);
    if (frame != NULL)
        return frame;
    frame = make_frame(self, event);
    if (frame != NULL) { /* it was running when we came */
        frame->last_line = (int)self->first_line;
        look_at_all(self, frame, true);
    }
    return frame;
}

/* ---- events --------------------------------------------------------------------- */

static void on_line(void *context, const line_event *event);

static bool selects_lines(void *context, PyCodeObject *code, int *first, int *last)
{
    const tracker *self = context;
    (void)first;
    (void)last;
    return PyDict_GetItemWithError(self->lined, (PyObject *)code) == Py_True;
}

/* Line by line only where that is needed: a quick way through plain lines is
 * open to code in which every tracked name holds a tensor. */
static void listen_to_lines(tracker *self)
{
    line_source *source = core_state_of(self->module)->line;
    const line_consumer consumer = { .context = self, .threads = LINE_THREADS_OWN, .selects = selects_lines,
                                     .line = on_line };
    if (self->line_id >= 0)
        line_source_remove(source, self->line_id);
    self->line_id = line_source_add(source, &consumer);
}

/* Has this code only now proved to need it? */
static bool find_lined(tracker *self, const tracked_frame *frame, PyObject *code)
{
    PyObject *known = PyDict_GetItemWithError(self->lined, code); /* borrowed */
    PyObject *answer = NULL;                                      /* owned */
    bool has_box = false;
    if (known == Py_True)
        return self->line_id < 0;
    for (Py_ssize_t i = 0; i < name_count(self); i++)
        has_box = has_box || frame->sights[i].kind == SIGHT_BOX;
    if (known == NULL && !has_box)
        answer = PyObject_CallFunctionObjArgs(self->stores, code, self->names, NULL);
    bool is_needed = has_box || (answer != NULL && PyObject_IsTrue(answer) == 1);
    if (known == NULL || is_needed)
        PyDict_SetItem(self->lined, code, is_needed ? Py_True : Py_False);
    Py_XDECREF(answer);
    return is_needed;
}

static void on_enter(void *context, const line_event *event)
{
    tracker *self = context;
    tracked_frame *frame = find_frame(self, event);
    if (event->is_resumed && frame != NULL)
        return;
    if (frame != NULL)
        tracker_drop_frame(self, frame);
    frame = make_frame(self, event);
    if (frame == NULL)
        return;
    frame->last_line = event->line;
    look_at_all(self, frame, !frame->is_root);
    if (find_lined(self, frame, event->code))
        listen_to_lines(self);
}

static void on_line(void *context, const line_event *event)
{
    tracker *self = context;
    tracked_frame *frame = frame_of(self, event);
    if (frame == NULL)
        return;
    look_at_all(self, frame, true);
    frame->last_line = event->line;
}

static void on_change(void *context, const line_event *event)
{
    tracker *self = context;
    tracked_frame *frame = frame_of(self, event);
    for (size_t k = 0; frame != NULL && k < event->change_count; k++)
        for (Py_ssize_t i = 0; i < name_count(self); i++)
            if (PyUnicode_Compare(event->changes[k].now.name, PyTuple_GET_ITEM(self->names, i)) == 0)
                look(self, frame, i, event->changes[k].now.object, event->line, true);
}

static void on_leave(void *context, const line_event *event)
{
    tracker *self = context;
    tracked_frame *frame = find_frame(self, event);
    if (frame == NULL)
        return;
    look_at_all(self, frame, true);
    if (!event->is_yield)
        tracker_drop_frame(self, frame);
}

static bool has_any(const tracker *self, PyObject *code, const char *attribute)
{
    PyObject *tuple = PyObject_GetAttrString(code, attribute); /* owned */
    bool is_there = false;
    for (Py_ssize_t i = 0; tuple != NULL && i < PyTuple_GET_SIZE(self->bases) && !is_there; i++)
        is_there = PySequence_Contains(tuple, PyTuple_GET_ITEM(self->bases, i)) == 1;
    Py_XDECREF(tuple);
    return is_there;
}

static bool selects(void *context, PyCodeObject *code, int *first, int *last)
{
    const tracker *self = context;
    PyObject *obj = (PyObject *)code;
    (void)first;
    (void)last;
    bool is_root = PySet_Contains(self->roots, obj) == 1;
    for (Py_ssize_t i = 0; !is_root && i < PyTuple_GET_SIZE(self->excluded); i++)
        if (PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(self->excluded, i), 0, PY_SSIZE_T_MAX, -1) == 1)
            return false;
    return has_any(self, obj, "co_varnames") || has_any(self, obj, "co_cellvars") ||
           has_any(self, obj, "co_freevars") || has_any(self, obj, "co_names");
}

int tracker_listen(tracker *self)
{
    core_state *state = core_state_of(self->module);
    if (state->line == NULL && (state->line = line_source_create(state)) == NULL)
        return -1;
    PyObject *set = PyFrozenSet_New(self->names); /* owned */
    if (set == NULL)
        return -1;
    const line_consumer consumer = { .context = self, .wants = LINE_ARRAYS, .threads = LINE_THREADS_OWN,
                                     .selects = selects, .names = set, .enter = on_enter,
                                     .change = on_change, .leave = on_leave };
    self->id = line_source_add(state->line, &consumer);
    Py_DECREF(set);
    if (self->id >= 0 && PyDict_GET_SIZE(self->lined) > 0)
        listen_to_lines(self);
    if (self->id >= 0 && PyErr_Occurred())
        tracker_silence(self);
    return self->id < 0 ? -1 : 0;
}

void tracker_silence(tracker *self)
{
    line_source *source = core_state_of(self->module)->line;
    int ids[] = { self->line_id, self->id };
    self->line_id = self->id = -1;
    for (int i = 0; i < 2; i++)
        if (ids[i] >= 0)
            line_source_remove(source, ids[i]);
}
