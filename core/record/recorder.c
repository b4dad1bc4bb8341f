/* recorder.c -- what a user's thread calls while it records.
 *
 * Exists as the short side of the queue: a call copies numbers into slots and
 * returns.  No allocation, no lock (but for values), no system call unless the
 * queue is full.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

#include "base/clock.h"
#include "store/pack.h"

#include <string.h>

static const double moment = 0.1; /* s between looks at a queue that others empty */

static uint32_t slots_for(size_t bytes)
{
    return (uint32_t)((bytes + TT_SLOT - 1) / TT_SLOT);
}

static bool has_site(const tt_recorder *rec, int32_t site)
{
    return site >= 0 && site < tt_sites_count(rec->sites);
}

void tt_recorder_count_drop(tt_recorder *rec, uint32_t slots)
{
    atomic_fetch_add_explicit(&rec->dropped_events, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&rec->dropped_bytes, (int64_t)slots * TT_SLOT, memory_order_relaxed);
}

tt_status tt_recorder_site(tt_recorder *rec, const char *name, int32_t *out, tt_error *err)
{
    tt_status st = tt_sites_intern(rec->sites, name, strlen(name), &rec->plan, out);
    if (st == TT_EINVAL)
        return tt_fail(err, st, "%.60s...: a run holds %d names of at most %d bytes", name, TT_SITES_MAX,
                       TT_SITE_NAME_MAX);
    return st == TT_OK ? st : tt_fail(err, st, "%s", tt_status_text(st));
}

const char *tt_recorder_site_name(const tt_recorder *rec, int32_t site)
{
    const tt_site_row *row = tt_sites_row(rec->sites, site);
    return row != NULL ? row->name : NULL;
}

uint32_t tt_recorder_wants(const tt_recorder *rec, int32_t site, int64_t step)
{
    const tt_site_row *row = tt_sites_row(rec->sites, site);
    if (row == NULL)
        return 0;
    uint32_t every = atomic_load_explicit(&row->every, memory_order_relaxed);
    if (every != 1 && (every == 0 || step % every != 0))
        return 0;
    return atomic_load_explicit(&row->products, memory_order_relaxed);
}

void tt_recorder_set_plan(tt_recorder *rec, int32_t site, uint32_t products, uint32_t every)
{
    tt_site_row *row = tt_sites_row(rec->sites, site);
    if (row == NULL)
        return;
    atomic_store_explicit(&row->products, products, memory_order_relaxed);
    atomic_store_explicit(&row->every, every, memory_order_relaxed);
}

tt_status tt_recorder_scalar(tt_recorder *rec, int32_t site, int64_t step, double value)
{
    if (!has_site(rec, site))
        return TT_EINVAL;
    if (tt_recorder_is_in_child(rec))
        return TT_OK;
    uint64_t at;
    tt_record *record = tt_queue_reserve(&rec->queue, 1, !rec->drops, &at);
    if (record == NULL) {
        tt_recorder_count_drop(rec, 1);
        return TT_OK;
    }
    *record = (tt_record){ .slots = 1,
                           .kind = TT_RECORD_POINT,
                           .ndim = -1,
                           .site = site,
                           .step = step,
                           .time = tt_clock_now(),
                           .scalar = value,
                           .products = TT_PRODUCT_SCALAR };
    tt_queue_commit(&rec->queue, at);
    atomic_fetch_add_explicit(&rec->events, 1, memory_order_relaxed);
    return TT_OK;
}

/* The caller has its lock again: is the tensor still what it was? */
static void come_back(const tt_event *event, tt_lent *lent)
{
    lent->has_waited = true;
    if (!event->enter(event->context))
        lent->is_changed = true;
}

tt_record *tt_recorder_reserve(tt_recorder *rec, const tt_event *event, uint32_t slots, bool waits,
                               tt_lent *lent, uint64_t *at)
{
    for (;;) {
        tt_record *record = tt_queue_reserve(&rec->queue, slots, waits && event->leave == NULL, at);
        if (record != NULL || !waits || event->leave == NULL ||
            atomic_load_explicit(&rec->queue.is_stopped, memory_order_relaxed))
            return record;
        event->leave(event->context);
        tt_queue_wait(&rec->queue, 2 * (uint64_t)slots, moment); /* with a filler */
        come_back(event, lent);
    }
}

/* Its holder may be waiting for what our caller has. */
static void take_value_lock(tt_recorder *rec, const tt_event *event, tt_lent *lent)
{
    if (event->leave == NULL) {
        pthread_mutex_lock(&rec->value_lock);
    } else if (pthread_mutex_trylock(&rec->value_lock) != 0) {
        event->leave(event->context);
        pthread_mutex_lock(&rec->value_lock);
        come_back(event, lent);
    }
}

/* Appends n bytes at *at. */
static void put(char **at, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(*at, bytes, n);
    *at += n;
}

/* The point itself, behind the bytes of its value if it has one. */
static bool push_point(tt_recorder *rec, const tt_event *e, const tt_digest *digest, int64_t row)
{
    const tt_tensor *t = e->tensor;
    tt_lent unread = { 0 }; /* its bytes have gone already */
    size_t hist = e->hist != NULL ? tt_hist_pack_bound(e->hist) : 0;
    size_t sample = e->sample != NULL ? tt_sample_pack_bound(e->sample, t->dtype) : 0;
    size_t tail = (e->stats != NULL ? sizeof *e->stats : 0) + (t != NULL ? (size_t)t->ndim * 8 : 0) +
                  (digest != NULL ? sizeof *digest : 0) + hist + sample;
    uint32_t slots = 1 + slots_for(tail);
    if (slots > rec->queue.slots / 4) { /* a sample of megabytes is none */
        slots = 1 + slots_for(tail - sample);
        sample = 0;
    }
    uint64_t at;
    tt_record *record = tt_recorder_reserve(rec, e, slots, !rec->drops, &unread, &at);
    if (record == NULL) {
        tt_recorder_count_drop(rec, slots);
        return false;
    }
    *record = (tt_record){
        .slots = slots,
        .kind = TT_RECORD_POINT,
        .phase = e->phase,
        .is_skipped = e->is_skipped,
        .ndim = t != NULL ? (int8_t)t->ndim : -1,
        .site = e->site,
        .call = e->call,
        .step = e->step,
        .time = e->time != 0 ? e->time : tt_clock_now(),
        .thread = e->thread,
        .value = row,
        .scalar = e->scalar != NULL ? *e->scalar : 0,
        .products = (e->scalar != NULL ? TT_PRODUCT_SCALAR : 0) |
                    (e->stats != NULL ? TT_PRODUCT_STATS : 0) | (digest != NULL ? TT_PRODUCT_DIGEST : 0) |
                    (e->hist != NULL ? TT_PRODUCT_HIST : 0) | (sample > 0 ? TT_PRODUCT_SAMPLE : 0) |
                    (row >= 0 ? TT_PRODUCT_VALUE : 0),
    };
    char *to = (char *)record + sizeof *record;
    if (e->stats != NULL)
        put(&to, e->stats, sizeof *e->stats);
    if (t != NULL)
        put(&to, t->shape, (size_t)t->ndim * sizeof *t->shape);
    if (digest != NULL)
        put(&to, digest, sizeof *digest);
    if (hist > 0)
        record->text_len = (uint32_t)tt_hist_pack(e->hist, to);
    if (sample > 0)
        record->more_len = (uint32_t)tt_sample_pack(e->sample, t->dtype, to + record->text_len);
    tt_queue_commit(&rec->queue, at);
    atomic_fetch_add_explicit(&rec->events, 1, memory_order_relaxed);
    return true;
}

tt_status tt_recorder_add(tt_recorder *rec, const tt_event *e)
{
    if (!has_site(rec, e->site) || (e->has_value && e->tensor == NULL) ||
        (e->sample != NULL && e->tensor == NULL) || e->phase >= TT_PHASE_COUNT_)
        return TT_EINVAL;
    if (tt_recorder_is_in_child(rec))
        return TT_OK;
    if (!e->has_value) {
        (void)push_point(rec, e, e->digest, -1);
        return TT_OK;
    }
    if (atomic_load_explicit(&rec->queue.is_stopped, memory_order_relaxed)) {
        tt_recorder_count_drop(rec, 1);
        return TT_OK;
    }
    tt_digest digest;
    if (e->digest != NULL)
        digest = *e->digest;
    else
        tt_digest_compute(e->tensor, &digest);
    int64_t row;
    tt_lent lent = { 0 };
    take_value_lock(rec, e, &lent);
    bool is_there = !lent.is_changed && tt_recorder_push_value(rec, e, &digest, &lent, &row);
    if (is_there || lent.is_changed)
        (void)push_point(rec, e, &digest, is_there ? row : -1);
    if (!is_there)
        tt_recorder_count_drop(rec,
                               slots_for((size_t)e->tensor->count * tt_dtype_size(e->tensor->dtype)));
    pthread_mutex_unlock(&rec->value_lock);
    return TT_OK;
}

/* The longest text that goes through the queue in one record. */
static size_t longest_text(const tt_recorder *rec)
{
    return (size_t)(rec->queue.slots / 8) * TT_SLOT;
}

/* Reserves a record with a tail of `len` bytes; NULL: there is no room, which is counted. */
static tt_record *reserve_text(tt_recorder *rec, tt_record_kind kind, int64_t step, size_t len,
                               uint64_t *at)
{
    uint32_t slots = 1 + slots_for(len);
    tt_record *record = tt_queue_reserve(&rec->queue, slots, !rec->drops, at);
    if (record == NULL)
        tt_recorder_count_drop(rec, slots);
    else
        *record = (tt_record){ .slots = slots,
                               .kind = (uint8_t)kind,
                               .step = step,
                               .time = tt_clock_now(),
                               .text_len = (uint32_t)len };
    return record;
}

tt_status tt_recorder_note(tt_recorder *rec, int64_t step, const char *text)
{
    size_t len = strlen(text), most = longest_text(rec);
    if (tt_recorder_is_in_child(rec))
        return TT_OK;
    len = len < most ? len : most;
    uint64_t at;
    tt_record *record = reserve_text(rec, TT_RECORD_NOTE, step, len, &at);
    if (record == NULL)
        return TT_OK;
    memcpy((char *)record + sizeof *record, text, len);
    tt_queue_commit(&rec->queue, at);
    return TT_OK;
}

tt_status tt_recorder_module(tt_recorder *rec, const char *path, const char *class_name)
{
    size_t first = strlen(path) + 1, second = strlen(class_name) + 1;
    if (tt_recorder_is_in_child(rec))
        return TT_OK;
    if (first + second > longest_text(rec))
        return TT_EINVAL;
    uint64_t at;
    tt_record *record = reserve_text(rec, TT_RECORD_MODULE, 0, first + second, &at);
    if (record == NULL)
        return TT_OK;
    memcpy((char *)record + sizeof *record, path, first);
    memcpy((char *)record + sizeof *record + first, class_name, second);
    tt_queue_commit(&rec->queue, at);
    return TT_OK;
}

/* The slots that an event of about so many bytes may need. */
static uint64_t room_for(const tt_recorder *rec, size_t bytes)
{
    size_t most = longest_text(rec);                                   /* larger ones go in pieces */
    return 2 * (uint64_t)(slots_for(bytes < most ? bytes : most) + 1); /* with a filler */
}

bool tt_recorder_has_room(const tt_recorder *rec, size_t bytes)
{
    return tt_queue_has_room(&rec->queue, room_for(rec, bytes));
}

bool tt_recorder_wait_room(tt_recorder *rec, size_t bytes, double seconds)
{
    double until = tt_clock_seconds() + seconds, left = seconds;
    for (; !tt_recorder_has_room(rec, bytes) && left > 0; left = until - tt_clock_seconds())
        tt_queue_wait(&rec->queue, room_for(rec, bytes), left < moment ? left : moment);
    return tt_recorder_has_room(rec, bytes);
}

tt_status tt_recorder_flush(tt_recorder *rec, tt_error *err)
{
    if (tt_recorder_is_in_child(rec))
        return TT_OK;
    tt_worker *worker = &rec->queue.worker;
    uint64_t goal = atomic_load(&rec->queue.head);
    pthread_mutex_lock(&worker->lock);
    if (atomic_load(&rec->wanted) < goal)
        atomic_store(&rec->wanted, goal);
    tt_worker_wake(worker);
    while (atomic_load(&rec->written) < goal && !atomic_load(&rec->queue.is_stopped))
        tt_worker_wait(worker, moment);
    pthread_mutex_unlock(&worker->lock);
    return tt_recorder_error(rec, err);
}

tt_status tt_recorder_error(const tt_recorder *rec, tt_error *err)
{
    if (!atomic_load(&rec->is_failed))
        return TT_OK;
    return tt_fail(err, rec->st, "%s", rec->error.text); /* not written again */
}

void tt_recorder_counts_get(const tt_recorder *rec, tt_recorder_counts *out)
{
    *out = (tt_recorder_counts){
        .events = atomic_load(&rec->events),
        .dropped_events = atomic_load(&rec->dropped_events),
        .dropped_bytes = atomic_load(&rec->dropped_bytes),
        .values = atomic_load(&rec->values_stored),
        .values_same = atomic_load(&rec->values_same),
        .values_gone = atomic_load(&rec->punched),
        .bytes = atomic_load(&rec->bytes),
        .damaged = atomic_load(&rec->damaged),
    };
}

bool tt_recorder_is_inherited(const tt_recorder *rec)
{
    return tt_recorder_is_in_child(rec);
}
