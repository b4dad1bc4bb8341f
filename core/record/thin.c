/* thin.c -- keeps a run that lasts for weeks within its disk.
 *
 * The strides: until the number of the step has doubled, tensors take at most a sixth of the room that is
 * left.  So each doubling of the run's length keeps about as many steps, whatever its length, and the room
 * never ends.  Strides change at round steps, so that ranks whose files grow alike change together.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/thin.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_SLOTS = 1 << 19, /* 32 MB: 280 steps of 460 sites */
    RING_STEPS = 256,     /* most steps that are written back */
    AFTER = 16,           /* steps behind an event that are written whole */
    SHARE = 6,            /* of the room left, until the step has doubled */
    STRIDE_MAX = 1 << 20,
    WARM = 16,       /* points after which a site has a level */
    SITES_JUMP = 8,  /* so many sites that jump in one step are an event of the whole run */
    STEPS_LEAST = 8, /* written steps from which their size is known */
};
static const double FAR = 12;       /* mean distances from the level that are a jump ... */
static const double FURTHER = 1.25; /* ... of a tensor if no jump before was nearly as far */

/* Bytes of the file up to which points of a kind are written at all: numbers have the last word. */
static int64_t limit_of(const tt_thin *thin, int kind)
{
    return kind == TT_THINNED_TENSORS ? thin->disk / 4 * 3 : thin->disk;
}

void tt_thin_open(tt_thin *thin, const tt_store *store, int64_t disk)
{
    *thin = (tt_thin){ .disk = disk, .keep_until = -1, .wanted_from = INT64_MAX, .spiked_step = -1 };
    for (int c = 0; c < TT_THINNED_COUNT_; c++)
        thin->of[c] =
            (tt_thin_class){ .stride = store->strides[c] > 0 ? store->strides[c] : 1, .last_step = -1 };
    thin->has_told = store->strides[TT_THINNED_TENSORS] > 1;
    for (int c = 0; disk > 0 && c < TT_THINNED_COUNT_; c++) { /* of a run that goes on */
        int64_t room = limit_of(thin, c) - store->end;
        thin->of[c].look_step = 2 * store->index.steps.last;
        thin->of[c].look_spent = store->end + (room > 0 ? room / SHARE : 0);
        thin->allotted = room > 0 ? room / SHARE : 0;
    }
}

void tt_thin_free(tt_thin *thin)
{
    free(thin->site);
    free(thin->ring);
    *thin = (tt_thin){ 0 };
}

/* ---- the ring ---------------------------------------------------------------- */

static tt_record *at_slot(const tt_thin *thin, uint64_t at)
{
    return &thin->ring[at % RING_SLOTS]; /* a record has the size of a slot */
}

/* Gives up the oldest records until so many slots are free. */
static void make_room(tt_thin *thin, uint32_t slots)
{
    while (thin->end - thin->first + slots > RING_SLOTS) {
        const tt_record *oldest = at_slot(thin, thin->first);
        if (oldest->kind == TT_RECORD_POINT && oldest->step >= thin->whole_from)
            thin->whole_from = oldest->step + 1;
        thin->first += oldest->slots;
    }
}

/* Copies a record into the ring.  False: there is none, or it is too large. */
static bool put_ring(tt_thin *thin, const tt_record *record)
{
    uint32_t slots = record->slots, left = (uint32_t)(RING_SLOTS - thin->end % RING_SLOTS);
    if (thin->ring == NULL)
        thin->ring = malloc((size_t)RING_SLOTS * TT_SLOT);
    if (thin->ring == NULL || slots > RING_SLOTS / 4)
        return false;
    if (left < slots) {
        make_room(thin, left);
        *at_slot(thin, thin->end) = (tt_record){ .kind = TT_RECORD_PAD, .slots = left };
        thin->end += left;
    }
    make_room(thin, slots);
    memcpy(at_slot(thin, thin->end), record, (size_t)slots * TT_SLOT);
    thin->end += slots;
    return true;
}

tt_record *tt_thin_take(tt_thin *thin, uint64_t *at)
{
    if (*at < thin->first)
        *at = thin->first;
    while (*at < thin->end) {
        tt_record *record = at_slot(thin, *at);
        *at += record->slots;
        if (record->kind == TT_RECORD_POINT && record->step >= thin->wanted_from) {
            record->kind = TT_RECORD_PAD; /* it is taken once; its data stay until the next is put */
            return record;
        }
    }
    return NULL;
}

/* ---- what happens ------------------------------------------------------------ */

static tt_thin_site *site_at(tt_thin *thin, int32_t site)
{
    size_t known = thin->site_cap;
    if (tt_grow(&thin->site, &thin->site_cap, (size_t)site + 1, sizeof *thin->site) < 0)
        return NULL;
    for (size_t i = known; i < thin->site_cap; i++)
        thin->site[i] = (tt_thin_site){ .kept = { -1, -1 } };
    return &thin->site[site];
}

void tt_thin_happened(tt_thin *thin, int64_t step)
{
    if (thin->ring == NULL || thin->dumped > thin->allotted / 2)
        return;
    int64_t from = step - RING_STEPS > 0 ? step - RING_STEPS : 0;
    thin->wanted_from = from < thin->wanted_from ? from : thin->wanted_from;
    thin->keep_until = step + AFTER > thin->keep_until ? step + AFTER : thin->keep_until;
}

void tt_thin_end(tt_thin *thin)
{
    if (thin->ring != NULL)
        thin->wanted_from = thin->step > RING_STEPS ? thin->step - RING_STEPS : 0;
}

/* One site has jumped: its step is kept, and more if many do. */
static void site_happened(tt_thin *thin, int64_t step, bool is_number)
{
    thin->spikes = thin->spiked_step == step ? thin->spikes + 1 : 1;
    thin->spiked_step = step;
    if (is_number || thin->spikes >= SITES_JUMP) {
        tt_thin_happened(thin, step);
    } else if (thin->dumped <= thin->allotted) {
        thin->wanted_from = step < thin->wanted_from ? step : thin->wanted_from;
        thin->keep_until = step > thin->keep_until ? step : thin->keep_until;
    }
}

/* Numbers, and tensors of one element, such as a loss. */
static bool is_number(const tt_record *record)
{
    tt_stats s;
    if ((record->products & TT_PRODUCT_STATS) == 0)
        return record->products == TT_PRODUCT_SCALAR;
    memcpy(&s, tt_record_tail(record), sizeof s);
    return s.count <= 1 && record->products == TT_PRODUCT_STATS;
}

/* The size of what a point holds: a number, or the root of a tensor's mean square.  NaN: not finite. */
static double size_of(const tt_record *record)
{
    tt_stats s;
    if ((record->products & TT_PRODUCT_STATS) == 0)
        return isfinite(record->scalar) ? record->scalar : (double)NAN;
    memcpy(&s, tt_record_tail(record), sizeof s);
    if ((s.nan | s.posinf | s.neginf) != 0)
        return (double)NAN;
    return s.count <= 1 ? s.mean : sqrt(s.sumsq / (double)s.count);
}

/* Compares a point with those of its site before it. */
static void see(tt_thin *thin, tt_thin_site *site, const tt_record *record, bool is_numeric)
{
    double size = size_of(record);
    if (isnan(size)) {
        if (!site->is_bad)
            tt_thin_happened(thin, record->step);
        site->is_bad = true;
        return;
    }
    site->is_bad = false;
    double by = size - site->level, least = fabs(site->level) * 1e-3;
    double spread = site->spread > least ? site->spread : least;
    if (site->seen >= WARM && spread > 0) {
        if (by > FAR * spread && (is_numeric || by > FURTHER * site->furthest * spread)) {
            site->furthest = by / spread;
            site_happened(thin, record->step, is_numeric);
        }
        double most = FAR / 2 * spread; /* a jump does not move the level further */
        by = by > most ? most : by < -most ? -most : by;
    }
    site->seen += site->seen < WARM;
    site->level = site->seen == 1 ? size : site->level + by / site->seen;
    site->spread = site->seen == 1 ? 0 : site->spread + (fabs(by) - site->spread) / site->seen;
}

/* ---- which points are written -------------------------------------------------- */

static bool is_kept(const tt_thin *thin, const tt_thin_site *site, const tt_record *record,
                    uint32_t stride)
{
    int64_t kept = site->kept[record->phase == TT_PHASE_EVAL], step = record->step;
    return stride == 1 || (record->products & TT_PRODUCT_VALUE) != 0 || step < 0 ||
           step <= thin->keep_until || kept < 0 || step == kept || step / stride != kept / stride;
}

bool tt_thin_holds(tt_thin *thin, const tt_record *record)
{
    bool is_numeric = is_number(record);
    tt_thin_class *of = &thin->of[is_numeric ? TT_THINNED_NUMBERS : TT_THINNED_TENSORS];
    tt_thin_site *site = thin->disk > 0 ? site_at(thin, record->site) : NULL;
    if (site == NULL)
        return false;
    thin->step = record->step > thin->step ? record->step : thin->step;
    if (of->next_stride != 0 && record->step >= of->next_from) {
        of->stride = of->next_stride;
        of->next_stride = 0;
    }
    if (thin->of[TT_THINNED_TENSORS].stride > 1)
        see(thin, site, record, is_numeric);
    if (!is_kept(thin, site, record, of->stride) && put_ring(thin, record))
        return true;
    site->kept[record->phase == TT_PHASE_EVAL] = record->step;
    of->steps += record->step != of->last_step;
    of->last_step = record->step;
    return false;
}

void tt_thin_spent(tt_thin *thin, const tt_record *record, size_t bytes)
{
    thin->of[is_number(record) ? TT_THINNED_NUMBERS : TT_THINNED_TENSORS].bytes += (int64_t)bytes;
}

/* ---- strides --------------------------------------------------------------------- */

static tt_status say(tt_store *store, int64_t from, uint32_t stride, int kind, tt_error *err)
{
    tt_buf bytes = { 0 };
    tt_wire_signed(&bytes, from);
    tt_buf_varint(&bytes, stride);
    tt_buf_varint(&bytes, (uint64_t)kind);
    tt_status st = bytes.st == TT_OK
                       ? tt_store_section(store, TT_SECTION_THINNED, bytes.data, bytes.len, err)
                       : tt_fail_plain(err, bytes.st);
    tt_buf_free(&bytes);
    return st;
}

tt_status tt_thin_taken(tt_thin *thin, tt_store *store, int64_t bytes, tt_error *err)
{
    tt_status st = TT_OK;
    int64_t from = thin->wanted_from > thin->whole_from ? thin->wanted_from : thin->whole_from;
    thin->dumped += bytes;
    thin->wanted_from = INT64_MAX;
    for (int c = 0; st == TT_OK && c < TT_THINNED_COUNT_; c++) {
        if (thin->of[c].stride == 1)
            continue;
        int64_t to = thin->keep_until > thin->step ? thin->keep_until : thin->step;
        st = say(store, from, 1, c, err);
        if (st == TT_OK)
            st = say(store, to + 1, thin->of[c].stride, c, err);
    }
    return st;
}

static tt_status tell(const tt_thin *thin, tt_store *store, double per_step, uint32_t stride,
                      int64_t from, tt_error *err)
{
    char text[256];
    int len =
        snprintf(text, sizeof text,
                 "thinned: about %.2g GB per 100 000 steps; tensors are written at every %u. step from "
                 "step %lld on, to stay within %.3g GB (disk)",
                 per_step * 1e5 / 1e9, stride, (long long)from, (double)thin->disk / 1e9);
    return tt_store_note(store, thin->step, tt_clock_now(), text, (size_t)len, err);
}

/* The next step at which strides may change: round to a sixteenth of its size. */
static int64_t round_step(int64_t step)
{
    int64_t grid = 1;
    while (grid * 32 <= step)
        grid *= 2;
    return (step / grid + 1) * grid;
}

static tt_status look_at(tt_thin *thin, tt_store *store, int kind, int64_t spent, tt_error *err)
{
    tt_thin_class *of = &thin->of[kind];
    int64_t limit = limit_of(thin, kind);
    int64_t begin = kind == TT_THINNED_TENSORS ? limit / 2 : limit_of(thin, TT_THINNED_TENSORS);
    bool is_due =
        of->stride == 1 ? spent >= begin : thin->step >= of->look_step || spent >= of->look_spent;
    int64_t all = thin->of[0].bytes + thin->of[1].bytes;
    if (!is_due || of->next_stride != 0 || of->steps < STEPS_LEAST || all <= 0)
        return TT_OK;
    /* What the file grows by for each step that is written: merged chunks, indices and all. */
    double per_step = (double)of->bytes / (double)of->steps;
    int64_t room = limit > spent ? limit - spent : 0, from = round_step(thin->step);
    uint32_t stride = of->stride;
    while (stride < STRIDE_MAX && (double)from / stride * per_step > (double)(room / SHARE))
        stride *= 2;
    if (kind == TT_THINNED_TENSORS) {
        thin->allotted = room / SHARE;
        thin->dumped = 0;
    }
    of->look_step = 2 * from;
    of->look_spent = spent + room / SHARE + 1;
    if (stride == of->stride)
        return TT_OK;
    of->next_stride = stride;
    of->next_from = from;
    if (kind == TT_THINNED_TENSORS) {
        thin->told_stride = stride;
        thin->told_bytes = (int64_t)per_step;
    }
    tt_status st = say(store, from, stride, kind, err);
    if (st == TT_OK && kind == TT_THINNED_TENSORS && !thin->has_told)
        st = tell(thin, store, per_step, stride, from, err);
    thin->has_told |= kind == TT_THINNED_TENSORS;
    return st;
}

tt_status tt_thin_look(tt_thin *thin, tt_store *store, tt_error *err)
{
    tt_status st = TT_OK;
    int64_t spent = store->end - store->value_bytes;
    for (int c = 0; st == TT_OK && thin->disk > 0 && c < TT_THINNED_COUNT_; c++)
        st = look_at(thin, store, c, spent, err);
    return st;
}
