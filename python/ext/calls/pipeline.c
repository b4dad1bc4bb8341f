/* pipeline.c -- reads from Python's frames what torch.distributed.pipelining is doing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "calls/pipeline.h"

#include <string.h>

enum { MOST_FRAMES = 16 }; /* between a stage and the call of its module */

static bool is_pipelining(base_frame *at)
{
    const char *file = PyUnicode_AsUTF8(base_frame_code(at)->co_filename);
    if (file == NULL)
        PyErr_Clear();
    return file != NULL && strstr(file, "/torch/distributed/pipelining/") != NULL;
}

bool calls_pipeline_infers_shapes(PyObject *package)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    if (modules == NULL || PyDict_GetItemWithError(modules, package) == NULL)
        return false;
    /* _shape_inference: up to torch 2.12 */
    static const char *const names[] = { "_forward_metadata_inference", "_shape_inference" };
    base_frame *at = base_frame_running();
    for (int i = 0; i < MOST_FRAMES && at != NULL; i++, at = base_frame_back(at))
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (PyUnicode_CompareWithASCIIString(base_frame_code(at)->co_name, names[k]) == 0 &&
                is_pipelining(at))
                return true;
    return false;
}

bool calls_pipeline_calls(base_frame *backward)
{
    base_frame *at = base_frame_back(backward);
    return at != NULL && is_pipelining(at);
}

bool calls_pipeline_scales(base_frame *backward, PyObject *self_key)
{
    for (base_frame *at = base_frame_back(backward); at != NULL; at = base_frame_back(at)) {
        PyObject *self = is_pipelining(at) ? Py_XNewRef(base_frame_slot(at, 0, self_key)) : NULL;
        PyObject *scales = self != NULL ? PyObject_GetAttrString(self, "scale_grads") : NULL;
        PyObject *count = scales != NULL ? PyObject_GetAttrString(self, "_n_microbatches") : NULL;
        bool is_schedule = scales != NULL && PyBool_Check(scales); /* of a stage it is a method */
        bool is_single = count != NULL && PyLong_Check(count) && PyLong_AsLong(count) == 1;
        bool is_scaled = scales == Py_True && !is_single;
        PyErr_Clear();
        Py_XDECREF(count);
        Py_XDECREF(scales);
        Py_XDECREF(self);
        if (is_schedule)
            return is_scaled;
    }
    return false;
}
