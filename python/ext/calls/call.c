/* call.c -- one call of a watched module, and the events that consumers get.
 *
 * Runs in the middle of the user's forward, so what it does without being asked
 * is counted in nanoseconds: no allocation, no attribute lookup, no clock.  Open
 * calls form a stack in each thread; consumers that want depth and phase read them from it.
 *
 * With greenlets a thread has several open calls that are not nested, and they end in any order.  The C
 * stack of a greenlet is moved away while it waits, so a frame lives in memory of our own.  Python's frames
 * show whether one call is inside another: they lead from the inner one to the outer one, never to another
 * greenlet's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/frame.h"
#include "binding/state.h"
#include "calls/pipeline.h"
#include "calls/source.h"
#include "tensor/walk.h"

/* ---- the stack ----------------------------------------------------------- */

/* Asked for once a call: in a shared library each access costs a function call.  Not inline: the
 * compiler would rather look the address up again than keep it. */
static _Thread_local calls_thread this_thread;

__attribute__((noinline)) calls_thread *calls_thread_here(void)
{
    return &this_thread;
}

/* The frame that the last call of this module left, or a new one; NULL with MemoryError. */
static calls_frame *frame_take(calls_tap *tap)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tap->links);
    calls_frame *frame = tap->spare;
    tap->spare = NULL;
    if (frame != NULL && frame->room >= count)
        return frame;
    PyMem_Free(frame);
    frame = PyMem_Malloc(sizeof *frame + (size_t)count * sizeof *frame->calls);
    if (frame != NULL)
        frame->room = count;
    else
        PyErr_NoMemory();
    return frame;
}

/* Does this frame of Python's run: is it `at`, or who called that? */
static bool is_running(const base_frame *wanted, base_frame *at)
{
    while (at != NULL && at != wanted)
        at = base_frame_back(at);
    return at != NULL;
}

/* Finds `outer`, in what Python runs now. */
static void find_outer(calls_frame *frame)
{
    base_frame *here = base_frame_running();
    calls_frame *outer = frame->thread->top;
    frame->caller = here;
    while (outer != NULL && !is_running(outer->caller, here))
        outer = outer->below;
    frame->outer = outer;
}

static void frame_push(calls_frame *frame)
{
    frame->below = frame->thread->top;
    frame->thread->top = frame;
}

/* Those above it are of other greenlets. */
static void frame_pop(calls_frame *frame)
{
    calls_frame **at = &frame->thread->top;
    while (*at != NULL && *at != frame)
        at = &(*at)->below;
    if (*at == frame)
        *at = frame->below;
}

/* ---- events --------------------------------------------------------------- */

/* Is nothing to be delivered to this link? */
static bool is_ignored(const calls_frame *frame, const calls_link *link)
{
    return link->consumer == NULL || link->consumer->is_off ||
           (frame->is_in_backward && link->consumer->wants & CALLS_FORWARD_ONLY);
}

/* The module's own flag: an ordinary attribute of the instance, or a property (OptimizedModule). */
bool calls_is_training(binding_state *state, PyObject *module)
{
    PyObject *dict = PyObject_GenericGetDict(module, NULL); /* owned */
    PyObject *flag = dict != NULL ? Py_XNewRef(PyDict_GetItemWithError(dict, state->calls->training))
                                  : NULL; /* owned */
    if (flag == NULL && !PyErr_Occurred())
        flag = PyObject_GetAttr(module, state->calls->training);
    bool is_training = flag != Py_False;
    PyErr_Clear();
    Py_XDECREF(flag);
    Py_XDECREF(dict);
    return is_training;
}

uint32_t calls_depth(const calls_frame *frame, const calls_consumer *consumer)
{
    uint32_t depth = 0;
    for (; frame != NULL; frame = frame->outer)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(frame->links); i++)
            depth += calls_link_at(frame->links, i)->consumer == consumer;
    return depth;
}

static void fill_event(binding_state *state, const calls_frame *frame, Py_ssize_t i, tensor_looks *looks,
                       calls_event *event)
{
    const calls_link *link = calls_link_at(frame->links, i);
    if (frame->thread->number == 0)
        frame->thread->number = ++state->calls->thread_count;
    *event = (calls_event){
        .module = frame->module,
        .args = frame->args,
        .kwargs = frame->kwargs,
        .call = frame->calls[i],
        .thread = frame->thread->number,
        .is_training = frame->is_training,
        .is_outermost = frame->outer == NULL,
        .start = frame->start,
        .looks = looks,
        .depth = link->consumer->wants & CALLS_DEPTH ? calls_depth(frame->outer, link->consumer) : 0,
    };
}

/* ---- the tensors of a call -------------------------------------------------- */

typedef struct found_tensor {
    PyObject *tensor; /* owned */
    const calls_path *path;
} found_tensor;

/* The tensors that one call takes or returns, found once for all its consumers. */
typedef struct found_tensors {
    binding_state *state;
    calls_cache *known; /* of the tap */
    calls_role role;
    found_tensor *all; /* owned unless it is `few` */
    size_t count, cap;
    found_tensor few[4];
} found_tensors;

/* The path that a walk over this module's tensors has met. */
typedef struct known_path {
    calls_cached cached; /* the walk's hash */
    const calls_path *path;
} known_path;

/* NULL with an exception. */
static const calls_path *path_at(const found_tensors *found, const tensor_path *at)
{
    known_path *known = calls_cache_find(found->known, at->hash);
    if (known != NULL)
        return known->path;
    PyObject *none = PyUnicode_FromString("");                         /* owned */
    PyObject *text = none != NULL ? tensor_path_name(none, at) : NULL; /* owned */
    const calls_path *path = NULL;
    if (text != NULL)
        path = calls_path_of(&found->state->calls->paths, found->role, text);
    if (path != NULL && (known = PyMem_Malloc(sizeof *known)) != NULL) {
        *known = (known_path){ .cached = { at->hash }, .path = path };
        if (!calls_cache_add(found->known, &known->cached))
            PyMem_Free(known); /* it is found again, the long way */
    }
    Py_XDECREF(text);
    Py_XDECREF(none);
    return path;
}

static int found_one(void *context, PyObject *tensor, const tensor_path *at)
{
    found_tensors *found = context;
    const calls_path *path = path_at(found, at);
    if (path == NULL)
        return -1;
    if (found->count == found->cap) {
        found_tensor *grown = PyMem_Malloc(2 * found->cap * sizeof *grown);
        if (grown == NULL)
            return 0;
        memcpy(grown, found->all, found->count * sizeof *grown);
        if (found->all != found->few)
            PyMem_Free(found->all);
        found->all = grown;
        found->cap *= 2;
    }
    found->all[found->count++] = (found_tensor){ Py_NewRef(tensor), path };
    return 0;
}

static void found_begin(found_tensors *found, binding_state *state, calls_tap *tap, calls_role role)
{
    found->state = state;
    found->role = role;
    found->known = &tap->found[role];
    found->all = found->few;
    found->count = 0;
    found->cap = sizeof found->few / sizeof *found->few;
}

/* Adds the tensors of a value; NULL: none.  Code of the program may have failed: then some are missing. */
static void found_add(found_tensors *found, PyObject *value)
{
    if (value != NULL && tensor_walk(&found->state->torch, value, found_one, found) < 0)
        PyErr_Clear();
}

static void found_end(found_tensors *found)
{
    for (size_t i = 0; i < found->count; i++)
        Py_DECREF(found->all[i].tensor);
    if (found->all != found->few)
        PyMem_Free(found->all);
}

/* Does some consumer of this call get such tensors? */
static bool has_takers(const calls_frame *frame, uint32_t roles)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(frame->links); i++) {
        const calls_link *link = calls_link_at(frame->links, i);
        if (!is_ignored(frame, link) && link->consumer->roles & roles)
            return true;
    }
    return false;
}

/* ---- telling consumers ----------------------------------------------------- */

static int tell_tensors(const found_tensors *found, calls_link *link, const calls_event *event)
{
    const calls_consumer *consumer = link->consumer;
    calls_observation seen = { .state = found->state, .looks = event->looks };
    int result = 0;
    if (!(consumer->roles & 1u << found->role) || consumer->calls->tensor == NULL)
        return 0;
    for (size_t i = 0; i < found->count && result == 0 && link->consumer != NULL; i++) {
        const found_tensor *at = &found->all[i];
        seen.tensor = at->tensor;
        result = consumer->calls->tensor(link->consumer, link, event, at->path, &seen);
        if (result == 0 && found->role == CALLS_OUTPUT && link->consumer != NULL &&
            consumer->roles & CALLS_GRADIENTS)
            calls_gradient_await(found->state, link, event, at->tensor, at->path->gradient);
    }
    return result;
}

/* Tells one consumer what happens, and of the tensors.  It may remove itself, and with it its last
 * reference. */
static int tell(calls_thread *thread, int (*call)(calls_consumer *, calls_link *, const calls_event *),
                const found_tensors *found, calls_link *link, const calls_event *event)
{
    calls_consumer *consumer = (calls_consumer *)Py_NewRef((PyObject *)link->consumer);
    int result = 0;
    thread->inside++;
    if (found->count > 0)
        result = tell_tensors(found, link, event);
    if (call != NULL && result == 0 && link->consumer != NULL)
        result = call(consumer, link, event);
    thread->inside--;
    Py_DECREF(consumer);
    return result;
}

uint32_t calls_link_count(calls_link *link, calls_thread *thread, bool is_training, bool is_outermost)
{
    /* Owned: the consumer may remove itself. */
    calls_consumer *consumer = (calls_consumer *)Py_NewRef((PyObject *)link->consumer);
    if (consumer->calls->enter != NULL) {
        thread->inside++;
        consumer->calls->enter(consumer, link, is_training, is_outermost);
        thread->inside--;
    }
    if (link->calls_ever++ == 0 || link->step != *consumer->step) {
        link->step = *consumer->step;
        link->calls = 0;
    }
    Py_DECREF(consumer);
    return link->calls++;
}

/* An outermost call begins: compiled code that runs within it is to know what is wanted. */
static void prepare_compiled(binding_state *state, const calls_frame *frame)
{
    if (!state->calls->is_compiling)
        calls_traced_listen(state);
    for (Py_ssize_t i = 0; state->calls->has_slots && i < PyTuple_GET_SIZE(frame->links); i++)
        if (calls_link_hears(calls_link_at(frame->links, i)))
            calls_traced_set_products(state, calls_link_at(frame->links, i)->consumer);
}

static uint32_t wants_of(const calls_frame *frame)
{
    uint32_t wants = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(frame->links); i++)
        if (!is_ignored(frame, calls_link_at(frame->links, i)))
            wants |= calls_link_at(frame->links, i)->consumer->wants;
    return wants;
}

/* Tells the consumers that the call begins; links, module, args, kwargs and thread are set.
 * -1: one of them objects, nothing is entered. */
static int enter(binding_state *state, calls_frame *frame)
{
    calls_thread *thread = frame->thread;
    Py_ssize_t count = PyTuple_GET_SIZE(frame->links);
    if (calls_traced_drain(state, false) < 0)
        return -1;
    frame->is_in_backward = false;
    uint32_t wants = wants_of(frame);
    if (wants & CALLS_FORWARD_ONLY && probe_is_in_backward()) {
        frame->is_in_backward = true;
        wants = wants_of(frame);
    }
    find_outer(frame);
    frame->is_training = true;
    if (wants & CALLS_PHASE)
        frame->is_training =
            frame->outer != NULL ? frame->outer->is_training : calls_is_training(state, frame->module);
    for (Py_ssize_t i = 0; i < count; i++) {
        calls_link *link = calls_link_at(frame->links, i);
        frame->calls[i] = is_ignored(frame, link)
                              ? 0
                              : calls_link_count(link, thread, frame->is_training, frame->outer == NULL);
    }
    if (frame->outer == NULL)
        prepare_compiled(state, frame);
    frame->start = wants & CALLS_TIME ? base_clock(CLOCK_MONOTONIC) : 0;
    tensor_looks looks = { .torch = &state->torch };
    found_tensors inputs;
    int result = 0;
    found_begin(&inputs, state, frame->tap, CALLS_INPUT);
    if (has_takers(frame, CALLS_INPUTS)) {
        bool has_names = frame->kwargs != NULL && PyDict_GET_SIZE(frame->kwargs) > 0;
        bool is_single = PyTuple_GET_SIZE(frame->args) == 1 && !has_names;
        found_add(&inputs, is_single ? PyTuple_GET_ITEM(frame->args, 0) : frame->args);
        found_add(&inputs, has_names ? frame->kwargs : NULL);
    }
    for (Py_ssize_t i = 0; i < count && result == 0; i++) {
        calls_link *link = calls_link_at(frame->links, i);
        if (is_ignored(frame, link) || (link->consumer->calls->before == NULL && inputs.count == 0))
            continue;
        calls_event event;
        fill_event(state, frame, i, &looks, &event);
        result = tell(thread, link->consumer->calls->before, &inputs, link, &event);
    }
    found_end(&inputs);
    tensor_looks_clear(&looks);
    if (result == 0)
        frame_push(frame);
    return result;
}

/* 0, or -1 with the exception of a consumer; the others still get the event. */
static int tell_after(binding_state *state, calls_frame *frame, PyObject *output, PyObject *exception)
{
    PyObject *objection = NULL; /* owned */
    tensor_looks looks = { .torch = &state->torch };
    found_tensors outputs;
    int64_t end = frame->start != 0 ? base_clock(CLOCK_MONOTONIC) : 0;
    found_begin(&outputs, state, frame->tap, CALLS_OUTPUT);
    if (output != NULL && has_takers(frame, CALLS_OUTPUTS))
        found_add(&outputs, output);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(frame->links); i++) {
        calls_link *link = calls_link_at(frame->links, i);
        if (is_ignored(frame, link) || (link->consumer->calls->after == NULL && outputs.count == 0) ||
            (output == NULL && !(link->consumer->wants & CALLS_ERRORS)))
            continue;
        calls_event event;
        fill_event(state, frame, i, &looks, &event);
        event.output = output;
        event.exception = exception;
        event.end = end;
        int result = tell(frame->thread, link->consumer->calls->after, &outputs, link, &event);
        if (result < 0) {
            if (objection == NULL && exception == NULL)
                objection = PyErr_GetRaisedException();
            PyErr_Clear();
        }
    }
    found_end(&outputs);
    tensor_looks_clear(&looks);
    if (objection == NULL)
        return 0;
    PyErr_SetRaisedException(objection);
    return -1;
}

/* Tells them that it has ended.  Steals output (NULL: an exception is set), returns what the caller is
 * to return. */
static PyObject *leave(binding_state *state, calls_frame *frame, PyObject *output)
{
    PyObject *exception = output == NULL ? PyErr_GetRaisedException() : NULL; /* owned; of forward */
    if (calls_traced_drain(state, false) < 0) {
        if (exception == NULL)
            exception = PyErr_GetRaisedException();
        PyErr_Clear(); /* forward's own goes first */
        Py_CLEAR(output);
    }
    frame_pop(frame);
    if (output != NULL && tell_after(state, frame, output, NULL) < 0)
        Py_CLEAR(output);
    if (exception != NULL) {
        if (wants_of(frame) & CALLS_ERRORS)
            tell_after(state, frame, NULL, exception);
        PyErr_SetRaisedException(exception);
    }
    return output;
}

/* What nn.Module.__call__ would call: what was in the slot before us, or _call_impl. */
static PyObject *call_module(calls_tap *tap, PyObject *module, PyObject *args, PyObject *kwargs)
{
    if (tap->inner != NULL)
        return PyObject_Call(tap->inner, args, kwargs);
    return calls_forward(tap, module, args, kwargs);
}

/* A replica of DataParallel has a copy of its module's __dict__, and so our object in
 * its slot too: then there are more references to it than the dict's and the call's, or
 * nobody listens any more and yet it is called.
 * The frame of nn.Module.__call__ then tells which module is meant. */
static PyObject *module_of_caller(const calls_tap *tap)
{
    const calls_state *calls = tap->state->calls;
    base_frame *frame = base_frame_running();
    PyObject *module = frame != NULL ? base_frame_slot(frame, 0, calls->self) : NULL; /* borrowed */
    PyObject *dict =
        module != NULL ? calls_dict_with(module, calls->slot, (const PyObject *)tap) : NULL; /* owned */
    Py_XDECREF(dict);
    return dict != NULL ? module : NULL;
}

/* 0, or -1 with an exception.  The function may watch the module, also for this call. */
int calls_tap_announce(const calls_tap *tap, PyObject *module, calls_thread *thread)
{
    if (tap->announce == NULL || thread->inside != 0 ||
        (!tap->announces_all && !calls_is_training(tap->state, module)))
        return 0;
    PyObject *function = Py_NewRef(tap->announce); /* owned: it takes itself off */
    thread->inside++;
    PyObject *result = PyObject_CallOneArg(function, module); /* owned */
    thread->inside--;
    Py_DECREF(function);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* The slot's object is called: tp_call of calls_tap. */
PyObject *calls_tap_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    calls_tap *tap = (calls_tap *)self;
    PyObject *module = NULL; /* owned; NULL: gone */
    PyObject *output = NULL;
    (void)PyWeakref_GetRef(tap->module, &module);
    bool is_idle = tap->links == NULL || (PyTuple_GET_SIZE(tap->links) == 0 && tap->announce == NULL);
    bool is_copied = Py_REFCNT(self) > 2 || is_idle;
    PyObject *caller = is_copied ? module_of_caller(tap) : NULL; /* borrowed */
    if (caller != NULL && caller != module)
        calls_traced_take_forward(tap->state, tap, caller);
    if (caller != NULL)
        Py_XSETREF(module, Py_NewRef(caller));
    if (module == NULL) {
        PyErr_SetString(PyExc_ReferenceError, "the module of this tensortap object is gone");
        goto out;
    }
    calls_thread *thread = calls_thread_here();
    if (calls_tap_announce(tap, module, thread) < 0)
        goto out;
    bool is_inferred = thread->inside == 0 && thread->top == NULL &&
                       calls_pipeline_infers_shapes(tap->state->calls->pipelining);
    if (is_inferred || thread->inside != 0 || tap->links == NULL || PyTuple_GET_SIZE(tap->links) == 0) {
        calls_traced_prepare(tap);
        thread->inside += is_inferred;
        output = call_module(tap, module, args, kwargs);
        thread->inside -= is_inferred;
        goto out;
    }
    calls_frame *frame = frame_take(tap); /* owned */
    if (frame == NULL)
        goto out;
    frame->links = Py_NewRef(tap->links); /* what is not set here is when it is entered */
    frame->tap = tap;
    frame->module = module;
    frame->args = args;
    frame->kwargs = kwargs;
    frame->thread = thread;
    if (enter(tap->state, frame) == 0) {
        int *depth = probe_eager_depth();
        ++*depth;
        output = call_module(tap, module, args, kwargs);
        --*depth;
        output = leave(tap->state, frame, output);
    }
    Py_DECREF(frame->links);
    PyMem_Free(tap->spare); /* of a call inside this one */
    tap->spare = frame;
out:
    Py_XDECREF(module);
    return output;
}
