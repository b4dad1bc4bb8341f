/* descent.c -- where a function has its tensors from: the arrows between frames.
 *
 * The caller knows a tensor by another name, and perhaps has no node for it yet; a generator
 * was given its argument by a statement that is long over.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"
#include "lines/source.h"

/* Has the function this variable from the function around it? */
static bool is_free(PyObject *code, PyObject *name)
{
    if (PyCode_GetNumFree((PyCodeObject *)code) == 0)
        return false;
    PyObject *names = PyObject_GetAttrString(code, "co_freevars"); /* owned */
    bool is_it = names != NULL && PySequence_Contains(names, name) == 1;
    Py_XDECREF(names);
    PyErr_Clear();
    return is_it;
}

void flow_join_caller(flow_object *self, const lines_event *event, flow_node *node,
                      const flow_descent *descent)
{
    uint64_t outer = 0;
    if (descent->caller_key != 0)
        flow_chart_expect(&self->chart, node, descent->caller_key);
    else if (is_free(event->code, node->name))
        outer = flow_chart_outer(&self->chart, node);
    (void)flow_node_join(node, &outer, 1);
    for (size_t i = 0; i < descent->count; i++)
        flow_chart_expect(&self->chart, node, descent->key[i]);
    flow_chart_adopt(&self->chart, node);
}

/* Adds what a value that a call gave, or the object in it, was made of. */
static void add_origins(const flow_return *back, const void *object, flow_descent *out)
{
    flow_origin from[FLOW_ORIGINS];
    size_t count = flow_return_origins(back, object, from, FLOW_ORIGINS - out->count);
    for (size_t i = 0; i < count; i++)
        out->key[out->count++] = from[i].key;
}

void flow_find_descent(const flow_object *self, const lines_event *event, const lines_name *read,
                       flow_descent *out)
{
    lines_source *source = self->state->lines;
    const flow_return *back = NULL;
    size_t at = 0;
    lines_call call;
    out->caller_key = lines_frame_passed(source, self->consumer, event->at, read);
    out->count = 0;
    if (out->caller_key != 0 || read->object == NULL)
        return;
    if (!lines_frame_below(source, self->consumer, event->at, &call))
        call.frame = 0;
    while (flow_calls_next(&self->calls, &call, read->object, &at, &back))
        if (lines_frame_takes(source, self->consumer, event->at, read, back->to.site, false))
            add_origins(back, read->object, out);
    if (out->count > 0 || read->kind != LINES_LOCAL || read->is_seen)
        return;
    uint64_t holder = lines_frame_holder(source, self->consumer, event->at, read);
    if (holder != 0 &&
        (flow_chart_find(&self->chart, holder) != 0 || flow_chart_waiting(&self->chart, holder) != NULL))
        out->caller_key = holder;
    if (out->caller_key != 0)
        return;
    /* g(x + 1), g(f(x) * 2): the caller has no name for it, but has computed it just now. */
    out->count = lines_frame_given(source, self->consumer, event->at, read, out->key, FLOW_ORIGINS);
    for (at = 0; flow_calls_next(&self->calls, &call, NULL, &at, &back);)
        if (lines_frame_takes(source, self->consumer, event->at, read, back->to.site, true))
            add_origins(back, NULL, out);
}

void flow_on_sent(void *context, const lines_event *event)
{
    flow_object *self = context;
    flow_descent descent;
    flow_find_descent(self, event, &event->reads[0], &descent);
    const uint64_t *keys = descent.caller_key != 0 ? &descent.caller_key : descent.key;
    size_t count = descent.caller_key != 0 ? 1 : descent.count;
    lines_call to = { .frame = event->frame, .run = event->run, .site = event->first_site };
    flow_return *back = count > 0 ? flow_calls_give(&self->calls, &to, event->value) : NULL;
    for (size_t i = 0; back != NULL && i < count; i++)
        back->from[back->from_count++] =
            (flow_origin){ .key = keys[i], .object = event->value, .is_above = true };
}
