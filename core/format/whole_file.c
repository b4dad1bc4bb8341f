/* whole_file.c -- a file that appears under its name only when it is whole.
 *
 * Exists so that a full disk, an interrupt or a kill leaves no half file that
 * another tool would take for a whole one.  The bytes go into a file with a name
 * of its own beside the final one, which is renamed at the end.  A device, a
 * pipe or a socket is never replaced: those are written to as they are.  A
 * symbolic link stays, and the file it points at is replaced.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    ATTEMPTS = 1000,      /* names tried: leftovers of a killed process keep theirs */
    NAME_ROOM = 64,       /* for the temporary's own name */
    RESERVED = 256 << 10, /* files from here on get their space at once */
};

tt_status tt_whole_fail(tt_error *err, tt_status st, const char *path, const char *why)
{
    size_t len = strlen(path), most = 150;
    /* The end of a path says more than its beginning. */
    return tt_fail(err, st, "%s%s: %s", len > most ? "..." : "", len > most ? path + len - most : path,
                   why);
}

static tt_status fail_errno(tt_error *err, const char *path, int number)
{
    return tt_whole_fail(err, number == ENOMEM ? TT_ENOMEM : TT_EIO, path, strerror(number));
}

/* Must the file be written to in place?  Follows a link in *path (owned), which
 * is then what the link points at. */
static bool is_special(char **path)
{
    struct stat about;
    if (lstat(*path, &about) < 0)
        return false;
    if (S_ISLNK(about.st_mode)) {
        char *target = stat(*path, &about) == 0 ? realpath(*path, NULL) : NULL;
        if (target == NULL) /* it points nowhere: the file takes its place */
            return false;
        free(*path);
        *path = target;
    }
    /* A folder is neither: renaming onto it fails with the right words. */
    return !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

/* Opens a new file beside path; false with errno. */
static bool open_beside(tt_whole_file *file)
{
    const char *slash = strrchr(file->path, '/');
    size_t folder = slash != NULL ? (size_t)(slash - file->path) + 1 : 0;
    file->temporary = malloc(folder + NAME_ROOM);
    if (file->temporary == NULL) {
        errno = ENOMEM;
        return false;
    }
    memcpy(file->temporary, file->path, folder);
    for (int i = 0; i < ATTEMPTS; i++) {
        (void)snprintf(file->temporary + folder, NAME_ROOM, ".tensortap-%d-%d-%d.tmp", (int)getpid(),
                       (int)gettid(), i);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (file->fd >= 0 || errno != EEXIST)
            break;
    }
    return file->fd >= 0;
}

tt_status tt_whole_open(tt_whole_file *file, const char *path, tt_error *err)
{
    *file = TT_WHOLE_FILE_NONE;
    file->path = strdup(path);
    if (file->path != NULL && is_special(&file->path))
        file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    else if (file->path != NULL)
        (void)open_beside(file);
    if (file->fd >= 0)
        return TT_OK;
    tt_status st = fail_errno(err, path, errno);
    free(file->path);
    free(file->temporary);
    *file = TT_WHOLE_FILE_NONE;
    return st;
}

/* Large writes take half the time where space is there.  In memory (tmpfs) it
 * costs more than it saves. */
void tt_whole_reserve(const tt_whole_file *file, uint64_t bytes)
{
    struct statfs about;
    if (bytes >= RESERVED && file->temporary != NULL && fstatfs(file->fd, &about) == 0 &&
        about.f_type != TMPFS_MAGIC)
        (void)fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
}

tt_status tt_whole_write(const tt_whole_file *file, const void *head, size_t head_len, const void *bytes,
                         size_t n, tt_error *err)
{
    struct iovec part[2] = { { (void *)(uintptr_t)head, head_len }, { (void *)(uintptr_t)bytes, n } };
    for (int i = 0; i < 2;) {
        if (part[i].iov_len == 0) {
            i++;
            continue;
        }
        ssize_t written = writev(file->fd, part + i, 2 - i);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_errno(err, file->path, errno);
        size_t left = (size_t)written;
        for (int k = i; k < 2; k++) {
            size_t taken = left < part[k].iov_len ? left : part[k].iov_len;
            part[k].iov_base = (char *)part[k].iov_base + taken;
            part[k].iov_len -= taken;
            left -= taken;
        }
    }
    return TT_OK;
}

tt_status tt_whole_close(tt_whole_file *file, tt_status st, tt_error *err)
{
    if (file->fd < 0)
        return st;
    if (close(file->fd) < 0 && st == TT_OK)
        st = fail_errno(err, file->path, errno);
    if (file->temporary != NULL) {
        if (st == TT_OK && rename(file->temporary, file->path) < 0)
            st = fail_errno(err, file->path, errno);
        if (st < 0)
            (void)unlink(file->temporary);
    }
    free(file->path);
    free(file->temporary);
    *file = TT_WHOLE_FILE_NONE;
    return st;
}
