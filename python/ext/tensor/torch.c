/* torch.c -- finds torch in a program that has imported it.
 *
 * Exists because tensortap neither links against torch nor imports it: the
 * types and C functions it needs are looked up once and kept in the module's
 * state.  Nothing here is tied to a version; what a torch lacks stays NULL.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/look.h"

/* DLPack's DLPackExchangeAPI (its ABI, version 1.x): a header, then function
 * pointers of which we use one. */
typedef struct exchange_table {
    uint32_t major, minor;
    const struct exchange_table *older; /* for consumers that do not know `major` */
    void (*allocate)(void);
    void (*managed_from_object)(void);
    void (*managed_to_object)(void);
    tensor_dlpack_fn *view_from_object; /* may be NULL */
    void (*current_stream)(void);
} exchange_table;

static tensor_dlpack_fn *find_view_function(PyTypeObject *tensor)
{
    PyObject *capsule = NULL; /* owned */
    tensor_dlpack_fn *found = NULL;
    if (PyObject_GetOptionalAttrString((PyObject *)tensor, "__dlpack_c_exchange_api__", &capsule) <= 0)
        goto out;
    /* The table itself lives as long as the process, says the standard. */
    const exchange_table *table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    while (table != NULL && table->major != 1)
        table = table->older;
    if (table != NULL)
        found = table->view_from_object;
out:
    PyErr_Clear();
    Py_XDECREF(capsule);
    return found;
}

/* A new reference, or NULL without an exception: the next question may run code of torch's
 * (its modules have a __getattr__), which takes a pending exception for its own. */
static PyObject *find(PyObject *obj, const char *name)
{
    PyObject *found = PyObject_GetAttrString(obj, name);
    if (found == NULL)
        PyErr_Clear();
    return found;
}

static PyObject *find_descriptor(PyTypeObject *base, const char *name, PyTypeObject *kind)
{
    PyObject *found = find((PyObject *)base, name);
    if (found != NULL && Py_IS_TYPE(found, kind))
        return found;
    Py_XDECREF(found);
    return NULL;
}

static PyTypeObject *find_type(PyObject *module, const char *name)
{
    PyObject *found = find(module, name);
    if (found != NULL && PyType_Check(found))
        return (PyTypeObject *)found;
    Py_XDECREF(found);
    return NULL;
}

static bool is_noargs(PyObject *method)
{
    return method != NULL && ((PyMethodDescrObject *)method)->d_method->ml_flags == METH_NOARGS;
}

static void fill(tensor_torch *api, PyObject *module, PyObject *low, PyObject *nn)
{
    api->tensor = find_type(module, "Tensor");
    api->base = find_type(low, "TensorBase");
    if (api->base == NULL)
        api->base = find_type(low, "_TensorBase"); /* before 2.3 */
    api->parameter = find_type(nn, "Parameter");
    api->strided = find(module, "strided");
    api->int8 = find(module, "int8");
    api->uint8 = find(module, "uint8");
    api->disable_function = find(low, "DisableTorchFunction");
    if (api->tensor == NULL || api->base == NULL)
        return;
    api->layout = find_descriptor(api->base, "layout", &PyGetSetDescr_Type);
    api->is_cpu = find_descriptor(api->base, "is_cpu", &PyGetSetDescr_Type);
    api->grad = find_descriptor(api->base, "grad", &PyGetSetDescr_Type);
    api->is_neg = find_descriptor(api->base, "is_neg", &PyMethodDescr_Type);
    api->is_conj = find_descriptor(api->base, "is_conj", &PyMethodDescr_Type);
    api->view = find_view_function(api->tensor);
}

static void fill_optional(tensor_torch *api, PyObject *low)
{
    PyObject *functorch = NULL; /* owned */
    if (PyObject_GetOptionalAttrString(low, "_is_torch_function_mode_enabled", &api->has_mode) > 0 &&
        !(PyCFunction_CheckExact(api->has_mode) && PyCFunction_GET_FLAGS(api->has_mode) == METH_NOARGS))
        Py_CLEAR(api->has_mode);
    if (PyObject_GetOptionalAttrString(low, "_functorch", &functorch) > 0)
        PyObject_GetOptionalAttrString(functorch, "is_functorch_wrapped_tensor", &api->is_batched);
    PyErr_Clear();
    Py_XDECREF(functorch);
}

static bool is_complete(const tensor_torch *api)
{
    return api->tensor != NULL && api->base != NULL && api->parameter != NULL && api->strided != NULL &&
           api->int8 != NULL && api->uint8 != NULL && api->disable_function != NULL &&
           api->layout != NULL && api->is_cpu != NULL && api->grad != NULL && is_noargs(api->is_neg) &&
           is_noargs(api->is_conj);
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
        PyDict_GetItemStringRef(modules, "torch.nn.parameter", &nn) <= 0)
        goto out;
    fill(&api, module, low, nn);
    if (is_complete(&api)) { /* not so while torch is still being imported */
        fill_optional(&api, low);
        tensor_symbols_find(&api);
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
    Py_CLEAR(torch->tensor);
    Py_CLEAR(torch->parameter);
    Py_CLEAR(torch->base);
    Py_CLEAR(torch->strided);
    Py_CLEAR(torch->int8);
    Py_CLEAR(torch->uint8);
    Py_CLEAR(torch->disable_function);
    Py_CLEAR(torch->is_batched);
    Py_CLEAR(torch->layout);
    Py_CLEAR(torch->is_cpu);
    Py_CLEAR(torch->is_neg);
    Py_CLEAR(torch->is_conj);
    Py_CLEAR(torch->has_mode);
    Py_CLEAR(torch->grad);
    while (torch->spare_looks != NULL) {
        tensor_look *look = torch->spare_looks;
        torch->spare_looks = look->next;
        PyMem_Free(look);
    }
    torch->view = NULL;
    torch->has_neg_bit = NULL;
    torch->tensor_at = 0;
    torch->tracing_state = NULL;
    torch->is_wary = false;
}

PyObject *tensor_torch_grad(const tensor_torch *torch, PyObject *tensor)
{
    const PyGetSetDef *def = ((PyGetSetDescrObject *)torch->grad)->d_getset;
    PyObject *gradient = def->get(tensor, def->closure);
    if (gradient == NULL)
        PyErr_Clear();
    if (gradient == Py_None)
        Py_CLEAR(gradient);
    return gradient;
}

int tensor_torch_visit(const tensor_torch *torch, visitproc visit, void *arg)
{
    Py_VISIT(torch->tensor);
    Py_VISIT(torch->parameter);
    Py_VISIT(torch->base);
    Py_VISIT(torch->strided);
    Py_VISIT(torch->int8);
    Py_VISIT(torch->uint8);
    Py_VISIT(torch->disable_function);
    Py_VISIT(torch->is_batched);
    Py_VISIT(torch->layout);
    Py_VISIT(torch->is_cpu);
    Py_VISIT(torch->is_neg);
    Py_VISIT(torch->is_conj);
    Py_VISIT(torch->has_mode);
    Py_VISIT(torch->grad);
    return 0;
}
