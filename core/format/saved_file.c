/* saved_file.c -- writes one tensor as a file that is there whole, or not at all.
 *
 * Exists to put together what the formats say (formats.h), the elements
 * (element_stream.h) and the file (whole_file.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/saved_file.h"

#include "format/element_stream.h"
#include "tensor/walk.h"

enum { SMALL = 64 << 10 }; /* up to here a file is one write */

/* The elements, if they lie one after the other in memory as they will in the file. */
static const char *memory_of(const tt_stream *stream, const tt_elements *elements)
{
    const tt_tensor *t = elements->tensor;
    if (stream->widens || (t != NULL && (!tt_tensor_is_contiguous(t) || t->is_swapped)))
        return NULL;
    return t != NULL ? t->data : elements->data;
}

/* Behind the elements. */
static tt_status put_tail(const tt_stream *stream, const tt_format_row *row, const tt_content *content,
                          tt_buf *out, tt_error *err)
{
    tt_status st = row->tail != NULL ? row->tail(content, stream->crc, out) : TT_OK;
    return st < 0 ? tt_whole_fail(err, st, stream->file.path, tt_status_text(st)) : st;
}

/* Head, elements and tail at once. */
static tt_status write_small(tt_stream *stream, const tt_format_row *row, const tt_content *content,
                             const char *data, tt_error *err)
{
    tt_buf tail = { 0 };
    tt_stream_sum(stream, data, content->bytes);
    tt_status st = put_tail(stream, row, content, &tail, err);
    if (st == TT_OK) {
        struct iovec part[] = { tt_whole_part(stream->waiting.data, stream->waiting.len),
                                tt_whole_part(data, content->bytes), tt_whole_part(tail.data, tail.len) };
        st = tt_whole_write(&stream->file, part, 3, err);
    }
    tt_buf_clear(&stream->waiting);
    tt_buf_free(&tail);
    return st;
}

static tt_status write_parts(tt_stream *stream, const tt_format_row *row, const tt_content *content,
                             const tt_elements *elements, tt_error *err)
{
    tt_error why;
    tt_status st = row->head != NULL ? row->head(content, &stream->waiting, &why) : TT_OK;
    if (st < 0)
        return tt_whole_fail(err, st, stream->file.path, why.text);
    const char *data = memory_of(stream, elements);
    if (data != NULL && content->bytes <= SMALL) {
        if (elements->wait != NULL)
            elements->wait(elements->context, content->bytes);
        return write_small(stream, row, content, data, err);
    }
    st = elements->tensor != NULL ? tt_stream_tensor(stream, elements->tensor, err)
                                  : tt_stream_memory(stream, content, elements, err);
    /* The head of an empty tensor is still there; the tail goes behind it. */
    return st == TT_OK ? put_tail(stream, row, content, &stream->waiting, err) : st;
}

tt_status tt_saved_write(const char *path, tt_format format, const tt_content *content,
                         const tt_elements *elements, tt_error *err)
{
    const tt_format_row *row = tt_format_of(format);
    tt_stream stream = { .has_crc = row->tail != NULL };
    stream.widens = row->widens != NULL && row->widens(content);
    tt_status st = tt_whole_open(&stream.file, path, err);
    if (st == TT_OK)
        st = write_parts(&stream, row, content, elements, err);
    return tt_stream_close(&stream, st, err);
}

tt_content tt_content_of(const tt_tensor *t, const char *dtype_name)
{
    return (tt_content){ .dtype = t->dtype,
                         .dtype_name = dtype_name,
                         .ndim = t->ndim,
                         .shape = t->shape,
                         .bytes = (uint64_t)t->count * tt_dtype_size(t->dtype) };
}

tt_status tt_file_save(const char *path, tt_format format, const tt_tensor *t, const char *dtype_name,
                       tt_error *err)
{
    tt_content content = tt_content_of(t, dtype_name);
    return tt_saved_write(path, format, &content, &(tt_elements){ .tensor = t }, err);
}
