/* monitoring.c -- line events from sys.monitoring, for Python 3.12 and later.
 *
 * Calls are looked at once for each code object: one that nobody selected is
 * disabled and costs nothing from then on; one that is selected gets line
 * events of its own.  All threads are seen.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/monitoring.h"

#if PY_VERSION_HEX >= 0x030C0000

#include <string.h>

static lines_source *source_of(PyObject *self)
{
    lines_source *source;
    memcpy(&source, PyBytes_AS_STRING(self), sizeof source);
    return source;
}

/* Each callback: what is pending stays pending, what we do wrong is counted. */
typedef struct visit {
    lines_source *source;
    PyObject *pending; /* owned or NULL */
} visit;

static bool come(visit *here, PyObject *self)
{
    here->source = source_of(self);
    here->pending = PyErr_Occurred() ? PyErr_GetRaisedException() : NULL;
    here->source->inside++;
    return here->source->is_running;
}

static PyObject *go(visit *here, bool is_disabled)
{
    if (PyErr_Occurred())
        lines_source_note_error(here->source, -1);
    here->source->inside--;
    if (here->pending != NULL)
        PyErr_SetRaisedException(here->pending);
    const lines_driver *made = lines_driver_of(here->source); /* NULL: stopped meanwhile */
    return Py_NewRef(is_disabled && made != NULL ? made->disable : Py_None);
}

/* The running frame's record; NULL: not wanted. */
static lines_record *record_of(lines_source *source, PyObject *code, bool is_start, bool is_fresh,
                               bool *is_unknown)
{
    base_frame *at = base_frame_running();
    lines_record *record = at != NULL ? lines_source_find(source, at) : NULL;
    *is_unknown = false;
    if (record != NULL && !is_start && (PyObject *)record->code->code == code)
        return record;
    lines_code *known = lines_source_code(source, (PyCodeObject *)code);
    *is_unknown = known == NULL;
    if (known == NULL || at == NULL || (PyObject *)base_frame_code(at) != code)
        return NULL;
    lines_monitoring_listen(source, known);
    return known->mask != 0 ? lines_source_frame(source, at, known, is_fresh) : NULL;
}

static PyObject *enter(PyObject *self, PyObject *const *args, bool is_fresh)
{
    visit here;
    bool is_unknown = false;
    if (come(&here, self)) {
        lines_record *record = record_of(here.source, args[0], true, is_fresh, &is_unknown);
        if (record != NULL && here.source->enter_mask & record->mask)
            lines_emit_enter(here.source, record, !is_fresh);
        if (record != NULL && !is_fresh)
            lines_statement_resume(here.source, record);
    }
    return go(&here, is_unknown);
}

static PyObject *on_start(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    return enter(self, args, true);
}

static PyObject *on_resume(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    return enter(self, args, false);
}

static PyObject *on_throw(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    Py_XDECREF(enter(self, args, false));
    Py_RETURN_NONE; /* this event cannot be disabled */
}

/* What is not the next line of plain Python; apart, so that the common way saves no registers. */
static __attribute__((noinline)) PyObject *any_line(PyObject *self, PyObject *code)
{
    visit here;
    bool is_unknown = false;
    if (come(&here, self)) {
        lines_record *record = record_of(here.source, code, false, false, &is_unknown);
        int instruction = record != NULL ? base_frame_instruction(record->at) : -1;
        if (record != NULL) {
            lines_statement_at(here.source, record, instruction);
            record->told = lines_statement_steps(record, instruction) ? instruction : -1;
        }
    }
    return go(&here, is_unknown);
}

/* Instructions that start no statement are heard of once. */
static PyObject *on_step(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    visit here;
    bool is_unknown = false;
    if (come(&here, self)) {
        int instruction = (int)PyLong_AsLong(args[1]) / CODE_UNIT;
        lines_record *record = record_of(here.source, args[0], false, false, &is_unknown);
        if (record != NULL && !lines_statement_steps(record, instruction)) {
            is_unknown = !record->is_bare;
        } else if (record != NULL) {
            bool is_told = record->told == instruction;
            record->told = -1;
            if (!is_told)
                lines_statement_step(here.source, record, instruction);
        }
    }
    return go(&here, is_unknown);
}

static PyObject *on_line(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    lines_source *source = source_of(self);
    lines_record *record = source->last;
    if (source->is_running && record != NULL && (PyObject *)record->code->code == args[0] &&
        lines_statement_quick(source, record,
                              base_frame_instruction_if(NULL, record->at, record->code->code)))
        Py_RETURN_NONE;
    return any_line(self, args[0]);
}

/* A loop that goes round on one line has no line events of its own. */
static PyObject *on_jump(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    visit here;
    bool is_unknown = false;
    if (come(&here, self)) {
        int from = (int)PyLong_AsLong(args[1]) / 2, to = (int)PyLong_AsLong(args[2]) / 2;
        lines_record *record = record_of(here.source, args[0], false, false, &is_unknown);
        const lines_table *table = record != NULL && !record->is_bare ? record->code->table : NULL;
        if (record != NULL && record->is_bare && to <= from &&
            PyCode_Addr2Line(record->code->code, from * CODE_UNIT) ==
                PyCode_Addr2Line(record->code->code, to * CODE_UNIT))
            lines_statement_at(here.source, record, to);
        else if (table != NULL && to <= from && from < table->instruction_count && to >= 0 &&
                 table->line_at[from] == table->line_at[to]) {
            lines_statement_at(here.source, record, to);
            record->told = lines_statement_steps(record, to) ? to : -1;
        }
    }
    return go(&here, is_unknown);
}

static PyObject *leave(PyObject *self, PyObject *const *args, PyObject *value, bool is_yield)
{
    visit here;
    if (come(&here, self)) {
        base_frame *at = base_frame_running();
        lines_record *record = at != NULL ? lines_source_find(here.source, at) : NULL;
        if (record != NULL && (PyObject *)record->code->code == args[0]) {
            lines_statement_end(here.source, record, (int)PyLong_AsLong(args[1]) / 2, value, is_yield);
            record = lines_source_find(here.source, at);
            if (!is_yield && record != NULL)
                lines_source_forget(here.source, record);
        }
    }
    return go(&here, false);
}

static PyObject *on_return(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    return leave(self, args, args[2], false);
}

static PyObject *on_yield(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    return leave(self, args, args[2], true);
}

static PyObject *on_unwind(PyObject *self, PyObject *const *args, Py_ssize_t Py_UNUSED(n))
{
    return leave(self, args, NULL, false);
}

#define X(name, function) { #name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL, NULL },
PyMethodDef lines_monitoring_callbacks[] = { EVENT_MAP(X){ 0 } };
#undef X

#endif
