/* element_stream.c -- elements of tensors, one after the other, into a file.
 *
 * Exists because every format here is such a stream between a head and a tail.
 * A piece is gathered, widened and checksummed while it is in the cache, and
 * then written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/element_stream.h"

#include "format/zip.h"
#include "tensor/walk.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 << 10 }; /* half of what a core has for itself */

void tt_stream_sum(tt_stream *stream, const void *bytes, size_t n)
{
    if (stream->has_crc && n > 0)
        stream->crc = tt_crc32(stream->crc, bytes, n);
}

/* The checksum first: it brings the piece into the cache. */
static tt_status put_bytes(tt_stream *stream, const void *bytes, size_t n, tt_error *err)
{
    tt_stream_sum(stream, bytes, n);
    struct iovec part[] = { tt_whole_part(stream->waiting.data, stream->waiting.len),
                            tt_whole_part(bytes, n) };
    tt_status st = tt_whole_write(&stream->file, part, 2, err);
    tt_buf_clear(&stream->waiting);
    return st;
}

/* A buffer in which short runs become pieces. */
typedef struct gathering {
    tt_stream *stream;
    char *piece; /* owned; PIECE bytes */
    size_t len;
} gathering;

static tt_status gather(gathering *g, const void *bytes, size_t n, tt_error *err)
{
    tt_status st = TT_OK;
    if (g->len + n > PIECE) {
        st = put_bytes(g->stream, g->piece, g->len, err);
        g->len = 0;
    }
    memcpy(g->piece + g->len, bytes, n);
    g->len += n;
    return st;
}

static tt_status put_memory(tt_stream *stream, const char *data, size_t bytes,
                            const tt_elements *elements, tt_error *err)
{
    tt_status st = TT_OK;
    for (size_t at = 0, n; st == TT_OK && at < bytes; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        if (elements != NULL && elements->wait != NULL)
            elements->wait(elements->context, at + n);
        st = put_bytes(stream, data + at, n, err);
    }
    return st;
}

tt_status tt_stream_tensor(tt_stream *stream, const tt_tensor *t, tt_error *err)
{
    alignas(32) char tile[TT_TILE_BYTES];
    float wide[TT_TILE];
    size_t size = tt_dtype_size(t->dtype);
    if (tt_tensor_is_contiguous(t) && !t->is_swapped && !stream->widens)
        return put_memory(stream, t->data, (size_t)t->count * size, NULL, err);
    gathering g = { .stream = stream, .piece = malloc(PIECE) };
    if (g.piece == NULL)
        return tt_whole_fail(err, TT_ENOMEM, stream->file.path, tt_status_text(TT_ENOMEM));
    tt_status st = TT_OK;
    tt_walk walk;
    const void *run;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t n; st == TT_OK && (n = tt_walk_next(&walk, tile, TT_TILE, &run)) > 0;) {
        for (size_t i = 0; stream->widens && i < n; i++)
            wide[i] = (float)tt_element_f64(t->dtype, (const char *)run + i * size);
        st = stream->widens ? gather(&g, wide, n * sizeof *wide, err) : gather(&g, run, n * size, err);
    }
    if (st == TT_OK && g.len > 0)
        st = put_bytes(stream, g.piece, g.len, err);
    free(g.piece);
    return st;
}

tt_status tt_stream_memory(tt_stream *stream, const tt_content *content, const tt_elements *elements,
                           tt_error *err)
{
    if (!stream->widens)
        return put_memory(stream, elements->data, content->bytes, elements, err);
    tt_tensor all;
    int64_t count = (int64_t)(content->bytes / tt_dtype_size(content->dtype));
    tt_status st = tt_tensor_describe(&all, elements->data, content->dtype, 1, &count, NULL, err);
    if (st == TT_OK && elements->wait != NULL)
        elements->wait(elements->context, content->bytes);
    return st == TT_OK ? tt_stream_tensor(stream, &all, err) : st;
}

tt_status tt_stream_close(tt_stream *stream, tt_status st, tt_error *err)
{
    if (st == TT_OK && stream->waiting.len > 0)
        st = put_bytes(stream, NULL, 0, err);
    st = tt_whole_close(&stream->file, st, err);
    tt_buf_free(&stream->waiting);
    return st;
}
