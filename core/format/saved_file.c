/* saved_file.c -- writes one file so that it is there whole, or not at all.
 *
 * The bytes go into a file with a name of its own beside the final one, which
 * is renamed at the end: whoever sees the final name sees all of it, also if we
 * are killed.  A piece is checksummed and written while it is in the cache.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/saved_file.h"

#include "format/zip.h"
#include "tensor/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    PIECE = 1 << 20,     /* stays in the cache */
    RESERVED = 256 << 10, /* files from here on get their space at once */
    ATTEMPTS = 1000,     /* names tried: leftovers of a killed process keep theirs */
};

/* A file that is being written. */
typedef struct outfile {
    char temporary[PATH_MAX];
    int fd;
    bool wants_crc;
    uint32_t crc;
    tt_buf head; /* not written yet: goes out with the first piece */
} outfile;

static tt_status fail_named(tt_error *err, tt_status st, const char *path, const char *why)
{
    size_t len = strlen(path), most = 150;
    /* The end of a path says more than its beginning. */
    return tt_fail(err, st, "%s%s: %s", len > most ? "..." : "", len > most ? path + len - most : path, why);
}

static tt_status fail_file(tt_error *err, const char *path, int number)
{
    return fail_named(err, TT_EIO, path, strerror(number));
}

static tt_status open_file(outfile *file, const char *path, tt_error *err)
{
    const char *slash = strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path + 1) : 0;
    if (folder > PATH_MAX - 64)
        return fail_file(err, path, ENAMETOOLONG);
    for (int i = 0; i < ATTEMPTS; i++) {
        (void)snprintf(file->temporary, sizeof file->temporary, "%.*s.tensortap-%d-%d-%d.tmp", folder, path,
                       (int)getpid(), (int)gettid(), i);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (file->fd >= 0 || errno != EEXIST)
            break;
    }
    return file->fd >= 0 ? TT_OK : fail_file(err, path, errno);
}

/* Large writes take half the time where space is there; a file system that cannot
 * is fine.  In memory (tmpfs) it costs more than it saves. */
static void reserve(int fd, uint64_t bytes)
{
    struct statfs about;
    if (fstatfs(fd, &about) == 0 && about.f_type != TMPFS_MAGIC)
        (void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
}

/* Writes all of two parts, the first of which may be empty. */
static int write_both(int fd, struct iovec part[2])
{
    for (int i = 0; i < 2;) {
        if (part[i].iov_len == 0) {
            i++;
            continue;
        }
        ssize_t n = writev(fd, part + i, 2 - i);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        size_t left = (size_t)n;
        for (int k = i; k < 2; k++) {
            size_t taken = left < part[k].iov_len ? left : part[k].iov_len;
            part[k].iov_base = (char *)part[k].iov_base + taken;
            part[k].iov_len -= taken;
            left -= taken;
        }
    }
    return 0;
}

static int put_piece(outfile *file, const void *bytes, size_t n)
{
    if (file->wants_crc)
        file->crc = tt_crc32(file->crc, bytes, n);
    struct iovec part[2] = { { file->head.data, file->head.len }, { (void *)(uintptr_t)bytes, n } };
    file->head.len = 0;
    return write_both(file->fd, part);
}

static int put_memory(outfile *file, const char *data, size_t bytes, const _Atomic size_t *filled)
{
    int result = 0;
    for (size_t at = 0; result == 0 && at < bytes;) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        while (filled != NULL && atomic_load_explicit(filled, memory_order_acquire) < at + n)
            sched_yield(); /* the other thread is copying, which is faster than this */
        result = put_piece(file, data + at, n);
        at += n;
    }
    return result;
}

/* Any strides: gathered in a buffer first.  1: out of memory. */
static int put_strided(outfile *file, const tt_tensor *t)
{
    alignas(32) char tile[TT_TILE_BYTES];
    size_t size = tt_dtype_size(t->dtype), len = 0;
    char *piece = malloc(PIECE);
    int result = piece != NULL ? 0 : 1;
    tt_walk walk;
    const void *run;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t n; result == 0 && (n = tt_walk_next(&walk, tile, TT_TILE, &run)) > 0;) {
        if (len + n * size > PIECE) {
            result = put_piece(file, piece, len);
            len = 0;
        }
        memcpy(piece + len, run, n * size);
        len += n * size;
    }
    if (result == 0 && len > 0)
        result = put_piece(file, piece, len);
    free(piece);
    return result;
}

static int put_source(outfile *file, const tt_content *content, const tt_saved_source *source)
{
    const tt_tensor *t = source->tensor;
    if (t == NULL)
        return put_memory(file, source->data, content->bytes, source->filled);
    if (tt_tensor_is_contiguous(t) && !t->is_swapped)
        return put_memory(file, t->data, content->bytes, NULL);
    return put_strided(file, t);
}

static tt_status write_all(outfile *file, const char *path, tt_format format, const tt_content *content,
                           const tt_saved_source *source, tt_error *err)
{
    const tt_format_row *row = tt_format_of(format);
    tt_error why;
    tt_status st = row->head != NULL ? row->head(content, &file->head, &why) : TT_OK;
    if (st < 0)
        return fail_named(err, st, path, why.text);
    if (content->bytes >= RESERVED)
        reserve(file->fd, content->bytes + file->head.len);
    file->wants_crc = row->tail != NULL;
    int result = put_source(file, content, source);
    if (result > 0)
        return fail_named(err, TT_ENOMEM, path, tt_status_text(TT_ENOMEM));
    if (result < 0)
        return fail_file(err, path, errno);
    /* The head of an empty tensor is still there; the tail goes behind it. */
    st = row->tail != NULL ? row->tail(content, file->crc, &file->head) : TT_OK;
    if (st < 0)
        return fail_named(err, st, path, tt_status_text(st));
    file->wants_crc = false;
    return put_piece(file, NULL, 0) == 0 ? TT_OK : fail_file(err, path, errno);
}

tt_status tt_saved_write(const char *path, tt_format format, const tt_content *content,
                           const tt_saved_source *source, tt_error *err)
{
    outfile file = { .fd = -1 };
    tt_status st = open_file(&file, path, err);
    if (st < 0)
        return st;
    st = write_all(&file, path, format, content, source, err);
    if (close(file.fd) < 0 && st == TT_OK)
        st = fail_file(err, path, errno);
    if (st == TT_OK && rename(file.temporary, path) < 0)
        st = fail_file(err, path, errno);
    if (st < 0)
        (void)unlink(file.temporary);
    tt_buf_free(&file.head);
    return st;
}

tt_content tt_content_of(const tt_tensor *t, const char *dtype_name)
{
    return (tt_content){ .dtype = t->dtype, .dtype_name = dtype_name, .ndim = t->ndim, .shape = t->shape,
                         .bytes = (uint64_t)t->count * tt_dtype_size(t->dtype) };
}

tt_status tt_file_save(const char *path, tt_format format, const tt_tensor *t, const char *dtype_name,
                       tt_error *err)
{
    tt_content content = tt_content_of(t, dtype_name);
    return tt_saved_write(path, format, &content, &(tt_saved_source){ .tensor = t }, err);
}
