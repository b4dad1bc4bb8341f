/* flow_calls.h -- what passes between frames; for the files of flow.
 *
 * Addresses here are compared and never followed.  { 0 } is a valid empty object.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_FLOW_CALLS_H
#define TT_EXT_FLOW_CALLS_H

#include "source_line.h"

enum {
    FLOW_CALLS = 64,   /* frames whose statement is remembered */
    FLOW_RETURNS = 32, /* values that are on their way to a statement */
    FLOW_PASSED = 16,  /* tensors of one of them that are */
};

/* A statement that runs, and what it reads. */
typedef struct flow_call {
    uint64_t frame; /* 0: none */
    size_t count;
    struct {
        uint64_t key;
        const void *object;
        uint32_t version;
    } read[FLOW_PASSED];
} flow_call;

/* A value that a frame gave back to a statement of another. */
typedef struct flow_return {
    uint64_t caller; /* 0: none */
    int line;        /* of that statement */
    size_t value_count, key_count;
    const void *value[FLOW_PASSED]; /* the value, or what is in it */
    uint64_t key[FLOW_PASSED];      /* what it was made of */
} flow_return;

typedef struct flow_calls {
    flow_call *call; /* owned; FLOW_CALLS of them, by frame */
    flow_return back[FLOW_RETURNS];
    size_t next; /* the place of the next one, in a ring */
    size_t open; /* of them, with a caller */
} flow_calls;

void flow_calls_clear(flow_calls *calls); /* as { 0 } */
/* The statement of a `before`. */
void flow_calls_begin(flow_calls *calls, const line_event *event);
/* The key that the caller's statement knows an object of this version by; 0: it does not. */
uint64_t flow_calls_argument(const flow_calls *calls, uint64_t caller, const line_name *read);
/* A value goes to the statement at this line of the frame `caller`.  Gives where
 * the keys of what it is made of go. */
flow_return *flow_calls_give(flow_calls *calls, uint64_t caller, int line, PyObject *value);
/* The keys of what was given back to the statement of a `change` and is in its
 * change number `at`; gives how many. */
size_t flow_calls_given(const flow_calls *calls, const line_event *event, size_t at, uint64_t *out,
                        size_t most);
/* The same for a statement that returns what it was given, the event of a `leave`. */
size_t flow_calls_passed(const flow_calls *calls, const line_event *event, uint64_t *out, size_t most);
/* The statement is over. */
void flow_calls_end(flow_calls *calls, uint64_t frame);

#endif
