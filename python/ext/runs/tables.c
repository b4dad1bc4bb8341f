/* tables.c -- Table: runs as a table that other libraries read through Arrow's C interface.
 *
 * The stream is the core's.  Python sees a capsule with a pointer in it, once for each reading; no object is made for
 * a row, and nothing here holds the GIL while rows are made, because nothing here makes them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/type.h"
#include "runs/reader.h"
#include "tensortap_tools.h"

static const char capsule_name[] = "arrow_array_stream"; /* the standard's */

typedef struct table_object {
    PyObject_HEAD tt_arrow *arrow; /* owned */
} table_object;

/* The texts of a sequence; borrowed from *held, which the caller releases.  NULL with an exception, or for None. */
static const char **read_texts(PyObject *list, const char *what, bool are_paths, PyObject **held,
                               size_t *count)
{
    if (list == Py_None)
        return NULL;
    PyObject *items = PySequence_List(list); /* owned until handed over */
    Py_ssize_t n = items != NULL ? PyList_GET_SIZE(items) : 0;
    const char **texts = items != NULL ? PyMem_New(const char *, (size_t)n + 1) : NULL;
    for (Py_ssize_t i = 0; texts != NULL && i < n; i++) {
        PyObject *item = PyList_GET_ITEM(items, i), *bytes = NULL;
        if (are_paths && PyUnicode_FSConverter(item, &bytes)) {
            PyList_SetItem(items, i, bytes); /* the list holds it */
            texts[i] = PyBytes_AS_STRING(bytes);
        } else if (!are_paths && PyUnicode_Check(item)) {
            texts[i] = PyUnicode_AsUTF8(item);
        } else {
            texts[i] = NULL;
        }
        if (texts[i] == NULL) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "%s must be texts, not %R", what, item);
            PyMem_Free((void *)texts);
            texts = NULL;
        }
    }
    if (items != NULL && texts == NULL && !PyErr_Occurred())
        PyErr_NoMemory();
    if (texts == NULL)
        Py_CLEAR(items);
    *held = items;
    *count = (size_t)n;
    return texts;
}

/* None, or ints; false with an exception. */
static bool read_ranks(PyObject *list, int32_t **out, size_t *count)
{
    if (list == Py_None)
        return true;
    PyObject *items = PySequence_Tuple(list); /* owned */
    Py_ssize_t n = items != NULL ? PyTuple_GET_SIZE(items) : 0;
    int32_t *ranks = items != NULL ? PyMem_New(int32_t, (size_t)n + 1) : NULL;
    for (Py_ssize_t i = 0; ranks != NULL && i < n; i++) {
        long rank = PyLong_AsLong(PyTuple_GET_ITEM(items, i));
        ranks[i] = rank < 0 || rank > INT32_MAX ? -1 : (int32_t)rank;
    }
    Py_XDECREF(items);
    if (ranks != NULL && PyErr_Occurred()) {
        PyMem_Free(ranks);
        ranks = NULL;
    }
    *out = ranks;
    *count = (size_t)n;
    return ranks != NULL || (!PyErr_Occurred() && (PyErr_NoMemory(), false));
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = { "table", "paths", "names",   "glob",    "first",
                             "last",  "ranks", "columns", "partial", NULL };
    PyObject *paths, *names, *ranks, *columns;
    PyObject *held[3] = { NULL }; /* owned */
    long long first, last;
    int is_partial;
    tt_arrow_options options = { 0 };
    tt_error err = { "" };
    table_object *self = NULL; /* owned */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOOsLLOOp:Table", words, &options.table, &paths,
                                     &names, &options.glob, &first, &last, &ranks, &columns, &is_partial))
        return NULL;
    size_t name_count = 0;
    int32_t *numbers = NULL; /* owned, as the next three */
    const char **path_texts = read_texts(paths, "paths", true, &held[0], &options.path_count);
    const char **name_texts =
        path_texts != NULL ? read_texts(names, "names", false, &held[1], &name_count) : NULL;
    const char **column_texts = NULL;
    if (name_texts != NULL)
        column_texts = read_texts(columns, "fields", false, &held[2], &options.column_count);
    if (PyErr_Occurred() || path_texts == NULL || name_texts == NULL ||
        !read_ranks(ranks, &numbers, &options.rank_count))
        goto out;
    if (name_count != options.path_count) {
        PyErr_SetString(PyExc_ValueError, "every run needs a name");
        goto out;
    }
    options.paths = path_texts;
    options.names = name_texts;
    options.columns = column_texts;
    options.ranks = numbers;
    options.first_step = first;
    options.last_step = last;
    options.is_partial = is_partial != 0;
    self = (table_object *)type->tp_alloc(type, 0);
    if (self != NULL) {
        tt_status st = tt_arrow_create(&options, &self->arrow, &err);
        if (st < 0) {
            (void)binding_raise_status(st, &err);
            Py_CLEAR(self);
        }
    }
out:
    PyMem_Free((void *)path_texts);
    PyMem_Free((void *)name_texts);
    PyMem_Free((void *)column_texts);
    PyMem_Free(numbers);
    for (size_t i = 0; i < 3; i++)
        Py_XDECREF(held[i]);
    return (PyObject *)self;
}

static void table_dealloc(PyObject *self)
{
    tt_arrow_free(((table_object *)self)->arrow);
    binding_dealloc(self);
}

/* A capsule that nobody has taken over releases its stream. */
static void free_capsule(PyObject *capsule)
{
    tt_arrow_stream_free(PyCapsule_GetPointer(capsule, capsule_name));
}

static PyObject *table_stream(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *words[] = { "requested_schema", NULL };
    PyObject *schema = Py_None; /* a wish, which the standard lets us not fulfil */
    struct ArrowArrayStream *stream;
    tt_error err = { "" };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__arrow_c_stream__", words, &schema))
        return NULL;
    tt_status st = tt_arrow_stream_new(((table_object *)self)->arrow, &stream, &err);
    if (st < 0)
        return binding_raise_status(st, &err);
    PyObject *capsule = PyCapsule_New(stream, capsule_name, free_capsule);
    if (capsule == NULL)
        tt_arrow_stream_free(stream);
    return capsule;
}

static PyObject *get_lost(PyObject *self, void *Py_UNUSED(closure))
{
    tt_arrow_losses lost = tt_arrow_lost(((table_object *)self)->arrow);
    return Py_BuildValue("(LLL)", (long long)lost.runs, (long long)lost.points, (long long)lost.bytes);
}

static PyObject *get_error(PyObject *self, void *Py_UNUSED(closure))
{
    return runs_reader_text(tt_arrow_error(((table_object *)self)->arrow));
}

/* [(name, about, [(column, type, about)])] */
PyObject *runs_tables(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0); /* owned */
    const char *name, *about, *column, *type;
    for (size_t i = 0; list != NULL && (name = tt_arrow_table(i, &about)) != NULL; i++) {
        const char *words = about;
        PyObject *columns = PyList_New(0); /* owned until handed over */
        for (size_t k = 0;
             columns != NULL && (column = tt_arrow_table_column(i, k, &type, &about)) != NULL; k++)
            binding_list_add(&columns, Py_BuildValue("(sss)", column, type, about));
        binding_list_add(&list, columns != NULL ? Py_BuildValue("(ssN)", name, words, columns) : NULL);
    }
    return list;
}

static PyGetSetDef getters[] = {
    { .name = "lost", .get = get_lost, .doc = "(runs, points, bytes) that could not be read so far" },
    { .name = "error",
      .get = get_error,
      .doc = "why the first stream that failed did so; None: none has" },
    { 0 },
};

static PyMethodDef methods[] = {
    { "__arrow_c_stream__", (PyCFunction)(void (*)(void))table_stream, METH_VARARGS | METH_KEYWORDS,
      "Return a capsule with a new stream over all rows." },
    { 0 },
};

BINDING_CLASS(runs_table, "tensortap._core.Table", table_object, BINDING_FIXED,
              { Py_tp_doc, "A table over runs, for libraries that read Arrow." },
              { Py_tp_new, table_new }, { Py_tp_dealloc, table_dealloc }, { Py_tp_methods, methods },
              { Py_tp_getset, getters });
