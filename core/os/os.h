/* os.h -- what operating systems do differently.
 *
 * One file implements all of it for each system: linux.c, darwin.c.  Every function says what a
 * caller wants, so that no other file asks which system it is compiled for.
 * darwin.c has been compiled for macOS on arm64, and never run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_OS_OS_H
#define TT_OS_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* ---- threads --------------------------------------------------------------- */

int tt_os_processors(void); /* that this process may use; at least 1 */
/* A condition whose waits end by CLOCK_MONOTONIC: setting the machine's clock must not keep
 * anybody waiting.  Returns 0 or an error number, as the functions of pthread do. */
int tt_os_condition_init(pthread_cond_t *condition);
int tt_os_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until);

/* ---- memory ---------------------------------------------------------------- */

/* Asks for large pages, which take far fewer faults.  Without them, nothing happens. */
void tt_os_memory_is_large(void *start, size_t n);
void tt_os_random(void *out, size_t n); /* never waits; leaves *out alone if there is none yet */

/* ---- files: 0 or more is success, -1 has an errno ---------------------------- */

/* Reserves room for bytes that a write will follow; the file does not become longer. */
int tt_os_file_reserve(int fd, int64_t at, int64_t len);
/* Returns the room of these bytes to the file system; they read as zero. */
int tt_os_file_punch(int fd, int64_t at, int64_t len);
/* All of it will be read, from its start. */
void tt_os_file_is_read_ahead(int fd);
/* Opens a new file without a name, to be written; it is gone if it gets none. */
int tt_os_file_open_nameless(const char *folder);
/* Gives an open file without a name its first one. */
int tt_os_file_name(int fd, const char *name);

#endif
