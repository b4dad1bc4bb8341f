/* file.h -- the few system calls on a run file, with their failures as text.
 *
 * For store only.  Interrupted calls are repeated, short ones continued.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_FILE_H
#define TT_STORE_FILE_H

#include "tensortap_tools.h"

#include <sys/uio.h>

/* Reads exactly n bytes; TT_EFORMAT if the file ends before. */
tt_status tt_file_read(int fd, void *out, size_t n, int64_t at);
/* Writes everything.  The vector is used up. */
tt_status tt_file_write(int fd, struct iovec *parts, int count, int64_t at, tt_error *err);
/* Asks for room up to `end`; where the file system cannot, nothing happens. */
tt_status tt_file_reserve(int fd, int64_t at, int64_t end, tt_error *err);
/* Gives the room of these bytes back; false where the file system cannot. */
bool tt_file_punch(int fd, int64_t at, int64_t len);
tt_status tt_file_cut(int fd, int64_t size, tt_error *err);

#endif
