/* stream_kernel.c -- copies memory for another core to read.
 *
 * Exists because a buffer that goes back and forth between two cores is slow to
 * write with ordinary stores: each line must be fetched back from the other
 * core's cache before it is overwritten.  Measured for 1 MB, into a buffer that
 * another core has read: memcpy 200 us, this 60 us; into one's own: both 55 us.
 * Streaming stores overwrite without fetching.  They belong to every x86-64, so
 * there is nothing to choose; elsewhere this is memcpy.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/stream_kernel.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

enum { LINE = 64, SMALL = 4096 };

void tt_stream_copy(void *to, const void *from, size_t n)
{
    char *at = to;
    const char *source = from;
    size_t head = (size_t)(-(uintptr_t)at & (LINE - 1));
    if (n < SMALL) {
        memcpy(to, from, n);
        return;
    }
    memcpy(at, source, head);
    at += head;
    source += head;
    n -= head;
    for (; n >= LINE; n -= LINE, at += LINE, source += LINE) {
        const __m128i *lane = (const void *)source;
        __m128i a = _mm_loadu_si128(lane), b = _mm_loadu_si128(lane + 1);
        __m128i c = _mm_loadu_si128(lane + 2), d = _mm_loadu_si128(lane + 3);
        _mm_stream_si128((void *)at, a);
        _mm_stream_si128((void *)(at + 16), b);
        _mm_stream_si128((void *)(at + 32), c);
        _mm_stream_si128((void *)(at + 48), d);
    }
    memcpy(at, source, n);
    _mm_sfence(); /* streaming stores are in no order of their own */
}
#else
void tt_stream_copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}
#endif
