/* saved_file.c -- writes one tensor as a file that is there whole, or not at all.
 *
 * Exists because every format here is a stream of elements between a head and a tail.
 * A piece of the elements is gathered, widened and checksummed while it is in the cache,
 * and then written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"

#include "format/zip.h"
#include "tensor/walk.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 << 10 }; /* bytes; half of what a core has for itself */

/* clang-format off */
const tt_type_words tt_type_words_of[TT_DTYPE_COUNT_] = {
    [TT_F64] = { "<f8", "DoubleStorage", "F64" },
    [TT_F32] = { "<f4", "FloatStorage", "F32" },
    [TT_F16] = { "<f2", "HalfStorage", "F16" },
    [TT_BF16] = { NULL, "BFloat16Storage", "BF16" },
    [TT_F8_E4M3FN] = { NULL, NULL, "F8_E4M3" },
    [TT_F8_E5M2] = { NULL, NULL, "F8_E5M2" },
    [TT_F8_E4M3FNUZ] = { NULL, NULL, "F8_E4M3FNUZ" },
    [TT_F8_E5M2FNUZ] = { NULL, NULL, "F8_E5M2FNUZ" },
    [TT_I8] = { "|i1", "CharStorage", "I8" },
    [TT_I16] = { "<i2", "ShortStorage", "I16" },
    [TT_I32] = { "<i4", "IntStorage", "I32" },
    [TT_I64] = { "<i8", "LongStorage", "I64" },
    [TT_U8] = { "|u1", "ByteStorage", "U8" },
    [TT_U16] = { "<u2", NULL, "U16" },
    [TT_U32] = { "<u4", NULL, "U32" },
    [TT_U64] = { "<u8", NULL, "U64" },
    [TT_BOOL] = { "|b1", "BoolStorage", "BOOL" },
    [TT_C64] = { "<c8", "ComplexFloatStorage", "C64" },
    [TT_C128] = { "<c16", "ComplexDoubleStorage", NULL },
};
/* clang-format on */

static const struct {
    const char *name;
    tt_head_fn *head; /* NULL: nothing */
} formats[] = {
    [TT_FORMAT_PT] = { "pt", tt_pt_head },
    [TT_FORMAT_NPY] = { "npy", tt_npy_head },
    [TT_FORMAT_SAFETENSORS] = { "safetensors", tt_safetensors_head },
    [TT_FORMAT_BYTES] = { "bytes", NULL },
};
_Static_assert(sizeof formats / sizeof *formats == TT_FORMAT_COUNT_, "describe every format");

bool tt_format_find(const char *name, tt_format *out)
{
    for (int i = 0; i < TT_FORMAT_COUNT_; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            *out = (tt_format)i;
            return true;
        }
    }
    return false;
}

/* ---- elements ---------------------------------------------------------------- */

/* The checksum first: it brings the piece into the cache. */
static tt_status put_bytes(tt_stream *stream, const void *bytes, size_t n, tt_error *err)
{
    if (stream->has_crc && n > 0)
        stream->crc = tt_crc32(stream->crc, bytes, n);
    struct iovec part[] = { tt_file_part(stream->waiting.data, stream->waiting.len),
                            tt_file_part(bytes, n) };
    tt_status st = tt_output_write(stream->file, part, 2, err);
    tt_buf_clear(&stream->waiting);
    return st;
}

/* What lies in memory as it will in the file. */
static tt_status put_memory(tt_stream *stream, const tt_tensor *t, const tt_filling *filling,
                            tt_error *err)
{
    size_t bytes = (size_t)t->count * tt_dtype_size(t->dtype);
    tt_status st = TT_OK;
    for (size_t at = 0, n; st == TT_OK && at < bytes; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        if (filling != NULL)
            filling->wait(filling->context, at + n);
        st = put_bytes(stream, (const char *)t->data + at, n, err);
    }
    return st;
}

tt_status tt_stream_tensor(tt_stream *stream, const tt_tensor *t, const tt_filling *filling,
                           tt_error *err)
{
    size_t size = tt_dtype_size(t->dtype), wide = stream->widens ? sizeof(float) : size;
    if (tt_tensor_is_contiguous(t) && !t->is_swapped && !stream->widens)
        return put_memory(stream, t, filling, err);
    char *memory = malloc(2 * PIECE), *elements = memory + PIECE;
    if (memory == NULL)
        return tt_output_fail(err, TT_ENOMEM, stream->file->path, tt_status_text(TT_ENOMEM));
    if (filling != NULL)
        filling->wait(filling->context, (size_t)t->count * size);
    float *floats = (float *)(void *)memory;
    tt_status st = TT_OK;
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    while (st == TT_OK && walk.left > 0) {
        size_t n = (uint64_t)walk.left < PIECE / wide ? (size_t)walk.left : PIECE / wide;
        tt_walk_copy(&walk, elements, n * size);
        for (size_t i = 0; stream->widens && i < n; i++)
            floats[i] = (float)tt_element_f64(t->dtype, elements + i * size);
        st = put_bytes(stream, stream->widens ? memory : elements, n * wide, err);
    }
    free(memory);
    return st;
}

tt_status tt_stream_close(tt_stream *stream, tt_status st, tt_error *err)
{
    if (st == TT_OK && stream->waiting.len > 0)
        st = put_bytes(stream, NULL, 0, err);
    tt_buf_free(&stream->waiting);
    return tt_output_close(stream->file, st, err);
}

/* ---- files ------------------------------------------------------------------- */

static tt_status write_all(tt_stream *stream, tt_format format, const tt_content *content,
                           const tt_tensor *t, const tt_filling *filling, tt_error *err)
{
    tt_error why;
    tt_status st =
        formats[format].head != NULL ? formats[format].head(content, &stream->waiting, &why) : TT_OK;
    if (st < 0)
        return tt_output_fail(err, st, stream->file->path, why.text);
    st = tt_stream_tensor(stream, t, filling, err);
    if (st < 0 || !stream->has_crc)
        return st;
    /* The head of an empty tensor is still there; the tail goes behind it. */
    st = tt_pt_tail(content, stream->crc, &stream->waiting);
    return st < 0 ? tt_output_fail(err, st, stream->file->path, tt_status_text(st)) : st;
}

tt_status tt_saved_write(const char *path, tt_format format, const tt_tensor *t, const char *dtype_name,
                         const tt_filling *filling, tt_error *err)
{
    tt_content content = { .dtype = t->dtype,
                           .dtype_name = dtype_name,
                           .ndim = t->ndim,
                           .shape = t->shape,
                           .bytes = (uint64_t)t->count * tt_dtype_size(t->dtype) };
    tt_stream stream = { .has_crc = format == TT_FORMAT_PT,
                         .widens = format == TT_FORMAT_NPY && tt_npy_widens(&content) };
    tt_status st = tt_output_open(path, &stream.file, err);
    if (st == TT_OK)
        st = write_all(&stream, format, &content, t, filling, err);
    return tt_stream_close(&stream, st, err);
}

tt_status tt_file_save(const char *path, tt_format format, const tt_tensor *t, const char *dtype_name,
                       tt_error *err)
{
    return tt_saved_write(path, format, t, dtype_name, NULL, err);
}
