/* chart.c -- a ring of nodes, found again by the state that they show.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"
#include "base/array.h"
#include "tensortap_tools.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 16, MOST_PASSED = 16 };

void flow_value_free(flow_value *value)
{
    tt_sample_free(value->sample);
    value->sample = NULL;
}

static void node_free(flow_node *node)
{
    flow_value_free(&node->sight.value);
    Py_CLEAR(node->name);
    Py_CLEAR(node->code);
    Py_CLEAR(node->owner);
    PyMem_Free(node->from);
    node->from = NULL;
    node->from_count = 0;
}

/* A state's key as the map wants it; no key is 0. */
static const void *key_address(uint64_t key)
{
    return (const void *)(uintptr_t)key;
}

uint64_t flow_chart_find(const flow_chart *chart, uint64_t key)
{
    return key != 0 ? (uint64_t)(uintptr_t)base_map_find(&chart->index, key_address(key)) : 0;
}

void flow_chart_drop(flow_chart *chart)
{
    flow_node *node = flow_chart_at(chart, chart->oldest);
    chart->orphans -= node->wait_count > 0;
    if (flow_chart_find(chart, node->key) == node->id)
        base_map_remove(&chart->index, key_address(node->key));
    node_free(node);
    chart->oldest++;
}

void flow_chart_clear(flow_chart *chart)
{
    while (chart->oldest < chart->next)
        flow_chart_drop(chart);
    chart->oldest = chart->next = chart->begun = 1;
    for (size_t i = 0; chart->waiting != NULL && i < FLOW_WAITING; i++) {
        flow_value_free(&chart->waiting[i].sight.value);
        chart->waiting_key[i] = 0;
    }
}

void flow_chart_free(flow_chart *chart)
{
    flow_chart_clear(chart);
    PyMem_Free(chart->ring);
    PyMem_Free(chart->waiting);
    base_map_free(&chart->index);
    *chart = (flow_chart){ 0 };
}

/* ---- the ring ------------------------------------------------------------ */

static int ring_resize(flow_chart *chart, size_t cap)
{
    flow_node *ring = cap <= PY_SSIZE_T_MAX / sizeof *ring ? PyMem_Malloc(cap * sizeof *ring) : NULL;
    if (ring == NULL)
        return -1;
    for (uint64_t id = chart->oldest; id < chart->next; id++)
        ring[id % cap] = *flow_chart_at(chart, id);
    PyMem_Free(chart->ring);
    chart->ring = ring;
    chart->cap = cap;
    return 0;
}

int flow_chart_limit(flow_chart *chart, size_t max)
{
    if (chart->next == 0)
        chart->next = chart->oldest = 1;
    while (flow_chart_count(chart) > max)
        flow_chart_drop(chart);
    chart->max = max;
    return chart->cap > max ? ring_resize(chart, max) : 0;
}

flow_node *flow_chart_add(flow_chart *chart, uint64_t key, PyObject *name, PyObject *code, int line)
{
    size_t count = flow_chart_count(chart);
    if (count == chart->max) {
        flow_chart_drop(chart);
    } else if (count == chart->cap) {
        size_t cap = chart->cap > 0 ? 2 * chart->cap : FIRST_CAP;
        if (ring_resize(chart, cap < chart->max ? cap : chart->max) < 0)
            return NULL;
    }
    if (base_map_put(&chart->index, key_address(key), (void *)(uintptr_t)chart->next) < 0) {
        PyErr_Clear();
        return NULL;
    }
    flow_node *node = flow_chart_at(chart, chart->next);
    *node = (flow_node){ .id = chart->next++,
                         .key = key,
                         .sight.moment = ++chart->moment,
                         .name = Py_NewRef(name),
                         .code = Py_NewRef(code),
                         .line = line };
    return node;
}

/* ---- arrows -------------------------------------------------------------- */

/* An address may be used again: the contents must be equal too. */
static bool is_same_value(const flow_value *x, const flow_value *y)
{
    const summary_facts *a = &x->facts, *b = &y->facts;
    return a->has_stats && b->has_stats && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0 &&
           memcmp(&a->stats, &b->stats, sizeof a->stats) == 0;
}

uint64_t flow_chart_same(const flow_chart *chart, uint64_t end, PyObject *name, const flow_sight *sight,
                         uint64_t frame)
{
    for (uint64_t id = end - 1; id >= chart->oldest && sight->object != NULL; id--) {
        const flow_node *node = flow_chart_at(chart, id);
        if (node->sight.object == sight->object && node->sight.version == sight->version &&
            node->frame != frame && PyUnicode_Compare(node->name, name) == 0 &&
            is_same_value(&node->sight.value, &sight->value))
            return id;
    }
    return 0;
}

int flow_node_join(flow_node *node, const uint64_t *from, size_t count)
{
    uint64_t *all =
        count > 0 ? PyMem_Realloc(node->from, (node->from_count + count) * sizeof *all) : NULL;
    if (all == NULL)
        return count > 0 ? -1 : 0;
    node->from = all;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < node->from_count && node->from[k] != from[i])
            k++;
        if (k == node->from_count && from[i] != 0 && from[i] != node->id)
            node->from[node->from_count++] = from[i];
    }
    return 0;
}

static bool add_nodes(const flow_chart *chart, uint64_t key, flow_ids *out, int depth)
{
    const flow_state *state = NULL;
    uint64_t id = flow_chart_find(chart, key);
    bool is_any = false;
    if (id != 0)
        return flow_ids_add(out, id);
    if (depth < MOST_PASSED)
        state = flow_chart_waiting(chart, key);
    for (size_t i = 0; state != NULL && i < state->descent.count; i++)
        is_any = add_nodes(chart, state->descent.key[i], out, depth + 1) || is_any;
    return is_any;
}

bool flow_chart_nodes_of(const flow_chart *chart, uint64_t key, flow_ids *out)
{
    return add_nodes(chart, key, out, 0);
}

static size_t arrow_of(const flow_node *node, uint64_t from)
{
    size_t at = 0;
    while (at < node->from_count && node->from[at] != from)
        at++;
    return at;
}

/* The state, and those it was passed on from. */
static void list_chain(const flow_chart *chart, uint64_t key, flow_wait *out)
{
    out->key_count = 0;
    while (key != 0 && out->key_count < FLOW_CHAIN) {
        const flow_state *state = flow_chart_waiting(chart, key);
        out->key[out->key_count++] = key;
        key = state != NULL && state->descent.is_passed ? state->descent.key[0] : 0;
    }
}

void flow_chart_expect(flow_chart *chart, flow_node *node, uint64_t key)
{
    flow_wait wait;
    flow_ids from = { 0 };
    bool is_there = flow_chart_find(chart, key) != 0;
    (void)flow_chart_nodes_of(chart, key, &from);
    wait.until_count = 0;
    for (size_t i = 0; i < from.count; i++)
        if (arrow_of(node, from.all[i]) == node->from_count && wait.until_count < FLOW_UNTIL)
            wait.until[wait.until_count++] = from.all[i];
    (void)flow_node_join(node, from.all, from.count);
    PyMem_Free(from.all);
    if (is_there || key == 0 || node->wait_count == FLOW_WAITS)
        return;
    list_chain(chart, key, &wait);
    chart->orphans += node->wait_count == 0;
    node->waits[node->wait_count++] = wait;
}

/* The arrow starts at `node`, which is nearer than what it started at. */
static void move_arrow(flow_node *to, flow_wait *wait, const flow_node *node)
{
    for (size_t i = 0; i < wait->until_count; i++) {
        size_t at = arrow_of(to, wait->until[i]);
        if (at < to->from_count)
            memmove(to->from + at, to->from + at + 1, (--to->from_count - at) * sizeof *to->from);
    }
    wait->until_count = arrow_of(to, node->id) == to->from_count;
    wait->until[0] = node->id;
    (void)flow_node_join(to, &node->id, 1);
}

void flow_chart_adopt(flow_chart *chart, const flow_node *node)
{
    for (uint64_t id = chart->next - 1; id >= chart->oldest && chart->orphans > 0; id--) {
        flow_node *other = flow_chart_at(chart, id);
        if (other->wait_count == 0 || other == node)
            continue;
        size_t kept = 0;
        for (size_t i = 0; i < other->wait_count; i++) {
            flow_wait *wait = &other->waits[i];
            size_t at = 0;
            while (at < wait->key_count && wait->key[at] != node->key)
                at++;
            if (at < wait->key_count) {
                move_arrow(other, wait, node);
                wait->key_count = at;
            }
            if (wait->key_count > 0)
                other->waits[kept++] = *wait;
        }
        other->wait_count = kept;
        chart->orphans -= kept == 0;
    }
}

static int by_moment(const void *a, const void *b)
{
    const flow_node *x = *(flow_node *const *)a, *y = *(flow_node *const *)b;
    if (x->sight.moment != y->sight.moment)
        return x->sight.moment < y->sight.moment ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void flow_chart_sort(const flow_chart *chart, const flow_node **out)
{
    size_t count = flow_chart_count(chart);
    for (size_t i = 0; i < count; i++)
        out[i] = flow_chart_at(chart, chart->oldest + i);
    qsort(out, count, sizeof *out, by_moment);
}

/* ---- states that wait ---------------------------------------------------- */

flow_state *flow_chart_waiting(const flow_chart *chart, uint64_t key)
{
    for (size_t i = 0; chart->waiting != NULL && i < FLOW_WAITING; i++)
        if (chart->waiting_key[i] == key)
            return &chart->waiting[i];
    return NULL;
}

flow_state *flow_chart_put_aside(flow_chart *chart, uint64_t key)
{
    if (chart->waiting == NULL) {
        chart->waiting = PyMem_Calloc(FLOW_WAITING, sizeof *chart->waiting);
        if (chart->waiting == NULL)
            return NULL;
    }
    size_t at = chart->waiting_next++ % FLOW_WAITING;
    flow_value_free(&chart->waiting[at].sight.value);
    chart->waiting_key[at] = key;
    return &chart->waiting[at];
}

void flow_chart_take(flow_chart *chart, flow_state *state, flow_node *node)
{
    node->sight = state->sight; /* handed over, so theirs is empty */
    state->sight = (flow_sight){ 0 };
    chart->waiting_key[state - chart->waiting] = 0;
}

bool flow_ids_add(flow_ids *ids, uint64_t id)
{
    if (id == 0 || !base_array_grow(&ids->all, &ids->cap, ids->count + 1, sizeof id))
        return false;
    ids->all[ids->count++] = id;
    return true;
}

/* ---- the nodes at one moment ---------------------------------------------- */

/* Drawing takes several steps, and other threads go on changing tensors meanwhile: a picture must
 * be of one moment, and nodes that come later must not be forgotten with it. */

static int node_copy(const flow_node *node, flow_node *out)
{
    uint64_t *from = PyMem_Calloc(node->from_count + 1, sizeof *from);
    if (from == NULL)
        return -1;
    *out = *node;
    out->from = from;
    if (node->from_count > 0)
        memcpy(from, node->from, node->from_count * sizeof *from);
    out->name = Py_NewRef(node->name);
    out->code = Py_NewRef(node->code);
    out->owner = Py_XNewRef(node->owner);
    (void)tt_sample_share(out->sight.value.sample);
    return 0;
}

int flow_chart_copy(const flow_chart *chart, flow_chart *out)
{
    flow_chart copy = { .cap = flow_chart_count(chart) + 1, .max = chart->max, .moment = chart->moment };
    copy.oldest = copy.next = chart->oldest;
    copy.ring = PyMem_Calloc(copy.cap, sizeof *copy.ring);
    if (copy.ring == NULL)
        return -1;
    for (uint64_t id = chart->oldest; id < chart->next; id++) {
        if (node_copy(flow_chart_at(chart, id), flow_chart_at(&copy, id)) < 0) {
            flow_chart_free(&copy);
            return -1;
        }
        copy.orphans += flow_chart_at(&copy, id)->wait_count > 0;
        copy.next++;
    }
    *out = copy;
    return 0;
}

void flow_chart_forget(flow_chart *chart, const flow_chart *copy)
{
    if (copy->next >= chart->next) { /* nothing came: numbers begin at 1 again */
        flow_chart_clear(chart);
        return;
    }
    while (chart->oldest < copy->next)
        flow_chart_drop(chart);
}
