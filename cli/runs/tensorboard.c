/* tensorboard.c -- the points of a run as an event file of TensorBoard.
 *
 * The file is a sequence of records (length, checksum, bytes, checksum), each a protocol buffer
 * `Event`; the few fields that are needed are written here.  A point is one event, with a value for
 * each statistic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/export.h"
#include "runs/overview.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Keys of the protocol buffers: number of the field, and how it is stored. */
enum {
    FIXED64 = 1,
    BYTES = 2,
    FIXED32 = 5,
    EVENT_TIME = 1 << 3 | FIXED64,
    EVENT_STEP = 2 << 3,
    EVENT_VERSION = 3 << 3 | BYTES,
    EVENT_SUMMARY = 5 << 3 | BYTES,
    SUMMARY_VALUE = 1 << 3 | BYTES,
    VALUE_TAG = 1 << 3 | BYTES,
    VALUE_NUMBER = 2 << 3 | FIXED32,
    VALUE_HISTOGRAM = 5 << 3 | BYTES,
    HISTOGRAM_MIN = 1 << 3 | FIXED64, /* then max, num, sum and sum of squares */
    HISTOGRAM_LIMITS = 6 << 3 | BYTES,
    HISTOGRAM_COUNTS = 7 << 3 | BYTES,
};

typedef struct writer {
    FILE *file; /* owned */
    uint32_t crc[256];
    tt_buf head;                        /* owned; of the record of an event */
    tt_buf event, summary, value, part; /* owned; one holds the next */
    tt_buf limits, counts;              /* owned; of a histogram */
    tt_buf tag, group;                  /* owned; of the site: for its value, for its statistics */
    tt_hist_bin *bins;                  /* owned */
    size_t cap;
} writer;

/* ---- records ------------------------------------------------------------------------- */

static void put_double(tt_buf *out, int key, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (key != 0)
        (void)tt_buf_varint(out, (uint64_t)key);
    (void)tt_buf_fixed(out, bits, 8);
}

static void put_bytes(tt_buf *out, int key, const char *bytes, size_t n)
{
    (void)tt_buf_varint(out, (uint64_t)key);
    (void)tt_buf_varint(out, n);
    (void)tt_buf_append(out, bytes, n);
}

static void put_part(tt_buf *out, int key, const tt_buf *part)
{
    out->st = part->st < 0 ? part->st : out->st;
    put_bytes(out, key, part->data, part->len);
}

/* CRC-32C, masked as the format asks. */
static uint32_t checksum(const writer *w, const void *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (const unsigned char *at = bytes, *end = at + n; at < end; at++)
        crc = crc >> 8 ^ w->crc[(crc ^ *at) & 0xff];
    crc = ~crc;
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static tt_status write_event(writer *w)
{
    tt_buf *head = &w->head, *event = &w->event;
    tt_buf_clear(head);
    (void)tt_buf_fixed(head, event->len, 8);
    (void)tt_buf_fixed(event, checksum(w, event->data, event->len), 4);
    if (head->st < 0 || event->st < 0)
        return TT_ENOMEM;
    (void)tt_buf_fixed(head, checksum(w, head->data, head->len), 4);
    (void)fwrite(head->data, 1, head->len, w->file); /* failures are looked for at the end */
    (void)fwrite(event->data, 1, event->len, w->file);
    return TT_OK;
}

/* ---- points ---------------------------------------------------------------------------- */

/* Begins a value of the event: of the site itself (NULL), or of a statistic of it. */
static void begin_value(writer *w, const char *field)
{
    tt_buf *tag = field == NULL ? &w->tag : &w->group;
    size_t len = tag->len;
    if (field != NULL)
        (void)tt_buf_printf(tag, "/%s", field);
    tt_buf_clear(&w->value);
    put_part(&w->value, VALUE_TAG, tag);
    tt_buf_cut(tag, len);
}

static void put_number(writer *w, const char *field, double x)
{
    float narrow = (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    begin_value(w, field);
    (void)tt_buf_varint(&w->value, VALUE_NUMBER);
    (void)tt_buf_fixed(&w->value, bits, 4);
    put_part(&w->summary, SUMMARY_VALUE, &w->value);
}

static void put_statistics(writer *w, const tt_stats *s)
{
    bool is_complex = s->dtype == TT_C64 || s->dtype == TT_C128; /* then the magnitude is shown */
    const struct {
        const char *name;
        double x;
    } fields[] = {
        { "count", (double)s->count },
        { "nan", (double)s->nan },
        { "posinf", (double)s->posinf },
        { "neginf", (double)s->neginf },
        { "zeros", (double)s->zeros },
        { "min", s->min },
        { "max", s->max },
        { "absmax", s->absmax },
        { "sum", is_complex ? hypot(s->sum, s->sum_imag) : s->sum },
        { "mean", is_complex ? hypot(s->mean, tt_stats_mean_imag(s)) : s->mean },
        { "var", tt_stats_var(s) },
        { "std", tt_stats_std(s) },
        { "l1", s->l1 },
        { "l2", tt_stats_l2(s) },
        { "rms", tt_stats_rms(s) },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        put_number(w, fields[i].name, fields[i].x);
}

/* The end of each bucket, and how many are in it, without gaps between them.  Sum and squares are
 * those of the middles of the bins; TensorBoard shows neither. */
static void put_histogram(writer *w, const tt_hist_bin *bins, size_t count)
{
    double num = 0, sum = 0, squares = 0, end = -INFINITY;
    tt_buf *limits = &w->limits, *counts = &w->counts;
    tt_buf_clear(limits);
    tt_buf_clear(counts);
    for (size_t i = 0; i < count; i++) {
        double low = bins[i].low, high = fmin(bins[i].high, DBL_MAX), n = (double)bins[i].count;
        double start = low < bins[i].high ? low : nextafter(low, -INFINITY); /* zeros have no width */
        double middle = (low + bins[i].high) / 2;
        if (end < start) {
            put_double(limits, 0, start);
            put_double(counts, 0, 0);
        }
        put_double(limits, 0, end = high);
        put_double(counts, 0, n);
        num += n;
        sum += middle * n;
        squares += middle * middle * n;
    }
    const double facts[] = { bins[0].low, end, num, sum, squares };
    tt_buf_clear(&w->part);
    for (int i = 0; i < 5; i++)
        put_double(&w->part, HISTOGRAM_MIN + (i << 3), facts[i]);
    put_part(&w->part, HISTOGRAM_LIMITS, limits);
    put_part(&w->part, HISTOGRAM_COUNTS, counts);
    begin_value(w, NULL);
    put_part(&w->value, VALUE_HISTOGRAM, &w->part);
    put_part(&w->summary, SUMMARY_VALUE, &w->value);
}

/* TensorBoard groups tags by the text before the first slash: "activation:fc/max" and
 * "activation:fc/rms" are two cards of one group.  Where ranks or forked children would share a
 * curve, the name of the file comes first: "rank1/activation/fc", or "rank0.4711/activation/fc". */
static tt_status make_tags(writer *w, const tt_export *what, int32_t file, int32_t site)
{
    const tt_run_file from = tt_overview_file(what->run, file);
    const char *slash = strrchr(from.path, '/'), *label = slash != NULL ? slash + 1 : from.path;
    int len = (int)(strlen(label) - strlen(".tap"));
    bool is_plain = strncmp(label, tt_screen_text("rank%d.tap", (int)from.rank), (size_t)len + 4) == 0;
    tt_buf_clear(&w->tag);
    tt_buf_clear(&w->group);
    if (!is_plain || tt_overview_rank_count(what->run) > 1)
        (void)tt_buf_printf(&w->tag, "%.*s/", len, label);
    (void)tt_buf_text(&w->tag, tt_run_site_name(what->run, site));
    (void)tt_buf_append(&w->group, w->tag.data, w->tag.len);
    for (size_t i = 0; w->group.st == TT_OK && i < w->group.len; i++)
        w->group.data[i] = w->group.data[i] == '/' ? ':' : w->group.data[i];
    return w->tag.st < 0 ? w->tag.st : w->group.st;
}

static tt_status put_point(const tt_export *what, int32_t file, int32_t site, int64_t index,
                           const tt_point *p, void *context, tt_error *err)
{
    writer *w = context;
    size_t count = 0;
    tt_status st = make_tags(w, what, file, site);
    if (st == TT_OK && (p->products & TT_PRODUCT_HIST) != 0)
        st = tt_export_bins(what->run, file, site, index, &w->bins, &w->cap, &count, err);
    if (st < 0)
        return st;
    tt_buf_clear(&w->summary);
    if ((p->products & TT_PRODUCT_SCALAR) != 0)
        put_number(w, NULL, p->scalar);
    if ((p->products & TT_PRODUCT_STATS) != 0)
        put_statistics(w, &p->stats);
    if (count > 0)
        put_histogram(w, w->bins, count);
    if (w->summary.len == 0)
        return TT_OK;
    tt_buf_clear(&w->event);
    put_double(&w->event, EVENT_TIME, (double)p->time / 1e9);
    (void)tt_buf_varint(&w->event, EVENT_STEP);
    (void)tt_buf_varint(&w->event, (uint64_t)p->step);
    put_part(&w->event, EVENT_SUMMARY, &w->summary);
    return write_event(w);
}

/* ---- the file -------------------------------------------------------------------------- */

static tt_status write_file(const tt_export *what, const char *path, int64_t started, tt_error *err)
{
    static const char version[] = "brain.Event:2";
    writer w = { 0 };
    tt_output *output = NULL;
    tt_status st = tt_output_open(path, &output, err);
    if (st < 0)
        return st;
    int fd = dup(tt_output_fd(output));
    w.file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    for (uint32_t i = 0; i < 256; i++) {
        w.crc[i] = i;
        for (int bit = 0; bit < 8; bit++)
            w.crc[i] = w.crc[i] >> 1 ^ ((w.crc[i] & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
    }
    if (w.file == NULL) {
        st = tt_fail(err, TT_EIO, "%.150s: %s", path, strerror(errno));
        if (fd >= 0)
            (void)close(fd);
    } else {
        put_double(&w.event, EVENT_TIME, (double)started / 1e9);
        put_bytes(&w.event, EVENT_VERSION, version, sizeof version - 1);
        st = write_event(&w);
        if (st == TT_OK)
            st = tt_export_visit(what, put_point, &w, err);
        bool has_failed = ferror(w.file) != 0;
        if ((fclose(w.file) != 0 || has_failed) && st == TT_OK)
            st = tt_fail(err, TT_EIO, "%.150s: %s", path, strerror(errno));
    }
    tt_buf *const owned[] = { &w.head,   &w.event,  &w.summary, &w.value, &w.part,
                              &w.limits, &w.counts, &w.tag,     &w.group };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        tt_buf_free(owned[i]);
    free(w.bins);
    return tt_output_close(output, st, err);
}

tt_status tt_export_events(const tt_export *what, tt_error *err)
{
    char *path = NULL; /* owned */
    int64_t started = tt_run_started(what->run);
    bool is_new = mkdir(what->out, 0777) == 0;
    if (!is_new && errno != EEXIST)
        return tt_fail(err, TT_EIO, "%.150s: %s", what->out, strerror(errno));
    /* Named after the run: a second export replaces the first. */
    if (asprintf(&path, "%s/events.out.tfevents.%" PRId64 ".tensortap", what->out, started / 1000000000) <
        0)
        return TT_ENOMEM;
    tt_status st = write_file(what, path, started, err);
    free(path);
    if (st < 0 && is_new)
        (void)rmdir(what->out);
    return st;
}
