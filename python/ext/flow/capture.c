/* capture.c -- the class Flow: captures tensor changes for tensortap.flow.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/type.h"
#include "flow/chart.h"

static flow_object *flow_of(PyObject *self)
{
    return (flow_object *)self;
}

static PyObject *flow_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "select", NULL };
    PyObject *select; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Flow", keywords, &select))
        return NULL;
    flow_object *self = (flow_object *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    self->select = Py_NewRef(select);
    self->consumer = -1;
    self->options = (tt_sample_options){ .max_vector = 32, .max_matrix = 8, .max_slices = 6 };
    (void)flow_chart_limit(&self->chart, 12); /* takes no memory yet */
    return (PyObject *)self;
}

static int flow_traverse(PyObject *self, visitproc visit, void *arg)
{
    return binding_visit(self, offsetof(flow_object, select), offsetof(flow_object, error_text), visit,
                         arg);
}

static int flow_clear_references(PyObject *self)
{
    flow_stop(flow_of(self));
    return binding_clear(self, offsetof(flow_object, select), offsetof(flow_object, error_text));
}

static void flow_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    flow_stop(flow_of(self));
    flow_chart_free(&flow_of(self)->chart);
    flow_calls_clear(&flow_of(self)->calls);
    binding_dealloc(self);
}

/* ---- methods ------------------------------------------------------------- */

static PyObject *flow_set(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "max_nodes", "max_vector", "max_matrix", "max_slices",
                                "returns",   "arrays",     "root",       NULL };
    flow_object *flow = flow_of(self);
    long long nodes, vector, matrix, slices;
    int returns, arrays;
    PyObject *root; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$LLLLppU:set", keywords, &nodes, &vector, &matrix,
                                     &slices, &returns, &arrays, &root))
        return NULL;
    if (flow_chart_limit(&flow->chart, nodes < 1 ? 1 : (size_t)nodes) < 0)
        return PyErr_NoMemory();
    flow->options =
        (tt_sample_options){ .max_vector = vector, .max_matrix = matrix, .max_slices = slices };
    bool is_other = flow->has_returns != (returns != 0) || flow->has_arrays != (arrays != 0);
    Py_XSETREF(flow->root, Py_NewRef(root));
    flow->has_returns = returns != 0;
    flow->has_arrays = arrays != 0;
    if (is_other && flow->consumer >= 0) { /* it wants other events */
        flow_stop(flow);
        if (flow_start(flow) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *flow_on(PyObject *self, PyObject *Py_UNUSED(none))
{
    if (flow_of(self)->consumer < 0 && flow_start(flow_of(self)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *flow_off(PyObject *self, PyObject *Py_UNUSED(none))
{
    flow_stop(flow_of(self));
    Py_RETURN_NONE;
}

/* An object of its own that is off: what is captured from now on is not in it. */
static PyObject *flow_copy(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *copy =
        PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(self), flow_of(self)->select, NULL); /* owned */
    if (copy != NULL && flow_chart_copy(&flow_of(self)->chart, &flow_of(copy)->chart) < 0) {
        Py_CLEAR(copy);
        PyErr_NoMemory();
    }
    return copy;
}

static PyObject *flow_clear(PyObject *self, PyObject *args)
{
    PyObject *copy = NULL; /* borrowed */
    if (!PyArg_ParseTuple(args, "|O!:clear", Py_TYPE(self), &copy))
        return NULL;
    if (copy != NULL)
        flow_chart_forget(&flow_of(self)->chart, &flow_of(copy)->chart);
    else
        flow_chart_clear(&flow_of(self)->chart);
    Py_RETURN_NONE;
}

static PyObject *shape_of(const flow_node *node)
{
    const summary_facts *facts = &node->sight.value.facts;
    return binding_shape_tuple(facts->shape, facts->ndim > 0 ? facts->ndim : 0); /* below 0: unknown */
}

static PyObject *flow_places(PyObject *self, PyObject *Py_UNUSED(none))
{
    const flow_chart *chart = &flow_of(self)->chart;
    size_t count = flow_chart_count(chart);
    const flow_node **order = PyMem_Calloc(count + 1, sizeof *order);  /* owned */
    PyObject *list = order != NULL ? PyList_New(0) : PyErr_NoMemory(); /* owned */
    if (order != NULL)
        flow_chart_sort(chart, order);
    for (size_t i = 0; list != NULL && i < count; i++)
        binding_list_add(&list, Py_BuildValue("OOiOONs", order[i]->name, order[i]->code, order[i]->line,
                                              order[i]->is_source ? Py_True : Py_False,
                                              order[i]->owner != NULL ? order[i]->owner : Py_None,
                                              shape_of(order[i]), order[i]->sight.value.facts.dtype));
    PyMem_Free(order);
    return list;
}

static PyObject *flow_take_errors(PyObject *self, PyObject *Py_UNUSED(none))
{
    flow_object *flow = flow_of(self);
    PyObject *text = flow->error_text != NULL ? flow->error_text : Py_NewRef(Py_None); /* owned */
    PyObject *result = Py_BuildValue("KN", (unsigned long long)flow->errors, text);
    flow->error_text = NULL;
    flow->errors = 0;
    return result;
}

static Py_ssize_t flow_length(PyObject *self)
{
    return (Py_ssize_t)flow_chart_count(&flow_of(self)->chart);
}

static PyObject *get_is_on(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(flow_of(self)->consumer >= 0);
}

static PyGetSetDef getters[] = {
    { "is_on", get_is_on, NULL, "changes are captured", NULL },
    { 0 },
};

static PyMethodDef methods[] = {
    { "set", (PyCFunction)(void (*)(void))flow_set, METH_VARARGS | METH_KEYWORDS,
      "Set all options; what is captured stays." },
    { "on", flow_on, METH_NOARGS, "Begin to capture." },
    { "off", flow_off, METH_NOARGS, "Stop capturing." },
    { "copy", flow_copy, METH_NOARGS, "Return another one, off, with the nodes of this moment." },
    { "clear", flow_clear, METH_VARARGS, "Forget all nodes, or those that are in a copy." },
    { "places", flow_places, METH_NOARGS,
      "Return (name, code object, line, is_source, weak reference to self or None) of each node." },
    { "dot", flow_dot, METH_VARARGS,
      "Write the chart for Graphviz, after the engine that draws it well, dot or nop2; with bytes that\n"
      "hold width and height of each node in points, as doubles, all in its place, for nop2.  A look is\n"
      "(code, label of the frame, number of the node that it is drawn as: its own, or an earlier one)." },
    { "json", flow_json, METH_O, "Write the chart as JSON." },
    { "take_errors", flow_take_errors, METH_NOARGS,
      "Return how many changes could not be read, and why the first could not; forget them." },
    { 0 },
};

BINDING_CLASS(flow, "tensortap._core.Flow", flow_object, BINDING_GC | BINDING_FIXED,
              { Py_tp_doc,
                "The last tensor changes of a program; select(code) returns the lines wanted, or None." },
              { Py_tp_new, flow_new }, { Py_tp_dealloc, flow_dealloc }, { Py_tp_traverse, flow_traverse },
              { Py_tp_clear, flow_clear_references }, { Py_tp_getset, getters },
              { Py_tp_methods, methods }, { Py_sq_length, flow_length });
