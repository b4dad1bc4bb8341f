/* sample.c -- sample() and the classes Sample and SampleSlice.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "summary/docs.h"
#include "summary/functions.h"

#include <string.h>

typedef struct sample_object {
    PyObject_VAR_HEAD      /* ob_size is the number of dimensions */
        tt_sample *sample; /* owned */
    tt_dtype dtype;
    int64_t shape[];
} sample_object;

static sample_object *sample_of(PyObject *self)
{
    return (sample_object *)self;
}

static void sample_dealloc(PyObject *self)
{
    tt_sample_free(sample_of(self)->sample);
    binding_dealloc(self);
}

/* ---- a slice ------------------------------------------------------------- */

PyTypeObject *summary_slice_type(void)
{
    static PyStructSequence_Field fields[] = {
        { "label", "where the slice lies: '[0,1]'; empty below three dimensions" },
        { "rows", "index in the tensor of each row" },
        { "cols", "index in the tensor of each column" },
        { "data", "a list of rows of Python numbers" },
        { NULL, NULL },
    };
    static PyStructSequence_Desc desc = { .name = "tensortap.SampleSlice",
                                          .doc = SUMMARY_DOC_SLICE_TYPE,
                                          .fields = fields,
                                          .n_in_sequence = 4 };
    return PyStructSequence_NewType(&desc);
}

static PyObject *element(tt_dtype dtype, const void *at)
{
    switch (tt_dtype_kind(dtype)) {
    case TT_KIND_BOOL:
        return PyBool_FromLong(*(const unsigned char *)at != 0);
    case TT_KIND_COMPLEX: {
        tt_dtype half = dtype == TT_C64 ? TT_F32 : TT_F64;
        return PyComplex_FromDoubles(tt_element_f64(half, at),
                                     tt_element_f64(half, (const char *)at + tt_dtype_size(half)));
    }
    case TT_KIND_FLOAT:
        return PyFloat_FromDouble(tt_element_f64(dtype, at));
    case TT_KIND_INT:
    case TT_KIND_UINT:
        break;
    }
    int64_t wide;
    if (tt_dtype_size(dtype) < sizeof wide)
        return PyLong_FromDouble(tt_element_f64(dtype, at));
    memcpy(&wide, at, sizeof wide);
    return dtype == TT_U64 ? PyLong_FromUnsignedLongLong((uint64_t)wide) : PyLong_FromLongLong(wide);
}

static PyObject *list_of_elements(tt_dtype dtype, const void *at, int64_t count)
{
    PyObject *list = PyList_New(0); /* owned */
    for (int64_t i = 0; list != NULL && i < count; i++)
        binding_list_add(&list, element(dtype, (const char *)at + (size_t)i * tt_dtype_size(dtype)));
    return list;
}

static PyObject *list_of_rows(tt_dtype dtype, const tt_sample_slice *slice)
{
    PyObject *list = PyList_New(0); /* owned */
    size_t row_bytes = (size_t)slice->cols * tt_dtype_size(dtype);
    for (int64_t r = 0; list != NULL && r < slice->rows; r++)
        binding_list_add(
            &list,
            list_of_elements(dtype, (const char *)slice->values + (size_t)r * row_bytes, slice->cols));
    return list;
}

static PyObject *make_slice(PyTypeObject *type, tt_dtype dtype, const tt_sample_slice *slice)
{
    PyObject *values = Py_BuildValue(
        "(sNNN)", slice->label, list_of_elements(TT_I64, slice->row, slice->rows),
        list_of_elements(TT_I64, slice->col, slice->cols), list_of_rows(dtype, slice)); /* owned */
    PyObject *self = values != NULL ? PyObject_CallOneArg((PyObject *)type, values) : NULL;
    Py_XDECREF(values);
    return self;
}

/* ---- fields -------------------------------------------------------------- */

static PyObject *get_slices(PyObject *self, void *Py_UNUSED(closure))
{
    const binding_state *state = PyType_GetModuleState(Py_TYPE(self));
    const sample_object *s = sample_of(self);
    PyObject *list = PyList_New(0); /* owned */
    for (size_t i = 0; list != NULL && i < tt_sample_count(s->sample); i++)
        binding_list_add(&list, make_slice(state->slice_type, s->dtype, tt_sample_at(s->sample, i)));
    return list;
}

static PyObject *get_partial(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(tt_sample_is_partial(sample_of(self)->sample));
}

static PyGetSetDef getters[] = {
    { "shape", binding_get_shape, NULL, "sizes of the whole tensor, a tuple",
      BINDING_AT(sample_object, shape) },
    { "dtype", binding_get_dtype, NULL, "element type: 'float32'", BINDING_AT(sample_object, dtype) },
    { "partial", get_partial, NULL, "not every element is shown", NULL },
    { "slices", get_slices, NULL, "a list of SampleSlice", NULL },
    { 0 },
};

/* ---- the object ---------------------------------------------------------- */

/* As in a chart's JSON: slices are dicts too. */
static PyObject *sample_as_dict(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *dict = binding_as_dict(self, NULL);                                  /* owned */
    PyObject *slices = dict != NULL ? PyDict_GetItemString(dict, "slices") : NULL; /* borrowed */
    for (Py_ssize_t i = 0; slices != NULL && i < PyList_GET_SIZE(slices); i++) {
        PyObject *slice = PyList_GET_ITEM(slices, i); /* borrowed */
        PyObject *plain =
            Py_BuildValue("{sOsOsOsO}", "label", PyStructSequence_GetItem(slice, 0), "rows",
                          PyStructSequence_GetItem(slice, 1), "cols", PyStructSequence_GetItem(slice, 2),
                          "data", PyStructSequence_GetItem(slice, 3));
        if (plain == NULL || PyList_SetItem(slices, i, plain) < 0) {
            Py_CLEAR(dict);
            break;
        }
    }
    return dict;
}

static PyObject *sample_repr(PyObject *self)
{
    const sample_object *s = sample_of(self);
    PyObject *what = binding_shape_text(s->dtype, s->shape, Py_SIZE(self)); /* owned */
    PyObject *text = NULL;
    if (what != NULL)
        text = PyUnicode_FromFormat("Sample(%U, %zu slice%s%s)", what, tt_sample_count(s->sample),
                                    tt_sample_count(s->sample) == 1 ? "" : "s",
                                    tt_sample_is_partial(s->sample) ? ", partial" : "");
    Py_XDECREF(what);
    return text;
}

PyObject *summary_sample_make(binding_state *state, tt_sample *sample, tt_dtype dtype,
                              const int64_t *shape, int32_t ndim)
{
    sample_object *self = PyObject_NewVar(sample_object, state->summary_sample_type, ndim);
    if (self == NULL) {
        tt_sample_free(sample);
        return NULL;
    }
    self->sample = sample;
    self->dtype = dtype;
    for (int32_t d = 0; d < ndim; d++)
        self->shape[d] = shape[d];
    return (PyObject *)self;
}

BINDING_FUNCTION(summary_sample)
{
    binding_state *state = binding_state_of(module);
    tt_sample_options how = { .max_vector = 32, .max_matrix = 8, .max_slices = 6 };
    const binding_option options[] = { { "max_vector", OPTION_INT, &how.max_vector },
                                       { "max_matrix", OPTION_INT, &how.max_matrix },
                                       { "max_slices", OPTION_INT, &how.max_slices },
                                       { 0 } };
    tensor_view view;
    tt_error err = { "" };
    tt_sample *sample = NULL; /* owned until handed over */
    PyObject *self = NULL;
    if (binding_read_arguments("sample", 1, options, args, nargs, kwnames) < 0 ||
        binding_open_view(state, args[0], &view) < 0)
        return NULL;
    tt_status st = tt_sample_create(&view.tensor, &how, &sample, &err);
    if (st < 0)
        binding_raise_status(st, &err);
    else
        self = summary_sample_make(state, sample, view.tensor.dtype, view.tensor.shape, view.tensor.ndim);
    tensor_view_close(&view);
    return self;
}

static PyMethodDef methods[] = {
    { "as_dict", sample_as_dict, METH_NOARGS, "Return all fields as a dict of plain values." },
    { 0 },
};

BINDING_VAR_CLASS(summary_sample, "tensortap.Sample", sample_object, shape,
                  BINDING_NO_NEW | BINDING_FIXED, { Py_tp_doc, SUMMARY_DOC_SAMPLE_TYPE },
                  { Py_tp_dealloc, sample_dealloc }, { Py_tp_repr, sample_repr },
                  { Py_tp_getset, getters }, { Py_tp_methods, methods });
