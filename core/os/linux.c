/* linux.c -- os.h for Linux.
 * SPDX-License-Identifier: Apache-2.0 */
#include "os/os.h"

#include "tensortap_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

int tt_os_processors(void)
{
    cpu_set_t mine;
    return sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
}

int tt_os_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int got = pthread_condattr_init(&attributes);
    if (got != 0)
        return got;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    got = pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return got;
}

int tt_os_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until)
{
    return pthread_cond_timedwait(condition, lock, until);
}

void tt_os_memory_is_large(void *start, size_t n)
{
    (void)madvise(start, n, MADV_HUGEPAGE);
}

void tt_os_random(void *out, size_t n)
{
    (void)getrandom(out, n, GRND_NONBLOCK);
}

int tt_os_file_reserve(int fd, int64_t at, int64_t len)
{
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, at, len);
}

int tt_os_file_punch(int fd, int64_t at, int64_t len)
{
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len);
}

void tt_os_file_is_read_ahead(int fd)
{
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

int tt_os_file_open_nameless(const char *folder)
{
    return open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

int tt_os_file_name(int fd, const char *name)
{
    char self[32];
    if (linkat(fd, "", AT_FDCWD, name, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOENT)
        return -1;
    /* Up to Linux 6.9 that was for the privileged. */
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

bool tt_program_path(char *out, size_t room)
{
    ssize_t len = room > 0 ? readlink("/proc/self/exe", out, room - 1) : 0;
    if (len > 0)
        out[len] = '\0';
    return len > 0 && (size_t)len < room - 1;
}
