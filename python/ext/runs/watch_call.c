/* watch_call.c -- what a watched module took and gave.
 *
 * Keeps, for each module, the sites of the tensors it returned so far, so that
 * a name is built and looked up once for each place and never again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "calls/places.h"
#include "runs/watch.h"

#include "probe/log.h"

enum { MOST_CALLS = 1 << 16 }; /* of one module in a step, whose gradients are awaited */

/* A place in the output (or input) of one module. */
typedef struct site_place {
    calls_place place;
    int32_t site;
    int32_t gradient_site; /* -1: not wanted */
} site_place;

/* A call of a module inside a compiled graph, whose gradients come later. */
typedef struct probed_call {
    uint64_t number; /* of probe_row.call */
    runs_watch_tag tag;
} probed_call;

/* What a link of ours carries. */
typedef struct link_sites {
    calls_places outputs, inputs, probed; /* probed: inside compiled graphs */
    probed_call *calls;                   /* owned; of one step */
    size_t call_count, call_cap;
    size_t call_found; /* where the last one was found */
    int64_t call_step;
    int64_t trained; /* the step in which it last was the outermost in training, plus 1 */
    runs_watch_root root;
    runs_watch_part part;
} link_sites;

static void free_sites(void *data)
{
    link_sites *sites = data;
    calls_places_clear(&sites->outputs, NULL);
    calls_places_clear(&sites->inputs, NULL);
    calls_places_clear(&sites->probed, NULL);
    PyMem_Free(sites->calls);
    PyMem_Free(sites);
}

typedef struct walk_context {
    runs_watch *watch;
    calls_link *link;
    tensor_looks *looks;
    calls_places *known;
    runs_watch_tag tag;
    bool is_output;
} walk_context;

enum { OUTPUT, INPUT, GRADIENT };

/* Adds a place of this kind with this name, which it steals (NULL: an exception is set); NULL: no memory. */
static site_place *make_place(runs_watch *self, calls_places *known, uint64_t hash, int kind,
                              PyObject *name)
{
    static const char *const words[] = {
        [OUTPUT] = "activation", [INPUT] = "input", [GRADIENT] = "activation_gradient"
    };
    site_place *place = name != NULL ? PyMem_Calloc(1, sizeof *place) : NULL;
    bool has_gradient = kind == OUTPUT && self->has_activation_gradients;
    if (place != NULL) {
        place->place.hash = hash;
        place->site = runs_watch_site(self, words[kind], name);
        place->gradient_site = has_gradient ? runs_watch_site(self, words[GRADIENT], name) : -1;
        if (!calls_places_add(known, &place->place)) {
            PyMem_Free(place);
            place = NULL;
        }
    }
    calls_consumer_take_error(&self->consumer);
    Py_XDECREF(name);
    return place;
}

static int found_tensor(void *context, PyObject *tensor, const tensor_place *path)
{
    walk_context *walk = context;
    const site_place *place = calls_places_find(walk->known, path->hash, (size_t)path->found - 1);
    if (place == NULL) /* its name is built, this once */
        place = make_place(walk->watch, walk->known, path->hash, walk->is_output ? OUTPUT : INPUT,
                           tensor_place_name(walk->link->name, path));
    if (place == NULL)
        return 0;
    walk->tag.site = place->site;
    int result = runs_watch_record(walk->watch, walk->looks, tensor, &walk->tag, NULL);
    if (result >= 0 && place->gradient_site >= 0) {
        walk->tag.site = place->gradient_site;
        runs_watch_hook_output(walk->watch, tensor, &walk->tag);
    }
    return result < 0 ? -1 : 0;
}

/* NULL: no memory; then nothing is looked at. */
static link_sites *sites_of(calls_link *link)
{
    if (link->data == NULL)
        link->data = PyMem_Calloc(1, sizeof(link_sites));
    return link->data;
}

static runs_watch_tag tag_of(const calls_event *event)
{
    return (runs_watch_tag){ .call = event->call,
                             .thread = event->thread,
                             .phase = event->is_training ? TT_PHASE_TRAIN : TT_PHASE_EVAL };
}

/* Looks at all tensors of obj.  0, or -1 with the exception of on_nonfinite. */
static int look(walk_context *walk, const calls_event *event, PyObject *obj)
{
    runs_watch *self = walk->watch;
    link_sites *sites = sites_of(walk->link);
    if (sites == NULL)
        return 0;
    walk->looks = event->looks;
    walk->known = walk->is_output ? &sites->outputs : &sites->inputs;
    walk->tag = tag_of(event);
    int result = tensor_walk(&self->state->torch, obj, found_tensor, walk);
    if (result < 0 && self->on_nonfinite == NULL) {
        calls_consumer_take_error(&self->consumer); /* a key without a hash, no memory */
        result = 0;
    }
    return result;
}

/* Counts the forwards of a model in training, where no optimizer counts steps. */
static void count_forward(runs_watch *self, calls_link *link)
{
    runs_recorder *recorder = self->recorder;
    link_sites *sites = sites_of(link);
    if (sites == NULL || recorder->forwards == FORWARDS_ARE_NO_STEPS)
        return;
    bool is_again = sites->trained == recorder->step + 1;
    if (is_again && recorder->forwards == FORWARDS_UNKNOWN)
        runs_watch_notify(self, self->on_again, NULL); /* sets recorder->forwards */
    if (is_again && recorder->forwards == FORWARDS_ARE_STEPS && !recorder->is_manual)
        recorder->step++;
    sites->trained = recorder->step + 1;
}

/* A training forward begins a new step if the optimizers are through with the
 * last one, or GradScaler kept them from it, or there is no optimizer. */
static void watch_enter(calls_consumer *consumer, calls_link *link, bool is_training, bool is_outermost)
{
    runs_watch *self = (runs_watch *)consumer;
    runs_recorder *recorder = self->recorder;
    self->has_run |= is_training;
    if (is_training && is_outermost)
        count_forward(self, link);
    if (!is_training || (!recorder->is_step_over && (!self->has_fresh || self->is_checked)))
        return;
    bool is_over = recorder->is_step_over;
    if (runs_watch_was_skipped(self)) {
        bool is_skipped = !is_over; /* else nobody's optimizer has them */
        is_over = is_over || self->noted_count > 0;
        runs_watch_write_noted(self, is_skipped);
        if (is_skipped && !self->notes)
            runs_watch_notify(self, self->on_skip, NULL); /* from now on we look at once */
    }
    recorder->is_step_over = false;
    if (is_over && !recorder->is_manual)
        recorder->step++;
}

static int watch_after(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    walk_context walk = { .watch = (runs_watch *)consumer, .link = link, .is_output = true };
    link_sites *sites = sites_of(link);
    if (sites != NULL && event->is_outermost)
        runs_watch_note_call(walk.watch, &sites->root, link->name, event);
    else if (sites != NULL)
        runs_watch_note_mode(walk.watch, &sites->part, link->name, event);
    return look(&walk, event, event->output);
}

static int watch_before(calls_consumer *consumer, calls_link *link, const calls_event *event)
{
    walk_context walk = { .watch = (runs_watch *)consumer, .link = link };
    bool has_names = event->kwargs != NULL && PyDict_GET_SIZE(event->kwargs) > 0;
    bool is_single = PyTuple_GET_SIZE(event->args) == 1 && !has_names;
    int result = look(&walk, event, is_single ? PyTuple_GET_ITEM(event->args, 0) : event->args);
    return result == 0 && has_names ? look(&walk, event, event->kwargs) : result;
}

/* ---- inside compiled graphs ---------------------------------------------- */

static const site_place *probed_place(runs_watch *self, calls_link *link, const calls_probe_place *place)
{
    link_sites *sites = sites_of(link);
    uint64_t slot = (uint64_t)place->slot;
    const site_place *known = sites != NULL ? calls_places_find(&sites->probed, slot, 0) : NULL;
    if (known == NULL && sites != NULL)
        known = make_place(self, &sites->probed, slot,
                           place->is_gradient ? GRADIENT
                           : place->is_input  ? INPUT
                                              : OUTPUT,
                           PyUnicode_Concat(link->name, place->text));
    return known;
}

static uint32_t watch_products(calls_consumer *consumer, calls_link *link, const calls_probe_place *place)
{
    runs_watch *self = (runs_watch *)consumer;
    const site_place *known = probed_place(self, link, place);
    if (known == NULL || known->site < 0 || self->recorder->rec == NULL || consumer->is_off)
        return 0;
    int64_t step = self->recorder->step + (self->is_ahead ? 1 : 0);
    uint32_t products = tt_recorder_wants(self->recorder->rec, known->site, step);
    if (products != 0 || self->on_nonfinite != NULL)
        return products | TT_PRODUCT_STATS;
    bool is_noted = known->gradient_site >= 0 &&
                    tt_recorder_wants(self->recorder->rec, known->gradient_site, step) != 0;
    return is_noted ? PROBE_SEEN : 0;
}

/* Notes which call this is: the gradient of its output comes in backward. */
static void note_call(runs_watch *self, calls_link *link, const calls_event *event, uint64_t number)
{
    link_sites *sites = sites_of(link);
    if (sites == NULL)
        return;
    if (sites->call_step != self->recorder->step)
        sites->call_count = 0;
    sites->call_step = self->recorder->step;
    if (sites->call_count < MOST_CALLS &&
        base_array_grow(&sites->calls, &sites->call_cap, sites->call_count + 1, sizeof *sites->calls))
        sites->calls[sites->call_count++] = (probed_call){ .number = number, .tag = tag_of(event) };
}

/* The call whose output has this gradient; the last one if backward repeated the forward. */
static runs_watch_tag call_numbered(calls_link *link, const calls_event *event, uint64_t number)
{
    link_sites *sites = sites_of(link);
    size_t count = sites != NULL ? sites->call_count : 0;
    for (size_t i = 0; i < count; i++) { /* backward goes from the last to the first */
        size_t at = (sites->call_found + count - i) % count;
        if (sites->calls[at].number == number) {
            sites->call_found = at;
            return sites->calls[at].tag;
        }
    }
    return (runs_watch_tag){ .call = event->call, .thread = event->thread, .phase = TT_PHASE_TRAIN };
}

static int watch_probed(calls_consumer *consumer, calls_link *link, const calls_event *event,
                        const calls_probe_place *place, const probe_row *row)
{
    runs_watch *self = (runs_watch *)consumer;
    const site_place *known = probed_place(self, link, place);
    if (known == NULL || known->site < 0)
        return 0;
    runs_watch_tag tag = place->is_gradient ? call_numbered(link, event, row->call) : tag_of(event);
    tag.site = known->site;
    if (known->gradient_site >= 0)
        note_call(self, link, event, row->call);
    int64_t start = event->cost != 0 ? runs_clock_fine() : 0;
    int result = runs_watch_record_row(self, row, &tag);
    if (start != 0 && result == 0)
        runs_recorder_charge(self->recorder, tag.site, event->cost + runs_clock_fine() - start);
    return result;
}

#define WATCH_CALLS                                                                                 \
    .enter = watch_enter, .products = watch_products, .probed = watch_probed, .after = watch_after, \
    .free_data = free_sites
const calls_table runs_watch_calls = { WATCH_CALLS };
const calls_table runs_watch_calls_with_inputs = { WATCH_CALLS, .before = watch_before };
