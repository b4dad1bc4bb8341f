/* digest.h -- one number that stands for the contents of a tensor.
 *
 * For the store, which keeps equal tensors once, and for tests.  The digest is
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
#ifndef TT_SUMMARY_DIGEST_H
#define TT_SUMMARY_DIGEST_H

#include "summary/kernels.h"

void tt_digest_with(const tt_kernels *k, const tt_tensor *t, tt_digest *out);

#endif
