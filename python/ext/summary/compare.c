/* compare.c -- compare() and the class Compare.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "summary/docs.h"
#include "summary/functions.h"
#include "tensortap_tools.h"

typedef struct compare_object {
    PyObject_VAR_HEAD /* ob_size is the number of dimensions */
        tt_compare result;
    bool has_ulps;  /* asked for the histogram */
    bool same_type; /* ulps mean something */
    int64_t shape[];
} compare_object;

static compare_object *compare_of(PyObject *self)
{
    return (compare_object *)self;
}

/* ---- fields -------------------------------------------------------------- */

static PyObject *get_argmax(PyObject *self, void *Py_UNUSED(closure))
{
    const compare_object *c = compare_of(self);
    int64_t index[TT_MAX_DIM], rest = c->result.argmax;
    if (rest < 0)
        Py_RETURN_NONE;
    for (Py_ssize_t d = Py_SIZE(self) - 1; d >= 0; d--) {
        index[d] = rest % c->shape[d];
        rest /= c->shape[d];
    }
    return binding_shape_tuple(index, Py_SIZE(self));
}

static PyObject *get_ulp_max(PyObject *self, void *Py_UNUSED(closure))
{
    if (!compare_of(self)->same_type)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(compare_of(self)->result.ulp_max);
}

static PyObject *get_ulp_hist(PyObject *self, void *Py_UNUSED(closure))
{
    const compare_object *c = compare_of(self);
    enum { BINS = sizeof c->result.ulp_hist / sizeof *c->result.ulp_hist };
    if (!c->has_ulps || !c->same_type)
        Py_RETURN_NONE;
    PyObject *list = PyList_New(0); /* owned */
    for (Py_ssize_t i = 0; list != NULL && i < BINS; i++)
        binding_list_add(&list, PyLong_FromLongLong(c->result.ulp_hist[i]));
    return list;
}

#define AT(field) BINDING_AT(compare_object, result.field)

static PyGetSetDef getters[] = {
    { "equal", binding_get_bool, NULL, "no element differs", AT(equal) },
    { "allclose", binding_get_bool, NULL, "all |a - b| <= atol + rtol * |b|", AT(allclose) },
    { "count", binding_get_int, NULL, "number of pairs", AT(count) },
    { "differing", binding_get_int, NULL, "number of pairs that differ", AT(differing) },
    { "max_abs", binding_get_double, NULL, "largest |a - b|", AT(max_abs) },
    { "max_rel", binding_get_double, NULL, "largest |a - b| / |b|", AT(max_rel) },
    { "argmax", get_argmax, NULL, "index of max_abs, a tuple; None: no pair differs", NULL },
    { "ulp_max", get_ulp_max, NULL, "largest distance in representable numbers; None: two types", NULL },
    { "ulp_hist", get_ulp_hist, NULL,
      "pairs by distance: [0] equal, [i] 2**(i-1) <= ulp < 2**i, [65] not comparable; None: not asked",
      NULL },
    { 0 },
};

/* ---- the object ---------------------------------------------------------- */

static PyObject *compare_repr(PyObject *self)
{
    const tt_compare *r = &compare_of(self)->result;
    char abs_text[TT_NUMBER_TEXT], rel_text[TT_NUMBER_TEXT];
    if (r->equal)
        return PyUnicode_FromFormat("Compare(equal=True, count=%lld)", (long long)r->count);
    tt_number_short(r->max_abs, abs_text);
    tt_number_short(r->max_rel, rel_text);
    PyObject *index = get_argmax(self, NULL); /* owned */
    PyObject *text = NULL;
    if (index != NULL)
        text = PyUnicode_FromFormat(
            "Compare(equal=False, allclose=%s, differing=%lld of %lld, max_abs=%s at %S, max_rel=%s)",
            r->allclose ? "True" : "False", (long long)r->differing, (long long)r->count, abs_text, index,
            rel_text);
    Py_XDECREF(index);
    return text;
}

static PyObject *make(binding_state *state, const tt_tensor *a, const tt_tensor *b,
                      const tt_compare_options *options, const tt_compare *result)
{
    compare_object *self = PyObject_NewVar(compare_object, state->summary_compare_type, a->ndim);
    if (self == NULL)
        return NULL;
    self->result = *result;
    self->has_ulps = options->wants_ulps;
    self->same_type = a->dtype == b->dtype;
    for (int32_t d = 0; d < a->ndim; d++)
        self->shape[d] = a->shape[d];
    return (PyObject *)self;
}

BINDING_FUNCTION(summary_compare)
{
    binding_state *state = binding_state_of(module);
    tt_compare_options how = { .rtol = 1e-5, .atol = 1e-8 };
    bool is_promised = false;
    const binding_option options[] = {
        { "rtol", OPTION_DOUBLE, &how.rtol },         { "atol", OPTION_DOUBLE, &how.atol },
        { "equal_nan", OPTION_BOOL, &how.equal_nan }, { "ulp", OPTION_BOOL, &how.wants_ulps },
        { "release_gil", OPTION_BOOL, &is_promised }, { 0 }
    };
    tensor_view a, b;
    tt_compare result;
    tt_error err = { "" };
    if (binding_read_arguments("compare", 2, options, args, nargs, kwnames) < 0 ||
        binding_open_view(state, args[0], &a) < 0)
        return NULL;
    if (binding_open_view(state, args[1], &b) < 0) {
        tensor_view_close(&a);
        return NULL;
    }
    PyThreadState *released = binding_release_gil(binding_may_release_gil(&a, is_promised) &&
                                                  binding_may_release_gil(&b, is_promised));
    tt_status st = tt_compare_compute(&a.tensor, &b.tensor, &how, &result, &err);
    binding_take_gil(released);
    PyObject *self =
        st < 0 ? binding_raise_status(st, &err) : make(state, &a.tensor, &b.tensor, &how, &result);
    tensor_view_close(&a);
    tensor_view_close(&b);
    return self;
}

BINDING_VAR_CLASS(summary_compare, "tensortap.Compare", compare_object, shape,
                  BINDING_NO_NEW | BINDING_FIXED, { Py_tp_doc, SUMMARY_DOC_COMPARE_TYPE },
                  { Py_tp_dealloc, binding_dealloc }, { Py_tp_repr, compare_repr },
                  { Py_tp_getset, getters }, { Py_tp_methods, binding_result_methods });
