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

enum { PIECE = 256 << 10 }; /* copied, then shown to the writer */

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
    atomic_store_explicit(&to->filled, 0, memory_order_relaxed);
    to->work = (tt_shared_work){ 0 };
    to->helpers = 0;
}

void tt_job_copy(tt_job *to, const tt_tensor *t)
{
    size_t bytes = to->content.bytes, at = 0, size = tt_dtype_size(t->dtype);
    if (tt_tensor_is_contiguous(t) && !t->is_swapped) {
        while (at < bytes) {
            size_t n = bytes - at < PIECE ? bytes - at : PIECE;
            tt_stream_copy(to->data + at, (const char *)t->data + at, n);
            at += n;
            atomic_store_explicit(&to->filled, at, memory_order_release);
        }
        return;
    }
    alignas(32) char tile[TT_TILE_BYTES];
    tt_walk walk;
    const void *elements;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t n; (n = tt_walk_next(&walk, tile, TT_TILE, &elements)) > 0;) {
        memcpy(to->data + at, elements, n * size);
        at += n * size;
        atomic_store_explicit(&to->filled, at, memory_order_release);
    }
}
