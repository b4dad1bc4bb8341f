/* file.c -- the few system calls on files.
 *
 * Exists so that EINTR, short writes and a full disk are handled in one place,
 * and so that a test can make each of these calls fail.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

tt_status tt_file_read(int fd, void *out, size_t n, int64_t at)
{
    char *to = out;
    while (n > 0) {
        ssize_t got = pread(fd, to, n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? TT_EIO : TT_EFORMAT;
        to += got;
        at += got;
        n -= (size_t)got;
    }
    return TT_OK;
}

tt_status tt_file_write(int fd, struct iovec *parts, int count, int64_t at)
{
    while (count > 0) {
        if (parts->iov_len == 0) {
            parts++;
            count--;
            continue;
        }
        ssize_t put = at >= 0 ? pwritev(fd, parts, count, at) : writev(fd, parts, count);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = EIO;
        if (put <= 0)
            return TT_EIO;
        at += at >= 0 ? put : 0;
        while (count > 0 && (size_t)put >= parts->iov_len) {
            put -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + put;
            parts->iov_len -= (size_t)put;
        }
    }
    return TT_OK;
}

tt_status tt_file_reserve(int fd, int64_t at, int64_t end, tt_error *err)
{
    while (tt_os_file_reserve(fd, at, end - at) < 0) {
        if (errno == EINTR)
            continue;
        if (errno == EIO)
            return tt_fail(err, TT_EIO, "fallocate: %s", strerror(errno));
        break; /* not supported, or not so much room: the write itself will tell */
    }
    return TT_OK;
}

bool tt_file_punch(int fd, int64_t at, int64_t len)
{
    int got;
    do
        got = tt_os_file_punch(fd, at, len);
    while (got < 0 && errno == EINTR);
    return got == 0;
}

tt_status tt_file_cut(int fd, int64_t size, tt_error *err)
{
    int got;
    do
        got = ftruncate(fd, size);
    while (got < 0 && errno == EINTR);
    return got == 0 ? TT_OK : tt_fail(err, TT_EIO, "ftruncate: %s", strerror(errno));
}

int64_t tt_file_data(int fd, int64_t at)
{
    int64_t found = (int64_t)lseek(fd, (off_t)at, SEEK_DATA);
    return found >= 0 || errno == ENXIO ? found : at; /* a file system that knows no holes */
}
