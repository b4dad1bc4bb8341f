/* digest.c -- one number that stands for the contents of a tensor.
 *
 * Exists so that "is it the same tensor?" costs one read of the memory and no
 * copy.  Bytes are what counts: -0 differs from 0, NaN payloads differ, and so
 * do the bool bytes 1 and 2.  The digest is
 *
 *     inner  = XXH3-128 of the elements in logical order, little-endian
 *     digest = XXH3-128 of  dtype (1 byte, the number of TT_DTYPE_MAP)
 *                           ndim  (1 byte), six zero bytes
 *                           shape (8 bytes a dimension, little-endian)
 *                           inner (16 bytes, low half first, little-endian)
 *
 * Hashing the header with the inner hash, rather than seeding the inner hash
 * with it, keeps the long loop the plain unseeded XXH3 that every other tool
 * computes: `xxhsum -H2` of a file checks it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"
#include "tensor/walk.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HEADER = 8, INNER = 16 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bytes that are hashed are little-endian");
_Static_assert(TT_DTYPE_COUNT_ <= 256 && TT_MAX_DIM <= 256, "both fit into one byte of the header");

/* Of elements that do not lie behind each other. */
static tt_digest digest_walk(const tt_tensor *t)
{
    _Alignas(32) char buffer[TT_TILE_BYTES];
    XXH3_state_t state;
    tt_walk walk;
    const void *run;
    (void)XXH3_128bits_reset(&state);
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0;)
        tt_kernels_get()->digest_add(&state, run, n * walk.item);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return (tt_digest){ .low = hash.low64, .high = hash.high64 };
}

void tt_digest_compute(const tt_tensor *t, tt_digest *out)
{
    const tt_kernels *k = tt_kernels_get();
    size_t item = tt_dtype_size(t->dtype);
    tt_digest inner;
    if (tt_tensor_is_contiguous(t) && !(t->is_swapped && item > 1))
        k->digest_bytes(t->data, (size_t)t->count * item, &inner);
    else
        inner = digest_walk(t);
    char head[HEADER + TT_MAX_DIM * sizeof(int64_t) + INNER] = { (char)t->dtype, (char)t->ndim };
    size_t len = HEADER;
    memcpy(head + len, t->shape, (size_t)t->ndim * sizeof *t->shape);
    len += (size_t)t->ndim * sizeof *t->shape;
    memcpy(head + len, &inner.low, sizeof inner.low);
    memcpy(head + len + 8, &inner.high, sizeof inner.high);
    k->digest_bytes(head, len + INNER, out);
}
