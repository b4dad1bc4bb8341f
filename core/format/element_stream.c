/* element_stream.c -- elements of tensors, one after the other, into a file.
 *
 * Exists because every format here is such a stream between a head and a tail.
 * A piece is gathered, widened and checksummed while it is in the cache, and
 * then written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/element_stream.h"

#include "tensor/walk.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 256 << 10, /* half of what a core has for itself */
    LAG = 1 << 20,     /* bytes the checksum may be behind: until then a helper has come, if one will */
};

static tt_status write_bytes(tt_stream *stream, const void *bytes, size_t n, tt_error *err)
{
    struct iovec part[] = { tt_whole_part(stream->waiting.data, stream->waiting.len),
                            tt_whole_part(bytes, n) };
    tt_status st = tt_whole_write(&stream->file, part, 2, err);
    tt_buf_clear(&stream->waiting);
    return st;
}

/* Written first: by then somebody may have taken over the checksum. */
static tt_status put_bytes(tt_stream *stream, const void *bytes, size_t n, tt_error *err)
{
    tt_status st = write_bytes(stream, bytes, n, err);
    if (st == TT_OK && stream->sum != NULL && n > 0)
        tt_checksum_add(stream->sum, bytes, n);
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

tt_status tt_stream_tensor(tt_stream *stream, const tt_tensor *t, tt_error *err)
{
    alignas(32) char tile[TT_TILE_BYTES];
    float wide[TT_TILE];
    size_t size = tt_dtype_size(t->dtype);
    if (tt_tensor_is_contiguous(t) && !t->is_swapped && !stream->widens)
        return tt_stream_memory(stream, t->dtype, t->data, (size_t)t->count * size, NULL, err);
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

static bool is_filled(const _Atomic size_t *filled, size_t bytes)
{
    return filled == NULL || atomic_load_explicit(filled, memory_order_acquire) >= bytes;
}

/* The n bytes that come after those at *at. */
static bool next_piece(tt_stream *stream, size_t bytes, size_t *at, size_t *n)
{
    if (stream->ends != NULL)
        return tt_ends_claim(stream->ends, at, n);
    *at += *n;
    *n = bytes - *at < PIECE ? bytes - *at : PIECE;
    return *n > 0;
}

tt_status tt_stream_memory(tt_stream *stream, tt_dtype dtype, const char *data, size_t bytes,
                           const _Atomic size_t *filled, tt_error *err)
{
    tt_status st = TT_OK;
    size_t at = 0, n = 0, done = 0, summed = 0;
    bool has_sum = stream->sum != NULL && !stream->widens; /* what is widened is summed on its way */
    while (st == TT_OK && next_piece(stream, bytes, &at, &n)) {
        tt_checksum_wait_filled(filled, at + n);
        if (stream->widens) {
            tt_tensor piece;
            int64_t count = (int64_t)(n / tt_dtype_size(dtype));
            st = tt_tensor_describe(&piece, data + at, dtype, 1, &count, NULL, err);
            if (st == TT_OK)
                st = tt_stream_tensor(stream, &piece, err);
        } else {
            st = write_bytes(stream, data + at, n, err);
        }
        done = at + n;
        /* While it is being filled the checksum waits: whoever fills it may take that
         * over next, and the writer is the one who is late. */
        if (st == TT_OK && has_sum && done - summed >= LAG && is_filled(filled, bytes)) {
            tt_checksum_add(stream->sum, data + summed, done - summed);
            summed = done;
        }
    }
    if (st == TT_OK && has_sum && done > summed)
        tt_checksum_add(stream->sum, data + summed, done - summed);
    if (st == TT_OK && done < bytes) { /* the rest is a helper's */
        st = tt_whole_skip(&stream->file, bytes - done, err);
        if (has_sum)
            tt_checksum_add_crc(stream->sum, stream->ends->crc, bytes - done);
    }
    return st;
}

tt_status tt_stream_close(tt_stream *stream, tt_status st, tt_error *err)
{
    if (st == TT_OK && stream->waiting.len > 0)
        st = put_bytes(stream, NULL, 0, err);
    st = tt_whole_close(&stream->file, st, err);
    tt_buf_free(&stream->waiting);
    return st;
}
