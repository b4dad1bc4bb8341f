/* file.h -- the few system calls on files.
 *
 * For store and format.  Interrupted calls are repeated, short ones continued.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_FILE_H
#define TT_BASE_FILE_H

#include "tensortap_tools.h"

#include <sys/uio.h>

/* Reads exactly n bytes; TT_EFORMAT if the file ends before. */
tt_status tt_file_read(int fd, void *out, size_t n, int64_t at);
/* A part to write. */
static inline struct iovec tt_file_part(const void *bytes, size_t n)
{
    return (struct iovec){ (void *)(uintptr_t)bytes, n };
}
/* Writes everything, at this place or (-1) where the file ends.  The vector is used up.
 * TT_EIO: errno says why. */
tt_status tt_file_write(int fd, struct iovec *parts, int count, int64_t at);
/* Asks for room up to `end`; where the file system cannot, nothing happens. */
tt_status tt_file_reserve(int fd, int64_t at, int64_t end, tt_error *err);
/* Gives the room of these bytes back; false where the file system cannot. */
bool tt_file_punch(int fd, int64_t at, int64_t len);
/* Where the next bytes are that are in no hole, at or behind this place; -1: none. */
int64_t tt_file_data(int fd, int64_t at);
tt_status tt_file_cut(int fd, int64_t size, tt_error *err);

#endif
