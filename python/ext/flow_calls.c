/* flow_calls.c -- which tensors go into a function, and which come back.
 *
 * Exists because the caller's name for a tensor and the function's are two names
 * with two keys, and an address tells little: that of a dead tensor is given to
 * the next one.  So addresses are compared only while the statement runs that
 * does the call: with what this statement reads, and with what was returned to it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow_calls.h"

void flow_calls_clear(flow_calls *calls)
{
    PyMem_Free(calls->call);
    *calls = (flow_calls){ 0 };
}

/* ---- into a function ------------------------------------------------------- */

void flow_calls_begin(flow_calls *calls, const line_event *event)
{
    if (calls->call == NULL && (calls->call = PyMem_Calloc(FLOW_CALLS, sizeof *calls->call)) == NULL)
        return; /* arrows will be missing, no more */
    flow_call *call = &calls->call[event->frame % FLOW_CALLS];
    call->frame = event->frame;
    call->count = event->read_count < FLOW_PASSED ? event->read_count : FLOW_PASSED;
    for (size_t i = 0; i < call->count; i++) {
        call->read[i].key = event->reads[i].key;
        call->read[i].object = event->reads[i].object;
        call->read[i].version = event->reads[i].version;
    }
}

uint64_t flow_calls_argument(const flow_calls *calls, uint64_t caller, const line_name *read)
{
    const flow_call *call = calls->call != NULL ? &calls->call[caller % FLOW_CALLS] : NULL;
    if (call == NULL || caller == 0 || call->frame != caller || read->object == NULL)
        return 0;
    for (size_t i = 0; i < call->count; i++)
        if (call->read[i].object == read->object && call->read[i].version == read->version)
            return call->read[i].key;
    return 0;
}

/* ---- and back ---------------------------------------------------------------- */

static void list_values(flow_return *back, PyObject *value)
{
    PyObject *key, *item; /* borrowed */
    Py_ssize_t at = 0;
    if (PyTuple_Check(value)) {
        for (; at < PyTuple_GET_SIZE(value) && back->value_count < FLOW_PASSED; at++)
            back->value[back->value_count++] = PyTuple_GET_ITEM(value, at);
    } else if (PyList_CheckExact(value)) {
        for (; at < PyList_GET_SIZE(value) && back->value_count < FLOW_PASSED; at++)
            back->value[back->value_count++] = PyList_GET_ITEM(value, at);
    } else if (PyDict_CheckExact(value)) {
        while (back->value_count < FLOW_PASSED && PyDict_Next(value, &at, &key, &item))
            back->value[back->value_count++] = item;
    } else {
        back->value[back->value_count++] = value;
    }
}

flow_return *flow_calls_give(flow_calls *calls, uint64_t caller, int line, PyObject *value)
{
    flow_return *back = &calls->back[calls->next++ % FLOW_RETURNS];
    calls->open += back->caller == 0;
    back->caller = caller;
    back->line = line;
    back->value_count = back->key_count = 0;
    list_values(back, value);
    return back;
}

static bool has_value(const flow_return *back, const void *object)
{
    for (size_t i = 0; i < back->value_count; i++)
        if (back->value[i] == object)
            return true;
    return false;
}

/* Did the value go into one of the names that the statement changed? */
static bool is_taken(const flow_return *back, const line_event *event)
{
    for (size_t i = 0; i < event->change_count; i++)
        if (has_value(back, event->changes[i].now.object))
            return true;
    return false;
}

static bool is_for(const flow_return *back, const line_event *event)
{
    return back->caller == event->frame && back->line == event->line;
}

static size_t copy_keys(const flow_return *back, uint64_t *out, size_t most)
{
    size_t count = back->key_count < most ? back->key_count : most;
    for (size_t i = 0; i < count; i++)
        out[i] = back->key[i];
    return count;
}

size_t flow_calls_given(const flow_calls *calls, const line_event *event, size_t at, uint64_t *out,
                        size_t most)
{
    const void *object = event->changes[at].now.object;
    size_t count = 0;
    bool is_whole = false; /* it is what was returned, not made of it */
    if (calls->open == 0)
        return 0;
    for (size_t i = 0; i < FLOW_RETURNS && !is_whole; i++)
        is_whole = is_for(&calls->back[i], event) && has_value(&calls->back[i], object);
    for (size_t i = 0; i < FLOW_RETURNS; i++) {
        const flow_return *back = &calls->back[i];
        if (is_for(back, event) && (is_whole ? has_value(back, object) : !is_taken(back, event)))
            count += copy_keys(back, out + count, most - count);
    }
    return count;
}

size_t flow_calls_passed(const flow_calls *calls, const line_event *event, uint64_t *out, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < FLOW_RETURNS && calls->open > 0; i++)
        if (is_for(&calls->back[i], event))
            count += copy_keys(&calls->back[i], out + count, most - count);
    return count;
}

void flow_calls_end(flow_calls *calls, uint64_t frame)
{
    for (size_t i = 0; i < FLOW_RETURNS && calls->open > 0; i++) {
        if (calls->back[i].caller != frame)
            continue;
        calls->back[i].caller = 0;
        calls->open--;
    }
}
