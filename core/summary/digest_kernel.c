/* digest_kernel.c -- XXH3-128, compiled into each instruction set.
 *
 * Exists because the shared library picks its code for the oldest machine;
 * built in, the long loop runs close to the speed of memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void TT_KERNEL(digest_bytes)(const void *bytes, size_t len, tt_digest *out)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, len);
    *out = (tt_digest){ .low = hash.low64, .high = hash.high64 };
}

void TT_KERNEL(digest_add)(void *state, const void *bytes, size_t len)
{
    (void)XXH3_128bits_update(state, bytes, len);
}
