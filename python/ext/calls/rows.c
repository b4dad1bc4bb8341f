/* rows.c -- delivers what probes inside compiled graphs have seen.
 *
 * Their rows lie in a log, which is read before and after each call that is seen eagerly, when an
 * outermost module has run that was compiled whole, and before the optimizer steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/clock.h"
#include "calls/source.h"
#include "probe/log.h"

typedef struct batch {
    binding_state *state;
    calls_thread *thread;
    bool is_eager;    /* a call that is seen eagerly is around it: that one has been entered */
    bool is_training; /* the phase of that call */
    int64_t share;    /* of a row in the time that it took to get them, in ns */
} batch;

/* A call whose gradients come later. */
typedef struct calls_awaited {
    uint64_t number; /* of probe_row.call */
    uint32_t call, thread;
    bool is_training;
} calls_awaited;

enum { MOST_AWAITED = 1 << 16 }; /* calls of one module in a step */

/* Calls f for each link on the module of a row that hears of compiled graphs; -1: f returned -1. */
static int for_links(const batch *in, const probe_row *row,
                     int (*f)(const batch *, calls_link *, PyObject *module, const calls_probe *,
                              const probe_row *))
{
    const calls_tap *tap = calls_tap_numbered(in->state->calls, row->module); /* borrowed */
    const calls_probe *probe = calls_probe_at(in->state->calls, row->slot);   /* borrowed */
    PyObject *module = NULL, *links;                                          /* owned */
    int result = 0;
    if (tap == NULL || tap->links == NULL || probe == NULL || PyWeakref_GetRef(tap->module, &module) <= 0)
        return 0;
    links = Py_NewRef(tap->links);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(links) && result == 0; i++) {
        calls_link *link = calls_link_at(links, i);
        if (!calls_link_hears(link))
            continue;
        calls_consumer *consumer = (calls_consumer *)Py_NewRef((PyObject *)link->consumer); /* owned */
        in->thread->inside++;
        result = f(in, link, module, probe, row);
        in->thread->inside--;
        Py_DECREF(consumer);
    }
    Py_DECREF(links);
    Py_DECREF(module);
    return result;
}

/* The time of a row, on the clock of time.perf_counter_ns(). */
static int64_t monotonic_of(int64_t time)
{
    return time + base_clock(CLOCK_MONOTONIC) - base_clock(CLOCK_REALTIME);
}

/* ---- calls around calls ------------------------------------------------------ */

/* The first row of a call is there: those until its last one are of calls inside it. */
static void begin_call(calls_thread *thread, uint64_t tap)
{
    if (thread->around_count < CALLS_AROUND)
        thread->around[thread->around_count++] = tap;
}

/* Forgets the call, and those inside it that an exception has ended. */
static void end_call(calls_thread *thread, uint64_t tap)
{
    uint32_t at = thread->around_count;
    while (at > 0 && thread->around[at - 1] != tap)
        at--;
    if (at > 0)
        thread->around_count = at - 1;
}

/* Calls of the consumer's modules around this one: those that are seen eagerly, and those in compiled
 * code whose first row came before. */
static uint32_t depth_of(const batch *in, const calls_link *link, uint64_t tap)
{
    const calls_thread *thread = in->thread;
    uint32_t depth = calls_depth(thread->top, link->consumer), own = thread->around_count;
    while (own > 0 && thread->around[own - 1] != tap)
        own--;
    for (uint32_t i = 0; i + 1 < own || (own == 0 && i < thread->around_count); i++) {
        const calls_tap *outer = calls_tap_numbered(in->state->calls, thread->around[i]); /* borrowed */
        for (Py_ssize_t k = 0; outer != NULL && k < PyTuple_GET_SIZE(outer->links); k++)
            depth += calls_link_at(outer->links, k)->consumer == link->consumer;
    }
    return depth;
}

/* ---- events ------------------------------------------------------------------ */

/* The phase of a row: that of the eager call around it, or the flag of the outermost module that its
 * consumer observes. */
static bool is_training(const batch *in, const calls_link *link, PyObject *module)
{
    PyObject *links = link->consumer->links, *root = NULL; /* borrowed; owned */
    if (in->is_eager)
        return in->is_training;
    if (links != NULL && PyList_GET_SIZE(links) > 0)
        (void)PyWeakref_GetRef(((calls_link *)PyList_GET_ITEM(links, 0))->module, &root);
    bool result = calls_is_training(in->state, root != NULL ? root : module);
    Py_XDECREF(root);
    return result;
}

static calls_event event_of(const batch *in, const calls_link *link, PyObject *module,
                            const probe_row *row)
{
    calls_event event = { .module = module,
                          .args = in->state->calls->no_args,
                          .call = link->probed,
                          .thread = in->thread->number,
                          .is_training = is_training(in, link, module) };
    if (link->consumer->wants & CALLS_DEPTH)
        event.depth = depth_of(in, link, row->module);
    if (link->consumer->wants & CALLS_TIME) /* when it began is not known */
        event.start = event.end = monotonic_of(row->time);
    return event;
}

/* Notes which call this is: the gradient of its output comes in backward. */
static void await_gradient(calls_link *link, const calls_event *event, uint64_t number)
{
    int64_t step = *link->consumer->step;
    if (link->awaited_step != step)
        link->awaited_count = 0;
    link->awaited_step = step;
    if (link->awaited_count < MOST_AWAITED &&
        base_array_grow(&link->awaited, &link->awaited_cap, link->awaited_count + 1,
                        sizeof *link->awaited))
        link->awaited[link->awaited_count++] = (calls_awaited){
            .number = number, .call = event->call, .thread = event->thread, event->is_training
        };
}

/* Makes the event that of the call whose output has this gradient; of the last one if backward repeated the
 * forward. */
static void find_awaited(calls_link *link, uint64_t number, calls_event *event)
{
    event->is_training = true;
    for (size_t i = 0; i < link->awaited_count; i++) { /* backward goes from the last to the first */
        size_t at = (link->awaited_at + link->awaited_count - i) % link->awaited_count;
        const calls_awaited *call = &link->awaited[at];
        if (call->number != number)
            continue;
        link->awaited_at = at;
        event->call = call->call;
        event->thread = call->thread;
        event->is_training = call->is_training;
        return;
    }
}

/* An outermost module is entered before its parts, but its row may come after theirs.  Another consumer may
 * have an eager call around it. */
static int enter_root(const batch *in, calls_link *link, PyObject *module, const calls_probe *probe,
                      const probe_row *row)
{
    if (!probe->is_first || !calls_link_is_root(link) || link->is_entered ||
        calls_depth(in->thread->top, link->consumer) != 0)
        return 0;
    link->probed = calls_link_count(link, in->thread, calls_is_training(in->state, module), true);
    link->is_entered = true;
    if (link->consumer == NULL || link->consumer->calls->before == NULL || link->consumer->is_off)
        return 0;
    calls_event event = event_of(in, link, module, row);
    return link->consumer->calls->before(link->consumer, link, &event);
}

static int tell_row(const batch *in, calls_link *link, PyObject *module, const calls_probe *probe,
                    const probe_row *row)
{
    if (probe->is_first && !link->is_entered)
        link->probed = calls_link_count(link, in->thread, is_training(in, link, module), false);
    if (probe->is_first)
        link->is_entered = false;
    if (link->consumer == NULL || link->consumer->is_off)
        return 0;
    const calls_table *calls = link->consumer->calls;
    calls_role role = probe->path->role;
    calls_event event = event_of(in, link, module, row);
    const calls_observation seen = { .state = in->state,
                                     .row = row,
                                     .cost = row->cost != 0 ? row->cost + in->share : 0 };
    int result = 0;
    if (role == CALLS_OUTPUT && link->consumer->roles & CALLS_GRADIENTS)
        await_gradient(link, &event, row->call);
    if (role == CALLS_GRADIENT)
        find_awaited(link, row->call, &event);
    if (calls_link_hears_of(link, probe->path) && calls->tensor != NULL)
        result = calls->tensor(link->consumer, link, &event, probe->path, &seen);
    if (result == 0 && probe->is_last && link->consumer != NULL && calls->after != NULL)
        result = calls->after(link->consumer, link, &event);
    return result;
}

/* ---- the log ----------------------------------------------------------------- */

static bool is_gradient(const calls_state *calls, const probe_row *row)
{
    const calls_probe *probe = calls_probe_at(calls, row->slot);
    return probe != NULL && probe->path->role == CALLS_GRADIENT;
}

static int tell_rows(const batch *in, const probe_row *rows, size_t count)
{
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        const calls_probe *probe = calls_probe_at(in->state->calls, rows[i].slot); /* borrowed */
        if (probe != NULL && probe->is_first)
            begin_call(in->thread, rows[i].module);
        result = for_links(in, &rows[i], tell_row);
        if (probe != NULL && probe->is_last)
            end_call(in->thread, rows[i].module);
    }
    return result;
}

int calls_traced_drain(binding_state *state, bool all)
{
    calls_state *calls = state->calls;
    if (calls->objection == NULL && probe_log_count() == 0)
        return 0; /* as nearly always, before a thread is looked up */
    calls_thread *thread = calls_thread_here();
    probe_rows rows = { 0 };
    if (thread->inside != 0)
        return 0;
    if (calls->objection != NULL) {
        PyErr_SetRaisedException(calls->objection);
        calls->objection = NULL;
        return -1;
    }
    int64_t start = base_clock(CLOCK_MONOTONIC);
    probe_log_take(all ? 0 : probe_log_thread(), &rows);
    if (rows.count == 0)
        return 0;
    if (thread->number == 0)
        thread->number = ++calls->thread_count;
    batch in = { .state = state,
                 .thread = thread,
                 .is_eager = thread->top != NULL,
                 .is_training = thread->top != NULL && thread->top->is_training,
                 .share = (base_clock(CLOCK_MONOTONIC) - start) / (int64_t)rows.count };
    size_t first = 0; /* before it are gradients of the backward before: they belong to its step */
    while (first < rows.count && is_gradient(calls, &rows.all[first]))
        first++;
    int result = tell_rows(&in, rows.all, first);
    for (size_t i = first; i < rows.count && result == 0; i++) {
        const calls_tap *tap = calls_tap_numbered(calls, rows.all[i].module); /* borrowed */
        if (tap != NULL && calls_tap_is_root(tap))
            result = for_links(&in, &rows.all[i], enter_root);
    }
    if (result == 0)
        result = tell_rows(&in, rows.all + first, rows.count - first);
    probe_rows_free(&rows);
    return result;
}
