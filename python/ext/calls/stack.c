/* stack.c -- the calls of watched modules that are going on, thread by thread.
 *
 * Exists because of greenlets: a thread that switches between them has several calls
 * going on of which none is around the other, and they end in any order.  What a
 * greenlet had on the C stack is put elsewhere while it waits, so a frame lives in
 * memory of ours; and whether one call is around another is told by Python's own
 * frames, which lead from the inner one to the outer one and never to another greenlet's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"
#include "binding/state.h"

/* Asked for once a call: in a shared library each access costs a function call. */
static _Thread_local module_thread this_thread;

module_thread *module_thread_here(void)
{
    return &this_thread;
}

bool module_source_is_inside(void)
{
    return this_thread.inside != 0;
}

/* ---- memory ---------------------------------------------------------------- */

/* A frame that was given back is used again: malloc takes longer than all the rest. */
module_frame *module_frame_take(core_state *state)
{
    module_frame *frame = state->source.spare;
    if (frame == NULL)
        return PyMem_Malloc(sizeof *frame);
    state->source.spare = frame->below;
    return frame;
}

void module_frame_give(core_state *state, module_frame *frame)
{
    frame->below = state->source.spare;
    state->source.spare = frame;
}

void module_frames_free(module_frame *spare)
{
    while (spare != NULL) {
        module_frame *below = spare->below;
        PyMem_Free(spare);
        spare = below;
    }
}

/* ---- who is around whom ------------------------------------------------------ */

/* Does this frame of Python's run: is it `at`, or who called that? */
static bool is_running(const line_frame *wanted, line_frame *at)
{
    while (at != NULL && at != wanted)
        at = locals_back(at);
    return at != NULL;
}

void module_frame_place(module_frame *frame)
{
    line_frame *here = locals_running();
    module_frame *outer = frame->thread->top;
    /* Hooks before and after may be called from two frames, of which this one called the other. */
    frame->caller = frame->is_hook && here != NULL ? locals_back(here) : here;
    while (outer != NULL && !is_running(outer->caller, here))
        outer = outer->below;
    frame->outer = outer;
}

void module_frame_push(module_frame *frame)
{
    frame->below = frame->thread->top;
    frame->thread->top = frame;
}

static bool is_inside(const module_frame *frame, const module_frame *outer)
{
    while (frame != NULL && frame != outer)
        frame = frame->outer;
    return frame != NULL;
}

static void drop(core_state *state, module_frame *lost)
{
    Py_DECREF(lost->links);
    if (lost->calls != lost->few_calls)
        PyMem_Free(lost->calls);
    module_frame_give(state, lost);
}

void module_frame_pop(core_state *state, module_frame *frame)
{
    module_frame **at = &frame->thread->top;
    while (*at != NULL && *at != frame) {
        module_frame *above = *at;
        if (above->is_hook && is_inside(above, frame)) { /* its second half never came */
            *at = above->below;
            drop(state, above);
        } else { /* of another greenlet */
            at = &above->below;
        }
    }
    if (*at == frame)
        *at = frame->below;
}

module_frame *module_frame_of_hook(const PyObject *link)
{
    line_frame *here = locals_running();
    for (module_frame *f = this_thread.top; f != NULL; f = f->below) {
        if (!is_running(f->caller, here))
            continue;
        if (!f->is_hook)
            return NULL;
        if (PyTuple_GET_ITEM(f->links, 0) == link)
            return f;
    }
    return NULL;
}
