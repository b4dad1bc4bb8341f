/* whole_file.c -- a file that appears under its name only when it is whole.
 *
 * Exists so that a full disk, an interrupt or a kill leaves no half file that
 * another tool would take for a whole one.  A new file has no name at all until
 * its last byte is there (O_TMPFILE), so a kill leaves nothing behind.  Where a
 * file is to be replaced, or the file system has no such files, the bytes go into
 * one with a name of its own beside the final one, which is renamed at the end.
 * A device, a pipe or a socket is never replaced: those are written to as they
 * are.  A symbolic link stays, and the file it points at is replaced.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    ATTEMPTS = 1000, /* names tried: leftovers of a killed process keep theirs */
    NAME_ROOM = 64,  /* for the temporary's own name */
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

typedef enum place { FREE, TAKEN, IN_PLACE } place; /* nothing there; to replace; to write to */

/* Follows a link in *path (owned), which is then what the link points at. */
static place look_at(char **path)
{
    struct stat about;
    if (lstat(*path, &about) < 0)
        return FREE;
    if (S_ISLNK(about.st_mode)) {
        char *target = stat(*path, &about) == 0 ? realpath(*path, NULL) : NULL;
        if (target == NULL) /* it points nowhere: the file takes its place */
            return TAKEN;
        free(*path);
        *path = target;
    }
    /* A folder is to be replaced: that fails with the right words. */
    return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) ? TAKEN : IN_PLACE;
}

/* Bytes of the path up to and with its last slash. */
static size_t folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static bool open_nameless(tt_whole_file *file)
{
    size_t folder = folder_len(file->path);
    char next = file->path[folder];
    file->path[folder] = '\0';
    file->fd = open(folder > 0 ? file->path : ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    file->path[folder] = next;
    file->is_nameless = file->fd >= 0;
    return file->is_nameless;
}

static bool link_to(int fd, const char *name)
{
    char self[32];
    if (linkat(fd, "", AT_FDCWD, name, AT_EMPTY_PATH) == 0)
        return true;
    if (errno != ENOENT)
        return false;
    /* Up to Linux 6.9 that was for the privileged. */
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

/* Gives the file a name of its own beside path, a new one or that which is open
 * and has none; false with errno. */
static bool name_beside(tt_whole_file *file)
{
    size_t folder = folder_len(file->path);
    bool is_there = false;
    file->temporary = malloc(folder + NAME_ROOM);
    if (file->temporary == NULL) {
        errno = ENOMEM;
        return false;
    }
    memcpy(file->temporary, file->path, folder);
    for (int i = 0; i < ATTEMPTS && !is_there; i++) {
        (void)snprintf(file->temporary + folder, NAME_ROOM, ".tensortap-%d-%d-%d.tmp", (int)getpid(),
                       (int)gettid(), i);
        if (!file->is_nameless)
            file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        is_there = file->is_nameless ? link_to(file->fd, file->temporary) : file->fd >= 0;
        if (!is_there && errno != EEXIST)
            break;
    }
    if (!is_there) { /* it is somebody else's */
        int why = errno;
        free(file->temporary);
        file->temporary = NULL;
        errno = why;
    }
    return is_there;
}

tt_status tt_whole_open(tt_whole_file *file, const char *path, tt_error *err)
{
    *file = TT_WHOLE_FILE_NONE;
    file->path = strdup(path);
    place found = file->path != NULL ? look_at(&file->path) : FREE;
    if (file->path != NULL && found == IN_PLACE)
        file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    else if (file->path != NULL && (found == TAKEN || !open_nameless(file)))
        (void)name_beside(file);
    if (file->fd >= 0)
        return TT_OK;
    tt_status st = fail_errno(err, path, errno);
    free(file->path);
    *file = TT_WHOLE_FILE_NONE;
    return st;
}

struct iovec tt_whole_part(const void *bytes, size_t n)
{
    return (struct iovec){ (void *)(uintptr_t)bytes, n };
}

tt_status tt_whole_write(const tt_whole_file *file, struct iovec *part, int count, tt_error *err)
{
    while (count > 0) {
        if (part->iov_len == 0) {
            part++;
            count--;
            continue;
        }
        ssize_t written = writev(file->fd, part, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_errno(err, file->path, errno);
        size_t left = (size_t)written;
        for (int i = 0; i < count; i++) {
            size_t taken = left < part[i].iov_len ? left : part[i].iov_len;
            part[i].iov_base = (char *)part[i].iov_base + taken;
            part[i].iov_len -= taken;
            left -= taken;
        }
    }
    return TT_OK;
}

tt_status tt_whole_close(tt_whole_file *file, tt_status st, tt_error *err)
{
    bool is_named = false;
    if (file->fd < 0)
        return st;
    if (st == TT_OK && file->is_nameless) {
        is_named = link_to(file->fd, file->path);
        /* Somebody has made one meanwhile: it is replaced. */
        if (!is_named && !(errno == EEXIST && name_beside(file)))
            st = fail_errno(err, file->path, errno);
    }
    if (close(file->fd) < 0 && st == TT_OK)
        st = fail_errno(err, file->path, errno);
    if (st == TT_OK && file->temporary != NULL && rename(file->temporary, file->path) < 0)
        st = fail_errno(err, file->path, errno);
    if (st < 0 && (file->temporary != NULL || is_named))
        (void)unlink(is_named ? file->path : file->temporary);
    free(file->path);
    free(file->temporary);
    *file = TT_WHOLE_FILE_NONE;
    return st;
}
