/* element_stream.h -- elements of tensors, one after the other, into a file.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_ELEMENT_STREAM_H
#define TT_FORMAT_ELEMENT_STREAM_H

#include "base/buf.h"
#include "format/saved_file.h"
#include "format/whole_file.h"

typedef struct tt_stream {
    tt_whole_file file;
    tt_buf waiting; /* bytes that go out with the next piece: heads and tails */
    bool has_crc;   /* a CRC-32 of the elements is wanted */
    uint32_t crc;   /* of those written so far */
    bool widens;    /* elements are written as f32 */
} tt_stream;

/* Adds the bytes to the checksum, if one is wanted. */
void tt_stream_sum(tt_stream *stream, const void *bytes, size_t n);
/* The elements in logical order, whatever the strides. */
tt_status tt_stream_tensor(tt_stream *stream, const tt_tensor *t, tt_error *err);
/* elements->data, as far as it is there, piece by piece. */
tt_status tt_stream_memory(tt_stream *stream, const tt_content *content, const tt_elements *elements,
                           tt_error *err);
/* Writes what waits, names or removes the file, as tt_whole_close. */
tt_status tt_stream_close(tt_stream *stream, tt_status st, tt_error *err);

#endif
