/* writer.c -- the thread that turns the queue into blocks.
 *
 * Exists so that no user's thread waits for the disk.  Five times a second,
 * and earlier when there is much, it takes what is in the queue: values are
 * written as they come, points are sorted by site and become one chunk each in
 * one block.  A fork waits for the batch at hand, some milliseconds at most.  It blocks all signals and touches no Python object.
 *
 * After a failure it keeps the error, stops the queue and leaves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "record/recorder.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_SLOTS = 1 << 15, /* 2 MB of points: some milliseconds of work */
};
/* s from the start of one batch to that of the next.  A kill costs this, the time that the
 * batch takes, and any time for which the thread has no processor or the disk takes nothing. */
static const double interval = 0.2;

void tt_writer_free(tt_writer_batch *batch)
{
    free(batch->records);
    free(batch->sorted);
    free(batch->ends);
    tt_points_free(&batch->points);
}

/* Tells user threads which values are no longer there. */
static void mark_gone(tt_recorder *rec)
{
    const tt_offsets *holes = &rec->store.index.holes;
    for (; rec->holes_seen + 1 < holes->count; rec->holes_seen += 2)
        for (size_t row = 0; row < TT_VALUE_ROWS; row++)
            if (rec->values[row].place >= holes->at[rec->holes_seen] &&
                rec->values[row].place < holes->at[rec->holes_seen + 1])
                atomic_store_explicit(&rec->values[row].is_gone, true, memory_order_relaxed);
}

static tt_status write_piece(tt_recorder *rec, const tt_record *record, tt_error *err)
{
    tt_value_head piece;
    memcpy(&piece, tt_record_tail(record), sizeof piece);
    const char *bytes = (const char *)tt_record_tail(record) + sizeof piece;
    int64_t *place = &rec->values[record->value].place;
    if (piece.at == 0)
        *place = 0;
    else if (*place == 0)
        return TT_OK; /* the pieces before found no room */
    tt_status st = tt_store_value(&rec->store, &piece, bytes, place, err);
    mark_gone(rec);
    return st;
}

/* Goes through the records of [from, *to): writes values and notes, finds where
 * values of points are, collects the points.  *to moves to where something happens. */
static tt_status take_records(tt_recorder *rec, uint64_t from, uint64_t *to, uint32_t *points,
                              tt_error *err)
{
    tt_writer_batch *batch = &rec->batch;
    tt_status st = TT_OK;
    uint32_t count = 0;
    uint64_t at = from;
    while (st == TT_OK && at < *to && !tt_thin_is_due(&rec->thin)) {
        tt_record *record = tt_queue_peek(&rec->queue, at);
        at += record->slots;
        switch ((tt_record_kind)record->kind) {
        case TT_RECORD_POINT:
            st = tt_grow(&batch->records, &batch->cap, (size_t)count + 1, sizeof(*batch->records));
            if (st < 0)
                return tt_fail_plain(err, st);
            if (record->products & TT_PRODUCT_VALUE) {
                record->value = rec->values[record->value].place;
                if (record->value == 0)
                    record->products &= ~(uint32_t)TT_PRODUCT_VALUE;
                else
                    tt_store_value_used(&rec->store, record->value);
            }
            if (!tt_thin_holds(&rec->thin, record))
                batch->records[count++] = record;
            break;
        case TT_RECORD_NOTE:
            tt_thin_happened(&rec->thin, record->step);
            st = tt_store_note(&rec->store, record->step, record->time, tt_record_tail(record),
                               record->text_len, err);
            break;
        case TT_RECORD_SECTION:
            st = tt_store_section(&rec->store, (tt_section)record->products, tt_record_tail(record),
                                  record->text_len, err);
            break;
        case TT_RECORD_PIECE:
            st = write_piece(rec, record, err);
            break;
        case TT_RECORD_PAD:
            break;
        }
    }
    *to = at;
    *points = count;
    return st;
}

/* Counting sort of the points by site. */
static tt_status sort_points(tt_writer_batch *batch, uint32_t count, int32_t sites)
{
    tt_status st = tt_grow(&batch->sorted, &batch->sorted_cap, count, sizeof(*batch->sorted));
    if (st == TT_OK)
        st = tt_grow(&batch->ends, &batch->ends_cap, (size_t)sites + 1, sizeof *batch->ends);
    if (st < 0)
        return st;
    memset(batch->ends, 0, ((size_t)sites + 1) * sizeof *batch->ends);
    for (uint32_t i = 0; i < count; i++)
        batch->ends[batch->records[i]->site + 1]++;
    for (int32_t i = 0; i < sites; i++)
        batch->ends[i + 1] += batch->ends[i];
    for (uint32_t i = 0; i < count; i++) /* ends[i] moves from where i starts to where it ends */
        batch->sorted[batch->ends[batch->records[i]->site]++] = batch->records[i];
    return TT_OK;
}

static tt_status add_site(tt_recorder *rec, int32_t site, tt_record **records, uint32_t n, tt_error *err)
{
    tt_points *points = &rec->batch.points;
    tt_status st = TT_OK;
    while (st == TT_OK && n > 0) {
        uint32_t now = 0, products = 0;
        size_t bytes = 0; /* histograms, samples and sketches make chunks large */
        while (now < n && now < TT_CHUNK_POINTS_MAX && bytes < TT_COLUMN_BYTES_MAX / 4) {
            products |= records[now]->products;
            bytes += (size_t)records[now]->slots * TT_SLOT;
            now++;
        }
        tt_points_clear(points);
        st = tt_points_reserve(points, now, products);
        for (uint32_t i = 0; st == TT_OK && i < now; i++)
            st = tt_points_add(points, records[i]);
        if (st < 0)
            return tt_fail_plain(err, st);
        st = tt_store_add(&rec->store, site, points, err);
        records += now;
        n -= now;
    }
    return st;
}

static tt_status add_points(tt_recorder *rec, uint32_t count, tt_error *err)
{
    int32_t sites = tt_sites_count(rec->sites);
    tt_writer_batch *batch = &rec->batch;
    tt_status st = sort_points(batch, count, sites);
    if (st < 0)
        return tt_fail_plain(err, st);
    uint32_t start = 0;
    for (int32_t site = 0; st == TT_OK && site < sites; site++) {
        uint32_t end = batch->ends[site];
        if (end > start)
            st = add_site(rec, site, batch->sorted + start, end - start, err);
        start = end;
    }
    if (st == TT_OK)
        st = tt_store_flush(&rec->store, err);
    for (int32_t site = 0; st == TT_OK && site < sites; site++) {
        uint32_t first = site > 0 ? batch->ends[site - 1] : 0;
        if (batch->ends[site] > first)
            st = tt_store_tidy(&rec->store, site, false, err);
        if (st == TT_OK && rec->store.body.len > BATCH_SLOTS * TT_SLOT)
            st = tt_store_flush(&rec->store, err);
    }
    return st;
}

/* Writes the points that the ring has and something that happened makes interesting. */
static tt_status write_ring(tt_recorder *rec, tt_error *err)
{
    tt_writer_batch *batch = &rec->batch;
    int32_t sites = tt_sites_count(rec->sites);
    uint32_t count = 0, start = 0;
    uint64_t at = 0;
    tt_status st = tt_store_flush(&rec->store, err); /* points of before are read back */
    for (tt_record *record; st == TT_OK && (record = tt_thin_take(&rec->thin, &at)) != NULL;) {
        st = tt_grow(&batch->records, &batch->cap, (size_t)count + 1, sizeof(*batch->records));
        if (st == TT_OK)
            batch->records[count++] = record;
    }
    if (st == TT_OK)
        st = sort_points(batch, count, sites);
    if (st < 0)
        return tt_fail_plain(err, st);
    for (int32_t site = 0; st == TT_OK && site < sites; site++) {
        uint32_t end = batch->ends[site];
        if (end > start)
            st = tt_store_insert(&rec->store, site, (const tt_record *const *)batch->sorted + start,
                                 end - start, err);
        if (st == TT_OK && rec->store.body.len > BATCH_SLOTS * TT_SLOT)
            st = tt_store_flush(&rec->store, err);
        start = end;
    }
    return st;
}

/* One batch: everything of [from, *to), or less where something happens: *to moves there. */
static tt_status write_batch(tt_recorder *rec, uint64_t from, uint64_t *to, tt_error *err)
{
    uint32_t points = 0;
    tt_status st = take_records(rec, from, to, &points, err);
    if (st == TT_OK && points > 0)
        st = add_points(rec, points, err);
    if (st == TT_OK && tt_thin_wants(&rec->thin))
        st = write_ring(rec, err);
    if (st == TT_OK)
        st = tt_thin_say(&rec->thin, &rec->store, err);
    tt_store_lost(&rec->store, atomic_load(&rec->dropped_events), atomic_load(&rec->dropped_bytes));
    if (st == TT_OK)
        st = tt_store_flush(&rec->store, err);
    if (st == TT_OK)
        st = tt_store_index_if_due(&rec->store, err);
    atomic_store(&rec->bytes, rec->store.end - rec->store.punched);
    atomic_store(&rec->punched, rec->store.punched);
    atomic_store(&rec->damaged, rec->store.damaged);
    if (rec->thin.told_stride > 0) {
        atomic_store(&rec->step_bytes, rec->thin.told_bytes);
        atomic_store(&rec->stride, rec->thin.told_stride);
    }
    return st;
}

static void fail(tt_recorder *rec, tt_status st, const tt_error *err)
{
    rec->st = st;
    (void)tt_fail(&rec->error, st, "recording into %.100s has stopped: %.100s", rec->path, err->text);
    atomic_store(&rec->is_failed, true);
}

/* Nothing presses: let points gather. */
static bool may_sleep(tt_recorder *rec, uint64_t at)
{
    return !atomic_load(&rec->is_closing) && atomic_load(&rec->wanted) <= at &&
           atomic_load(&rec->queue.worker.waiting) == 0 &&
           atomic_load(&rec->queue.head) - at <= rec->queue.slots / 4;
}

/* Writes everything up to goal, in batches. */
static tt_status drain(tt_recorder *rec, uint64_t *at, uint64_t goal, tt_error *err)
{
    tt_status st = TT_OK;
    while (st == TT_OK && *at < goal) {
        uint64_t to = *at;
        const tt_record *record;
        while (to - *at < BATCH_SLOTS && to < goal && (record = tt_queue_peek(&rec->queue, to)) != NULL)
            to += record->slots;
        if (to == *at) {
            sched_yield(); /* a producer is filling its slots */
            continue;
        }
        tt_worker_begin(&rec->queue.worker);
        st = write_batch(rec, *at, &to, err);
        *at = to;
        if (st == TT_OK)
            atomic_store(&rec->written, to);
        tt_queue_release(&rec->queue, to);
        tt_worker_end(&rec->queue.worker);
    }
    return st;
}

void *tt_writer_run(void *recorder)
{
    tt_recorder *rec = recorder;
    tt_worker *worker = &rec->queue.worker;
    tt_error err = { "" };
    tt_status st = TT_OK;
    uint64_t at = 0;
    double begun = tt_clock_seconds(); /* the batch before: what came behind it waits since then */
    for (bool is_closing = false; !is_closing;) {
        double left = begun + interval - tt_clock_seconds();
        pthread_mutex_lock(&worker->lock);
        if (left > 0 && may_sleep(rec, at))
            (void)tt_worker_sleep(worker, left);
        pthread_mutex_unlock(&worker->lock);
        begun = tt_clock_seconds();
        is_closing = atomic_load(&rec->is_closing); /* looked at before the queue */
        st = drain(rec, &at, atomic_load(&rec->queue.head), &err);
        if (st < 0)
            break;
        atomic_store(&rec->writer_ns, tt_clock_thread());
        pthread_mutex_lock(&worker->lock); /* flush must see both or neither */
        at = tt_queue_rewind(&rec->queue, at);
        atomic_store(&rec->written, at);
        pthread_mutex_unlock(&worker->lock);
    }
    tt_worker_begin(worker);
    tt_thin_end(&rec->thin);
    if (st == TT_OK && tt_thin_wants(&rec->thin))
        st = write_ring(rec, &err);
    if (st == TT_OK)
        st = tt_thin_say(&rec->thin, &rec->store, &err);
    if (st == TT_OK)
        tt_store_lost(&rec->store, atomic_load(&rec->dropped_events), atomic_load(&rec->dropped_bytes));
    tt_status closed = tt_store_close(&rec->store, st == TT_OK ? &err : NULL);
    tt_worker_end(worker);
    st = st == TT_OK ? closed : st;
    if (st < 0)
        fail(rec, st, &err);
    tt_queue_stop(&rec->queue); /* whoever waits goes on */
    return NULL;
}
