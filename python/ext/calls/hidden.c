/* hidden.c -- functions in whose place Dynamo traces others.
 *
 * It finds those as the __call__ of our type.  Calls themselves go through tp_call, which stays ours.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "calls/source.h"

int calls_traced_set_call(PyTypeObject *type, PyObject *function)
{
    PyObject *slots = Py_BuildValue("(s)", "traced"); /* owned */
    int result = slots == NULL ? -1 : PyDict_SetItemString(type->tp_dict, "__call__", function);
    if (result == 0) /* torch 2.6 reads only those members of an object that are listed here */
        result = PyDict_SetItemString(type->tp_dict, "__slots__", slots);
    PyType_Modified(type);
    Py_XDECREF(slots);
    return result;
}

/* A function that Dynamo does not trace, but another in its place. */
typedef struct hidden_object {
    PyObject_HEAD vectorcallfunc call;
    PyObject *function, *traced;      /* owned */
    _PyCFunctionFastWithKeywords run; /* of a function of this extension: one call less; else NULL */
} hidden_object;

static PyObject *hidden_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    hidden_object *hidden = (hidden_object *)self;
    if (hidden->run == NULL)
        return PyObject_Vectorcall(hidden->function, args, nargsf, kwnames);
    return hidden->run(PyCFunction_GET_SELF(hidden->function), args, PyVectorcall_NARGS(nargsf), kwnames);
}

static PyObject *hidden_doc(PyObject *self, void *Py_UNUSED(closure))
{
    return PyObject_GetAttrString(((hidden_object *)self)->function, "__doc__");
}

static PyGetSetDef hidden_getset[] = { { "__doc__", hidden_doc, NULL, NULL, NULL }, { 0 } };

static PyMemberDef hidden_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(hidden_object, call), READONLY, NULL },
    { "__wrapped__", T_OBJECT, offsetof(hidden_object, function), READONLY, NULL },
    { "traced", T_OBJECT, offsetof(hidden_object, traced), READONLY, NULL },
    { 0 },
};

BINDING_OWNS(hidden, hidden_object, function, traced)
BINDING_CLASS(calls_hidden, "tensortap._core.Hidden", hidden_object,
              BINDING_GC | BINDING_NO_NEW | Py_TPFLAGS_HAVE_VECTORCALL, { Py_tp_call, PyVectorcall_Call },
              { Py_tp_dealloc, binding_dealloc }, BINDING_GC_SLOTS(hidden),
              { Py_tp_members, hidden_members }, { Py_tp_getset, hidden_getset });

/* _hidden(function, traced, call): call(self, …) is what Dynamo finds as its __call__ */
BINDING_FUNCTION(calls_hidden)
{
    PyTypeObject *type = binding_state_of(module)->calls_hidden_type;
    if (binding_read_arguments("_hidden", 3, NULL, args, nargs, kwnames) < 0 ||
        calls_traced_set_call(type, args[2]) < 0)
        return NULL;
    hidden_object *made = (hidden_object *)type->tp_alloc(type, 0);
    if (made == NULL)
        return NULL;
    made->call = hidden_call;
    if (PyCFunction_CheckExact(args[0]) &&
        PyCFunction_GET_FLAGS(args[0]) == (METH_FASTCALL | METH_KEYWORDS))
        made->run = (_PyCFunctionFastWithKeywords)(void (*)(void))PyCFunction_GET_FUNCTION(args[0]);
    made->function = Py_NewRef(args[0]);
    made->traced = Py_NewRef(args[1]);
    return (PyObject *)made;
}
