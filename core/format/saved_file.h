/* saved_file.h -- writes one tensor as a file that is there whole, or not at all.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_SAVED_FILE_H
#define TT_FORMAT_SAVED_FILE_H

#include "format/checksum.h"
#include "format/formats.h"
#include "format/two_ends.h"

/* Where the elements come from: a tensor, or memory that somebody is still
 * filling: `filled` says how far. */
typedef struct tt_saved_source {
    const tt_tensor *tensor; /* NULL: data and filled */
    const char *data;
    const _Atomic size_t *filled;
} tt_saved_source;

/* What another thread may do of the writer's work. */
typedef struct tt_shared_work {
    tt_checksum sum;
    tt_ends ends;
} tt_shared_work;

/* work: fresh, for a helper to find; NULL: there is none. */
tt_status tt_saved_write(const char *path, tt_format format, const tt_content *content,
                         const tt_saved_source *source, tt_shared_work *work, tt_error *err);
/* Of a tensor; shape is borrowed from it. */
tt_content tt_content_of(const tt_tensor *t, const char *dtype_name);

#endif
