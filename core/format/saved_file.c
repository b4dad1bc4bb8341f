/* saved_file.c -- writes one tensor as a file that is there whole, or not at all.
 *
 * Exists to put together what the formats say (formats.h), the elements
 * (element_stream.h) and the file (whole_file.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/saved_file.h"

#include "format/element_stream.h"

static tt_status write_parts(tt_stream *stream, const tt_format_row *row, const tt_content *content,
                             const tt_saved_source *source, tt_error *err)
{
    const char *path = stream->file.path;
    tt_error why;
    tt_status st = row->head != NULL ? row->head(content, &stream->waiting, &why) : TT_OK;
    if (st < 0)
        return tt_whole_fail(err, st, path, why.text);
    tt_whole_reserve(&stream->file, content->bytes + stream->waiting.len);
    if (source->tensor != NULL)
        st = tt_stream_tensor(stream, source->tensor, err);
    else
        st = tt_stream_memory(stream, content->dtype, source->data, content->bytes, source->filled, err);
    uint32_t crc = stream->sum != NULL ? tt_checksum_end(stream->sum) : 0;
    /* The head of an empty tensor is still there; the tail goes behind it. */
    if (st == TT_OK && row->tail != NULL) {
        st = row->tail(content, crc, &stream->waiting);
        if (st < 0)
            (void)tt_whole_fail(err, st, path, tt_status_text(st));
    }
    return st;
}

tt_status tt_saved_write(const char *path, tt_format format, const tt_content *content,
                         const tt_saved_source *source, tt_checksum *sum, tt_error *err)
{
    const tt_format_row *row = tt_format_of(format);
    tt_checksum own = { 0 };
    tt_stream stream = { .sum = row->tail == NULL ? NULL : sum != NULL ? sum : &own };
    stream.widens = row->widens != NULL && row->widens(content);
    tt_status st = tt_whole_open(&stream.file, path, err);
    if (st == TT_OK)
        st = write_parts(&stream, row, content, source, err);
    if (sum != NULL)
        (void)tt_checksum_end(sum); /* whatever happened: no helper is left waiting */
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
    return tt_saved_write(path, format, &content, &(tt_saved_source){ .tensor = t }, NULL, err);
}
