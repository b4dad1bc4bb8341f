/* watch_graph.c -- what autograd's graph says of a loss and of modules, for the rules of health.
 *
 * The graph is walked a few nodes deep, seldom.  Only names of nodes and plain numbers are read: a tensor that was saved
 * for backward may be on a disk, or be computed again when somebody asks for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

#include <string.h>

#include "tensortap_tools.h"

/* The first input of a node of autograd's graph; owned, or NULL. */
static PyObject *input_of(PyObject *node)
{
    PyObject *inputs = PyObject_GetAttrString(node, "next_functions"); /* owned */
    PyObject *pair = inputs != NULL ? PySequence_GetItem(inputs, 0) : NULL;
    PyObject *input = pair != NULL ? PySequence_GetItem(pair, 0) : NULL;
    PyErr_Clear();
    Py_XDECREF(inputs);
    Py_XDECREF(pair);
    return input;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

enum { MOST_DIMENSIONS = 8 };

/* The shape of what a node computed, as its metadata say; 0: not known. */
static int64_t shape_of(PyObject *node, int64_t shape[MOST_DIMENSIONS])
{
    PyObject *all = PyObject_GetAttrString(node, "_input_metadata");                 /* owned */
    PyObject *first = all != NULL ? PySequence_GetItem(all, 0) : NULL;               /* owned */
    PyObject *sizes = first != NULL ? PyObject_GetAttrString(first, "shape") : NULL; /* owned */
    Py_ssize_t len = sizes != NULL ? PySequence_Size(sizes) : 0;
    int64_t ndim = len > 0 && len <= MOST_DIMENSIONS ? len : 0;
    for (int64_t i = 0; i < ndim; i++) {
        PyObject *size = PySequence_GetItem(sizes, (Py_ssize_t)i); /* owned */
        shape[i] = size != NULL ? PyLong_AsLongLong(size) : -1;
        Py_XDECREF(size);
    }
    if (PyErr_Occurred())
        ndim = 0;
    PyErr_Clear();
    Py_XDECREF(sizes);
    Py_XDECREF(first);
    Py_XDECREF(all);
    return ndim;
}

/* Does the operator only give its elements another form? */
static bool is_form(const char *type)
{
    static const char *const forms[] = { "View",    "UnsafeView", "Reshape",   "Alias", "Transpose",
                                         "Permute", "Squeeze",    "Unsqueeze", "T",     "ToCopy",
                                         "Clone",   "Slice",      "Contiguous" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (begins(type, forms[i]) && begins(type + strlen(forms[i]), "Backward"))
            return true;
    return false;
}

/* What a node was given, forms looked through; owned, or NULL. */
static PyObject *source_of(PyObject *node)
{
    enum { DEEPEST = 8 };
    PyObject *at = input_of(node); /* owned */
    for (int depth = 0; at != NULL && depth < DEEPEST && is_form(Py_TYPE(at)->tp_name); depth++)
        Py_XSETREF(at, input_of(at));
    return at;
}

/* Along its first dimension, of several? */
static bool is_over_first(PyObject *softmax)
{
    PyObject *dim = PyObject_GetAttrString(softmax, "_saved_dim"); /* owned; without it, less is seen */
    bool is_first = dim != NULL && PyLong_Check(dim) && PyObject_IsTrue(dim) == 0;
    PyErr_Clear();
    Py_XDECREF(dim);
    return is_first;
}

/* What kind of loss a node computes; 0: another. */
static int loss_of(PyObject *node)
{
    const char *type = Py_TYPE(node)->tp_name;
    int made_by = begins(type, "BinaryCrossEntropy") ? TT_LOSS_BINARY_CROSS_ENTROPY
                  : begins(type, "NllLoss")          ? TT_LOSS_NLL
                                                     : 0;
    PyObject *source = made_by != 0 ? source_of(node) : NULL; /* owned */
    const char *from = source != NULL ? Py_TYPE(source)->tp_name : "";
    if (begins(type, "BinaryCrossEntropyWithLogits") && begins(from, "SigmoidBackward")) {
        made_by = TT_LOSS_OF_SIGMOID;
    } else if (made_by == TT_LOSS_NLL && begins(from, "LogSoftmaxBackward")) {
        PyObject *logits = source_of(source); /* owned */
        if (logits != NULL && begins(Py_TYPE(logits)->tp_name, "SoftmaxBackward"))
            made_by = TT_LOSS_OF_PROBABILITIES;
        else if (begins(type, "NllLossBackward") && is_over_first(source))
            made_by = TT_LOSS_OVER_BATCH;
        Py_XDECREF(logits);
    }
    Py_XDECREF(source);
    return made_by;
}

/* The only input of a node that has a gradient; owned, or NULL: there are several, or none. */
static PyObject *only_input_of(PyObject *node)
{
    PyObject *inputs = PyObject_GetAttrString(node, "next_functions"); /* owned */
    Py_ssize_t count = inputs != NULL && PyTuple_Check(inputs) ? PyTuple_GET_SIZE(inputs) : 0;
    PyObject *only = NULL; /* borrowed */
    int32_t found = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GET_ITEM(inputs, i); /* borrowed */
        PyObject *one = PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 ? PyTuple_GET_ITEM(pair, 0)
                                                                           : NULL; /* borrowed */
        found += one != NULL && one != Py_None;
        only = one != NULL && one != Py_None ? one : only;
    }
    only = found == 1 ? Py_NewRef(only) : NULL;
    PyErr_Clear();
    Py_XDECREF(inputs);
    return only;
}

static bool is_any(const char *type, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (begins(type, names[i]))
            return true;
    return false;
}

/* Is a prediction for each sample compared with the labels of all?  [N, 1] and [N] make N x N differences. */
static bool is_broadcast(const runs_watch *self, PyObject *node)
{
    static const char *const sums[] = { "Mean", "Sum",     "Div",    "Pow",      "Abs",
                                        "Mul",  "MseLoss", "L1Loss", "SmoothL1", "HuberLoss" };
    enum { DEEPEST = 6 };
    int64_t out[MOST_DIMENSIONS], in[MOST_DIMENSIONS];
    PyObject *at = Py_NewRef(node); /* owned */
    for (int depth = 0; depth < DEEPEST && at != NULL; depth++) {
        if (!is_any(Py_TYPE(at)->tp_name, sums, sizeof sums / sizeof *sums))
            break;
        Py_XSETREF(at, input_of(at));
    }
    static const char *const differences[] = { "SubBackward", "RsubBackward", "ExpandBackward" };
    bool is_difference = at != NULL && at != Py_None && is_any(Py_TYPE(at)->tp_name, differences, 3);
    PyObject *input = is_difference ? only_input_of(at) : NULL; /* owned */
    int64_t wide = input != NULL ? shape_of(at, out) : 0;
    int64_t narrow = wide == 2 ? shape_of(input, in) : 0;
    Py_XDECREF(input);
    Py_XDECREF(at);
    return narrow > 0 && out[0] > 1 && out[0] == out[1] && out[0] == self->batch_rows &&
           in[0] == out[0] && (narrow == 1 || (narrow == 2 && in[1] == 1));
}

/* What computed the loss, of those that are never negative; means and sums of it are looked through.  The
 * labels themselves are gone: backward has begun. */
void runs_watch_note_labels(runs_watch *self, PyObject *loss, PyObject *name)
{
    enum { DEEPEST = 4 };
    PyObject *grad_fn = self->state->torch.grad_fn;
    if (!runs_watch_is_due(self) || grad_fn == NULL || self->recorder->rec == NULL)
        return;
    PyObject *node = tensor_torch_get(grad_fn, loss); /* owned */
    PyErr_Clear();
    bool is_wrong = node != NULL && node != Py_None && is_broadcast(self, node);
    for (int depth = 0; node != NULL && depth < DEEPEST; depth++) {
        const char *type = Py_TYPE(node)->tp_name;
        int made_by = is_wrong ? TT_LOSS_BROADCAST : loss_of(node);
        int32_t known = 0;
        if (made_by != 0)
            runs_watch_record_number(
                self, runs_watch_own_site(self, &known, "tensortap/labels", name, true), made_by);
        bool is_transparent = begins(type, "Mean") || begins(type, "Sum") || begins(type, "Div");
        Py_XSETREF(node, made_by == 0 && is_transparent ? input_of(node) : NULL);
    }
    Py_XDECREF(node);
}

/* ---- inside a module ------------------------------------------------------------ */

enum { MOST_NODES = 128, MOST_ENTRIES = 8 };

/* Nodes that a module's call made: from its output to what it was given. */
typedef struct region {
    runs_watch *watch;
    PyObject *nodes[MOST_NODES]; /* owned */
    int32_t count;
    PyObject *entries[MOST_ENTRIES]; /* owned; of the inputs */
    int32_t entry_count;
} region;

static bool has_node(PyObject *const *nodes, int32_t count, const PyObject *node)
{
    for (int32_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

/* Takes the reference. */
static void add_node(region *r, PyObject *node)
{
    bool is_new = node != NULL && node != Py_None && r->count < MOST_NODES &&
                  !has_node(r->nodes, r->count, node) && !has_node(r->entries, r->entry_count, node);
    if (is_new)
        r->nodes[r->count++] = node;
    else
        Py_XDECREF(node);
}

static int found_entry(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    region *r = context;
    PyObject *node = tensor_torch_get(r->watch->state->torch.grad_fn, tensor); /* owned */
    PyErr_Clear();
    if (node != NULL && node != Py_None && r->entry_count < MOST_ENTRIES)
        r->entries[r->entry_count++] = node;
    else
        Py_XDECREF(node);
    return 0;
}

static int found_exit(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    region *r = context;
    add_node(r, tensor_torch_get(r->watch->state->torch.grad_fn, tensor));
    PyErr_Clear();
    return 0;
}

static void add_inputs(region *r, PyObject *node)
{
    PyObject *inputs = PyObject_GetAttrString(node, "next_functions"); /* owned */
    Py_ssize_t count = inputs != NULL && PyTuple_Check(inputs) ? PyTuple_GET_SIZE(inputs) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GET_ITEM(inputs, i); /* borrowed */
        if (PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2)
            add_node(r, Py_NewRef(PyTuple_GET_ITEM(pair, 0)));
    }
    PyErr_Clear();
    Py_XDECREF(inputs);
}

/* Where a softmax was taken. */
typedef struct softmax {
    int64_t dim, ndim, shape[MOST_DIMENSIONS];
} softmax;

static bool is_softmax(PyObject *node)
{
    const char *type = Py_TYPE(node)->tp_name;
    return begins(type, "SoftmaxBackward") || begins(type, "SafeSoftmaxBackward");
}

static bool read_softmax(PyObject *node, softmax *out)
{
    PyObject *dim = PyObject_GetAttrString(node, "_saved_dim"); /* owned */
    out->ndim = dim != NULL && PyLong_Check(dim) ? shape_of(node, out->shape) : 0;
    if (out->ndim > 0) {
        out->dim = (int64_t)PyLong_AsUnsignedLongLongMask(dim); /* torch gives -1 as 2^64 - 1 */
        out->dim += out->dim < 0 ? out->ndim : 0;
    }
    PyErr_Clear();
    Py_XDECREF(dim);
    return out->ndim >= 2 && out->dim >= 0 && out->dim < out->ndim;
}

/* Is it of a parameter alone?  Its first dimension is no batch then. */
static bool is_of_parameter(PyObject *node)
{
    PyObject *source = source_of(node); /* owned */
    bool is_so = source != NULL && begins(Py_TYPE(source)->tp_name, "AccumulateGrad");
    Py_XDECREF(source);
    return is_so;
}

/* What a product of matrices has on its left, behind dropout and changes of form that leave dimensions where they
 * are; owned, or NULL. */
static PyObject *left_of(PyObject *product)
{
    static const char *const passed[] = { "View",  "UnsafeView", "Reshape", "Alias",        "ToCopy",
                                          "Clone", "Expand",     "Mul",     "NativeDropout" };
    enum { DEEPEST = 8 };
    PyObject *at = input_of(product); /* owned */
    for (int depth = 0; at != NULL && at != Py_None && depth < DEEPEST; depth++) {
        bool is_passed = false;
        const char *type = Py_TYPE(at)->tp_name;
        for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
            is_passed |= begins(type, passed[i]) && begins(type + strlen(passed[i]), "Backward");
        if (!is_passed)
            break;
        Py_XSETREF(at, input_of(at));
    }
    return at;
}

/* tt_softmax_over, or 0. */
static int judge(const runs_watch *self, PyObject *node)
{
    softmax s;
    if (is_softmax(node)) {
        bool is_square = read_softmax(node, &s) && s.shape[0] == s.shape[1];
        return s.ndim >= 2 && s.dim == 0 && s.shape[0] == self->batch_rows && s.shape[0] > 1 &&
                       !is_square && !is_of_parameter(node)
                   ? TT_SOFTMAX_OVER_BATCH
                   : 0;
    }
    if (!begins(Py_TYPE(node)->tp_name, "BmmBackward"))
        return 0;
    PyObject *left = left_of(node); /* owned */
    bool is_wrong = left != NULL && left != Py_None && is_softmax(left) && read_softmax(left, &s) &&
                    s.ndim >= 3 && s.dim == s.ndim - 2; /* the product sums over the last one */
    Py_XDECREF(left);
    return is_wrong ? TT_SOFTMAX_OVER_QUERIES : 0;
}

void runs_watch_note_graph(runs_watch *self, PyObject *name, const calls_event *event, int requires_grad)
{
    tensor_torch *torch = &self->state->torch;
    region r = { .watch = self };
    int over = 0;
    int32_t known = 0;
    if (requires_grad == 0)
        runs_watch_record_number(self, runs_watch_own_site(self, &known, "tensortap/blocked", name, true),
                                 1);
    if (requires_grad != 1 || torch->grad_fn == NULL)
        return;
    (void)tensor_walk(torch, event->args, found_entry, &r);
    if (event->kwargs != NULL)
        (void)tensor_walk(torch, event->kwargs, found_entry, &r);
    (void)tensor_walk(torch, event->output, found_exit, &r);
    for (int32_t i = 0; i < r.count && over == 0; i++) {
        over = judge(self, r.nodes[i]);
        add_inputs(&r, r.nodes[i]);
    }
    if (over != 0)
        runs_watch_record_number(self, runs_watch_own_site(self, &known, "tensortap/softmax", name, true),
                                 over);
    PyErr_Clear();
    for (int32_t i = 0; i < r.count; i++)
        Py_DECREF(r.nodes[i]);
    for (int32_t i = 0; i < r.entry_count; i++)
        Py_DECREF(r.entries[i]);
}
