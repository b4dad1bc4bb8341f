/* symbols.c -- functions of torch's own that answer at once.
 *
 * Exists because some questions come up at every watched call, and torch's Python
 * functions take longer to answer them than we have: is the tensor negated on reading,
 * how large is its storage, is torch.jit.trace going on?  What is behind them is exported by
 * libtorch_cpu.so, which the program has loaded, so it is looked up by name.  Each
 * reads a field, and throws nothing for a tensor with memory.  Where a torch does not have them
 * they stay NULL, and we ask the long way.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/view.h"

#include <dlfcn.h>
#include <string.h>

void tensor_symbols_find(tensor_torch *torch)
{
    void *library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (library == NULL)
        return;
    /* bool at::native::is_neg(const at::Tensor &) */
    torch->has_neg_bit = (tensor_bit_fn *)dlsym(library, "_ZN2at6native6is_negERKNS_6TensorE");
    /* Of torch's C interface: AOTITorchError f(AtenTensorHandle, int64_t *) */
    torch->storage_size = (tensor_number_fn *)dlsym(library, "aoti_torch_get_storage_size");
    torch->storage_offset = (tensor_number_fn *)dlsym(library, "aoti_torch_get_storage_offset");
    /* const std::shared_ptr<TracingState> &torch::jit::tracer::getTracingState() */
    torch->tracing_state = (tensor_tracing_fn *)dlsym(library, "_ZN5torch3jit6tracer15getTracingStateEv");
    (void)dlclose(library); /* torch itself keeps it loaded */
}

/* Where a Python tensor keeps its at::Tensor, which is one pointer.  Torch tells
 * that pointer as _cdata; it is looked for in the object. */
static Py_ssize_t find_tensor(PyObject *obj)
{
    PyObject *number = PyObject_GetAttrString(obj, "_cdata"); /* owned */
    void *pointer = number != NULL ? PyLong_AsVoidPtr(number) : NULL;
    Py_ssize_t found = 0;
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

bool tensor_symbols_can_tell(tensor_torch *torch, PyObject *obj)
{
    bool is_there =
        torch->has_neg_bit != NULL && torch->storage_size != NULL && torch->storage_offset != NULL;
    if (!is_there || torch->tensor_at != 0)
        return is_there;
    torch->tensor_at = find_tensor(obj);
    if (torch->tensor_at == 0)
        torch->has_neg_bit = NULL; /* a torch that we do not know */
    return torch->tensor_at != 0;
}
