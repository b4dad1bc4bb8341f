/* frames.c -- watches names frame by frame and tells each change.
 *
 * A consumer of the line source, which says when a name was bound and when what
 * it holds may have changed.  A line goes out only if the value differs from the
 * last look at the name in that frame.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/frame.h"
#include "tensortap_tools.h"
#include "track/engine.h"

#include <string.h>

static Py_ssize_t name_count(const track_tracker *self)
{
    return PyTuple_GET_SIZE(self->names);
}

/* ---- frames -------------------------------------------------------------------- */

static void free_frame(track_tracker *self, track_frame *frame)
{
    for (Py_ssize_t i = 0; frame->last != NULL && i < name_count(self); i++)
        track_description_clear(&frame->last[i]);
    PyMem_Free(frame->slots);
    PyMem_Free(frame->last);
    PyMem_Free(frame);
}

void track_tracker_drop_frame(track_tracker *self, track_frame *frame)
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

static track_frame *find_frame(track_tracker *self, const lines_event *event)
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

/* Slots are numbered as base/frame.h has them: variables, then cells that are no
 * arguments, then free variables. */
static void find_slots(const track_tracker *self, PyObject *code, int *slots)
{
    PyObject *tuples[4] = { PyObject_GetAttrString(code, "co_varnames"),
                            PyObject_GetAttrString(code, "co_cellvars"),
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

static PyObject *value_of(const track_tracker *self, const track_frame *frame, Py_ssize_t i)
{
    PyObject *name = PyTuple_GET_ITEM(self->names, i), *found = NULL; /* borrowed */
    if (frame->slots[i] >= 0)
        return base_frame_slot(frame->at, frame->slots[i], name);
    if (frame->slots[i] == NOT_HERE)
        return NULL;
    PyObject *spaces[] = { base_frame_names(frame->at), base_frame_globals(frame->at) };
    for (int k = 0; k < 2 && found == NULL; k++)
        if (spaces[k] != NULL && PyDict_Check(spaces[k]))
            found = PyDict_GetItemWithError(spaces[k], name);
    PyErr_Clear();
    return found;
}

static const track_frame *find_caller(const track_tracker *self, base_frame *at)
{
    int steps = 0;
    for (base_frame *up = base_frame_back(at); up != NULL && steps < 1000;
         up = base_frame_back(up), steps++)
        for (size_t i = self->count; i-- > 0;)
            if (self->frames[i]->at == up)
                return self->frames[i];
    return NULL;
}

static track_frame *make_frame(track_tracker *self, const lines_event *event)
{
    size_t names = (size_t)name_count(self);
    if (self->count == self->cap) {
        size_t cap = self->cap * 2 + 8;
        track_frame **frames = PyMem_Realloc(self->frames, cap * sizeof *frames);
        if (frames == NULL)
            return NULL;
        self->frames = frames;
        self->cap = cap;
    }
    track_frame *frame = PyMem_Calloc(1, sizeof *frame);
    if (frame == NULL)
        return NULL;
    frame->slots = PyMem_Calloc(names, sizeof *frame->slots);
    frame->last = PyMem_Calloc(names, sizeof *frame->last);
    if (frame->slots == NULL || frame->last == NULL) {
        free_frame(self, frame);
        return NULL;
    }
    frame->at = event->at;
    frame->number = event->frame;
    frame->is_root = PySet_Contains(self->roots, event->code) == 1;
    if (frame->is_root)
        Py_XSETREF(self->file, Py_NewRef(((PyCodeObject *)event->code)->co_filename));
    frame->depth = self->depth;
    const track_frame *caller = frame->is_root ? NULL : find_caller(self, event->at);
    if (caller != NULL)
        frame->depth = caller->depth + 1;
    find_slots(self, event->code, frame->slots);
    self->frames[self->count++] = frame;
    return self->last = frame;
}

/* ---- looking -------------------------------------------------------------------- */

/* How we came to look. */
typedef struct look_reason {
    long line;
    uint64_t key; /* that the line source gave to what is there now; 0: it told nothing */
    bool is_told; /* if it differs */
} look_reason;

static void tell(track_tracker *self, const track_frame *frame, PyObject *name, const look_reason *why,
                 const track_description *now, PyObject *obj, const track_text *what)
{
    track_log *log = (track_log *)self->log;
    PyCodeObject *code = base_frame_code(frame->at);
    bool is_colored = track_log_is_colored(log);
    char room[TEXT_ROOM];
    track_text text = TEXT_IN(room);
    tt_buf out = track_log_take_buf(log);
    track_record_change(log, why->key, code->co_filename, why->line, name, obj);
    track_put_value(log, &text, name, why->line, now, obj, is_colored);
    if (what->len > 0) {
        track_text_put(&text, " | ");
        track_text_put_ink(&text, INK_CHANGE, is_colored);
        track_text_put(&text, "changed: ");
        track_text_put_bytes(&text, what->data, what->len);
        track_text_put_ink(&text, INK_PLAIN, is_colored);
    }
    if (!frame->is_root) {
        track_text_put(&text, " | in ");
        track_text_put_str(&text, code->co_name);
        if (self->file != NULL && PyUnicode_Compare(self->file, code->co_filename) != 0) {
            track_text_put(&text, " (");
            track_call_put_file(&text, code);
            track_text_put(&text, ")");
        }
    }
    tt_status st = track_text_branch(&out, frame->depth, TT_BRANCH_ENTRY, &text, is_colored);
    track_text_free(&text);
    if (track_log_emit_buf(log, st, &out) < 0 && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        Py_XDECREF(base_error_take()); /* what we leave set here is swallowed */
}

static void look(track_tracker *self, track_frame *frame, Py_ssize_t i, PyObject *obj,
                 const look_reason *why)
{
    binding_state *state = binding_state_of(self->module);
    track_description *last = &frame->last[i], now;
    track_text what = { 0 };
    if (obj == NULL) {
        track_description_clear(last);
        return;
    }
    Py_INCREF(obj);
    track_describe(state, obj, true, &now);
    bool is_other = track_description_differs(state, last, &now, obj, &self->tolerance, &what);
    if (is_other || !self->tolerance.is_given || !track_is_tensor(last)) {
        if (track_is_tensor(&now) && self->tolerance.is_given)
            track_description_keep(&now, obj);
        track_description_clear(last);
        *last = now;
    } else { /* what was told last stays what is compared with */
        last->seen.object = obj;
        track_description_clear(&now);
    }
    if (is_other && why->is_told)
        tell(self, frame, PyTuple_GET_ITEM(self->names, i), why, last, obj, &what);
    track_text_free(&what);
    Py_DECREF(obj);
}

/* What the names hold when we come. */
static void look_at_all(track_tracker *self, track_frame *frame, long line, bool is_told)
{
    const look_reason why = { .line = line, .is_told = is_told };
    for (Py_ssize_t i = 0; i < name_count(self); i++)
        if (frame->slots[i] != NOT_HERE)
            look(self, frame, i, value_of(self, frame, i), &why);
}

static void look_again(track_tracker *self, track_frame *frame, Py_ssize_t i, const lines_change *change,
                       long line)
{
    track_description *last = &frame->last[i];
    PyObject *obj = change->now.object; /* borrowed */
    const look_reason why = { .line = line, .key = change->now.key, .is_told = true };
    if (change->how == LINES_BOUND)
        track_description_clear(last); /* it was not bound */
    if (change->how == LINES_TOUCHED && obj == last->seen.object &&
        !track_description_is_stale(binding_state_of(self->module), last, obj))
        return;
    look(self, frame, i, obj, &why);
}

/* ---- events --------------------------------------------------------------------- */

static void on_enter(void *context, const lines_event *event)
{
    track_tracker *self = context;
    track_frame *frame = find_frame(self, event);
    if (event->is_resumed && frame != NULL)
        return;
    if (frame != NULL)
        track_tracker_drop_frame(self, frame);
    frame = make_frame(self, event);
    if (frame == NULL)
        return;
    look_at_all(self, frame, event->line, !frame->is_root);
}

static void on_change(void *context, const lines_event *event)
{
    track_tracker *self = context;
    track_frame *frame = find_frame(self, event);
    if (frame == NULL) /* it was running when we came: what changed is seen for the first time */
        frame = make_frame(self, event);
    for (size_t k = 0; frame != NULL && k < event->change_count; k++)
        for (Py_ssize_t i = 0; i < name_count(self); i++)
            if (PyUnicode_Compare(event->changes[k].now.name, PyTuple_GET_ITEM(self->names, i)) == 0)
                look_again(self, frame, i, &event->changes[k], event->line);
}

static void on_leave(void *context, const lines_event *event)
{
    track_tracker *self = context;
    track_frame *frame = find_frame(self, event);
    if (frame != NULL && !event->is_yield)
        track_tracker_drop_frame(self, frame);
}

/* A frame that runs already, from the outside: the innermost that is not our own. */
void track_tracker_adopt(track_tracker *self, long line)
{
    base_frame *at = track_call_user_frame(((track_log *)self->log)->own);
    if (at == NULL)
        return;
    const lines_event event = { .at = at, .code = (PyObject *)base_frame_code(at) };
    track_frame *frame = find_frame(self, &event);
    if (frame != NULL)
        track_tracker_drop_frame(self, frame);
    frame = make_frame(self, &event);
    if (frame != NULL)
        look_at_all(self, frame, line, true);
}

static bool has_any(const track_tracker *self, PyObject *code, const char *attribute)
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
    const track_tracker *self = context;
    PyObject *obj = (PyObject *)code;
    (void)first;
    (void)last;
    bool is_root = PySet_Contains(self->roots, obj) == 1;
    for (Py_ssize_t i = 0; !is_root && i < PyTuple_GET_SIZE(self->excluded); i++)
        if (PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(self->excluded, i), 0, PY_SSIZE_T_MAX,
                                -1) == 1)
            return false;
    return has_any(self, obj, "co_varnames") || has_any(self, obj, "co_cellvars") ||
           has_any(self, obj, "co_freevars") || has_any(self, obj, "co_names");
}

int track_tracker_listen(track_tracker *self)
{
    binding_state *state = binding_state_of(self->module);
    if (lines_source_of(state) == NULL)
        return -1;
    PyObject *set = PyFrozenSet_New(self->names); /* owned */
    if (set == NULL)
        return -1;
    const lines_consumer consumer = { .context = self,
                                      .wants = LINES_ARRAYS | LINES_OBJECTS | LINES_TOUCHES,
                                      .threads = LINES_THREADS_OWN,
                                      .selects = selects,
                                      .names = set,
                                      .enter = on_enter,
                                      .change = on_change,
                                      .leave = on_leave };
    self->id = lines_source_add(state->lines, &consumer);
    Py_DECREF(set);
    return self->id < 0 ? -1 : 0;
}

void track_tracker_silence(track_tracker *self)
{
    if (self->id >= 0)
        lines_source_remove(binding_state_of(self->module)->lines, self->id);
    self->id = -1;
}
