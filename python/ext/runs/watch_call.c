/* watch_call.c -- records inputs and outputs of a watched module.
 *
 * Keeps, for each module, the sites of the tensors that were seen so far, so that
 * a name is built and looked up once for each path and never again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

/* The site of one tensor of a module. */
typedef struct path_site {
    calls_cached cached; /* by path */
    int32_t site;
} path_site;

/* What a link of ours carries. */
typedef struct link_sites {
    calls_cache sites; /* of path_site */
    int64_t trained;   /* the step in which it last was the outermost in training, plus 1 */
    runs_watch_root root;
    runs_watch_part part;
} link_sites;

static void free_sites(void *data)
{
    link_sites *sites = data;
    calls_cache_clear(&sites->sites, NULL);
    PyMem_Free(sites);
}

/* NULL: no memory; then nothing is looked at. */
static link_sites *sites_of(calls_link *link)
{
    if (link->data == NULL)
        link->data = PyMem_Calloc(1, sizeof(link_sites));
    return link->data;
}

/* The site of a tensor; -1: there is none.  Its name is built once. */
static int32_t site_at(runs_watch *self, calls_link *link, const calls_path *path)
{
    static const char *const kinds[] = {
        [CALLS_INPUT] = "input", [CALLS_OUTPUT] = "activation", [CALLS_GRADIENT] = "activation_gradient"
    };
    link_sites *sites = sites_of(link);
    path_site *known = sites != NULL ? calls_cache_find(&sites->sites, calls_path_key(path)) : NULL;
    if (known != NULL)
        return known->site;
    PyObject *name = sites != NULL ? PyUnicode_Concat(link->name, path->text) : NULL; /* owned */
    int32_t site = name != NULL ? runs_watch_site(self, kinds[path->role], name) : -1;
    known = name != NULL ? PyMem_Malloc(sizeof *known) : NULL;
    if (known != NULL) {
        *known = (path_site){ .cached = { calls_path_key(path) }, .site = site };
        if (!calls_cache_add(&sites->sites, &known->cached))
            PyMem_Free(known);
    }
    calls_consumer_take_error(&self->consumer);
    Py_XDECREF(name);
    return site;
}

/* Counts the forwards of a model in training, where no optimizer counts steps; in inference those in evaluation, too. */
static void count_forward(runs_watch *self, calls_link *link)
{
    runs_recorder *recorder = self->recorder;
    link_sites *sites = sites_of(link);
    if (sites == NULL || recorder->forwards == FORWARDS_ARE_NO_STEPS)
        return;
    bool is_again = sites->trained == recorder->step + 1;
    if (is_again && recorder->forwards == FORWARDS_UNKNOWN)
        runs_watch_notify(self, self->on_again, NULL); /* sets recorder->forwards */
    if (is_again && recorder->forwards == FORWARDS_ARE_STEPS)
        runs_recorder_next_step(recorder);
    sites->trained = recorder->step + 1;
}

/* A training forward begins a new step if the optimizers are through with the
 * last one, or GradScaler kept them from it, or there is no optimizer. */
static void begin_call(runs_watch *self, calls_link *link, bool is_training, bool is_outermost)
{
    runs_recorder *recorder = self->recorder;
    self->has_run |= is_training;
    if ((is_training || recorder->is_inference) && is_outermost)
        count_forward(self, link);
    if (!is_training)
        return;
    if (recorder->step_state == STEP_OVER || (self->has_fresh && !self->is_checked)) {
        bool is_over = recorder->step_state == STEP_OVER;
        if (runs_watch_was_skipped(self)) {
            bool is_bad = self->bad_count > 0;
            runs_watch_write_noted(self, !is_over); /* else nobody's optimizer has them */
            if (!is_over && is_bad)
                runs_recorder_set_over(recorder, true);
            if (!is_over && !self->notes)
                runs_watch_notify(self, self->on_skip, NULL); /* from now on we look at once */
        }
    }
    if (is_outermost || recorder->step_state == STEP_OVER)
        runs_recorder_forward(recorder);
}

static void watch_enter(calls_consumer *consumer, calls_link *link, bool is_training, bool is_outermost)
{
    runs_watch *self = (runs_watch *)consumer;
    runs_recorder_span span = runs_recorder_begin_around(self->recorder);
    begin_call(self, link, is_training, is_outermost);
    runs_recorder_end_around(self->recorder, span);
}

static int watch_tensor(calls_consumer *consumer, calls_link *link, const calls_event *event,
                        const calls_path *path, const calls_observation *seen)
{
    runs_watch *self = (runs_watch *)consumer;
    runs_recorder_span span = runs_recorder_begin_around(self->recorder);
    const runs_watch_tag tag = { .site = site_at(self, link, path),
                                 .call = event->call,
                                 .thread = event->thread,
                                 .phase = event->is_training ? TT_PHASE_TRAIN : TT_PHASE_EVAL };
    int result = runs_watch_record(self, seen, &tag, NULL) < 0 ? -1 : 0;
    if (result == 0)
        result = runs_watch_look_at_awaited(self, seen->looks);
    runs_recorder_end_around(self->recorder, span);
    return result;
}

static int watch_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    runs_watch *self = (runs_watch *)consumer;
    link_sites *sites = sites_of(link);
    runs_recorder_span span = runs_recorder_begin_around(self->recorder);
    if (sites != NULL && event->output != NULL && event->is_outermost)
        runs_watch_note_call(self, &sites->root, link->name, event);
    else if (sites != NULL && event->output != NULL)
        runs_watch_note_mode(self, &sites->part, link->name, event);
    int result = runs_watch_look_at_awaited(self, event->looks);
    runs_recorder_end_around(self->recorder, span);
    return result;
}

static uint32_t watch_wants(calls_consumer *consumer, calls_link *link, const calls_path *path)
{
    runs_watch *self = (runs_watch *)consumer;
    int32_t site = site_at(self, link, path);
    if (site < 0 || self->recorder->rec == NULL || consumer->is_off)
        return 0;
    int64_t step = self->recorder->step + (self->is_ahead ? 1 : 0);
    uint32_t products = tt_recorder_wants(self->recorder->rec, site, step);
    return products != 0 || self->on_nonfinite != NULL ? products | TT_PRODUCT_STATS : 0;
}

const calls_table runs_watch_calls = { .enter = watch_enter,
                                       .tensor = watch_tensor,
                                       .after = watch_after,
                                       .wants = watch_wants,
                                       .free_data = free_sites };
