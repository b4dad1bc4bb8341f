/* spikes.c -- the class Spikes: does a loss jump, as the rule `loss-spike` says?
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "binding/type.h"
#include "tensortap_tools.h"

typedef struct spikes_object {
    PyObject_HEAD tt_spikes *spikes; /* owned */
} spikes_object;

static PyObject *spikes_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { NULL };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Spikes", names))
        return NULL;
    spikes_object *self = (spikes_object *)type->tp_alloc(type, 0);
    if (self != NULL && (self->spikes = tt_spikes_create()) == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void spikes_dealloc(PyObject *self)
{
    tt_spikes_free(((spikes_object *)self)->spikes);
    binding_dealloc(self);
}

static PyObject *spikes_see(PyObject *self, PyObject *args)
{
    double loss;
    long long step;
    if (!PyArg_ParseTuple(args, "dL:see", &loss, &step))
        return NULL;
    return PyBool_FromLong(tt_spikes_see(((spikes_object *)self)->spikes, loss, step));
}

static PyMethodDef spikes_methods[] = {
    { "see", spikes_see, METH_VARARGS,
      "see($self, loss, step, /)\n--\n\nAdd a loss; return whether it jumps." },
    { 0 },
};

BINDING_CLASS(runs_spikes, "tensortap._core.Spikes", spikes_object, BINDING_FIXED,
              { Py_tp_doc, "The losses of a training, one after the other, and which of them jump." },
              { Py_tp_new, spikes_new }, { Py_tp_dealloc, spikes_dealloc },
              { Py_tp_methods, spikes_methods });
