/* reader.c -- RunReader: a run that is read.
 *
 * What the class Run of tensortap.runs.run asks the core: files and sites by number.  Arrays are the
 * caller's (NumPy's): the core fills them, and no Python object is made for a point.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/reader.h"
#include "binding/type.h"
#include "summary/functions.h"
#include "summary/stats.h"
#include "tensortap_tools.h"

#include <string.h>

tt_run *runs_reader_enter(PyObject *self)
{
    runs_reader *object = (runs_reader *)self;
    if (PyThread_acquire_lock(object->lock, NOWAIT_LOCK) != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS
        PyThread_acquire_lock(object->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    if (object->run != NULL)
        return object->run;
    PyThread_release_lock(object->lock);
    PyErr_SetString(PyExc_ValueError, "this run is closed; open it again with tt.open(path)");
    return NULL;
}

PyObject *runs_reader_leave(PyObject *self, tt_status st, const tt_error *err, PyObject *result)
{
    PyThread_release_lock(((runs_reader *)self)->lock);
    if (st >= 0)
        return result;
    Py_XDECREF(result);
    return binding_raise_status(st, err);
}

PyObject *runs_reader_text(const char *text)
{
    return text != NULL ? binding_text(text, strlen(text)) : Py_NewRef(Py_None);
}

/* ---- life ---------------------------------------------------------------- */

/* Makes one rank of all; a run that cannot be joined stays as it is. */
static tt_status join_ranks(runs_reader *self, tt_error *err)
{
    tt_run *joined;
    tt_status st = tt_run_join(self->run, &joined, err);
    if (st == TT_OK) {
        self->parts = self->run;
        self->run = joined;
    }
    return st == TT_EMISMATCH ? TT_OK : st;
}

static void close_run(runs_reader *self)
{
    tt_run_close(self->run);
    tt_run_close(self->parts);
    self->run = self->parts = NULL;
}

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "joins", NULL };
    PyObject *path = NULL; /* owned; bytes */
    int joins = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$p:RunReader", names, PyUnicode_FSConverter, &path,
                                     &joins))
        return NULL;
    runs_reader *self = (runs_reader *)type->tp_alloc(type, 0);
    tt_error err = { "" };
    tt_status st = TT_ENOMEM;
    if (self != NULL) {
        self->state = PyType_GetModuleState(type);
        self->lock = PyThread_allocate_lock();
    }
    if (self != NULL && self->lock != NULL) {
        const char *text = PyBytes_AS_STRING(path);
        Py_BEGIN_ALLOW_THREADS
        st = tt_run_open(text, &self->run, &err);
        if (st == TT_OK && joins)
            st = join_ranks(self, &err);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(path);
    if (st == TT_OK)
        return (PyObject *)self;
    Py_XDECREF(self);
    return binding_raise_status(st, &err);
}

static PyObject *run_close(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_reader *object = (runs_reader *)self;
    if (object->run == NULL)
        Py_RETURN_NONE;
    if (runs_reader_enter(self) == NULL)
        return NULL;
    close_run(object);
    return runs_reader_leave(self, TT_OK, NULL, Py_NewRef(Py_None));
}

static void run_dealloc(PyObject *self)
{
    runs_reader *object = (runs_reader *)self;
    close_run(object);
    if (object->lock != NULL)
        PyThread_free_lock(object->lock);
    binding_dealloc(self);
}

static PyObject *run_refresh(PyObject *self, PyObject *Py_UNUSED(none))
{
    tt_run *run = runs_reader_enter(self);
    tt_error err = { "" };
    tt_status st;
    if (run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = tt_run_refresh(run, &err);
    Py_END_ALLOW_THREADS
    return runs_reader_leave(self, st, &err, Py_NewRef(Py_None));
}

/* ---- files and sites ----------------------------------------------------- */

/* Enters the run for a file that Python names by number; NULL with IndexError if there is none. */
static tt_run *enter_file(PyObject *self, PyObject *number, int32_t *out)
{
    long file = PyLong_AsLong(number);
    tt_run *run = file == -1 && PyErr_Occurred() ? NULL : runs_reader_enter(self);
    if (run == NULL || (file >= 0 && file < tt_run_file_count(run))) {
        *out = (int32_t)file;
        return run;
    }
    PyErr_SetString(PyExc_IndexError, "no such file");
    return (tt_run *)runs_reader_leave(self, TT_OK, NULL, NULL);
}

/* [(path, rank, closed, bytes, points, first step, last step, dropped, damaged, stopped)] */
static PyObject *run_files(PyObject *self, PyObject *Py_UNUSED(none))
{
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (int32_t i = 0; list != NULL && i < tt_run_file_count(run); i++) {
        tt_run_file file;
        tt_run_file_get(run, i, &file);
        binding_list_add(&list,
                         Py_BuildValue("(NiNLLLLLLN)", PyUnicode_DecodeFSDefault(file.path), file.rank,
                                       PyBool_FromLong(file.is_closed), (long long)file.bytes,
                                       (long long)file.points, (long long)file.first_step,
                                       (long long)file.last_step, (long long)file.dropped_events,
                                       (long long)file.damaged_bytes, runs_reader_text(file.stopped)));
    }
    return runs_reader_leave(self, TT_OK, NULL, list);
}

static PyObject *run_names(PyObject *self, PyObject *glob)
{
    const char *pattern = PyUnicode_AsUTF8(glob);
    tt_run *run = pattern != NULL ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (int32_t i = 0; list != NULL && i < tt_run_site_count(run); i++)
        if (tt_glob_match(pattern, tt_run_site_name(run, i)) && tt_run_has_points(run, i))
            binding_list_add(&list, runs_reader_text(tt_run_site_name(run, i)));
    return runs_reader_leave(self, TT_OK, NULL, list);
}

static PyObject *run_find(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    tt_run *run = text != NULL ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    return runs_reader_leave(self, TT_OK, NULL, PyLong_FromLong(tt_run_find(run, text)));
}

static PyObject *run_points(PyObject *self, PyObject *args)
{
    int file, site;
    tt_run *run = PyArg_ParseTuple(args, "ii:points", &file, &site) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    return runs_reader_leave(self, TT_OK, NULL, PyLong_FromSize_t(tt_run_points(run, file, site)));
}

static PyObject *run_outgrows(PyObject *self, PyObject *number)
{
    long long bytes = PyLong_AsLongLong(number);
    tt_run *run = bytes != -1 || !PyErr_Occurred() ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    return runs_reader_leave(self, TT_OK, NULL, PyBool_FromLong(tt_run_outgrows(run, bytes)));
}

/* [(at, bytes)] of what is read for anything but values; bytes 0: not known */
static PyObject *run_extents(PyObject *self, PyObject *number)
{
    int32_t file;
    size_t count = 0;
    tt_run *run = enter_file(self, number, &file);
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_stretches(run, file, NULL, 0, &count);
    tt_stretch *extents = st == TT_OK ? PyMem_New(tt_stretch, count + 1) : NULL; /* owned */
    if (st == TT_OK)
        st = extents != NULL ? tt_run_stretches(run, file, extents, count, &count) : TT_ENOMEM;
    PyObject *list = PyList_New(0); /* owned */
    for (size_t i = 0; list != NULL && st == TT_OK && i < count; i++)
        binding_list_add(&list,
                         Py_BuildValue("(LL)", (long long)extents[i].at, (long long)extents[i].len));
    PyMem_Free(extents);
    return runs_reader_leave(self, st, NULL, list);
}

/* [(at, bytes, path)] of what could not be read since this was asked for the first time; bytes 0: a block */
static PyObject *run_missed(PyObject *self, PyObject *Py_UNUSED(none))
{
    const tt_missed *missed;
    tt_run *run = runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    size_t count = tt_run_missed(run, &missed);
    tt_run_note_missed(run);
    PyObject *list = PyList_New(0); /* owned */
    for (size_t i = 0; list != NULL && i < count; i++)
        binding_list_add(&list, Py_BuildValue("(LLs)", (long long)missed[i].at, (long long)missed[i].len,
                                              missed[i].path));
    return runs_reader_leave(self, TT_OK, NULL, list);
}

/* _block_look(64 bytes, at) -> None or (is the end of a closed file, where its footer is, length) */
PyObject *runs_block_look(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer view;
    long long at;
    tt_block_about about;
    if (!PyArg_ParseTuple(args, "y*L:_block_look", &view, &at))
        return NULL;
    bool is_block = view.len == 64 && at >= 0 && tt_block_look(view.buf, at, &about);
    PyBuffer_Release(&view);
    if (!is_block)
        Py_RETURN_NONE;
    return Py_BuildValue("(NLL)", PyBool_FromLong(about.is_end), (long long)about.footer,
                         (long long)about.length);
}

/* ---- texts --------------------------------------------------------------- */

static PyObject *run_info(PyObject *self, PyObject *number)
{
    int32_t file;
    tt_run *run = enter_file(self, number, &file);
    if (run == NULL)
        return NULL;
    PyObject *dict = PyDict_New(); /* owned */
    const char *key;
    for (int32_t i = 0; dict != NULL && (key = tt_run_info_key(run, file, i)) != NULL; i++)
        binding_dict_add(&dict, runs_reader_text(key), runs_reader_text(tt_run_info_value(run, file, i)));
    return runs_reader_leave(self, TT_OK, NULL, dict);
}

/* [(step, ns since 1970, text)] */
static PyObject *run_notes(PyObject *self, PyObject *number)
{
    int32_t file;
    tt_note note;
    tt_run *run = enter_file(self, number, &file);
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (int32_t i = 0; list != NULL && i < tt_run_note_count(run, file); i++)
        if (tt_run_note(run, file, i, &note) == TT_OK)
            binding_list_add(&list, Py_BuildValue("(LLN)", (long long)note.step, (long long)note.time,
                                                  runs_reader_text(note.text)));
    return runs_reader_leave(self, TT_OK, NULL, list);
}

/* {path: class} of the modules that were watched */
static PyObject *run_modules(PyObject *self, PyObject *number)
{
    int32_t file;
    tt_module module;
    tt_run *run = enter_file(self, number, &file);
    if (run == NULL)
        return NULL;
    PyObject *dict = PyDict_New(); /* owned */
    for (int32_t i = 0; dict != NULL && tt_run_module(run, file, i, &module) == TT_OK; i++)
        binding_dict_add(&dict, runs_reader_text(module.path), runs_reader_text(module.class_name));
    return runs_reader_leave(self, TT_OK, NULL, dict);
}

/* [(step, key, value)] as recorded */
static PyObject *run_settings(PyObject *self, PyObject *number)
{
    int32_t file;
    tt_setting one;
    tt_run *run = enter_file(self, number, &file);
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (int32_t i = 0; list != NULL && tt_run_setting(run, file, i, &one) == TT_OK; i++)
        binding_list_add(&list, Py_BuildValue("(LNN)", (long long)one.step, runs_reader_text(one.key),
                                              runs_reader_text(one.value)));
    return runs_reader_leave(self, TT_OK, NULL, list);
}

/* [(from step, stride)] of tensors, as recorded */
static PyObject *run_strides(PyObject *self, PyObject *number)
{
    int32_t file;
    tt_thinned one;
    tt_run *run = enter_file(self, number, &file);
    if (run == NULL)
        return NULL;
    PyObject *list = PyList_New(0); /* owned */
    for (int32_t i = 0; list != NULL && tt_run_thinned(run, file, i, &one) == TT_OK; i++)
        if (one.kind == TT_THINNED_TENSORS)
            binding_list_add(&list, Py_BuildValue("(LL)", (long long)one.from, (long long)one.stride));
    return runs_reader_leave(self, TT_OK, NULL, list);
}

/* (blocks, points, values, damaged blocks, damaged bytes, torn bytes, gone values, closed, first) */
static PyObject *run_check(PyObject *self, PyObject *number)
{
    int32_t file;
    tt_check check = { 0 };
    tt_error err = { "" };
    tt_status st;
    tt_run *run = enter_file(self, number, &file);
    if (run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = tt_run_check(run, file, &check, &err);
    Py_END_ALLOW_THREADS
    return runs_reader_leave(self, st, &err,
                             Py_BuildValue("(LLLLLLLNN)", (long long)check.blocks,
                                           (long long)check.points, (long long)check.values,
                                           (long long)check.damaged_blocks,
                                           (long long)check.damaged_bytes, (long long)check.torn_bytes,
                                           (long long)check.gone_values, PyBool_FromLong(check.is_closed),
                                           runs_reader_text(check.first)));
}

/* ---- points -------------------------------------------------------------- */

static PyObject *run_steps(PyObject *self, PyObject *args)
{
    Py_buffer view;
    tt_error err = { "" };
    tt_status st = TT_OK;
    size_t count = 0;
    if (!PyArg_ParseTuple(args, "w*:steps", &view))
        return NULL;
    tt_run *run = runs_reader_enter(self);
    if (run != NULL) {
        Py_BEGIN_ALLOW_THREADS
        st = tt_run_steps(run, view.buf, (size_t)view.len / 8, &count, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return run != NULL ? runs_reader_leave(self, st, &err, PyLong_FromSize_t(count)) : NULL;
}

static PyObject *run_series(PyObject *self, PyObject *args)
{
    int file, site;
    const char *name;
    tt_field field;
    Py_buffer steps, values;
    tt_error err = { "" };
    tt_status st = TT_OK;
    size_t count = 0;
    tt_run *run = NULL;
    if (!PyArg_ParseTuple(args, "iisw*w*:series", &file, &site, &name, &steps, &values))
        return NULL;
    if (!tt_field_find(name, &field))
        PyErr_Format(PyExc_ValueError, "no field %s", name);
    else
        run = runs_reader_enter(self);
    if (run != NULL) {
        size_t cap = (size_t)(steps.len < values.len ? steps.len : values.len) / 8;
        Py_BEGIN_ALLOW_THREADS
        st = tt_run_series(run, file, site, field, steps.buf, values.buf, cap, &count, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&steps);
    PyBuffer_Release(&values);
    return run != NULL ? runs_reader_leave(self, st, &err, PyLong_FromSize_t(count)) : NULL;
}

static PyObject *stats_of_point(PyObject *self, const tt_point *point)
{
    return summary_stats_make(((runs_reader *)self)->state, &point->stats, point->shape,
                              point->ndim > 0 ? point->ndim : 0);
}

/* A point by its numbers. */
typedef struct numbered_point {
    int file, site;
    long long index;
    tt_point point; /* what is there */
} numbered_point;

/* Enters the run and finds the point that the arguments name; NULL with an exception. */
static tt_run *enter_point(PyObject *self, PyObject *args, numbered_point *at)
{
    tt_error err = { "" };
    tt_run *run =
        PyArg_ParseTuple(args, "iiL", &at->file, &at->site, &at->index) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_point(run, at->file, at->site, at->index, &at->point, &err);
    return st == TT_OK ? run : (tt_run *)runs_reader_leave(self, st, &err, NULL);
}

static PyObject *run_point(PyObject *self, PyObject *args)
{
    numbered_point at;
    if (enter_point(self, args, &at) == NULL)
        return NULL;
    const tt_point *p = &at.point;
    bool has_stats = p->products & TT_PRODUCT_STATS;
    bool has_digest = p->products & (TT_PRODUCT_DIGEST | TT_PRODUCT_VALUE);
    PyObject *stats = has_stats ? stats_of_point(self, p) : Py_NewRef(Py_None);
    PyObject *digest =
        has_digest ? summary_digest_make(((runs_reader *)self)->state, p->digest) : Py_NewRef(Py_None);
    PyObject *row =
        Py_BuildValue("(LLIIBNIdNN)", (long long)p->step, (long long)p->time, p->call, p->thread,
                      p->phase, PyBool_FromLong(p->is_skipped), p->products, p->scalar, stats, digest);
    return runs_reader_leave(self, TT_OK, NULL, row);
}

static PyObject *run_placed(PyObject *self, PyObject *args)
{
    numbered_point at;
    if (enter_point(self, args, &at) == NULL)
        return NULL;
    PyObject *digest = at.point.products & TT_PRODUCT_PLACED
                           ? summary_digest_make(((runs_reader *)self)->state, at.point.placed)
                           : Py_NewRef(Py_None);
    return runs_reader_leave(self, TT_OK, NULL, digest);
}

static PyObject *run_seek(PyObject *self, PyObject *args)
{
    int file, site;
    long long step, call;
    unsigned int products;
    int64_t index = -1;
    tt_error err = { "" };
    tt_run *run = PyArg_ParseTuple(args, "iiLLI:seek", &file, &site, &step, &call, &products)
                      ? runs_reader_enter(self)
                      : NULL;
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_seek(run, file, site, step, call, products, &index, &err);
    return runs_reader_leave(self, st, &err, PyLong_FromLongLong(index));
}

static PyObject *run_hist(PyObject *self, PyObject *args)
{
    numbered_point at;
    tt_error err = { "" };
    size_t count = 0;
    tt_hist_bin *bins = NULL; /* owned */
    tt_run *run = enter_point(self, args, &at);
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_hist(run, at.file, at.site, at.index, NULL, 0, &count, &err);
    if (st == TT_OK) {
        bins = PyMem_New(tt_hist_bin, count + 1);
        st = bins != NULL ? tt_run_hist(run, at.file, at.site, at.index, bins, count, &count, &err)
                          : TT_ENOMEM;
    }
    PyObject *list = PyList_New(0); /* owned */
    for (size_t i = 0; list != NULL && st == TT_OK && i < count; i++)
        binding_list_add(&list,
                         Py_BuildValue("(ddL)", bins[i].low, bins[i].high, (long long)bins[i].count));
    PyMem_Free(bins);
    return runs_reader_leave(self, st, &err, list);
}

static PyObject *run_sample(PyObject *self, PyObject *args)
{
    numbered_point at;
    tt_sample *sample = NULL; /* owned until handed over */
    tt_dtype dtype;
    tt_error err = { "" };
    tt_run *run = enter_point(self, args, &at);
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_sample(run, at.file, at.site, at.index, &sample, &dtype, &err);
    PyObject *result = NULL; /* owned */
    if (st == TT_OK)
        result = summary_sample_make(((runs_reader *)self)->state, sample, dtype, at.point.shape,
                                     at.point.ndim > 0 ? at.point.ndim : 0);
    return runs_reader_leave(self, st, &err, result);
}

/* The sketches of its tokens as bytes. */
static PyObject *run_tokens(PyObject *self, PyObject *args)
{
    numbered_point at;
    tt_error err = { "" };
    size_t count = 0;
    tt_run *run = enter_point(self, args, &at);
    if (run == NULL)
        return NULL;
    PyObject *bytes = NULL; /* owned */
    tt_status st = tt_run_tokens(run, at.file, at.site, at.index, NULL, 0, &count, &err);
    if (st == TT_OK)
        bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(count * TT_SKETCH_BYTES));
    if (bytes != NULL)
        st = tt_run_tokens(run, at.file, at.site, at.index, (float *)(void *)PyByteArray_AS_STRING(bytes),
                           count, &count, &err);
    return runs_reader_leave(self, st, &err, bytes);
}

/* (dtype, shape, its bytes) */
static PyObject *run_value(PyObject *self, PyObject *args)
{
    numbered_point at;
    tt_value value;
    tt_error err = { "" };
    PyObject *memory = NULL, *row = NULL; /* owned */
    tt_run *run = enter_point(self, args, &at);
    if (run == NULL)
        return NULL;
    tt_status st = tt_run_value_find(run, at.file, at.point.value_at, &value, &err);
    bool is_gone = st == TT_EMISMATCH;
    if (st == TT_OK)
        memory = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)value.bytes);
    if (memory != NULL) {
        Py_BEGIN_ALLOW_THREADS
        st = tt_run_value_read(run, &value, PyByteArray_AS_STRING(memory), &err);
        Py_END_ALLOW_THREADS
        row = Py_BuildValue("(sNN)", tt_dtype_name(value.dtype),
                            binding_shape_tuple(value.shape, value.ndim), memory);
    }
    row = runs_reader_leave(self, st, &err, row);
    if (is_gone)
        PyErr_SetString(PyExc_LookupError, "this value was evicted to stay within max_bytes");
    return row;
}

/* ---- the type ------------------------------------------------------------ */

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((runs_reader *)self)->run == NULL);
}

static PyGetSetDef getters[] = {
    { .name = "closed", .get = get_closed, .doc = "nothing can be read any more" },
    { 0 },
};

static PyMethodDef methods[] = {
    { "close", run_close, METH_NOARGS, "Let the files go." },
    { "refresh", run_refresh, METH_NOARGS, "Take in what was written since." },
    { "files", run_files, METH_NOARGS, "Describe each file." },
    { "names", run_names, METH_O, "Return the names that match." },
    { "find", run_find, METH_O, "Return the number of a site, or -1." },
    { "points", run_points, METH_VARARGS, "Count points." },
    { "outgrows", run_outgrows, METH_O, "Tell whether this is much more than the run itself." },
    { "missed", run_missed, METH_NOARGS, "Return (offset, bytes, file) of what could not be read." },
    { "extents", run_extents, METH_O, "Return (offset, bytes) of what is read for anything but values." },
    { "steps", run_steps, METH_VARARGS, "Write all steps as int64; return how many there are." },
    { "series", run_series, METH_VARARGS,
      "Write one field as int64 and float64; return how many points have it." },
    { "point", run_point, METH_VARARGS,
      "Return (step, time, call, thread, phase, skipped, products, scalar, Stats, Digest)." },
    { "placed", run_placed, METH_VARARGS, "Return the digest that survives resharding, or None." },
    { "seek", run_seek, METH_VARARGS, "Return the index of a point, or -1." },
    { "hist", run_hist, METH_VARARGS, "Return (low, high, count) of each bin." },
    { "sample", run_sample, METH_VARARGS, "Return the Sample." },
    { "tokens", run_tokens, METH_VARARGS, "Return 17 float32 for each token, as bytes." },
    { "value", run_value, METH_VARARGS, "Return (dtype, shape, memory) of a stored value." },
    { "origin", runs_reader_origin, METH_VARARGS,
      "Return (file, name, index, birth, order, of, reached, fed) of the first NaN or Inf, or None." },
    { "diff", runs_reader_diff, METH_VARARGS, "Return (verdict, first, sites, old, new)." },
    { "page", runs_reader_page, METH_VARARGS, "Return the page about the run." },
    { "health", runs_reader_health, METH_VARARGS, "Return what the rules find, as JSON." },
    { "info", run_info, METH_O, "Return what the writer said of itself." },
    { "notes", run_notes, METH_O, "Return (step, time, text) of all notes." },
    { "modules", run_modules, METH_O, "Return {path: class} of its modules." },
    { "strides", run_strides, METH_O, "Return [(step, stride)] of steps whose tensors were written." },
    { "settings", run_settings, METH_O, "Return [(step, key, value)] of what the program had set." },
    { "joined", runs_reader_joined, METH_O, "Return what became of a site when ranks were joined." },
    { "placement", runs_reader_placement, METH_VARARGS, "Return where the tensors of a site belong." },
    { "tree", runs_reader_tree, METH_O,
      "Return (depth, label, class, is output, width, sites) of each row, repeated layers folded." },
    { "check", run_check, METH_O, "Read everything, check every checksum." },
    { 0 },
};

BINDING_CLASS(runs_reader, "tensortap._core.RunReader", runs_reader, 0,
              { Py_tp_doc, "RunReader(path)\n--\n\nA run folder, or one file of it." },
              { Py_tp_new, run_new }, { Py_tp_dealloc, run_dealloc }, { Py_tp_methods, methods },
              { Py_tp_getset, getters });
