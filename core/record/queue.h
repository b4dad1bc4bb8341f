/* queue.h -- the bounded ring between the users' threads and the writer.
 *
 * For record only.  Many producers, one consumer.  The ring is made of slots of 64
 * bytes; a record takes whole slots, one behind the other.  A producer reserves
 * by moving `head`, fills its slots, and commits; the consumer takes records in
 * order and moves `tail`.  No lock and no allocation, unless the ring is full or
 * the writer asleep.
 *
 * Whether a slot is committed is said beside the ring and not in it, by the
 * number of the lap: so slots need no clearing, and no bytes of a tensor can be
 * taken for a header.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_RECORD_QUEUE_H
#define TT_RECORD_QUEUE_H

#include "base/worker.h"
#include "store/event.h"

typedef struct tt_queue {
    char *ring;             /* owned, mapped; slot i at 64 * i */
    _Atomic uint32_t *laps; /* owned; of slot i: lap + 1 of the record that starts there */
    uint64_t slots;         /* a power of two */
    unsigned shift;         /* its logarithm */
    char apart_1[64];       /* the two sides do not share a cache line */
    _Atomic uint64_t head;  /* producers: slots reserved since the start */
    char apart_2[64];
    _Atomic uint64_t tail; /* consumer: slots given back */
    char apart_3[64];
    tt_worker worker;        /* the writer; its lock is for sleeping and rewinding only */
    _Atomic bool is_stopped; /* nobody writes any more: nothing is taken */
} tt_queue;

/* bytes: rounded to a power of two.  The rest is for the worker. */
tt_status tt_queue_open(tt_queue *queue, size_t bytes, void (*in_child)(void *owner), void *owner);
void tt_queue_close(tt_queue *queue);

/* Room for a record of n slots, at most slots / 4; *at names it for commit.
 * NULL: full, or stopped. */
tt_record *tt_queue_reserve(tt_queue *queue, uint32_t n, uint64_t *at);
void tt_queue_commit(tt_queue *queue, uint64_t at);
/* Commits what was reserved as nothing. */
void tt_queue_give_back(tt_queue *queue, uint32_t n, uint64_t at);
bool tt_queue_is_behind(const tt_queue *queue); /* the writer has more than it would sleep on */
bool tt_queue_has_room(const tt_queue *queue, uint64_t slots);
/* Waits until the writer has made room, but not longer than this.  True: there is room for so
 * many slots, or nothing is taken any more. */
bool tt_queue_wait(tt_queue *queue, uint64_t slots, double seconds);
void tt_queue_wake(tt_queue *queue); /* the writer */

/* ---- the consumer ---- */

/* The committed record at position at, PAD included; NULL: none yet. */
tt_record *tt_queue_peek(const tt_queue *queue, uint64_t at);
/* Everything before is free; tt_worker_end says so to whoever waits. */
void tt_queue_release(tt_queue *queue, uint64_t upto);
/* Goes on at the start of the ring if everything up to at was taken: what is used again
 * and again stays in the cache, and most of the ring is never touched.  Returns where to go
 * on.  Called with the worker's lock held. */
uint64_t tt_queue_rewind(tt_queue *queue, uint64_t at);
/* Nothing will be taken any more; whoever waits goes on. */
void tt_queue_stop(tt_queue *queue);
/* In a forked child. */
void tt_queue_after_fork(tt_queue *queue);

#endif
