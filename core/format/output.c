/* output.c -- a file that appears under its name only when it is whole.
 *
 * Exists so that a full disk, an interrupt or a kill leaves no half file that
 * another tool would take for a whole one.  A new file has no name at all until
 * its last byte is there (O_TMPFILE of Linux), so a kill leaves nothing behind.  Where a
 * file is to be replaced, or the file system has no such files, the bytes go into
 * one with a name of its own beside the final one, which is renamed at the end.
 * A device, a pipe or a socket is never replaced: those are written to as they
 * are, also through a link (/dev/stdout).  Any other symbolic link is refused: in a
 * folder that others may write to, it may point at anything.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/output.h"

#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ATTEMPTS = 1000, /* names tried */
    NAME_ROOM = 64,  /* for the temporary's own name */
};

tt_status tt_output_fail(tt_error *err, tt_status st, const char *path, const char *why)
{
    size_t len = strlen(path), most = 150;
    /* The end of a path says more than its beginning. */
    return tt_fail(err, st, "%s%s: %s", len > most ? "..." : "", len > most ? path + len - most : path,
                   why);
}

static tt_status fail_errno(tt_error *err, const char *path, int number)
{
    return tt_output_fail(err, number == ENOMEM ? TT_ENOMEM : TT_EIO, path, strerror(number));
}

/* Nothing there; to replace; to write to; a link that may not be followed. */
typedef enum target { FREE, TAKEN, IN_PLACE, LINK } target;

static target look_at(const char *path)
{
    struct stat about;
    if (lstat(path, &about) < 0)
        return FREE;
    if (S_ISLNK(about.st_mode)) {
        bool is_stream = stat(path, &about) == 0 &&
                         (S_ISCHR(about.st_mode) || S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode));
        return is_stream ? IN_PLACE : LINK;
    }
    /* A folder is to be replaced: that fails with the right words. */
    return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) ? TAKEN : IN_PLACE;
}

/* What was a device a moment ago may be a link to a file now. */
static void open_in_place(tt_output *file)
{
    struct stat about;
    file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file->fd >= 0 && (fstat(file->fd, &about) < 0 || S_ISREG(about.st_mode))) {
        (void)close(file->fd);
        file->fd = -1;
        errno = ELOOP;
    }
}

/* Bytes of the path up to and with its last slash. */
static size_t folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static bool open_nameless(tt_output *file)
{
    size_t folder = folder_len(file->path);
    char next = file->path[folder];
    file->path[folder] = '\0';
    file->fd = tt_os_file_open_nameless(folder > 0 ? file->path : ".");
    file->path[folder] = next;
    file->is_nameless = file->fd >= 0;
    return file->is_nameless;
}

/* Gives the file a name of its own beside path, a new one or that which is open
 * and has none; false with errno. */
static bool name_beside(tt_output *file)
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
        uint64_t random = 0; /* where there is none, a name that is taken is passed over */
        tt_os_random(&random, sizeof random);
        (void)snprintf(file->temporary + folder, NAME_ROOM, ".tensortap-%d-%016" PRIx64 ".tmp",
                       (int)getpid(), random + (uint64_t)i);
        if (!file->is_nameless)
            file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        is_there = file->is_nameless ? tt_os_file_name(file->fd, file->temporary) == 0 : file->fd >= 0;
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

static void free_output(tt_output *file)
{
    free(file->path);
    free(file->temporary);
    free(file);
}

tt_status tt_output_open(const char *path, tt_output **out, tt_error *err)
{
    tt_output *file = calloc(1, sizeof *file);
    if (file == NULL)
        return fail_errno(err, path, ENOMEM);
    file->fd = -1;
    file->path = strdup(path);
    target found = file->path != NULL ? look_at(file->path) : FREE;
    if (file->path != NULL && found == IN_PLACE)
        open_in_place(file);
    else if (file->path != NULL && found != LINK && (found == TAKEN || !open_nameless(file)))
        (void)name_beside(file);
    if (file->fd >= 0) {
        *out = file;
        return TT_OK;
    }
    tt_status st = found == LINK ? tt_output_fail(err, TT_EIO, path,
                                                  "a symbolic link is not written through; name its file")
                                 : fail_errno(err, path, errno);
    free_output(file);
    return st;
}

int tt_output_fd(const tt_output *output)
{
    return output->fd;
}

tt_status tt_output_write(const tt_output *file, struct iovec *parts, int count, tt_error *err)
{
    return tt_file_write(file->fd, parts, count, -1) == TT_OK ? TT_OK
                                                              : fail_errno(err, file->path, errno);
}

tt_status tt_output_close(tt_output *file, tt_status st, tt_error *err)
{
    bool is_named = false;
    if (file == NULL)
        return st;
    if (st == TT_OK && file->is_nameless) {
        is_named = tt_os_file_name(file->fd, file->path) == 0;
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
    free_output(file);
    return st;
}
