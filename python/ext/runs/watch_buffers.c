/* watch_buffers.c -- buffers of a model: running statistics, tables, masks.
 *
 * Read when the optimizer is about to step, as parameters are, but only those that have changed since: most never do,
 * and some are large.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

typedef struct buffer {
    calls_parameter base; /* looked up in its module each time */
    int32_t site;         /* -1: not asked for yet */
    bool has_any;         /* it was recorded once, then: */
    uintptr_t at;         /* address of the tensor object */
    int64_t mark;         /* of runs_watch_mark; -1: a device has its elements, and nobody knows */
    uint32_t version;     /* torch counts changes, but not those that batch norm makes */
    int64_t step;
} buffer;

/* (name, module, key) */
static int read_buffer(void *Py_UNUSED(context), void *to, PyObject *item)
{
    buffer *at = to;
    PyObject *name, *module, *key; /* borrowed */
    if (!PyArg_ParseTuple(item, "UOU", &name, &module, &key))
        return -1;
    at->site = -1;
    at->base.is_buffer = true;
    at->base.name = Py_NewRef(name);
    at->base.key = Py_NewRef(key);
    at->base.module = PyWeakref_NewRef(module, NULL);
    return at->base.module != NULL ? 0 : -1;
}

PyObject *runs_watch_set_buffers(PyObject *self, PyObject *list)
{
    int result =
        calls_parameters_set(&((runs_watch *)self)->buffers, list, sizeof(buffer), read_buffer, NULL);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

/* Notes how the buffer is now; false: as it was. */
static bool has_changed(const runs_watch *self, buffer *b, PyObject *tensor)
{
    buffer now = *b;
    PyObject *local = tensor_torch_local(&self->state->torch, tensor); /* owned */
    now.at = (uintptr_t)tensor;
    now.mark = local != NULL ? runs_watch_mark(self, local) : -1;
    now.version = 0;
    if (local != NULL)
        (void)tensor_version_read(&self->state->torch, local, VERSION_GUARDED, &now.version);
    Py_XDECREF(local);
    bool is_other = !b->has_any || now.mark < 0 || now.at != b->at || now.mark != b->mark ||
                    now.version != b->version;
    *b = now;
    b->has_any = true;
    return is_other;
}

static int read_one(void *context, void *at, Py_ssize_t Py_UNUSED(index), PyObject *tensor)
{
    runs_watch *self = context;
    buffer *b = at;
    if (tensor == NULL || self->recorder->rec == NULL)
        return 0;
    if (b->site < 0)
        b->site = runs_watch_site(self, "buffer", b->base.name);
    bool is_read = b->has_any && b->step == self->recorder->step; /* by another optimizer */
    if (is_read || runs_watch_products(self, b->site) == 0 || !has_changed(self, b, tensor))
        return 0;
    b->step = self->recorder->step;
    const runs_watch_tag tag = { .site = b->site, .phase = TT_PHASE_TRAIN };
    return runs_watch_record_alone(self, tensor, &tag, NULL) < 0 ? -1 : 0;
}

PyObject *runs_watch_read_buffers(PyObject *self, PyObject *Py_UNUSED(none))
{
    runs_watch *watch = (runs_watch *)self;
    int result =
        calls_parameters_each(watch->state, &watch->buffers, NULL, watch->buffers.count, read_one, watch);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}
