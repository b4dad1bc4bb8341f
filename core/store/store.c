/* store.c -- writes one run file.
 *
 * One function writes, whatever the block: the header is sealed for its place, room is
 * asked for ahead (large writes take half the time), the file must still have a name, and
 * a block that could not be written whole is cut off again.  A file that is continued is cut
 * behind its last whole block; the reader's index becomes the writer's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "base/clock.h"
#include "base/file.h"
#include "store/chunk.h"
#include "store/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

enum { RESERVE_MIN = 1 << 20, RESERVE_MAX = 64 << 20 };
enum { RESERVE_LEAST = 64 << 10 }; /* where ranks are many */
enum { BATCH_MAX = 2 << 20 };      /* bytes of a block at the end */

static tt_status check_name(const tt_store *store, tt_error *err)
{
    struct stat about;
    if (fstat(store->fd, &about) < 0)
        return tt_fail(err, TT_EIO, "fstat: %s", strerror(errno));
    if (about.st_nlink == 0)
        return tt_fail(err, TT_EIO, "the file was removed");
    return TT_OK;
}

/* Asks for a quarter more than there is, so that small runs stay small. */
static tt_status reserve(tt_store *store, int64_t length, tt_error *err)
{
    int64_t need = store->end + length;
    if (need <= store->reserved)
        return TT_OK;
    int64_t more = store->end / 4;
    more = more < RESERVE_MIN ? RESERVE_MIN : more;
    more = more > store->reserve_max ? store->reserve_max : more;
    tt_status st = tt_file_reserve(store->fd, store->end, need + more, err);
    store->reserved = need + more;
    return st;
}

tt_status tt_store_put(tt_store *store, tt_block_kind kind, tt_span steps, const tt_buf *body,
                       const void *payload, size_t payload_len, tt_error *err)
{
    static const char zeros[TT_BLOCK_ALIGN] = { 0 };
    if (store->is_failed)
        return tt_fail(err, TT_EIO, "recording has stopped");
    tt_status st = body->st;
    if (st == TT_OK && body->len > TT_BLOCK_BODY_MAX)
        st = tt_fail(err, TT_EINVAL, "a block of %zu bytes is too large", body->len);
    if (st < 0)
        goto out;
    int64_t payload_at = tt_block_payload_at((uint32_t)body->len);
    tt_block_head head = {
        .kind = kind,
        .body = (uint32_t)body->len,
        .id = store->id,
        .length = payload_at + tt_block_round((int64_t)payload_len),
        .sequence = store->sequence,
        .first_step = steps.first,
        .last_step = steps.last,
    };
    unsigned char header[TT_BLOCK_HEADER];
    tt_block_seal(&head, store->end, body->len > 0 ? body->data : "", header);
    struct iovec parts[] = {
        tt_file_part(header, sizeof header),
        tt_file_part(body->data, body->len),
        tt_file_part(zeros, (size_t)payload_at - sizeof header - body->len),
        tt_file_part(payload, payload_len),
        tt_file_part(zeros, (size_t)(head.length - payload_at) - payload_len),
    };
    st = check_name(store, err);
    if (st == TT_OK)
        st = reserve(store, head.length, err);
    if (st == TT_OK)
        st = tt_file_write(store->fd, parts, 5, store->end) == TT_OK
                 ? TT_OK
                 : tt_fail(err, TT_EIO, "write: %s", strerror(errno));
    if (st < 0)
        goto out;
    store->end += head.length;
    store->sequence++;
    store->blocks_since_index++;
    return TT_OK;
out:
    store->is_failed = true;
    if (st == TT_ENOMEM)
        (void)tt_fail(err, st, "out of memory");
    (void)tt_file_cut(store->fd, store->end, NULL); /* a torn block is no block anyway */
    return st;
}

/* Adds the names that came since the last batch. */
static void put_names(tt_store *store)
{
    int32_t count = tt_sites_count(store->index.sites);
    if (store->sites_written < count) {
        tt_sites_pack(store->index.sites, store->sites_written, &store->body);
        store->sites_written = count; /* or a few more: they are told again, harmlessly */
    }
}

tt_status tt_store_put_chunk(tt_store *store, int32_t site, int64_t first, const tt_points *points,
                             tt_error *err)
{
    tt_chunk about;
    tt_buf *chunk = &store->scratch;
    put_names(store);
    tt_buf_clear(chunk);
    tt_chunk_pack(chunk, (uint32_t)site, first, points);
    tt_section_put(&store->body, TT_SECTION_CHUNK, chunk);
    tt_status st = store->body.st;
    if (st == TT_OK)
        st = tt_chunk_parse(&about, chunk->data, chunk->len);
    if (st < 0)
        return tt_fail_plain(err, st);
    about.entry.at = store->end + TT_BLOCK_HEADER + (int64_t)(store->body.len - chunk->len);
    st = tt_index_add(&store->index, site, &about.entry);
    tt_span_add(&store->steps, about.entry.first_step, about.entry.last_step);
    return st == TT_OK ? st : tt_fail(err, st, "too many points for one file");
}

tt_status tt_store_add(tt_store *store, int32_t site, const tt_points *points, tt_error *err)
{
    tt_index_site *row;
    tt_status st = tt_index_row(&store->index, site, &row);
    if (st < 0)
        return tt_fail_plain(err, st);
    if (row->nonfinite < 0) {
        int64_t i = tt_points_nonfinite(points);
        row->nonfinite = i < 0 ? -1 : row->points + i;
    }
    if (row->chained == row->points) {
        row->chain = tt_points_chain(points, row->chain);
        row->chained += points->n;
    }
    st = tt_store_put_chunk(store, site, row->points, points, err);
    row->scanned = row->points;
    return st;
}

/* Adds a section that texts.c will look for; frees it. */
static tt_status put_text(tt_store *store, tt_section kind, tt_buf *section, tt_error *err)
{
    put_names(store);
    tt_section_put(&store->body, kind, section);
    tt_status st = store->body.st;
    tt_buf_free(section);
    const tt_offsets *notes = &store->index.notes;
    if (st == TT_OK && (notes->count == 0 || notes->at[notes->count - 1] != store->end))
        st = tt_offsets_add(&store->index.notes, store->end);
    return tt_fail_plain(err, st);
}

tt_status tt_store_note(tt_store *store, int64_t step, int64_t time, const char *text, size_t len,
                        tt_error *err)
{
    tt_buf note = { 0 };
    tt_wire_signed(&note, step);
    tt_wire_signed(&note, time);
    tt_buf_append(&note, text, len);
    tt_status st = put_text(store, TT_SECTION_NOTE, &note, err);
    tt_span_add(&store->steps, step, step);
    return st;
}

tt_status tt_store_section(tt_store *store, tt_section kind, const void *bytes, size_t len, tt_error *err)
{
    tt_buf section = { 0 };
    tt_buf_append(&section, bytes, len);
    store->index.has_mesh |= kind == TT_SECTION_MESH;
    return put_text(store, kind, &section, err);
}

void tt_store_put_pair(tt_store *store, tt_section kind, int64_t first, int64_t second)
{
    put_names(store);
    tt_buf section = { 0 };
    tt_buf_varint(&section, (uint64_t)first);
    tt_buf_varint(&section, (uint64_t)second);
    tt_section_put(&store->body, kind, &section);
    tt_buf_free(&section);
}

void tt_store_lost(tt_store *store, int64_t events, int64_t bytes)
{
    if (events == store->index.lost_events && bytes == store->index.lost_bytes)
        return;
    tt_store_put_pair(store, TT_SECTION_LOST, events, bytes);
    store->index.lost_events = events;
    store->index.lost_bytes = bytes;
}

tt_status tt_store_flush(tt_store *store, tt_error *err)
{
    put_names(store);
    if (store->body.len == 0 && store->body.st == TT_OK)
        return TT_OK;
    tt_status st = tt_store_put(store, TT_BLOCK_BATCH, store->steps, &store->body, NULL, 0, err);
    if (st == TT_OK) {
        tt_buf_clear(&store->body);
        store->steps = TT_SPAN_NONE;
    }
    return st;
}

/* ---- opening and closing ----------------------------------------------------- */

static uint32_t make_id(const tt_store *store)
{
    int64_t seed[] = { tt_clock_now(), getpid(), (int64_t)(uintptr_t)store };
    uint32_t id = (uint32_t)tt_block_hash(seed, sizeof seed);
    return id != 0 ? id : 1;
}

static tt_status open_file(tt_store *store, const char *path, bool resumes, tt_error *err)
{
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (resumes ? 0 : O_EXCL);
    store->fd = open(path, flags, 0666);
    if (store->fd < 0 && errno == ELOOP)
        return tt_fail(err, TT_EIO, "%s is a symbolic link; a run is written only to a file of its own",
                       path);
    if (store->fd < 0 && errno == EEXIST)
        return tt_fail(err, TT_EINVAL, "%s is there already; resume it, or take another folder", path);
    if (store->fd < 0)
        return tt_fail(err, TT_EIO, "%s: %s", path, strerror(errno));
    if (flock(store->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return tt_fail(err, TT_EIO, "%s: another process is recording into it", path);
    return TT_OK; /* no locks here: then none are needed by others either */
}

/* Reads how a file that is continued was thinned: the last word counts. */
static void read_strides(tt_store *store, tt_scan *scan)
{
    const tt_offsets *notes = &store->index.notes;
    for (uint32_t i = 0; i < notes->count; i++) {
        uint64_t kind;
        tt_cursor section;
        if (tt_scan_load(scan, notes->at[i], TT_BLOCK_BATCH, NULL) < 0)
            continue;
        tt_cursor body = tt_cursor_over(scan->body.data, scan->body.len);
        while (tt_section_next(&body, &kind, &section)) {
            tt_thinned one;
            if (kind == TT_SECTION_THINNED && tt_thinned_read(&section, &one))
                store->strides[one.kind] = (uint32_t)one.stride;
        }
    }
}

static tt_status continue_file(tt_store *store, tt_error *err)
{
    tt_scan scan = { 0 };
    tt_status st = tt_scan_open(&scan, store->fd, &store->index);
    if (st < 0) {
        (void)tt_fail(err, st, "cannot be continued: %s", tt_status_text(st));
        goto out;
    }
    if (scan.size > 0 && scan.id == 0) {
        st = tt_fail(err, TT_EFORMAT, "cannot be continued: not a run file");
        goto out;
    }
    store->id = scan.id != 0 ? scan.id : store->id;
    store->end = scan.end;
    store->sequence = scan.sequence;
    store->sites_written = tt_sites_count(store->index.sites);
    for (int32_t i = 0; i < store->index.count; i++)
        tt_store_look_back(store, i);
    read_strides(store, &scan);
    if (scan.size > scan.end)
        st = tt_file_cut(store->fd, scan.end, err); /* a torn tail */
out:
    tt_scan_free(&scan);
    return st;
}

static tt_status put_session(tt_store *store, const char *const *info, tt_error *err)
{
    tt_buf body = { 0 };
    for (; info != NULL && info[0] != NULL && info[1] != NULL; info += 2) {
        for (int i = 0; i < 2; i++) {
            size_t len = strlen(info[i]);
            tt_buf_varint(&body, len);
            tt_buf_append(&body, info[i], len);
        }
    }
    int64_t at = store->end;
    tt_status st = tt_store_put(store, TT_BLOCK_SESSION, store->steps, &body, NULL, 0, err);
    if (st == TT_OK)
        st = tt_offsets_add(&store->index.sessions, at);
    tt_buf_free(&body);
    return st;
}

static void release(tt_store *store)
{
    if (store->fd >= 0)
        (void)close(store->fd);
    tt_index_free(&store->index);
    tt_buf_free(&store->body);
    tt_points_free(&store->merged);
    tt_buf_free(&store->scratch);
    free(store->segments.at);
    free(store->used_at.at);
    ZSTD_freeCCtx(store->packer);
    *store = (tt_store){ .fd = -1 };
}

/* All files of a run together reserve what one does. */
static int64_t share_reserve(const char *const *info)
{
    long ranks = 1;
    for (size_t i = 0; info != NULL && info[i] != NULL && info[i + 1] != NULL; i += 2)
        if (strcmp(info[i], "world_size") == 0)
            ranks = strtol(info[i + 1], NULL, 10);
    int64_t share = ranks > 1 ? RESERVE_MAX / ranks : RESERVE_MAX;
    return share > RESERVE_LEAST ? share : RESERVE_LEAST;
}

tt_status tt_store_open(tt_store *store, const char *path, tt_sites *sites,
                        const tt_recorder_options *options, tt_error *err)
{
    *store = (tt_store){ .fd = -1, .max_bytes = options->max_bytes, .steps = TT_SPAN_NONE };
    store->index.sites = sites;
    store->index.steps = TT_SPAN_NONE;
    store->id = make_id(store);
    store->reserve_max = share_reserve(options->info);
    tt_status st = open_file(store, path, options->resumes, err);
    bool is_ours = st == TT_OK;
    if (st == TT_OK && options->resumes)
        st = continue_file(store, err);
    if (st == TT_OK && options->compresses) {
        store->packer = ZSTD_createCCtx();
        if (store->packer == NULL)
            st = tt_fail_plain(err, TT_ENOMEM);
    }
    if (st == TT_OK)
        st = put_session(store, options->info, err);
    if (st < 0) {
        if (is_ours && !options->resumes)
            (void)unlink(path);
        release(store);
    }
    return st;
}

/* The latest point of each site, for readers that ask for nothing else. */
static void put_latest(tt_store *store, tt_buf *out)
{
    tt_buf packed = { 0 };
    for (int32_t i = 0;
         i < store->index.count && out->st == TT_OK && out->len < TT_BLOCK_BODY_MAX * 3 / 4; i++) {
        const tt_index_site *row = &store->index.row[i];
        if (row->count == 0)
            continue;
        const tt_index_chunk *last = &row->chunks[row->count - 1];
        tt_points_clear(&store->merged);
        if (tt_store_read_chunk(store, i, last) < 0)
            continue; /* it is only a short cut */
        tt_points_keep_last(&store->merged);
        tt_buf_clear(&packed);
        tt_chunk_pack(&packed, (uint32_t)i, last->first + last->n - 1, &store->merged);
        tt_section_put(out, TT_SECTION_LATEST, &packed);
    }
    tt_buf_free(&packed);
}

static tt_status put_snapshot(tt_store *store, tt_block_kind kind, tt_error *err)
{
    tt_buf body = { 0 };
    tt_index_pack(&store->index, &body);
    if (kind == TT_BLOCK_FOOTER)
        put_latest(store, &body);
    tt_status st = tt_store_put(store, kind, store->index.steps, &body, NULL, 0, err);
    store->indexed_end = store->end;
    store->index_bytes = TT_BLOCK_HEADER + (int64_t)body.len;
    store->blocks_since_index = 0;
    tt_buf_free(&body);
    return st;
}

tt_status tt_store_index_if_due(tt_store *store, tt_error *err)
{
    /* What a reader of a killed run has to go through is short, and an index block
     * is at most an eighth of what it indexes. */
    enum { BLOCKS = 128, BYTES = 8 << 20, SHARE = 8 };
    int64_t since = store->end - store->indexed_end;
    if ((store->blocks_since_index < BLOCKS && since < BYTES) || since < SHARE * store->index_bytes)
        return TT_OK;
    return put_snapshot(store, TT_BLOCK_INDEX, err);
}

/* Footer and end; gives back what was reserved. */
static tt_status put_end(tt_store *store, tt_error *err)
{
    int64_t footer = store->end;
    tt_status st = put_snapshot(store, TT_BLOCK_FOOTER, err);
    if (st == TT_OK)
        st = tt_store_put(store, TT_BLOCK_END, (tt_span){ footer, -1 }, &(tt_buf){ 0 }, NULL, 0, err);
    return st == TT_OK ? tt_file_cut(store->fd, store->end, err) : st;
}

tt_status tt_store_close(tt_store *store, tt_error *err)
{
    tt_status st = TT_OK;
    if (store->fd >= 0 && !store->is_failed) {
        st = tt_store_flush(store, err);
        for (int32_t site = 0; st == TT_OK && site < store->index.count; site++) {
            st = tt_store_tidy(store, site, true, err);
            if (st == TT_OK && store->body.len > BATCH_MAX)
                st = tt_store_flush(store, err);
        }
        if (st == TT_OK)
            st = tt_store_flush(store, err);
        if (st == TT_OK)
            st = put_end(store, err);
        int fd = store->fd;
        store->fd = -1;
        if (close(fd) < 0 && errno != EINTR && st == TT_OK)
            st = tt_fail(err, TT_EIO, "close: %s", strerror(errno));
    }
    release(store);
    return st;
}

tt_status tt_store_finish(int fd, uint32_t id, uint64_t sequence, int64_t at, tt_index *index,
                          tt_error *err)
{
    tt_store store = {
        .fd = fd, .id = id, .sequence = sequence, .end = at, .reserved = INT64_MAX, .index = *index
    };
    *index = (tt_index){ 0 };
    tt_status st = put_end(&store, err);
    store.fd = -1; /* the caller's */
    release(&store);
    return st;
}

void tt_store_forget(tt_store *store)
{
    if (store->fd >= 0)
        (void)close(store->fd);
    store->fd = -1;
    store->is_failed = true;
}
