/* check.c -- finds what is damaged in a run file; repairs it.
 *
 * Exists so that a person knows what a damaged file still holds.  Checking is
 * about checksums: whether each byte is as it was written.  Repair also unpacks
 * all points, because what it writes must be readable.  It copies
 * what is whole to the same places in a new file and puts gaps over the rest, so
 * that nothing has to be renumbered; then it writes a footer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/check.h"
#include "store/file.h"
#include "store/store.h"
#include "store/value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct check {
    tt_tap *tap;
    tt_check about;
    tt_scan scan; /* of its own: from the first byte */
    tt_index index;
    tt_sites *sites; /* owned */
    char *bytes;     /* owned; a stretch of the file */
    tt_points points;
    uint64_t unpaid; /* points beyond the bytes of their chunks */
    int out;         /* the new file; -1: only look */
} check;

enum {
    STRETCH = 1 << 20,
    UNPAID_MAX = 8 * TT_INDEX_UNPAID_MAX, /* merging writes a point some four times */
};

static void note_damage(check *c, int64_t at, int64_t bytes, const char *what)
{
    if (c->about.damaged_bytes == 0)
        (void)snprintf(c->about.first, sizeof c->about.first, "%s at byte %lld", what, (long long)at);
    c->about.damaged_blocks++;
    c->about.damaged_bytes += bytes;
}

/* Checks the payload of a value without holding it. */
static tt_status check_payload(check *c, int64_t at, const tt_block_head *block,
                               const tt_value_head *head, bool *is_whole)
{
    *is_whole = false;
    int64_t payload = at + tt_block_payload_at(block->body);
    if (head->stored > block->length - (payload - at))
        return TT_OK;
    tt_hash_state *hash = tt_hash_create();
    if (hash == NULL)
        return TT_ENOMEM;
    tt_status st = TT_OK;
    for (int64_t left = head->stored; st == TT_OK && left > 0;) {
        size_t n = left < STRETCH ? (size_t)left : STRETCH;
        st = tt_file_read(c->scan.fd, c->bytes, n, payload);
        if (st == TT_OK)
            tt_hash_add(hash, c->bytes, n);
        payload += (int64_t)n;
        left -= (int64_t)n;
    }
    *is_whole = st == TT_OK && tt_hash_end(hash) == head->check;
    tt_hash_free(hash);
    return st == TT_EFORMAT ? TT_OK : st;
}

/* Unpacks every chunk of a batch. */
static tt_status check_chunks(check *c)
{
    tt_cursor cursor = tt_cursor_over(c->scan.body.data, c->scan.body.len);
    tt_status st = TT_OK;
    while (st == TT_OK && tt_cursor_left(&cursor) > 0) {
        uint64_t kind = tt_cursor_varint(&cursor), len = tt_cursor_varint(&cursor);
        const unsigned char *bytes = tt_cursor_take(&cursor, len);
        tt_chunk chunk;
        if (bytes == NULL)
            return TT_EFORMAT;
        if (kind != TT_SECTION_CHUNK && kind != TT_SECTION_LATEST)
            continue;
        st = tt_chunk_parse(&chunk, bytes, len);
        if (st == TT_OK && chunk.n > len && (c->unpaid += chunk.n - len) > UNPAID_MAX)
            st = TT_EFORMAT;
        tt_points_clear(&c->points);
        if (st == TT_OK)
            st = tt_chunk_unpack(&chunk, 0, &c->points);
    }
    return st;
}

/* TT_OK: whole; TT_EFORMAT: damaged; else a failure of ours. */
static tt_status check_block(check *c, int64_t at, const tt_block_head *head)
{
    tt_status st = tt_scan_body(&c->scan, at, head);
    if (st < 0)
        return st;
    switch (head->kind) {
    case TT_BLOCK_SESSION:
        return tt_places_add(&c->index.sessions, at);
    case TT_BLOCK_BATCH:
        st = c->out >= 0 ? check_chunks(c) : TT_OK;
        return st == TT_OK ? tt_index_read(&c->index, c->scan.body.data, c->scan.body.len, at,
                                           at + TT_BLOCK_HEADER)
                           : st;
    case TT_BLOCK_FOOTER:
        return c->out >= 0 ? check_chunks(c) : TT_OK;
    case TT_BLOCK_VALUE: {
        bool is_whole;
        tt_value_head value;
        st = tt_value_parse(&value, c->scan.body.data, c->scan.body.len);
        if (st < 0)
            return st;
        bool is_first = value.before == 0; /* of its pieces; that one is evicted first */
        if (tt_index_is_hole(&c->tap->index, at)) {
            c->about.gone_values += is_first;
            return TT_OK;
        }
        st = check_payload(c, at, head, &value, &is_whole);
        c->about.values += is_whole && is_first;
        return st == TT_OK && !is_whole ? TT_EFORMAT : st;
    }
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
        st = tt_file_read(c->scan.fd, c->bytes, n, at);
        struct iovec part = { c->bytes, n };
        if (st == TT_OK)
            st = tt_file_write(c->out, &part, 1, at, NULL);
        at += (int64_t)n;
    }
    return st;
}

static tt_status put_gap(check *c, int64_t at, int64_t length)
{
    unsigned char bytes[TT_BLOCK_HEADER];
    tt_block_head gap = { .kind = TT_BLOCK_GAP, .id = c->scan.id, .length = length, .last_step = -1 };
    tt_block_seal(&gap, at, "", bytes);
    struct iovec part = { bytes, sizeof bytes };
    return tt_file_write(c->out, &part, 1, at, NULL);
}

/* Walks the file from the first byte. */
static tt_status walk(check *c)
{
    tt_block_head head;
    int64_t end = 0, skipped, last_closed = -1;
    tt_status st = TT_OK;
    for (int64_t at = 0; st == TT_OK && tt_scan_next(&c->scan, &at, &head, &skipped) > 0; at = end) {
        if (skipped > 0) {
            note_damage(c, at - skipped, skipped, "no block");
            if (c->out >= 0)
                st = put_gap(c, at - skipped, skipped);
            if (st < 0)
                break;
        }
        st = check_block(c, at, &head);
        if (st == TT_EFORMAT && at + head.length == c->scan.size && head.kind != TT_BLOCK_END &&
            !c->tap->scan.is_closed)
            break; /* torn: the last block of a file that was not closed */
        end = at + head.length;
        c->scan.sequence = head.sequence + 1;
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
    c->about.torn_bytes = c->scan.size - end;
    c->about.is_closed = last_closed == c->scan.size;
    c->about.points = c->index.points;
    c->scan.end = end;
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

static tt_status begin(check *c, tt_tap *tap)
{
    *c = (check){ .tap = tap, .out = -1 };
    tt_status st = tt_sites_create(&c->sites);
    if (st == TT_OK)
        st = copy_names(tap->sites, c->sites);
    if (st < 0)
        return st;
    c->index.sites = c->sites;
    c->index.last_step = -1;
    c->bytes = malloc(STRETCH);
    struct stat about;
    if (fstat(tap->fd, &about) < 0)
        return TT_EIO;
    c->scan =
        (tt_scan){ .fd = tap->fd, .size = about.st_size, .index = &c->index, .search_left = INT64_MAX };
    return c->bytes != NULL ? TT_OK : TT_ENOMEM;
}

static void end(check *c)
{
    tt_index_free(&c->index);
    tt_scan_free(&c->scan);
    tt_sites_free(c->sites);
    tt_points_free(&c->points);
    free(c->bytes);
}

tt_status tt_run_check(tt_run *run, int32_t file, tt_check *out, tt_error *err)
{
    if (file < 0 || file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    tt_status st = tt_tap_check_bytes(run->taps[file], out);
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
        (void)tt_fail(err, st, "%s", tt_status_text(st));
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
        st = tt_store_finish(c.out, c.scan.id, c.scan.sequence, c.scan.end, &c.index, err);
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
