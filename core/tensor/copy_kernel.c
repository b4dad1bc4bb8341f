/* copy_kernel.c -- copies a tensor, past the caches if it is large.
 *
 * Exists because nobody reads a copy of all weights soon.  Streaming stores do not
 * read the memory that they are about to write, and leave the program's data in the
 * caches (bench_blackbox.py).
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/walk.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

enum { LINE = 64 /* bytes of a cache line, which is stored at once */ };

static void copy_past_caches(char *to, const char *from, size_t len)
{
    size_t at = -(uintptr_t)to % LINE;
    memcpy(to, from, at);
    for (; at + LINE <= len; at += LINE)
        for (size_t i = at; i < at + LINE; i += sizeof(__m128i))
            _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
    _mm_sfence(); /* other threads see the copy no later than what we store next */
    memcpy(to + at, from + at, len - at);
}
#else
static void copy_past_caches(char *to, const char *from, size_t len)
{
    memcpy(to, from, len);
}
#endif

enum { LARGE = 1 << 16 /* bytes */ };

void tt_tensor_copy(const tt_tensor *t, void *out)
{
    size_t len = (size_t)t->count * tt_dtype_size(t->dtype);
    tt_walk walk;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    if (walk.is_direct && walk.ndim == 1 && len >= LARGE)
        copy_past_caches(out, walk.at, len);
    else
        tt_walk_copy(&walk, out, len);
}
