/* recorder.c -- starts and ends a recorder, and what a user's thread calls in between.
 *
 * Recording is the short side of the queue: a call copies numbers into slots and returns.
 * No allocation, no lock (but for values), no system call unless the queue is full.
 *
 * A process may fork while it records: DataLoader workers do.  The child gets a recorder
 * that is `inherited`: its queue is empty, the file is the parent's and is closed without a
 * word, calls do nothing.  No memory is allocated and nothing is written in the child.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

#include "base/clock.h"
#include "store/pack.h"
#include "tensor/walk.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { QUEUE_BYTES = 32 << 20, PIECE_MAX = 8 << 20 };

/* ---- opening and closing ----------------------------------------------------- */

/* Makes a folder and those above it. */
static tt_status make_folder(const char *folder, tt_error *err)
{
    char path[PATH_MAX];
    size_t len = strlen(folder);
    if (len == 0 || len >= sizeof path - 32)
        return tt_fail(err, TT_EINVAL, "the folder's name is empty or too long");
    memcpy(path, folder, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        char kept = path[i];
        path[i] = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return tt_fail(err, TT_EIO, "%.180s: %s", path, strerror(errno));
        path[i] = kept;
    }
    return TT_OK;
}

static bool name_file(tt_recorder *rec, const char *folder, const tt_recorder_options *options)
{
    char child[16] = "";
    if (options->child != 0)
        (void)snprintf(child, sizeof child, ".%d", (int)options->child);
    if (asprintf(&rec->path, "%s/rank%d%s.tap", folder, (int)options->rank, child) < 0)
        rec->path = NULL;
    return rec->path != NULL;
}

static bool copy_plan(tt_recorder *rec, const tt_plan *plan)
{
    rec->plan = *plan;
    rec->plan.only = plan->only != NULL ? strdup(plan->only) : NULL;
    rec->plan.exclude = plan->exclude != NULL ? strdup(plan->exclude) : NULL;
    return (rec->plan.only != NULL) == (plan->only != NULL) &&
           (rec->plan.exclude != NULL) == (plan->exclude != NULL);
}

static void release(tt_recorder *rec)
{
    if (rec->queue.ring != NULL)
        tt_queue_close(&rec->queue);
    tt_sites_free(rec->sites);
    tt_writer_free(&rec->batch);
    pthread_mutex_destroy(&rec->value_lock);
    free(rec->values);
    free(rec->place);
    free((void *)rec->is_gone);
    free((void *)(uintptr_t)rec->plan.only);
    free((void *)(uintptr_t)rec->plan.exclude);
    free(rec->path);
    free(rec);
}

/* value_lock was not waited for: a thread that has it may be waiting for the disk.  What it
 * guards is not used in the child. */
static void in_child(void *owner)
{
    tt_recorder *rec = owner;
    (void)pthread_mutex_init(&rec->value_lock, NULL);
    tt_queue_after_fork(&rec->queue);
    tt_sites_after_fork(rec->sites);
    tt_store_forget(&rec->store);
}

/* Sites of a run that goes on get the plan of now. */
static void plan_known_sites(tt_recorder *rec)
{
    for (int32_t i = 0; i < tt_sites_count(rec->sites); i++)
        tt_recorder_set_plan(rec, i, tt_plan_products(&rec->plan, tt_sites_row(rec->sites, i)->name),
                             rec->plan.every > 0 ? rec->plan.every : 1);
}

tt_status tt_recorder_open(const char *folder, const tt_recorder_options *options, tt_recorder **out,
                           tt_error *err)
{
    static const tt_recorder_options defaults = { 0 };
    options = options != NULL ? options : &defaults;
    tt_status st = make_folder(folder, err);
    if (st < 0)
        return st;
    tt_recorder *rec = calloc(1, sizeof *rec);
    if (rec == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    rec->drops = options->drops;
    rec->store.fd = -1;
    rec->values = calloc(TT_VALUE_ROWS, sizeof *rec->values);
    rec->place = calloc(TT_VALUE_ROWS, sizeof *rec->place);
    rec->is_gone = calloc(TT_VALUE_ROWS, sizeof *rec->is_gone);
    size_t bytes = options->queue_bytes > 0 ? options->queue_bytes : QUEUE_BYTES;
    if (pthread_mutex_init(&rec->value_lock, NULL) != 0 || rec->values == NULL || rec->place == NULL ||
        rec->is_gone == NULL || !name_file(rec, folder, options) || !copy_plan(rec, &options->plan) ||
        tt_sites_create(&rec->sites) < 0 || tt_queue_open(&rec->queue, bytes, in_child, rec) < 0) {
        st = tt_fail_plain(err, TT_ENOMEM);
        goto out;
    }
    tt_store_options store = { .resumes = options->resumes,
                               .compresses = options->compresses,
                               .max_bytes = options->max_bytes,
                               .info = options->info };
    st = tt_store_open(&rec->store, rec->path, rec->sites, &store, err);
    if (st < 0)
        goto out;
    plan_known_sites(rec);
    atomic_store(&rec->bytes, rec->store.end);
    st = tt_worker_start(&rec->queue.worker, tt_writer_run, rec, err);
out:
    if (st < 0) {
        (void)tt_store_close(&rec->store, NULL);
        release(rec);
        return st;
    }
    *out = rec;
    return TT_OK;
}

tt_status tt_recorder_close(tt_recorder *rec, double seconds, tt_error *err)
{
    if (rec == NULL)
        return TT_OK;
    tt_status st = TT_OK;
    if (!tt_recorder_is_inherited(rec)) {
        atomic_store(&rec->is_closing, true);
        tt_queue_wake(&rec->queue);
        if (!tt_worker_join(&rec->queue.worker, seconds)) /* it may use everything we have */
            return tt_fail(err, TT_EIO, "%.150s: the disk did not take the last events in %g s",
                           rec->path, seconds);
        st = tt_recorder_error(rec, err);
    }
    release(rec);
    return st;
}

bool tt_recorder_is_inherited(const tt_recorder *rec)
{
    return atomic_load_explicit(&rec->queue.worker.is_inherited, memory_order_relaxed);
}

/* ---- sites ------------------------------------------------------------------- */

static bool has_site(const tt_recorder *rec, int32_t site)
{
    return site >= 0 && site < tt_sites_count(rec->sites);
}

tt_status tt_recorder_site(tt_recorder *rec, const char *name, int32_t *out, tt_error *err)
{
    tt_status st = tt_sites_intern(rec->sites, name, strlen(name), &rec->plan, out);
    if (st == TT_EINVAL)
        return tt_fail(err, st, "%.60s...: a run holds %d names of at most %d bytes", name, TT_SITES_MAX,
                       TT_SITE_NAME_MAX);
    return tt_fail_plain(err, st);
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

/* ---- room in the queue ------------------------------------------------------- */

/* A tensor's memory, whose lock the caller released while it waited. */
typedef struct waited {
    bool has_waited; /* others may have written to it */
    bool is_changed; /* it is not there any more, or holds something else */
} waited;

static uint32_t slots_for(size_t bytes)
{
    return (uint32_t)((bytes + TT_SLOT - 1) / TT_SLOT);
}

/* Not in a forked child, which records nothing. */
static void count_drop(tt_recorder *rec, uint32_t slots)
{
    if (tt_recorder_is_inherited(rec))
        return;
    atomic_fetch_add_explicit(&rec->dropped_events, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&rec->dropped_bytes, (int64_t)slots * TT_SLOT, memory_order_relaxed);
}

/* Takes the caller's lock again and asks whether the tensor is still what it was. */
static void enter(const tt_event *event, waited *past)
{
    past->has_waited = true;
    if (!event->enter(event->context))
        past->is_changed = true;
}

/* Reserves slots for a record; waits if it may, without the lock of the event's caller.  NULL:
 * there is no room and it may not wait, or recording has stopped. */
static tt_record *reserve(tt_recorder *rec, const tt_event *event, uint32_t slots, bool waits,
                          waited *past, uint64_t *at)
{
    bool has_lock = event != NULL && event->leave != NULL;
    tt_record *record;
    while ((record = tt_queue_reserve(&rec->queue, slots, at)) == NULL && waits &&
           !atomic_load_explicit(&rec->queue.is_stopped, memory_order_relaxed)) {
        if (has_lock)
            event->leave(event->context);
        (void)tt_queue_wait(&rec->queue, 2 * (uint64_t)slots, TT_FOREVER); /* with a filler */
        if (has_lock)
            enter(event, past);
    }
    return record;
}

/* The same for a record that reads no tensor.  NULL: it is counted as dropped. */
static tt_record *reserve_or_drop(tt_recorder *rec, const tt_event *event, uint32_t slots, uint64_t *at)
{
    waited unread = { 0 };
    tt_record *record = reserve(rec, event, slots, !rec->drops, &unread, at);
    if (record == NULL)
        count_drop(rec, slots);
    return record;
}

/* The longest text that goes through the queue in one record. */
static size_t longest_text(const tt_recorder *rec)
{
    return (size_t)(rec->queue.slots / 8) * TT_SLOT;
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
    double until = tt_clock_seconds() + seconds;
    while (!tt_queue_wait(&rec->queue, room_for(rec, bytes), seconds)) {
        seconds = until - tt_clock_seconds();
        if (seconds <= 0)
            return false;
    }
    return true;
}

/* ---- values: the bytes of a tensor, in pieces where it is larger than the queue ----------
 * All of it under value_lock, so that pieces of two tensors do not mix and a row of the table
 * means one value at a time.  A tensor that was sent before is only named. */

/* The row that holds a digest; else a row to use for it. */
static int64_t find_row(tt_recorder *rec, const tt_digest *digest, bool *is_known)
{
    size_t first = (size_t)(digest->low % (TT_VALUE_ROWS / TT_VALUE_WAYS)) * TT_VALUE_WAYS;
    for (size_t row = first; row < first + TT_VALUE_WAYS; row++) {
        const tt_value_row *value = &rec->values[row];
        if (value->is_known && value->digest.low == digest->low && value->digest.high == digest->high) {
            *is_known = atomic_exchange_explicit(&rec->is_gone[row], 0, memory_order_relaxed) == 0;
            return (int64_t)row;
        }
    }
    *is_known = false;
    for (size_t row = first; row < first + TT_VALUE_WAYS; row++)
        if (!rec->values[row].is_known)
            return (int64_t)row;
    return (int64_t)(first + rec->next_way++ % TT_VALUE_WAYS);
}

static bool has_digest(const tt_tensor *t, const tt_digest *digest)
{
    tt_digest now;
    tt_digest_compute(t, &now);
    return now.low == digest->low && now.high == digest->high;
}

/* Finds the row of a tensor's value; its bytes go through the queue if they are new.  False:
 * there was no room and the caller may not wait, or past->is_changed. */
static bool push_value(tt_recorder *rec, const tt_event *event, const tt_digest *digest, waited *past,
                       int64_t *row)
{
    const tt_tensor *t = event->tensor;
    bool is_known;
    *row = find_row(rec, digest, &is_known);
    if (is_known) {
        atomic_fetch_add_explicit(&rec->values_same, 1, memory_order_relaxed);
        return true;
    }
    int64_t item = (int64_t)tt_dtype_size(t->dtype), most = (int64_t)longest_text(rec);
    int64_t limit = (most > PIECE_MAX ? PIECE_MAX : most) / item * item;
    tt_piece piece = {
        .digest = *digest, .total = t->count * item, .dtype = (int32_t)t->dtype, .ndim = t->ndim
    };
    memcpy(piece.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    rec->values[*row].is_known = false;
    do {
        piece.len = piece.total - piece.at < limit ? piece.total - piece.at : limit;
        uint64_t place;
        uint32_t slots = 1 + slots_for(sizeof piece + (size_t)piece.len);
        /* The first piece may find the queue full; the others follow it whatever it takes. */
        tt_record *record = reserve(rec, event, slots, !rec->drops || piece.at > 0, past, &place);
        if (record == NULL)
            return false;
        bool is_last = piece.at + piece.len == piece.total;
        if (!past->is_changed && past->has_waited && is_last)
            past->is_changed = !has_digest(t, digest); /* or it would stand for a torn tensor */
        if (past->is_changed) {
            tt_queue_give_back(&rec->queue, slots, place);
            return false; /* without its last piece a value is never seen */
        }
        *record = (tt_record){ .slots = slots,
                               .kind = TT_RECORD_PIECE,
                               .site = event->site,
                               .step = event->step,
                               .call = event->call,
                               .value = *row };
        char *tail = (char *)record + sizeof *record, *bytes = tail + sizeof piece;
        tt_walk_copy(&walk, bytes, (size_t)piece.len);
        /* Of the copy: the tensor may be changing.  Where the writer lags behind we would wait
         * for it anyway, and here the bytes are still in the cache. */
        piece.has_check = tt_queue_is_behind(&rec->queue);
        piece.check = piece.has_check ? tt_block_hash(bytes, (size_t)piece.len) : 0;
        memcpy(tail, &piece, sizeof piece);
        tt_queue_commit(&rec->queue, place);
        piece.at += piece.len;
    } while (piece.at < piece.total);
    rec->values[*row] = (tt_value_row){ .digest = *digest, .is_known = true };
    atomic_fetch_add_explicit(&rec->values_stored, 1, memory_order_relaxed);
    return true;
}

/* A thread that has value_lock may be waiting for what our caller has. */
static void take_value_lock(tt_recorder *rec, const tt_event *event, waited *past)
{
    if (event->leave == NULL) {
        pthread_mutex_lock(&rec->value_lock);
    } else if (pthread_mutex_trylock(&rec->value_lock) != 0) {
        event->leave(event->context);
        pthread_mutex_lock(&rec->value_lock);
        enter(event, past);
    }
}

/* ---- points, notes, modules -------------------------------------------------- */

/* A third less time than through tt_recorder_add: a loop may log millions. */
tt_status tt_recorder_scalar(tt_recorder *rec, int32_t site, int64_t step, double value)
{
    if (!has_site(rec, site))
        return TT_EINVAL;
    uint64_t at;
    tt_record *record = reserve_or_drop(rec, NULL, 1, &at);
    if (record == NULL)
        return TT_OK;
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

/* Appends n bytes at *at. */
static void put(char **at, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(*at, bytes, n);
    *at += n;
}

/* The point itself, behind the bytes of its value if it has one. */
static void push_point(tt_recorder *rec, const tt_event *e, const tt_digest *digest, int64_t row)
{
    const tt_tensor *t = e->tensor;
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
    tt_record *record =
        reserve_or_drop(rec, e, slots, &at); /* the bytes of its value have gone already */
    if (record == NULL)
        return;
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
    put(&to, e->stats, e->stats != NULL ? sizeof *e->stats : 0);
    put(&to, t != NULL ? t->shape : NULL, t != NULL ? (size_t)t->ndim * sizeof *t->shape : 0);
    put(&to, digest, digest != NULL ? sizeof *digest : 0);
    if (hist > 0)
        record->text_len = (uint32_t)tt_hist_pack(e->hist, to);
    if (sample > 0)
        record->more_len = (uint32_t)tt_sample_pack(e->sample, t->dtype, to + record->text_len);
    tt_queue_commit(&rec->queue, at);
    atomic_fetch_add_explicit(&rec->events, 1, memory_order_relaxed);
}

tt_status tt_recorder_add(tt_recorder *rec, const tt_event *e)
{
    if (!has_site(rec, e->site) || (e->has_value && e->tensor == NULL) ||
        (e->sample != NULL && e->tensor == NULL) || e->phase >= TT_PHASE_COUNT_)
        return TT_EINVAL;
    if (!e->has_value) {
        push_point(rec, e, e->digest, -1);
        return TT_OK;
    }
    if (atomic_load_explicit(&rec->queue.is_stopped, memory_order_relaxed)) {
        count_drop(rec, 1);
        return TT_OK;
    }
    tt_digest digest;
    if (e->digest != NULL)
        digest = *e->digest;
    else
        tt_digest_compute(e->tensor, &digest);
    int64_t row;
    waited past = { 0 };
    take_value_lock(rec, e, &past);
    bool is_there = !past.is_changed && push_value(rec, e, &digest, &past, &row);
    if (is_there || past.is_changed)
        push_point(rec, e, &digest, is_there ? row : -1);
    if (!is_there)
        count_drop(rec, slots_for((size_t)e->tensor->count * tt_dtype_size(e->tensor->dtype)));
    pthread_mutex_unlock(&rec->value_lock);
    return TT_OK;
}

/* A record of two texts, one behind the other; where there is no room, that is counted. */
static tt_status push_texts(tt_recorder *rec, tt_record_kind kind, int64_t step, const char *first,
                            size_t first_len, const char *second, size_t second_len)
{
    size_t len = first_len + second_len;
    uint32_t slots = 1 + slots_for(len);
    uint64_t at;
    tt_record *record = reserve_or_drop(rec, NULL, slots, &at);
    if (record == NULL)
        return TT_OK;
    *record = (tt_record){ .slots = slots,
                           .kind = (uint8_t)kind,
                           .step = step,
                           .time = tt_clock_now(),
                           .text_len = (uint32_t)len };
    char *to = (char *)record + sizeof *record;
    put(&to, first, first_len);
    put(&to, second, second_len);
    tt_queue_commit(&rec->queue, at);
    return TT_OK;
}

tt_status tt_recorder_note(tt_recorder *rec, int64_t step, const char *text)
{
    size_t len = strlen(text), most = longest_text(rec);
    return push_texts(rec, TT_RECORD_NOTE, step, text, len < most ? len : most, NULL, 0);
}

tt_status tt_recorder_module(tt_recorder *rec, const char *path, const char *class_name)
{
    size_t first = strlen(path) + 1, second = strlen(class_name) + 1;
    if (first + second > longest_text(rec))
        return TT_EINVAL;
    return push_texts(rec, TT_RECORD_MODULE, 0, path, first, class_name, second);
}

/* ---- how it goes --------------------------------------------------------------- */

tt_status tt_recorder_flush(tt_recorder *rec, tt_error *err)
{
    if (tt_recorder_is_inherited(rec))
        return TT_OK;
    tt_worker *worker = &rec->queue.worker;
    pthread_mutex_lock(&worker->lock);
    uint64_t goal = atomic_load(&rec->queue.head); /* under the lock: the queue may be rewound */
    if (atomic_load(&rec->wanted) < goal)
        atomic_store(&rec->wanted, goal);
    tt_worker_wake(worker);
    while (atomic_load(&rec->written) < goal && !atomic_load(&rec->queue.is_stopped))
        tt_worker_wait(worker, TT_FOREVER);
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
