/* thin.c -- keeps a run that lasts for weeks within its disk.
 *
 * Tensors may take half of the disk, numbers a quarter (three quarters if there are no tensors), steps
 * where something happened a quarter.  Each is counted alone, so that a rank that logs more numbers than
 * another thins its tensors as the other does.
 *
 * The strides: until the number of the step has doubled, points take at most a quarter of the room that is
 * left.  So each doubling of the run's length keeps about as many steps, whatever its length, and the room
 * never ends.  Strides change at round steps, so that ranks whose points differ a little change together.
 *
 * An event takes at most half of what events have left: the first ones get 128 steps, and there
 * is something left for the last one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/thin.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    RING_SLOTS = 1 << 19, /* 32 MB: 280 steps of 460 sites */
    RING_STEPS = 128,     /* most steps before an event that are written */
    FEWEST_STEPS = 32,    /* ... and fewest, while events have any room */
    AFTER = 16,           /* steps behind an event that are written whole */
    EVENT_SHARE = 2,      /* of the room that events have left, for one */
    SHARE = 4,            /* of the room left, until the step has doubled */
    LEAST_SHARE = 64,     /* of all room: what is always left */
    STRIDE_MAX = 1 << 20,
    WARM = 16,       /* points after which a site has a level */
    SITES_JUMP = 8,  /* so many sites that jump in one step are an event of the whole run */
    STEPS_LEAST = 8, /* steps from which their size is known */
};
static const double FAR = 12; /* mean distances from the level that are a jump ... */
static const double FURTHER =
    1.25; /* ... of other than losses and norms if none before was nearly as far */

/* ---- room ----------------------------------------------------------------------- */

/* What a point takes in the file, roughly: it is written twice, the second time in a larger chunk. */
static int64_t bytes_of(const tt_record *record)
{
    uint32_t products = record->products;
    return 28 + ((products & TT_PRODUCT_STATS) != 0 ? 72 : 0) +
           ((products & TT_PRODUCT_DIGEST) != 0 ? 40 : 0) +
           ((products & TT_PRODUCT_PLACED) != 0 ? 40 : 0) +
           2 * (int64_t)(record->text_len + record->more_len) +
           ((products & TT_PRODUCT_TOKENS) != 0 ? (int64_t)record->slots * TT_SLOT : 0);
}

static int64_t limit_of(const tt_thin *thin, int kind)
{
    int64_t quarter = thin->worth / 4;
    return kind == TT_THINNED_TENSORS               ? 2 * quarter
           : thin->of[TT_THINNED_TENSORS].spent > 0 ? quarter
                                                    : 3 * quarter;
}

static int64_t room_of(const tt_thin *thin, int kind)
{
    int64_t limit = limit_of(thin, kind), room = limit - thin->of[kind].spent;
    return room > limit / LEAST_SHARE ? room : limit / LEAST_SHARE;
}

/* Plans the next look. */
static void look_later(tt_thin *thin, int kind, int64_t step)
{
    tt_thin_class *of = &thin->of[kind];
    int64_t share = room_of(thin, kind) / SHARE + 1;
    of->seen_step = step;
    of->seen_spent = of->spent;
    of->look_step = 2 * step;
    of->look_spent = of->spent + share;
    of->hurry_spent = of->spent + 2 * share;
}

/* Bytes of the file but for values.  What values took before is not known if the run goes on: no chunk is
 * written more often than this. */
static int64_t file_base(const tt_store *store)
{
    enum { TIMES = 4 };
    int64_t chunks = 0;
    for (int32_t i = 0; i < store->index.count; i++)
        for (uint32_t k = 0; k < store->index.row[i].count; k++)
            chunks += store->index.row[i].chunks[k].len;
    return store->end < TIMES * chunks ? store->end : TIMES * chunks;
}

void tt_thin_open(tt_thin *thin, const tt_store *store, int64_t disk)
{
    *thin = (tt_thin){ .disk = disk,
                       .worth = disk,
                       .sites = store->index.sites,
                       .step = -1,
                       .first_step = -1,
                       .ring_from = INT64_MIN,
                       .whole_from = INT64_MIN,
                       .keep_until = -1,
                       .wanted_from = INT64_MAX,
                       .said_from = INT64_MAX,
                       .spiked_step = -1 };
    for (int c = 0; c < TT_THINNED_COUNT_; c++)
        thin->of[c] = (tt_thin_class){ .stride = store->strides[c] > 0 ? store->strides[c] : 1,
                                       .changed_step = -1 };
    thin->has_told = store->strides[TT_THINNED_TENSORS] > 1;
    if (disk == 0 || store->index.count == 0)
        return;
    thin->file_base = file_base(store) - store->end; /* of a run that goes on */
    int64_t spent = store->end + thin->file_base;
    thin->of[TT_THINNED_TENSORS].spent = spent / 2; /* which points took it is not known */
    thin->of[TT_THINNED_NUMBERS].spent = spent / 8;
    thin->events_spent = spent / 4;
    for (int c = 0; c < TT_THINNED_COUNT_; c++)
        look_later(thin, c, store->index.steps.last);
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
        if (oldest->kind == TT_RECORD_POINT && oldest->step >= thin->ring_from)
            thin->ring_from = oldest->step + 1;
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
    if (record->step >= thin->whole_from)
        thin->whole_from = record->step + 1;
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
            thin->events_spent += bytes_of(record);
            return record;
        }
    }
    thin->wanted_from = INT64_MAX;
    return NULL;
}

/* ---- what happens ------------------------------------------------------------ */

static bool contains(const char *name, const char *word)
{
    size_t len = strlen(word);
    for (; *name != '\0'; name++)
        if (strncasecmp(name, word, len) == 0)
            return true;
    return false;
}

static tt_thin_site *site_at(tt_thin *thin, int32_t number)
{
    size_t known = thin->site_cap;
    if (tt_grow(&thin->site, &thin->site_cap, (size_t)number + 1, sizeof *thin->site) < 0)
        return NULL;
    for (size_t i = known; i < thin->site_cap; i++)
        thin->site[i] = (tt_thin_site){ .kept = { -1, -1 }, .bad_step = -1 };
    tt_thin_site *site = &thin->site[number];
    if (!site->is_known) {
        const tt_site_row *row = tt_sites_row(thin->sites, number);
        site->is_known = true;
        site->is_key = row != NULL && (contains(row->name, "loss") || contains(row->name, "norm"));
    }
    return site;
}

/* Steps from here to there are to be written whole. */
static void want(tt_thin *thin, int64_t from, int64_t until, bool is_said)
{
    from = from > thin->ring_from ? from : thin->ring_from;
    from = from > thin->first_step ? from : thin->first_step;
    if (thin->ring == NULL || (from >= thin->whole_from && until <= thin->keep_until))
        return;
    if (from < thin->whole_from) {
        thin->wanted_from = from < thin->wanted_from ? from : thin->wanted_from;
        thin->whole_from = from;
    }
    thin->keep_until = until > thin->keep_until ? until : thin->keep_until;
    if (is_said) {
        thin->said_from = from < thin->said_from ? from : thin->said_from;
        thin->said_until = thin->keep_until;
    }
}

/* Jumps leave an eighth of the room to what is more than a jump. */
static void happen(tt_thin *thin, int64_t step, bool is_jump)
{
    int64_t room = thin->worth / 4 - thin->events_spent, whole = thin->whole_bytes + 1;
    int64_t steps = room / EVENT_SHARE / whole;
    steps = steps > RING_STEPS ? RING_STEPS : steps < FEWEST_STEPS ? FEWEST_STEPS : steps;
    if (room < steps * whole || (is_jump && room < thin->worth / 32))
        want(thin, step, step, false);
    else
        want(thin, step - steps, step + AFTER, true);
}

void tt_thin_happened(tt_thin *thin, int64_t step)
{
    happen(thin, step, false);
}

void tt_thin_end(tt_thin *thin)
{
    happen(thin, thin->step, false);
}

/* One site has jumped: its step is kept, and more if many do. */
static void site_jumped(tt_thin *thin, const tt_thin_site *site, int64_t step, bool is_number)
{
    thin->spikes = thin->spiked_step == step ? thin->spikes + 1 : 1;
    thin->spiked_step = step;
    if (is_number || site->is_key || thin->spikes >= SITES_JUMP)
        happen(thin, step, true);
    else
        want(thin, step, step, false);
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

/* The size of what a point holds: a number, or the root of a tensor's mean square.  NaN: not finite.  A -Inf among
 * others is a mask; *is_masked says so. */
static double size_of(const tt_record *record, bool *is_masked)
{
    tt_stats s;
    *is_masked = false;
    if ((record->products & TT_PRODUCT_STATS) == 0)
        return isfinite(record->scalar) ? record->scalar : (double)NAN;
    memcpy(&s, tt_record_tail(record), sizeof s);
    *is_masked = s.neginf > 0 && (s.nan | s.posinf) == 0 && s.count > 1;
    if ((s.nan | s.posinf | s.neginf) != 0)
        return (double)NAN;
    return s.count <= 1 ? s.mean : sqrt(s.sumsq / (double)s.count);
}

/* Compares a point with those of its site before it. */
static void see(tt_thin *thin, tt_thin_site *site, const tt_record *record, bool is_numeric)
{
    bool is_masked;
    double size = size_of(record, &is_masked);
    if (isnan(size)) {
        bool is_first = site->bad_step < 0 || record->step > site->bad_step + 1;
        site->bad_step = record->step;
        if (is_first && is_masked)
            want(thin, record->step, record->step, false);
        else if (is_first)
            happen(thin, record->step, false);
        return;
    }
    double by = size - site->level, least = fabs(site->level) * 1e-3;
    double spread = site->spread > least ? site->spread : least;
    if (site->seen >= WARM && spread > 0) {
        if (by > FAR * spread && (site->is_key || by > FURTHER * site->furthest * spread)) {
            site->furthest = fmax(site->furthest, by / spread);
            site_jumped(thin, site, record->step, is_numeric);
        }
        double most = FAR / 2 * spread; /* a jump does not move the level further */
        by = by > most ? most : by < -most ? -most : by;
    }
    site->seen += site->seen < WARM;
    site->level = site->seen == 1 ? size : site->level + by / site->seen;
    site->spread = site->seen == 1 ? 0 : site->spread + (fabs(by) - site->spread) / site->seen;
}

/* ---- strides --------------------------------------------------------------------- */

/* Is there a round step in (before, step]?  Round to a sixteenth of its size. */
static bool is_round(int64_t before, int64_t step)
{
    int64_t grid = 1;
    while (grid * 32 <= step)
        grid *= 2;
    return before < 0 || before / grid != step / grid;
}

static void look_at(tt_thin *thin, int kind, int64_t step, bool is_at_round)
{
    tt_thin_class *of = &thin->of[kind];
    int64_t limit = limit_of(thin, kind), since = step - of->seen_step;
    int64_t begin = kind == TT_THINNED_TENSORS ? limit / 2 : limit / 4 * 3;
    bool is_due =
        of->stride == 1 ? of->spent >= begin : step >= of->look_step || of->spent >= of->look_spent;
    int64_t hurry = of->stride == 1 ? begin + limit / 8 : of->hurry_spent;
    if (!is_due || since < STEPS_LEAST || (!is_at_round && of->spent < hurry))
        return;
    double rate = (double)(of->spent - of->seen_spent) / (double)since;
    double share = (double)(room_of(thin, kind) / SHARE);
    uint32_t stride = of->stride;
    while (stride < STRIDE_MAX && (double)step * rate * of->stride / stride > share)
        stride *= 2;
    look_later(thin, kind, step);
    if (stride == of->stride)
        return;
    of->stride = stride;
    of->changed_step = step;
    if (kind == TT_THINNED_TENSORS)
        thin->told_stride = stride;
}

/* The first point of a step has come. */
static void begin_step(tt_thin *thin, int64_t step)
{
    if (thin->first_step < 0) {
        thin->first_step = step;
        for (int c = 0; c < TT_THINNED_COUNT_; c++) {
            thin->of[c].seen_step = step;
            thin->of[c].seen_spent = thin->of[c].spent;
        }
    } else {
        thin->whole_bytes += (thin->step_bytes - thin->whole_bytes) / (thin->whole_bytes > 0 ? 8 : 1);
    }
    thin->step_bytes = 0;
    bool is_at_round = is_round(thin->step, step);
    for (int c = 0; c < TT_THINNED_COUNT_; c++)
        look_at(thin, c, step, is_at_round);
    thin->step = step;
}

static bool is_at_stride(const tt_thin_site *site, const tt_record *record, uint32_t stride)
{
    int64_t kept = site->kept[record->phase == TT_PHASE_EVAL], step = record->step;
    return stride == 1 || (record->products & TT_PRODUCT_VALUE) != 0 || step < 0 || kept < 0 ||
           step == kept || step / stride != kept / stride;
}

bool tt_thin_holds(tt_thin *thin, const tt_record *record)
{
    bool is_numeric = is_number(record);
    tt_thin_class *of = &thin->of[is_numeric ? TT_THINNED_NUMBERS : TT_THINNED_TENSORS];
    tt_thin_site *site = thin->disk > 0 ? site_at(thin, record->site) : NULL;
    if (site == NULL)
        return false;
    if (record->step > thin->step)
        begin_step(thin, record->step);
    int64_t bytes = bytes_of(record);
    thin->step_bytes += is_numeric ? 0 : bytes;
    if (thin->of[TT_THINNED_TENSORS].stride > 1 || thin->of[TT_THINNED_NUMBERS].stride > 1)
        see(thin, site, record, is_numeric);
    if (is_at_stride(site, record, of->stride)) {
        site->kept[record->phase == TT_PHASE_EVAL] = record->step;
        of->spent += bytes;
        return false;
    }
    if (record->step > thin->keep_until && put_ring(thin, record))
        return true;
    thin->events_spent += bytes;
    return false;
}

/* ---- what the file says ------------------------------------------------------------ */

bool tt_thin_is_due(const tt_thin *thin)
{
    bool is_due = tt_thin_wants(thin);
    for (int c = 0; c < TT_THINNED_COUNT_; c++)
        is_due |= thin->of[c].changed_step >= 0;
    return is_due;
}

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

/* What small chunks will take once more when they are merged.  The more points a chunk has the better it is
 * packed: a merged point takes a third of one alone, two thirds of one in a chunk of ten. */
static int64_t not_yet_merged(const tt_index *index)
{
    enum { ALONE = 4, SMALL = 128 };
    int64_t bytes = 0;
    for (int32_t i = 0; i < index->count; i++)
        for (uint32_t k = 0; k < index->row[i].count; k++) {
            const tt_index_chunk *chunk = &index->row[i].chunks[k];
            bytes += chunk->n < ALONE ? chunk->len / 3 : chunk->n < SMALL ? chunk->len * 2LL / 3 : 0;
        }
    return bytes;
}

static tt_status tell(tt_thin *thin, tt_store *store, int64_t bytes, tt_error *err)
{
    const tt_thin_class *of = &thin->of[TT_THINNED_TENSORS];
    int64_t steps = of->changed_step - store->index.steps.first;
    char text[256];
    thin->has_told = true;
    thin->told_bytes = steps > 0 ? (bytes + not_yet_merged(&store->index)) / steps : 0;
    int len =
        snprintf(text, sizeof text,
                 "thinned: tensors of one step in %u are written from step %lld on, and more around "
                 "a NaN, a spike, a note or the end, to stay within %.3g GB (disk); 100 000 whole steps "
                 "would take about %.2g GB",
                 of->stride, (long long)of->changed_step, (double)thin->disk / 1e9,
                 (double)thin->told_bytes * 1e5 / 1e9);
    return tt_store_note(store, thin->step, tt_clock_now(), text, (size_t)len, err);
}

/* Where the file is much larger than the estimates, less fits into the disk.  Only then do the strides follow
 * from the file. */
static void weigh(tt_thin *thin, int64_t bytes)
{
    double spent = (double)thin->events_spent;
    for (int c = 0; c < TT_THINNED_COUNT_; c++)
        spent += (double)thin->of[c].spent;
    while (thin->worth > 64 && (double)bytes * (double)thin->worth >
                                   (spent + ((double)thin->worth - spent) / 3) * (double)thin->disk)
        thin->worth -= thin->worth / 8;
}

tt_status tt_thin_say(tt_thin *thin, tt_store *store, tt_error *err)
{
    if (thin->disk == 0)
        return TT_OK;
    tt_status st = TT_OK;
    int64_t bytes = store->end + thin->file_base - store->value_bytes;
    weigh(thin, bytes);
    if (!thin->has_told && thin->of[TT_THINNED_TENSORS].changed_step >= 0)
        st = tell(thin, store, bytes, err);
    for (int c = 0; st == TT_OK && c < TT_THINNED_COUNT_; c++) {
        tt_thin_class *of = &thin->of[c];
        int64_t from = of->changed_step > thin->keep_until ? of->changed_step : thin->keep_until + 1;
        if (of->changed_step >= 0)
            st = say(store, from, of->stride, c, err);
        of->changed_step = -1;
        if (st == TT_OK && thin->said_from != INT64_MAX && of->stride > 1) {
            st = say(store, thin->said_from, 1, c, err);
            if (st == TT_OK)
                st = say(store, thin->said_until + 1, of->stride, c, err);
        }
    }
    thin->said_from = INT64_MAX;
    return st;
}
