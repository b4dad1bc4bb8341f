/* calls.c -- which tensors come back from a function, and to what.
 *
 * Exists because the caller's name for a tensor and the function's are two names
 * with two keys, and an address tells little: that of a dead tensor is given to
 * the next one.  So a returned value is kept for this one execution of the
 * statement that made the call, and goes into those names that the call's result
 * flows into.  It is forgotten when another statement of the frame calls something.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "flow/chart.h"
#include "tensor/walk.h"

#include <string.h>

void flow_calls_clear(flow_calls *calls)
{
    PyMem_Free(calls->back);
    *calls = (flow_calls){ 0 };
}

/* ---- given ------------------------------------------------------------------- */

static void list_values(flow_return *back, PyObject *value)
{
    tensor_children it;
    tensor_children_open(&it, NULL, value, 0);
    if (!tensor_children_has_any(&it))
        back->value[back->value_count++] = value;
    while (back->value_count < FLOW_PASSED && tensor_children_next(&it))
        back->value[back->value_count++] = it.value;
    tensor_children_close(&it);
}

void flow_calls_forget(flow_calls *calls, uint64_t frame, uint64_t run)
{
    size_t kept = 0;
    for (size_t i = 0; i < calls->count; i++) {
        const lines_call *to = &calls->back[i].to;
        if (to->frame == frame && to->run != run)
            continue;
        if (kept != i)
            calls->back[kept] = calls->back[i];
        kept++;
    }
    calls->count = kept;
}

static bool make_room(flow_calls *calls)
{
    if (calls->count == FLOW_RETURNS) {
        calls->count -= FLOW_RETURNS / 2;
        memmove(calls->back, calls->back + FLOW_RETURNS / 2, calls->count * sizeof *calls->back);
    }
    return base_array_grow(&calls->back, &calls->cap, calls->count + 1, sizeof *calls->back);
}

flow_return *flow_calls_add(flow_calls *calls, const lines_call *to, PyObject *value)
{
    flow_calls_forget(calls, to->frame, to->run);
    if (!make_room(calls))
        return NULL;
    flow_return *back = &calls->back[calls->count++];
    back->to = *to;
    back->value_count = back->from_count = 0;
    list_values(back, value);
    return back;
}

/* ---- taken ------------------------------------------------------------------- */

static bool has_value(const flow_return *back, const void *object)
{
    for (size_t i = 0; i < back->value_count; i++)
        if (back->value[i] == object)
            return true;
    return false;
}

/* The object itself, if it is known, else all that the value is made of. */
size_t flow_return_origins(const flow_return *back, const void *object, flow_origin *out, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < back->from_count && count < most && object != NULL; i++)
        if (back->from[i].object == object)
            out[count++] = back->from[i];
    if (count > 0)
        return count;
    for (size_t i = 0; i < back->from_count && count < most; i++)
        out[count++] = back->from[i];
    return count;
}

bool flow_calls_next(const flow_calls *calls, const lines_call *call, const void *object, size_t *at,
                     const flow_return **back)
{
    for (; *at < calls->count; ++*at) {
        const flow_return *one = &calls->back[*at];
        if (one->to.frame == call->frame && one->to.run == call->run &&
            (object == NULL || has_value(one, object))) {
            *back = one;
            ++*at;
            return true;
        }
    }
    return false;
}

static bool is_for(const flow_return *back, const lines_event *event)
{
    return back->to.frame == event->frame && back->to.run == event->run;
}

static bool is_inside(const flow_return *back, const lines_event *event)
{
    return is_for(back, event) && event->first_site <= back->to.site && back->to.site < event->end_site;
}

/* Is the call's result in what the statement wrote there? */
static bool flows_into(const flow_return *back, const lines_event *event, const lines_change *change)
{
    if (change->calls == NULL)
        return is_inside(back, event);
    for (size_t i = 0; i < change->call_count; i++)
        if (change->calls[i] == back->to.site)
            return is_for(back, event);
    return false;
}

/* Is it that value, or a part of it, and not made of it?  What is made of it may have
 * its address, if it has gone. */
static bool is_whole(const flow_return *back, const lines_change *change)
{
    size_t i = 0;
    while (i < change->direct_count && change->calls[i] != back->to.site)
        i++;
    return i < change->direct_count && has_value(back, change->now.object);
}

/* Did the value go as it is into another item of what the statement stored there? */
static bool is_elsewhere(const flow_return *back, const lines_event *event, const lines_change *change)
{
    for (size_t i = 0; i < event->change_count; i++)
        if (event->changes[i].calls == change->calls && is_whole(back, &event->changes[i]))
            return true;
    return false;
}

size_t flow_calls_into(const flow_calls *calls, const lines_event *event, size_t at, flow_origin *out,
                       size_t most)
{
    const lines_change *change = &event->changes[at];
    const void *object = change->now.object;
    size_t count = 0;
    bool is_one = false;
    for (size_t i = 0; i < calls->count && !is_one; i++)
        is_one = is_for(&calls->back[i], event) && is_whole(&calls->back[i], change);
    for (size_t i = 0; i < calls->count; i++) {
        const flow_return *back = &calls->back[i];
        if (flows_into(back, event, change) &&
            (is_one ? is_whole(back, change) : !is_elsewhere(back, event, change)))
            count += flow_return_origins(back, is_one ? object : NULL, out + count, most - count);
    }
    return count;
}

size_t flow_calls_passed(const flow_calls *calls, const lines_event *event, flow_origin *out, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < calls->count; i++)
        if (is_inside(&calls->back[i], event))
            count += flow_return_origins(&calls->back[i], NULL, out + count, most - count);
    return count;
}
