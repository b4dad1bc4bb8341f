/* tracker.c -- the class Tracker: watches names frame by frame and logs each change.
 *
 * A consumer of the line source, which says when a name was bound and when what
 * it holds may have changed.  A line goes out only if the value differs from the
 * last look at the name in that frame.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/map.h"
#include "binding/type.h"
#include "track/engine.h"

typedef struct frame {
    long depth;
    bool is_root;             /* of a decorated function: its arguments are logged as inputs */
    track_description last[]; /* of each name */
} frame;

typedef struct tracker {
    PyObject_HEAD binding_state *state; /* of the extension, which the type keeps alive */
    PyObject *log;                      /* owned, as those below; a track_log */
    PyObject *names;                    /* tuple of str */
    PyObject *roots;                    /* set of code objects */
    PyObject *file;                     /* or NULL; of the root that was entered last */
    track_tolerance tolerance;
    long depth;      /* of what a decorated function's frame logs */
    int id;          /* of the consumer; -1: none */
    base_map frames; /* base_frame -> frame; a generator keeps its own while it is suspended */
} tracker;

static Py_ssize_t name_count(const tracker *self)
{
    return PyTuple_GET_SIZE(self->names);
}

/* ---- frames -------------------------------------------------------------------- */

static void free_frame(const tracker *self, frame *one)
{
    for (Py_ssize_t i = 0; i < name_count(self); i++)
        track_description_clear(&one->last[i]);
    PyMem_Free(one);
}

static frame *find_frame(const tracker *self, base_frame *at)
{
    return base_map_find(&self->frames, at);
}

static void drop_frame(tracker *self, base_frame *at)
{
    frame *one = find_frame(self, at);
    if (one == NULL)
        return;
    base_map_remove(&self->frames, at);
    free_frame(self, one);
}

static const frame *find_caller(const tracker *self, base_frame *at)
{
    const frame *found = NULL;
    for (int steps = 0; found == NULL && steps < 1000 && (at = base_frame_back(at)) != NULL; steps++)
        found = find_frame(self, at);
    return found;
}

/* In place of one that ended unseen; NULL: no memory. */
static frame *make_frame(tracker *self, base_frame *at)
{
    PyCodeObject *code = base_frame_code(at);
    drop_frame(self, at);
    frame *one = PyMem_Calloc(1, sizeof *one + (size_t)name_count(self) * sizeof *one->last);
    if (one == NULL || base_map_put(&self->frames, at, one) < 0) {
        PyMem_Free(one);
        return NULL;
    }
    one->is_root = PySet_Contains(self->roots, (PyObject *)code) == 1;
    if (one->is_root)
        Py_XSETREF(self->file, Py_NewRef(code->co_filename));
    const frame *caller = one->is_root ? NULL : find_caller(self, at);
    one->depth = caller != NULL ? caller->depth + 1 : self->depth;
    return one;
}

/* ---- looking -------------------------------------------------------------------- */

/* How we came to look. */
typedef struct look_reason {
    base_frame *at;
    long line;
    uint64_t key;   /* that the line source gave to what is there now; 0: none */
    bool is_logged; /* if it differs */
} look_reason;

static void log_change(tracker *self, const frame *one, PyObject *name, const look_reason *why,
                       const track_description *now, PyObject *obj, const tt_buf *what)
{
    track_log *log = (track_log *)self->log;
    PyCodeObject *code = base_frame_code(why->at);
    bool is_colored = track_log_is_colored(log);
    tt_buf text = { 0 }, out = { 0 };
    track_record_change(log, why->key, code->co_filename, why->line, name, obj);
    track_put_value(log, &text, name, why->line, now, obj, is_colored);
    if (what->len > 0) {
        (void)tt_buf_text(&text, " | ");
        track_put_mood(&text, TT_MOOD_REMARK, is_colored);
        (void)tt_buf_printf(&text, "changed: %s", what->data);
        track_put_mood(&text, TT_MOOD_PLAIN, is_colored);
    }
    if (!one->is_root) {
        (void)tt_buf_text(&text, " | in ");
        track_put_str(&text, code->co_name);
        if (self->file != NULL && PyUnicode_Compare(self->file, code->co_filename) != 0)
            (void)tt_buf_printf(&text, " (%s)", track_call_file(why->at));
    }
    track_put_branch(&out, one->depth, TT_BRANCH_ENTRY, &text, is_colored);
    tt_buf_free(&text);
    if (track_log_emit(log, &out) < 0 && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        Py_XDECREF(base_error_take()); /* what we leave set here is swallowed */
}

static void look(tracker *self, frame *one, Py_ssize_t i, PyObject *obj, const look_reason *why)
{
    track_description *last = &one->last[i], now;
    tt_buf what = { 0 };
    if (obj == NULL) {
        track_description_clear(last);
        return;
    }
    Py_INCREF(obj);
    track_describe(self->state, obj, true, &now);
    bool is_other = track_description_differs(self->state, last, &now, obj, &self->tolerance, &what);
    if (is_other || !self->tolerance.is_given || !track_is_tensor(last)) {
        if (track_is_tensor(&now) && self->tolerance.is_given)
            track_description_keep(&now, obj);
        track_description_clear(last);
        *last = now;
    } else { /* what was logged last stays what is compared with */
        last->seen.object = obj;
        track_description_clear(&now);
    }
    if (is_other && why->is_logged)
        log_change(self, one, PyTuple_GET_ITEM(self->names, i), why, last, obj, &what);
    tt_buf_free(&what);
    Py_DECREF(obj);
}

/* Looks at what the names hold when a frame is first seen. */
static void look_at_all(tracker *self, base_frame *at, long line, bool has_inputs)
{
    frame *one = make_frame(self, at);
    const look_reason why = { .at = at,
                              .line = line,
                              .is_logged = one != NULL && !(has_inputs && one->is_root) };
    for (Py_ssize_t i = 0; one != NULL && i < name_count(self); i++) {
        PyObject *obj = lines_frame_get(at, PyTuple_GET_ITEM(self->names, i)); /* owned */
        look(self, one, i, obj, &why);
        Py_XDECREF(obj);
    }
}

static void look_again(tracker *self, frame *one, Py_ssize_t i, const lines_change *change,
                       const lines_event *event)
{
    track_description *last = &one->last[i];
    PyObject *obj = change->now.object; /* borrowed */
    const look_reason why = {
        .at = event->at, .line = event->line, .key = change->now.key, .is_logged = true
    };
    if (change->how == LINES_BOUND)
        track_description_clear(last); /* it was not bound */
    if (change->how != LINES_TOUCHED || obj != last->seen.object ||
        track_description_is_stale(self->state, last, obj))
        look(self, one, i, obj, &why);
}

/* ---- events --------------------------------------------------------------------- */

static void on_enter(void *context, const lines_event *event)
{
    if (!event->is_resumed || find_frame(context, event->at) == NULL)
        look_at_all(context, event->at, event->line, true);
}

static void on_change(void *context, const lines_event *event)
{
    tracker *self = context;
    frame *one = find_frame(self, event->at);
    if (one == NULL) /* it was running when we came: what changed is seen for the first time */
        one = make_frame(self, event->at);
    for (size_t k = 0; one != NULL && k < event->change_count; k++)
        for (Py_ssize_t i = 0; i < name_count(self); i++)
            if (PyUnicode_Compare(event->changes[k].now.name, PyTuple_GET_ITEM(self->names, i)) == 0)
                look_again(self, one, i, &event->changes[k], event);
}

static void on_leave(void *context, const lines_event *event)
{
    if (!event->is_yield)
        drop_frame(context, event->at);
}

static bool selects(void *context, PyCodeObject *code, int *Py_UNUSED(first), int *Py_UNUSED(last))
{
    const tracker *self = context;
    return binding_owner_of(self->state, code) == BINDING_OWNER_PROGRAM ||
           PySet_Contains(self->roots, (PyObject *)code) == 1;
}

/* ---- the class ------------------------------------------------------------------ */

static tracker *tracker_of(PyObject *self)
{
    return (tracker *)self;
}

/* Tracker(log, names, roots, tolerance): the last is (rtol, atol) or None. */
static PyObject *tracker_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    binding_state *state = PyType_GetModuleState(type);
    PyObject *log, *names, *roots, *tolerance; /* borrowed */
    track_tolerance given = { 0 };
    if (!PyArg_ParseTuple(args, "O!O!O!O:Tracker", state->track_log_type, &log, &PyTuple_Type, &names,
                          &PySet_Type, &roots, &tolerance))
        return NULL;
    given.is_given = tolerance != Py_None;
    if (given.is_given && !PyArg_ParseTuple(tolerance, "dd;rtol and atol", &given.rtol, &given.atol))
        return NULL;
    tracker *self = (tracker *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state;
    self->id = -1;
    self->tolerance = given;
    self->log = Py_NewRef(log);
    self->names = Py_NewRef(names);
    self->roots = Py_NewRef(roots);
    return (PyObject *)self;
}

static PyObject *tracker_start(PyObject *obj, PyObject *Py_UNUSED(none))
{
    tracker *self = tracker_of(obj);
    lines_source *source = lines_source_of(self->state);
    PyObject *set = source != NULL && self->id < 0 ? PyFrozenSet_New(self->names) : NULL; /* owned */
    const lines_consumer consumer = { .context = self,
                                      .wants = LINES_ARRAYS | LINES_OBJECTS,
                                      .threads = LINES_THREADS_OWN,
                                      .selects = selects,
                                      .names = set,
                                      .enter = on_enter,
                                      .change = on_change,
                                      .leave = on_leave };
    if (set != NULL)
        self->id = lines_source_add(source, &consumer);
    Py_XDECREF(set);
    return self->id < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *tracker_stop(PyObject *obj, PyObject *Py_UNUSED(none))
{
    tracker *self = tracker_of(obj);
    int id = self->id;
    PyObject *errors = lines_source_error_tuple(self->state->lines, id);
    self->id = -1;
    lines_source_remove(self->state->lines, id);
    return errors;
}

/* A frame that runs already, from the outside: the innermost that is not our own. */
static PyObject *tracker_adopt(PyObject *self, PyObject *line)
{
    long number = PyLong_AsLong(line);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    base_frame *at = track_call_user_frame(tracker_of(self)->state);
    if (at != NULL)
        look_at_all(tracker_of(self), at, number, false);
    Py_RETURN_NONE;
}

BINDING_OWNS(tracker, tracker, log, file)

static void tracker_dealloc(PyObject *obj)
{
    tracker *self = tracker_of(obj);
    PyObject_GC_UnTrack(obj);
    Py_XDECREF(tracker_stop(obj, NULL));
    frame *one;
    for (size_t i = 0; (one = base_map_next(&self->frames, &i)) != NULL;)
        free_frame(self, one);
    base_map_free(&self->frames);
    (void)tracker_clear(obj); /* no slot of the class: callbacks rely on what is there */
    binding_dealloc(obj);
}

static PyMethodDef methods[] = {
    { "start", tracker_start, METH_NOARGS, "Track, in this thread." },
    { "adopt", tracker_adopt, METH_O, "adopt(line): look at the names of the frame that runs now." },
    { "stop", tracker_stop, METH_NOARGS,
      "Stop; what was seen last stays known.  Return how many looks failed, and the first message." },
    { 0 },
};

static PyMemberDef members[] = {
    { "depth", T_LONG, offsetof(tracker, depth), 0, "How deep in the tree the changes stand." },
    { 0 },
};

BINDING_CLASS(track_tracker, "tensortap._core.Tracker", tracker, BINDING_GC,
              { Py_tp_doc, "Logs each change of some names." }, { Py_tp_new, tracker_new },
              { Py_tp_traverse, tracker_traverse }, { Py_tp_dealloc, tracker_dealloc },
              { Py_tp_methods, methods }, { Py_tp_members, members });
