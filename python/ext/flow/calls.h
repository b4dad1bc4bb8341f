/* calls.h -- what functions give back to the statements that called them; for the files of flow.
 *
 * Addresses here are compared and never followed.  { 0 } is a valid empty object.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_FLOW_CALLS_H
#define TT_EXT_FLOW_CALLS_H

#include "lines/source.h"

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
/* A value goes to the statement that makes this call.  Gives where what it is made of
 * goes; NULL: no memory, an arrow will be missing. */
flow_return *flow_calls_give(flow_calls *calls, const lines_call *to, PyObject *value);
/* What was given back to the statement that makes this call, if the object is among it (NULL: any):
 * goes to *back; gives false at the end.  Start with *at = 0. */
bool flow_calls_next(const flow_calls *calls, const lines_call *call, const void *object, size_t *at,
                     const flow_return **back);
/* What a returned value, or the object in it, was made of; gives how many. */
size_t flow_return_origins(const flow_return *back, const void *object, flow_origin *out, size_t most);
/* What was given back to the statement of a `change` and is in its change number `at`;
 * gives how many. */
size_t flow_calls_given(const flow_calls *calls, const lines_event *event, size_t at, flow_origin *out,
                        size_t most);
/* The same for a statement that returns what it was given, the event of a `leave`. */
size_t flow_calls_passed(const flow_calls *calls, const lines_event *event, flow_origin *out,
                         size_t most);
/* The frame is left: nothing will be given to it any more. */
void flow_calls_end(flow_calls *calls, uint64_t frame);

#endif
