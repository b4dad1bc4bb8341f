/* whole_file.h -- a file that appears under its name only when it is whole.
 *
 *     tt_whole_file file;
 *     tt_status st = tt_whole_open(&file, path, err);
 *     if (st == TT_OK)
 *         st = tt_whole_write(&file, (struct iovec[]){ { head, head_len }, { bytes, n } }, 2, err);
 *     st = tt_whole_close(&file, st, err);   // named if st is TT_OK, else gone
 *
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_WHOLE_FILE_H
#define TT_FORMAT_WHOLE_FILE_H

#include "base/status.h"

#include <sys/uio.h>

typedef struct tt_whole_file {
    int fd;           /* -1: not open */
    char *path;       /* owned; what it will be called */
    char *temporary;  /* owned; the name under which it is written; NULL: none, or path */
    bool is_nameless; /* until it is whole */
} tt_whole_file;

#define TT_WHOLE_FILE_NONE ((tt_whole_file){ .fd = -1 })

/* On failure the file is NONE. */
tt_status tt_whole_open(tt_whole_file *file, const char *path, tt_error *err);
/* All of these parts, any of which may be empty; `part` is changed. */
tt_status tt_whole_write(const tt_whole_file *file, struct iovec *part, int count, tt_error *err);
/* A part to write. */
struct iovec tt_whole_part(const void *bytes, size_t n);
/* Gives the file its name if st is TT_OK, else removes it; returns st or what
 * failed.  err is written only if st was TT_OK.  Of NONE: st. */
tt_status tt_whole_close(tt_whole_file *file, tt_status st, tt_error *err);
/* "path: why", with the end of a long path. */
tt_status tt_whole_fail(tt_error *err, tt_status st, const char *path, const char *why);

#endif
