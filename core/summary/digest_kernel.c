/* digest_kernel.c -- XXH3-128, compiled into each instruction set.
 *
 * Exists because the shared library picks its code for the oldest machine;
 * built in, the long loop runs close to the speed of memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"
#include "tensor/walk.h"

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

/* The same number for elements that do not lie behind each other. */
void TT_KERNEL(digest_walk)(tt_walk *walk, tt_digest *out)
{
    _Alignas(32) char buffer[TT_TILE_BYTES];
    XXH3_state_t state;
    (void)XXH3_128bits_reset(&state);
    const void *run;
    for (size_t n; (n = tt_walk_next(walk, buffer, TT_TILE, &run)) > 0;)
        (void)XXH3_128bits_update(&state, run, n * walk->item);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    *out = (tt_digest){ .low = hash.low64, .high = hash.high64 };
}
