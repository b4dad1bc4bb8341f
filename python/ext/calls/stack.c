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
#include "calls/source.h"

/* Asked for once a call: in a shared library each access costs a function call. */
static _Thread_local calls_thread this_thread;

calls_thread *calls_thread_here(void)
{
    return &this_thread;
}

/* ---- memory ---------------------------------------------------------------- */

/* A frame that was given back is used again: malloc takes longer than all the rest. */
calls_frame *calls_frame_take(binding_state *state)
{
    calls_frame *frame = state->calls->spare;
    if (frame == NULL)
        return PyMem_Malloc(sizeof *frame);
    state->calls->spare = frame->below;
    return frame;
}

void calls_frame_give(binding_state *state, calls_frame *frame)
{
    frame->below = state->calls->spare;
    state->calls->spare = frame;
}

void calls_frames_free(calls_frame *spare)
{
    while (spare != NULL) {
        calls_frame *below = spare->below;
        PyMem_Free(spare);
        spare = below;
    }
}

/* ---- who is around whom ------------------------------------------------------ */

/* Does this frame of Python's run: is it `at`, or who called that? */
static bool is_running(const base_frame *wanted, base_frame *at)
{
    while (at != NULL && at != wanted)
        at = base_frame_back(at);
    return at != NULL;
}

void calls_frame_place(calls_frame *frame)
{
    base_frame *here = base_frame_running();
    calls_frame *outer = frame->thread->top;
    frame->caller = here;
    while (outer != NULL && !is_running(outer->caller, here))
        outer = outer->below;
    frame->outer = outer;
}

void calls_frame_push(calls_frame *frame)
{
    frame->below = frame->thread->top;
    frame->thread->top = frame;
}

/* Those above it are of other greenlets. */
void calls_frame_pop(calls_frame *frame)
{
    calls_frame **at = &frame->thread->top;
    while (*at != NULL && *at != frame)
        at = &(*at)->below;
    if (*at == frame)
        *at = frame->below;
}
