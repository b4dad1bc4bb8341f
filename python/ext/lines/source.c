/* source.c -- the consumers of the line source, and its errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "lines/engine.h"

enum { MOST_ERRORS = 100, NEWEST_PYTHON = 0x030F /* that the tests pass on: 3.15 */ };

/* ---- errors ---------------------------------------------------------------- */

void lines_source_note_error(lines_source *source, int id)
{
    PyObject *error = base_error_take(); /* owned */
    PyObject **first = id >= 0 ? &source->consumers[id].first_error : &source->own_error;
    uint64_t *count = id >= 0 ? &source->consumers[id].errors : &source->own_errors;
    if (error == NULL)
        return;
    if (*first == NULL) {
        PyObject *text = PyObject_Str(error); /* owned */
        *first = text != NULL ? PyUnicode_FromFormat("%s: %U", Py_TYPE(error)->tp_name, text) : NULL;
        PyErr_Clear();
        Py_XDECREF(text);
    }
    if (++*count >= MOST_ERRORS && id >= 0)
        source->consumers[id].is_muted = true;
    Py_DECREF(error);
}

/* The text of the first goes to *text; borrowed, NULL: none. */
static uint64_t errors_of(const lines_source *source, int id, PyObject **text)
{
    const lines_consumer_slot *slot = &source->consumers[id];
    *text = slot->first_error != NULL               ? slot->first_error
            : source->own_errors > slot->own_before ? source->own_error
                                                    : NULL;
    return slot->errors + source->own_errors - slot->own_before;
}

PyObject *lines_source_error_tuple(lines_source *source, int id)
{
    PyObject *text = NULL; /* borrowed */
    uint64_t count = id >= 0 ? errors_of(source, id, &text) : 0;
    return Py_BuildValue("(KO)", (unsigned long long)count, text != NULL ? text : Py_None);
}

/* ---- consumers -------------------------------------------------------------- */

static void sum_up(lines_source *source)
{
    source->generation++;
    source->wants = source->bare_mask = 0;
    memset(source->masks, 0, sizeof source->masks);
    for (uint32_t left = source->mask; left != 0; left &= left - 1) {
        const lines_consumer *consumer = &source->consumers[lines_first(left)].consumer;
        uint32_t bit = left & -left;
        source->wants |= consumer->wants;
        source->bare_mask |= consumer->wants & LINES_BARE ? bit : 0;
        for (int i = 0; i < LINES_FUNCTION_COUNT; i++)
            source->masks[i] |= consumer->functions[i] != NULL ? bit : 0;
    }
}

uint64_t lines_newest_thread(void)
{
    uint64_t newest = 0;
    PyThreadState *at = base_first_thread();
    for (; at != NULL; at = PyThreadState_Next(at))
        newest = PyThreadState_GetID(at) > newest ? PyThreadState_GetID(at) : newest;
    return newest;
}

/* A frame that has a record goes on with other consumers. */
static void refresh_frames(lines_source *source)
{
    lines_record *record;
    for (size_t i = 0; (record = base_map_next(&source->frames, &i)) != NULL;) {
        lines_code *code = lines_source_code(source, record->code->code);
        uint32_t mask = code != NULL ? code->mask : 0;
        if (record->is_bare && mask & ~source->bare_mask && source->inside == 0) {
            lines_source_forget(source, record); /* its next event makes a whole one */
            i--;                                 /* another may have moved here */
            continue;
        }
        for (uint32_t left = mask & ~record->mask; left != 0; left &= left - 1)
            if (source->consumers[lines_first(left)].consumer.threads != LINES_THREADS_ALL &&
                record->thread != (uint64_t)PyThread_get_thread_ident())
                mask &= ~(left & -left);
        record->mask = mask;
    }
}

static int find_modules(lines_source *source)
{
    source->analyse = binding_import("tensortap.analysis.table", "packed_table");
    source->threading = source->analyse != NULL ? binding_import("threading", "") : NULL;
    return source->threading != NULL ? 0 : -1;
}

/* Instructions and frames of another Python may mean something else: wrong answers are worse
 * than none.  Everything but the line source uses public interfaces. */
static int check_python(void)
{
    PyObject *number = PySys_GetObject("hexversion"); /* borrowed */
    long version = number != NULL ? PyLong_AsLong(number) >> 16 : NEWEST_PYTHON;
    if (version == -1 && PyErr_Occurred())
        return -1;
    if (version <= NEWEST_PYTHON)
        return 0;
    PyErr_Format(
        PyExc_RuntimeError,
        "line events are tested up to Python 3.%d, and this is 3.%ld: flow, track's variables and "
        "trace's local variables need an older Python or a newer tensortap; all else works here",
        NEWEST_PYTHON & 0xFF, version & 0xFF);
    return -1;
}

int lines_source_add(lines_source *source, const lines_consumer *consumer)
{
    PyObject *roots = NULL; /* owned, then the slot's */
    int id = 0;
    if (check_python() < 0)
        return -1;
    while (id < LINES_MAX_CONSUMERS && source->mask & (uint32_t)1 << id)
        id++;
    if (id == LINES_MAX_CONSUMERS) {
        PyErr_Format(PyExc_RuntimeError, "the line source serves %d consumers at most",
                     LINES_MAX_CONSUMERS);
        return -1;
    }
    if (consumer->names != NULL && lines_names_roots(consumer->names, &roots) < 0)
        return -1;
    if (source->mask == 0)
        lines_source_forget_all(source);
    Py_CLEAR(source->consumers[id].first_error);
    source->consumers[id] = (lines_consumer_slot){ .consumer = *consumer,
                                                   .names = Py_XNewRef(consumer->names),
                                                   .roots = roots,
                                                   .thread = PyThreadState_GetID(PyThreadState_Get()),
                                                   .own_before = source->own_errors,
                                                   .last_thread = lines_newest_thread() };
    source->mask |= (uint32_t)1 << id;
    sum_up(source);
    if (lines_driver_start(source) < 0) {
        lines_source_remove(source, id);
        return -1;
    }
    refresh_frames(source);
    return id;
}

void lines_source_remove(lines_source *source, int id)
{
    if (id < 0 || !(source->mask & (uint32_t)1 << id))
        return;
    source->mask &= ~((uint32_t)1 << id);
    Py_CLEAR(source->consumers[id].names);
    Py_CLEAR(source->consumers[id].roots);
    source->consumers[id].consumer = (lines_consumer){ 0 };
    sum_up(source);
    if (source->mask == 0) {
        lines_driver_stop(source);
        lines_source_forget_all(source);
    } else {
        refresh_frames(source);
        lines_driver_changed(source);
    }
}

void lines_source_stop(lines_source *source, int *id, uint64_t *errors, PyObject **text)
{
    PyObject *first = NULL; /* borrowed */
    int was = *id;
    *id = -1;
    if (was < 0)
        return;
    *errors += errors_of(source, was, &first);
    if (*text == NULL)
        *text = Py_XNewRef(first);
    lines_source_remove(source, was);
}

lines_source *lines_source_of(binding_state *state)
{
    if (state->lines != NULL)
        return state->lines;
    lines_source *source = PyMem_Calloc(1, sizeof *source);
    if (source == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    source->core = state;
    source->generation = 1;
    if (find_modules(source) < 0 || lines_table_prepare(source) < 0) {
        lines_source_free(source);
        return NULL;
    }
    return state->lines = source;
}

void lines_source_free(lines_source *source)
{
    if (source == NULL)
        return;
    if (source->mask != 0) {
        source->mask = 0;
        lines_driver_stop(source);
    }
    lines_source_forget_all(source);
    for (int id = 0; id < LINES_MAX_CONSUMERS; id++) {
        Py_CLEAR(source->consumers[id].names);
        Py_CLEAR(source->consumers[id].roots);
        Py_CLEAR(source->consumers[id].first_error);
    }
    Py_CLEAR(source->threading);
    Py_CLEAR(source->analyse);
    Py_CLEAR(source->own_error);
    PyMem_Free(source);
}
