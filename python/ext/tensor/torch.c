/* torch.c -- finds torch in a program that has imported it, and asks it.
 *
 * Nothing here is tied to a version: what a torch lacks stays NULL.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/look.h"

#include <string.h>

/* ---- finding ------------------------------------------------------------------ */

/* A new reference, or NULL without an exception: the next question may run code of torch's
 * (its modules have a __getattr__), which takes a pending exception for its own. */
static PyObject *find(PyObject *obj, const char *name)
{
    PyObject *found = PyObject_GetAttrString(obj, name);
    if (found == NULL)
        PyErr_Clear();
    return found;
}

static PyTypeObject *find_type(PyObject *module, const char *name)
{
    PyObject *found = find(module, name);
    if (found != NULL && !PyType_Check(found))
        Py_CLEAR(found);
    return (PyTypeObject *)found;
}

enum { TORCH, LOW, FUNCTORCH, BASE, PLACES };
enum { VALUE, GETSET, METHOD, FUNCTION };

/* GETSET, METHOD (of no arguments) and FUNCTION (the same) are called without Python's checks. */
static bool is_of_kind(PyObject *obj, int kind)
{
    return kind == VALUE || (kind == GETSET && PyObject_TypeCheck(obj, &PyGetSetDescr_Type)) ||
           (kind == METHOD && PyObject_TypeCheck(obj, &PyMethodDescr_Type) &&
            ((PyMethodDescrObject *)obj)->d_method->ml_flags == METH_NOARGS) ||
           (kind == FUNCTION && PyCFunction_CheckExact(obj) && PyCFunction_GET_FLAGS(obj) == METH_NOARGS);
}

/* False: torch is still being imported. */
static bool fill(tensor_torch *api, PyObject *module, PyObject *low, PyObject *nn)
{
    api->tensor = find_type(module, "Tensor");
    api->base = find_type(low, "TensorBase");
    api->parameter = find_type(nn, "Parameter");
    api->module = find_type(nn, "Module");
    bool is_complete =
        api->tensor != NULL && api->base != NULL && api->parameter != NULL && api->module != NULL;
    PyObject *functorch = find(low, "_functorch"); /* owned */
    PyObject *places[PLACES] = { module, low, functorch, (PyObject *)api->base };
#define X(field, where, name, kind, is_needed)                                            \
    api->field = is_complete && places[where] != NULL ? find(places[where], name) : NULL; \
    if (api->field != NULL && !is_of_kind(api->field, kind))                              \
        Py_CLEAR(api->field);                                                             \
    is_complete = is_complete && (api->field != NULL || !(is_needed));
    TENSOR_TORCH_MAP(X)
#undef X
    Py_XDECREF(functorch);
    return is_complete;
}

bool tensor_torch_find(tensor_torch *torch)
{
    if (torch->tensor != NULL)
        return true;
    PyObject *module = NULL, *low = NULL, *nn = NULL; /* owned */
    PyObject *modules = PyImport_GetModuleDict();     /* borrowed */
    tensor_torch api = { 0 };
    if (PyDict_GetItemStringRef(modules, "torch", &module) <= 0 ||
        PyDict_GetItemStringRef(modules, "torch._C", &low) <= 0 ||
        PyDict_GetItemStringRef(modules, "torch.nn", &nn) <= 0)
        goto out;
    if (fill(&api, module, low, nn)) {
        tensor_symbols_find();
        api.spare_looks = torch->spare_looks;
        *torch = api;
        api = (tensor_torch){ 0 };
    }
out:
    PyErr_Clear();
    tensor_torch_clear(&api);
    Py_XDECREF(module);
    Py_XDECREF(low);
    Py_XDECREF(nn);
    return torch->tensor != NULL;
}

void tensor_torch_clear(tensor_torch *torch)
{
    tensor_torch old = *torch; /* empty before anything goes: that may run code of the program's */
    *torch = (tensor_torch){ 0 };
    PyTypeObject *types[] = { old.tensor, old.parameter, old.base, old.module };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        Py_XDECREF(types[i]);
#define X(field, ...) Py_XDECREF(old.field);
    TENSOR_TORCH_MAP(X)
#undef X
    while (old.spare_looks != NULL) {
        tensor_look *look = old.spare_looks;
        old.spare_looks = look->next;
        PyMem_Free(look);
    }
}

PyObject *tensor_torch_grad(const tensor_torch *torch, PyObject *tensor)
{
    PyObject *gradient = tensor_torch_get(torch->grad, tensor);
    if (gradient == NULL)
        PyErr_Clear();
    if (gradient == Py_None)
        Py_CLEAR(gradient);
    return gradient;
}

PyObject *tensor_torch_local(const tensor_torch *torch, PyObject *tensor)
{
    bool is_subclass = tensor_torch_is_tensor(torch, tensor) && !tensor_torch_is_plain(torch, tensor);
    PyObject *local = is_subclass ? PyObject_GetAttrString(tensor, "_local_tensor") : NULL; /* owned */
    if (local == NULL)
        PyErr_Clear();
    else if (!tensor_torch_is_tensor(torch, local))
        Py_CLEAR(local);
    return local != NULL ? local : Py_NewRef(tensor);
}

/* An attribute, or NULL without an exception; a new reference. */
static PyObject *attribute(PyObject *object, const char *name)
{
    PyObject *found = NULL; /* owned */
    if (object != NULL && PyObject_GetOptionalAttrString(object, name, &found) < 0)
        PyErr_Clear();
    return found;
}

PyObject *tensor_torch_spec(const tensor_torch *torch, PyObject *tensor, bool asks_graph)
{
    bool is_tensor = tensor_torch_is_tensor(torch, tensor);
    bool is_wrapper = is_tensor && !tensor_torch_is_plain(torch, tensor);
    PyObject *spec = is_wrapper ? attribute(tensor, "_spec") : NULL; /* owned */
    if (spec == NULL && is_tensor && (asks_graph || is_wrapper) && torch->grad_fn != NULL) {
        PyObject *node = tensor_torch_get(torch->grad_fn, tensor); /* owned */
        PyErr_Clear();
        spec = attribute(node, "dtensor_spec");
        Py_XDECREF(node);
    }
    return spec != NULL ? spec : Py_NewRef(Py_None);
}

bool tensor_torch_is_filled(PyObject *tensor)
{
    if (tensor_torch_is(attribute(tensor, "completed"), Py_True))
        return true;
    /* A view of it may have been waited for, which only the list of all collectives under way shows. */
    PyObject *module = PyImport_ImportModule("torch._C._distributed_c10d"); /* owned */
    PyErr_Clear();
    PyObject *count = attribute(module, "_get_work_registry_size");       /* owned */
    PyObject *number = count != NULL ? PyObject_CallNoArgs(count) : NULL; /* owned */
    bool is_none = number != NULL && PyLong_Check(number) && PyObject_Not(number) == 1;
    PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(count);
    Py_XDECREF(module);
    return is_none;
}

int tensor_torch_visit(const tensor_torch *torch, visitproc visit, void *arg)
{
    Py_VISIT(torch->tensor);
    Py_VISIT(torch->parameter);
    Py_VISIT(torch->base);
    Py_VISIT(torch->module);
#define X(field, ...) Py_VISIT(torch->field);
    TENSOR_TORCH_MAP(X)
#undef X
    return 0;
}

/* ---- kinds of values ------------------------------------------------------------ */

PyTypeObject *tensor_base_named(PyTypeObject *type, const char *name)
{
    for (Py_ssize_t i = 0; type->tp_mro != NULL && i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i); /* borrowed */
        if (strcmp(base->tp_name, name) == 0)
            return base;
    }
    return NULL;
}

static bool is_plain_type(PyTypeObject *type)
{
    return type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
           type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
           type == &PyRange_Type || type == &PySlice_Type || type == Py_TYPE(Py_None);
}

tensor_kind tensor_kind_of(tensor_torch *torch, PyObject *obj)
{
    if (obj == NULL)
        return KIND_NONE;
    if (tensor_torch_is_plain(torch, obj))
        return KIND_TORCH;
    PyTypeObject *type = Py_TYPE(obj);
    if (is_plain_type(type))
        return KIND_PLAIN;
    if (PyType_FastSubclass(type, Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS |
                                      Py_TPFLAGS_DICT_SUBCLASS) ||
        PyAnySet_Check(obj) || strcmp(type->tp_name, "collections.deque") == 0)
        return KIND_CONTAINER;
    if (tensor_torch_find(torch) && tensor_torch_is_tensor(torch, obj))
        return KIND_TORCH;
    if (!PyObject_CheckBuffer(obj)) /* as all of NumPy's can */
        return KIND_OBJECT;
    return tensor_base_named(type, "numpy.ndarray") != NULL   ? KIND_ARRAY
           : tensor_base_named(type, "numpy.generic") != NULL ? KIND_PLAIN
                                                              : KIND_OBJECT;
}

/* ---- asking without being noticed ----------------------------------------------- */

bool tensor_has_function_mode(const tensor_torch *torch)
{
    if (torch->has_mode == NULL)
        return false;
    return tensor_torch_is(PyCFunction_GET_FUNCTION(torch->has_mode)(NULL, NULL), Py_True);
}

PyObject *tensor_quiet_enter(const tensor_torch *torch)
{
    PyObject *guard = PyObject_CallNoArgs(torch->disable_function); /* owned */
    PyObject *entered = guard != NULL ? PyObject_CallMethod(guard, "__enter__", NULL) : NULL;
    if (entered == NULL) {
        PyErr_Clear();
        Py_CLEAR(guard);
    }
    Py_XDECREF(entered);
    return guard;
}

void tensor_quiet_leave(PyObject *guard)
{
    if (guard == NULL)
        return;
    PyObject *left = PyObject_CallMethod(guard, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (left == NULL)
        PyErr_Clear();
    Py_XDECREF(left);
    Py_DECREF(guard);
}

bool tensor_version_read(const tensor_torch *torch, PyObject *tensor, unsigned known, uint32_t *out)
{
    if (torch->version == NULL)
        return false;
    bool is_quiet = tensor_torch_is_plain(torch, tensor) &&
                    (known & VERSION_GUARDED || !tensor_has_function_mode(torch));
    PyObject *guard = is_quiet ? NULL : tensor_quiet_enter(torch); /* owned or NULL */
    PyObject *number = NULL;                                       /* owned */
    /* Asking an inference tensor for its version costs torch a C++ exception. */
    if (known & VERSION_COUNTED || torch->is_inference == NULL ||
        !tensor_torch_ask(torch->is_inference, tensor))
        number = tensor_torch_get(torch->version, tensor);
    long value = number != NULL ? PyLong_AsLong(number) : -1;
    if (value < 0)
        PyErr_Clear();
    Py_XDECREF(number);
    tensor_quiet_leave(guard);
    *out = value >= 0 ? (uint32_t)value : 0;
    return value >= 0;
}

/* ---- functions that torch exports ------------------------------------------------ */

/* Where a Python tensor keeps its at::Tensor, which is one pointer.  Torch tells
 * that pointer as _cdata; it is looked for in the object.  -1: not there. */
static Py_ssize_t find_tensor(PyObject *obj)
{
    PyObject *number = PyObject_GetAttrString(obj, "_cdata"); /* owned */
    void *pointer = number != NULL ? PyLong_AsVoidPtr(number) : NULL;
    Py_ssize_t found = -1;
    for (Py_ssize_t at = (Py_ssize_t)sizeof(PyObject);
         pointer != NULL && at + (Py_ssize_t)sizeof pointer <= Py_TYPE(obj)->tp_basicsize;
         at += (Py_ssize_t)sizeof pointer) {
        void *held;
        memcpy(&held, (const char *)obj + at, sizeof held);
        if (held == pointer) {
            found = at;
            break;
        }
    }
    PyErr_Clear();
    Py_XDECREF(number);
    return found;
}

Py_ssize_t tensor_torch_find_handle(tensor_torch *torch, PyObject *obj)
{
    torch->tensor_at = tensor_symbols_get()->can_describe ? find_tensor(obj) : -1;
    return torch->tensor_at;
}
