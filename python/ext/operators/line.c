/* line.c -- the line of the program that called an operator, and the module it runs in.
 *
 * All of it is read from Python's frames, which cost nanoseconds each: nn.Module.__call__ has the
 * module as its first argument, so nothing has to be hooked and a model need not be known.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"
#include "operators/log.h"

int32_t operators_number(base_map *map, PyObject *list, PyObject *obj, bool *is_new)
{
    void *found = base_map_find(map, obj);
    *is_new = found == NULL;
    if (found != NULL)
        return (int32_t)(size_t)found - 1;
    Py_ssize_t number = PyList_GET_SIZE(list);
    if (PyList_Append(list, obj) < 0)
        return -1;
    if (base_map_put(map, obj, (void *)(size_t)(number + 1)) < 0) {
        (void)PyList_SetSlice(list, number, number + 1, NULL); /* the next one has this number */
        return -1;
    }
    return (int32_t)number;
}

/* Whose code a frame runs: asked once for each code object. */
static operators_code code_at(operators_log *self, base_frame *at)
{
    PyObject *code = (PyObject *)base_frame_code(at); /* borrowed */
    void *found = base_map_find(&self->code_of, code);
    if (found != NULL)
        return (operators_code)((size_t)found - 1);
    PyObject *answer = PyObject_CallOneArg(self->classify, code); /* owned */
    long whose = answer != NULL ? PyLong_AsLong(answer) : -1;
    operators_code result = whose >= 0 && whose < CODE_COUNT_ ? (operators_code)whose : CODE_TORCH;
    if (PyList_Append(self->codes, code) == 0)
        (void)base_map_put(&self->code_of, code, (void *)((size_t)result + 1));
    Py_XDECREF(answer);
    operators_take_error(self);
    return result;
}

/* The line that a frame runs; code_at() keeps its code. */
static operators_line line_at(base_frame *at)
{
    PyCodeObject *code = base_frame_code(at);
    return (operators_line){ .code = code,
                             .number = PyCode_Addr2Line(code, base_frame_instruction(at) * CODE_UNIT) };
}

static int32_t module_number(operators_log *self, PyObject *module, PyObject *root)
{
    bool is_new;
    int32_t number = operators_number(&self->module_of, self->modules, module, &is_new);
    if (number < 0 || !is_new)
        return number;
    PyObject *name = PyObject_CallFunctionObjArgs(self->name_module, module, root, NULL); /* owned */
    int failed = PyList_Append(self->names, name != NULL ? name : Py_None);
    Py_XDECREF(name);
    return failed < 0 ? OPERATORS_NONE : number;
}

/* The node of autograd that runs now, in backward. */
static void find_node(operators_log *self, operators_row *row)
{
    PyObject *node =
        self->current_node != NULL ? PyObject_CallNoArgs(self->current_node) : NULL; /* owned */
    bool is_new;
    if (node != NULL && node != Py_None) {
        row->node_type =
            operators_number(&self->node_type_of, self->node_types, (PyObject *)Py_TYPE(node), &is_new);
        PyObject *number = PyObject_CallMethod(node, "_sequence_nr", NULL); /* owned */
        PyObject *variable = NULL;                                          /* owned */
        row->node = number != NULL ? PyLong_AsUnsignedLongLong(number) : UINT64_MAX;
        if (row->node == UINT64_MAX && PyObject_GetOptionalAttrString(node, "variable", &variable) > 0) {
            const operators_memory *memory = operators_memory_of(self, variable);
            row->variable = memory != NULL ? memory->storage : 0;
        }
        Py_XDECREF(variable);
        Py_XDECREF(number);
    }
    Py_XDECREF(node);
    operators_take_error(self);
}

/* The step of an optimizer that is the program's own? */
static bool is_named_step(base_frame *at)
{
    return at != NULL && PyUnicode_CompareWithASCIIString(base_frame_code(at)->co_name, "step") == 0;
}

void operators_find_line(operators_log *self, operators_row *row)
{
    PyObject *module = NULL, *root = NULL; /* borrowed from the frames */
    bool is_past_backward = false, is_checkpoint = false, is_step = false;
    base_frame *inner = NULL; /* the frame before, if it is the program's */
    row->module = row->node_type = OPERATORS_NONE;
    find_node(self, row);
    for (base_frame *at = base_frame_running(); at != NULL; at = base_frame_back(at)) {
        switch (code_at(self, at)) {
        case CODE_PROGRAM:
            /* A function of a package is named by the line that called it, a module's forward by its own. */
            if (row->caller.code == NULL) {
                row->caller = line_at(at);
                if (row->line.code == NULL || (module == NULL && !is_past_backward))
                    row->line = row->caller;
            }
            break;
        case CODE_PACKAGE:
            if (row->line.code == NULL)
                row->line = line_at(at);
            break;
        case CODE_MODULE:
            if (!is_past_backward) {
                root = base_frame_slot(at, 0, self->self_name);
                module = module != NULL ? module : root;
            }
            break;
        case CODE_BACKWARD:
            is_past_backward = true;
            if (row->line.code == NULL)
                row->flags |= ROW_NATIVE;
            break;
        case CODE_CHECKPOINT:
            is_checkpoint = is_checkpoint || !is_past_backward;
            break;
        case CODE_OPTIMIZER: /* not for what a closure calls inside of the step */
            is_step = is_step || row->line.code == NULL || (module == NULL && is_named_step(inner));
            break;
        case CODE_COMPILED:
            if (!is_past_backward) {
                row->flags |= ROW_COMPILED;
                row->line = row->caller = (operators_line){ 0 };
            }
            break;
        case CODE_TORCH:
        case CODE_COUNT_:
            break;
        }
        inner = code_at(self, at) <= CODE_PACKAGE ? at : NULL;
    }
    if (module != NULL)
        row->module = module_number(self, module, root);
    if (row->node_type == OPERATORS_NONE)
        row->flags |= is_step ? ROW_STEPS : 0;
    else if (is_checkpoint && !(row->flags & ROW_NATIVE))
        row->flags |= ROW_RECOMPUTED;
}
