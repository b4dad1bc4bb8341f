/* events.c -- what a user's thread puts into the queue: points, values, notes, modules.
 *
 * The short side of the queue: a call copies numbers into slots and returns.
 * No allocation, no lock (but for values), no system call unless the queue is full.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"

#include "store/placement.h"

#include "base/clock.h"
#include "store/pack.h"
#include "tensor/walk.h"

#include <string.h>

enum { PIECE_MAX = 8 << 20 /* bytes of a value in one record */ };

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
        tt_value_row *value = &rec->values[row];
        if (value->is_known && value->digest.low == digest->low && value->digest.high == digest->high) {
            *is_known = !atomic_exchange_explicit(&value->is_gone, false, memory_order_relaxed);
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
    tt_value_head piece = { .digest = *digest,
                            .total = t->count * item,
                            .site = event->site,
                            .step = event->step,
                            .call = event->call,
                            .dtype = (int32_t)t->dtype,
                            .ndim = t->ndim };
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
        *record = (tt_record){ .slots = slots, .kind = TT_RECORD_PIECE, .value = *row };
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
    rec->values[*row].digest = *digest;
    rec->values[*row].is_known = true;
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

static bool has_site(const tt_recorder *rec, int32_t site)
{
    return site >= 0 && site < tt_sites_count(rec->sites);
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
    size_t tokens = e->tokens != NULL ? (size_t)tt_sketch_tokens(t) * TT_SKETCH_BYTES : 0;
    size_t tail = (e->stats != NULL ? sizeof *e->stats : 0) + (t != NULL ? (size_t)t->ndim * 8 : 0) +
                  (digest != NULL ? sizeof *digest : 0) + (e->placed != NULL ? sizeof *e->placed : 0) +
                  hist + sample + tokens;
    uint32_t slots = 1 + slots_for(tail);
    if (slots > rec->queue.slots / 4) { /* a sample of megabytes is none */
        slots = 1 + slots_for(tail - sample);
        sample = 0;
    }
    if (slots > rec->queue.slots / 4 && tokens > 0) { /* more tokens than a block of the file holds */
        count_drop(rec, slots_for(tokens));
        slots = 1 + slots_for(tail - tokens);
        tokens = 0;
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
                    (e->placed != NULL ? TT_PRODUCT_PLACED : 0) |
                    (e->hist != NULL ? TT_PRODUCT_HIST : 0) | (sample > 0 ? TT_PRODUCT_SAMPLE : 0) |
                    (row >= 0 ? TT_PRODUCT_VALUE : 0) | (tokens > 0 ? TT_PRODUCT_TOKENS : 0),
    };
    char *to = (char *)record + sizeof *record;
    put(&to, e->stats, e->stats != NULL ? sizeof *e->stats : 0);
    put(&to, t != NULL ? t->shape : NULL, t != NULL ? (size_t)t->ndim * sizeof *t->shape : 0);
    put(&to, digest, digest != NULL ? sizeof *digest : 0);
    put(&to, e->placed, e->placed != NULL ? sizeof *e->placed : 0);
    if (hist > 0)
        record->text_len = (uint32_t)tt_hist_pack(e->hist, to);
    if (sample > 0)
        record->more_len = (uint32_t)tt_sample_pack(e->sample, t->dtype, to + record->text_len);
    to += record->text_len + record->more_len;
    put(&to, e->tokens, tokens);
    tt_queue_commit(&rec->queue, at);
    atomic_fetch_add_explicit(&rec->events, 1, memory_order_relaxed);
}

tt_status tt_recorder_add(tt_recorder *rec, const tt_event *e)
{
    if (!has_site(rec, e->site) || (e->has_value && e->tensor == NULL) ||
        ((e->sample != NULL || e->tokens != NULL) && e->tensor == NULL) || e->phase >= TT_PHASE_COUNT_)
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

tt_status tt_recorder_scalar(tt_recorder *rec, int32_t site, int64_t step, double value)
{
    return tt_recorder_add(rec, &(tt_event){ .site = site, .step = step, .scalar = &value });
}

/* A record of bytes; where there is no room, that is counted. */
static tt_status push_bytes(tt_recorder *rec, tt_record_kind kind, tt_section section, int64_t step,
                            const void *bytes, size_t len)
{
    uint32_t slots = 1 + slots_for(len);
    uint64_t at;
    tt_record *record = reserve_or_drop(rec, NULL, slots, &at);
    if (record == NULL)
        return TT_OK;
    *record = (tt_record){ .slots = slots,
                           .kind = (uint8_t)kind,
                           .step = step,
                           .time = tt_clock_now(),
                           .products = (uint32_t)section,
                           .text_len = (uint32_t)len };
    char *to = (char *)record + sizeof *record;
    put(&to, bytes, len);
    tt_queue_commit(&rec->queue, at);
    return TT_OK;
}

/* Records the bytes of a section, and frees them. */
static tt_status push_section(tt_recorder *rec, tt_section section, tt_buf *bytes)
{
    tt_status st = bytes->st == TT_OK && bytes->len > longest_text(rec) ? TT_EINVAL : bytes->st;
    if (st == TT_OK)
        st = push_bytes(rec, TT_RECORD_SECTION, section, 0, bytes->data, bytes->len);
    tt_buf_free(bytes);
    return st;
}

tt_status tt_recorder_note(tt_recorder *rec, int64_t step, const char *text)
{
    size_t len = strlen(text), most = longest_text(rec);
    return push_bytes(rec, TT_RECORD_NOTE, TT_SECTION_NOTE, step, text, len < most ? len : most);
}

tt_status tt_recorder_module(tt_recorder *rec, const char *path, const char *class_name)
{
    tt_buf module = { 0 };
    tt_buf_varint(&module, strlen(path));
    tt_buf_append(&module, path, strlen(path));
    tt_buf_append(&module, class_name, strlen(class_name));
    return push_section(rec, TT_SECTION_MODULE, &module);
}

tt_status tt_recorder_setting(tt_recorder *rec, int64_t step, const char *key, const char *value)
{
    tt_buf setting = { 0 };
    tt_wire_signed(&setting, step);
    tt_buf_varint(&setting, strlen(key));
    tt_buf_append(&setting, key, strlen(key));
    tt_buf_append(&setting, value, strlen(value));
    return push_section(rec, TT_SECTION_SETTING, &setting);
}

tt_status tt_recorder_mesh(tt_recorder *rec, const tt_mesh *mesh, uint64_t *id)
{
    tt_buf bytes = { 0 };
    tt_status st = tt_mesh_put(mesh, &bytes, id);
    if (st < 0) {
        tt_buf_free(&bytes);
        return st;
    }
    return push_section(rec, TT_SECTION_MESH, &bytes);
}

tt_status tt_recorder_place(tt_recorder *rec, int32_t site, const tt_placement *placement)
{
    tt_buf bytes = { 0 };
    tt_status st = has_site(rec, site) ? tt_placement_put(site, placement, &bytes) : TT_EINVAL;
    if (st < 0) {
        tt_buf_free(&bytes);
        return st;
    }
    return push_section(rec, TT_SECTION_PLACEMENT, &bytes);
}
