/* darwin.c -- os.h for macOS; compiled, never run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "os/os.h"

#include "tensortap_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <mach-o/dyld.h>
#include <sys/random.h>
#include <unistd.h>

int tt_os_processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

int tt_os_condition_init(pthread_cond_t *condition)
{
    return pthread_cond_init(condition, NULL);
}

int tt_os_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = (int64_t)(until->tv_sec - now.tv_sec) * 1000000000 + (until->tv_nsec - now.tv_nsec);
    struct timespec left = { .tv_sec = ns > 0 ? ns / 1000000000 : 0,
                             .tv_nsec = ns > 0 ? ns % 1000000000 : 0 };
    return pthread_cond_timedwait_relative_np(condition, lock, &left);
}

void tt_os_memory_is_large(void *start, size_t n)
{
    (void)start, (void)n; /* the system decides */
}

void tt_os_random(void *out, size_t n)
{
    (void)getentropy(out, n);
}

int tt_os_file_reserve(int fd, int64_t at, int64_t len)
{
    (void)at; /* counted from the end of the file, where the write goes */
    return fcntl(fd, F_PREALLOCATE, &(fstore_t){ .fst_posmode = F_PEOFPOSMODE, .fst_length = len });
}

int tt_os_file_punch(int fd, int64_t at, int64_t len)
{
    return fcntl(fd, F_PUNCHHOLE, &(fpunchhole_t){ .fp_offset = at, .fp_length = len });
}

void tt_os_file_is_read_ahead(int fd)
{
    (void)fcntl(fd, F_RDAHEAD, 1);
}

int tt_os_file_open_nameless(const char *folder)
{
    (void)folder;
    errno = ENOTSUP; /* no file without a name here */
    return -1;
}

int tt_os_file_name(int fd, const char *name)
{
    (void)fd, (void)name;
    errno = ENOTSUP;
    return -1;
}

bool tt_program_path(char *out, size_t room)
{
    uint32_t size = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
    return _NSGetExecutablePath(out, &size) == 0;
}
