/* job.c -- a tensor's copy on its way to a file.
 *
 * Exists apart from the saver because this is what the program's own thread pays
 * for: one block, one copy, no lock.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/job.h"

#include "tensor/stream_kernel.h"
#include "tensor/walk.h"

#include <stdalign.h>
#include <string.h>

enum { PIECE = 256 << 10 }; /* copied before the writer is told */

static size_t round_up(size_t n)
{
    return (n + TT_JOB_ALIGN - 1) & ~(size_t)(TT_JOB_ALIGN - 1);
}

size_t tt_job_size(const char *path, const tt_content *content)
{
    return round_up(sizeof(tt_job) + strlen(path) + 1) + round_up(content->bytes);
}

void tt_job_fill(tt_job *to, const char *path, tt_format format, const tt_content *content)
{
    size_t path_len = strlen(path) + 1;
    to->next = NULL;
    to->path = memcpy((char *)to + sizeof *to, path, path_len);
    to->format = format;
    to->data = (char *)to + round_up(sizeof *to + path_len);
    to->content = *content;
    to->content.shape = to->shape;
    memcpy(to->shape, content->shape, (size_t)content->ndim * sizeof *to->shape);
    if (content->dtype_name != NULL) {
        strncpy(to->dtype_name, content->dtype_name, sizeof to->dtype_name - 1);
        to->dtype_name[sizeof to->dtype_name - 1] = '\0';
        to->content.dtype_name = to->dtype_name;
    }
    to->filled = 0;
}

void tt_job_copy(tt_job *to, const tt_tensor *t, void (*filled)(void *context, tt_job *to, size_t bytes),
                 void *context)
{
    size_t bytes = to->content.bytes, at = 0, told = 0, size = tt_dtype_size(t->dtype);
    bool is_plain = tt_tensor_is_contiguous(t) && !t->is_swapped;
    alignas(32) char tile[TT_TILE_BYTES];
    tt_walk walk;
    const void *elements;
    if (!is_plain)
        tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    while (at < bytes) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        if (is_plain) {
            tt_stream_copy(to->data + at, (const char *)t->data + at, n);
        } else {
            n = tt_walk_next(&walk, tile, TT_TILE, &elements) * size;
            memcpy(to->data + at, elements, n);
        }
        at += n;
        if (at - told >= PIECE || at == bytes) {
            filled(context, to, at);
            told = at;
        }
    }
}
