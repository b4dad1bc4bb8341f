/* recorder.h -- what the files of a recorder share.  For record only.
 *
 * Who may touch what:
 *   queue        everyone, by its own rules
 *   store        the writer, between tt_worker_begin and tt_worker_end
 *   values       user threads, with value_lock held; `place` the writer alone
 *   error, st    written once by the writer, before is_failed
 * Order of locks: value_lock, queue.worker.lock.  value_lock is held while a tensor goes
 * through the queue, so the writer never takes it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_RECORD_RECORDER_H
#define TT_RECORD_RECORDER_H

#include "record/queue.h"
#include "record/thin.h"
#include "site/sites.h"
#include "store/store.h"

enum {
    TT_VALUE_ROWS = 1 << 16, /* tensors remembered, so that they are stored once */
    TT_VALUE_WAYS = 4,       /* rows that a digest may be in */
};

typedef struct tt_value_row {
    tt_digest digest;
    bool is_known;
    _Atomic bool is_gone; /* its value was evicted */
    int64_t place;        /* of the last piece of its value; 0: none */
} tt_value_row;

typedef struct tt_writer_batch {
    tt_record **records; /* owned; points of the batch, as they came */
    tt_record **sorted;  /* owned; by site */
    uint32_t *ends;      /* owned; of each site in sorted */
    size_t cap, sorted_cap, ends_cap;
    tt_points points;
} tt_writer_batch;

struct tt_recorder {
    tt_queue queue;
    tt_sites *sites; /* owned */
    tt_store store;
    char *path;   /* owned; of the file */
    tt_plan plan; /* its texts are owned */
    bool drops;
    _Atomic bool is_closing;
    _Atomic bool is_failed; /* recording has stopped; error says why */
    tt_error error;
    tt_status st;
    _Atomic uint64_t written; /* position in the queue up to which all is in the file */
    _Atomic uint64_t wanted;  /* flush: position that somebody waits for */
    pthread_mutex_t value_lock;
    tt_value_row *values; /* owned */
    uint32_t next_way;
    uint32_t holes_seen; /* of store.index.holes */
    tt_writer_batch batch;
    tt_thin thin; /* the writer's alone */
    _Atomic int64_t events, dropped_events, dropped_bytes, values_stored, values_same, bytes, punched,
        damaged, writer_ns, stride, step_bytes;
};

void *tt_writer_run(void *recorder);
void tt_writer_free(tt_writer_batch *batch);

#endif
