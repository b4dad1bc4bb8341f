/* recorder.h -- what the parts of a recorder share.  For record only.
 *
 * Who may touch what:
 *   queue        everyone, by its own rules
 *   store        the writer, with io_lock held
 *   values       user threads, with value_lock held; `place` the writer alone
 *   error, st    written once by the writer, with queue.worker.lock held
 * Order of locks: value_lock, io_lock, queue.worker.lock.  value_lock is held while a
 * tensor goes through the queue, so the writer never takes it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_RECORD_RECORDER_H
#define TT_RECORD_RECORDER_H

#include "record/queue.h"
#include "site/sites.h"
#include "store/store.h"

enum {
    TT_VALUE_ROWS = 1 << 16, /* tensors remembered, so that they are stored once */
    TT_VALUE_WAYS = 4,       /* rows that a digest may be in */
};

typedef struct tt_value_row {
    tt_digest digest;
    bool is_known;
} tt_value_row;

typedef struct tt_writer_batch {
    tt_record **records; /* owned; points of the batch, sorted by site */
    uint32_t *starts;    /* owned; of each site in records; one more than sites */
    int32_t *touched;    /* owned; sites with points in this batch */
    uint32_t cap;        /* of records */
    int32_t sites_cap;   /* of starts and touched */
    tt_points points;
} tt_writer_batch;

struct tt_recorder {
    tt_queue queue;
    tt_sites *sites; /* owned */
    tt_store store;
    char *path;           /* owned; of the file */
    char *only, *exclude; /* owned; copies for the plan */
    tt_plan plan;
    bool drops;
    pthread_mutex_t io_lock;  /* held by the writer while it works on a batch */
    _Atomic bool fork_wanted; /* somebody forks: the writer lets it pass first */
    _Atomic bool is_closing;
    _Atomic bool is_done;   /* the writer has left */
    _Atomic bool is_failed; /* recording has stopped; error says why */
    tt_error error;
    tt_status st;
    _Atomic uint64_t written; /* position in the queue up to which all is in the file */
    _Atomic uint64_t wanted;  /* flush: position that somebody waits for */
    pthread_mutex_t value_lock;
    tt_value_row *values;     /* owned */
    int64_t *place;           /* owned; of the last piece of each row's value; 0: none */
    _Atomic uint8_t *is_gone; /* owned; its value was evicted */
    uint32_t next_way;
    uint32_t holes_seen; /* of store.index.holes */
    tt_writer_batch batch;
    _Atomic int64_t events, dropped_events, dropped_bytes, values_stored, values_same, bytes, punched,
        damaged;
};

static inline bool tt_recorder_is_in_child(const tt_recorder *rec)
{
    return atomic_load_explicit(&rec->queue.worker.is_inherited, memory_order_relaxed);
}

void *tt_writer_run(void *recorder);
void tt_writer_free(tt_writer_batch *batch);
/* fork.c */
extern const tt_fork_calls tt_recorder_fork_calls;
/* A tensor's memory, of which the caller let go while it waited. */
typedef struct tt_lent {
    bool has_waited; /* others may have written to it */
    bool is_changed; /* it is not there any more, or holds something else */
} tt_lent;

/* Room for a record of this event; waits as the event wants it.  NULL: there is none and
 * it may not wait, or recording has stopped. */
tt_record *tt_recorder_reserve(tt_recorder *rec, const tt_event *event, uint32_t slots, bool waits,
                               tt_lent *lent, uint64_t *at);
/* The row of a tensor's value; its bytes go through the queue if they are new.
 * False: there was no room and the caller may not wait, or lent->is_changed.
 * value_lock is held. */
bool tt_recorder_push_value(tt_recorder *rec, const tt_event *event, const tt_digest *digest,
                            tt_lent *lent, int64_t *row);
void tt_recorder_count_drop(tt_recorder *rec, uint32_t slots);

#endif
