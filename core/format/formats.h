/* formats.h -- one tensor as a file of any format.
 *
 * Every format here is a head, the elements one after the other in logical
 * order (little-endian), and a tail.  So one piece of code writes them all
 * (saved_file.c), and a format only says what stands before and behind.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_FORMATS_H
#define TT_FORMAT_FORMATS_H

#include "base/buf.h"
#include "format/output.h"

/* What a file is to hold, without its bytes. */
typedef struct tt_content {
    tt_dtype dtype;
    const char *dtype_name; /* borrowed; torch's name of a type the core does not know; NULL: dtype */
    int32_t ndim;
    const int64_t *shape; /* borrowed */
    uint64_t bytes;       /* of all elements */
} tt_content;

/* What other programs call our element types; NULL: they have no such type. */
typedef struct tt_type_words {
    const char *npy, *storage, *safetensors; /* storage: the class in torch */
} tt_type_words;
extern const tt_type_words tt_type_words_of[TT_DTYPE_COUNT_];

/* Appends what stands before the elements. */
typedef tt_status tt_head_fn(const tt_content *content, tt_buf *out, tt_error *err);
tt_head_fn tt_pt_head, tt_npy_head, tt_safetensors_head;
/* Appends what stands behind them; crc is the CRC-32 of the elements. */
tt_status tt_pt_tail(const tt_content *content, uint32_t crc, tt_buf *out);
/* Are the elements written as f32, because the format has no word for their type? */
bool tt_npy_widens(const tt_content *content);

/* Elements of tensors, one after the other, into a file. */
typedef struct tt_stream {
    tt_output *file; /* owned; NULL: none */
    tt_buf waiting;  /* bytes that go out with the next piece: heads and tails */
    bool has_crc;    /* a CRC-32 of the elements is wanted */
    uint32_t crc;    /* of those written so far */
    bool widens;     /* elements are written as f32 */
} tt_stream;

/* For a tensor that another thread is still filling: waits until so many bytes are there. */
typedef struct tt_filling {
    void (*wait)(void *context, size_t bytes);
    void *context;
} tt_filling;

/* The elements in logical order, whatever the strides.  filling: NULL if all are there, else
 * the tensor is contiguous. */
tt_status tt_stream_tensor(tt_stream *stream, const tt_tensor *t, const tt_filling *filling,
                           tt_error *err);
/* Writes what waits, names or removes the file, as tt_output_close. */
tt_status tt_stream_close(tt_stream *stream, tt_status st, tt_error *err);

/* tt_file_save of a tensor that may still be being filled. */
tt_status tt_saved_write(const char *path, tt_format format, const tt_tensor *t, const char *dtype_name,
                         const tt_filling *filling, tt_error *err);

#endif
