/* check.c -- finds what is damaged in a run file; repairs it.
 *
 * Exists so that a person knows what a damaged file still holds.  Checking is about checksums:
 * whether each byte is as it was written.  The answer is nearly always yes, so a closed file is
 * first looked at the quick way: nothing is unpacked or kept, and a few threads share the blocks,
 * because reading and hashing take longer than reading alone.  The file is not mapped: one that
 * becomes shorter meanwhile must not end the program.
 *
 * Where the answer is no, the file is walked from its first byte.  Repair also unpacks all points,
 * because what it writes must be readable.  It copies what is whole to the same places in a new
 * file and puts gaps over the rest, so that nothing has to be renumbered; then it writes a footer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/worker.h"
#include "os/os.h"
#include "store/run.h"
#include "store/store.h"
#include "store/value.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    THREADS_MAX = 4,
    SHARE = 16 << 20,                     /* bytes for which another thread is worth its start */
    STRETCH = 256 << 10,                  /* half of a small L2 */
    UNPAID_MAX = 8 * TT_INDEX_UNPAID_MAX, /* merging writes a point some four times */
};

/* ---- the bytes of one block ---------------------------------------------------- */

typedef struct reader {
    const tt_tap *tap;
    tt_scan scan; /* of its own */
    char *bytes;  /* owned; a stretch, aligned: copies to other places are many times slower */
} reader;

static tt_status open_reader(reader *r, const tt_tap *tap)
{
    *r = (reader){ .tap = tap,
                   .scan = { .fd = tap->fd, .size = tap->scan.size, .id = tap->scan.id },
                   .bytes = aligned_alloc(4096, STRETCH) };
    return r->bytes != NULL ? TT_OK : TT_ENOMEM;
}

static void close_reader(reader *r)
{
    free(r->bytes);
    tt_scan_free(&r->scan);
}

/* Checks the payload of a value whose body was read.  TT_EFORMAT: not whole. */
static tt_status check_value(reader *r, int64_t at, const tt_block_head *block, tt_check *about)
{
    const tt_buf *body = &r->scan.body;
    tt_value_head value;
    int64_t payload = tt_block_payload_at(block->body);
    if (tt_value_parse(&value, body->data, body->len) < 0 || value.stored > block->length - payload)
        return TT_EFORMAT;
    bool is_first = value.before == 0; /* of its pieces; that one is evicted first */
    if (tt_index_is_hole(&r->tap->index, at)) {
        about->gone_values += is_first;
        return TT_OK;
    }
    uint64_t hash;
    tt_status st = tt_block_hash_file(r->scan.fd, at + payload, value.stored, r->bytes, STRETCH, &hash);
    if (st == TT_OK && hash != value.check)
        st = TT_EFORMAT;
    about->values += st == TT_OK && is_first;
    return st;
}

/* ---- the quick way, for closed files -------------------------------------------- */

typedef struct byte_check {
    const tt_tap *tap;
    pthread_mutex_t lock; /* over all below */
    int64_t next;         /* the block that nobody has taken yet */
    tt_block_kind last;   /* kind of the block before it */
    tt_check about;
    tt_status st; /* the first that is not TT_OK */
} byte_check;

/* TT_EFORMAT: not whole. */
static tt_status check_bytes(reader *r, int64_t at, const tt_block_head *head, tt_check *about)
{
    uint64_t hash = head->check;
    bool is_value = head->kind == TT_BLOCK_VALUE;
    /* A stretch at a time stays in the cache; the body of a value is short and parsed. */
    tt_status st = is_value ? tt_scan_body(&r->scan, at, head)
                            : tt_block_hash_file(r->scan.fd, at + TT_BLOCK_HEADER, head->body, r->bytes,
                                                 STRETCH, &hash);
    if (st < 0 || hash != head->check)
        return st < 0 ? st : TT_EFORMAT;
    about->blocks++;
    return is_value ? check_value(r, at, head, about) : TT_OK;
}

/* Takes the next block; false: there is none.  Under the lock. */
static bool take_block(byte_check *v, int64_t *at, tt_block_head *head)
{
    if (v->st < 0 || v->next >= v->tap->scan.size)
        return false;
    if (!tt_scan_is_block(&v->tap->scan, v->next, head))
        v->st = TT_EFORMAT;
    *at = v->next;
    v->next += v->st == TT_OK ? head->length : 0;
    v->last = head->kind;
    return v->st == TT_OK;
}

static void *work(void *of)
{
    byte_check *v = of;
    reader r;
    tt_status st = open_reader(&r, v->tap);
    tt_check mine = { 0 };
    for (bool goes_on = true; goes_on;) {
        int64_t at;
        tt_block_head head;
        pthread_mutex_lock(&v->lock);
        v->st = v->st == TT_OK ? st : v->st;
        goes_on = take_block(v, &at, &head);
        if (!goes_on) {
            v->about.blocks += mine.blocks;
            v->about.values += mine.values;
            v->about.gone_values += mine.gone_values;
        }
        pthread_mutex_unlock(&v->lock);
        if (goes_on)
            st = check_bytes(&r, at, &head, &mine);
    }
    close_reader(&r);
    return NULL;
}

/* More than the one that asks; where one cannot be had, the others do its work. */
static int start_others(byte_check *v, pthread_t others[THREADS_MAX - 1])
{
    int wanted = tt_os_processors(), count = 0;
    if (wanted > THREADS_MAX)
        wanted = THREADS_MAX;
    if (wanted > v->tap->scan.size / SHARE + 1)
        wanted = (int)(v->tap->scan.size / SHARE + 1);
    while (count < wanted - 1 && tt_thread_start(&others[count], work, v) == 0)
        count++;
    return count;
}

/* TT_EFORMAT: the file was not closed, has grown since, or is not whole. */
static tt_status check_closed(const tt_tap *tap, tt_check *out)
{
    if (!tap->scan.is_closed)
        return TT_EFORMAT;
    byte_check v = { .tap = tap, .about = { .is_closed = true, .points = tap->index.points } };
    pthread_t others[THREADS_MAX - 1];
    pthread_mutex_init(&v.lock, NULL);
    tt_os_file_is_read_ahead(tap->fd);
    int count = start_others(&v, others);
    (void)work(&v);
    for (int i = 0; i < count; i++)
        pthread_join(others[i], NULL);
    pthread_mutex_destroy(&v.lock);
    if (v.st == TT_OK && v.last != TT_BLOCK_END)
        v.st = TT_EFORMAT;
    if (v.st == TT_OK)
        *out = v.about;
    return v.st;
}

/* ---- block by block, from the first byte ---------------------------------------- */

typedef struct check {
    const tt_tap *tap;
    tt_check about;
    tt_index index;
    tt_sites *sites; /* owned */
    reader reader;   /* from the first byte */
    tt_points points;
    uint64_t unpaid; /* points beyond the bytes of their chunks */
    int out;         /* the new file; -1: only look */
} check;

static void note_damage(check *c, int64_t at, int64_t bytes, const char *what)
{
    if (c->about.damaged_bytes == 0)
        (void)snprintf(c->about.first, sizeof c->about.first, "%s at byte %lld", what, (long long)at);
    c->about.damaged_blocks++;
    c->about.damaged_bytes += bytes;
}

/* Unpacks every chunk of a batch. */
static tt_status check_chunks(check *c)
{
    tt_cursor body = tt_cursor_over(c->reader.scan.body.data, c->reader.scan.body.len), section;
    tt_status st = TT_OK;
    for (uint64_t kind; st == TT_OK && tt_section_next(&body, &kind, &section);) {
        tt_chunk chunk;
        size_t len = tt_cursor_left(&section);
        if (kind != TT_SECTION_CHUNK && kind != TT_SECTION_LATEST)
            continue;
        st = tt_chunk_parse(&chunk, section.at, len);
        if (st == TT_OK && chunk.entry.n > len && (c->unpaid += chunk.entry.n - len) > UNPAID_MAX)
            st = TT_EFORMAT;
        tt_points_clear(&c->points);
        if (st == TT_OK)
            st = tt_chunk_unpack(&chunk, 0, &c->points);
    }
    return body.is_bad ? TT_EFORMAT : st;
}

/* TT_OK: whole; TT_EFORMAT: damaged; else a failure of ours. */
static tt_status check_block(check *c, int64_t at, const tt_block_head *head)
{
    tt_status st = tt_scan_body(&c->reader.scan, at, head);
    if (st < 0)
        return st;
    switch (head->kind) {
    case TT_BLOCK_SESSION:
        return tt_offsets_add(&c->index.sessions, at);
    case TT_BLOCK_BATCH:
        st = c->out >= 0 ? check_chunks(c) : TT_OK;
        return st == TT_OK ? tt_index_read(&c->index, c->reader.scan.body.data, c->reader.scan.body.len,
                                           at, at + TT_BLOCK_HEADER)
                           : st;
    case TT_BLOCK_FOOTER:
        return c->out >= 0 ? check_chunks(c) : TT_OK;
    case TT_BLOCK_VALUE:
        return check_value(&c->reader, at, head, &c->about);
    case TT_BLOCK_INDEX:
    case TT_BLOCK_END:
    case TT_BLOCK_GAP:
    case TT_BLOCK_KIND_COUNT_:
        break;
    }
    return TT_OK;
}

static tt_status copy_block(check *c, int64_t at, int64_t length, bool is_hole, const tt_block_head *head)
{
    int64_t end = is_hole ? at + tt_block_payload_at(head->body) : at + length;
    tt_status st = TT_OK;
    while (st == TT_OK && at < end) {
        size_t n = end - at < STRETCH ? (size_t)(end - at) : STRETCH;
        st = tt_file_read(c->reader.scan.fd, c->reader.bytes, n, at);
        struct iovec part = { c->reader.bytes, n };
        if (st == TT_OK)
            st = tt_file_write(c->out, &part, 1, at);
        at += (int64_t)n;
    }
    return st;
}

static tt_status put_gap(check *c, int64_t at, int64_t length)
{
    unsigned char bytes[TT_BLOCK_HEADER];
    tt_block_head gap = {
        .kind = TT_BLOCK_GAP, .id = c->reader.scan.id, .length = length, .last_step = -1
    };
    tt_block_seal(&gap, at, "", bytes);
    struct iovec part = { bytes, sizeof bytes };
    return tt_file_write(c->out, &part, 1, at);
}

/* Walks the file from the first byte. */
static tt_status walk(check *c)
{
    tt_block_head head;
    int64_t end = 0, skipped, last_closed = -1;
    tt_status st = TT_OK;
    for (int64_t at = 0; st == TT_OK && tt_scan_next(&c->reader.scan, &at, &head, &skipped); at = end) {
        if (skipped > 0) {
            note_damage(c, at - skipped, skipped, "no block");
            if (c->out >= 0)
                st = put_gap(c, at - skipped, skipped);
            if (st < 0)
                break;
        }
        st = check_block(c, at, &head);
        if (st == TT_EFORMAT && at + head.length == c->reader.scan.size && head.kind != TT_BLOCK_END &&
            !c->tap->scan.is_closed)
            break; /* torn: the last block of a file that was not closed */
        end = at + head.length;
        c->reader.scan.sequence = head.sequence + 1;
        c->about.blocks++;
        bool is_hole = head.kind == TT_BLOCK_VALUE && tt_index_is_hole(&c->tap->index, at);
        if (st == TT_EFORMAT)
            note_damage(c, at, head.length, "a damaged block");
        if (c->out >= 0 && (st == TT_OK || st == TT_EFORMAT))
            st = st == TT_OK ? copy_block(c, at, head.length, is_hole, &head)
                             : put_gap(c, at, head.length);
        else if (st == TT_EFORMAT)
            st = TT_OK;
        last_closed = head.kind == TT_BLOCK_END ? end : last_closed;
    }
    st = st == TT_EFORMAT ? TT_OK : st;
    c->about.torn_bytes = c->reader.scan.size - end;
    c->about.is_closed = last_closed == c->reader.scan.size;
    c->about.points = c->index.points;
    c->reader.scan.end = end;
    return st;
}

/* A footer or an index tells all names again: those of a block that is damaged now may be
 * known from there. */
static tt_status copy_names(const tt_sites *from, tt_sites *to)
{
    tt_status st = TT_OK;
    for (int32_t i = 0, site; st == TT_OK && i < tt_sites_count(from); i++) {
        const tt_site_row *row = tt_sites_row(from, i);
        st = tt_sites_intern(to, row->name, row->len, NULL, &site);
    }
    return st;
}

static tt_status begin(check *c, const tt_tap *tap)
{
    *c = (check){ .tap = tap, .out = -1 };
    tt_status st = open_reader(&c->reader, tap);
    if (st == TT_OK)
        st = tt_sites_create(&c->sites);
    if (st == TT_OK)
        st = copy_names(tap->sites, c->sites);
    if (st < 0)
        return st;
    c->index.sites = c->sites;
    c->index.steps = TT_SPAN_NONE;
    struct stat about;
    if (fstat(tap->fd, &about) < 0)
        return TT_EIO;
    c->reader.scan = (tt_scan){ .fd = tap->fd, .size = about.st_size, .search_left = INT64_MAX };
    return TT_OK;
}

static void end(check *c)
{
    tt_index_free(&c->index);
    tt_sites_free(c->sites);
    tt_points_free(&c->points);
    close_reader(&c->reader);
}

tt_status tt_run_check(tt_run *run, int32_t file, tt_check *out, tt_error *err)
{
    if (file < 0 || file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    tt_status st = check_closed(run->taps[file], out);
    if (st == TT_OK)
        return TT_OK;
    check c;
    st = begin(&c, run->taps[file]);
    if (st == TT_OK)
        st = walk(&c);
    if (st == TT_OK)
        *out = c.about;
    else
        (void)tt_fail(err, st, "%.180s: %s", run->taps[file]->path, tt_status_text(st));
    end(&c);
    return st;
}

tt_status tt_run_repair(tt_run *run, int32_t file, const char *path, tt_check *out, tt_error *err)
{
    if (file < 0 || file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    check c;
    tt_status st = begin(&c, run->taps[file]);
    if (st < 0) {
        (void)tt_fail_plain(err, st);
        goto out;
    }
    c.out = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (c.out < 0) {
        st = tt_fail(err, TT_EIO, "%.180s: %s", path, strerror(errno));
        goto out;
    }
    st = walk(&c);
    if (st < 0)
        (void)tt_fail(err, st, "%.180s: %s", path, tt_status_text(st));
    else
        st = tt_store_finish(c.out, c.reader.scan.id, c.reader.scan.sequence, c.reader.scan.end, &c.index,
                             err);
    if (st == TT_OK)
        *out = c.about;
    else
        (void)unlink(path);
out:
    if (c.out >= 0)
        (void)close(c.out);
    end(&c);
    return st;
}
