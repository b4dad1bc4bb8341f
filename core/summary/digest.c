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

enum { HEADER = 8, INNER = 16 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bytes that are hashed are little-endian");
_Static_assert(TT_DTYPE_COUNT_ <= 256 && TT_MAX_DIM <= 256, "both fit into one byte of the header");

void tt_digest_with(const tt_kernels *k, const tt_tensor *t, tt_digest *out)
{
    size_t item = tt_dtype_size(t->dtype);
    tt_digest inner;
    if (tt_tensor_is_contiguous(t) && !(t->is_swapped && item > 1)) {
        k->digest_bytes(t->data, (size_t)t->count * item, &inner);
    } else {
        tt_walk walk;
        tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
        k->digest_walk(&walk, &inner);
    }
    char head[HEADER + TT_MAX_DIM * sizeof(int64_t) + INNER] = { (char)t->dtype, (char)t->ndim };
    size_t len = HEADER;
    memcpy(head + len, t->shape, (size_t)t->ndim * sizeof *t->shape);
    len += (size_t)t->ndim * sizeof *t->shape;
    memcpy(head + len, &inner.low, sizeof inner.low);
    memcpy(head + len + 8, &inner.high, sizeof inner.high);
    k->digest_bytes(head, len + INNER, out);
}

void tt_digest_compute(const tt_tensor *t, tt_digest *out)
{
    tt_digest_with(tt_kernels_get(), t, out);
}
