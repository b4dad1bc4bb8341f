/* element_stream.h -- elements of tensors, one after the other, into a file.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_ELEMENT_STREAM_H
#define TT_FORMAT_ELEMENT_STREAM_H

#include "base/buf.h"
#include "format/checksum.h"
#include "format/two_ends.h"
#include "format/whole_file.h"

typedef struct tt_stream {
    tt_whole_file file;
    tt_buf waiting;   /* bytes that go out with the next piece: heads and tails */
    tt_checksum *sum; /* borrowed; of the elements; NULL: none is wanted */
    tt_ends *ends;    /* borrowed; of the file, shared with a helper; NULL: no */
    bool widens;      /* elements are written as f32 */
} tt_stream;

/* The elements in logical order, whatever the strides. */
tt_status tt_stream_tensor(tt_stream *stream, const tt_tensor *t, tt_error *err);
/* Elements in memory that somebody may still be filling (NULL: nobody). */
tt_status tt_stream_memory(tt_stream *stream, tt_dtype dtype, const char *data, size_t bytes,
                           const _Atomic size_t *filled, tt_error *err);
/* Writes what waits, names or removes the file, as tt_whole_close. */
tt_status tt_stream_close(tt_stream *stream, tt_status st, tt_error *err);

#endif
