/* session.c -- opens a run file for writing, new or to go on, and closes it.
 *
 * Exists apart from append.c because this happens once a run.  A file that is
 * continued is cut behind its last whole block; the reader's index becomes the
 * writer's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "store/chunk.h"
#include "store/file.h"
#include "store/scan.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <zstd.h>

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
    if (scan.size > scan.end)
        st = tt_file_cut(store->fd, scan.end, err); /* a torn tail */
out:
    tt_scan_free(&scan);
    return st;
}

static tt_status put_session(tt_store *store, const char *const *info, tt_error *err)
{
    tt_wire body = { 0 };
    (void)tt_wire_room(&body, TT_BLOCK_HEADER);
    for (; info != NULL && info[0] != NULL && info[1] != NULL; info += 2) {
        for (int i = 0; i < 2; i++) {
            size_t len = strlen(info[i]);
            tt_wire_varint(&body, len);
            tt_wire_bytes(&body, info[i], len);
        }
    }
    int64_t at = store->end;
    tt_status st = tt_store_put(store, TT_BLOCK_SESSION, &body, NULL, 0, err);
    if (st == TT_OK)
        st = tt_places_add(&store->index.sessions, at);
    tt_buf_free(&body.buf);
    return st;
}

static void release(tt_store *store)
{
    if (store->fd >= 0)
        (void)close(store->fd);
    tt_index_free(&store->index);
    tt_buf_free(&store->body.buf);
    tt_points_free(&store->merged);
    tt_buf_free(&store->scratch);
    free(store->segments.at);
    free(store->used_at.at);
    ZSTD_freeCCtx(store->packer);
    *store = (tt_store){ .fd = -1 };
}

tt_status tt_store_open(tt_store *store, const char *path, tt_sites *sites,
                        const tt_store_options *options, tt_error *err)
{
    *store = (tt_store){ .fd = -1, .max_bytes = options->max_bytes, .last_step = -1 };
    store->index.sites = sites;
    store->index.last_step = -1;
    store->id = make_id(store);
    tt_status st = open_file(store, path, options->resumes, err);
    bool is_ours = st == TT_OK;
    if (st == TT_OK && options->resumes)
        st = continue_file(store, err);
    if (st == TT_OK && options->compresses) {
        store->packer = ZSTD_createCCtx();
        if (store->packer == NULL)
            st = tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
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
static void put_latest(tt_store *store, tt_wire *out)
{
    tt_points one = { 0 };
    tt_wire packed = { 0 };
    for (int32_t i = 0;
         i < store->index.count && out->st == TT_OK && out->buf.len < TT_BLOCK_BODY_MAX * 3 / 4; i++) {
        const tt_index_site *row = &store->index.row[i];
        if (row->count == 0)
            continue;
        const tt_index_chunk *last = &row->chunks[row->count - 1];
        tt_points_clear(&store->merged);
        if (tt_store_read_chunk(store->fd, &store->scratch, last, &store->merged) < 0)
            continue; /* it is only a short cut */
        tt_points_clear(&one);
        tt_buf_clear(&packed.buf);
        if (tt_points_copy(&one, &store->merged, last->n - 1) < 0)
            continue;
        tt_chunk_pack(&packed, (uint32_t)i, last->first + last->n - 1, &one);
        if (packed.st == TT_OK)
            tt_section_put(out, TT_SECTION_LATEST, packed.buf.data, packed.buf.len);
    }
    tt_points_free(&one);
    tt_buf_free(&packed.buf);
}

static tt_status put_snapshot(tt_store *store, tt_block_kind kind, tt_error *err)
{
    tt_wire body = { 0 };
    (void)tt_wire_room(&body, TT_BLOCK_HEADER);
    tt_index_pack(&store->index, &body);
    if (kind == TT_BLOCK_FOOTER)
        put_latest(store, &body);
    store->first_step = store->index.first_step;
    store->last_step = store->index.last_step;
    tt_status st = tt_store_put(store, kind, &body, NULL, 0, err);
    store->indexed_end = store->end;
    store->index_bytes = (int64_t)body.buf.len;
    store->blocks_since_index = 0;
    store->first_step = 0;
    store->last_step = -1;
    tt_buf_free(&body.buf);
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
    tt_wire end = { 0 };
    int64_t footer = store->end;
    (void)tt_wire_room(&end, TT_BLOCK_HEADER);
    tt_status st = put_snapshot(store, TT_BLOCK_FOOTER, err);
    store->first_step = footer;
    if (st == TT_OK)
        st = tt_store_put(store, TT_BLOCK_END, &end, NULL, 0, err);
    tt_buf_free(&end.buf);
    return st == TT_OK ? tt_file_cut(store->fd, store->end, err) : st;
}

tt_status tt_store_close(tt_store *store, tt_error *err)
{
    tt_status st = TT_OK;
    if (store->fd >= 0 && !store->is_failed) {
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
