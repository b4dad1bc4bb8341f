/* chart.h -- the last tensor changes of a program, ready to be drawn.
 *
 * A chart is a ring of nodes with consecutive numbers.  A node holds what was
 * true when the line had run: a few elements, the statistics, some names; never
 * the tensor.  Numbers go by when a node was made; it is drawn by when its
 * statement began, because a caller's source is made after what the call did.
 * Everything belongs to the GIL.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_FLOW_CHART_H
#define TT_EXT_FLOW_CHART_H

#include "base/map.h"
#include "binding/state.h"
#include "lines/source.h"
#include "summary/facts.h"

/* What is kept of a tensor.  { 0 } is a valid empty one. */
typedef struct flow_value {
    tt_sample *sample; /* owned or NULL */
    const char *note;  /* constant: why there are no values; NULL: there are */
    summary_facts facts;
} flow_value;

void flow_value_free(flow_value *value);

/* One state of a tensor, as a statement saw it. */
typedef struct flow_sight {
    uint64_t moment;    /* what came before it in the program has a smaller one */
    const void *object; /* the tensor's address, for comparison only, and its version */
    uint32_t version;
    flow_value value;
} flow_sight;

enum { FLOW_WAITS = 4, FLOW_CHAIN = 8, FLOW_UNTIL = 4 };

/* An arrow from a state that is in no node yet. */
typedef struct flow_wait {
    uint64_t key[FLOW_CHAIN]; /* the state, that of the caller who passed it on, and so on */
    size_t key_count;
    uint64_t until[FLOW_UNTIL]; /* ids: where the arrow starts as long as there is nothing nearer */
    size_t until_count;
} flow_wait;

typedef struct flow_node {
    uint64_t id, key, frame;
    flow_sight sight;
    flow_wait waits[FLOW_WAITS];
    size_t wait_count;
    PyObject *name, *code; /* owned; str and code object */
    PyObject *owner;       /* owned or NULL; weak reference to the frame's `self` */
    int line;
    bool is_source;
    size_t from_count;
    uint64_t *from; /* owned; ids of the nodes whose arrows end here */
} flow_node;

typedef struct flow_ids { /* of nodes that arrows start at */
    uint64_t *all;        /* owned */
    size_t count, cap;
} flow_ids;

bool flow_ids_add(flow_ids *ids, uint64_t id); /* false: it is 0, or there is no memory */

enum { FLOW_WAITING = 64, FLOW_ORIGINS = 8 };

/* Where a tensor comes from that a function was given. */
typedef struct flow_descent {
    bool is_passed; /* the one key is that of the caller's name for it; else ... */
    size_t count;   /* ... the caller has no name, but has it from another call, made of these keys */
    uint64_t key[FLOW_ORIGINS];
} flow_descent;

/* A state that was read, for the node that it may become. */
typedef struct flow_state {
    flow_sight sight;
    flow_descent descent;
} flow_state;

typedef struct flow_chart {
    flow_node *ring; /* owned; node id is at id % cap */
    size_t cap, max;
    uint64_t next;       /* id of the next node; the first is 1 */
    uint64_t oldest;     /* id of the oldest one that is kept */
    uint64_t moment;     /* the last one that was given away */
    size_t orphans;      /* nodes with a wait */
    uint64_t begun;      /* id of the first node since capturing began, perhaps not for the first time */
    base_map index;      /* from the key of a state to the id of the newest node that shows it */
    flow_state *waiting; /* owned; states that were read and are in no node yet */
    uint64_t waiting_key[FLOW_WAITING]; /* of each; 0: nothing is there */
    size_t waiting_next;
} flow_chart;

static inline size_t flow_chart_count(const flow_chart *chart)
{
    return (size_t)(chart->next - chart->oldest);
}
static inline flow_node *flow_chart_at(const flow_chart *chart, uint64_t id)
{
    return &chart->ring[id % chart->cap];
}

void flow_chart_drop(flow_chart *chart); /* the oldest node; there must be one */
void flow_chart_clear(flow_chart *chart);
void flow_chart_free(flow_chart *chart);
/* The nodes as they are now, and nothing of what comes; -1: no memory. */
int flow_chart_copy(const flow_chart *chart, flow_chart *out);
/* Forgets the nodes that were there when the copy was made. */
void flow_chart_forget(flow_chart *chart, const flow_chart *copy);
/* Keeps the last `max` nodes from now on. */
int flow_chart_limit(flow_chart *chart, size_t max);
/* The node that shows this state; 0: none does. */
uint64_t flow_chart_find(const flow_chart *chart, uint64_t key);
/* Adds a node, perhaps in place of the oldest; its value is empty and its name
 * and code are new references.  NULL: no memory. */
flow_node *flow_chart_add(flow_chart *chart, uint64_t key, PyObject *name, PyObject *code, int line);
/* The newest node of this name before the id `end` that shows the same tensor in the same state, and is
 * not in this frame (0: in any); 0: none. */
uint64_t flow_chart_same(const flow_chart *chart, uint64_t end, PyObject *name, const flow_sight *sight,
                         uint64_t frame);
/* Adds arrows to what ends there already; 0 is no id. */
int flow_node_join(flow_node *node, const uint64_t *from, size_t count);
/* Adds the node that shows a state, or those of what a function had it from; false: there are
 * none. */
bool flow_chart_nodes_of(const flow_chart *chart, uint64_t key, flow_ids *out);
/* An arrow from the node with this key, perhaps the caller's; if it has none yet, from what
 * the caller had it from, until it has. */
void flow_chart_expect(flow_chart *chart, flow_node *node, uint64_t key);
/* Adds arrows from `node` to the nodes that waited for it. */
void flow_chart_adopt(flow_chart *chart, const flow_node *node);
/* The kept nodes in the order of the program, flow_chart_count of them. */
void flow_chart_sort(const flow_chart *chart, const flow_node **out);

/* The state that was put aside; NULL: it was not. */
flow_state *flow_chart_waiting(const flow_chart *chart, uint64_t key);
/* Hands its value over to a node. */
void flow_chart_take(flow_chart *chart, flow_state *state, flow_node *node);
/* Room for a state, perhaps that of the longest waiting one; NULL: no memory. */
flow_state *flow_chart_put_aside(flow_chart *chart, uint64_t key);

/* ---- what functions return to the statements that called them ------------- */

/* Addresses here are compared and never followed.  { 0 } is a valid empty object. */

enum {
    FLOW_PASSED = 16,    /* tensors of one value that are kept apart, and of what it is made of */
    FLOW_RETURNS = 1024, /* values that are on their way; of more, the oldest are forgotten */
};

/* A state of a name that a value was made of. */
typedef struct flow_origin {
    uint64_t key;
    const void *object; /* NULL: not known */
    bool is_above;      /* of the frame that sent the value: it may become a node later */
} flow_origin;

/* A value that a frame gave back to a statement of another. */
typedef struct flow_return {
    lines_call to;
    size_t value_count, from_count;
    const void *value[FLOW_PASSED]; /* the value, or what is in it */
    flow_origin from[FLOW_PASSED];
} flow_return;

typedef struct flow_calls {
    flow_return *back; /* owned; in the order in which they were given */
    size_t count, cap;
} flow_calls;

void flow_calls_clear(flow_calls *calls); /* as { 0 } */
/* A value goes to the statement that makes this call.  Returns the entry, for what it is made of;
 * NULL: no memory, an arrow will be missing. */
flow_return *flow_calls_add(flow_calls *calls, const lines_call *to, PyObject *value);
/* Finds the next value that was returned to the statement that makes this call and holds the object (NULL:
 * any): *back; false at the end.  Start with *at = 0. */
bool flow_calls_next(const flow_calls *calls, const lines_call *call, const void *object, size_t *at,
                     const flow_return **back);
/* Lists what a returned value, or the object in it, was made of; returns how many. */
size_t flow_return_origins(const flow_return *back, const void *object, flow_origin *out, size_t most);
/* Lists what was returned to the statement of a `change` and is in its change number `at`; returns how
 * many. */
size_t flow_calls_into(const flow_calls *calls, const lines_event *event, size_t at, flow_origin *out,
                       size_t most);
/* The same for a statement that returns what it was given, the event of a `leave`. */
size_t flow_calls_passed(const flow_calls *calls, const lines_event *event, flow_origin *out,
                         size_t most);
/* Forgets what was given to a frame, but not to this run of a statement (0: none). */
void flow_calls_forget(flow_calls *calls, uint64_t frame, uint64_t run);

/* ---- the object ---------------------------------------------------------- */

typedef struct flow_object {
    PyObject_HEAD binding_state *state; /* of the extension, which the type keeps alive */
    PyObject *select;                   /* owned; select(code) returns (first, last) or None */
    PyObject *root;       /* owned or NULL; str: folder that is left out of the names of sites */
    PyObject *error_text; /* owned or NULL; the first of errors */
    flow_chart chart;
    flow_calls calls;
    tt_sample_options options;
    bool has_returns, has_arrays;
    int consumer;    /* of the line source; -1: off */
    uint64_t errors; /* of consumers that were stopped */
} flow_object;

int flow_start(flow_object *self);
void flow_stop(flow_object *self);
PyObject *flow_dot(PyObject *self, PyObject *args);
PyObject *flow_json(PyObject *self, PyObject *looks);

#endif
